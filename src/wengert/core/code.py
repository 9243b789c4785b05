"""Python's code objects: the user's line that is running, whose code it is, and functions made from text.

A location is the code object and the instruction of the first frame outside Wengert. Taking one costs about a quarter
of a microsecond; turning it into a file, a line and its text happens only when it is shown.

`function` makes a Python function from text, for what is done at every call of a compiled function. Reading the
arguments, taking their containers apart, comparing the globals that were read: what there is to do is known when a
function was recorded, and each is a loop over a handful of things. Written out for those things it takes half the time
of the loop (0.3 against 0.7 microseconds for three arguments), of calls that take nine in all. This is the only module
that evaluates text of Wengert's own; the text is made of numbers and names, never of what a user wrote.
"""

from __future__ import annotations

import linecache
import os
import sys
import sysconfig
from collections.abc import Callable, Sequence
from types import CodeType, FrameType
from typing import Any, NamedTuple, TypeAlias

import numpy as np

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


class Backward(NamedTuple):
    """The location of a gradient's node: the forward op it is the backward of, and where that was recorded.

    Of the node itself there is its serial number: a pipeline computes a gradient where its forward node is computed.
    """

    op: str
    forward: Location
    serial: int = 0


Location: TypeAlias = "tuple[CodeType, int] | Backward | None"


def _own_files() -> frozenset[str]:
    """The names of Wengert's source files, as their code objects spell them."""
    return frozenset(os.path.join(folder, name) for folder, _, names in os.walk(PACKAGE) for name in names)


_GENERATED = os.path.join(PACKAGE, "generated")  # the file that functions made from text say they are in
_inside = _own_files() | {_GENERATED}
_frame = sys._getframe
_NUMPY = os.path.dirname(np.__file__) + os.sep


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


def asked_from() -> Location:
    """As `here`, for errors: NumPy's own frames, through which a user's line asked, are left out as well."""
    frame: FrameType | None = _frame(2)
    while frame is not None:
        name = frame.f_code.co_filename
        if name not in _inside and not name.startswith(_NUMPY):
            return frame.f_code, frame.f_lasti
        frame = frame.f_back
    return None


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


LIBRARIES = tuple({PACKAGE, *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))})


def is_library(code: CodeType) -> bool:
    """Whether code belongs to Python, to an installed package or to Wengert."""
    return code.co_filename.startswith(LIBRARIES) or code.co_filename.startswith("<frozen")


# --- generated ------------------------------------------------------------------------------------------------------


def function(parameters: Sequence[str], expression: str, names: dict[str, Any]) -> Callable[..., Any]:
    """The function of these parameters that gives the expression, in which `names` stand for objects.

    >>> function(["x"], "x + more", {"more": 2})(1)
    3
    """
    text = f"lambda {', '.join(parameters)}: {expression}"
    made: Callable[..., Any] = eval(compile(text, _GENERATED, "eval"), names)
    return made
