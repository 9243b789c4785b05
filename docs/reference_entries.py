"""The entries of the reference pages: a marker in a page becomes a heading, a signature and a docstring for each name.

    <!-- names of wg.nn: Conv1d Conv2d Conv3d -->                    these names of a module
    <!-- names of wg.errors -->                                      all of its public names
    <!-- names of wengert.runtime.memory.fits: Fit -->               what a public function returns
    <!-- links to wg.nn on nn-loss -->                              links to the entries of a page

Comes in: the text of a page. Goes out: the same text with entries, made from the objects themselves, since many
functions exist only once they are imported. `hooks.py` calls this when the site is built.
"""

from __future__ import annotations

import ast
import functools
import importlib
import inspect
import itertools
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from public_names import names_of, object_at

import wengert as wg
from wengert.nn import Module

MARKER = re.compile(r"<!-- names of (?P<module>(?:wg|wengert)[\w.]*)(?:: *(?P<names>[^>]*?))? *-->", re.S)
WIDE = 76  # columns that a signature may take in one line
_HIDDEN = {"reset_parameters"}  # what many layers have, and nobody looks up there


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
    """The paths of the names that a marker asks for."""
    module = match["module"]
    names = match["names"].split() if match["names"] else names_of(_value(module))
    return (path for name in names if not inspect.ismodule(_value(path := f"{module}.{name}")))


LINKS = re.compile(r"<!-- links to (?P<module>wg[\w.]*)(?: on (?P<page>[\w-]+))? -->")


def with_links(markdown: str, pages: list[Path]) -> str:
    """The page with each `<!-- links to wg.nn on nn-loss -->` replaced by links to the entries of a module there."""
    return LINKS.sub(lambda match: _links(match["module"], match["page"], pages), markdown)


def _links(module: str, page: str | None, pages: list[Path]) -> str:
    found = {}
    for each in pages:
        paths = (path for match in MARKER.finditer(each.read_text()) for path in paths_in(match))
        here = page is None or page == each.stem
        found |= {path: f"{each.name}#{path}" for path in paths if here and path.rpartition(".")[0] == module}
    return ", ".join(f"[`{path.rpartition('.')[2]}`]({found[path]})" for path in sorted(found, key=str.lower))


def documented(pages: list[Path]) -> set[str]:
    """The paths of all names that pages have entries for."""
    return {path for page in pages for match in MARKER.finditer(page.read_text()) for path in paths_in(match)}


def _value(path: str) -> Any:
    if path.startswith("wg"):
        return object_at(path)
    try:
        return importlib.import_module(path)
    except ModuleNotFoundError:
        module, _, name = path.rpartition(".")
        return getattr(importlib.import_module(module), name)


# --- an entry ---------------------------------------------------------------------------------------------------------


def _entry(path: str, level: int) -> str:
    value = _value(path)
    shown = path if path.startswith("wg") else path.rpartition(".")[2]
    head = _heading(shown, path, level)
    if inspect.isclass(value) and value.__module__.startswith("wengert"):
        return "\n\n".join(
            [head, _code(shown, value), _text(value), *_attributes(value), *_members(value, path, level)]
        )
    if callable(value) and not inspect.isclass(value):
        return "\n\n".join([head, _code(shown, value), _text(value)])
    own = _text(value) if type(value).__module__.startswith("wengert") else ""
    return f"{head}\n\n```python\n{shown}  # {_repr(value)}\n```\n\n{own}"


def _heading(shown: str, anchor: str, level: int) -> str:
    escaped = shown.replace("_", r"\_")
    heading = f"{'#' * min(level, 6)} {escaped} {{ #{anchor} data-toc-label='{shown}' }}"
    words = re.findall(r"[A-Z]+(?![a-z])\d*d?|[A-Z][a-z]+\d*d?", shown.rpartition(".")[2])
    if len(words) < 2:
        return heading
    return f"{heading}\n\n<span hidden>{' '.join(words)}</span>"  # for the search: "layer norm" finds LayerNorm


def _code(name: str, function: Any) -> str:
    return f"```python\n{_wrapped(name, _signature(function))}\n```"


