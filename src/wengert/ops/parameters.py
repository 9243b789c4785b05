"""Functions of several real operands without C, or whose derivative in one operand is a function of its own.

`Several` is an elementwise op with attributes: its reference is computed in float64 whatever the dtype, its derivative
by an operand is a function, or None: it is a step there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Unpack

import numpy as np

from wengert.core.dtypes import float64, promote
from wengert.core.errors import DTypeError
from wengert.core.graph import Node
from wengert.ops.core import cast, operands
from wengert.ops.elementwise import SMOOTH_REAL, add, safe_multiply
from wengert.ops.facts import Facts, Template
from wengert.ops.op import Op
from wengert.ops.recorders import broadcast_shapes, with_rank

Derivative = Callable[..., Any] | None


class Several(Op):
    """An elementwise op of several operands; see the module docstring."""

    def __init__(
        self,
        name: str,
        numpy: Callable[..., Any],
        derivatives: Sequence[Derivative],
        *,
        c: Template = None,
        **facts: Unpack[Facts],
    ) -> None:
        facts.setdefault("kind", "elementwise")
        facts.setdefault("ulp", 64)
        self.derivatives = derivatives
        super().__init__(
            name,
            infer=lambda *xs, **attrs: (broadcast_shapes(name, *[x.shape for x in xs]), xs[-1].dtype),
            numpy=lambda *xs, **attrs: _in_float64(numpy, xs, attrs),
            vjp=tuple(_pulled(derivative) for derivative in derivatives),
            jvp=self._pushed,
            batch=self._over_lanes,
            c=c,
            **facts,
        )

    def _pushed(self, tangents: Sequence[Node | None], y: Node, *sources: Node) -> Node | None:
        total: Node | None = None
        for tangent, derivative in zip(tangents, self.derivatives):
            slope = None if tangent is None or derivative is None else derivative(y, *sources)
            if slope is not None:
                term = safe_multiply(tangent, slope)
                total = term if total is None else add(total, term)
        return total

    def _over_lanes(self, y: Node, sources: Sequence[Node], batched: Sequence[bool]) -> Node:
        rank = len(y.shape)
        return self(*[with_rank(s, rank) if b else s for s, b in zip(sources, batched)], **y.attrs)


def _pulled(derivative: Derivative) -> Callable[..., Node | None]:
    if derivative is None:
        return lambda g, y, *sources: None
    return lambda g, y, *sources: safe_multiply(g, derivative(y, *sources))


def _in_float64(reference: Callable[..., Any], xs: Sequence[Any], attrs: dict[str, Any]) -> Any:
    wide = np.broadcast_arrays(*[np.asarray(x, float64) for x in xs])
    with np.errstate(all="ignore"):
        return np.asarray(reference(*[x.reshape(-1) for x in wide], **attrs)).reshape(wide[0].shape)


def real_operands(name: str, *values: Any) -> list[Node]:
    """Real operands, in the dtype in which they are computed; integers become the default float dtype."""
    nodes = operands(*values)
    meet = nodes[0].dtype
    for node in nodes[1:]:
        meet = promote(meet, node.dtype)
    compute, _ = SMOOTH_REAL.get(meet, (None, None))
    if compute is None:
        raise DTypeError(f"{name} does not take {meet}; it takes real numbers")
    return [cast(node, compute) for node in nodes]
