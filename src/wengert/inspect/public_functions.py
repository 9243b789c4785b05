"""Finds the public function that recorded a node: the outermost one called by the user's code or by a layer's forward.

In: the stack while a node is created. Out: the frame of the call and the function's public name. Functions that a
decorator creates share one code object, so a function is identified by its code and the values of its free variables.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

import wengert as wg
from wengert.core import code
from wengert.nn.module import Module
from wengert.optim.optimizer import Optimizer

_FAMILIES = tuple(
    f"wengert.{name}"
    for name in ("linalg", "fft", "special", "random", "windows", "nn", "nn.utils", "optim", "ode", "solvers")
)
_TORCH = tuple(f"wengert.torch{name}" for name in ("", ".linalg", ".fft", ".special"))  # where they are imported
_NO_MATHEMATICS = frozenset({"backward", "assign", "item", "numpy", "tolist", "compile", "grad", "vjp", "jvp", "vmap"})
"""Names of what runs, reads or transforms a computation: what is recorded below them is not a step of theirs."""
_OPERATORS = {
    "sub": "subtract", "mul": "multiply", "truediv": "divide", "floordiv": "floor_divide", "mod": "remainder",
    "neg": "negative", "pos": "positive", "getitem": "index", "setitem": "assign", "eq": "equal", "ne": "not_equal",
    "lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal",
}  # fmt: skip
_PASSES = tuple(os.path.join(code.PACKAGE, name) + os.sep for name in ("compiler", "plan"))
_COMPILER = frozenset(name for name in code._inside if name.startswith(_PASSES))
_FORWARD = frozenset({Module.__call__.__code__, Module._call_with_hooks.__code__})  # they call a module's forward
STEP = Optimizer._apply.__code__  # an optimizer's step is named after its class

_Key = tuple[int, ...]  # what the free variables of a function are, by identity


class PublicFunctions:
    """The public functions by their code."""

    def __init__(self) -> None:
        self._names: dict[CodeType, dict[_Key, str]] = {}
        self._modules = 0
        self._collect()

    def frames(self, frame: FrameType | None) -> list[FrameType]:
        """The frames that may be calls of public functions, outermost first, up to the user's code or a layer's
        forward. Empty while a compiler pass runs.
        """
        found = []
        while frame is not None:
            own = frame.f_code
            if own in _FORWARD or own.co_filename not in code._inside:
                break
            if own.co_filename in _COMPILER:
                return []
            if own in self._names or own is STEP:
                found.append(frame)
            frame = frame.f_back
        return found[::-1]

    def name_of(self, frame: FrameType) -> str | None:
        """The public name of a frame's function; None if it has none."""
        if frame.f_code is STEP:
            return f"{type(frame.f_locals['self']).__name__} step"
        return self._names[frame.f_code].get(_free_variables(frame))

    def refresh(self) -> None:
        """Collect the functions again if modules have been imported since."""
        if len(sys.modules) != self._modules:
            self._collect()

    def _collect(self) -> None:
        self._modules = len(sys.modules)
        for name, function in _functions():
            plain = _plain(name)
            if plain not in _NO_MATHEMATICS:
                self._names.setdefault(function.__code__, {}).setdefault(_cells(function), plain)


def textbook_name(function: str) -> str:
    """The name of a function as it is written in prose.

    >>> textbook_name("cross_entropy"), textbook_name("max_pool2d")
    ('cross entropy', 'max pool2d')
    """
    return function.replace("_", " ")


def _plain(name: str) -> str:
    """The name of a function or an operator in words.

    >>> _plain("relu_"), _plain("__mul__"), _plain("__rtruediv__")
    ('relu', 'multiply', 'divide')
    """
    plain = name.strip("_")
    if not name.startswith("__"):
        return plain
    if plain[0] in "ri" and (plain[1:] in _OPERATORS or plain[1:] in ("add", "pow", "matmul")):
        plain = plain[1:]
    return _OPERATORS.get(plain, plain)


def _functions() -> Iterator[tuple[str, FunctionType]]:
    """All public functions and methods of tensors, by name; an operator by the name of its method."""
    spaces: list[Mapping[str, Any]] = [vars(wg)]
    spaces += [vars(sys.modules[name]) for name in _FAMILIES if name in sys.modules]
    spaces += [vars(module) for name, module in list(sys.modules.items()) if _is_torch(name, module)]
    classes = [wg.Tensor, *(cls for space in spaces for cls in space.values() if _is_tensor(cls))]
    spaces += [vars(each) for each in dict.fromkeys(classes)]
    for space in spaces:
        for name, value in list(space.items()):
            if isinstance(value, FunctionType) and not (name.startswith("_") and not name.startswith("__")):
                yield name, value


def _is_torch(name: str, module: Any) -> bool:
    return isinstance(module, ModuleType) and (name in _TORCH or name.startswith("wengert.torch.nn.functional"))


def _is_tensor(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, wg.Tensor)


def _cells(function: FunctionType) -> _Key:
    return tuple([id(_content(cell)) for cell in function.__closure__ or ()])


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not set yet
        return None


def _free_variables(frame: FrameType) -> _Key:
    free = frame.f_code.co_freevars
    if not free:
        return ()
    values = frame.f_locals
    return tuple([id(values.get(name)) for name in free])
