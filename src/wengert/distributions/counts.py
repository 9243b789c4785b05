"""Distributions of counts: Bernoulli, binomial, geometric, Poisson, negative binomial."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import wengert as wg
from wengert import Tensor
from wengert.core.errors import ArgumentError
from wengert.distributions import constraints
from wengert.distributions.distribution import (
    Distribution,
    broadcast_all,
    clamp_probs,
    finfo,
    logits_to_probs,
    one_of,
    probs_to_logits,
)
from wengert.distributions.gamma_family import log_draws
from wengert.distributions.sampling import binomial_draw, poisson_draw


def log_sum_exp_of_0_and(logits: Tensor) -> Tensor:
    """log(1 + exp(logits))."""
    return wg.logaddexp(logits, wg.zeros_like(logits))


class _Binary(Distribution):
    """A probability, given as such or as logits: the other one is computed where it is asked for."""

    arg_constraints: ClassVar = {"probs": constraints.unit_interval, "logits": constraints.real}
    tensors: ClassVar[tuple[str, ...]] = ("probs", "logits")
    probs: Tensor
    logits: Tensor

    def __init__(self, probs: Any, logits: Any, validate_args: bool | None, *others: Any) -> None:
        one_of(type(self).__name__, probs, logits)
        given = "logits" if probs is None else "probs"
        vars(self)[given], *self._others = broadcast_all(logits if probs is None else probs, *others)
        super().__init__(vars(self)[given].shape, (), validate_args)

    def __getattr__(self, name: str) -> Tensor:
        if name == "probs" and "logits" in vars(self):
            return logits_to_probs(self.logits, is_binary=True)
        if name == "logits" and "probs" in vars(self):
            return probs_to_logits(self.probs, is_binary=True)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    def _param(self) -> Tensor:
        own = vars(self)
        given: Tensor = own["probs"] if "probs" in own else own["logits"]
        return given

    @property
    def param_shape(self) -> tuple[int, ...]:
        """The shape of the probabilities."""
        return self._param.shape


class Bernoulli(_Binary):
    """1 with a probability, else 0.

    >>> import wengert as wg
    >>> wg.distributions.Bernoulli(probs=0.25).log_prob(1.0).item()
    -1.3862943649291992
    """

    support: Any = constraints.boolean
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        super().__init__(probs, logits, validate_args)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with wg.no_grad():
            return wg.random.bernoulli(wg.broadcast_to(self.probs.detach(), shape), dtype=self._param.dtype)

    def log_prob(self, value: Any) -> Tensor:
        value, logits = self._validate_sample(value), self.logits
        return logits * value - log_sum_exp_of_0_and(logits)

    def entropy(self) -> Tensor:
        return log_sum_exp_of_0_and(self.logits) - self.logits * self.probs

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = wg.arange(2, dtype=self._param.dtype).reshape(2, *[1] * len(self._batch_shape))
        return wg.broadcast_to(values, (2, *self._batch_shape)) if expand else values

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        mode = (self.probs >= 0.5).astype(self._param.dtype)
        return wg.where(self.probs == 0.5, float("nan"), mode)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)


class Geometric(_Binary):
    """The failures before the first success.

    >>> import wengert as wg
    >>> wg.distributions.Geometric(0.25).mean.item()
    3.0
    """

    support: Any = constraints.nonnegative_integer

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        super().__init__(probs, logits, validate_args)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with wg.no_grad():
            probs = self.probs.detach()
            waited = wg.random.exponential(shape, dtype=probs.dtype, device=probs.device)
            return wg.floor(waited / -wg.log1p(-probs))

    def log_prob(self, value: Any) -> Tensor:
        value, probs = self._validate_sample(value), self.probs
        is_sure = (probs == 1) & (value == 0)
        return value * wg.log1p(-wg.where(is_sure, 0.0, probs)) + wg.log(probs)

    def entropy(self) -> Tensor:
        probs, logits = self.probs, self.logits
        return (log_sum_exp_of_0_and(logits) - logits * probs) / probs

    @property
    def mean(self) -> Tensor:
        return 1.0 / self.probs - 1.0

    @property
    def mode(self) -> Tensor:
        return wg.zeros_like(self.probs)

    @property
    def variance(self) -> Tensor:
        return (1.0 / self.probs - 1.0) / self.probs


class Binomial(_Binary):
    """The successes among `total_count` trials.

    >>> import wengert as wg
    >>> wg.distributions.Binomial(10, 0.5).mean.item()
    5.0
    """

    arg_constraints: ClassVar = {"total_count": constraints.nonnegative_integer, **_Binary.arg_constraints}
    tensors = ("total_count", "probs", "logits")
    has_enumerate_support = True

    def __init__(
        self, total_count: Any = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        one_of("Binomial", probs, logits)
        _, self.total_count = broadcast_all(logits if probs is None else probs, total_count)
        super().__init__(probs, logits, validate_args, total_count)

    @property
    def support(self) -> Any:
        return constraints.integer_interval(0, self.total_count)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with wg.no_grad():
            count, probs = (wg.broadcast_to(part.detach(), shape) for part in (self.total_count, self.probs))
            return binomial_draw(count, probs).detach()

    def log_prob(self, value: Any) -> Tensor:
        value, n, logits = self._validate_sample(value), self.total_count, self.logits
        ways = wg.lgamma(n + 1) - wg.lgamma(value + 1) - wg.lgamma(n - value + 1)
        return value * logits - n * log_sum_exp_of_0_and(logits) + ways

    def entropy(self) -> Tensor:
        values = self.enumerate_support(False)
        log_prob = self.log_prob(values)
        return -(wg.exp(log_prob) * log_prob).sum(0)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        largest = int(self.total_count.max().item())
        if int(self.total_count.min().item()) != largest:
            raise ArgumentError("Binomial: the counts of the batch differ, so that its support has no one length")
        values = wg.arange(largest + 1, dtype=self._param.dtype).reshape(-1, *[1] * len(self._batch_shape))
        return wg.broadcast_to(values, (largest + 1, *self._batch_shape)) if expand else values

    @property
    def mean(self) -> Tensor:
        return self.total_count * self.probs

    @property
    def mode(self) -> Tensor:
        return wg.minimum(wg.floor((self.total_count + 1) * self.probs), self.total_count)

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)


class NegativeBinomial(_Binary):
    """The successes, each with probability `probs`, before `total_count` failures.

    >>> import wengert as wg
    >>> wg.distributions.NegativeBinomial(5.0, 0.5).mean.item()
    5.0
    """

    arg_constraints: ClassVar = {
        "total_count": constraints.greater_than_eq(0),
        "probs": constraints.half_open_interval(0.0, 1.0),
        "logits": constraints.real,
    }
    support: Any = constraints.nonnegative_integer
    tensors = ("total_count", "probs", "logits")

    def __init__(
        self, total_count: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        one_of("NegativeBinomial", probs, logits)
        _, self.total_count = broadcast_all(logits if probs is None else probs, total_count)
        super().__init__(probs, logits, validate_args, total_count)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        with wg.no_grad():
            log_rate = log_draws(self.total_count.detach(), shape) + self.logits.detach()
            return poisson_draw(wg.maximum(wg.exp(log_rate), float(finfo(log_rate.dtype).tiny))).detach()

    def log_prob(self, value: Any) -> Tensor:
        value, n, logits = self._validate_sample(value), self.total_count, self.logits
        weight = n * wg.logsigmoid(-logits) + value * wg.logsigmoid(logits)
        ways = wg.lgamma(n + value) - wg.lgamma(1.0 + value) - wg.lgamma(wg.where(n == 0, 1.0, n))
        return weight + wg.where(n + value == 0, 0.0, ways)

    @property
    def mean(self) -> Tensor:
        return self.total_count * wg.exp(self.logits)

    @property
    def mode(self) -> Tensor:
        return wg.maximum(wg.floor((self.total_count - 1) * wg.exp(self.logits)), 0.0)

    @property
    def variance(self) -> Tensor:
        return self.mean / wg.sigmoid(-self.logits)


class Poisson(Distribution):
    """The number of events, by their rate.

    >>> import wengert as wg
    >>> round(wg.distributions.Poisson(4.0).log_prob(wg.tensor(4.0)).item(), 4)
    -1.6329
    """

    arg_constraints: ClassVar = {"rate": constraints.nonnegative}
    support: Any = constraints.nonnegative_integer
    tensors = ("rate",)

    def __init__(self, rate: Any, validate_args: bool | None = None) -> None:
        (self.rate,) = broadcast_all(rate)
        super().__init__(self.rate.shape, (), validate_args)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with wg.no_grad():
            return poisson_draw(wg.broadcast_to(self.rate.detach(), self._extended_shape(sample_shape))).detach()

    def log_prob(self, value: Any) -> Tensor:
        value = self._validate_sample(value)
        return wg.xlogy(value, self.rate) - self.rate - wg.lgamma(value + 1)

    @property
    def mean(self) -> Tensor:
        return self.rate

    @property
    def mode(self) -> Tensor:
        return wg.floor(self.rate)

    @property
    def variance(self) -> Tensor:
        return self.rate


class ContinuousBernoulli(_Binary):
    """Numbers from 0 to 1 with density proportional to p^x (1 - p)^(1 - x) (Loaiza-Ganem and Cunningham, 2019).

    >>> import wengert as wg
    >>> wg.distributions.ContinuousBernoulli(0.3).rsample((2,)).shape
    (2,)
    """

    support: Any = constraints.unit_interval
    has_rsample = True

    def __init__(
        self,
        probs: Any = None,
        logits: Any = None,
        lims: tuple[float, float] = (0.499, 0.501),
        validate_args: bool | None = None,
    ) -> None:
        self._lims = lims
        super().__init__(probs, logits, validate_args)
        if "probs" in vars(self):
            self.probs = clamp_probs(self.probs)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Self:
        return super().expand(batch_shape)

    def _is_outside(self) -> Tensor:
        return (self.probs <= self._lims[0]) | (self.probs > self._lims[1])

    def _away(self) -> Tensor:
        """The probabilities, with those near 1/2, where formulas cancel, replaced."""
        return wg.where(self._is_outside(), self.probs, self._lims[0])

    def _log_norm(self) -> Tensor:
        away = self._away()
        is_below = away <= 0.5
        difference = wg.abs(wg.log1p(-away) - wg.log(away))
        below, above = wg.where(is_below, away, 0.0), wg.where(is_below, 1.0, away)
        size = wg.where(is_below, wg.log1p(-2.0 * below), wg.log(2.0 * above - 1.0))
        x = (self.probs - 0.5) ** 2
        return wg.where(
            self._is_outside(), wg.log(difference) - size, wg.log(2.0 + 0.0 * x) + (4.0 / 3.0 + 104.0 / 45.0 * x) * x
        )

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        return self.icdf(wg.random.uniform(shape, dtype=self._param.dtype, device=self._param.device))

    def log_prob(self, value: Any) -> Tensor:
        value, logits = self._validate_sample(value), self.logits
        return logits * value - log_sum_exp_of_0_and(logits) + self._log_norm()

    def cdf(self, value: Any) -> Tensor:
        value, away = self._validate_sample(value), self._away()
        inside = (wg.exp(wg.xlogy(value, away) + wg.xlogy(1 - value, 1 - away)) + away - 1.0) / (2.0 * away - 1.0)
        inside = wg.where(self._is_outside(), inside, value)
        return wg.where(value <= 0, 0.0, wg.where(value >= 1, 1.0, inside))

    def icdf(self, value: Any) -> Tensor:
        value, away = wg.asarray(value), self._away()
        inside = wg.log1p(-away + value * (2.0 * away - 1.0)) - wg.log1p(-away)
        return wg.where(self._is_outside(), inside / (wg.log(away) - wg.log1p(-away)), value)

    def entropy(self) -> Tensor:
        off = wg.log1p(-self.probs)
        return self.mean * (off - wg.log(self.probs)) - self._log_norm() - off

    @property
    def mean(self) -> Tensor:
        away = self._away()
        mean = away / (2.0 * away - 1.0) + 1.0 / (wg.log1p(-away) - wg.log(away))
        x = self.probs - 0.5
        return wg.where(self._is_outside(), mean, 0.5 + (1.0 / 3.0 + 16.0 / 45.0 * x**2) * x)

    @property
    def variance(self) -> Tensor:
        away = self._away()
        variance = away * (away - 1.0) / (1.0 - 2.0 * away) ** 2 + 1.0 / (wg.log1p(-away) - wg.log(away)) ** 2
        x = (self.probs - 0.5) ** 2
        return wg.where(self._is_outside(), variance, 1.0 / 12.0 - (1.0 / 15.0 - 128.0 / 945.0 * x) * x)
