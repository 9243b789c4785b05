"""The source of a code object: its function in the syntax tree of its file, and code compiled from that again.

The function is found by name, line and columns, so that two lambdas on one line are told apart. A source that no longer
fits the code (a file edited since it was imported) counts as none.
"""

from __future__ import annotations

import ast
import linecache
import warnings
from types import CodeType
from typing import Any

Functions = dict[tuple[str, int], list[tuple[Any, str]]]
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_OUTER = "<wengert>"  # the function around the one that is compiled again
_FLAGS = 0x1FF0000  # the __future__ imports among a code object's flags
_SHAPE = 0x2AC  # among the flags: stars among the parameters, generators, coroutines


_parsed: dict[str, tuple[list[str], Functions]] = {}  # by file: its lines, and the functions among them


def functions_in(file: str) -> Functions:
    """The functions of a file by name and first line, with the class each is defined in."""
    lines = linecache.getlines(file)
    known = _parsed.get(file)
    if known is not None and known[0] is lines:
        return known[1]
    found: Functions = {}

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


def forget() -> None:
    """Let go of all syntax trees: they are large, and twins are kept."""
    _parsed.clear()


def find(code: CodeType) -> tuple[Any, str] | None:
    """The function that a code object was compiled from, and its class."""
    inside = [p for p in code.co_positions() if None not in p and (p[0], p[2]) != (p[1], p[3])]
    best = None
    for node, class_name in functions_in(code.co_filename).get((code.co_name, code.co_firstlineno), []):
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
    """A copy of a function without decorators, defaults' values and annotations, which its code does not hold."""
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
    """A module that defines the function where its free variables and its class are, for names that need them."""
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
        warnings.simplefilter("ignore")  # the constants in the place of hooks are called, which looks like a mistake
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
