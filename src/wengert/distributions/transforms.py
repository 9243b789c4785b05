"""Transforms: functions with an inverse and the logarithm of their derivative, by which densities go over.

`transform(x)` gives y, `transform.inv(y)` gives x back, `log_abs_det_jacobian(x, y)` the logarithm of the volume that
a small volume at x has at y. `domain` and `codomain` are constraints. PyTorch's `cache_size` is taken and without
meaning: an inverse that was just computed forwards is the same node.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import wengert as wg
from wengert import Tensor
from wengert.core.errors import ArgumentError, ShapeError
from wengert.distributions import constraints
from wengert.distributions.constraints import Constraint
from wengert.distributions.distribution import finfo, sum_rightmost


class Transform:
    """The base of the transforms: one's own defines `_call`, `_inverse` and `log_abs_det_jacobian`.

    >>> import wengert as wg
    >>> t = wg.distributions.ExpTransform()
    >>> t(0.0).item(), t.inv(1.0).item()
    (1.0, 0.0)
    """

    bijective: bool = False
    domain: Constraint
    codomain: Constraint
    _sign: int | None = None

    def __init__(self, cache_size: int = 0) -> None:
        self._cache_size = cache_size

    def __call__(self, x: Any) -> Tensor:
        return self._call(wg.asarray(x))

    @property
    def event_dim(self) -> int:
        return self.domain.event_dim

    @property
    def inv(self) -> Transform:
        """The inverse, as a transform."""
        return _Inverse(self)

    @property
    def sign(self) -> Any:
        """1 where the function rises, -1 where it falls."""
        if self._sign is None:
            raise ArgumentError(f"{type(self).__name__} rises and falls, or is no function of numbers: it has no sign")
        return self._sign

    def with_cache(self, cache_size: int = 1) -> Transform:
        """The transform itself."""
        return self

    def _call(self, x: Tensor) -> Tensor:
        raise TypeError(f"{type(self).__name__} defines no _call")

    def _inverse(self, y: Tensor) -> Tensor:
        raise TypeError(f"{type(self).__name__} has no inverse")

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """The logarithm of |dy/dx|, of events summed over their axes."""
        raise TypeError(f"{type(self).__name__} is not one to one, so that densities do not go over")

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of y for a shape of x."""
        return tuple(shape)

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        """The shape of x for a shape of y."""
        return tuple(shape)

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class _Inverse(Transform):
    def __init__(self, base: Transform) -> None:
        super().__init__()
        self.base = base
        self.bijective = base.bijective

    @property
    def domain(self) -> Constraint:  # type: ignore[override]
        return self.base.codomain

    @property
    def codomain(self) -> Constraint:  # type: ignore[override]
        return self.base.domain

    @property
    def sign(self) -> Any:
        return self.base.sign

    @property
    def inv(self) -> Transform:
        return self.base

    def _call(self, x: Tensor) -> Tensor:
        return self.base._inverse(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.base._call(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self.base.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        return self.base.inverse_shape(shape)

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        return self.base.forward_shape(shape)

    def __repr__(self) -> str:
        return f"{self.base!r}.inv"


class ComposeTransform(Transform):
    """Transforms one after the other.

    >>> import wengert as wg
    >>> d = wg.distributions
    >>> d.ComposeTransform([d.AffineTransform(0.0, 2.0), d.AbsTransform()])(wg.tensor([-1.0])).tolist()
    [2.0]
    """

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.parts = list(parts)
        self.bijective = all(part.bijective for part in self.parts)

    @property
    def domain(self) -> Constraint:  # type: ignore[override]
        if not self.parts:
            return constraints.real
        first, events = self.parts[0].domain, self.parts[-1].codomain.event_dim
        for part in reversed(self.parts):
            events = max(events + part.domain.event_dim - part.codomain.event_dim, part.domain.event_dim)
        return _widened(first, events)

    @property
    def codomain(self) -> Constraint:  # type: ignore[override]
        if not self.parts:
            return constraints.real
        last, events = self.parts[-1].codomain, self.parts[0].domain.event_dim
        for part in self.parts:
            events = max(events + part.codomain.event_dim - part.domain.event_dim, part.codomain.event_dim)
        return _widened(last, events)

    @property
    def sign(self) -> Any:
        sign: Any = 1
        for part in self.parts:
            sign = sign * part.sign
        return sign

    def _call(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def _inverse(self, y: Tensor) -> Tensor:
        for part in reversed(self.parts):
            y = part._inverse(y)
        return y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        events, total = self.domain.event_dim, None
        for part in self.parts:
            after = part(x)
            volume = sum_rightmost(part.log_abs_det_jacobian(x, after), events - part.domain.event_dim)
            total = volume if total is None else total + volume
            events += part.codomain.event_dim - part.domain.event_dim
            x = after
        return wg.zeros_like(x) if total is None else total

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return tuple(shape)

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return tuple(shape)

    def __repr__(self) -> str:
        return f"ComposeTransform({self.parts!r})"


def _widened(constraint: Constraint, event_dim: int) -> Constraint:
    more = event_dim - constraint.event_dim
    return constraints.independent(constraint, more) if more > 0 else constraint


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """A transform whose last batch axes count as axes of the event.

    >>> import wengert as wg
    >>> wg.distributions.IndependentTransform(wg.distributions.ExpTransform(), 1)(wg.zeros(2)).tolist()
    [1.0, 1.0]
    """

    def __init__(self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.base_transform = base_transform
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        self.bijective = base_transform.bijective
        self.domain = constraints.independent(base_transform.domain, reinterpreted_batch_ndims)
        self.codomain = constraints.independent(base_transform.codomain, reinterpreted_batch_ndims)

    @property
    def sign(self) -> Any:
        return self.base_transform.sign

    def _call(self, x: Tensor) -> Tensor:
        return self.base_transform(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.base_transform._inverse(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        return self.base_transform.inverse_shape(shape)


class ReshapeTransform(Transform):
    """The last axes in another shape with as many elements.

    >>> import wengert as wg
    >>> wg.distributions.ReshapeTransform((4,), (2, 2))(wg.ones(4)).shape
    (2, 2)
    """

    bijective = True

    def __init__(self, in_shape: Sequence[int], out_shape: Sequence[int], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.in_shape, self.out_shape = tuple(in_shape), tuple(out_shape)
        if math.prod(self.in_shape) != math.prod(self.out_shape):
            raise ShapeError(
                f"ReshapeTransform: {self.in_shape} and {self.out_shape} have different numbers of elements"
            )
        self.domain = constraints.independent(constraints.real, len(self.in_shape))
        self.codomain = constraints.independent(constraints.real, len(self.out_shape))

    def _call(self, x: Tensor) -> Tensor:
        return x.reshape(x.shape[: x.ndim - len(self.in_shape)] + self.out_shape)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.reshape(y.shape[: y.ndim - len(self.out_shape)] + self.in_shape)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return wg.zeros(x.shape[: x.ndim - len(self.in_shape)], dtype=x.dtype, device=x.device)

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        return self._reshaped(tuple(shape), self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        return self._reshaped(tuple(shape), self.out_shape, self.in_shape)

    def _reshaped(self, shape: tuple[int, ...], old: tuple[int, ...], new: tuple[int, ...]) -> tuple[int, ...]:
        cut = len(shape) - len(old)
        if cut < 0 or shape[cut:] != old:
            raise ShapeError(f"ReshapeTransform: a shape that ends in {old}, not {shape}")
        return shape[:cut] + new


class _OfNumbers(Transform):
    """A rising function of numbers."""

    bijective = True
    domain: Constraint = constraints.real
    codomain: Constraint = constraints.real
    _sign = 1


class ExpTransform(_OfNumbers):
    """exp(x).

    >>> import wengert as wg
    >>> wg.distributions.ExpTransform()(wg.tensor([0.0])).tolist()
    [1.0]
    """

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return wg.exp(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return wg.log(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x


class PowerTransform(_OfNumbers):
    """x ** exponent of positive numbers.

    >>> import wengert as wg
    >>> wg.distributions.PowerTransform(2.0)(wg.tensor([3.0])).tolist()
    [9.0]
    """

    domain = constraints.positive
    codomain = constraints.positive

    def __init__(self, exponent: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.exponent = exponent

    @property
    def sign(self) -> Any:
        return _sign_of(self.exponent)

    def _call(self, x: Tensor) -> Tensor:
        return x**self.exponent

    def _inverse(self, y: Tensor) -> Tensor:
        return y ** (1 / self.exponent)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return wg.log(wg.abs(self.exponent * y / x))

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        return wg.broadcast_shapes(tuple(shape), getattr(self.exponent, "shape", ()))

    inverse_shape = forward_shape


class SigmoidTransform(_OfNumbers):
    """1 / (1 + exp(-x)); its results stay off 0 and 1.

    >>> import wengert as wg
    >>> wg.distributions.SigmoidTransform()(wg.tensor([0.0])).tolist()
    [0.5]
    """

    codomain = constraints.unit_interval

    def _call(self, x: Tensor) -> Tensor:
        limits = finfo(x.dtype)
        return wg.clip(wg.sigmoid(x), float(limits.tiny), 1.0 - float(limits.eps))

    def _inverse(self, y: Tensor) -> Tensor:
        limits = finfo(y.dtype)
        y = wg.clip(y, float(limits.tiny), 1.0 - float(limits.eps))
        return wg.log(y) - wg.log1p(-y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -wg.softplus(-x) - wg.softplus(x)


class SoftplusTransform(_OfNumbers):
    """log(1 + exp(x)).

    >>> import wengert as wg
    >>> [round(v, 4) for v in wg.distributions.SoftplusTransform()(wg.tensor([0.0])).tolist()]
    [0.6931]
    """

    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return wg.softplus(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return wg.log(-wg.expm1(-y)) + y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -wg.softplus(-x)


class TanhTransform(_OfNumbers):
    """tanh(x).

    >>> import wengert as wg
    >>> wg.distributions.TanhTransform()(wg.tensor([0.0])).tolist()
    [0.0]
    """

    codomain = constraints.interval(-1.0, 1.0)

    def _call(self, x: Tensor) -> Tensor:
        return wg.tanh(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return wg.atanh(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return 2.0 * (math.log(2.0) - x - wg.softplus(-2.0 * x))


class AbsTransform(Transform):
    """|x|, which is not one to one: the inverse gives the positive number.

    >>> import wengert as wg
    >>> wg.distributions.AbsTransform()(wg.tensor([-1.0, 2.0])).tolist()
    [1.0, 2.0]
    """

    domain = constraints.real
    codomain = constraints.positive

    def _call(self, x: Tensor) -> Tensor:
        return wg.abs(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return y


def _sign_of(number: Any) -> Any:
    return wg.sign(number) if isinstance(number, Tensor) else (number > 0) - (number < 0)


class AffineTransform(Transform):
    """loc + scale * x.

    >>> import wengert as wg
    >>> wg.distributions.AffineTransform(1.0, 2.0)(wg.tensor([0.0, 1.0])).tolist()
    [1.0, 3.0]
    """

    bijective = True

    def __init__(self, loc: Any, scale: Any, event_dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.loc, self.scale = loc, scale
        self._event_dim = event_dim
        self.domain = self.codomain = _widened(constraints.real, event_dim)

    @property
    def sign(self) -> Any:
        return _sign_of(self.scale)

    def _call(self, x: Tensor) -> Tensor:
        return self.loc + self.scale * x

    def _inverse(self, y: Tensor) -> Tensor:
        return (y - self.loc) / self.scale

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if isinstance(self.scale, Tensor):
            volume = wg.broadcast_to(wg.log(wg.abs(self.scale)), x.shape)
        else:
            volume = wg.full_like(x, math.log(abs(self.scale)))
        return sum_rightmost(volume, self._event_dim)

    def forward_shape(self, shape: Sequence[int]) -> tuple[int, ...]:
        return wg.broadcast_shapes(tuple(shape), getattr(self.loc, "shape", ()), getattr(self.scale, "shape", ()))

    inverse_shape = forward_shape


class CumulativeDistributionTransform(Transform):
    """The distribution function of a distribution.

    >>> import wengert as wg
    >>> wg.distributions.CumulativeDistributionTransform(wg.distributions.Normal(0.0, 1.0))(wg.tensor(0.0)).item()
    0.5
    """

    bijective = True
    codomain = constraints.unit_interval
    _sign = 1

    def __init__(self, distribution: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.distribution = distribution

    @property
    def domain(self) -> Constraint:  # type: ignore[override]
        support: Constraint = self.distribution.support
        return support

    def _call(self, x: Tensor) -> Tensor:
        return self.distribution.cdf(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.distribution.icdf(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return self.distribution.log_prob(x)
