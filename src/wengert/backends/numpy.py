"""The reference backend: every op by its NumPy reference, one at a time, in place at a value's last use.

It defines the meaning of a program; everything else is checked against it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wengert.backends.cpu.recycle import MappedMemory
from wengert.core.context import mode
from wengert.core.dtypes import HALF
from wengert.core.evaluation import apply
from wengert.core.graph import Node
from wengert.core.ownership import ownership

_REUSE_FROM = 1 << 14  # elements: below, an allocation is cheaper than asking whether one can be saved


def run(order: Sequence[Node], keep: set[Node], failure: Callable[[Exception, Node], Any]) -> None:
    """Give each node of `order` its buffer; nodes not in `keep` are freed after their last use."""
    uses = _readers(order)
    readers = dict(uses)  # all of them, those that were computed already among them
    computed = set(order)
    failed = any(type(source.buffer) is failure for source in uses)  # in a flush before this one
    with np.errstate(all="ignore"):
        for node in order:
            sources = node.sources
            arrays = [source.buffer for source in sources]
            broken = next((a for a in arrays if type(a) is failure), None) if failed else None
            if broken is not None:
                node.buffer = broken
            else:
                try:
                    node.buffer = _apply(node, arrays, uses, keep, computed, readers)
                except Exception as error:
                    node.buffer = failure(error, node)
                    failed = True
            del arrays
            _let_go(sources, uses, keep, computed)


def _readers(order: Sequence[Node]) -> dict[Node, int]:
    """The number of reads of each value by these nodes; reading it twice counts twice."""
    found: dict[Node, int] = {}
    for node in order:
        for source in node.sources:
            found[source] = found.get(source, 0) + 1
    return found


def _let_go(sources: Sequence[Node], uses: dict[Node, int], keep: set[Node], computed: set[Node]) -> None:
    """Free the sources of a computed node for which it was the last reader."""
    for source in sources:
        uses[source] -= 1
        if not uses[source] and source in computed and source not in keep:
            source.buffer = None


def _apply(
    node: Node,
    arrays: list[Any],
    uses: dict[Node, int],
    keep: set[Node],
    computed: set[Node],
    readers: dict[Node, int],
) -> Any:
    op = node.op
    if op.overwrites and node.size >= _REUSE_FROM:
        held = [node.sources[0]]
        if uses[held[0]] == 1 and not mode().checks_nans and _is_ours(arrays, 0, node):
            if held[0] in computed:
                is_last = held[0] not in keep
            else:
                is_last = not node.tracked and _has_no_other_reader(held, readers)
            if is_last:
                return _overwrite(node, arrays)
    if type(op.numpy) is np.ufunc and node.size >= _REUSE_FROM and node.dtype not in HALF and not mode().checks_nans:
        for i, source in enumerate(node.sources):
            if uses[source] == 1 and source in computed and source not in keep and _is_ours(arrays, i, node):
                return apply(node, arrays, arrays[i])
    return apply(node, arrays)


def _overwrite(node: Node, arrays: list[Any]) -> Any:
    """The value of a node that updates elements of its first source, written into the source's memory.

    So a write of one element into a large slot costs one element.
    """
    result = apply(node, arrays, arrays[0])
    node.sources[0].buffer = None
    return result


def _has_no_other_reader(held: list[Node], readers: dict[Node, int]) -> bool:
    """Whether only readers in this flush refer to a node of an earlier one: its slot has moved on."""
    return ownership.others(held) == [readers[held[0]] + 2]  # and the keys of two dictionaries


def _is_ours(arrays: list[Any], i: int, node: Node) -> bool:
    """Whether only the node's buffer and the argument list refer to an array, with no views of it."""
    return _fits(arrays[i], node) and ownership.others(arrays)[i] == 1


def _fits(array: Any, node: Node) -> bool:
    """Whether a node's value can be written into an array."""
    flags = array.flags
    is_owned = flags.owndata or type(array.base) is MappedMemory
    return array.shape == node.shape and array.dtype is node.dtype and is_owned and flags.writeable
