"""Distributions with a location and a scale: normal, Laplace, Cauchy, uniform, Gumbel, and the folded ones."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import wengert as wg
from wengert import Tensor
from wengert.core.errors import ArgumentError
from wengert.distributions import constraints
from wengert.distributions.distribution import EULER, LOG_2PI, Distribution, broadcast_all, can_look, finfo
from wengert.distributions.sampling import von_mises_draw


class _Located(Distribution):
    """Draws are loc + scale * z, with z from the standard distribution: the subclass says what that is."""

    arg_constraints: ClassVar = {"loc": constraints.real, "scale": constraints.positive}
    support: Any = constraints.real
    tensors = ("loc", "scale")
    has_rsample = True

    def __init__(self, loc: Any, scale: Any, validate_args: bool | None = None) -> None:
        self.loc, self.scale = broadcast_all(loc, scale)
        super().__init__(self.loc.shape, (), validate_args)

    def _standardized(self, value: Any) -> Tensor:
        return (self._validate_sample(value) - self.loc) / self.scale

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc


class Normal(_Located):
    """The normal distribution, by its mean and standard deviation.

    >>> import wengert as wg
    >>> normal = wg.distributions.Normal(wg.tensor([0.0, 1.0]), 2.0)
    >>> normal.batch_shape, normal.sample((3,)).shape, round(normal.log_prob(0.0)[0].item(), 4)
    ((2,), (3, 2), -1.6121)
    """

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self.loc + self.scale * wg.random.normal(shape, dtype=self.loc.dtype, device=self.loc.device)

    def log_prob(self, value: Any) -> Tensor:
        z = self._standardized(value)
        return -0.5 * (z * z) - wg.log(self.scale) - 0.5 * LOG_2PI

    def cdf(self, value: Any) -> Tensor:
        return 0.5 * wg.erfc(-self._standardized(value) / math.sqrt(2))

    def icdf(self, value: Any) -> Tensor:
        return self.loc + self.scale * wg.erfinv(2 * wg.asarray(value) - 1) * math.sqrt(2)

    def entropy(self) -> Tensor:
        return 0.5 + 0.5 * LOG_2PI + wg.log(self.scale)

    @property
    def variance(self) -> Tensor:
        return self.scale**2

    @property
    def stddev(self) -> Tensor:
        return self.scale


class Laplace(_Located):
    """The double exponential distribution: exp(-|x - loc| / scale) / (2 scale).

    >>> import wengert as wg
    >>> round(wg.distributions.Laplace(0.0, 1.0).log_prob(wg.tensor(0.0)).item(), 4)
    -0.6931
    """

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape, dtype = self._extended_shape(sample_shape), self.loc.dtype
        size = wg.random.exponential(shape, dtype=dtype, device=self.loc.device)
        side = wg.where(wg.random.bernoulli(0.5, shape, device=self.loc.device), size, -size)
        return self.loc + self.scale * side

    def log_prob(self, value: Any) -> Tensor:
        return -wg.log(2 * self.scale) - wg.abs(self._standardized(value))

    def cdf(self, value: Any) -> Tensor:
        z = self._standardized(value)
        return 0.5 - 0.5 * wg.sign(z) * wg.expm1(-wg.abs(z))

    def icdf(self, value: Any) -> Tensor:
        term = wg.asarray(value) - 0.5
        return self.loc - self.scale * wg.sign(term) * wg.log1p(-2 * wg.abs(term))

    def entropy(self) -> Tensor:
        return 1 + wg.log(2 * self.scale)

    @property
    def variance(self) -> Tensor:
        return 2 * self.scale**2

    @property
    def stddev(self) -> Tensor:
        return math.sqrt(2) * self.scale


class Cauchy(_Located):
    """The Cauchy distribution, which has no mean and no variance.

    >>> import wengert as wg
    >>> round(wg.distributions.Cauchy(0.0, 1.0).log_prob(wg.tensor(0.0)).item(), 4)
    -1.1447
    """

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        u = wg.random.uniform(shape, -0.5, 0.5, dtype=self.loc.dtype, device=self.loc.device)
        return self.loc + self.scale * wg.tan(math.pi * u)

    def log_prob(self, value: Any) -> Tensor:
        z = self._standardized(value)
        return -math.log(math.pi) - wg.log(self.scale) - wg.log1p(z * z)

    def cdf(self, value: Any) -> Tensor:
        return wg.atan(self._standardized(value)) / math.pi + 0.5

    def icdf(self, value: Any) -> Tensor:
        return wg.tan(math.pi * (wg.asarray(value) - 0.5)) * self.scale + self.loc

    def entropy(self) -> Tensor:
        return math.log(4 * math.pi) + wg.log(self.scale)

    @property
    def mean(self) -> Tensor:
        return wg.full_like(self.loc, math.nan)

    @property
    def variance(self) -> Tensor:
        return wg.full_like(self.loc, math.inf)


class Gumbel(_Located):
    """The distribution of the largest of many: exp(-z - exp(-z)) / scale.

    >>> import wengert as wg
    >>> round(wg.distributions.Gumbel(0.0, 1.0).mean.item(), 4)
    0.5772
    """

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self.loc + self.scale * wg.random.gumbel(shape, dtype=self.loc.dtype, device=self.loc.device)

    def log_prob(self, value: Any) -> Tensor:
        z = self._standardized(value)
        return -z - wg.exp(-z) - wg.log(self.scale)

    def cdf(self, value: Any) -> Tensor:
        return wg.exp(-wg.exp(-self._standardized(value)))

    def icdf(self, value: Any) -> Tensor:
        return self.loc - self.scale * wg.log(-wg.log(wg.asarray(value)))

    def entropy(self) -> Tensor:
        return wg.log(self.scale) + (1 + EULER)

    @property
    def mean(self) -> Tensor:
        return self.loc + self.scale * EULER

    @property
    def variance(self) -> Tensor:
        return (math.pi**2 / 6) * self.scale**2

    @property
    def stddev(self) -> Tensor:
        return (math.pi / math.sqrt(6)) * self.scale


class Uniform(Distribution):
    """Numbers spread evenly from `low` to below `high`.

    >>> import wengert as wg
    >>> wg.distributions.Uniform(0.0, 4.0).mean.item()
    2.0
    """

    arg_constraints: ClassVar = {"low": constraints.dependent, "high": constraints.dependent}
    tensors = ("low", "high")
    has_rsample = True

    def __init__(self, low: Any, high: Any, validate_args: bool | None = None) -> None:
        self.low, self.high = broadcast_all(low, high)
        super().__init__(self.low.shape, (), validate_args)

    def _check_parameters(self) -> None:
        if can_look(self.low) and not (self.low < self.high).detach().all().item():
            raise ArgumentError("Uniform: low is below high")

    @property
    def support(self) -> Any:
        return constraints.interval(self.low, self.high)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        unit = wg.random.uniform(shape, dtype=self.low.dtype, device=self.low.device)
        return self.low + unit * (self.high - self.low)

    def log_prob(self, value: Any) -> Tensor:
        value = self._validate_sample(value)
        inside = (self.low <= value) & (value < self.high)
        return wg.where(inside, -wg.log(self.high - self.low), -math.inf)

    def cdf(self, value: Any) -> Tensor:
        return wg.clip((self._validate_sample(value) - self.low) / (self.high - self.low), 0.0, 1.0)

    def icdf(self, value: Any) -> Tensor:
        return wg.asarray(value) * (self.high - self.low) + self.low

    def entropy(self) -> Tensor:
        return wg.log(self.high - self.low)

    @property
    def mean(self) -> Tensor:
        return (self.high + self.low) / 2

    @property
    def mode(self) -> Tensor:
        return wg.full_like(self.high, math.nan)

    @property
    def variance(self) -> Tensor:
        return (self.high - self.low) ** 2 / 12

    @property
    def stddev(self) -> Tensor:
        return (self.high - self.low) / math.sqrt(12)


class _Folded(Distribution):
    """The size of a draw around 0: of `base_dist`."""

    arg_constraints: ClassVar = {"scale": constraints.positive}
    support: Any = constraints.nonnegative
    tensors = ("scale",)
    parts = ("base_dist",)
    has_rsample = True
    base_dist: _Located

    def __init__(self, scale: Any, validate_args: bool | None = None) -> None:
        (self.scale,) = broadcast_all(scale)
        self.base_dist = self._base(wg.zeros_like(self.scale), self.scale)
        super().__init__(self.scale.shape, (), validate_args)

    def _base(self, loc: Tensor, scale: Tensor) -> _Located:
        raise TypeError(f"{type(self).__name__} has no base")

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return wg.abs(self.base_dist.rsample(sample_shape))

    def log_prob(self, value: Any) -> Tensor:
        value = self._validate_sample(value)
        return wg.where(value >= 0, self.base_dist.log_prob(value) + math.log(2), -math.inf)

    def cdf(self, value: Any) -> Tensor:
        return 2 * self.base_dist.cdf(self._validate_sample(value)) - 1

    def icdf(self, value: Any) -> Tensor:
        return self.base_dist.icdf((wg.asarray(value) + 1) / 2)

    def entropy(self) -> Tensor:
        return self.base_dist.entropy() - math.log(2)

    @property
    def mode(self) -> Tensor:
        return wg.zeros_like(self.scale)


class HalfNormal(_Folded):
    """The size of a normal draw with mean 0 and this standard deviation.

    >>> import wengert as wg
    >>> round(wg.distributions.HalfNormal(1.0).mean.item(), 4)
    0.7979
    """

    def _base(self, loc: Tensor, scale: Tensor) -> _Located:
        return Normal(loc, scale, validate_args=False)

    @property
    def mean(self) -> Tensor:
        return self.scale * math.sqrt(2 / math.pi)

    @property
    def variance(self) -> Tensor:
        return self.scale**2 * (1 - 2 / math.pi)


class HalfCauchy(_Folded):
    """The size of a Cauchy draw around 0.

    >>> import wengert as wg
    >>> round(wg.distributions.HalfCauchy(1.0).log_prob(wg.tensor(1.0)).item(), 4)
    -1.1447
    """

    def _base(self, loc: Tensor, scale: Tensor) -> _Located:
        return Cauchy(loc, scale, validate_args=False)

    @property
    def mean(self) -> Tensor:
        return wg.full_like(self.scale, math.inf)

    @property
    def variance(self) -> Tensor:
        return wg.full_like(self.scale, math.inf)


class VonMises(Distribution):
    """The normal distribution of the circle, by its mean angle and concentration (one over a variance).

    >>> import wengert as wg
    >>> wg.distributions.VonMises(0.0, 1.0).sample((2,)).shape
    (2,)
    """

    arg_constraints: ClassVar = {"loc": constraints.real, "concentration": constraints.positive}
    support: Any = constraints.real
    tensors = ("loc", "concentration")

    def __init__(self, loc: Any, concentration: Any, validate_args: bool | None = None) -> None:
        self.loc, self.concentration = broadcast_all(loc, concentration)
        super().__init__(self.loc.shape, (), validate_args)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with wg.no_grad():
            drawn = von_mises_draw(wg.broadcast_to(self.concentration.detach(), shape))
            return (wg.remainder(drawn + self.loc.detach() + math.pi, 2 * math.pi) - math.pi).detach()

    def log_prob(self, value: Any) -> Tensor:
        angle = self._validate_sample(value) - self.loc
        # cos - 1, of which nothing cancels, as the Bessel functions are scaled by exp(-concentration).
        turned = -2 * wg.sin(angle / 2) ** 2
        return self.concentration * turned - LOG_2PI - _log_scaled_bessel(self.concentration, 0)

    def entropy(self) -> Tensor:
        return self.concentration * self.variance + LOG_2PI + _log_scaled_bessel(self.concentration, 0)

    @property
    def mean(self) -> Tensor:
        return self.loc

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        """The circular variance, 1 - I1 / I0."""
        ratio = _log_scaled_bessel(self.concentration, 1) - _log_scaled_bessel(self.concentration, 0)
        return -wg.expm1(ratio)


def _log_scaled_bessel(x: Tensor, order: int) -> Tensor:
    """log(I(x) exp(-x)) of the modified Bessel function of order 0 or 1.

    Up to 60 by the mean of exp(x (cos t - 1)) over points of the circle, which of a smooth periodic function is exact
    to rounding; beyond, by the asymptotic series.
    """
    count = 96
    angles = wg.asarray([2 * math.pi * k / count for k in range(count)], dtype=x.dtype)
    is_large = x > 60
    near = wg.where(is_large, 1.0, x)[..., None]
    # Of order 1 by parts: x sin^2 t in place of cos t, which would cancel at small x.
    weights = wg.sin(angles) ** 2 * near if order == 1 else 1.0
    mean = (weights * wg.exp(near * (wg.cos(angles) - 1))).mean(-1)
    far = wg.where(is_large, x, 100.0)
    term, total = wg.ones_like(far), wg.ones_like(far)
    for k in range(1, 16):
        term = term * -(4.0 * order**2 - (2 * k - 1) ** 2) / (8 * k * far)
        total = total + term
    tiny = float(finfo(x.dtype).tiny)
    return wg.where(is_large, wg.log(total) - 0.5 * wg.log(2 * math.pi * far), wg.log(wg.maximum(mean, tiny)))
