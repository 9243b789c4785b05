"""Distributions over classes: indices, one-hot vectors, counts of several draws, and relaxations to numbers."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import wengert as wg
from wengert import Tensor
from wengert.core.errors import ArgumentError
from wengert.distributions import constraints
from wengert.distributions.counts import _Binary
from wengert.distributions.distribution import (
    Distribution,
    as_shape,
    as_tensors,
    clamp_probs,
    finfo,
    one_of,
    probs_to_logits,
)
from wengert.distributions.transformed import TransformedDistribution
from wengert.distributions.transforms import ExpTransform, SigmoidTransform


class _Classes(Distribution):
    """Probabilities of classes along the last axis, given as such or as logits, and normalised."""

    arg_constraints: ClassVar = {
        "probs": constraints.independent(constraints.nonnegative, 1),
        "logits": constraints.real_vector,
    }
    tensors = ("probs", "logits")
    _event_is_class = True

    def __init__(self, probs: Any, logits: Any, validate_args: bool | None) -> None:
        one_of(type(self).__name__, probs, logits)
        (given,) = as_tensors(logits if probs is None else probs)
        if given.ndim < 1:
            raise ArgumentError(f"{type(self).__name__} takes probabilities of classes along an axis, not a number")
        if probs is None:
            self.logits = given - wg.logsumexp(given, -1, keepdims=True)
        else:
            self.probs = given / given.sum(-1, keepdims=True)
        self._num_events = given.shape[-1]
        super().__init__(given.shape[:-1], given.shape[-1:] if self._event_is_class else (), validate_args)

    def __getattr__(self, name: str) -> Tensor:
        if name == "probs" and "logits" in vars(self):
            return wg.softmax(self.logits, -1)
        if name == "logits" and "probs" in vars(self):
            return probs_to_logits(self.probs)
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

    def _draw_indices(self, sample_shape: Any) -> Tensor:
        shape = as_shape(sample_shape) + self._batch_shape
        with wg.no_grad():
            return wg.random.categorical(self.logits.detach(), shape)

    def entropy(self) -> Tensor:
        logits = wg.maximum(self.logits, float(finfo(self._param.dtype).min))
        return -(logits * self.probs).sum(-1)


class Categorical(_Classes):
    """An index of a class.

    >>> import wengert as wg
    >>> categorical = wg.distributions.Categorical(probs=wg.tensor([1.0, 3.0]))
    >>> round(categorical.log_prob(1).item(), 4)
    -0.2877
    """

    _event_is_class = False
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        super().__init__(probs, logits, validate_args)

    @property
    def support(self) -> Any:
        return constraints.integer_interval(0, self._num_events - 1)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return self._draw_indices(sample_shape)

    def log_prob(self, value: Any) -> Tensor:
        value = wg.expand_dims(self._validate_sample(value).astype(wg.int64), axis=-1)
        shape = wg.broadcast_shapes(value.shape[:-1], self._batch_shape)
        logits = wg.broadcast_to(self.logits, (*shape, self._num_events))
        return wg.take_along_axis(logits, wg.broadcast_to(value, (*shape, 1)), axis=-1)[..., 0]

    def enumerate_support(self, expand: bool = True) -> Tensor:
        values = wg.arange(self._num_events).reshape(-1, *[1] * len(self._batch_shape))
        return wg.broadcast_to(values, (self._num_events, *self._batch_shape)) if expand else values

    @property
    def mean(self) -> Tensor:
        return wg.full_like(self._param[..., 0], math.nan)

    @property
    def mode(self) -> Tensor:
        return wg.argmax(self.probs, -1)

    @property
    def variance(self) -> Tensor:
        return self.mean


class OneHotCategorical(_Classes):
    """A class as a vector with a 1.

    >>> import wengert as wg
    >>> wg.distributions.OneHotCategorical(wg.tensor([0.25, 0.75])).mean.tolist()
    [0.25, 0.75]
    """

    support: Any = constraints.one_hot
    has_enumerate_support = True

    def __init__(self, probs: Any = None, logits: Any = None, validate_args: bool | None = None) -> None:
        super().__init__(probs, logits, validate_args)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return wg.one_hot(self._draw_indices(sample_shape), self._num_events, dtype=self._param.dtype)

    def log_prob(self, value: Any) -> Tensor:
        value = self._validate_sample(value)
        return (wg.where(value != 0, self.logits, 0.0) * value).sum(-1)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        n = self._num_events
        values = wg.eye(n, dtype=self._param.dtype).reshape(n, *[1] * len(self._batch_shape), n)
        return wg.broadcast_to(values, (n, *self._batch_shape, n)) if expand else values

    @property
    def mean(self) -> Tensor:
        return self.probs

    @property
    def mode(self) -> Tensor:
        return wg.one_hot(wg.argmax(self.probs, -1), self._num_events, dtype=self._param.dtype)

    @property
    def variance(self) -> Tensor:
        return self.probs * (1 - self.probs)


class OneHotCategoricalStraightThrough(OneHotCategorical):
    """One-hot draws whose gradient is that of the probabilities (Bengio, Léonard and Courville, 2013).

    >>> import wengert as wg
    >>> round(wg.distributions.OneHotCategoricalStraightThrough(wg.tensor([0.25, 0.75])).rsample().sum().item(), 4)
    1.0
    """

    has_rsample = True

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        probs = self.probs
        return self.sample(sample_shape) + (probs - probs.detach())

    @property
    def straight_through(self) -> bool:
        """That gradients pass the draw."""
        return True


class Multinomial(_Classes):
    """How often each class comes up in `total_count` draws.

    >>> import wengert as wg
    >>> wg.distributions.Multinomial(10, wg.tensor([0.5, 0.5])).mean.tolist()
    [5.0, 5.0]
    """

    total_count: int

    def __init__(
        self, total_count: int = 1, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        if not isinstance(total_count, int):
            raise ArgumentError(f"Multinomial: one count for the whole batch, a whole number, not {total_count!r}")
        self.total_count = total_count
        super().__init__(probs, logits, validate_args)

    @property
    def support(self) -> Any:
        return constraints.multinomial(self.total_count)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        drawn = self._draw_indices((self.total_count, *as_shape(sample_shape)))
        return wg.one_hot(drawn, self._num_events, dtype=self._param.dtype).sum(0)

    def log_prob(self, value: Any) -> Tensor:
        value = self._validate_sample(value)
        total = wg.lgamma(value.sum(-1) + 1) - wg.lgamma(value + 1).sum(-1)
        impossible = (value == 0) & (self.logits == -math.inf)
        return total + (wg.where(impossible, 0.0, self.logits) * value).sum(-1)

    def entropy(self) -> Tensor:
        n, probs = self.total_count, self.probs
        counts = wg.arange(1, n + 1, dtype=probs.dtype).reshape(-1, *[1] * probs.ndim)
        ways = math.lgamma(n + 1) - wg.lgamma(counts + 1) - wg.lgamma(n - counts + 1)
        own = wg.exp(ways + wg.xlogy(counts, probs) + wg.xlogy(n - counts, 1 - probs))
        expected = (own * wg.lgamma(counts + 1)).sum((0, -1))
        return n * super().entropy() - math.lgamma(n + 1) + expected

    @property
    def mean(self) -> Tensor:
        return self.probs * self.total_count

    @property
    def variance(self) -> Tensor:
        return self.total_count * self.probs * (1 - self.probs)


class LogitRelaxedBernoulli(_Binary):
    """The logit of a relaxed Bernoulli draw (Maddison, Mnih and Teh, 2017).

    >>> import wengert as wg
    >>> wg.distributions.LogitRelaxedBernoulli(0.5, 0.3).rsample((2,)).shape
    (2,)
    """

    support: Any = constraints.real
    has_rsample = True

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self.temperature = as_tensors(temperature)[0] if not isinstance(temperature, Tensor) else temperature
        super().__init__(probs, logits, validate_args)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        probs = clamp_probs(wg.broadcast_to(self.probs, shape))
        u = clamp_probs(wg.random.uniform(shape, dtype=probs.dtype, device=probs.device))
        noise = wg.log(u) - wg.log1p(-u)
        return (noise + wg.log(probs) - wg.log1p(-probs)) / self.temperature

    def log_prob(self, value: Any) -> Tensor:
        difference = self.logits - self._validate_sample(value) * self.temperature
        return wg.log(self.temperature) + difference - 2 * wg.softplus(difference)


class RelaxedBernoulli(TransformedDistribution):
    """A number from 0 to 1 that is near 0 or 1 where the temperature is low.

    >>> import wengert as wg
    >>> wg.distributions.RelaxedBernoulli(0.5, 0.3).rsample((2,)).shape
    (2,)
    """

    arg_constraints: ClassVar = {"probs": constraints.unit_interval, "logits": constraints.real}
    support: Any = constraints.unit_interval

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        super().__init__(LogitRelaxedBernoulli(temperature, probs, logits), SigmoidTransform(), validate_args)

    @property
    def temperature(self) -> Tensor:
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        return self.base_dist.probs


class ExpRelaxedCategorical(_Classes):
    """The logarithm of a relaxed one-hot draw.

    >>> import wengert as wg
    >>> wg.distributions.ExpRelaxedCategorical(0.5, wg.tensor([0.25, 0.75])).rsample().shape
    (2,)
    """

    support: Any = constraints.real_vector
    has_rsample = True

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        self.temperature = as_tensors(temperature)[0] if not isinstance(temperature, Tensor) else temperature
        super().__init__(probs, logits, validate_args)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        shape = self._extended_shape(sample_shape)
        noise = wg.random.gumbel(shape, dtype=self._param.dtype, device=self._param.device)
        return wg.log_softmax((self.logits + noise) / self.temperature, -1)

    def entropy(self) -> Tensor:
        return Distribution.entropy(self)

    def log_prob(self, value: Any) -> Tensor:
        value, k = self._validate_sample(value), self._num_events
        scale = math.lgamma(k) + (k - 1) * wg.log(self.temperature)
        return wg.log_softmax(self.logits - value * self.temperature, -1).sum(-1) + scale


class RelaxedOneHotCategorical(TransformedDistribution):
    """Shares that are near a one-hot vector where the temperature is low (Jang, Gu and Poole, 2017).

    >>> import wengert as wg
    >>> wg.distributions.RelaxedOneHotCategorical(0.5, wg.tensor([0.25, 0.75])).rsample().shape
    (2,)
    """

    arg_constraints: ClassVar = {"probs": constraints.simplex, "logits": constraints.real_vector}
    support: Any = constraints.simplex

    def __init__(
        self, temperature: Any, probs: Any = None, logits: Any = None, validate_args: bool | None = None
    ) -> None:
        super().__init__(ExpRelaxedCategorical(temperature, probs, logits), ExpTransform(), validate_args)

    @property
    def temperature(self) -> Tensor:
        return self.base_dist.temperature

    @property
    def logits(self) -> Tensor:
        return self.base_dist.logits

    @property
    def probs(self) -> Tensor:
        return self.base_dist.probs
