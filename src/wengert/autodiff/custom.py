"""`custom_vjp` and `custom_jvp`: derivative rules of the user's own.

A call is recorded as one op that passes on the function's results and uses the rule as its derivative. What
the rule itself computes is recorded as usual, so it can be differentiated again.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any

from wengert.autodiff.reverse import of_kind, or_zero
from wengert.autodiff.vectorize import vmap
from wengert.core import tree
from wengert.core.errors import ArgumentError, GradientError, ShapeError
from wengert.core.graph import Node, recording
from wengert.ops.core import as_node, cast
from wengert.ops.op import Op, count_lanes, each_batched, picks
from wengert.tensor import Tensor, family_of, other_families


def _nodes(values: Any) -> tuple[list[Node], tree.Structure]:
    leaves, structure = tree.flatten(values)
    return [as_node(leaf) for leaf in leaves], structure


def _tensors(structure: tree.Structure, nodes: Sequence[Node], family: type[Tensor] = Tensor) -> Any:
    return tree.unflatten(structure, map(family, nodes))


class _Running(threading.local):
    """The functions whose `fwd` is being run."""

    forwards: tuple[custom_vjp, ...] = ()


_running = _Running()

# --- custom_vjp -----------------------------------------------------------------------------------------------------


class custom_vjp:
    """A function with a reverse-mode rule of its own.

    `defvjp(fwd, bwd)`: `fwd(*args)` returns the result and the residuals for the backward pass; `bwd(residuals,
    cotangent)` returns a tuple with the cotangent of each argument (None if it has none). Forward mode differentiates
    `fwd` itself.

    >>> import wengert as wg
    >>> @wg.custom_vjp
    ... def clipped(x):
    ...     return x
    >>> clipped.defvjp(lambda x: (x, None), lambda needed, g: (wg.clip(g, -1, 1),))
    >>> wg.grad(lambda x: clipped(x) * 5)(2.0).item()
    1.0
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.fwd: Callable[..., Any] | None = None
        self.bwd: Callable[..., Any] | None = None
        functools.update_wrapper(self, function)

    def defvjp(self, fwd: Callable[..., Any], bwd: Callable[..., Any]) -> None:
        """Set the rule."""
        self.fwd, self.bwd = fwd, bwd

    def __call__(self, *args: Any) -> Any:
        nodes, structure = _nodes(args)
        family = family_of(tree.flatten(args)[0]) if other_families else Tensor
        if self.fwd is None or self.bwd is None:
            raise ArgumentError(
                f"custom_vjp: {self.function.__name__} has no rule yet; give it one with defvjp(fwd, bwd)"
            )
        if not recording.grad or not any(node.tracked for node in nodes):
            return self.function(*args)
        if self in _running.forwards:  # its fwd computes the result by calling the function
            return self.function(*args)
        _running.forwards = (*_running.forwards, self)
        try:
            result = self.fwd(*_tensors(structure, nodes, family))
        finally:
            _running.forwards = _running.forwards[:-1]
        if not isinstance(result, tuple) or len(result) != 2:
            raise ArgumentError(f"custom_vjp: fwd must return (result, residuals for bwd), not {result!r}")
        outputs, shape = _nodes(result[0])
        needed, needed_shape = _nodes(result[1])
        rule = _Backward(self.bwd, needed_shape, shape, structure, family)
        node = CUSTOM_VJP(*outputs, *nodes, *needed, outputs=len(outputs), arguments=len(nodes), rule=rule)
        return _tensors(shape, picks(node), family)


