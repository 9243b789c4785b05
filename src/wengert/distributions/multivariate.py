"""Distributions of vectors and matrices: normal, normal with a covariance of low rank, Wishart, LKJ."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import wengert as wg
from wengert import Tensor
from wengert.core.errors import ArgumentError
from wengert.distributions import constraints
from wengert.distributions.distribution import LOG_2PI, Distribution, as_tensors, broadcast_all, can_look
from wengert.distributions.gamma_family import Beta, log_draws


def solve_lower(lower: Tensor, b: Tensor) -> Tensor:
    """The inverse of a lower triangular matrix times another, batches broadcast."""
    batch = wg.broadcast_shapes(lower.shape[:-2], b.shape[:-2])
    lower = wg.broadcast_to(lower, batch + lower.shape[-2:])
    return wg.linalg.triangular_solve(lower, wg.broadcast_to(b, batch + b.shape[-2:]))


def mahalanobis(lower: Tensor, difference: Tensor) -> Tensor:
    """The square of a vector's length after the inverse of a Cholesky factor was applied."""
    solved = solve_lower(lower, difference[..., None])[..., 0]
    return (solved * solved).sum(-1)


def half_log_det(lower: Tensor) -> Tensor:
    """Half the logarithm of the determinant of the matrix with this Cholesky factor."""
    return wg.log(wg.diagonal(lower)).sum(-1)


def factor_of_precision(precision: Tensor) -> Tensor:
    """The Cholesky factor of the inverse: of the matrix with its axes reversed, inverted and reversed back."""
    reverse = wg.flip(wg.linalg.cholesky(wg.flip(precision, axis=(-2, -1))), axis=(-2, -1)).mT
    return solve_lower(reverse, wg.eye(precision.shape[-1], dtype=precision.dtype))


def inverse_from_factor(lower: Tensor) -> Tensor:
    """The inverse of the matrix with this Cholesky factor."""
    inverse = solve_lower(lower, wg.eye(lower.shape[-1], dtype=lower.dtype))
    return inverse.mT @ inverse


