"""Fills in the pages of lifted functions, whose docstrings exist only once they are imported."""

from __future__ import annotations

import importlib
import inspect
import re


def on_page_markdown(markdown: str, **_: object) -> str:
    """Replace each `<!-- functions of MODULE -->` by its public functions with their signatures and docstrings."""
    return re.sub(r"<!-- functions of (\S+) -->", lambda match: _functions(match[1]), markdown)


def _functions(name: str) -> str:
    module = importlib.import_module(name)
    names = [n for n in getattr(module, "__all__", dir(module)) if not n.startswith("_")]
    return "\n\n".join(_entry(n, getattr(module, n)) for n in sorted(names) if callable(getattr(module, n)))


def _entry(name: str, function: object) -> str:
    signature = re.sub(r": 'Any'|: 'int'| -> '.*'|'", "", str(inspect.signature(function)))  # type: ignore[arg-type]
    text = inspect.getdoc(function) or ""
    text = re.sub(r"((?:^>>> .*\n?|^\.\.\. .*\n?|^(?!>>>)\S.*\n?)+)", _fenced, text, flags=re.MULTILINE)
    return f"### {name}\n\n```python\n{name}{signature}\n```\n\n{text}"


def _fenced(match: re.Match[str]) -> str:
    block = match[1]
    return f"\n```pycon\n{block.rstrip()}\n```\n" if block.startswith(">>>") else block
