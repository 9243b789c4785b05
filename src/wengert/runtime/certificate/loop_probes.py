"""Probes of the loop passes: the scans and loops on which each is tested."""

from __future__ import annotations

from typing import Any

from wengert.autodiff.cond import while_loop
from wengert.autodiff.reverse import no_grad
from wengert.autodiff.scan import scan
from wengert.core.dtypes import float32, float64, int8, int32
from wengert.core.graph import Node
from wengert.ops import elementwise as e
from wengert.ops import movement as m
from wengert.ops.core import literal
from wengert.ops.linalg import MATMUL
from wengert.runtime.certificate import cases as c
from wengert.runtime.certificate.cases import Cases
from wengert.tensor import Tensor


def _carried(x: Node, y: Node) -> Any:
    """A carry that nobody reads, one that does not change, and results that no step has to compute."""

    def step(carry: Any, item: Any) -> Any:
        a, dead, same = carry
        return (e.maximum(a.node, item.node), dead * item, same), (item, same, e.minimum(a.node, item.node))

    carry, ys = scan(step, (Tensor(x), Tensor(y), Tensor(y)), Tensor(m.reshape(x, (1, *x.shape))))
    return [carry[0].node, carry[2].node, *[each.node for each in ys]]


def _same_in_steps(x: Node, y: Node) -> Any:
    """What does not depend on the carry of a scan, and of a while_loop, and what is read from it."""
    carry, _ = scan(lambda c, _: (e.maximum(c.node, e.sin(y) * y), None), Tensor(x), length=2)
    count = Tensor(literal(0, int32, x.device))
    looped = while_loop(
        lambda s: s[0] < 2, lambda s: (s[0] + 1, e.maximum(s[1].node, e.sin(y) * y)), (count, Tensor(x))
    )
    return [carry.node, looped[1].node]


def _in_steps(xs: Node, w: Node) -> Any:
    """Products of what steps read, products that no carry depends on, and sums of products over steps."""

    def step(carry: Any, item: Any) -> Any:
        h, total = carry
        h = Tensor(e.tanh(MATMUL(item.node, w) + h.node))
        return (h, total + MATMUL(m.permute_dims(item.node, (1, 0)), h.node)), MATMUL(h.node, w)

    rows, columns = xs.shape[1:]
    start = [Tensor(m.slice_axis(part, 0, 0, rows)) for part in (w, w)]
    with no_grad():  # a tracked scan keeps its carries, which `loop_dce` drops
        carry, ys = scan(
            step, (start[0], Tensor(m.broadcast_to(literal(1, w.dtype, w.device), (columns, columns)))), Tensor(xs)
        )
    return [*[each.node for each in carry], ys.node]


def _side_by_side(x: Node, y: Node) -> Any:
    """Two scans over the same, the second of which needs nothing of the first."""
    items = Tensor(m.broadcast_to(m.reshape(y, (1, *y.shape)), (3, *y.shape)))
    first, ys = scan(lambda c, i: (e.maximum(c.node, i.node), c), Tensor(x), items)
    second, _ = scan(lambda c, i: (e.minimum(c.node, i.node) * 2, None), Tensor(y), items)
    return [first.node, ys.node, second.node]


LOOPS: dict[str, list[Cases]] = {
    "loop_dce": [c.elements(_carried, 2, (float32, int8))],
    "loop_invariants": [c.elements(_same_in_steps, 2, (float32, float64))],
    "loop_fusion": [c.elements(_side_by_side, 2, (float32, int8))],
    **{name: [c.drawn(_in_steps, [(5, 4, 40), (40, 40)])] for name in ("loop_inputs", "loop_sums", "loop_outputs")},
}
"""Those of whole passes."""
