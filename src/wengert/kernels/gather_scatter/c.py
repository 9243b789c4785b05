"""Calls of the C kernels for indexed elements.

An op that writes into zeros does not read them: `reads_of` leaves them out and the kernel gets NULL.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from wengert.core.dtypes import complex64, complex128, float32, float64, int32, int64
from wengert.core.graph import Node
from wengert.kernels.c_ops import CCall, Pointer, braces, called
from wengert.kernels.writer import suffix
from wengert.ops.addressing import ADD_ALONG, PUT_ALONG, SCATTER_ADD, TAKE_ALONG
from wengert.ops.core import LITERAL
from wengert.ops.movement import BROADCAST, RESHAPE

ADDED = (float32, float64, int32, int64, complex64, complex128)


def is_zero(x: Node) -> bool:
    """Whether every element is 0."""
    while x.op is BROADCAST or x.op is RESHAPE:
        x = x.sources[0]
    if x.op is not LITERAL:
        return False
    value = x.attrs["value"]
    return value == 0 and not str(value).startswith("-")


def reads_of(rule: Callable[[Node, Pointer], CCall | None]) -> Callable[[Node], Sequence[Node]]:
    """What an op that writes into its first operand reads from memory: not that one, where it is zeros and there is C
    by this rule for its dtypes and shapes (the reference reads the zeros).
    """

    def reads(node: Node) -> Sequence[Node]:
        into_zeros = is_zero(node.sources[0]) and rule(node, lambda _: "") is not None
        return node.sources[1:] if into_zeros else node.sources

    return reads


def _start(x: Node, pointer: Pointer) -> str:
    return "NULL" if is_zero(x) else pointer(x)


def splits(node: Node, indices: int) -> tuple[int, int, int]:
    """(outer, size, inner) of the value addressed: the axes in front, those with an index, those behind."""
    axis, shape = node.attrs["axis"], node.sources[0].shape
    return math.prod(shape[:axis]), math.prod(shape[axis : axis + indices]), math.prod(shape[axis + indices :])


def broadcast_steps(index: Node, places: tuple[int, ...]) -> list[int]:
    """How far apart the elements of an index array lie along each axis of the places."""
    steps, step = [], 1
    for size in reversed(index.shape):
        steps.append(0 if size == 1 else step)
        step *= size
    return [0] * (len(places) - index.ndim) + steps[::-1]


def _places(node: Node, indices: list[Node], places: tuple[int, ...], pointer: Pointer) -> str:
    """The statement that turns index arrays into places, in scratch memory."""
    sizes = node.sources[0].shape[node.attrs["axis"] :]
    structs = [
        f"{{{pointer(index)}, {int(index.dtype == int64)}, {size}, {braces(broadcast_steps(index, places) or [0])}}}"
        for index, size in zip(indices, sizes)
    ]
    shape = braces(places or (1,))
    return (
        f"wg_places((void *)(arena + scratch), {math.prod(places)}, {len(places)}, (const long[]){shape}, "
        f"(const wg_index[]){{{', '.join(structs)}}}, {len(indices)});"
    )


def _fits(node: Node, indices: list[Node], places: tuple[int, ...]) -> bool:
    return all(index.dtype in (int32, int64) for index in indices) and len(places) <= 8


def gather(node: Node, pointer: Pointer) -> CCall | None:
    """Rows named by an index array for each of some axes."""
    x, *indices = node.sources
    axis = node.attrs["axis"]
    outer, size, inner = splits(node, len(indices))
    places = node.shape[axis : node.ndim - (x.ndim - axis - len(indices))]
    if not _fits(node, indices, places):
        return None
    count, bytes_each = math.prod(places), inner * node.dtype.itemsize
    text = _places(node, indices, places, pointer)
    rows = f"{outer}, {size}, {count}, {bytes_each}"
    arguments = f"{pointer(x)}, {pointer(node)}, (void *)(arena + scratch), {rows}"
    return called("gather_rows", "", arguments, 8 * count, before=text)


def scatter(node: Node, pointer: Pointer, fixed: bool = False) -> CCall | None:
    """Rows replaced or added; with `fixed`, in the order of a tree."""
    x, values, *indices = node.sources
    axis = node.attrs["axis"]
    outer, size, inner = splits(node, len(indices))
    places = values.shape[axis : values.ndim - (x.ndim - axis - len(indices))]
    adds = fixed or node.op is SCATTER_ADD
    if not _fits(node, indices, places) or (adds and node.dtype not in ADDED):
        return None
    count = math.prod(places)
    name, kind = ("scatter_add", suffix(node.dtype)) if adds else ("scatter_rows", "")
    width = inner if adds else inner * node.dtype.itemsize
    arguments = f"{_start(x, pointer)}, {pointer(values)}, {pointer(node)}, (void *)(arena + scratch)"
    text = _places(node, indices, places, pointer)
    name, room = (f"tree_{name}", 2 * count + size + 1) if fixed else (name, count)
    return called(name, kind, f"{arguments}, {outer}, {size}, {count}, {width}", 8 * room, before=text)


def along(node: Node, pointer: Pointer) -> CCall | None:
    """Elements along an axis, one index for each."""
    op, axis = node.op, node.attrs["axis"]
    x, index = node.sources[0], node.sources[-1]
    same = (*x.shape[:axis], index.shape[axis], *x.shape[axis + 1 :]) == index.shape
    if not same or not _fits(node, [index], ()) or (op is ADD_ALONG and node.dtype not in ADDED):
        return None
    outer, size, inner = splits(node, 1)
    rows = f"{outer}, {size}, {index.shape[axis]}, {inner}"
    numbers = f"{pointer(index)}, {int(index.dtype == int64)}, {pointer(node)}, {rows}"
    if op is TAKE_ALONG:
        return called("take_along", "", f"{pointer(x)}, {numbers}, {node.dtype.itemsize}")
    start = f"{_start(x, pointer)}, {pointer(node.sources[1])}"
    if op is PUT_ALONG:
        return called("put_along", "", f"{start}, {numbers}, {node.dtype.itemsize}")
    return called("add_along", suffix(node.dtype), f"{start}, {numbers}")
