"""The passes, in order, and verification: from a recorded graph to one that is ready for fusion and scheduling.

In: a graph. Out: the graph after all passes, and a report on each. Whatever varies between calls must be an input of
the graph; every other array counts as a constant. Each pass runs over the bodies (of `scan`, `cond`, `while_loop`,
`checkpoint`) just before the graph around them, so that what it moves out of a body is at the same stage as its
neighbours.

`verify` checks a graph before and after the passes, and after each one to find the pass at fault: sources come first
and are known (inputs, nodes, constants); every op's `infer` gives the recorded type, including checks that movement ops
and reductions leave to their public functions; devices agree; no node reads a graph that was freed; attributes are
plain values; inputs and outputs are as before. If not, a CompilerError names the pass, the node and the user's line.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, NoReturn

import numpy as np

from wengert.autodiff.cond import WHILE
from wengert.autodiff.scan import SCAN
from wengert.compiler.align import align
from wengert.compiler.attention_layout import attention_layout
from wengert.compiler.cleanup import cse, dce, inline
from wengert.compiler.contiguous_collectives import contiguous_collectives
from wengert.compiler.fixed_order import fixed_order
from wengert.compiler.join_matmul import join_matmul
from wengert.compiler.layout import layout
from wengert.compiler.loop_fusion import loop_fusion
from wengert.compiler.loop_motion import loop_dce, loop_inputs, loop_invariants, loop_outputs
from wengert.compiler.loop_sums import loop_sums
from wengert.compiler.matmul import batch_matmul, gemv_to_reduction, transpose_matmul
from wengert.compiler.reductions import factor, onehot
from wengert.compiler.remat import remat
from wengert.compiler.rewrite import Pass, begin, bodies_of, limited, with_bodies
from wengert.compiler.rewrite import fuel as tank
from wengert.compiler.simplify import simplify
from wengert.core.devices import HOST, HOST_TARGET, Target
from wengert.core.errors import CompilerError, WengertError
from wengert.core.graph import RELEASED, Graph, Node, Shape, describe_type, has_array
from wengert.ops import elementwise as e
from wengert.ops.core import LITERAL, TO_DEVICE, to_device
from wengert.ops.movement import BROADCAST, FLIP, PERMUTE, PLACE, RESHAPE, SLICE
from wengert.ops.op import Op
from wengert.ops.recorders import Elementwise
from wengert.ops.reduce import ALL, ANY, MAX, MIN, PROD, SUM

PASSES: tuple[Pass, ...] = (
    *(inline, contiguous_collectives, simplify, cse),
    *(loop_dce, loop_invariants, loop_inputs, loop_sums, loop_outputs, loop_fusion, loop_dce),
    *(batch_matmul, transpose_matmul, gemv_to_reduction, attention_layout, factor),
    *(simplify, cse, onehot, layout, join_matmul, align, dce, remat),
)
"""In the order they run. The second round is for what merging, turning and the others before brought together."""

INVARIANT: tuple[Pass, ...] = (
    *(inline, contiguous_collectives, fixed_order, simplify, cse),
    *(loop_dce, loop_invariants, loop_fusion, transpose_matmul, attention_layout, dce, remat),
)
"""Those under `config.invariant`: sums get their order first, and what changes bits stays away."""

NEVER, BEFORE_AND_AFTER, AFTER_EACH = "never", "before and after", "after each"  # when a graph is verified


@dataclass(frozen=True)
class PassReport:
    """What a pass did: nodes before and after, number of rewrites, seconds, and the resulting graph.

    `rules` counts how often each rule fired, bodies included; a pass with a single rule lists it under "".
    """

    name: str
    before: int
    after: int
    rewrites: int
    seconds: float
    graph: Graph
    rules: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{self.name:<17} {self.before:>6} -> {self.after:<6} {self.rewrites:>6} rewrites {self.seconds:8.4f} s"


def optimize(
    graph: Graph,
    passes: Sequence[Pass] = PASSES,
    off: Collection[str] = (),
    fuel: int | None = None,
    check: bool = True,
    target: Target = HOST_TARGET,
) -> tuple[Graph, list[PassReport]]:
    """The graph after the passes, except those named in `off`, and a report on each.

    `fuel` stops the passes after that many rewrites, to find a faulty one. `check` verifies the graph before and after
    all passes, and on failure again after each, to name the pass. `target` is what the graph is compiled for; an
    invariant target has additional passes.

    >>> import wengert as wg
    >>> from wengert.ops.core import placeholder
    >>> x = placeholder((2, 3), wg.float32)
    >>> graph, reports = optimize(Graph([x], [x * 1.0 + x * 1.0]))
    >>> [node.op.name for node in graph.nodes], [report.name for report in reports][:4]
    (['add'], ['inline', 'contiguous_collectives', 'simplify', 'cse'])
    """
    passes = [one for one in (INVARIANT if target.invariant else passes) if one.__name__ not in off]
    if fuel is not None:
        with limited(fuel):
            return optimize(graph, passes, (), None, check, target)
    left = tank.left  # of the caller's graph
    try:
        return _through(graph, passes, target, BEFORE_AND_AFTER if check else NEVER)
    except Exception:
        if check:
            tank.left = left
            _through(graph, passes, target, AFTER_EACH)
        raise


def _through(graph: Graph, passes: Sequence[Pass], target: Target, verified: str) -> tuple[Graph, list[PassReport]]:
    if verified != NEVER:
        verify(graph)
    recorded, reports = graph, list[PassReport]()
    for one in passes:
        begin(one.__name__)
        rewrites, start = tank.spent, perf_counter()
        result = _applied(one, graph, target, {})
        seconds = perf_counter() - start
        if verified == AFTER_EACH and result is not graph:
            verify(result, one.__name__, graph)
        counts = len(graph.nodes), len(result.nodes), tank.spent - rewrites
        reports.append(PassReport(one.__name__, *counts, seconds, result, dict(tank.rules)))
        graph = result
    if verified == BEFORE_AND_AFTER:
        verify(graph, "the passes", recorded)
    return graph, reports


def _on_their_devices(graph: Graph, before: Graph) -> Graph:
    """The graph with its outputs on their original devices: a constant that replaced one moves there."""
    pairs = list(zip(graph.outputs, before.outputs))
    if all(now.device == then.device for now, then in pairs):
        return graph
    outputs = [to_device(now, then.device) for now, then in pairs]
    known = set(graph.nodes)
    moves = [node for node in dict.fromkeys(outputs) if node.op is TO_DEVICE and node not in known]
    return Graph(graph.inputs, outputs, nodes=[*graph.nodes, *moves])


# --- bodies ---------------------------------------------------------------------------------------------------------


def _applied(one: Pass, graph: Graph, target: Target, done: dict[Graph, Graph]) -> Graph:
    """A pass applied to the bodies in a graph, each once however many ops share it, and then to the graph."""
    if any(bodies_of(node) for node in graph.nodes):
        graph = with_bodies(graph, lambda body: _applied(one, body, target, done), done)
    return _on_their_devices(one(graph, target), graph)


# --- verification ---------------------------------------------------------------------------------------------------


def verify(graph: Graph, name: str = "recording", before: Graph | None = None) -> Graph:
    """Returns the graph if it is valid. `name` is the pass that made it from `before`, which was verified already.

    Nodes are immutable, so nodes that were verified before stay valid.
    """
    known = {*graph.inputs, *(() if before is None else before.captured())}
    verified = frozenset(() if before is None else before.nodes)
    for node in graph.nodes:
        if node in known:
            _fail(name, node, "stands in the graph twice, or is an input of it")
        for source in node.sources:
            if source not in known:
                if not _is_constant(source):
                    _fail(name, node, f"reads {source!r}, which is no input, no constant and not computed before it")
                known.add(source)
        if node not in verified:
            for body in bodies_of(node):
                verify(body, name)
            problem = _problem(node)
            if problem:
                _fail(name, node, problem)
        known.add(node)
    for node in graph.outputs:
        if node not in known and not _is_constant(node):
            _fail(name, node, "is an output and never computed")
    if before is not None:
        _compare(name, graph, before)
    return graph


def _fail(name: str, node: Node, problem: str) -> NoReturn:
    raise CompilerError(f"after {name}: {node.op.name} {describe_type(node)} {problem}", node.location)


def _is_constant(node: Node) -> bool:
    return node.op is LITERAL or has_array(node) or isinstance(node.buffer, tuple)


def _compare(name: str, graph: Graph, before: Graph) -> None:
    """Check that the inputs are the same nodes, and that the outputs match in number and type."""
    if graph.inputs != before.inputs:
        raise CompilerError(f"after {name}: the graph's inputs are not those it had before")
    if len(graph.outputs) != len(before.outputs):
        raise CompilerError(f"after {name}: there are {len(graph.outputs)} outputs, before {len(before.outputs)}")
    for i, (now, then) in enumerate(zip(graph.outputs, before.outputs)):
        if now.shape != then.shape or now.dtype != then.dtype or now.device != then.device:
            _fail(name, now, f"is output {i}, which was {describe_type(then)} on {then.device} before")


def _problem(node: Node) -> str | None:
    """A node's defect, or None; its sources have been checked."""
    if node.sources is RELEASED:
        return "was freed by an earlier backward()"
    for key, value in node.attrs.items():
        if not _is_plain(value):
            return f"has the attribute {key} = {value!r}, which is no plain value"
    for source in node.sources:
        if source.device not in (node.device, HOST) and node.op is not TO_DEVICE:
            return f"on {node.device} reads {source!r} on {source.device}"
    check = _CHECKS.get(node.op)
    problem = check(node, *node.sources) if check is not None else None
    return problem or _mismatch(node)


