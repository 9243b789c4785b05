"""Attributes with unusual lookup: behind `super()`, or made by C code."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib.util import resolve_name
from types import BuiltinFunctionType, MappingProxyType, MethodType, MethodWrapperType
from typing import TYPE_CHECKING, Any

import numpy as np

from wengert.runtime.reads import kinds
from wengert.runtime.reads.kinds import ATOMS, is_of

if TYPE_CHECKING:
    from wengert.runtime.reads.log import ReadLog

_BOUND = (MethodType, BuiltinFunctionType, MethodWrapperType)


def of_super(log: ReadLog, value: Any, name: str) -> Any:
    """`super().name`: the attribute of the classes after the current one, watched."""
    classes = value.__self_class__.__mro__
    found = kinds.in_class(log, value.__self_class__, name, classes[classes.index(value.__thisclass__) + 1 :])
    result = getattr(value, name)
    return log.mark(result, f"super().{name}") if result is found else result


def from_c(log: ReadLog, value: Any, name: str, result: Any, label: str) -> Any:
    """Such an attribute, watched: by itself, or by the object's contents if every access creates a new value."""
    if isinstance(result, _BOUND) or is_of(result, np.ndarray):  # a view is from outside if its base is
        return result
    if is_of(value, np.ndarray) and name == "flags":  # which are copied into what is given
        log.guards.watch_value((value, name), lambda: value.flags.num, label)
        return result
    is_plain = type(result) in ATOMS or is_of(result, tuple, np.generic)
    if is_plain or getattr(value, name) is result:
        log.guards.watch_place(value, f".{name}", label)
    elif is_of(value, np.ndarray) and not isinstance(result, (np.flatiter, memoryview)):
        return result
    elif is_of(result, dict, list, set):
        log.guards.watch_value((value, name), lambda: repr(getattr(value, name)), label)
    elif not isinstance(result, MappingProxyType):
        log.deep(value)
    return log.mark(result, label)


def imported(log: ReadLog, module: str, level: int, names: Sequence[str], variables: Mapping[str, Any]) -> None:
    """Watch a module that was imported inside a function, and the names imported from it."""
    full = resolve_name("." * level + module, variables.get("__package__") or "") if level else module
    log.guards.watch_key(sys.modules, full, f"the module {full}")
    for name in names:
        if name != "*" and hasattr(sys.modules.get(full), name):
            log.attribute(sys.modules[full], name)
