"""Distribution: what all distributions share. In: parameters, tensors or numbers. Out: samples, densities, moments.

PyTorch's names and meanings: `batch_shape` are the distributions that one object holds, `event_shape` is the shape of
one draw of one of them. A sample has the shape `sample_shape + batch_shape + event_shape`.
"""

from __future__ import annotations

import copy
import functools
import math
from collections.abc import Sequence
from numbers import Number
from typing import Any, ClassVar, Self

import numpy as np

import wengert as wg
from wengert import Tensor
from wengert.core.errors import ArgumentError, DTypeError, ShapeError
from wengert.core.graph import recording
from wengert.distributions.constraints import Constraint, is_dependent

Shape = tuple[int, ...]
_FLOATING = (wg.float16, wg.bfloat16, wg.float32, wg.float64)

EULER = 0.57721566490153286060  # the Euler-Mascheroni constant
LOG_2PI = math.log(2 * math.pi)


class Distribution:
    """The base of the distributions. One's own defines `sample` or `rsample`, `log_prob`, and what else it has.

    `tensors` names the attributes that hold a value for each distribution of the batch, `parts` those that are
    distributions with the same batch: both are what `expand` expands.

    >>> import wengert as wg
    >>> round(wg.distributions.Normal(0.0, 1.0).log_prob(wg.tensor(0.0)).item(), 4)
    -0.9189
    """

    arg_constraints: ClassVar[dict[str, Constraint]] = {}
    tensors: ClassVar[tuple[str, ...]] = ()
    parts: ClassVar[tuple[str, ...]] = ()
    has_rsample: bool = False
    has_enumerate_support: bool = False
    _validates: ClassVar[bool] = True
    support: Any

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Whether arguments are checked where `validate_args` is not given."""
        if value not in (True, False):
            raise ArgumentError(f"set_default_validate_args takes True or False, not {value!r}")
        Distribution._validates = value

    def __init__(
        self, batch_shape: Sequence[int] = (), event_shape: Sequence[int] = (), validate_args: bool | None = None
    ) -> None:
        self._batch_shape = tuple(batch_shape)
        self._event_shape = tuple(event_shape)
        self._validate_args = self._validates if validate_args is None else validate_args
        if self._validate_args:
            self._check_parameters()

    def _check_parameters(self) -> None:
        found = {}
        for name, constraint in self.arg_constraints.items():
            given = vars(self).get(name)
            if isinstance(given, Tensor) and not is_dependent(constraint) and can_look(given):
                found[name] = constraint.check(given.detach()).all()
        # One look at all of them: each would compute what is pending.
        if not found or functools.reduce(wg.logical_and, found.values()).item():
            return
        name = next(name for name, is_right in found.items() if not is_right.item())
        values: Tensor = vars(self)[name].detach()
        raise ArgumentError(
            f"{type(self).__name__}: the parameter {name} of shape {values.shape} is to be "
            f"{self.arg_constraints[name]!r}, but its values are {values!r}"
        )

    # --- shapes -----------------------------------------------------------------------------------------------------

    @property
    def batch_shape(self) -> Shape:
        """The shape of the distributions held here."""
        return self._batch_shape

    @property
    def event_shape(self) -> Shape:
        """The shape of one draw of one distribution."""
        return self._event_shape

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        """The same distributions with a larger batch, into which theirs broadcasts."""
        shape = tuple(batch_shape)
        old = len(self._batch_shape)
        new = copy.copy(self)
        new._batch_shape = shape
        for name in self.tensors:
            value = vars(self).get(name)
            if isinstance(value, Tensor):
                vars(new)[name] = wg.broadcast_to(value, shape + value.shape[old:])
        for name in self.parts:
            vars(new)[name] = vars(self)[name].expand(shape)
        return new

    def _extended_shape(self, sample_shape: Any = ()) -> Shape:
        return as_shape(sample_shape) + self._batch_shape + self._event_shape

    # --- what a distribution has ------------------------------------------------------------------------------------

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draws, through which no gradient passes."""
        with wg.no_grad():
            return self.rsample(sample_shape).detach()

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draws that are differentiable by the parameters."""
        raise NotImplementedError(
            f"{type(self).__name__} has no rsample: its draws are no smooth function of parameters"
        )

    def sample_n(self, n: int) -> Tensor:
        """`sample((n,))`."""
        return self.sample((n,))

    def log_prob(self, value: Any) -> Tensor:
        """The logarithm of the density, or of the probability, of a value."""
        raise NotImplementedError(f"{type(self).__name__} has no log_prob")

    def cdf(self, value: Any) -> Tensor:
        """The probability of a draw up to a value."""
        raise NotImplementedError(f"{type(self).__name__} has no cdf")

    def icdf(self, value: Any) -> Tensor:
        """The value up to which a draw lies with a probability: the quantile."""
        raise NotImplementedError(f"{type(self).__name__} has no icdf")

    def entropy(self) -> Tensor:
        """Minus the mean of `log_prob` over draws."""
        raise NotImplementedError(f"{type(self).__name__} has no entropy in closed form")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values that a draw can have, along a new first axis."""
        raise NotImplementedError(f"{type(self).__name__} has no support that can be enumerated")

    def perplexity(self) -> Tensor:
        """exp of the entropy."""
        return wg.exp(self.entropy())

    @property
    def mean(self) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} has no mean in closed form")

    @property
    def mode(self) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} has no mode in closed form")

    @property
    def variance(self) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} has no variance in closed form")

    @property
    def stddev(self) -> Tensor:
        return wg.sqrt(self.variance)

    # --- checks -----------------------------------------------------------------------------------------------------

    def _validate_sample(self, value: Any) -> Tensor:
        """A value as a tensor, checked: `log_prob` and `cdf` begin with it."""
        value = value if isinstance(value, Tensor) else wg.asarray(value)
        if not self._validate_args:
            return value
        events = len(self._event_shape)
        if value.shape[value.ndim - events :] != self._event_shape or value.ndim < events:
            raise ShapeError(
                f"{type(self).__name__}: a value of shape {value.shape} for events of shape {self._event_shape}"
            )
        expected = self._batch_shape + self._event_shape
        for found, wanted in zip(reversed(value.shape), reversed(expected)):
            if found != wanted and found != 1 and wanted != 1:
                raise ShapeError(f"{type(self).__name__}: a value of shape {value.shape} for a batch with {expected}")
        support = getattr(self, "support", None)
        if support is not None and can_look(value) and not support.check(value.detach()).all().item():
            raise ArgumentError(
                f"{type(self).__name__}: values outside of the support, {support!r}: {value.detach()!r}"
            )
        return value

    def __repr__(self) -> str:
        shown = [
            f"{name}: {value.item() if value.ndim == 0 and can_look(value) else value.shape}"
            for name in self.arg_constraints
            if isinstance(value := vars(self).get(name), Tensor)
        ]
        return f"{type(self).__name__}({', '.join(shown)})"


