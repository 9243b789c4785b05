"""All derivatives at once: `jacobian` and `hessian`, one walk batched over the elements of a result or an argument."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wengert.autodiff.batching import batch
from wengert.autodiff.forward import forward
from wengert.autodiff.reverse import reverse
from wengert.autodiff.transforms import Function, Linearized, grad, or_zeros, positions, require_holomorphic
from wengert.core import tree
from wengert.core.dtypes import COMPLEX
from wengert.core.errors import ArgumentError, DTypeError
from wengert.core.graph import Node
from wengert.ops.core import data, placeholder
from wengert.ops.elementwise import add, conj, multiply
from wengert.ops.movement import broadcast_to, moveaxis, reshape


def jacobian(
    function: Function, argnums: int | Sequence[int] = 0, mode: str = "reverse", holomorphic: bool = False
) -> Function:
    """A function that gives all derivatives of `function`'s outputs by its arguments' elements.

    For an output of shape S and an argument of shape A it has shape S + A. `mode` is "reverse" (a walk for each output
    element) or "forward" (one for each argument element); all walks are one batched graph.

    Of real results by complex arguments, each row is a gradient as `grad` gives it; of complex results by real
    arguments, the derivatives are complex. Of complex results by complex arguments they are those of a `holomorphic`
    function.

    >>> import wengert as wg
    >>> wg.jacobian(lambda x: x * x)(wg.tensor([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """
    if mode not in ("reverse", "forward"):
        raise ArgumentError(f'jacobian: mode is "reverse" or "forward", not {mode!r}')

    @functools.wraps(function)
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        at = Linearized("jacobian", function, positions(argnums), args, kwargs, False)
        if holomorphic:
            require_holomorphic("jacobian", at)
        elif any(x.dtype in COMPLEX for x in at.variables) and any(y.dtype in COMPLEX for y in at.outputs):
            raise DTypeError(
                "jacobian: a complex result of a complex argument; say holomorphic=True if the function is. The "
                "derivatives of another one are four numbers a pair of elements: take real and imaginary parts as "
                "arguments and results, or products with wg.jvp and wg.vjp"
            )
        table = (_rows if mode == "reverse" else _columns)(at, holomorphic)
        blocks = []
        for row in table:
            by_argument = at.per_argument(at.leave(row))
            blocks.append(by_argument[0] if isinstance(argnums, int) else tuple(by_argument))
        return tree.unflatten(at.structure, blocks)

    return differentiated


def _basis(node: Node, unit: complex) -> Node:
    return data(unit * np.eye(node.size, dtype=node.dtype).reshape(node.size, *node.shape), node.device)


def _rows(at: Linearized, holomorphic: bool) -> list[list[Node]]:
    """For each output, the derivatives with respect to each variable, a batched pullback."""
    table = []
    for y in at.outputs:
        seed = placeholder(y.shape, y.dtype, y.device)
        pulled = or_zeros(reverse([y], [seed], at.variables), at.variables)

        def along(unit: complex, y: Node = y, seed: Node = seed, pulled: Sequence[Node] = tuple(pulled)) -> list[Node]:
            over = batch(pulled, {seed: _basis(y, unit)})
            return [_block(o, p, y.shape, x.shape, (y.size, *x.shape)) for o, p, x in zip(over, pulled, at.variables)]

        row = _whole(along, y, holomorphic)
        table.append([conj(block) for block in row] if holomorphic else row)
    return table


def _columns(at: Linearized, holomorphic: bool) -> list[list[Node]]:
    """For each output, the derivatives with respect to each variable, a batched pushforward."""
    columns = []
    for x in at.variables:
        seed = placeholder(x.shape, x.dtype, x.device)
        pushed = or_zeros(forward(at.outputs, [x], [seed]), at.outputs)

        def along(unit: complex, x: Node = x, seed: Node = seed, pushed: Sequence[Node] = tuple(pushed)) -> list[Node]:
            over = batch(pushed, {seed: _basis(x, unit)})
            return [_column(o, p, y.shape, x.shape, x.size) for o, p, y in zip(over, pushed, at.outputs)]

        columns.append(_whole(along, x, holomorphic))
    return [list(row) for row in zip(*columns)]


def _whole(along: Callable[[complex], list[Node]], seeded: Node, holomorphic: bool) -> list[Node]:
    """The derivatives along 1; where they are real ones of a complex value, plus i times those along i."""
    first = along(1)
    if seeded.dtype not in COMPLEX or holomorphic:
        return first
    return [add(re, multiply(im, 1j)) for re, im in zip(first, along(1j))]


def _block(over: Node | None, one: Node, outer: Any, inner: Any, lanes: Any) -> Node:
    full = broadcast_to(one, lanes) if over is None else over
    return reshape(full, (*outer, *inner))


def _column(over: Node | None, one: Node, outer: Any, inner: Any, size: int) -> Node:
    full = broadcast_to(one, (size, *outer)) if over is None else over
    return reshape(moveaxis(full, 0, -1), (*outer, *inner))


def hessian(function: Function, argnums: int | Sequence[int] = 0, holomorphic: bool = False) -> Function:
    """A function that gives the second derivatives of a scalar `function`, by forward over reverse mode.

    By complex arguments they are those of a `holomorphic` function; of a real one, `hvp` gives products with them.

    >>> import wengert as wg
    >>> wg.hessian(lambda x: (x**3).sum())(wg.tensor([1.0, 2.0])).tolist()
    [[6.0, 0.0], [0.0, 12.0]]
    """
    return jacobian(grad(function, argnums, holomorphic=holomorphic), argnums, "forward", holomorphic)