def _signature(function: Any) -> list[str]:
    """The arguments as they are written, without the types that say nothing."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return ["..."]
    texts, before = [], None
    for each in parameters:
        if before is each.POSITIONAL_ONLY and each.kind is not each.POSITIONAL_ONLY:
            texts.append("/")
        if each.kind is each.KEYWORD_ONLY and before not in (each.KEYWORD_ONLY, each.VAR_POSITIONAL):
            texts.append("*")
        texts.append(_parameter(each))
        before = each.kind
    return [*texts, "/"] if before is inspect.Parameter.POSITIONAL_ONLY else texts


def _parameter(each: inspect.Parameter) -> str:
    stars = {each.VAR_POSITIONAL: "*", each.VAR_KEYWORD: "**"}.get(each.kind, "")
    kind = "" if each.annotation in (each.empty, "Any", Any) else str(each.annotation).replace("Node", "Tensor")
    kind = "" if "<" in kind or len(kind) > 40 or stars else kind
    text = f"{stars}{each.name}" + (f": {kind}" if kind else "")
    if each.default is each.empty:
        return text
    return f"{text} = {_repr(each.default)}" if kind else f"{text}={_repr(each.default)}"


def _wrapped(name: str, arguments: list[str]) -> str:
    line = f"{name}({', '.join(arguments)})"
    if len(line) <= WIDE:
        return line
    lines = ["   "]
    for argument in arguments:
        if len(lines[-1]) + len(argument) + 2 > WIDE:
            lines.append("   ")
        lines[-1] += f" {argument},"
    return "\n".join([f"{name}(", *lines, ")"])


def _repr(value: Any) -> str:
    text = value.name if hasattr(value, "itemsize") and hasattr(value, "name") else repr(value)
    if " at 0x" in text or len(text) > 60:
        return f"{type(value).__module__}.{type(value).__name__}"
    return "..." if text.startswith("<") else text


def _text(value: Any) -> str:
    """The docstring, its examples as code."""
    text = re.sub(r"^Args:\n((?:    .*\n?)+)", _arguments, inspect.getdoc(value) or "", flags=re.MULTILINE)
    return re.sub(r"((?:^>>> .*\n?|^\.\.\. ?.*\n?|^(?!>>>)\S.*\n?)+)", _fenced, text, flags=re.MULTILINE)


def _arguments(match: re.Match[str]) -> str:
    """Google's section of arguments as a list."""
    return re.sub(r"^(\*{0,2}\w+):", r"- `\1`:", textwrap.dedent(match[1]), flags=re.MULTILINE)


def _fenced(match: re.Match[str]) -> str:
    block = match[1]
    if ">>> " not in block:
        return block
    before, _, example = block.partition(">>> ")
    return f"{before}\n```pycon\n>>> {example.rstrip()}\n```\n"


# --- what a class has -------------------------------------------------------------------------------------------------


def _members(kind: type, path: str, level: int) -> list[str]:
    """Its documented methods and properties; those of functions with the same name in one line."""
    entries, same = [], []
    for name, value in _own(kind):
        if getattr(wg, name, None) is value:
            same.append(f"`{name}`")
        elif inspect.getdoc(value):
            shown = f"{kind.__name__}.{name}"
            code = [] if isinstance(value, property) else [_code(f".{name}", _without_self(kind, name))]
            entries.append("\n\n".join([_heading(shown, f"{path}.{name}", level + 1), *code, _text(value)]))
    if same:
        entries.insert(0, f"**The same as the functions of `wg`, with the tensor first:** {', '.join(same)}.")
    return entries


def _own(kind: type) -> Iterator[tuple[str, Any]]:
    """Public names of a class and of its bases that have no page of their own."""
    bases = [base for base in kind.__mro__ if base is kind or _is_part(base, kind)]
    elsewhere = {name for base in kind.__mro__ if base not in bases for name in vars(base)} | _HIDDEN
    names = dict.fromkeys(name for base in bases for name in vars(base) if not name.startswith("_"))
    for name in (name for name in names if name not in elsewhere):
        value = inspect.getattr_static(kind, name)
        value = value.__func__ if isinstance(value, staticmethod | classmethod) else value
        if inspect.isfunction(value) or isinstance(value, property):
            yield name, value


def _is_part(base: type, kind: type) -> bool:
    """Whether a base is a part of a class rather than a class that users know."""
    return base.__module__.startswith("wengert") and (base.__name__.startswith("_") or kind in (Module, wg.Tensor))


def _without_self(kind: type, name: str) -> Any:
    """What is called on an instance: the function without its first argument."""
    held = inspect.getattr_static(kind, name)
    if isinstance(held, staticmethod):
        return held.__func__
    function = held.__func__ if isinstance(held, classmethod) else held

    def bound() -> None: ...

    signature = inspect.signature(function)
    bound.__signature__ = signature.replace(parameters=list(signature.parameters.values())[1:])  # type: ignore[attr-defined]
    return bound


def _attributes(kind: type) -> list[str]:
    """Attributes with a docstring below them, as settings have."""
    return [f"**`{name}`**: {' '.join(text.split())}" for name, text in _attribute_texts(kind)]


@functools.cache
def _attribute_texts(kind: type) -> list[tuple[str, str]]:
    try:
        body = ast.parse(textwrap.dedent(inspect.getsource(kind))).body[0].body  # type: ignore[attr-defined]
    except (OSError, TypeError):
        return []
    found = []
    for statement, after in itertools.pairwise(body):
        is_text = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and is_text:
            found.append((statement.target.id, str(after.value.value)))
    return found
