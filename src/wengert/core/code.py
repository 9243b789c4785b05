"""Python's code objects: the user's current line, the owner of code, its source, and functions made from text.

A location is the code object and the instruction of the first frame outside Wengert. Taking one costs about a quarter
of a microsecond; turning it into a file, a line and its text happens only when it is shown.

The source of a code object is its function in the syntax tree of its file. It is found by name, line and columns, so
that two lambdas on one line are told apart, and code is compiled from it again. A source that no longer matches the
code (a file edited since it was imported) counts as missing.

`function` makes a Python function from text, for the work at every call of a compiled function: reading the arguments,
flattening their containers, comparing the globals that were read. This work is known once a function was recorded, and
consists of loops over a few items. Unrolled code takes half the time of the loop (0.3 against 0.7 microseconds for
three arguments), in calls that take nine in total. This is the only module that evaluates text of Wengert's own; the
text is made of numbers and names, never of what a user wrote.
"""

from __future__ import annotations

import ast
import gc
import linecache
import os
import sys
import sysconfig
import warnings
from collections.abc import Callable, Iterable, Sequence
from types import CodeType, FrameType, FunctionType
from typing import Any, NamedTuple, TypeAlias

import numpy as np

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


class Backward(NamedTuple):
    """The location of a gradient's node: the forward op it belongs to, and the line that recorded it.

    It also has the forward node's serial number: a pipeline computes a gradient on the stage of its forward node.
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
    """Like `here`, for errors: NumPy's own frames between the user's line and Wengert are also skipped."""
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
    """The text of the user's line, or an empty string if its file cannot be read."""
    while isinstance(location, Backward):
        location = location.forward
    if location is None:
        return ""
    return linecache.getline(location[0].co_filename, line_number(location)).strip()


LIBRARIES = tuple({PACKAGE, *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))})


def is_library(code: CodeType) -> bool:
    """Whether code belongs to Python, to an installed package or to Wengert."""
    return code.co_filename.startswith(LIBRARIES) or code.co_filename.startswith("<frozen")


def functions_of(codes: Iterable[CodeType]) -> list[FunctionType]:
    """The functions that some code objects belong to."""
    codes = list(codes)
    holders = gc.get_referrers(*codes) if codes else []
    return [one for one in holders if type(one) is FunctionType and any(one.__code__ is code for code in codes)]


# --- source ---------------------------------------------------------------------------------------------------------

_Functions = dict[tuple[str, int], list[tuple[Any, str]]]
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_OUTER = "<wengert>"  # the function around the one that is compiled again
_FLAGS = 0x1FF0000  # the __future__ imports among a code object's flags
_SHAPE = 0x2AC  # among the flags: stars among the parameters, generators, coroutines
_parsed: dict[str, tuple[list[str], _Functions]] = {}  # by file: its lines, and the functions among them


def _functions_in(file: str) -> _Functions:
    """The functions of a file by name and first line, with the class each is defined in."""
    lines = linecache.getlines(file)
    known = _parsed.get(file)
    if known is not None and known[0] is lines:
        return known[1]
    found: _Functions = {}

    def walk(node: ast.AST, class_name: str) -> None:
        for child in ast.iter_child_nodes(node):
            inner = child.name if isinstance(child, ast.ClassDef) else class_name
            if isinstance(child, FUNCTIONS):
                name = "<lambda>" if isinstance(child, ast.Lambda) else child.name
                first = min([child.lineno, *(d.lineno for d in getattr(child, "decorator_list", ()))])
                found.setdefault((name, first), []).append((child, class_name))
            walk(child, inner)

    walk(ast.parse("".join(lines)), "")
    _parsed[file] = lines, found
    return found


def forget_sources() -> None:
    """Drop all syntax trees: they are large, and twins are kept."""
    _parsed.clear()


