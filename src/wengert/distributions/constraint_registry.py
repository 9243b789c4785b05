"""`biject_to(constraint)` and `transform_to(constraint)`: transforms from all numbers into a set.

`biject_to` gives one that is one to one, for inference; `transform_to` any that reaches the set, for optimisation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wengert.core.errors import ArgumentError
from wengert.distributions import constraints as c
from wengert.distributions import transforms as t
from wengert.distributions import vector_transforms as v

Factory = Callable[[Any], t.Transform]


class ConstraintRegistry:
    """Transforms by constraint. `register(constraint, factory)` adds one, of a constraint object or its class.

    >>> import wengert as wg
    >>> type(wg.distributions.biject_to(wg.distributions.constraints.positive)).__name__
    'ExpTransform'
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self._factories: dict[Any, Factory] = {}

    def register(self, constraint: Any, factory: Factory | None = None) -> Any:
        """Give a factory for a constraint, or use it as a decorator."""
        if factory is None:
            return lambda function: self.register(constraint, function)
        self._factories[constraint] = factory
        return factory

    def __call__(self, constraint: c.Constraint) -> t.Transform:
        for key in (constraint, getattr(constraint, "kind", None), type(constraint)):
            if key is not None and key in self._factories:
                return self._factories[key](constraint)
        raise ArgumentError(f"{self.name}: there is no transform into {constraint!r}; register one")


biject_to = ConstraintRegistry("biject_to")
transform_to = ConstraintRegistry("transform_to")


def _interval(constraint: Any) -> t.Transform:
    low, high = constraint.lower_bound, constraint.upper_bound
    if isinstance(low, float) and isinstance(high, float) and (low, high) == (0.0, 1.0):
        return t.SigmoidTransform()
    return t.ComposeTransform([t.SigmoidTransform(), t.AffineTransform(low, high - low)])


def _greater(constraint: Any) -> t.Transform:
    low = constraint.lower_bound
    if isinstance(low, float) and low == 0.0:
        return t.ExpTransform()
    return t.ComposeTransform([t.ExpTransform(), t.AffineTransform(low, 1)])


def _independent(registry: ConstraintRegistry) -> Factory:
    return lambda constraint: t.IndependentTransform(
        registry(constraint.base_constraint), constraint.reinterpreted_batch_ndims
    )


def _cat(registry: ConstraintRegistry) -> Factory:
    return lambda c: v.CatTransform([registry(part) for part in c.cseq], c.dim, c.lengths)


def _stack(registry: ConstraintRegistry) -> Factory:
    return lambda c: v.StackTransform([registry(part) for part in c.cseq], c.dim)


def _less(constraint: Any) -> t.Transform:
    return t.ComposeTransform([t.ExpTransform(), t.AffineTransform(constraint.upper_bound, -1)])


for _registry in (biject_to, transform_to):
    _registry.register("real", lambda constraint: t.identity_transform)
    _registry.register(c.independent, _independent(_registry))
    _registry.register("interval", _interval)
    _registry.register("half_open", _interval)
    _registry.register("greater", _greater)
    _registry.register("less", _less)
    _registry.register(c.corr_cholesky, lambda constraint: v.CorrCholeskyTransform())
    _registry.register(c.cat, _cat(_registry))
    _registry.register(c.stack, _stack(_registry))
biject_to.register(c.simplex, lambda constraint: v.StickBreakingTransform())
transform_to.register(c.simplex, lambda constraint: v.SoftmaxTransform())
transform_to.register(c.lower_cholesky, lambda constraint: v.LowerCholeskyTransform())
transform_to.register(c.positive_definite, lambda constraint: v.PositiveDefiniteTransform())
transform_to.register(c.positive_semidefinite, lambda constraint: v.PositiveDefiniteTransform())