def _mismatch(node: Node) -> str | None:
    """Where the inferred type differs from the recorded one."""
    if isinstance(node.op, Elementwise):
        dtypes = {source.dtype for source in (node.sources[1:] if node.op is e.where else node.sources)}
        if len(dtypes) > 1:
            return f"has operands of dtypes {sorted(d.name for d in dtypes)}"
    try:
        shape, dtype = node.op.infer(*node.sources, **node.attrs)
    except (WengertError, TypeError, ValueError, IndexError) as error:
        return f"does not fit its sources: {getattr(error, 'message', error)}"
    if shape != node.shape:
        return f"should have shape {shape} by its op's rule"
    return None if dtype == node.dtype else f"should be {dtype} by its op's rule"


_PLAIN = frozenset((int, float, complex, bool, str, type(None)))


def _is_plain(value: Any) -> bool:
    """Whether an attribute is plain: numbers, names, dtypes and tuples of them, or a graph, rule or slot."""
    if type(value) in _PLAIN or isinstance(value, np.dtype):
        return True
    if type(value) is tuple:
        return all(type(item) in _PLAIN or _is_plain(item) for item in value)
    return not isinstance(value, (np.ndarray, np.generic, Node, list, dict, set))


def _reshape(node: Node, x: Node) -> str | None:
    return None if math.prod(node.shape) == x.size else f"has not as many elements as its source {list(x.shape)}"


