"""Functions of matrices: the exponential, systems over several axes, and matrices built from vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from wengert.core.dtypes import COMPLEX
from wengert.core.errors import ArgumentError, ShapeError
from wengert.core.graph import Node
from wengert.ops.comparison import less
from wengert.ops.core import as_node, cast, operands
from wengert.ops.creation import eye, ones, tril, zeros
from wengert.ops.elementwise import conjugate, where
from wengert.ops.exponential import log
from wengert.ops.factors import batch_axes
from wengert.ops.formulas import inexact
from wengert.ops.linalg import adjoint, as_matrices, inv, over_lanes, slogdet, solve
from wengert.ops.movement import (
    broadcast_to,
    concat,
    expand_dims,
    flip,
    matrix_transpose,
    moveaxis,
    normalize_axes,
    reshape,
    slice_axis,
)
from wengert.ops.op import Op
from wengert.ops.running import cumprod

# --- the exponential ------------------------------------------------------------------------------------------------

_PADE = tuple(
    math.factorial(26 - k) * math.factorial(13) / (math.factorial(26) * math.factorial(k) * math.factorial(13 - k))
    for k in range(14)
)
_PADE_RADIUS = 5.371920351148152  # of the 1-norm up to which the approximant of degree 13 is exact to double precision


def _exp_numpy(x: Any) -> Any:
    """Scaling and squaring with the diagonal Pade approximant of degree 13 (Higham 2005)."""
    if not x.size:
        return x
    norms = np.abs(x).sum(-2).max(-1)
    with np.errstate(divide="ignore", invalid="ignore"):
        halvings = np.ceil(np.log2(norms / _PADE_RADIUS))
    halvings = np.where(np.isfinite(halvings), np.maximum(halvings, 0), 0).astype(int)
    a = np.asarray(x, np.result_type(x, np.float64)) * (0.5**halvings)[..., None, None]
    one = np.broadcast_to(np.eye(x.shape[-1], dtype=a.dtype), a.shape)
    powers = [one, a @ a]
    powers += [powers[1] @ powers[1]]
    powers += [powers[2] @ powers[1]]
    b = _PADE
    odd = powers[3] @ sum(b[k] * powers[i] for k, i in ((13, 3), (11, 2), (9, 1)))
    even = powers[3] @ sum(b[k] * powers[i] for k, i in ((12, 3), (10, 2), (8, 1)))
    odd = a @ (odd + sum(b[2 * i + 1] * powers[i] for i in range(4)))
    even = even + sum(b[2 * i] * powers[i] for i in range(4))
    if not np.isfinite(odd).all():
        return np.full_like(x, np.nan)
    result = np.linalg.solve(even - odd, even + odd)
    for k in range(halvings.max(initial=0)):
        result = np.where((halvings > k)[..., None, None], result @ result, result)
    return result


def _frechet(x: Node, moved: Node) -> Node:
    """How the exponential of `x` moves with it: the upper right block of the exponential of [[x, dx], [0, x]]."""
    n = x.shape[-1]
    nothing = zeros(x.shape, dtype=x.dtype, device=x.device)
    whole = MATRIX_EXP(concat([concat([x, moved], axis=-1), concat([nothing, x], axis=-1)], axis=-2))
    return slice_axis(slice_axis(whole, whole.ndim - 2, 0, n), whole.ndim - 1, n, 2 * n)


MATRIX_EXP: Op = Op(
    "matrix_exp",
    infer=lambda x: (x.shape, x.dtype),
    numpy=_exp_numpy,
    vjp=(lambda g, y, x: _frechet(adjoint(x), g),),
    jvp=lambda tangents, y, x: _frechet(x, tangents[0]),
    complex=True,
    batch=over_lanes,
    factors=batch_axes,
    expensive=True,
    precision="full",
    can_fail=False,
)


def matrix_exp(x: Any, /) -> Node:
    """The matrix exponential of square matrices: the sum of the matrix powers `x**k / k!`.

    >>> import wengert as wg
    >>> wg.linalg.matrix_exp(wg.tensor([[0.0, 1.0], [0.0, 0.0]])).tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """
    return MATRIX_EXP(as_matrices(x, "matrix_exp", square=True))


def logdet(x: Any, /) -> Node:
    """The logarithm of the determinant; NaN where it is negative, and minus infinity where it is zero.

    >>> import wengert as wg
    >>> wg.linalg.logdet(wg.tensor([[1.0, 0.0], [0.0, 1.0]])).item()
    0.0
    """
    sign, size = slogdet(x)
    if sign.dtype in COMPLEX:
        return size + log(sign)
    return where(less(sign, 0), np.nan, size)


# --- systems over several axes --------------------------------------------------------------------------------------


def tensorsolve(a: Any, b: Any, /, axes: Sequence[int] | None = None) -> Node:
    """Solve `tensordot(a, x, x.ndim) = b` for `x`. `axes` of `a` are moved to its end first.

    >>> import wengert as wg
    >>> wg.linalg.tensorsolve(wg.tensor([[2.0, 0.0], [0.0, 4.0]]), wg.tensor([2.0, 2.0])).tolist()
    [1.0, 0.5]
    """
    a, b = operands(a, b)
    if axes is not None:
        named = normalize_axes(tuple(axes), a.ndim, "tensorsolve")
        a = moveaxis(a, named, tuple(range(a.ndim - len(named), a.ndim)))
    unknown = a.shape[b.ndim :]
    if a.shape[: b.ndim] != b.shape or math.prod(unknown) != b.size:
        raise ShapeError(
            f"tensorsolve: shape {a.shape} does not consist of {b.shape} followed by axes for as many unknowns"
        )
    return reshape(solve(reshape(a, (b.size, b.size)), reshape(b, (-1,))), unknown)


def tensorinv(a: Any, /, ind: int = 2) -> Node:
    """The inverse of `a` as a map from its last axes to the first `ind`: `tensordot(tensorinv(a), a, ind)` is the
    identity.

    >>> import wengert as wg
    >>> wg.linalg.tensorinv(wg.tensor([[2.0, 0.0], [0.0, 4.0]]), ind=1).tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    a = as_node(a)
    if not 0 < ind < a.ndim + (a.ndim == 0):
        raise ArgumentError(f"tensorinv: ind must be between 1 and {a.ndim - 1} for shape {a.shape}, not {ind!r}")
    first, last = a.shape[:ind], a.shape[ind:]
    if math.prod(first) != math.prod(last):
        raise ShapeError(
            f"tensorinv: the axes {first} and {last} of shape {a.shape} have different numbers of elements"
        )
    return reshape(inv(reshape(a, (math.prod(first), math.prod(last)))), (*last, *first))


