"""`wengert torch --check script.py`: the names of PyTorch's that a script uses and that are missing here.

Nothing is run. A script is read as a syntax tree: what its imports bind is followed through attributes, so `F.relu`
after `import torch.nn.functional as F` is `torch.nn.functional.relu`.
"""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from wengert.torch.running import _ROOTS


class Use(NamedTuple):
    """A name that is missing, and the first line that uses it."""

    name: str
    file: str
    line: int


def missing(paths: list[str]) -> list[Use]:
    """The names that scripts use and that are missing, in order of first use."""
    found: dict[str, Use] = {}
    for path in paths:
        tree = ast.parse(Path(path).read_text(encoding="utf-8"), path)
        uses = _used(tree)
        provided_for = _provided_for(tree, uses)
        for name, node in uses:
            if name not in found and node not in provided_for and not _is_there(name):
                found[name] = Use(name, path, node.lineno)
    return list(found.values())


def text(paths: list[str]) -> str:
    """The missing names, one per line."""
    uses = missing(paths)
    if not uses:
        return "all of the PyTorch names that are used exist in wengert.torch"
    width = max(len(use.name) for use in uses)
    return "\n".join(f"{use.name:<{width}}  {use.file}:{use.line}" for use in uses)


def _used(tree: ast.AST) -> list[tuple[str, Any]]:
    """The full names of PyTorch's that a program uses, with their nodes."""
    bound: dict[str, str] = {}
    used: list[tuple[str, Any]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.partition(".")[0] in _ROOTS:
                    used.append((alias.name, node))
                    bound[alias.asname or alias.name.partition(".")[0]] = (
                        alias.name if alias.asname else alias.name.partition(".")[0]
                    )
        elif isinstance(node, ast.ImportFrom) and _is_theirs(node):
            for alias in node.names:
                name = f"{node.module}" if alias.name == "*" else f"{node.module}.{alias.name}"
                used.append((name, node))
                bound[alias.asname or alias.name] = name
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            dotted = _dotted(node, bound)
            if dotted is not None:
                used.append((dotted, node))
    return sorted(used, key=lambda use: (use[1].lineno, use[0]))


def _provided_for(tree: ast.AST, uses: list[tuple[str, Any]]) -> set[ast.AST]:
    """What a program does without: a `try` whose handler is for that, or the handler where nothing is missing."""
    without: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Try) and any(_takes_missing_names(handler) for handler in node.handlers):
            body = {part for statement in node.body for part in ast.walk(statement)}
            is_missing = any(use in body and use not in without and not _is_there(name) for name, use in uses)
            handlers = {part for handler in node.handlers for part in ast.walk(handler)}
            without |= body if is_missing else handlers
    return without


def _takes_missing_names(handler: ast.ExceptHandler) -> bool:
    kinds = {"ImportError", "ModuleNotFoundError", "AttributeError", "Exception"}
    return handler.type is None or any(isinstance(n, ast.Name) and n.id in kinds for n in ast.walk(handler.type))


def _is_theirs(node: ast.ImportFrom) -> bool:
    return not node.level and (node.module or "").partition(".")[0] in _ROOTS


def _dotted(node: ast.AST, bound: dict[str, str]) -> str | None:
    if isinstance(node, ast.Name):
        return bound.get(node.id)
    if isinstance(node, ast.Attribute):
        before = _dotted(node.value, bound)
        return None if before is None else f"{before}.{node.attr}"
    return None


def _is_there(name: str) -> bool:
    """Whether a name is found, as far as it leads through modules and classes."""
    root, *rest = name.split(".")
    found: Any = import_module(_ROOTS[root])
    for i, part in enumerate(rest):
        found = _part(found, part, f"{_ROOTS[root]}.{'.'.join(rest[: i + 1])}")
        if found is None:
            return False
        if not isinstance(found, (type, ModuleType)):
            return True  # an object: what it has is not known without running
    return True


def _part(found: Any, part: str, module: str) -> Any:
    """What a module or a class has under a name, which may be a module of that full name; None if nothing."""
    missing = object()
    try:
        value = getattr(found, part, missing)
    except ImportError:
        value = missing
    if value is missing:
        try:
            return import_module(module)
        except ImportError:
            return None
    return _NOTHING if value is None else value


_NOTHING = object()
"""Stands for a name whose value is None, such as `torch.newaxis`."""
