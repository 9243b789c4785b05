"""Gamma distributions and what is made of them: exponential, beta, Dirichlet, chi-squared, Student's t, F.

Their draws are differentiable by all parameters (`sampling.log_gamma_draw`).
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import wengert as wg
from wengert import Tensor
from wengert.distributions import constraints
from wengert.distributions.distribution import Distribution, Shape, as_tensors, broadcast_all, finfo
from wengert.distributions.sampling import gamma_cdf, log_gamma_draw


def _log_beta(a: Tensor, b: Tensor) -> Tensor:
    return wg.lgamma(a) + wg.lgamma(b) - wg.lgamma(a + b)


def log_draws(concentration: Tensor, shape: Shape) -> Tensor:
    """Logarithms of draws from Gamma(concentration, 1)."""
    return log_gamma_draw(wg.broadcast_to(concentration, shape))


def positive(log_value: Tensor) -> Tensor:
    """exp of a logarithm, not below the least float: a draw of 0 would be outside of the support."""
    return wg.maximum(wg.exp(log_value), float(finfo(log_value.dtype).tiny))


class Gamma(Distribution):
    """The gamma distribution, by its shape and its rate.

    >>> import wengert as wg
    >>> gamma = wg.distributions.Gamma(3.0, 2.0)
    >>> gamma.mean.item(), gamma.variance.item()
    (1.5, 0.75)
    """

    arg_constraints: ClassVar = {"concentration": constraints.positive, "rate": constraints.positive}
    support: Any = constraints.nonnegative
    tensors = ("concentration", "rate")
    has_rsample = True

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.shape, (), validate_args)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return positive(log_draws(self.concentration, self._extended_shape(sample_shape)) - wg.log(self.rate))

    def log_prob(self, value: Any) -> Tensor:
        value, a = self._validate_sample(value), self.concentration
        return wg.xlogy(a, self.rate) + wg.xlogy(a - 1, value) - self.rate * value - wg.lgamma(a)

    def cdf(self, value: Any) -> Tensor:
        return gamma_cdf(self.concentration, self.rate * self._validate_sample(value))

    def entropy(self) -> Tensor:
        a = self.concentration
        return a - wg.log(self.rate) + wg.lgamma(a) + (1.0 - a) * wg.digamma(a)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.rate

    @property
    def mode(self) -> Tensor:
        return wg.maximum((self.concentration - 1) / self.rate, 0.0)

    @property
    def variance(self) -> Tensor:
        return self.concentration / self.rate**2


class Chi2(Gamma):
    """The sum of the squares of `df` standard normal numbers.

    >>> import wengert as wg
    >>> wg.distributions.Chi2(3.0).mean.item()
    3.0
    """

    arg_constraints: ClassVar = {"df": constraints.positive}

    def __init__(self, df: Any, validate_args: bool | None = None) -> None:
        (df,) = as_tensors(df)
        super().__init__(0.5 * df, 0.5, validate_args)

    @property
    def df(self) -> Tensor:
        return self.concentration * 2


class Exponential(Distribution):
    """The time to the next event, by the rate of events.

    >>> import wengert as wg
    >>> wg.distributions.Exponential(2.0).mean.item()
    0.5
    """

    arg_constraints: ClassVar = {"rate": constraints.positive}
    support: Any = constraints.nonnegative
    tensors = ("rate",)
    has_rsample = True

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, (), validate_args)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return wg.random.exponential(shape, dtype=self.rate.dtype, device=self.rate.device) / self.rate

    def log_prob(self, value: Any) -> Tensor:
        return wg.log(self.rate) - self.rate * self._validate_sample(value)

    def cdf(self, value: Any) -> Tensor:
        return -wg.expm1(-self.rate * self._validate_sample(value))

    def icdf(self, value: Any) -> Tensor:
        return -wg.log1p(-wg.asarray(value)) / self.rate

    def entropy(self) -> Tensor:
        return 1.0 - wg.log(self.rate)

    @property
    def mean(self) -> Tensor:
        return 1 / self.rate

    @property
    def mode(self) -> Tensor:
        return wg.zeros_like(self.rate)

    @property
    def stddev(self) -> Tensor:
        return 1 / self.rate

    @property
    def variance(self) -> Tensor:
        return self.rate**-2


class InverseGamma(Distribution):
    """One over a gamma draw.

    >>> import wengert as wg
    >>> wg.distributions.InverseGamma(3.0, 2.0).mean.item()
    1.0
    """

    arg_constraints: ClassVar = {"concentration": constraints.positive, "rate": constraints.positive}
    support: Any = constraints.positive
    tensors = ("concentration", "rate")
    has_rsample = True

    def __init__(self, concentration: Any, rate: Any, validate_args: bool | None = None) -> None:
        self.concentration, self.rate = broadcast_all(concentration, rate)
        super().__init__(self.concentration.shape, (), validate_args)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return positive(wg.log(self.rate) - log_draws(self.concentration, self._extended_shape(sample_shape)))

    def log_prob(self, value: Any) -> Tensor:
        value, a = self._validate_sample(value), self.concentration
        return wg.xlogy(a, self.rate) - (a + 1) * wg.log(value) - self.rate / value - wg.lgamma(a)

    def cdf(self, value: Any) -> Tensor:
        return 1 - gamma_cdf(self.concentration, self.rate / self._validate_sample(value))

    def entropy(self) -> Tensor:
        a = self.concentration
        return a + wg.log(self.rate) + wg.lgamma(a) - (1 + a) * wg.digamma(a)

    @property
    def mean(self) -> Tensor:
        a = self.concentration
        return wg.where(a > 1, self.rate / (a - 1), math.inf)

    @property
    def mode(self) -> Tensor:
        return self.rate / (self.concentration + 1)

    @property
    def variance(self) -> Tensor:
        a = self.concentration
        return wg.where(a > 2, self.rate**2 / ((a - 1) ** 2 * (a - 2)), math.inf)


class Beta(Distribution):
    """The beta distribution on the numbers from 0 to 1.

    >>> import wengert as wg
    >>> wg.distributions.Beta(2.0, 2.0).mean.item()
    0.5
    """

    arg_constraints: ClassVar = {"concentration1": constraints.positive, "concentration0": constraints.positive}
    support: Any = constraints.unit_interval
    tensors = ("concentration1", "concentration0")
    has_rsample = True

    def __init__(self, concentration1: Any, concentration0: Any, validate_args: bool | None = None) -> None:
        self.concentration1, self.concentration0 = broadcast_all(concentration1, concentration0)
        super().__init__(self.concentration1.shape, (), validate_args)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        eps = float(finfo(self.concentration1.dtype).eps)
        share = wg.sigmoid(log_draws(self.concentration1, shape) - log_draws(self.concentration0, shape))
        return wg.clip(share, float(finfo(self.concentration1.dtype).tiny), 1 - eps)

    def log_prob(self, value: Any) -> Tensor:
        value, a, b = self._validate_sample(value), self.concentration1, self.concentration0
        return wg.xlogy(a - 1, value) + wg.xlogy(b - 1, 1 - value) - _log_beta(a, b)

    def entropy(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        return _log_beta(a, b) - (a - 1) * wg.digamma(a) - (b - 1) * wg.digamma(b) + (a + b - 2) * wg.digamma(a + b)

    @property
    def mean(self) -> Tensor:
        return self.concentration1 / (self.concentration1 + self.concentration0)

    @property
    def mode(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        edge = wg.where((a < 1) & (b < 1), math.nan, (a > b).astype(a.dtype))
        edge = wg.where((a == 1) & (b == 1), math.nan, edge)
        return wg.where((a > 1) & (b > 1), (a - 1) / (a + b - 2), edge)

    @property
    def variance(self) -> Tensor:
        a, b = self.concentration1, self.concentration0
        return a * b / ((a + b) ** 2 * (a + b + 1))


class Dirichlet(Distribution):
    """Shares that sum to 1, along the last axis: what the beta distribution is for more than two.

    >>> import wengert as wg
    >>> wg.distributions.Dirichlet(wg.ones(4)).mean.tolist()
    [0.25, 0.25, 0.25, 0.25]
    """

    arg_constraints: ClassVar = {"concentration": constraints.independent(constraints.positive, 1)}
    support: Any = constraints.simplex
    tensors = ("concentration",)
    has_rsample = True

    def __init__(self, concentration: Any, validate_args: bool | None = None) -> None:
        (self.concentration,) = as_tensors(concentration)
        super().__init__(self.concentration.shape[:-1], self.concentration.shape[-1:], validate_args)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return wg.softmax(log_draws(self.concentration, self._extended_shape(sample_shape)), -1)

    def log_prob(self, value: Any) -> Tensor:
        value, a = self._validate_sample(value), self.concentration
        return wg.xlogy(a - 1, value).sum(-1) + wg.lgamma(a.sum(-1)) - wg.lgamma(a).sum(-1)

    def entropy(self) -> Tensor:
        a, k = self.concentration, self.concentration.shape[-1]
        total = a.sum(-1)
        own = wg.lgamma(a).sum(-1) - ((a - 1) * wg.digamma(a)).sum(-1)
        return own - wg.lgamma(total) - (k - total) * wg.digamma(total)

    @property
    def mean(self) -> Tensor:
        return self.concentration / self.concentration.sum(-1, keepdims=True)

    @property
    def mode(self) -> Tensor:
        above = wg.maximum(self.concentration - 1, 0.0)
        mode = above / above.sum(-1, keepdims=True)
        largest = wg.one_hot(wg.argmax(self.concentration, -1), self.concentration.shape[-1], dtype=mode.dtype)
        return wg.where((self.concentration < 1).all(-1, keepdims=True), largest, mode)

    @property
    def variance(self) -> Tensor:
        total = self.concentration.sum(-1, keepdims=True)
        return self.concentration * (total - self.concentration) / (total**2 * (total + 1))


class StudentT(Distribution):
    """Student's t distribution, by its degrees of freedom, location and scale.

    >>> import wengert as wg
    >>> round(wg.distributions.StudentT(5.0).variance.item(), 4)
    1.6667
    """

    arg_constraints: ClassVar = {"df": constraints.positive, "loc": constraints.real, "scale": constraints.positive}
    support: Any = constraints.real
    tensors = ("df", "loc", "scale")
    has_rsample = True

    def __init__(self, df: Any, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool | None = None) -> None:
        self.df, self.loc, self.scale = broadcast_all(df, loc, scale)
        super().__init__(self.df.shape, (), validate_args)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        z = wg.random.normal(shape, dtype=self.df.dtype, device=self.df.device)
        log_chi2 = log_draws(0.5 * self.df, shape) + math.log(2)
        return self.loc + self.scale * z * wg.exp(0.5 * (wg.log(self.df) - log_chi2))

    def log_prob(self, value: Any) -> Tensor:
        z, df = (self._validate_sample(value) - self.loc) / self.scale, self.df
        norm = wg.log(self.scale) + 0.5 * wg.log(df) + 0.5 * math.log(math.pi)
        norm = norm + wg.lgamma(0.5 * df) - wg.lgamma(0.5 * (df + 1))
        return -0.5 * (df + 1) * wg.log1p(z**2 / df) - norm

    def entropy(self) -> Tensor:
        df = self.df
        log_beta = wg.lgamma(0.5 * df) + 0.5 * math.log(math.pi) - wg.lgamma(0.5 * (1 + df))
        mixed = 0.5 * (df + 1) * (wg.digamma(0.5 * (df + 1)) - wg.digamma(0.5 * df))
        return wg.log(self.scale) + mixed + 0.5 * wg.log(df) + log_beta

    @property
    def mean(self) -> Tensor:
        return wg.where(self.df <= 1, math.nan, self.loc)

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def variance(self) -> Tensor:
        finite = self.scale**2 * self.df / wg.where(self.df > 2, self.df - 2, 1.0)
        return wg.where(self.df > 2, finite, wg.where(self.df > 1, math.inf, math.nan).astype(finite.dtype))


class FisherSnedecor(Distribution):
    """The ratio of two chi-squared numbers, each over its degrees of freedom: the F distribution.

    >>> import wengert as wg
    >>> wg.distributions.FisherSnedecor(3.0, 4.0).mean.item()
    2.0
    """

    arg_constraints: ClassVar = {"df1": constraints.positive, "df2": constraints.positive}
    support: Any = constraints.positive
    tensors = ("df1", "df2")
    has_rsample = True

    def __init__(self, df1: Any, df2: Any, validate_args: bool | None = None) -> None:
        self.df1, self.df2 = broadcast_all(df1, df2)
        super().__init__(self.df1.shape, (), validate_args)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        upper = log_draws(0.5 * self.df1, shape) - wg.log(self.df1)
        return positive(upper - log_draws(0.5 * self.df2, shape) + wg.log(self.df2))

    def log_prob(self, value: Any) -> Tensor:
        value, a, b = self._validate_sample(value), 0.5 * self.df1, 0.5 * self.df2
        ratio = self.df1 / self.df2
        return a * wg.log(ratio) + (a - 1) * wg.log(value) - (a + b) * wg.log1p(ratio * value) - _log_beta(a, b)

    @property
    def mean(self) -> Tensor:
        return wg.where(self.df2 > 2, self.df2 / (self.df2 - 2), math.nan)

    @property
    def mode(self) -> Tensor:
        mode = (self.df1 - 2) / self.df1 * self.df2 / (self.df2 + 2)
        return wg.where(self.df1 > 2, mode, math.nan)

    @property
    def variance(self) -> Tensor:
        a, b = self.df1, self.df2
        variance = 2 * b**2 * (a + b - 2) / (a * (b - 2) ** 2 * (b - 4))
        return wg.where(b > 4, variance, math.nan)
