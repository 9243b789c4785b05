"""Distributions made of others: through transforms, with batch axes as axes of the event, and mixtures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import wengert as wg
from wengert import Tensor
from wengert.core.errors import ArgumentError, ShapeError
from wengert.distributions import constraints
from wengert.distributions.distribution import Distribution, sum_rightmost
from wengert.distributions.transforms import ComposeTransform, Transform


class TransformedDistribution(Distribution):
    """The distribution of transforms of another's draws.

    >>> import wengert as wg
    >>> d = wg.distributions
    >>> log_normal = d.TransformedDistribution(d.Normal(0.0, 1.0), [d.ExpTransform()])
    >>> round(log_normal.log_prob(2.0).item(), 4)
    -1.8523
    """

    parts = ("base_dist",)
    base_dist: Any  # of any kind, whose parameters the subclasses know

    def __init__(
        self,
        base_distribution: Distribution,
        transforms: Transform | Sequence[Transform],
        validate_args: bool | None = None,
    ) -> None:
        self.transforms = [transforms] if isinstance(transforms, Transform) else list(transforms)
        through = ComposeTransform(self.transforms)
        base_shape = base_distribution.batch_shape + base_distribution.event_shape
        if len(base_shape) < through.domain.event_dim:
            raise ShapeError(
                f"TransformedDistribution: the transforms take events of {through.domain.event_dim} axes, the base has "
                f"the shape {base_shape}"
            )
        shape = through.forward_shape(base_shape)
        wider = through.inverse_shape(shape)
        if wider != base_shape:
            base_distribution = base_distribution.expand(wider[: len(wider) - len(base_distribution.event_shape)])
        more = through.domain.event_dim - len(base_distribution.event_shape)
        self.base_dist = Independent(base_distribution, more) if more > 0 else base_distribution
        events = through.codomain.event_dim + max(len(base_distribution.event_shape) - through.domain.event_dim, 0)
        cut = len(shape) - events
        super().__init__(shape[:cut], shape[cut:], validate_args)

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        return self.base_dist.has_rsample

    @property
    def support(self) -> Any:
        if not self.transforms:
            return self.base_dist.support
        support = self.transforms[-1].codomain
        more = len(self.event_shape) - support.event_dim
        return constraints.independent(support, more) if more > 0 else support

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        new = super().expand(batch_shape)
        shape = tuple(batch_shape) + self._event_shape
        for transform in reversed(self.transforms):
            shape = transform.inverse_shape(shape)
        cut = len(shape) - len(self.base_dist.event_shape)
        new.base_dist = self.base_dist.expand(shape[:cut])
        return new

    def _forward(self, x: Tensor) -> Tensor:
        for transform in self.transforms:
            x = transform(x)
        return x

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with wg.no_grad():
            return self._forward(self.base_dist.sample(sample_shape)).detach()

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self._forward(self.base_dist.rsample(sample_shape))

    def log_prob(self, value: Any) -> Tensor:
        y, events = self._validate_sample(value), len(self.event_shape)
        total: Any = 0.0
        for transform in reversed(self.transforms):
            x = transform.inv(y)
            events += transform.domain.event_dim - transform.codomain.event_dim
            total = total - sum_rightmost(transform.log_abs_det_jacobian(x, y), events - transform.domain.event_dim)
            y = x
        return total + sum_rightmost(self.base_dist.log_prob(y), events - len(self.base_dist.event_shape))

    def _monotone(self, value: Tensor) -> Tensor:
        """A probability, or one minus it where the transforms fall."""
        sign: Any = 1
        for transform in self.transforms:
            sign = sign * transform.sign
        return value if isinstance(sign, int) and sign == 1 else sign * (value - 0.5) + 0.5

    def cdf(self, value: Any) -> Tensor:
        value = self._validate_sample(value)
        for transform in reversed(self.transforms):
            value = transform.inv(value)
        return self._monotone(self.base_dist.cdf(value))

    def icdf(self, value: Any) -> Tensor:
        return self._forward(self.base_dist.icdf(self._monotone(wg.asarray(value))))


class Independent(Distribution):
    """A distribution whose last batch axes count as axes of the event.

    >>> import wengert as wg
    >>> normal = wg.distributions.Normal(wg.zeros(3), 1.0)
    >>> wg.distributions.Independent(normal, 1).log_prob(wg.zeros(3)).shape
    ()
    """

    parts = ()

    def __init__(
        self, base_distribution: Distribution, reinterpreted_batch_ndims: int, validate_args: bool | None = None
    ) -> None:
        batch = base_distribution.batch_shape
        if reinterpreted_batch_ndims > len(batch):
            raise ArgumentError(f"Independent: {reinterpreted_batch_ndims} axes of a batch of shape {batch}")
        self.base_dist = base_distribution
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        cut = len(batch) - reinterpreted_batch_ndims
        super().__init__(batch[:cut], batch[cut:] + base_distribution.event_shape, validate_args)

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        return self.base_dist.has_rsample

    @property
    def has_enumerate_support(self) -> bool:  # type: ignore[override]
        return self.reinterpreted_batch_ndims == 0 and self.base_dist.has_enumerate_support

    @property
    def support(self) -> Any:
        count = self.reinterpreted_batch_ndims
        return constraints.independent(self.base_dist.support, count) if count else self.base_dist.support

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        new = super().expand(batch_shape)
        new.base_dist = self.base_dist.expand(tuple(batch_shape) + self._event_shape[: self.reinterpreted_batch_ndims])
        return new

    def sample(self, sample_shape: Any = ()) -> Tensor:
        return self.base_dist.sample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        return self.base_dist.rsample(sample_shape)

    def log_prob(self, value: Any) -> Tensor:
        return sum_rightmost(self.base_dist.log_prob(value), self.reinterpreted_batch_ndims)

    def entropy(self) -> Tensor:
        return sum_rightmost(self.base_dist.entropy(), self.reinterpreted_batch_ndims)

    def enumerate_support(self, expand: bool = True) -> Tensor:
        if self.reinterpreted_batch_ndims:
            raise ArgumentError("Independent: the support of several distributions at once is not enumerated")
        return self.base_dist.enumerate_support(expand)

    @property
    def mean(self) -> Tensor:
        return self.base_dist.mean

    @property
    def mode(self) -> Tensor:
        return self.base_dist.mode

    @property
    def variance(self) -> Tensor:
        return self.base_dist.variance

    def __repr__(self) -> str:
        return f"Independent({self.base_dist!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamily(Distribution):
    """One of several distributions of a kind, drawn by a Categorical: along the last axis of their batch.

    >>> import wengert as wg
    >>> d = wg.distributions
    >>> d.MixtureSameFamily(d.Categorical(wg.tensor([0.5, 0.5])), d.Normal(wg.tensor([0.0, 4.0]), 1.0)).mean.item()
    2.0
    """

    def __init__(
        self, mixture_distribution: Any, component_distribution: Distribution, validate_args: bool | None = None
    ) -> None:
        self._mixture_distribution, self._component_distribution = mixture_distribution, component_distribution
        batch = component_distribution.batch_shape
        if not batch or mixture_distribution.param_shape[-1] != batch[-1]:
            raise ShapeError(
                f"MixtureSameFamily: weights of {mixture_distribution.param_shape[-1]} components for distributions "
                f"with a batch of {batch}"
            )
        self._event_ndims = len(component_distribution.event_shape)
        super().__init__(batch[:-1], component_distribution.event_shape, validate_args)

    @property
    def has_rsample(self) -> bool:  # type: ignore[override]
        return False

    @property
    def mixture_distribution(self) -> Any:
        return self._mixture_distribution

    @property
    def component_distribution(self) -> Distribution:
        return self._component_distribution

    @property
    def support(self) -> Any:
        return self._component_distribution.support

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        shape = tuple(batch_shape)
        count = self._component_distribution.batch_shape[-1]
        mixture = self._mixture_distribution.expand(shape)
        return type(self)(mixture, self._component_distribution.expand((*shape, count)), validate_args=False)

    def _weights(self) -> Tensor:
        probs = self._mixture_distribution.probs
        return probs.reshape(probs.shape + (1,) * self._event_ndims)

    def sample(self, sample_shape: Any = ()) -> Tensor:
        with wg.no_grad():
            which = self._mixture_distribution.expand(self._batch_shape).sample(sample_shape)
            drawn = self._component_distribution.sample(sample_shape)
            axis = drawn.ndim - 1 - self._event_ndims
            index = which.reshape(which.shape + (1,) * (self._event_ndims + 1))
            index = wg.broadcast_to(index, which.shape + (1, *self._event_shape))
            return wg.take_along_axis(drawn, index, axis=axis).squeeze(axis).detach()

    def log_prob(self, value: Any) -> Tensor:
        value = self._validate_sample(value)
        value = wg.expand_dims(value, axis=value.ndim - self._event_ndims)
        weights = wg.log_softmax(self._mixture_distribution.logits, -1)
        return wg.logsumexp(self._component_distribution.log_prob(value) + weights, -1)

    def cdf(self, value: Any) -> Tensor:
        value = wg.expand_dims(self._validate_sample(value), axis=-1)
        return (self._component_distribution.cdf(value) * self._mixture_distribution.probs).sum(-1)

    @property
    def mean(self) -> Tensor:
        return (self._weights() * self._component_distribution.mean).sum(-1 - self._event_ndims)

    @property
    def variance(self) -> Tensor:
        axis, weights, parts = -1 - self._event_ndims, self._weights(), self._component_distribution
        mean = (weights * parts.mean).sum(axis, keepdims=True)
        return (weights * (parts.variance + (parts.mean - mean) ** 2)).sum(axis)
