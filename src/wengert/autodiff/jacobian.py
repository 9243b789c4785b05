"""All derivatives at once: `jacobian` and `hessian`, one pass batched over the elements of a result or an argument."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wengert.autodiff.batching import batch
from wengert.autodiff.forward import forward
from wengert.autodiff.reverse import reverse
from wengert.autodiff.scan import scan
from wengert.autodiff.transformed import transformed
from wengert.autodiff.transforms import Function, Linearized, grad, or_zeros, positions, require_holomorphic
from wengert.core import tree
from wengert.core.dtypes import COMPLEX
from wengert.core.errors import ArgumentError, DTypeError
from wengert.core.graph import Node
from wengert.ops.comparison import equal
from wengert.ops.core import data, literal, placeholder, to_device
from wengert.ops.elementwise import add, conj, multiply, where
from wengert.ops.movement import broadcast_to, expand_dims, moveaxis, reshape, slice_axis
from wengert.tensor import Tensor


def jacobian(
    function: Function,
    argnums: int | Sequence[int] = 0,
    mode: str = "reverse",
    holomorphic: bool = False,
    chunk: int | None = None,
) -> Function:
    """A function that returns the derivatives of all elements of `function`'s outputs with respect to its arguments.

    For an output of shape S and an argument of shape A it has shape S + A. `mode` is "reverse" (one pass for each
    output element) or "forward" (one for each argument element); all passes form one batched graph. With `chunk`, that
    many passes are batched together and a loop runs over the chunks, which takes less memory.

    For real results and complex arguments, each row is a gradient as returned by `grad`. For complex results and real
    arguments, the derivatives are complex. Complex results of complex arguments require a `holomorphic` function.

    >>> import wengert as wg
    >>> wg.jacobian(lambda x: x * x)(wg.tensor([1.0, 2.0])).tolist()
    [[2.0, 0.0], [0.0, 4.0]]
    """
    if mode not in ("reverse", "forward"):
        raise ArgumentError(f'jacobian: mode must be "reverse" or "forward", not {mode!r}')

    if chunk is not None and (isinstance(chunk, bool) or not isinstance(chunk, int) or chunk < 1):
        raise ArgumentError(f"jacobian: chunk must be a number of passes to batch together, not {chunk!r}")

    @transformed(jacobian, function, argnums, mode, holomorphic, chunk)
    def differentiated(*args: Any, **kwargs: Any) -> Any:
        at = Linearized("jacobian", function, positions(argnums), args, kwargs, False)
        if holomorphic:
            require_holomorphic("jacobian", at)
        elif any(x.dtype in COMPLEX for x in at.variables) and any(y.dtype in COMPLEX for y in at.outputs):
            raise DTypeError(
                "jacobian: the function returns a complex result for a complex argument; pass holomorphic=True if it "
                "is holomorphic. Otherwise its derivative has four numbers for each pair of elements: use real and "
                "imaginary parts as arguments and results, or products with wg.jvp and wg.vjp"
            )
        table = (_rows if mode == "reverse" else _columns)(at, holomorphic, chunk)
        blocks = []
        for row in table:
            by_argument = at.per_argument(at.leave(row))
            blocks.append(by_argument[0] if isinstance(argnums, int) else tuple(by_argument))
        return tree.unflatten(at.structure, blocks)

    return differentiated


def _along_basis(results: Sequence[Node], seed: Node, unit: complex, chunk: int | None) -> list[Node]:
    """A function that is linear in a seed, applied to each basis vector of the seed's shape; stacked along axis 0."""
    if chunk is None or chunk >= seed.size:
        basis = data(unit * np.eye(seed.size, dtype=seed.dtype).reshape(seed.size, *seed.shape), seed.device)
        return each_over_lanes(results, seed, basis)
    every = data(np.arange(seed.size))

    def some(carry: Any, first: Tensor) -> Any:
        own = add(first.node, data(np.arange(chunk)))
        rows = where(equal(expand_dims(own, 1), every), literal(unit, seed.dtype), literal(0, seed.dtype))
        basis = to_device(reshape(rows, (chunk, *seed.shape)), seed.device)
        return carry, [Tensor(node) for node in each_over_lanes(results, seed, basis)]

    firsts = Tensor(data(np.arange(0, seed.size, chunk)))
    stacked = scan(some, (), firsts)[1]
    return [slice_axis(reshape(s.node, (-1, *s.shape[2:])), 0, 0, seed.size) for s in stacked]