class MultivariateNormal(Distribution):
    """The normal distribution of vectors, by a covariance matrix, its inverse or its Cholesky factor.

    >>> import wengert as wg
    >>> normal = wg.distributions.MultivariateNormal(wg.zeros(2), wg.eye(2))
    >>> normal.rsample((5,)).shape, round(normal.log_prob(wg.zeros(2)).item(), 4)
    ((5, 2), -1.8379)
    """

    arg_constraints: ClassVar = {
        "loc": constraints.real_vector,
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support: Any = constraints.real_vector
    tensors = ("loc", "_scale_tril", "_given_matrix")
    has_rsample = True

    def __init__(
        self,
        loc: Any,
        covariance_matrix: Any = None,
        precision_matrix: Any = None,
        scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        given = [m for m in (covariance_matrix, precision_matrix, scale_tril) if m is not None]
        if len(given) != 1:
            raise ArgumentError("MultivariateNormal takes one of covariance_matrix, precision_matrix and scale_tril")
        loc, matrix = as_tensors(loc, given[0])
        if loc.ndim < 1 or matrix.ndim < 2:
            raise ArgumentError("MultivariateNormal: loc is a vector and the matrix has two axes, or batches of them")
        batch = wg.broadcast_shapes(matrix.shape[:-2], loc.shape[:-1])
        matrix = wg.broadcast_to(matrix, batch + matrix.shape[-2:])
        self.loc = wg.broadcast_to(loc, batch + loc.shape[-1:])
        self._kind = "covariance" if covariance_matrix is not None else "precision" if scale_tril is None else "factor"
        self._given_matrix = matrix
        super().__init__(batch, loc.shape[-1:], validate_args)
        if self._kind == "factor":
            self._scale_tril = matrix
        else:
            self._scale_tril = wg.linalg.cholesky(matrix) if self._kind == "covariance" else factor_of_precision(matrix)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        is_factor = self._kind == "factor"
        wanted = constraints.lower_cholesky if is_factor else constraints.positive_definite
        if can_look(self._given_matrix) and not wanted.check(self._given_matrix.detach()).all().item():
            raise ArgumentError(f"MultivariateNormal: the {self._kind} matrix is to be {wanted!r}")

    @property
    def scale_tril(self) -> Tensor:
        return self._scale_tril

    @property
    def covariance_matrix(self) -> Tensor:
        return self._given_matrix if self._kind == "covariance" else self._scale_tril @ self._scale_tril.mT

    @property
    def precision_matrix(self) -> Tensor:
        return self._given_matrix if self._kind == "precision" else inverse_from_factor(self._scale_tril)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        z = wg.random.normal(shape, dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + (self._scale_tril @ z[..., None])[..., 0]

    def log_prob(self, value: Any) -> Tensor:
        distance = mahalanobis(self._scale_tril, self._validate_sample(value) - self.loc)
        return -0.5 * (self._event_shape[0] * LOG_2PI + distance) - half_log_det(self._scale_tril)

    def entropy(self) -> Tensor:
        return 0.5 * self._event_shape[0] * (1.0 + LOG_2PI) + half_log_det(self._scale_tril)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return (self._scale_tril**2).sum(-1)


class LowRankMultivariateNormal(Distribution):
    """The normal distribution with covariance `cov_factor cov_factor.T + diag(cov_diag)`: cheap for a thin factor.

    >>> import wengert as wg
    >>> wg.distributions.LowRankMultivariateNormal(wg.zeros(3), wg.ones((3, 1)), wg.ones(3)).variance.tolist()
    [2.0, 2.0, 2.0]
    """

    arg_constraints: ClassVar = {
        "loc": constraints.real_vector,
        "cov_factor": constraints.independent(constraints.real, 2),
        "cov_diag": constraints.independent(constraints.positive, 1),
    }
    support: Any = constraints.real_vector
    tensors = ("loc", "cov_factor", "cov_diag", "_capacitance")
    has_rsample = True

    def __init__(self, loc: Any, cov_factor: Any, cov_diag: Any, validate_args: bool | None = None) -> None:
        loc, factor, diag = as_tensors(loc, cov_factor, cov_diag)
        if loc.shape[-1:] != factor.shape[-2:-1] or diag.shape[-1:] != loc.shape[-1:]:
            raise ArgumentError(
                f"LowRankMultivariateNormal: loc, cov_factor and cov_diag have {loc.shape}, {factor.shape} and "
                f"{diag.shape}; they are to end in (n,), (n, m) and (n,)"
            )
        batch = wg.broadcast_shapes(loc.shape[:-1], factor.shape[:-2], diag.shape[:-1])
        self.loc = wg.broadcast_to(loc, batch + loc.shape[-1:])
        self.cov_factor = wg.broadcast_to(factor, batch + factor.shape[-2:])
        self.cov_diag = wg.broadcast_to(diag, batch + diag.shape[-1:])
        super().__init__(batch, loc.shape[-1:], validate_args)
        rank = factor.shape[-1]
        inner = self.cov_factor.mT @ (self.cov_factor / self.cov_diag[..., None])
        self._capacitance = wg.linalg.cholesky(inner + wg.eye(rank, dtype=inner.dtype))

    @property
    def covariance_matrix(self) -> Tensor:
        return self.cov_factor @ self.cov_factor.mT + wg.diag_embed(self.cov_diag)

    @property
    def scale_tril(self) -> Tensor:
        return wg.linalg.cholesky(self.covariance_matrix)

    @property
    def precision_matrix(self) -> Tensor:
        """By Woodbury's formula."""
        a = solve_lower(self._capacitance, self.cov_factor.mT / self.cov_diag[..., None, :])
        return wg.diag_embed(1 / self.cov_diag) - a.mT @ a

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape, rank = self._extended_shape(sample_shape), self.cov_factor.shape[-1]
        like = {"dtype": self.loc.dtype, "device": self.loc.device}
        common, own = wg.random.normal((*shape[:-1], rank), **like), wg.random.normal(shape, **like)
        return self.loc + (self.cov_factor @ common[..., None])[..., 0] + wg.sqrt(self.cov_diag) * own

    def log_det(self) -> Tensor:
        """The logarithm of the determinant of the covariance, by the matrix determinant lemma."""
        return 2 * half_log_det(self._capacitance) + wg.log(self.cov_diag).sum(-1)

    def distance(self, difference: Tensor) -> Tensor:
        """The squared Mahalanobis length of a vector, by Woodbury's formula."""
        scaled = difference / self.cov_diag
        common = (self.cov_factor.mT @ scaled[..., None])[..., 0]
        return (difference * scaled).sum(-1) - mahalanobis(self._capacitance, common)

    def log_prob(self, value: Any) -> Tensor:
        distance = self.distance(self._validate_sample(value) - self.loc)
        return -0.5 * (self._event_shape[0] * LOG_2PI + self.log_det() + distance)

    def entropy(self) -> Tensor:
        return 0.5 * (self._event_shape[0] * (1.0 + LOG_2PI) + self.log_det())

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        return (self.cov_factor**2).sum(-1) + self.cov_diag


def _log_multigamma(a: Tensor, p: int) -> Tensor:
    return p * (p - 1) / 4 * math.log(math.pi) + sum(wg.lgamma(a - 0.5 * i) for i in range(p))


def _multidigamma(a: Tensor, p: int) -> Tensor:
    return wg.asarray(sum(wg.digamma(a - 0.5 * i) for i in range(p)))


class Wishart(Distribution):
    """Positive definite matrices: the sum of the outer products of `df` normal vectors with a covariance.

    >>> import wengert as wg
    >>> wg.distributions.Wishart(wg.tensor(3.0), covariance_matrix=wg.eye(2)).mean.tolist()
    [[3.0, 0.0], [0.0, 3.0]]
    """

    arg_constraints: ClassVar = {
        "df": constraints.greater_than(0),
        "covariance_matrix": constraints.positive_definite,
        "precision_matrix": constraints.positive_definite,
        "scale_tril": constraints.lower_cholesky,
    }
    support: Any = constraints.positive_definite
    tensors = ("df", "_scale_tril")
    has_rsample = True

    def __init__(
        self,
        df: Any,
        covariance_matrix: Any = None,
        precision_matrix: Any = None,
        scale_tril: Any = None,
        validate_args: bool | None = None,
    ) -> None:
        given = [m for m in (covariance_matrix, precision_matrix, scale_tril) if m is not None]
        if len(given) != 1:
            raise ArgumentError("Wishart takes one of covariance_matrix, precision_matrix and scale_tril")
        df, matrix = as_tensors(df, given[0])
        batch, event = wg.broadcast_shapes(df.shape, matrix.shape[:-2]), matrix.shape[-2:]
        matrix = wg.broadcast_to(matrix, batch + event)
        self.df = wg.broadcast_to(df, batch)
        if scale_tril is not None:
            self._scale_tril = matrix
        else:
            self._scale_tril = wg.linalg.cholesky(matrix) if precision_matrix is None else factor_of_precision(matrix)
        super().__init__(batch, event, validate_args)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        if can_look(self.df) and not (self.df > self._scale_tril.shape[-1] - 1).detach().all().item():
            raise ArgumentError(f"Wishart: df is above {self._scale_tril.shape[-1] - 1}, one less than the size")

    @property
    def scale_tril(self) -> Tensor:
        return self._scale_tril

    @property
    def covariance_matrix(self) -> Tensor:
        return self._scale_tril @ self._scale_tril.mT

    @property
    def precision_matrix(self) -> Tensor:
        return inverse_from_factor(self._scale_tril)

    def rsample(self, sample_shape: Any = (), max_try_correction: Any = None) -> Tensor:
        """By Bartlett's decomposition: chi-squared numbers on a diagonal, normal ones below."""
        shape, p = self._extended_shape(sample_shape), self._event_shape[-1]
        dofs = self.df[..., None] - wg.arange(p, dtype=self.df.dtype)
        chi = wg.exp(0.5 * (log_draws(0.5 * dofs, shape[:-1]) + math.log(2)))
        below = wg.tril(wg.random.normal(shape, dtype=self.df.dtype, device=self.df.device), -1)
        factor = self._scale_tril @ (below + wg.diag_embed(chi))
        return factor @ factor.mT

    def log_prob(self, value: Any) -> Tensor:
        value, p, nu = self._validate_sample(value), self._event_shape[-1], self.df
        ratio = solve_lower(self._scale_tril, solve_lower(self._scale_tril, value).mT)
        return (
            -nu * (p * math.log(2) / 2 + half_log_det(self._scale_tril))
            - _log_multigamma(nu / 2, p)
            + (nu - p - 1) * half_log_det(wg.linalg.cholesky(value))
            - 0.5 * wg.trace(ratio)
        )

    def entropy(self) -> Tensor:
        p, nu = self._event_shape[-1], self.df
        return (
            (p + 1) * (p * math.log(2) / 2 + half_log_det(self._scale_tril))
            + _log_multigamma(nu / 2, p)
            - (nu - p - 1) / 2 * _multidigamma(nu / 2, p)
            + p * nu / 2
        )

    @property
    def mean(self) -> Tensor:
        return self.df[..., None, None] * self.covariance_matrix

    @property
    def mode(self) -> Tensor:
        factor = self.df - self.covariance_matrix.shape[-1] - 1
        return wg.where(factor <= 0, math.nan, factor)[..., None, None] * self.covariance_matrix

    @property
    def variance(self) -> Tensor:
        covariance = self.covariance_matrix
        diagonal = wg.diagonal(covariance)
        return self.df[..., None, None] * (covariance**2 + diagonal[..., :, None] * diagonal[..., None, :])


class LKJCholesky(Distribution):
    """Cholesky factors of correlation matrices (Lewandowski, Kurowicka and Joe, 2009): near 1 all are as likely.

    >>> import wengert as wg
    >>> wg.distributions.LKJCholesky(3, 1.0).sample().shape
    (3, 3)
    """

    arg_constraints: ClassVar = {"concentration": constraints.positive}
    support: Any = constraints.corr_cholesky
    tensors = ("concentration",)

    def __init__(self, dim: int, concentration: Any = 1.0, validate_args: bool | None = None) -> None:
        if dim < 2:
            raise ArgumentError(f"LKJCholesky: matrices of size 2 and more, not {dim}")
        self.dim = dim
        (self.concentration,) = broadcast_all(concentration)
        super().__init__(self.concentration.shape, (dim, dim), validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        return super().expand(batch_shape)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """By the onion method: each row's length by a beta number, its direction by normal ones."""
        shape, d = self._extended_shape(sample_shape), self.dim
        with wg.no_grad():
            marginal = (self.concentration.detach() + 0.5 * (d - 2))[..., None]
            offset = wg.asarray([0.0, *(0.5 * i for i in range(d - 1))], dtype=marginal.dtype)
            last = wg.asarray([0.0, *(float(i) for i in range(d - 1))], dtype=marginal.dtype)
            beta = Beta(offset + 0.5, marginal - 0.5 * last, validate_args=False)
            lengths = beta.sample(shape[: len(shape) - 2 - len(self._batch_shape)])[..., None]
            u = wg.tril(wg.random.normal(shape, dtype=marginal.dtype, device=marginal.device), -1)
            size = wg.sqrt((u * u).sum(-1, keepdims=True))
            first = wg.asarray([[1.0]] + [[0.0]] * (d - 1), dtype=marginal.dtype)  # the first row has no direction
            w = wg.sqrt(lengths) * u / (size + first)
            return w + wg.diag_embed(wg.sqrt(wg.maximum(1 - (w * w).sum(-1), 1e-38)))

    def log_prob(self, value: Any) -> Tensor:
        value, d, eta = self._validate_sample(value), self.dim, self.concentration
        powers = 2 * (eta - 1)[..., None] + d - wg.arange(2, d + 1, dtype=eta.dtype)
        free = (powers * wg.log(wg.diagonal(value)[..., 1:])).sum(-1)
        alpha = eta + 0.5 * (d - 1)
        norm = 0.5 * (d - 1) * math.log(math.pi) + _log_multigamma(alpha - 0.5, d - 1) - wg.lgamma(alpha) * (d - 1)
        return free - norm
