"""Transforms of vectors and matrices: onto the simplex, onto triangular matrices, and part by part."""

from __future__ import annotations

import math
from collections.abc import Sequence

import wengert as wg
from wengert import Tensor
from wengert.core.errors import ShapeError
from wengert.distributions import constraints
from wengert.distributions.distribution import finfo
from wengert.distributions.transforms import Transform


class SoftmaxTransform(Transform):
    """exp(x) over its sum: onto the simplex, not one to one. The inverse gives logarithms.

    >>> import wengert as wg
    >>> wg.distributions.SoftmaxTransform()(wg.tensor([0.0, 0.0])).tolist()
    [0.5, 0.5]
    """

    domain = constraints.real_vector
    codomain = constraints.simplex

    def _call(self, x: Tensor) -> Tensor:
        return wg.softmax(x, -1)

    def _inverse(self, y: Tensor) -> Tensor:
        return wg.log(y)


class StickBreakingTransform(Transform):
    """n numbers to n + 1 shares, each a share of what the ones before left of a stick.

    >>> import wengert as wg
    >>> wg.distributions.StickBreakingTransform()(wg.zeros(2)).shape
    (3,)
    """

    bijective = True
    domain = constraints.real_vector
    codomain = constraints.simplex

    def _call(self, x: Tensor) -> Tensor:
        z = self._shares(x)
        left = wg.cumprod(1 - z, axis=-1)
        one = wg.ones_like(z[..., :1])
        return wg.concat([z, one], axis=-1) * wg.concat([one, left], axis=-1)

    def _inverse(self, y: Tensor) -> Tensor:
        first = y[..., :-1]
        left = wg.maximum(1 - wg.cumsum(first, axis=-1), float(finfo(y.dtype).tiny))
        return wg.log(first) - wg.log(left) + wg.log(self._offsets(first))

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        x = x - wg.log(self._offsets(x))
        return (-x + wg.logsigmoid(x) + wg.log(y[..., :-1])).sum(-1)

    def _shares(self, x: Tensor) -> Tensor:
        limits = finfo(x.dtype)
        return wg.clip(wg.sigmoid(x - wg.log(self._offsets(x))), float(limits.tiny), 1.0 - float(limits.eps))

    def _offsets(self, x: Tensor) -> Tensor:
        """How many pieces are left to come: without them the first pieces would be larger than the last."""
        n = x.shape[-1]
        return wg.asarray([float(n - i) for i in range(n)], dtype=x.dtype)

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        return (*shape[:-1], shape[-1] + 1)

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        return (*shape[:-1], shape[-1] - 1)


