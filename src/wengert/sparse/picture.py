"""A sparse matrix's structure as an SVG picture, made of text alone.

In: a structure, for each entry the number of the product that yields it, and how they are found. Out: `Picture`, which
notebooks show and `save` writes. Up to 100 rows and columns each entry is a square; of larger matrices a square stands
for a block, the darker the more of it is there.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

_COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f6000", "#5f4b8b", "#333333")
_CELLS, _SIDE, _MARGIN = 100, 400, 26


class Picture:
    """An SVG picture. A notebook shows it; `save(path)` writes it; `svg` is its text."""

    def __init__(self, svg: str) -> None:
        self.svg = svg

    def _repr_svg_(self) -> str:
        return self.svg

    def save(self, path: str | Path) -> None:
        """Write the picture to a file."""
        Path(path).write_text(self.svg, encoding="utf-8")

    def __repr__(self) -> str:
        return f"Picture({len(self.svg)} characters of SVG)"


def draw(structure: Any, products: Any, how: str) -> Picture:
    """The picture of a structure in CSR; `how` ends its caption."""
    height, width = structure.shape
    rows = np.repeat(np.arange(height), np.diff(structure.indptr))
    columns, entries = np.asarray(structure.indices), int(structure.nnz)
    block = max(1, -(-max(height, width) // _CELLS))
    down, across = max(1, -(-height // block)), max(1, -(-width // block))
    size = max(1.0, _SIDE / max(down, across))
    caption = f"{height:,} x {width:,}, {entries:,} entr{'y' if entries == 1 else 'ies'}, {how}"
    cells = _blocks(rows, columns, block) if block > 1 else _entries(rows, columns, products)
    squares = [
        f'<rect x="{x * size:.2f}" y="{y * size:.2f}" width="{size * 0.94:.2f}" height="{size * 0.94:.2f}" {paint}/>'
        for y, x, paint in cells
    ]
    w, h = across * size, down * size
    total = max(w, 7 * len(caption)) + 2  # the caption's width, about
    return Picture(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{total:.0f}" height="{h + _MARGIN:.0f}" '
        f'viewBox="-1 -1 {total:.0f} {h + _MARGIN:.0f}" role="img" aria-label="{caption}">\n'
        f'<rect width="{w:.2f}" height="{h:.2f}" fill="#ffffff" stroke="#999999"/>\n'
        + "\n".join(squares)
        + f'\n<text x="0" y="{h + 18:.0f}" font-family="sans-serif" font-size="13" fill="#666666">'
        + f"{caption}</text>\n</svg>\n"
    )


def _entries(rows: Any, columns: Any, products: Any) -> list[tuple[int, int, str]]:
    return [(int(y), int(x), f'fill="{_COLORS[int(k) % len(_COLORS)]}"') for y, x, k in zip(rows, columns, products)]


def _blocks(rows: Any, columns: Any, block: int) -> list[tuple[int, int, str]]:
    """Blocks with entries; the opacity goes with the root of their share, so that a thin line stays visible."""
    keys, counts = np.unique((rows // block) * _CELLS * 2 + columns // block, return_counts=True)
    shades = 0.25 + 0.75 * np.sqrt(counts / block**2)
    cells = zip(*np.divmod(keys, _CELLS * 2), shades)
    return [(int(y), int(x), f'fill="{_COLORS[0]}" fill-opacity="{min(shade, 1.0):.2f}"') for y, x, shade in cells]
