"""Matrices as grids with coloured cells: what a thread reads, what a block holds, what is moved.

In: matrices with their sizes and the cells to colour. Out: a Picture of them side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from wengert.learn.drawing.svg import GREY, Picture

Cells = tuple[int, int, int, int]  # first row, first column, rows, columns


@dataclass
class Matrix:
    """A grid of cells. `coloured` are rectangles of cells with a colour each, the later over the earlier."""

    name: str
    rows: int
    columns: int
    coloured: Sequence[tuple[Cells, str]] = ()
    below: str = ""
    every: int = field(default=1)  # a grid line after this many cells


def draw_matrices(
    matrices: Sequence[Matrix], signs: Sequence[str] = (), title: str = "matrices", cell: int = 14
) -> Picture:
    """Matrices side by side, with signs such as `=` and `@` between them."""
    gap, top = 46, 26
    width = sum(max(m.columns * cell, len(m.below) * 6.8) for m in matrices) + gap * (len(matrices) - 1) + 16
    tall = max(m.rows for m in matrices) * cell
    picture = Picture(width, tall + top + 32, title)
    x = 8.0
    for i, matrix in enumerate(matrices):
        wide = max(matrix.columns * cell, len(matrix.below) * 6.8)
        _draw(picture, matrix, x + (wide - matrix.columns * cell) / 2, top, cell)
        picture.text(x + wide / 2, 16, matrix.name, anchor="middle", bold=True)
        picture.text(x + wide / 2, top + matrix.rows * cell + 18, matrix.below, anchor="middle", size=11)
        x += wide
        if i < len(signs):
            picture.text(x + gap / 2, top + tall / 2, signs[i], anchor="middle", size=18)
        x += gap
    return picture


def _draw(picture: Picture, matrix: Matrix, x: float, y: float, cell: int) -> None:
    for (row, column, rows, columns), colour in matrix.coloured:
        picture.rectangle(
            x + column * cell, y + row * cell, columns * cell, rows * cell, fill=colour, stroke="none", opacity=0.55
        )
    wide, tall = matrix.columns * cell, matrix.rows * cell
    for k in range(0, matrix.rows + 1, matrix.every):
        picture.line([(x, y + k * cell), (x + wide, y + k * cell)], colour=GREY, width=0.5)
    for k in range(0, matrix.columns + 1, matrix.every):
        picture.line([(x + k * cell, y), (x + k * cell, y + tall)], colour=GREY, width=0.5)
    picture.rectangle(x, y, wide, tall)
