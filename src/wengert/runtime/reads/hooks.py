"""Hooks: what a twin calls where its function reads, stores or calls something."""

from __future__ import annotations

import builtins
import operator
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from wengert.runtime.reads import contents
from wengert.runtime.reads.calls import call
from wengert.runtime.reads.contents import ATOMS
from wengert.runtime.reads.log import INSTEAD, ReadLog, current
from wengert.runtime.reads.twin import use
from wengert.tensor import Tensor


def _attribute(value: Any, name: str) -> Any:
    log = current.log
    return getattr(value, name) if log is None else log.attribute(value, name)


def _item(value: Any, key: Any) -> Any:
    log = current.log
    return value[key] if log is None or issubclass(type(value), Tensor) else log.item(value, key)


def _used(value: Any) -> Any:
    log = current.log
    if (
        log is not None
        and not issubclass(type(value), Tensor)
        and type(value) not in ATOMS
        and not isinstance(value, np.ndarray)
    ):
        log.used(value)
    return value


def _binary(name: str, left: Any, right: Any) -> Any:
    """An operator with two operands; arrays beside a tensor are inputs, others count by what they hold."""
    log = current.log
    if log is not None and not isinstance(left, Tensor) and not isinstance(right, Tensor):
        log.operands(left, right)
    return _OPERATORS[name](left, right)


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "Add": operator.add,
    "Sub": operator.sub,
    "Mult": operator.mul,
    "Div": operator.truediv,
    "FloorDiv": operator.floordiv,
    "Mod": operator.mod,
    "Pow": operator.pow,
    "LShift": operator.lshift,
    "RShift": operator.rshift,
    "BitOr": operator.or_,
    "BitXor": operator.xor,
    "BitAnd": operator.and_,
    "MatMult": operator.matmul,
    "Eq": operator.eq,
    "NotEq": operator.ne,
    "Lt": operator.lt,
    "LtE": operator.le,
    "Gt": operator.gt,
    "GtE": operator.ge,
}


def _shown(value: Any) -> Any:
    log = current.log
    if log is not None and log.is_outside(value):
        log.deep(value)
    return value


def _iterated(value: Any) -> Any:
    log = current.log
    if log is not None and not issubclass(type(value), Tensor):
        log.iterated(value)
    return value


def _contains(element: Any, container: Any) -> bool:
    log = current.log
    return element in container if log is None else log.contains(element, container)


def _writable(value: Any, place: str) -> Any:
    log = current.log
    if log is not None:
        log.writable(value, place)
    return value


def _updated(value: Any, name: str) -> Any:
    """What has an attribute that is updated in place; a tensor is, and stays the object that it is."""
    log = current.log
    if log is not None and log.is_outside(value) and isinstance(log.attribute(value, name), Tensor):
        return _Holder(value, name)
    return value


class _Holder:
    """Stands for an object whose tensor is updated: the tensor is read, and put back as it is."""

    def __init__(self, value: Any, name: str) -> None:
        object.__setattr__(self, name, getattr(value, name))


def _grown(value: Any, name: str) -> None:
    log = current.log
    if log is not None and log.is_outside(value) and type(value) in contents.GROWING:
        log.writable(value, " (by += or the like)")


def _global_store(name: str) -> None:
    log = current.log
    if log is not None:
        log.refuse(f"the global {name} is set, which is outside of the function", INSTEAD)


def _nonlocal_store(name: str) -> None:
    log = current.log
    if log is not None and log.is_own_variable(sys._getframe(1).f_code, name):
        log.refuse(f"the closure variable {name} is set, which is outside of the function", INSTEAD)


def _marked(value: Any) -> Any:
    log = current.log
    return value if log is None else log.mark(value, "globals()")


def _evaluates(function: Any) -> Any:
    log = current.log
    if log is not None and function in (builtins.eval, builtins.exec):
        log.refuse(f"{function.__name__} runs code that cannot be followed", "Write the code as a function")
    return function


def _static(function: Any, value: Callable[[], Any]) -> Any:
    log = current.log
    if log is None or function is not static:
        return call(function, value())
    return log_static(log, value)


def log_static(log: ReadLog, value: Callable[[], Any]) -> Any:
    """What `wg.static` gives while recording: the value that it had at the first recording, not watched."""
    frame = sys._getframe(2)
    place = (id(frame.f_code), frame.f_lasti)
    visit = log._visits[place] = log._visits.get(place, 0) + 1
    if (place, visit) not in log.memory.statics:
        current.log = None
        try:
            log.memory.statics[place, visit] = contents.copied(value())
        finally:
            current.log = log
    found = log.memory.statics[place, visit]
    log._frozen[id(found)] = found
    return found


def static(value: Any) -> Any:
    """A value that a compiled function takes as it is when it is first recorded, and does not watch.

    >>> import wengert as wg
    >>> config = {"scale": 2.0}
    >>> double = wg.compile(lambda x: x * wg.static(config["scale"]))
    >>> double(wg.tensor([1.0])).tolist()
    [2.0]
    >>> config["scale"] = 3.0
    >>> double(wg.tensor([1.0])).tolist()
    [2.0]
    """
    return value


HOOKS: dict[str, Callable[..., Any]] = {
    "attribute": _attribute,
    "item": _item,
    "used": _used,
    "shown": _shown,
    "binary": _binary,
    "matched": _shown,
    "iterated": _iterated,
    "contains": _contains,
    "writable": _writable,
    "updated": _updated,
    "grown": _grown,
    "global_store": _global_store,
    "nonlocal_store": _nonlocal_store,
    "marked": _marked,
    "evaluates": _evaluates,
    "static": _static,
    "call": call,
    "slice": slice,
}
use(HOOKS)
