"""Lessons: the pages in docs/lessons are their source, and each has a notebook and drawings that are generated from it.

In: a page. Out: its notebook, whose cells are the page's text, its Python, and what the page shows and draws.

A page shows text by `<!-- show: expression -->` and a fenced block, which docs/regenerate.py fills, and draws a picture
by `<!-- draw: expression -->` and a line that includes the file that the picture is written to. The notebook prints the
first and displays the second.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
LESSONS = DOCS / "lessons"
NOTEBOOKS = DOCS.parent / "examples" / "notebooks" / "lessons"
DRAWN = re.compile(r'^<!-- draw: (?P<what>.+?) -->\n(?:--8<-- "(?P<file>.+?)"\n)?', re.S | re.M)
_CELLS = re.compile(
    r"^```python\n(?P<code>.*?)^```\n"
    r"|^<!-- show: (?P<shown>.+?) -->\n```\w+\n.*?^```\n"
    r'|^<!-- draw: (?P<drawn>.+?) -->\n(?:--8<-- ".+?"\n)?',
    re.S | re.M,
)


def pages() -> list[Path]:
    """The lessons in their order, which the list on the index page gives."""
    names = re.findall(r"^\d+\. \[.+?\]\((.+?\.md)\)", (LESSONS / "index.md").read_text(), re.M)
    return [LESSONS / name for name in names]


def notebook_path(page: Path) -> Path:
    """Where the notebook of a lesson lies: numbered as the lessons are."""
    return NOTEBOOKS / f"{pages().index(page) + 1:02}-{page.stem}.ipynb"


def notebook(page: Path) -> str:
    """The notebook of a lesson, as JSON."""
    text = page.read_text()
    cells, end = [], 0
    for match in _CELLS.finditer(text):
        cells += _markdown(text[end : match.start()])
        end = match.end()
        if match["code"] is not None:
            cells.append(_code(match["code"]))
        else:
            cells.append(_code(f"print({match['shown']})" if match["shown"] else match["drawn"]))
    cells += _markdown(text[end:])
    for i, cell in enumerate(cells):
        cell["id"] = f"{page.stem}-{i}"
    metadata = {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    found = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(found, indent=1, ensure_ascii=False) + "\n"


def _code(text: str) -> dict[str, Any]:
    source = _lines(text)
    return {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": source}


def _markdown(text: str) -> list[dict[str, Any]]:
    """A cell of text, or none where there is none, with links from where the notebook lies."""
    if not text.strip():
        return []
    text = re.sub(r"\]\(\.\./([\w/.#-]+)\)", r"](../../../docs/\1)", text)
    text = re.sub(r"\]\(([\w-]+\.md(?:#[\w-]+)?)\)", r"](../../../docs/lessons/\1)", text)
    return [{"cell_type": "markdown", "metadata": {}, "source": _lines(text)}]


def _lines(text: str) -> list[str]:
    return text.strip("\n").splitlines(keepends=True)