def _broadcast(node: Node, x: Node) -> str | None:
    aligned = (1,) * (len(node.shape) - len(x.shape)) + x.shape
    fits = len(aligned) == len(node.shape) and all(m in (1, n) for m, n in zip(aligned, node.shape))
    return None if fits else f"is nothing that {list(x.shape)} broadcasts to"


def _permute(node: Node, x: Node) -> str | None:
    axes = node.attrs["axes"]
    return None if sorted(axes) == list(range(len(x.shape))) else f"has axes {axes} for shape {list(x.shape)}"


def _outside(whole: Shape, starts: Shape, steps: Shape, sizes: Shape) -> str | None:
    ranks = {len(whole), len(starts), len(steps), len(sizes)}
    inside = len(ranks) == 1 and all(
        s >= 0 and t >= 1 and (n == 0 or s + (n - 1) * t < w) for w, s, t, n in zip(whole, starts, steps, sizes)
    )
    return None if inside else f"from {starts} by {steps} with {sizes} elements goes out of shape {list(whole)}"


def _slice(node: Node, x: Node) -> str | None:
    return _outside(x.shape, node.attrs["starts"], node.attrs["steps"], node.attrs["sizes"])


def _place(node: Node, x: Node) -> str | None:
    return _outside(node.shape, node.attrs["starts"], node.attrs["steps"], x.shape)


def _axes(node: Node, x: Node) -> str | None:
    axes = node.attrs["axes"]
    fits = list(axes) == sorted(set(axes)) and all(0 <= a < len(x.shape) for a in axes)
    return None if fits else f"has axes {axes} for shape {list(x.shape)}"


def _scan(node: Node, *sources: Node) -> str | None:
    attrs = node.attrs
    body, xs = attrs["body"], attrs["constants"] + attrs["carries"]
    shapes = [s.shape if i < xs else s.shape[1:] for i, s in enumerate(sources)]
    if any(s.shape[:1] != (attrs["steps"],) for s in sources[xs:]):
        return f"steps over values that have not {attrs['steps']} elements along their first axis"
    return _unlike(body, shapes, sources) or _carry(body.inputs[attrs["constants"] : xs], body.outputs)


def _while(node: Node, *sources: Node) -> str | None:
    test, step, lanes = node.attrs["test"], node.attrs["step"], node.attrs["lanes"]
    shapes = [s.shape if lanes is None else s.shape[1:] for s in sources]
    if lanes is not None and any(s.shape[:1] not in ((lanes,), (1,)) for s in sources):
        return f"is over {lanes} lanes and reads values that have neither so many nor one for all"
    wrong = _unlike(test, shapes, sources) or _unlike(step, shapes, sources)
    return wrong or _carry(step.inputs[node.attrs["constants"] :], step.outputs)


def _unlike(body: Graph, shapes: Sequence[Shape], sources: Sequence[Node]) -> str | None:
    """Where a body's inputs do not match its operands."""
    given = [(shape, source.dtype) for shape, source in zip(shapes, sources)]
    wanted = [(node.shape, node.dtype) for node in body.inputs]
    return None if given == wanted else f"gives its body {given} where {wanted} are its inputs"


def _carry(before: Sequence[Node], after: Sequence[Node]) -> str | None:
    """Where a carry changes its type over a step."""
    for i, (a, b) in enumerate(zip(before, after)):
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            return f"has carry {i} as {describe_type(a)} before a step and {describe_type(b)} after it"
    return None


def _where(node: Node, *sources: Node) -> str | None:
    return None if sources[0].dtype.kind == "b" else f"chooses by {describe_type(sources[0])}, which is no boolean"


_CHECKS: dict[Op, Callable[..., str | None]] = {
    RESHAPE: _reshape,
    BROADCAST: _broadcast,
    PERMUTE: _permute,
    SLICE: _slice,
    PLACE: _place,
    FLIP: _axes,
    **dict.fromkeys((SUM, MAX, MIN, PROD, ALL, ANY), _axes),
    e.where: _where,
    SCAN: _scan,
    WHILE: _while,
}
