"""Sections of a lesson: words, tables and plots, shown in the terminal or on a page."""

from __future__ import annotations

import html
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from wengert.learn.derivatives.plot import Plot, as_svg, as_text

WIDTH = 78


@dataclass
class Table:
    """Columns by name, and rows of words."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


class Drawing(Protocol):
    """What knows how to show itself."""

    def to_text(self) -> str:
        """In characters, for the terminal."""
        ...

    def to_html(self) -> str:
        """For a page."""
        ...


@dataclass
class Section:
    """A title, paragraphs before and after, and what is shown between them."""

    title: str
    before: str
    shown: Sequence[Table | Plot | Drawing] = ()
    after: str = ""


def to_text(section: Section) -> str:
    """A section for the terminal."""
    shown = [_shown_text(part) for part in section.shown]
    parts = [section.title, *_paragraphs(section.before), *shown, *_paragraphs(section.after)]
    return "\n\n".join([f"{parts[0]}\n{'-' * len(parts[0])}", *parts[1:]])


def _shown_text(part: Table | Plot | Drawing) -> str:
    if isinstance(part, Table):
        return table_text(part)
    return as_text(part) if isinstance(part, Plot) else part.to_text()


def _paragraphs(text: str) -> list[str]:
    return [textwrap.fill(paragraph, WIDTH) for paragraph in text.split("\n\n") if paragraph]


def table_text(table: Table) -> str:
    """A table in columns: the first, and those with an equals sign in them, to the left, numbers to the right."""
    widths = [max(len(row[i]) for row in [table.columns, *table.rows]) for i in range(len(table.columns))]
    lines = []
    for row in [table.columns, *table.rows] if any(table.columns) else table.rows:
        cells = [
            f"{cell:<{width}}" if _is_words(table, i) else f"{cell:>{width}}"
            for i, (cell, width) in enumerate(zip(row, widths))
        ]
        lines.append("  " + "   ".join(cells).rstrip())
    return "\n".join(lines)


def _is_words(table: Table, column: int) -> bool:
    return column == 0 or any("=" in row[column] for row in table.rows)


def to_html(section: Section) -> str:
    """A section for a page."""
    parts = [f"<h2>{html.escape(section.title)}</h2>", *_as_html(section.before)]
    parts += [_shown_html(part) for part in section.shown]
    return "".join([*parts, *_as_html(section.after)])


def _shown_html(part: Table | Plot | Drawing) -> str:
    if isinstance(part, Table):
        return _table_html(part)
    return f"<figure>{as_svg(part) if isinstance(part, Plot) else part.to_html()}</figure>"


def _as_html(text: str) -> list[str]:
    return [f"<p>{html.escape(paragraph)}</p>" for paragraph in text.split("\n\n") if paragraph]


def _table_html(table: Table) -> str:
    rows = [_row_html("th", table, table.columns)] if any(table.columns) else []
    rows += [_row_html("td", table, row) for row in table.rows]
    return f"<table>{''.join(rows)}</table>"


def _row_html(tag: str, table: Table, row: Sequence[str]) -> str:
    classes = [' class="words"' if _is_words(table, i) else "" for i in range(len(row))]
    cells = [f"<{tag}{each}>{html.escape(cell)}</{tag}>" for each, cell in zip(classes, row)]
    return f"<tr>{''.join(cells)}</tr>"


PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>
<style>
:root {{ color-scheme: light dark; }}
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem; }}
table {{ display: block; overflow-x: auto; border-collapse: collapse; margin: 1rem 0; }}
table {{ font: 14px/1.6 ui-monospace, monospace; }}
td, th {{ padding: 0 1.2em 0 0; text-align: right; white-space: nowrap; }}
.words {{ text-align: left; }}
th {{ border-bottom: 1px solid; }}
figure {{ margin: 1rem 0; overflow-x: auto; }}
</style>
<h1>{title}</h1>
{body}
</html>
"""


def page(title: str, sections: Sequence[Section]) -> str:
    """The sections as one HTML file that needs no other."""
    return PAGE.format(title=html.escape(title), body="\n".join(map(to_html, sections)))
