"""Cuts gaps into a package, so that an exercise and its solution cannot drift apart.

A gap keeps its function's signature and docstring, and says TODO.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path


def package_with_gaps(package: Path, gaps: Mapping[str, tuple[str, ...]]) -> dict[str, str]:
    """The Python files of a package by their paths from its parent, with the bodies of the named functions cut out."""
    found = {}
    for source in sorted(package.rglob("*.py")):
        name = source.relative_to(package).as_posix()
        found[f"{package.name}/{name}"] = with_gaps(source.read_text(encoding="utf-8"), gaps.get(name, ()))
    return found


def with_gaps(text: str, names: tuple[str, ...]) -> str:
    """A module's text, with the bodies of some functions cut out."""
    lines = text.splitlines()
    found = functions_in(ast.parse(text))
    for name in sorted(names, key=lambda name: -found[name].lineno):  # from below, so that line numbers stay right
        first, last = found[name].body[1], found[name].body[-1]  # after the docstring
        gap = f'{" " * first.col_offset}raise NotImplementedError("TODO: {name}")'
        lines[first.lineno - 1 : last.end_lineno] = [gap]
    return "\n".join(lines) + "\n"


def functions_in(module: ast.Module) -> dict[str, ast.FunctionDef]:
    """The functions of a module and the methods of its classes, by name."""
    found = {}
    for node in module.body:
        if isinstance(node, ast.FunctionDef):
            found[node.name] = node
        elif isinstance(node, ast.ClassDef):
            found.update({f"{node.name}.{part.name}": part for part in node.body if isinstance(part, ast.FunctionDef)})
    return found
