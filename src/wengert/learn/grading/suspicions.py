"""Reads what a submission imports and changes, without running it.

`problems` lists imports that the exercise does not allow, ways around the list (`__import__`, `exec`), and functions of
other modules that are replaced (`np.allclose = ...`), with their lines. It is the first of two layers, for people to
look at; the second is that the submission's process finds nothing else on its disk, and cannot reach the judge.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping

WAYS_AROUND = ("__import__", "__builtins__", "exec", "eval", "compile", "globals", "__subclasses__", "_getframe")


def problems(files: Mapping[str, str], allowed: Iterable[str], own: Iterable[str]) -> list[str]:
    """The lines of Python files that import what is not allowed; `own` are the submission's modules themselves."""
    permitted = {*allowed, *own, "__future__"}
    found = []
    for name, text in sorted(files.items()):
        if not name.endswith(".py"):
            continue
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            line = getattr(error, "lineno", None) or 0
            found.append(f"{name}, line {line}: not Python: {getattr(error, 'msg', None) or error}")
            continue
        found += [f"{name}, line {line}: {what}" for line, what in _in_tree(tree, permitted)]
    return found


def _in_tree(tree: ast.AST, permitted: set[str]) -> Iterator[tuple[int, str]]:
    modules = {
        (alias.asname or alias.name).partition(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            if isinstance(node.value, ast.Name) and node.value.id in modules:
                yield node.lineno, f"`{ast.unparse(node)}` is replaced"
            continue
        if isinstance(node, ast.Import):
            for alias in node.names:
                if not _is_permitted(alias.name, permitted):
                    yield node.lineno, f"`import {alias.name}` is not allowed"
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            if not _is_permitted(node.module or "", permitted):
                yield node.lineno, f"`from {node.module} import ...` is not allowed"
        elif isinstance(node, (ast.Name, ast.Attribute)):
            name = node.id if isinstance(node, ast.Name) else node.attr
            if name in WAYS_AROUND:
                yield node.lineno, f"`{name}` is not needed here"


def _is_permitted(name: str, permitted: set[str]) -> bool:
    return any(name == each or name.startswith(each + ".") for each in permitted)
