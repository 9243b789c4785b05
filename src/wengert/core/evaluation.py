"""Applying a node's reference to arrays, which every way of running a graph is based on, and how it fails.

In: a node and the arrays of its sources. Out: its array. Errors name the op and the user's line; inside `debug_nans` so
does the first NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from time import perf_counter
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.linalg import LinAlgError

from wengert.core.code import Location
from wengert.core.communication import current
from wengert.core.context import Setting, mode
from wengert.core.errors import (
    ComputationError,
    DistributedError,
    IndexValueError,
    LinearAlgebraError,
    NaNError,
)

if TYPE_CHECKING:
    from wengert.core.graph import Node


class Observer(Protocol):
    """Observes programs while they run: `wg.profile`. Times are from `time.perf_counter`."""

    def ran_op(self, node: Node, result: Any, start: float, stop: float) -> None:
        """An op was computed by its reference."""
        ...

    def calls_of(self, program: Any) -> Sequence[Callable[..., None]]:
        """The calls that a CPU program makes instead of its own."""
        ...

    def ran_steps(self, program: Any, steps: Sequence[tuple[int, Any, Any]]) -> None:
        """Steps of a program were submitted to a GPU: by number, with events at their beginning and end."""
        ...

    def copied(self, driver: Any, size: int, start: Any, stop: Any) -> None:
        """A copy of this many bytes was submitted to a GPU, with events at its beginning and end."""
        ...

    def built(self, start: float, stop: float) -> None:
        """A program was built."""
        ...


class Watch:
    """The current observer; usually there is none."""

    observer: Observer | None = None
    node: Node | None = None  # that a program of one op runs for


watch = Watch()


def apply(node: Node, arrays: Sequence[Any], out: Any = None) -> Any:
    """Apply the reference of a node's op to arrays, into `out` if given; checked and timed if requested."""
    observer = watch.observer
    start = 0.0 if observer is None else perf_counter()
    if node.op.collective:
        current.location = node.location  # what engines tell the watcher
    result = node.op.run(arrays, node) if out is None else node.op.numpy(*arrays, **node.attrs, out=out)
    if observer is not None:
        observer.ran_op(node, result, start, perf_counter())
    if mode().checks_nans:
        check_nans(node, arrays, result)
    return result


def apply_here(node: Node, arrays: Sequence[Any], out: Any = None) -> Any:
    """Like `apply`; errors have the op's name and the user's line."""
    try:
        return apply(node, arrays, out)
    except (NaNError, ComputationError, DistributedError):  # the second from inside a body: of a scan, a branch
        raise
    except Exception as error:
        raise computation_error(node.op.name, error, node.location) from error


def computation_error(op: str, error: Exception, location: Location) -> ComputationError:
    """The error of an op that failed with `error`: of the class that its users catch."""
    kind = ComputationError
    if isinstance(error, LinAlgError):
        kind = LinearAlgebraError
    elif isinstance(error, IndexError):
        kind = IndexValueError
    return kind(f"{op} failed: {error}", location)


# --- debug_nans -----------------------------------------------------------------------------------------------------


def debug_nans() -> AbstractContextManager[None]:
    """A context in which the first op that produces a NaN raises an error with its line and the ranges of its inputs.

    >>> import wengert as wg
    >>> with wg.debug_nans():
    ...     wg.log(wg.tensor([-1.0])).numpy()
    Traceback (most recent call last):
    wengert.core.errors.NaNError: log produced 1 NaN of 1 element from inputs in [-1, -1]
      at ...
    """
    return Setting("checks_nans", True)


def check_nans(node: Node, arrays: Sequence[Any], result: Any) -> None:
    """Raise an error if a node's result has a NaN but its inputs have none."""
    parts = result if type(result) is tuple else (result,)
    nans = sum(int(np.isnan(p).sum()) for p in parts if p.dtype.kind in "fcV")
    if not nans or any(_has_nan(array) for array in arrays):
        return
    size = sum(p.size for p in parts)
    ranges = " and ".join(_range(array) for array in arrays) or "no inputs"
    elements = "1 element" if size == 1 else f"{size} elements"
    raise NaNError(f"{node.op.name} produced {nans} NaN of {elements} from inputs in {ranges}", node.location)


def _has_nan(array: Any) -> bool:
    parts = array if type(array) is tuple else (array,)
    return any(p.dtype.kind in "fcV" and bool(np.isnan(p).any()) for p in parts)


def _range(array: Any) -> str:
    if type(array) is tuple or not array.size:
        return "[]"
    return f"[{array.min():g}, {array.max():g}]"