class LowerCholeskyTransform(Transform):
    """A square matrix to a lower triangular one with positive diagonal: exp of the diagonal, nothing above it.

    >>> import wengert as wg
    >>> wg.distributions.LowerCholeskyTransform()(wg.zeros((2, 2))).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.lower_cholesky

    def _call(self, x: Tensor) -> Tensor:
        return wg.tril(x, -1) + wg.diag_embed(wg.exp(wg.diagonal(x)))

    def _inverse(self, y: Tensor) -> Tensor:
        return wg.tril(y, -1) + wg.diag_embed(wg.log(wg.diagonal(y)))


class PositiveDefiniteTransform(Transform):
    """A square matrix to a positive definite one, by its Cholesky factor.

    >>> import wengert as wg
    >>> wg.distributions.PositiveDefiniteTransform()(wg.zeros((2, 2))).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """

    domain = constraints.independent(constraints.real, 2)
    codomain = constraints.positive_definite

    def _call(self, x: Tensor) -> Tensor:
        lower = LowerCholeskyTransform()(x)
        return lower @ lower.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform()._inverse(wg.linalg.cholesky(y))


class CorrCholeskyTransform(Transform):
    """n (n - 1) / 2 numbers to the Cholesky factor of a correlation matrix: partial correlations, row by row.

    >>> import wengert as wg
    >>> wg.distributions.CorrCholeskyTransform()(wg.zeros(3)).tolist()
    [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    """

    bijective = True
    domain = constraints.real_vector
    codomain = constraints.corr_cholesky

    def _call(self, x: Tensor) -> Tensor:
        partial = wg.clip(wg.tanh(x), -1 + float(finfo(x.dtype).eps), 1 - float(finfo(x.dtype).eps))
        r = _lower_from_vector(partial)
        n = r.shape[-1]
        left = wg.sqrt(wg.cumprod(1 - r**2, axis=-1))
        r = r + wg.eye(n, dtype=x.dtype)
        return r * wg.concat([wg.ones_like(left[..., :1]), left[..., :-1]], axis=-1)

    def _inverse(self, y: Tensor) -> Tensor:
        left = 1 - wg.cumsum(y * y, axis=-1)
        shifted = wg.concat([wg.ones_like(left[..., :1]), left[..., :-1]], axis=-1)
        entries, left_entries = _vector_from_lower(y), _vector_from_lower(shifted)
        t = entries / wg.sqrt(left_entries)
        return (wg.log1p(t) - wg.log1p(-t)) / 2

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        left = wg.tril(1 - wg.cumsum(y * y, axis=-1), -1)
        n = y.shape[-1]
        inside = wg.asarray([[1.0 if j < i - 1 else 0.0 for j in range(n)] for i in range(n)], dtype=y.dtype)
        stick = 0.5 * (wg.log(wg.where(inside > 0, left, 1.0))).sum((-2, -1))
        return stick - 2 * (x + wg.softplus(-2 * x) - math.log(2.0)).sum(-1)

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        n = _size_of_lower(shape[-1])
        return (*shape[:-1], n, n)

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        return (*shape[:-2], shape[-1] * (shape[-1] - 1) // 2)


def _size_of_lower(count: int) -> int:
    return round((1 + math.sqrt(1 + 8 * count)) / 2)


def _places_below(n: int) -> list[int]:
    return [i * n + j for i in range(n) for j in range(i)]


def _lower_from_vector(vector: Tensor) -> Tensor:
    """A matrix with these entries below its diagonal, row by row."""
    count = vector.shape[-1]
    n = _size_of_lower(count)
    if n * (n - 1) // 2 != count:
        raise ShapeError(f"CorrCholeskyTransform: {count} numbers fill no triangle of a matrix; 1, 3, 6, 10, ... do")
    padded = wg.concat([vector, wg.zeros_like(vector[..., :1])], axis=-1)
    source = {place: k for k, place in enumerate(_places_below(n))}
    index = wg.asarray([source.get(place, count) for place in range(n * n)], dtype=wg.int64)
    return wg.take(padded, index, axis=-1).reshape((*vector.shape[:-1], n, n))


def _vector_from_lower(matrix: Tensor) -> Tensor:
    n = matrix.shape[-1]
    flat = matrix.reshape((*matrix.shape[:-2], n * n))
    return wg.take(flat, wg.asarray(_places_below(n), dtype=wg.int64), axis=-1)


class CatTransform(Transform):
    """Transforms for parts along an axis, of the given lengths.

    >>> import wengert as wg
    >>> d = wg.distributions
    >>> d.CatTransform([d.ExpTransform(), d.AffineTransform(1.0, 2.0)])(wg.zeros(2)).tolist()
    [1.0, 1.0]
    """

    def __init__(
        self, tseq: Sequence[Transform], dim: int = 0, lengths: Sequence[int] | None = None, cache_size: int = 0
    ) -> None:
        super().__init__(cache_size)
        self.transforms, self.dim = list(tseq), dim
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        self.bijective = all(t.bijective for t in self.transforms)
        self.domain = constraints.cat([t.domain for t in self.transforms], dim, self.lengths)
        self.codomain = constraints.cat([t.codomain for t in self.transforms], dim, self.lengths)

    def _pieces(self, x: Tensor) -> Sequence[Tensor]:
        return wg.split(x, self.lengths, axis=self.dim)

    def _call(self, x: Tensor) -> Tensor:
        return wg.concat([t(piece) for t, piece in zip(self.transforms, self._pieces(x))], axis=self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        return wg.concat([t._inverse(piece) for t, piece in zip(self.transforms, self._pieces(y))], axis=self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        pieces = zip(self.transforms, self._pieces(x), self._pieces(y))
        return wg.concat([t.log_abs_det_jacobian(a, b) for t, a, b in pieces], axis=self.dim)


class StackTransform(Transform):
    """A transform for each index along an axis.

    >>> import wengert as wg
    >>> d = wg.distributions
    >>> d.StackTransform([d.ExpTransform(), d.AbsTransform()])(wg.zeros(2)).tolist()
    [1.0, 0.0]
    """

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.transforms, self.dim = list(tseq), dim
        self.bijective = all(t.bijective for t in self.transforms)
        self.domain = constraints.stack([t.domain for t in self.transforms], dim)
        self.codomain = constraints.stack([t.codomain for t in self.transforms], dim)

    def _call(self, x: Tensor) -> Tensor:
        return wg.stack([t(piece) for t, piece in zip(self.transforms, wg.unstack(x, axis=self.dim))], axis=self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        pieces = zip(self.transforms, wg.unstack(y, axis=self.dim))
        return wg.stack([t._inverse(piece) for t, piece in pieces], axis=self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        pieces = zip(self.transforms, wg.unstack(x, axis=self.dim), wg.unstack(y, axis=self.dim))
        return wg.stack([t.log_abs_det_jacobian(a, b) for t, a, b in pieces], axis=self.dim)