# --- matrices made of vectors ---------------------------------------------------------------------------------------


def vander(x: Any, n: int | None = None, *, increasing: bool = False) -> Node:
    """Powers of the elements of `x`, one row for each element: from `n - 1` down to 0, as in NumPy.

    In PyTorch's `linalg.vander`, `increasing` is the default. By default there are as many columns as elements.

    >>> import wengert as wg
    >>> wg.linalg.vander(wg.tensor([2.0, 3.0]), 3).tolist()
    [[4.0, 2.0, 1.0], [9.0, 3.0, 1.0]]
    """
    x = as_node(x)
    if x.ndim == 0:
        raise ShapeError("vander takes vectors, not a single number")
    count = x.shape[-1] if n is None else n
    if not isinstance(count, (int, np.integer)) or count < 0:
        raise ArgumentError(f"vander: the number of columns cannot be negative: {n!r}")
    if count == 0:
        return zeros((*x.shape, 0), dtype=x.dtype, device=x.device)
    start = ones((*x.shape, 1), dtype=x.dtype, device=x.device)
    rest = broadcast_to(expand_dims(x, axis=-1), (*x.shape, int(count) - 1))
    powers = cast(cumprod(concat([start, rest], axis=-1), axis=-1), x.dtype)
    return powers if increasing else flip(powers, axis=-1)


def householder_product(vectors: Any, tau: Any, /) -> Node:
    """The first columns of a product of Householder reflections, as LAPACK packs them: `Q` of a QR factorisation.

    Reflection k is `1 - tau[k] v v^H`, where `v` is column k of `vectors` below the diagonal, with a 1 on the diagonal.

    >>> import wengert as wg
    >>> wg.linalg.householder_product(wg.tensor([[1.0], [0.0]]), wg.tensor([2.0])).tolist()
    [[-1.0], [0.0]]
    """
    a, scales = (inexact(x) for x in operands(vectors, tau))
    a = as_matrices(a, "householder_product")
    m, n = a.shape[-2:]
    count = scales.shape[-1] if scales.ndim else 0
    if m < n or scales.ndim == 0 or count > n:
        raise ShapeError(
            "householder_product takes matrices of at least as many rows as columns and scalars for some of the "
            f"columns; the shapes are {a.shape} and {scales.shape}"
        )
    v = tril(a, k=-1) + eye(m, n, dtype=a.dtype, device=a.device)
    result = broadcast_to(eye(m, n, dtype=a.dtype, device=a.device), a.shape)
    for k in reversed(range(count)):
        column = slice_axis(v, v.ndim - 1, k, k + 1)
        scale = expand_dims(slice_axis(scales, scales.ndim - 1, k, k + 1), axis=-1)
        result = result - scale * column @ (matrix_transpose(conjugate(column)) @ result)
    return result
