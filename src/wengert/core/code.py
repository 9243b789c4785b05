"""Python's code objects: the user's line that is running, the names a function reads, functions made from text.

A location is the code object and the instruction of the first frame outside Wengert. Taking one costs about a quarter
of a microsecond; turning it into a file, a line and its text happens only when it is shown.

`paths`: in, a code object; out, paths such as (global `config`, attribute `rate`) or (cell `weights`, item 0): where a
value begins and how the code goes on from it. `runtime/static/guards` follows them to the objects they lead to.

`function` makes a Python function from text, for what is done at every call of a compiled function. Reading the
arguments, taking their containers apart, comparing the globals that were read: what there is to do is known when a
function was recorded, and each is a loop over a handful of things. Written out for those things it takes half the time
of the loop (0.3 against 0.7 microseconds for three arguments), of calls that take nine in all. This is the only module
that evaluates text of Wengert's own; the text is made of numbers and names, never of what a user wrote.
"""

from __future__ import annotations

import dis
import linecache
import os
import sys
from collections.abc import Callable, Sequence
from functools import lru_cache
from types import CodeType
from typing import Any, NamedTuple, TypeAlias

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


class Backward(NamedTuple):
    """The location of a gradient's node: the forward op it is the backward of, and where that was recorded."""

    op: str
    forward: Location


Location: TypeAlias = "tuple[CodeType, int] | Backward | None"


def _own_files() -> frozenset[str]:
    """The names of Wengert's source files, as their code objects spell them."""
    return frozenset(os.path.join(folder, name) for folder, _, names in os.walk(PACKAGE) for name in names)


_inside = _own_files()
_frame = sys._getframe


def here() -> Location:
    """The location of the innermost frame outside Wengert."""
    frame = _frame(2)
    code = frame.f_code
    while code.co_filename in _inside:
        if frame.f_back is None:
            return None
        frame = frame.f_back
        code = frame.f_code
    return code, frame.f_lasti


def line_number(location: tuple[CodeType, int]) -> int:
    """The line of an instruction in its code object."""
    code, instruction = location
    for start, stop, line in code.co_lines():
        if start <= instruction < stop and line is not None:
            return line
    return code.co_firstlineno


def describe(location: Location) -> str:
    """`file.py:12`, or `backward of exp at file.py:12`."""
    if location is None:
        return "an unknown line"
    if isinstance(location, Backward):
        return f"backward of {location.op} at {describe(location.forward)}"
    return f"{os.path.basename(location[0].co_filename)}:{line_number(location)}"


def source_line(location: Location) -> str:
    """The text of the user's line, or an empty string where there is no file to read."""
    while isinstance(location, Backward):
        location = location.forward
    if location is None:
        return ""
    return linecache.getline(location[0].co_filename, line_number(location)).strip()


# --- code -----------------------------------------------------------------------------------------------------------


GLOBAL, CELL, LOCAL = "global", "cell", "local"
ATTRIBUTE, ITEM = "attribute", "item"

_STARTS = {
    "LOAD_GLOBAL": GLOBAL,
    "LOAD_NAME": GLOBAL,
    "LOAD_DEREF": CELL,
    "LOAD_CLASSDEREF": CELL,
    "LOAD_FAST": LOCAL,
    "LOAD_FAST_CHECK": LOCAL,
    "LOAD_FAST_BORROW": LOCAL,
    "LOAD_FAST_LOAD_FAST": LOCAL,
    "LOAD_FAST_BORROW_LOAD_FAST_BORROW": LOCAL,
}
_CONSTANTS = frozenset({"LOAD_CONST", "LOAD_SMALL_INT"})
_NOTHING = frozenset({"CACHE", "EXTENDED_ARG", "NOP", "PRECALL", "PUSH_NULL"})


class Path(NamedTuple):
    """Where a value begins (a global, a cell, a local name) and the attributes and constant items taken from it."""

    root: str
    name: str
    steps: tuple[tuple[str, Any], ...]


@lru_cache(maxsize=4096)
def paths(code: CodeType) -> tuple[Path, ...]:
    """The paths that a code object, and the functions defined inside it, read."""
    found: dict[Path, None] = {}
    root: tuple[str, str] | None = None
    steps: list[tuple[str, Any]] = []
    key: tuple[Any] | None = None  # a constant that the next instruction may take as an index
    stored: set[str] = set()
    for instruction in dis.get_instructions(code):
        operation, argument = instruction.opname, instruction.argval
        if operation in _NOTHING:
            continue
        if operation.startswith("STORE_FAST"):
            stored.update(argument if isinstance(argument, tuple) else (argument,))
        if root is not None and key is None and operation in ("LOAD_ATTR", "LOAD_METHOD"):
            steps.append((ATTRIBUTE, argument))
            continue
        if root is not None and key is None and operation in _CONSTANTS:
            key = (argument,)
            continue
        if root is not None and key is not None and _takes_item(instruction):
            steps.append((ITEM, key[0]))
            key = None
            continue
        if root is not None:
            found[Path(*root, tuple(steps))] = None
        root, steps, key = None, [], None
        if operation in _STARTS:
            for name in argument if isinstance(argument, tuple) else (argument,):
                if root is not None:
                    found[Path(*root, ())] = None
                root = (_STARTS[operation], name)
    own = [path for path in found if path.root != LOCAL or path.name not in stored]
    inner = [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    nested = [path for one in inner for path in paths(one) if path.root != LOCAL]
    return tuple(dict.fromkeys([*own, *nested]))


def _takes_item(instruction: dis.Instruction) -> bool:
    return instruction.opname == "BINARY_SUBSCR" or (instruction.opname == "BINARY_OP" and instruction.argrepr == "[]")


# --- generated ------------------------------------------------------------------------------------------------------


def function(parameters: Sequence[str], expression: str, names: dict[str, Any]) -> Callable[..., Any]:
    """The function of these parameters that gives the expression, in which `names` stand for objects.

    >>> function(["x"], "x + more", {"more": 2})(1)
    3
    """
    made: Callable[..., Any] = eval(f"lambda {', '.join(parameters)}: {expression}", names)
    return made