def each_over_lanes(results: Sequence[Node], seed: Node, lanes: Node) -> list[Node]:
    """Results for each lane of a seed, along a first axis; results that do not depend on the seed are broadcast."""
    over = batch(results, {seed: lanes})
    return [broadcast_to(r, (lanes.shape[0], *r.shape)) if o is None else o for o, r in zip(over, results)]


def _rows(at: Linearized, holomorphic: bool, chunk: int | None) -> list[list[Node]]:
    """For each output, the derivatives with respect to each variable, a batched pullback."""
    table = []
    for y in at.outputs:
        seed = placeholder(y.shape, y.dtype, y.device)
        pulled = or_zeros(reverse([y], [seed], at.variables), at.variables)

        def along(unit: complex, y: Node = y, seed: Node = seed, pulled: Sequence[Node] = tuple(pulled)) -> list[Node]:
            over = _along_basis(pulled, seed, unit, chunk)
            return [reshape(o, (*y.shape, *x.shape)) for o, x in zip(over, at.variables)]

        row = _whole(along, y, holomorphic)
        table.append([conj(block) for block in row] if holomorphic else row)
    return table


def _columns(at: Linearized, holomorphic: bool, chunk: int | None) -> list[list[Node]]:
    """For each output, the derivatives with respect to each variable, a batched pushforward."""
    columns = []
    for x in at.variables:
        seed = placeholder(x.shape, x.dtype, x.device)
        pushed = or_zeros(forward(at.outputs, [x], [seed]), at.outputs)

        def along(unit: complex, x: Node = x, seed: Node = seed, pushed: Sequence[Node] = tuple(pushed)) -> list[Node]:
            over = _along_basis(pushed, seed, unit, chunk)
            return [reshape(moveaxis(o, 0, -1), (*y.shape, *x.shape)) for o, y in zip(over, at.outputs)]

        columns.append(_whole(along, x, holomorphic))
    return [list(row) for row in zip(*columns)]


def _whole(along: Callable[[complex], list[Node]], seeded: Node, holomorphic: bool) -> list[Node]:
    """The derivatives along 1; for real ones of a complex value, plus i times those along i."""
    first = along(1)
    if seeded.dtype not in COMPLEX or holomorphic:
        return first
    return [add(re, multiply(im, 1j)) for re, im in zip(first, along(1j))]


def jacfwd(function: Function, argnums: int | Sequence[int] = 0, chunk: int | None = None) -> Function:
    """`jacobian` in forward mode, one pass for each argument element: for functions with more results than arguments.

    >>> import wengert as wg
    >>> wg.jacfwd(lambda t: wg.stack([wg.exp(t), wg.sin(t)]))(0.0).tolist()
    [1.0, 1.0]
    """
    return jacobian(function, argnums, "forward", chunk=chunk)


def jacrev(function: Function, argnums: int | Sequence[int] = 0, chunk: int | None = None) -> Function:
    """`jacobian` in reverse mode, one pass for each result element: for functions with fewer results than arguments.

    >>> import wengert as wg
    >>> wg.jacrev(lambda x: x[0] * x[1])(wg.tensor([2.0, 3.0])).tolist()
    [3.0, 2.0]
    """
    return jacobian(function, argnums, "reverse", chunk=chunk)


def hessian(
    function: Function, argnums: int | Sequence[int] = 0, holomorphic: bool = False, chunk: int | None = None
) -> Function:
    """A function that returns the second derivatives of a scalar `function`, by forward over reverse mode.

    Complex arguments require a `holomorphic` function; for a real one, `hvp` returns Hessian-vector products. `chunk`
    is as in `jacobian`.

    >>> import wengert as wg
    >>> wg.hessian(lambda x: (x**3).sum())(wg.tensor([1.0, 2.0])).tolist()
    [[6.0, 0.0], [0.0, 12.0]]
    """
    return jacobian(grad(function, argnums, holomorphic=holomorphic), argnums, "forward", holomorphic, chunk)