class _Backward:
    """A user's backward rule as a function of nodes."""

    def __init__(
        self,
        bwd: Callable[..., Any],
        needed: tree.Structure,
        result: tree.Structure,
        args: tree.Structure,
        family: type[Tensor],
    ) -> None:
        self.bwd, self.needed, self.result, self.args, self.family = bwd, needed, result, args, family

    def __call__(self, needed: Sequence[Node], cotangents: Sequence[Node]) -> list[Node | None]:
        found = self.bwd(_tensors(self.needed, needed, self.family), _tensors(self.result, cotangents, self.family))
        found = found if isinstance(found, tuple) else (found,)
        if len(found) != len(self.args.parts):
            raise ArgumentError(
                f"custom_vjp: bwd returned {len(found)} cotangents for {len(self.args.parts)} arguments"
            )
        flat: list[Node | None] = []
        for cotangent, structure in zip(found, self.args.parts):
            count = len(tree.flatten(tree.unflatten(structure, iter(int, 1)))[0])
            flat += [None] * count if cotangent is None else _nodes(cotangent)[0]
        return flat

    def over_lanes(self, needed_batched: Sequence[bool]) -> _OverLanes:
        """The rule for all lanes at once."""
        return _OverLanes(self, needed_batched)


class _OverLanes:
    def __init__(self, rule: Any, needed_batched: Sequence[bool]) -> None:
        self.rule, self.needed_batched = rule, list(needed_batched)

    def __call__(self, needed: Sequence[Node], cotangents: Sequence[Node]) -> list[Node | None]:
        places: list[bool] = []

        def one_lane(needed: list[Tensor], cotangents: list[Tensor]) -> list[Tensor]:
            found = self.rule([t.node for t in needed], [t.node for t in cotangents])
            places[:] = [node is not None for node in found]
            return [Tensor(node) for node in found if node is not None]

        axes = [0 if b else None for b in self.needed_batched]
        given = iter(vmap(one_lane, in_axes=(axes, 0))([Tensor(n) for n in needed], [Tensor(c) for c in cotangents]))
        return [next(given).node if there else None for there in places]

    def over_lanes(self, needed_batched: Sequence[bool]) -> _OverLanes:
        return _OverLanes(self, needed_batched)


def _custom_infer(*sources: Node, outputs: int, arguments: int, rule: Any) -> Any:
    return tuple(s.shape for s in sources[:outputs]), tuple(s.dtype for s in sources[:outputs])


def _custom_vjp(g: Sequence[Node | None], y: Node) -> list[Node | None]:
    n, m = y.attrs["outputs"], y.attrs["arguments"]
    arguments, needed = y.sources[n : n + m], y.sources[n + m :]
    seeds = [or_zero(c, o) for o, c in zip(picks(y), g)]
    found = y.attrs["rule"](needed, seeds)
    for argument, cotangent in zip(arguments, found):
        if cotangent is not None and cotangent.shape[-argument.ndim or len(cotangent.shape) :] != argument.shape:
            raise ShapeError(
                f"custom_vjp: bwd returned a cotangent of shape {cotangent.shape} for an argument of shape "
                f"{argument.shape}"
            )
    typed = [None if c is None else cast(of_kind(c, a.dtype), a.dtype) for c, a in zip(found, arguments)]
    return [*[None] * n, *typed, *[None] * len(needed)]


def _custom_vjp_batch(y: Node, sources: Sequence[Node], batched: Sequence[bool]) -> Node:
    n, m = y.attrs["outputs"], y.attrs["arguments"]
    outputs = each_batched(sources[:n], batched[:n], count_lanes(sources, batched))
    rule = y.attrs["rule"].over_lanes(batched[n + m :])
    return CUSTOM_VJP(*outputs, *sources[n:], outputs=n, arguments=m, rule=rule)


CUSTOM_VJP = Op(
    "custom_vjp",
    infer=_custom_infer,
    numpy=lambda *arrays, outputs, arguments, rule: tuple(arrays[:outputs]),
    vjp=_custom_vjp,
    jvp=lambda tangents, y, *sources: list(tangents[: y.attrs["outputs"]]),
    batch=_custom_vjp_batch,
    moves=True,
    kind="function",
)

# --- custom_jvp -----------------------------------------------------------------------------------------------------


