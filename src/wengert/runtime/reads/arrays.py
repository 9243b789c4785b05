"""Outer NumPy arrays: inputs of a program, compared by value, or formatted as text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from wengert.core.dtypes import ALL
from wengert.core.graph import Node
from wengert.ops.core import data
from wengert.runtime.reads.kinds import ATOMS, LARGE, MOST, elements, is_library_class, is_of, namespace_of
from wengert.tensor import Tensor

if TYPE_CHECKING:
    from wengert.runtime.reads.log import ReadLog


def is_view_of_one(log: ReadLog, value: Any) -> bool:
    """Whether an array, or an array or object that it shares memory with, is from outside."""
    while is_of(value, np.ndarray):
        if id(value) in log.outside:
            return True
        value = value.base
    return id(value) in log.outside and not is_library_class(type(value))


def watch_array(log: ReadLog, value: np.ndarray[Any, Any], label: str) -> None:
    """Watch the elements of an array."""
    if value.size > LARGE or value.dtype.hasobject:
        log.refuse(
            f"{label}, an array of {value.size} elements, is read by code that cannot be traced",
            "Make it a tensor, pass it as an argument, or freeze it with wg.static",
        )
    log.guards.watch_value(value, value.tobytes, label)


def part_of_array(log: ReadLog, array: Any, key: Any, part: Any, label: str) -> Any:
    """An item of an outer array: a view, which is also from outside, or a copy, which is compared by value."""
    if not is_view_of_one(log, part):
        log.deep(key)
        if part.size > LARGE or part.dtype.hasobject:
            watch_array(log, array, label)
        log.guards.watch_value(part, lambda: array[key].tobytes(), label)
    return part


def array_input(log: ReadLog, array: Any) -> Node | None:
    """The node that reads the contents of an outer array at every call; None for any other array.

    It belongs to a tensor that shares the array's memory, a slot like the user's own. An array that a program cannot
    read in place is compared by value instead.
    """
    if not isinstance(array, np.ndarray) or not is_view_of_one(log, array):
        return None
    if id(array) in log.outside:
        log.guards.watch_place(array, ".shape", "the shape of an array from outside")
    if not array.flags.c_contiguous or not array.flags.aligned or array.dtype not in ALL:
        watch_array(log, array, log.label(array))
        return None
    key = (array.__array_interface__["data"][0], array.shape, array.dtype)
    slot = log.memory.arrays.get(key)
    if slot is None:
        serial = next(log.serials, None)
        if serial is None:
            watch_array(log, array, log.label(array))
            return None
        slot = log.memory.arrays[key] = Tensor(data(array.view()))
        slot.node.serial = serial
    log.arrays.append(slot)
    return slot.node


def holds_arrays(value: Any) -> bool:
    """Whether a value, or one inside it, is a NumPy array or scalar."""
    todo, seen = [value], set[int]()
    while todo:
        one = todo.pop()
        if is_of(one, np.ndarray, np.generic):
            return True
        if type(one) not in ATOMS and id(one) not in seen and len(seen) < MOST:
            seen.add(id(one))
            todo += [*(elements(one) or ()), *namespace_of(one).values()]
    return False


def watch_text(log: ReadLog, *written: Any) -> None:
    """Watch NumPy's print options if arrays or NumPy numbers are formatted as text."""
    if any(map(holds_arrays, written)):
        log.guards.watch_value(np.printoptions, np.get_printoptions, "NumPy's print options")
