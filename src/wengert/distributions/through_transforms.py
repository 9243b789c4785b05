"""Distributions of transforms of normal, exponential and uniform draws: log-normal, Pareto, Weibull and others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar, Self

import wengert as wg
from wengert import Tensor
from wengert.distributions import constraints
from wengert.distributions.distribution import EULER, Distribution, broadcast_all, finfo
from wengert.distributions.gamma_family import Exponential
from wengert.distributions.location_scale import Normal, Uniform
from wengert.distributions.transformed import TransformedDistribution
from wengert.distributions.transforms import AffineTransform, ExpTransform, PowerTransform
from wengert.distributions.vector_transforms import StickBreakingTransform


class LogNormal(TransformedDistribution):
    """exp of a normal draw.

    >>> import wengert as wg
    >>> round(wg.distributions.LogNormal(0.0, 1.0).mean.item(), 4)
    1.6487
    """

    arg_constraints: ClassVar = {"loc": constraints.real, "scale": constraints.positive}
    support: Any = constraints.positive

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        super().__init__(Normal(loc, scale, validate_args), ExpTransform(), validate_args)

    @property
    def loc(self) -> Tensor:
        return self.base_dist.loc

    @property
    def scale(self) -> Tensor:
        return self.base_dist.scale

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() + self.loc

    @property
    def mean(self) -> Tensor:
        return wg.exp(self.loc + self.scale**2 / 2)

    @property
    def mode(self) -> Tensor:
        return wg.exp(self.loc - self.scale**2)

    @property
    def variance(self) -> Tensor:
        square = self.scale**2
        return wg.expm1(square) * wg.exp(2 * self.loc + square)


class LogisticNormal(TransformedDistribution):
    """Shares that sum to 1, of normal draws through stick breaking.

    >>> import wengert as wg
    >>> wg.distributions.LogisticNormal(wg.zeros(2), wg.ones(2)).rsample().shape
    (3,)
    """

    arg_constraints: ClassVar = {"loc": constraints.real, "scale": constraints.positive}
    support: Any = constraints.simplex

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        normal = Normal(loc, scale, validate_args)
        if not normal.batch_shape:
            normal = normal.expand((1,))
        super().__init__(normal, StickBreakingTransform(), validate_args)

    @property
    def loc(self) -> Tensor:
        return self.base_dist.base_dist.loc

    @property
    def scale(self) -> Tensor:
        return self.base_dist.base_dist.scale


class Pareto(TransformedDistribution):
    """The distribution with density proportional to x ** -(alpha + 1), from `scale` on.

    >>> import wengert as wg
    >>> wg.distributions.Pareto(1.0, 3.0).mean.item()
    1.5
    """

    arg_constraints: ClassVar = {"alpha": constraints.positive, "scale": constraints.positive}
    tensors = ("scale", "alpha")

    def __init__(self, scale: Any, alpha: Any, validate_args: bool | None = None) -> None:
        self.scale, self.alpha = broadcast_all(scale, alpha)
        parts = [ExpTransform(), AffineTransform(0.0, self.scale)]
        super().__init__(Exponential(self.alpha, validate_args), parts, validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        shape = tuple(batch_shape)
        scale, alpha = (wg.broadcast_to(part, shape) for part in (self.scale, self.alpha))
        return type(self)(scale, alpha, validate_args=False)

    @property
    def support(self) -> Any:
        return constraints.greater_than_eq(self.scale)

    def entropy(self) -> Tensor:
        return wg.log(self.scale / self.alpha) + 1 + 1 / self.alpha

    @property
    def mean(self) -> Tensor:
        return wg.where(self.alpha > 1, self.alpha * self.scale / (self.alpha - 1), math.inf)

    @property
    def mode(self) -> Tensor:
        return self.scale

    @property
    def variance(self) -> Tensor:
        a = self.alpha
        return wg.where(a > 2, self.scale**2 * a / ((a - 1) ** 2 * (a - 2)), math.inf)


class Weibull(TransformedDistribution):
    """Times to failure whose rate is a power of the time.

    >>> import wengert as wg
    >>> round(wg.distributions.Weibull(1.0, 1.0).mean.item(), 4)
    1.0
    """

    arg_constraints: ClassVar = {"scale": constraints.positive, "concentration": constraints.positive}
    support: Any = constraints.positive
    tensors = ("scale", "concentration")

    def __init__(self, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.scale, self.concentration = broadcast_all(scale, concentration)
        base = Exponential(wg.ones_like(self.scale), validate_args)
        parts = [PowerTransform(1 / self.concentration), AffineTransform(0.0, self.scale)]
        super().__init__(base, parts, validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        shape = tuple(batch_shape)
        scale, concentration = (wg.broadcast_to(part, shape) for part in (self.scale, self.concentration))
        return type(self)(scale, concentration, validate_args=False)

    def entropy(self) -> Tensor:
        inverse = 1 / self.concentration
        return EULER * (1 - inverse) + wg.log(self.scale * inverse) + 1

    @property
    def mean(self) -> Tensor:
        return self.scale * wg.exp(wg.lgamma(1 + 1 / self.concentration))

    @property
    def mode(self) -> Tensor:
        k = self.concentration
        above = wg.where(k > 1, (k - 1) / k, 0.0)
        return wg.where(k > 1, self.scale * above ** (1 / k), 0.0)

    @property
    def variance(self) -> Tensor:
        inverse = 1 / self.concentration
        return self.scale**2 * (wg.exp(wg.lgamma(1 + 2 * inverse)) - wg.exp(2 * wg.lgamma(1 + inverse)))


class Kumaraswamy(TransformedDistribution):
    """A distribution on the numbers from 0 to 1 like the beta distribution, with a formula for its draws.

    >>> import wengert as wg
    >>> wg.distributions.Kumaraswamy(2.0, 2.0).rsample((2,)).shape
    (2,)
    """

    arg_constraints: ClassVar = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support: Any = constraints.unit_interval
    tensors = ("concentration1", "concentration0")

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        base = Uniform(wg.zeros_like(self.concentration0), wg.ones_like(self.concentration0), validate_args=False)
        parts = [
            PowerTransform(1 / self.concentration0),
            AffineTransform(1.0, -1.0),
            PowerTransform(1 / self.concentration1),
        ]
        super().__init__(base, parts, validate_args)

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        shape = tuple(batch_shape)
        a, b = (wg.broadcast_to(part, shape) for part in (self.concentration1, self.concentration0))
        return type(self)(a, b, validate_args=False)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        eps = float(finfo(self.concentration1.dtype).eps)
        unit = wg.clip(self.base_dist.rsample(sample_shape), eps, 1 - eps)
        return self._forward(unit)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with wg.no_grad():
            return self.rsample(sample_shape).detach()

    def _moment(self, n: int) -> Tensor:
        a, b = 1 + n / self.concentration1, self.concentration0
        return wg.exp(wg.lgamma(a) + wg.lgamma(b) - wg.lgamma(a + b)) * b

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        harmonic = wg.digamma(b + 1) + EULER
        return (1 - 1 / b) + (1 - 1 / a) * harmonic - wg.log(a) - wg.log(b)

    @property
    def mean(self) -> Tensor:
        return self._moment(1)

    @property
    def mode(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        has_one = (a >= 1) & (b >= 1) & ((a > 1) | (b > 1))
        inside = wg.where(has_one, (a - 1) / (a * b - 1), 1.0)
        return wg.where(has_one, inside ** (1 / a), math.nan)

    @property
    def variance(self) -> Tensor:
        return self._moment(2) - self._moment(1) ** 2


class GeneralizedPareto(Distribution):
    """What lies beyond a high threshold: exponential at concentration 0, bounded below it, with a heavy tail above.

    >>> import wengert as wg
    >>> wg.distributions.GeneralizedPareto(0.0, 1.0, 0.1).rsample((2,)).shape
    (2,)
    """

    arg_constraints: ClassVar = {
        "loc": constraints.real,
        "scale": constraints.positive,
        "concentration": constraints.real,
    }
    tensors = ("loc", "scale", "concentration")
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale, self.concentration = broadcast_all(loc, scale, concentration)
        super().__init__(self.loc.shape, (), validate_args)

    @property
    def support(self) -> Any:
        bent = self.concentration < 0
        upper = self.loc - self.scale / wg.where(bent, self.concentration, -1.0)
        return constraints.interval(self.loc, wg.where(bent, upper, math.inf))

    def _shape(self) -> tuple[Tensor, Tensor]:
        """Where the concentration is 0, and the concentration with 1 in its place there."""
        is_zero = wg.abs(self.concentration) < 1e-8
        return is_zero, wg.where(is_zero, 1.0, self.concentration)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self.icdf(wg.random.uniform(shape, dtype=self.loc.dtype, device=self.loc.device))

    def _log_survival(self, z: Tensor) -> Tensor:
        is_zero, k = self._shape()
        return wg.where(is_zero, -z, -wg.log1p(k * z) / k)

    def log_prob(self, value: Any) -> Tensor:
        z = (self._validate_sample(value) - self.loc) / self.scale
        is_zero, k = self._shape()
        return -wg.log(self.scale) - wg.where(is_zero, z, (1 / k + 1) * wg.log1p(k * z))

    def log_survival_function(self, value: Any) -> Tensor:
        """The logarithm of the probability of a draw above a value."""
        return self._log_survival((self._validate_sample(value) - self.loc) / self.scale)

    def log_cdf(self, value: Any) -> Tensor:
        """The logarithm of the distribution function."""
        return wg.log(self.cdf(value))

    def cdf(self, value: Any) -> Tensor:
        return -wg.expm1(self.log_survival_function(value))

    def icdf(self, value: Any) -> Tensor:
        is_zero, k = self._shape()
        log_rest = wg.log1p(-wg.asarray(value))
        return self.loc + self.scale * wg.where(is_zero, -log_rest, wg.expm1(-k * log_rest) / k)

    def entropy(self) -> Tensor:
        return wg.log(self.scale) + self.concentration + 1

    @property
    def mean(self) -> Tensor:
        k = self.concentration
        return wg.where(k < 1, self.loc + self.scale / (1 - wg.where(k < 1, k, 0.5)), math.nan)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        is_finite = self.concentration < 0.5
        k = wg.where(is_finite, self.concentration, 0.25)
        return wg.where(is_finite, self.scale**2 / ((1 - k) ** 2 * (1 - 2 * k)), math.nan)
