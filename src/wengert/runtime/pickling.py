"""Compiled functions in pickles and copies: by their source function, as Python does with functions.

A pickle contains the name of the function, or of what it was made from, and the options of `compile`; the function is
recorded again after loading. A copy of a function is the function itself.
"""

from __future__ import annotations

import copy
from typing import Any

from wengert.core.pickled_names import reduced


class ByFunction:
    """A compiled function that is pickled and copied as the function it was made from."""

    _function: Any
    _check: bool
    _limit: int
    _tuning: float

    def __reduce__(self) -> Any:
        return reduced(self, type(self), self._function, (self._check, self._limit, self._tuning))

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        function = copy.deepcopy(self._function, memo)
        if function is self._function:
            return self
        kind: Any = type(self)
        return kind(function, self._check, self._limit, self._tuning)


class ByObject:
    """A compiled method that is pickled and copied with its object."""

    __self__: Any
    __func__: Any

    def __reduce__(self) -> Any:
        return getattr, (self.__self__, self.__func__.__name__)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return type(self)(self.__func__, copy.deepcopy(self.__self__, memo))  # type: ignore[call-arg]
