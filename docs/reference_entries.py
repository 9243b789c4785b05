"""The entries of the reference pages: a marker in a page becomes a heading and a docstring for each public name.

    <!-- names of wg.nn: Conv1d Conv2d Conv3d -->     these names of a module
    <!-- names of wg.errors -->                       all of its public names

Comes in: the text of a page. Goes out: the same text with entries. Classes and functions that stand in a file as they
are called go to mkdocstrings, which shows their members; functions that exist only once they are imported are written
here, from their signature and docstring. `hooks.py` calls this when the site is built.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from public_names import names_of, object_at

MARKER = re.compile(r"<!-- names of (?P<module>wg[\w.]*)(?:: *(?P<names>[^>]*?))? *-->", re.S)
_OPTIONS = (
    "    options:\n      show_root_heading: true\n      show_root_toc_entry: true\n      heading_level: {level}\n"
)


def with_entries(markdown: str) -> str:
    """The page with each marker replaced by the entries of its names, a level below the heading before it."""
    parts, end = [], 0
    for match in MARKER.finditer(markdown):
        parts.append(markdown[end : match.start()])
        above = re.findall(r"^(#+) ", markdown[: match.start()], re.M)
        parts.append("\n\n".join(_entry(path, len(above[-1]) + 1) for path in paths_in(match)))
        end = match.end()
    return "".join([*parts, markdown[end:]])


def paths_in(match: re.Match[str]) -> Iterator[str]:
    """The paths of the public names that a marker asks for."""
    module = match["module"]
    names = match["names"].split() if match["names"] else names_of(object_at(module))
    return (path for name in names if not inspect.ismodule(object_at(path := f"{module}.{name}")))


def documented(pages: list[Path]) -> set[str]:
    """The paths of all names that pages have entries for."""
    return {path for page in pages for match in MARKER.finditer(page.read_text()) for path in paths_in(match)}


def _entry(path: str, level: int) -> str:
    value = object_at(path)
    place = _place(value)
    if place is not None:
        return f"::: {place}\n{_OPTIONS.format(level=level)}      heading: {path}\n      toc_label: {path}\n"
    heading = f"{'#' * level} {path} {{ #{path} data-toc-label='{path}' }}"
    if not callable(value) or isinstance(value, type):
        return f"{heading}\n\n```python\n{path}  # {_shown(value)}\n```\n\n{_text(value) if _own_text(value) else ''}"
    return f"{heading}\n\n```python\n{path}{_signature(value)}\n```\n\n{_text(value)}"


def _place(value: Any) -> str | None:
    """Where the definition of a class or a function stands, `package.module.name`, if it stands there as such."""
    module, name = getattr(value, "__module__", None), getattr(value, "__name__", None)
    if not (inspect.isclass(value) or inspect.isfunction(value)) or not (module or "").startswith("wengert"):
        return None
    return f"{module}.{name}" if name in _definitions(module) and not hasattr(value, "__wrapped__") else None


@functools.cache
def _definitions(module: str) -> set[str]:
    source = inspect.getsource(importlib.import_module(module))
    kinds = (ast.FunctionDef, ast.ClassDef)
    return {node.name for node in ast.parse(source).body if isinstance(node, kinds)}


def _signature(function: Any) -> str:
    try:
        text = str(inspect.signature(function))
    except (TypeError, ValueError):
        return "(...)"
    return re.sub(r": '[^']*'| -> .*|: Any|'", "", text)


def _shown(value: Any) -> str:
    text = repr(value)
    return f"{type(value).__module__}.{type(value).__name__}" if len(text) > 60 or " at 0x" in text else text


def _own_text(value: Any) -> bool:
    """Whether a value has a docstring of its own, not that of its class, a NumPy one for instance."""
    return type(value).__module__.startswith("wengert")


def _text(value: Any) -> str:
    text = inspect.getdoc(value) or ""
    return re.sub(r"((?:^>>> .*\n?|^\.\.\. .*\n?|^(?!>>>)\S.*\n?)+)", _fenced, text, flags=re.MULTILINE)


def _fenced(match: re.Match[str]) -> str:
    block = match[1]
    return f"\n```pycon\n{block.rstrip()}\n```\n" if block.startswith(">>>") else block
