"""Constraints: which values a parameter may have, and which a draw can have. `constraint.check(x)` says of each event.

The names are PyTorch's: `constraints.positive`, `constraints.interval(0, 2)`, ...
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import wengert as wg
from wengert import Tensor


class Constraint:
    """A set of values. `event_dim` is the number of axes of one value, `is_discrete` whether there are gaps.

    >>> import wengert as wg
    >>> wg.distributions.constraints.positive.check(wg.tensor([1.0, -1.0])).tolist()
    [True, False]
    """

    is_discrete: bool = False
    event_dim: int = 0

    def check(self, value: Tensor) -> Tensor:
        """Whether each value is in the set."""
        raise NotImplementedError(f"{type(self).__name__} has no check")

    def __repr__(self) -> str:
        return type(self).__name__.lstrip("_").lower()


class _Dependent(Constraint):
    """A set that depends on other parameters, which only an object knows."""

    def __init__(self, is_discrete: bool = False, event_dim: int = 0) -> None:
        self.is_discrete, self.event_dim = is_discrete, event_dim

    def __call__(self, *, is_discrete: bool = False, event_dim: int = 0) -> _Dependent:
        return _Dependent(is_discrete, event_dim)


class dependent_property(property, _Dependent):
    """A decorator for a property of a class of distributions that is a set, which only an object knows.

    >>> import wengert as wg
    >>> c = wg.distributions.constraints
    >>> c.is_dependent(wg.distributions.Uniform.support)
    False
    """

    def __init__(self, fn: Any = None, *, is_discrete: bool = False, event_dim: int = 0) -> None:
        property.__init__(self, fn)
        _Dependent.__init__(self, is_discrete, event_dim)

    def __call__(self, fn: Any) -> dependent_property:  # type: ignore[override]
        """The property, where it was given its options first."""
        return dependent_property(fn, is_discrete=self.is_discrete, event_dim=self.event_dim)


class _Elementwise(Constraint):
    """A set of numbers, given by a condition."""

    def __init__(
        self, name: str, condition: Callable[[Tensor], Tensor], is_discrete: bool = False, **values: Any
    ) -> None:
        self._name, self._condition, self.is_discrete = name, condition, is_discrete
        self.__dict__.update(values)

    def check(self, value: Tensor) -> Tensor:
        return self._condition(value)

    def __repr__(self) -> str:
        return self._name


class independent(Constraint):
    """A set of arrays whose elements are in another set: of the last axes.

    >>> import wengert as wg
    >>> c = wg.distributions.constraints
    >>> c.independent(c.positive, 1).check(wg.tensor([1.0, -1.0])).item()
    False
    """

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        self.base_constraint = base_constraint
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        self.is_discrete = base_constraint.is_discrete
        self.event_dim = base_constraint.event_dim + reinterpreted_batch_ndims

    def check(self, value: Tensor) -> Tensor:
        result = self.base_constraint.check(value)
        count = self.reinterpreted_batch_ndims
        return wg.all(result, axis=tuple(range(result.ndim - count, result.ndim))) if count else result

    def __repr__(self) -> str:
        return f"independent({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class cat(Constraint):
    """Different sets for parts along an axis, of the given lengths.

    >>> import wengert as wg
    >>> c = wg.distributions.constraints
    >>> c.cat([c.positive, c.real], 0, [1, 1]).check(wg.tensor([1.0, -1.0])).tolist()
    [True, True]
    """

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None) -> None:
        self.cseq, self.dim = list(cseq), dim
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        self.is_discrete = any(c.is_discrete for c in self.cseq)
        self.event_dim = max(c.event_dim for c in self.cseq)

    def check(self, value: Tensor) -> Tensor:
        pieces = wg.split(value, self.lengths, axis=self.dim)
        return wg.concat([c.check(piece) for c, piece in zip(self.cseq, pieces)], axis=self.dim)


class stack(Constraint):
    """A set for each index along an axis.

    >>> import wengert as wg
    >>> c = wg.distributions.constraints
    >>> c.stack([c.positive, c.real]).check(wg.tensor([1.0, -1.0])).tolist()
    [True, True]
    """

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        self.cseq, self.dim = list(cseq), dim
        self.is_discrete = any(c.is_discrete for c in self.cseq)
        inner = max(c.event_dim for c in self.cseq)
        self.event_dim = inner + 1 if dim + inner < 0 else inner

    def check(self, value: Tensor) -> Tensor:
        pieces = wg.unstack(value, axis=self.dim)
        return wg.stack([c.check(piece) for c, piece in zip(self.cseq, pieces)], axis=self.dim)


def interval(lower_bound: Any, upper_bound: Any) -> Constraint:
    """Numbers from a bound to another.

    >>> import wengert as wg
    >>> wg.distributions.constraints.interval(0.0, 1.0).check(wg.tensor([0.5, 2.0])).tolist()
    [True, False]
    """
    return _between("interval", lower_bound, upper_bound)


def half_open_interval(lower_bound: Any, upper_bound: Any) -> Constraint:
    """Numbers from a bound to below another.

    >>> import wengert as wg
    >>> wg.distributions.constraints.half_open_interval(0.0, 1.0).check(wg.tensor([0.0, 1.0])).tolist()
    [True, False]
    """
    condition = lambda x: (x >= lower_bound) & (x < upper_bound)  # noqa: E731
    name = f"half_open_interval({lower_bound}, {upper_bound})"
    return _Elementwise(name, condition, kind="half_open", lower_bound=lower_bound, upper_bound=upper_bound)


def integer_interval(lower_bound: Any, upper_bound: Any) -> Constraint:
    """Whole numbers from a bound to another.

    >>> import wengert as wg
    >>> wg.distributions.constraints.integer_interval(0, 3).check(wg.tensor([1.0, 1.5])).tolist()
    [True, False]
    """
    condition = lambda x: (x % 1 == 0) & (x >= lower_bound) & (x <= upper_bound)  # noqa: E731
    name = f"integer_interval({lower_bound}, {upper_bound})"
    return _Elementwise(name, condition, True, lower_bound=lower_bound, upper_bound=upper_bound)


def greater_than(lower_bound: Any) -> Constraint:
    """Numbers above a bound.

    >>> import wengert as wg
    >>> wg.distributions.constraints.greater_than(1.0).check(wg.tensor([1.0, 2.0])).tolist()
    [False, True]
    """
    name = f"greater_than({lower_bound})"
    return _Elementwise(name, lambda x: x > lower_bound, kind="greater", lower_bound=lower_bound)


def greater_than_eq(lower_bound: Any) -> Constraint:
    """Numbers from a bound on.

    >>> import wengert as wg
    >>> wg.distributions.constraints.greater_than_eq(1.0).check(wg.tensor([1.0, 0.0])).tolist()
    [True, False]
    """
    name = f"greater_than_eq({lower_bound})"
    return _Elementwise(name, lambda x: x >= lower_bound, kind="greater", lower_bound=lower_bound)


def less_than(upper_bound: Any) -> Constraint:
    """Numbers below a bound.

    >>> import wengert as wg
    >>> wg.distributions.constraints.less_than(1.0).check(wg.tensor([1.0, 0.0])).tolist()
    [False, True]
    """
    return _Elementwise(f"less_than({upper_bound})", lambda x: x < upper_bound, kind="less", upper_bound=upper_bound)


def multinomial(upper_bound: Any) -> Constraint:
    """Counts along the last axis that sum up to a number.

    >>> import wengert as wg
    >>> wg.distributions.constraints.multinomial(3).check(wg.tensor([1.0, 2.0])).item()
    True
    """
    return _Event("multinomial", 1, lambda x: (x >= 0).all(-1) & (x.sum(-1) <= upper_bound), True)


def _between(name: str, lower: Any, upper: Any) -> Constraint:
    condition = lambda x: (x >= lower) & (x <= upper)  # noqa: E731
    return _Elementwise(f"{name}({lower}, {upper})", condition, kind="interval", lower_bound=lower, upper_bound=upper)


class _Event(Constraint):
    """A set of vectors or matrices, given by a condition."""

    def __init__(
        self, name: str, event_dim: int, condition: Callable[[Tensor], Tensor], is_discrete: bool = False
    ) -> None:
        self._name, self.event_dim, self._condition, self.is_discrete = name, event_dim, condition, is_discrete

    def check(self, value: Tensor) -> Tensor:
        return self._condition(value)

    def __repr__(self) -> str:
        return self._name


def _is_lower(x: Tensor) -> Tensor:
    return (wg.tril(x) == x).all((-2, -1))


def _has_positive_diagonal(x: Tensor) -> Tensor:
    return (wg.diagonal(x) > 0).all(-1)


def _is_symmetric(x: Tensor) -> Tensor:
    return (wg.abs(x - x.mT) <= 1e-6 + 1e-5 * wg.abs(x)).all((-2, -1))


def _has_unit_rows(x: Tensor) -> Tensor:
    return (wg.abs((x * x).sum(-1) - 1) < _tolerance(x) * x.shape[-1]).all(-1)


def _tolerance(x: Tensor) -> float:
    return 1e-12 if x.dtype == wg.float64 else 1e-4


def _is_positive_definite(x: Tensor) -> Tensor:
    return _is_symmetric(x) & (wg.linalg.eigvalsh(x) > 0).all(-1)


def is_dependent(constraint: Constraint) -> bool:
    """Whether a set depends on other parameters.

    >>> import wengert as wg
    >>> c = wg.distributions.constraints
    >>> c.is_dependent(c.positive)
    False
    """
    return isinstance(constraint, _Dependent)


dependent = _Dependent()
real = _Elementwise("real", lambda x: x == x, kind="real")
boolean = _Elementwise("boolean", lambda x: (x == 0) | (x == 1), True)
nonnegative_integer = _Elementwise("nonnegative_integer", lambda x: (x % 1 == 0) & (x >= 0), True)
positive_integer = _Elementwise("positive_integer", lambda x: (x % 1 == 0) & (x >= 1), True)
positive = greater_than(0.0)
nonnegative = greater_than_eq(0.0)
unit_interval = interval(0.0, 1.0)
real_vector = independent(real, 1)
simplex = _Event("simplex", 1, lambda x: (x >= 0).all(-1) & (wg.abs(x.sum(-1) - 1) < 1e-6))
one_hot = _Event("one_hot", 1, lambda x: ((x == 0) | (x == 1)).all(-1) & (x.sum(-1) == 1), True)
square = _Event("square", 2, lambda x: wg.full(x.shape[:-2], x.shape[-2] == x.shape[-1], dtype=bool))
symmetric = _Event("symmetric", 2, _is_symmetric)
positive_semidefinite = _Event(
    "positive_semidefinite", 2, lambda x: _is_symmetric(x) & (wg.linalg.eigvalsh(x) >= -1e-6).all(-1)
)
positive_definite = _Event("positive_definite", 2, _is_positive_definite)
lower_triangular = _Event("lower_triangular", 2, _is_lower)
lower_cholesky = _Event("lower_cholesky", 2, lambda x: _is_lower(x) & _has_positive_diagonal(x))
corr_cholesky = _Event("corr_cholesky", 2, lambda x: _is_lower(x) & _has_positive_diagonal(x) & _has_unit_rows(x))