class custom_jvp:
    """A function with a forward-mode rule of its own; reverse mode is its transpose.

    `defjvp(rule)`: `rule(primals, tangents)` returns the result and its tangent, which must be linear in the tangents.

    >>> import wengert as wg
    >>> @wg.custom_jvp
    ... def softplus(x):
    ...     return wg.log(1 + wg.exp(x))
    >>> softplus.defjvp(lambda primals, tangents: (softplus(*primals), tangents[0] * wg.sigmoid(primals[0])))
    >>> wg.grad(softplus)(0.0).item()
    0.5
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.rule: Callable[..., Any] | None = None
        functools.update_wrapper(self, function)

    def defjvp(self, rule: Callable[..., Any]) -> None:
        """Set the rule."""
        self.rule = rule

    def __call__(self, *args: Any) -> Any:
        nodes, structure = _nodes(args)
        if self.rule is None:
            raise ArgumentError(f"custom_jvp: {self.function.__name__} has no rule yet; give it one with defjvp(rule)")
        if not recording.grad or not any(node.tracked for node in nodes):
            return self.function(*args)
        family = family_of(tree.flatten(args)[0]) if other_families else Tensor
        outputs, shape = _nodes(self.function(*_tensors(structure, nodes, family)))
        rule = _Tangent(self.rule, structure, family)
        return _tensors(shape, picks(CUSTOM_JVP(*outputs, *nodes, outputs=len(outputs), rule=rule)), family)


class _Tangent:
    """A user's tangent rule as a function of nodes."""

    def __init__(self, rule: Callable[..., Any], args: tree.Structure, family: type[Tensor]) -> None:
        self.rule, self.args, self.family = rule, args, family

    def __call__(self, primals: Sequence[Node], tangents: Sequence[Node]) -> list[Node]:
        result = self.rule(_tensors(self.args, primals, self.family), _tensors(self.args, tangents, self.family))
        if not isinstance(result, tuple) or len(result) != 2:
            raise GradientError(f"custom_jvp: the rule must return (result, tangent), not {result!r}")
        return _nodes(result[1])[0]


class _TangentOverLanes:
    """A tangent rule for all lanes at once."""

    def __init__(self, rule: Any, batched: Sequence[bool]) -> None:
        self.rule, self.batched = rule, list(batched)

    def __call__(self, primals: Sequence[Node], tangents: Sequence[Node]) -> list[Node]:
        def one_lane(primals: list[Tensor], tangents: list[Tensor]) -> list[Tensor]:
            return [Tensor(n) for n in self.rule([p.node for p in primals], [t.node for t in tangents])]

        axes = [0 if b else None for b in self.batched]
        mapped = vmap(one_lane, in_axes=(axes, axes))([Tensor(p) for p in primals], [Tensor(t) for t in tangents])
        return [tensor.node for tensor in mapped]


def _custom_jvp(tangents: Sequence[Node | None], y: Node, *sources: Node) -> list[Node]:
    n = y.attrs["outputs"]
    arguments = sources[n:]
    moved = [or_zero(t, a) for a, t in zip(arguments, tangents[n:])]
    return y.attrs["rule"](arguments, moved)


def _custom_jvp_batch(y: Node, sources: Sequence[Node], batched: Sequence[bool]) -> Node:
    n = y.attrs["outputs"]
    outputs = each_batched(sources[:n], batched[:n], count_lanes(sources, batched))
    return CUSTOM_JVP(*outputs, *sources[n:], outputs=n, rule=_TangentOverLanes(y.attrs["rule"], batched[n:]))


CUSTOM_JVP = Op(
    "custom_jvp",
    infer=lambda *sources, outputs, rule: _custom_infer(*sources, outputs=outputs, arguments=0, rule=rule),
    numpy=lambda *arrays, outputs, rule: tuple(arrays[:outputs]),
    jvp=_custom_jvp,
    batch=_custom_jvp_batch,
    moves=True,
    kind="function",
)
