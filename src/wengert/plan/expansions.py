"""Expansions: ops that a device cannot run directly, rewritten as ops that it can.

In: a node. Out: its replacement, or None. The stage `expand` calls this (`plan/lowering`).

A library's Fourier transform expects operands of the transformed size and does not scale. Slicing, padding, the order
of axes and the norm are separate ops around it, which fuse with their neighbours. A pseudo-inverse and a cofactor
matrix are products of singular vectors. An op that would still run on the host is left unchanged.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from wengert.core.dtypes import COMPLEX, HALF, complex_of, float32, real_of
from wengert.core.graph import Node
from wengert.ops import elementwise as e
from wengert.ops.comparison import equal, greater, where
from wengert.ops.core import cast, literal
from wengert.ops.creation import eye
from wengert.ops.decompose import CHOLESKY, FACTOR_SVD
from wengert.ops.fft import FFT, IFFT, IRFFT, RFFT
from wengert.ops.linalg import (
    COFACTOR,
    DET,
    INV,
    SOLVE,
    TRIANGULAR_SOLVE,
    adjoint,
    over_matrix,
)
from wengert.ops.matrix_norms import PINV
from wengert.ops.movement import broadcast_to, expand_dims, permute_dims, place, reshape, take_slice
from wengert.ops.op import Op, picks
from wengert.ops.reduce import MAX, PROD

# --- transforms -----------------------------------------------------------------------------------------------------


_UNSCALED = {FFT: "backward", RFFT: "backward", IFFT: "forward", IRFFT: "forward"}


def _transform(node: Node) -> Node | None:
    """A transform of the last axes, or of one axis, of values of the right sizes, without scaling."""
    axes, sizes = node.attrs["axes"], node.attrs["sizes"]
    if len(set(axes)) < len(axes):
        return None
    if not node.size:
        return _zeros(node)
    x = _sized(cast(node.sources[0], _taken(node)), node)
    if not axes:
        return cast(x, node.dtype)
    order = _order(node)
    moved = x if order is None else permute_dims(x, order)
    there = tuple(axes if order is None else range(x.ndim - len(axes), x.ndim))
    y: Node = node.op(moved, sizes=sizes, axes=there, norm=_UNSCALED[node.op])
    if order is not None:
        y = permute_dims(y, [int(axis) for axis in np.argsort(order)])
    factor = _factor(node)
    return y if factor == 1 else e.multiply(y, literal(factor, y.dtype, y.device))


def _taken(node: Node) -> np.dtype[Any]:
    """The operand of a transform, in the dtype that gives the right result dtype."""
    if node.op is RFFT:
        return real_of(node.dtype)
    return complex_of(node.dtype)


def _zeros(node: Node) -> Node:
    return broadcast_to(literal(0, node.dtype, node.device), node.shape)


def _sized(x: Node, node: Node) -> Node:
    """A value sliced or zero-padded to the transformed sizes."""
    sizes, axes = list(node.attrs["sizes"]), node.attrs["axes"]
    if node.op is IRFFT:
        sizes[-1] = sizes[-1] // 2 + 1
    wanted = dict(zip(axes, sizes))
    shape = tuple(wanted.get(axis, n) for axis, n in enumerate(x.shape))
    if shape == x.shape:
        return x
    none, ones = (0,) * x.ndim, (1,) * x.ndim
    kept = take_slice(x, none, ones, tuple(map(min, x.shape, shape)))
    return place(kept, shape, none, ones)


def _order(node: Node) -> tuple[int, ...] | None:
    """The permutation that puts the transformed axes last; None if none is needed."""
    axes, rank = node.attrs["axes"], len(node.shape)
    halved = node.op in (RFFT, IRFFT)
    if halved and axes[-1] == rank - 1:
        return None
    outer = max(math.prod(node.shape[:axis]) for axis in axes)
    if not halved and outer <= _FEW:
        return None
    if tuple(axes) == tuple(range(rank - len(axes), rank)):
        return None
    return (*(axis for axis in range(rank) if axis not in axes), *axes)


_FEW = 64  # transforms along an axis in the middle that a library is called for one by one


def _factor(node: Node) -> float:
    """The scale factor of the norm."""
    count, norm = math.prod(node.attrs["sizes"]), node.attrs["norm"]
    if norm == "ortho":
        return 1 / math.sqrt(count)
    return 1.0 if norm == _UNSCALED[node.op] else 1 / count


# --- matrices -------------------------------------------------------------------------------------------------------


def _pseudo_inverse(node: Node) -> Node | None:
    x, rtol = node.sources
    if not min(x.shape[-2:]) or not node.size:
        return _zeros(node)
    u, s, vh = picks(FACTOR_SVD(x, full_matrices=False))
    largest = MAX(s, axes=(s.ndim - 1,), keepdims=True)
    cut = e.multiply(reshape(rtol, rtol.shape[:-1]), largest)
    counts = greater(s, cut)
    inverse = where(counts, e.reciprocal(where(counts, s, 1)), 0)
    scaled = e.multiply(adjoint(vh), cast(expand_dims(inverse, axis=-2), x.dtype))
    return scaled @ adjoint(u)


def _cofactors(node: Node) -> Node | None:
    """The cofactor matrix: each singular value is replaced by the product of the others."""
    (x,) = node.sources
    n = x.shape[-1]
    if not node.size:
        return _zeros(node)
    u, s, vh = picks(FACTOR_SVD(x, full_matrices=True))
    others = where(equal(eye(n, dtype=s.dtype, device=s.device), 1), 1, expand_dims(s, axis=-2))
    products = PROD(others, axes=(others.ndim - 1,), keepdims=False)
    sign = over_matrix(e.multiply(DET(u), DET(vh)))
    scaled = e.multiply(e.conj(u) if x.dtype in COMPLEX else u, cast(expand_dims(products, axis=-2), x.dtype))
    return e.multiply(sign, scaled @ (e.conj(vh) if x.dtype in COMPLEX else vh))


def _in_float32(node: Node) -> Node | None:
    """Half precision computed in float32: libraries have no half-precision factorisations."""
    if node.dtype not in HALF:
        return None
    wide: Node = node.op(*[cast(source, float32) for source in node.sources], **node.attrs)
    return cast(wide, node.dtype)


EXPANSIONS: Mapping[Op, Callable[[Node], Node | None]] = {
    **dict.fromkeys((FFT, IFFT, RFFT, IRFFT), _transform),
    **dict.fromkeys((SOLVE, TRIANGULAR_SOLVE, INV, DET, CHOLESKY), _in_float32),
    PINV: _pseudo_inverse,
    COFACTOR: _cofactors,
}
