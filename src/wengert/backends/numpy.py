"""The reference backend: every op by its NumPy reference, one at a time, in place at a value's last use.

It is the meaning of a program; everything else is checked against it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from sys import getrefcount
from typing import Any

import numpy as np

from wengert.dtypes import HALF
from wengert.errors import ComputationError, NaNError
from wengert.graph import Node

_REUSE_FROM = 1 << 14  # elements: below, an allocation is cheaper than asking whether one can be saved
_checks_nans = False


def run(order: Sequence[Node], keep: set[Node], failure: Callable[[Exception, Node], Any]) -> None:
    """Give each node of `order` its buffer; those not in `keep` lose it again after their last use."""
    uses: dict[Node, int] = {}
    for node in order:
        for source in node.sources:
            uses[source] = uses.get(source, 0) + 1
    computed = set(order)
    failed = False
    with np.errstate(all="ignore"):
        for node in order:
            sources = node.sources
            arrays = [source.buffer for source in sources]
            broken = next((a for a in arrays if type(a) is failure), None) if failed else None
            if broken is not None:
                node.buffer = broken
            else:
                try:
                    node.buffer = _apply(node, arrays, uses, keep, computed)
                except Exception as error:
                    node.buffer = failure(error, node)
                    failed = True
            del arrays
            for source in sources:
                uses[source] -= 1
                if not uses[source] and source in computed and source not in keep:
                    source.buffer = None


def _apply(node: Node, arrays: list[Any], uses: dict[Node, int], keep: set[Node], computed: set[Node]) -> Any:
    op = node.op
    if type(op.numpy) is np.ufunc and node.size >= _REUSE_FROM and node.dtype not in HALF and not _checks_nans:
        for i, source in enumerate(node.sources):
            if uses[source] == 1 and source in computed and source not in keep and _is_ours(arrays, i, node):
                return op.numpy(*arrays, out=arrays[i])
    return apply(node, arrays)


def apply(node: Node, arrays: Sequence[Any]) -> Any:
    """The reference of a node's op on arrays, checked for NaNs where that is asked for."""
    result = node.op.run(arrays, node)
    if _checks_nans:
        _check_nans(node, arrays, result)
    return result


def apply_here(node: Node, arrays: Sequence[Any]) -> Any:
    """As `apply`; what goes wrong raises with the op's name and the user's line."""
    try:
        return apply(node, arrays)
    except NaNError:
        raise
    except Exception as error:
        raise ComputationError(f"{node.op.name} failed: {error}", node.location) from error


def _is_ours(arrays: list[Any], i: int, node: Node) -> bool:
    """Whether nothing but the node's buffer and the list of arguments refers to an array, not even a view of it."""
    array = arrays[i]
    fits = array.shape == node.shape and array.dtype is node.dtype and array.flags.owndata and array.flags.writeable
    return fits and getrefcount(array) == 4  # the buffer, the list, the name here, and getrefcount's own


# --- debug_nans -----------------------------------------------------------------------------------------------------


@contextmanager
def debug_nans() -> Iterator[None]:
    """Inside, the first op that makes a NaN raises, naming its line and the ranges of its inputs.

    >>> import wengert as wg
    >>> with wg.debug_nans():
    ...     wg.log(wg.tensor([-1.0])).numpy()
    Traceback (most recent call last):
    wengert.errors.NaNError: log made 1 NaN of 1 element from inputs in [-1, -1]
      at ...
    """
    global _checks_nans
    before, _checks_nans = _checks_nans, True
    try:
        yield
    finally:
        _checks_nans = before


def is_checking_nans() -> bool:
    """Whether `debug_nans` is on."""
    return _checks_nans


def _check_nans(node: Node, arrays: Sequence[Any], result: Any) -> None:
    parts = result if type(result) is tuple else (result,)
    nans = sum(int(np.isnan(p).sum()) for p in parts if p.dtype.kind in "fcV")
    if not nans or any(_has_nan(array) for array in arrays):
        return
    size = sum(p.size for p in parts)
    ranges = " and ".join(_range(array) for array in arrays) or "no inputs"
    elements = "1 element" if size == 1 else f"{size} elements"
    raise NaNError(f"{node.op.name} made {nans} NaN of {elements} from inputs in {ranges}", node.location)


def _has_nan(array: Any) -> bool:
    parts = array if type(array) is tuple else (array,)
    return any(p.dtype.kind in "fcV" and bool(np.isnan(p).any()) for p in parts)


def _range(array: Any) -> str:
    if type(array) is tuple or not array.size:
        return "[]"
    return f"[{array.min():g}, {array.max():g}]"