def source_of(code: CodeType) -> tuple[Any, str] | None:
    """The function that a code object was compiled from, and its class."""
    inside = [p for p in code.co_positions() if None not in p and (p[0], p[2]) != (p[1], p[3])]
    best = None
    for node, class_name in _functions_in(code.co_filename).get((code.co_name, code.co_firstlineno), []):
        body = node.body if isinstance(node, ast.Lambda) else node
        start, end = (node.lineno, 0), (node.end_lineno, node.end_col_offset)
        if isinstance(node, ast.Lambda):
            start = (body.lineno, body.col_offset)
        positions = [p for p in inside if p[0] >= node.lineno]
        is_inner = best is None or (node.lineno, node.col_offset) >= (best[0].lineno, best[0].col_offset)
        if is_inner and all(start <= (p[0], p[2]) and (p[1], p[3]) <= end for p in positions):
            best = node, class_name
    return best


def bare(node: Any) -> Any:
    """A copy of a function without decorators, default values and annotations, which are not part of its code."""
    args = node.args

    def plain(one: ast.arg) -> ast.arg:
        return ast.copy_location(ast.arg(one.arg), one)

    bare = ast.arguments(
        posonlyargs=[plain(a) for a in args.posonlyargs],
        args=[plain(a) for a in args.args],
        vararg=args.vararg and plain(args.vararg),
        kwonlyargs=[plain(a) for a in args.kwonlyargs],
        kw_defaults=[None for _ in args.kw_defaults],
        kwarg=args.kwarg and plain(args.kwarg),
        defaults=[],
    )
    if isinstance(node, ast.Lambda):
        return ast.copy_location(ast.Lambda(bare, node.body), node)
    extra: dict[str, Any] = {"type_params": []} if hasattr(node, "type_params") else {}
    return ast.copy_location(type(node)(node.name, bare, node.body, [], None, None, **extra), node)


def wrapped(node: Any, code: CodeType, class_name: str) -> ast.Module:
    """A module that defines the function within a scope for its free variables and its class."""
    statement = ast.copy_location(ast.Expr(node), node) if isinstance(node, ast.Lambda) else node
    extra: dict[str, Any] = {"type_params": []} if hasattr(ast, "TypeVar") else {}
    if class_name:
        statement = ast.ClassDef(class_name, [], [], [statement], [], **extra)
    free = [name for name in code.co_freevars if name != "__class__" or not class_name]
    parameters = ast.arguments([], [ast.arg(name) for name in free], None, [], [], None, [])
    names = {getattr(statement, "name", ""), getattr(node, "name", "") if not class_name else ""} - {"", *free}
    body = [ast.Global(sorted(names)), statement] if names else [statement]  # what the wrapper defines is no local
    outer = ast.FunctionDef(_OUTER, parameters, body, [], None, None, **extra)
    return ast.fix_missing_locations(ast.Module([outer], []))


def compiled(module: ast.Module, code: CodeType) -> CodeType | None:
    """The code of the function in a module."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the constants in place of hooks are called, which looks like a mistake
        whole = compile(module, code.co_filename, "exec", code.co_flags & _FLAGS, dont_inherit=True)
    todo: list[CodeType] = [whole]
    for one in todo:  # which grows
        if one.co_name == code.co_name and one.co_varnames[: code.co_argcount] == code.co_varnames[: code.co_argcount]:
            return one
        todo += [constant for constant in one.co_consts if isinstance(constant, CodeType)]
    return None


def fits(plain: CodeType, code: CodeType) -> bool:
    """Whether a code object may have been compiled from this source; a test's assertions are rewritten, others not."""
    same = plain.co_freevars == code.co_freevars and plain.co_flags & _SHAPE == code.co_flags & _SHAPE
    return same and set(plain.co_names) <= set(code.co_names) and _constants(plain) <= _constants(code)


def _constants(code: CodeType) -> set[Any]:
    kinds = (int, float, complex, str, bytes)
    return {(type(c), c) for c in code.co_consts if isinstance(c, kinds)} - {(str, code.co_consts[0])}


# --- generated ------------------------------------------------------------------------------------------------------


def function(parameters: Sequence[str], expression: str, names: dict[str, Any]) -> Callable[..., Any]:
    """A function with these parameters that returns the expression, in which `names` refer to objects.

    >>> function(["x"], "x + more", {"more": 2})(1)
    3
    """
    text = f"lambda {', '.join(parameters)}: {expression}"
    made: Callable[..., Any] = eval(compile(text, _GENERATED, "eval"), names)
    return made