def can_look(value: Tensor) -> bool:
    """Whether a value may be looked at: not while a function is recorded."""
    return recording.trace is None and recording.lane is None


def as_shape(shape: Any) -> Shape:
    """A sample's shape: a tuple, a list or an int."""
    return (int(shape),) if isinstance(shape, (int, np.integer)) else tuple(int(n) for n in shape)


def as_tensors(*values: Any) -> tuple[Tensor, ...]:
    """Numbers and tensors as tensors of one floating-point dtype, which the tensors among them decide."""
    dtypes = [v.dtype for v in values if isinstance(v, Tensor) and v.dtype in _FLOATING]
    kind = wg.float32 if not dtypes else wg.result_type(*dtypes)
    made = []
    for value in values:
        if not isinstance(value, (Tensor, Number, np.ndarray, list)):
            raise DTypeError(f"a distribution takes tensors and numbers, not {value!r}")
        made.append(value if isinstance(value, Tensor) and value.dtype == kind else wg.asarray(value).astype(kind))
    return tuple(made)


def broadcast_all(*values: Any) -> tuple[Tensor, ...]:
    """`as_tensors`, of one shape."""
    return tuple(wg.broadcast_arrays(*as_tensors(*values)))


def sum_rightmost(value: Tensor, count: int) -> Tensor:
    """The sum over the last axes."""
    return value.sum(tuple(range(value.ndim - count, value.ndim))) if count else value


def finfo(dtype: Any) -> Any:
    """The limits of a dtype; halves are computed in float32."""
    return np.finfo(np.float64 if dtype == wg.float64 else np.float32)


def clamp_probs(probs: Tensor) -> Tensor:
    """Probabilities moved off 0 and 1 by the dtype's rounding."""
    eps = float(finfo(probs.dtype).eps)
    return wg.clip(probs, eps, 1 - eps)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """log(p / (1 - p)), or log p of the probabilities of classes."""
    clamped = clamp_probs(probs)
    return wg.log(clamped) - wg.log1p(-clamped) if is_binary else wg.log(clamped)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """The probabilities that logits stand for."""
    return wg.sigmoid(logits) if is_binary else wg.softmax(logits, -1)


def one_of(name: str, probs: Any, logits: Any) -> None:
    """Raise unless one of the two is given."""
    if (probs is None) == (logits is None):
        raise ArgumentError(f"{name} takes probs or logits, one of the two")
