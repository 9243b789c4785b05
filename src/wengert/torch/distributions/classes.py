"""The classes of `torch.distributions`: each is Wengert's, below what stands here for its bases.

Two things differ. The numbers among a distribution's parameters become this package's tensors, of its default dtype;
what is computed from those is one of this package's by itself. And what is drawn is made one.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np

import wengert as wg
from wengert import distributions
from wengert.torch import dtypes
from wengert.torch.devices import Size
from wengert.torch.random import multinomial
from wengert.torch.tensor import of

_DRAWS = ("sample", "rsample", "enumerate_support")
"""The methods whose results need not come from a parameter."""


class Distribution(distributions.Distribution):
    """The base class of the distributions; a subclass defines `sample` or `rsample`, `log_prob`, and further
    methods."""

    @property
    def batch_shape(self) -> Size:
        """The shape of the batch of distributions."""
        return Size(self._batch_shape)

    @property
    def event_shape(self) -> Size:
        """The shape of one draw of one distribution."""
        return Size(self._event_shape)

    def _extended_shape(self, sample_shape: Any = ()) -> Size:
        return Size(super()._extended_shape(sample_shape))

    def _get_checked_instance(self, cls: Any, _instance: Any = None) -> Any:
        """The object that an `expand` of one's own fills."""
        if _instance is None and type(self).__init__ != cls.__init__:
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ method must also "
                "define a custom .expand() method."
            )
        return type(self).__new__(type(self)) if _instance is None else _instance


def as_tensors(*values: Any) -> list[Any]:
    """Convert numbers and arrays to tensors of one dtype: that of the tensors among them, or the default."""
    found = [dtypes.of(x.node.dtype) for x in values if isinstance(x, wg.Tensor)]
    kinds = [kind for kind in found if kind.is_floating_point]
    kind = functools.reduce(dtypes.promote_types, kinds) if kinds else dtypes.get_default_dtype()
    arrays = (bool, int, float, list, np.generic, np.ndarray)
    made = [of(np.asarray(x), kind) if isinstance(x, arrays) else x for x in values]
    return [of(x) if isinstance(x, wg.Tensor) else x for x in made]


def _taking_numbers(original: Any) -> Callable[..., None]:
    """The class's `__init__`, before which numbers among the parameters become tensors."""
    signature = inspect.signature(original.__init__)
    names = {*original.arg_constraints, "temperature"} & {*signature.parameters}

    @functools.wraps(original.__init__)
    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        given = signature.bind(self, *args, **kwargs)
        known = [name for name in given.arguments if name in names]
        given.arguments.update(zip(known, as_tensors(*[given.arguments[name] for name in known])))
        original.__init__(*given.args, **given.kwargs)

    return init


def _drawing(method: Callable[..., Any]) -> Callable[..., Any]:
    """The method, whose result is a tensor of this package."""

    @functools.wraps(method)
    def draw(self: Any, *args: Any, **kwargs: Any) -> Any:
        return of(method(self, *args, **kwargs))

    return draw


def _draw_indices(self: Any, sample_shape: Any) -> Any:
    """Indices of classes, drawn as PyTorch draws them."""
    shape = distributions.distribution.as_shape(sample_shape)
    probs = self.probs.detach()
    drawn = multinomial(probs.reshape(-1, probs.shape[-1]), math.prod(shape), True)
    return drawn.T.reshape(shape + self._batch_shape)


def _subclass(original: Any, made: dict[str, Any]) -> Any:
    """Wengert's class as this package has it."""
    above = next(each for each in original.__mro__[1:] if each.__name__ in made)
    own = {name for name in (*_DRAWS, "__init__") if getattr(original, name) is not getattr(above, name)}
    members: dict[str, Any] = {"__doc__": original.__doc__, "__module__": "wengert.torch.distributions"}
    members |= {name: _drawing(getattr(original, name)) for name in _DRAWS if name in own}
    if "__init__" in own:
        members["__init__"] = _taking_numbers(original)
    if hasattr(original, "_draw_indices"):
        members["_draw_indices"] = _draw_indices
    return type(original.__name__, (original, made[above.__name__]), members)


def _made() -> dict[str, Any]:
    """All classes by name, each made after its bases."""
    base: Any = Distribution.__base__
    found = [x for x in vars(distributions).values() if isinstance(x, type) and issubclass(x, base)]
    made: dict[str, Any] = {"Distribution": Distribution}
    for original in sorted(found, key=lambda x: len(x.__mro__)):
        if original.__name__ not in made:
            made[original.__name__] = _subclass(original, made)
    del made["Distribution"]
    return made


CLASSES = _made()
