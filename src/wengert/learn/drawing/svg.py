"""A picture in SVG, built from a few shapes: what all drawings of the lessons are made of.

In: coordinates in pixels, from the top left. Out: a Picture, which a notebook shows, and which `save` writes to a file.
Colours that are left out follow the page, so that a picture is readable on light and on dark.
"""

from __future__ import annotations

import html
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

BLUE, ORANGE, GREEN, PURPLE, GREY, RED = "#3b82f6", "#ea580c", "#16a34a", "#c026d3", "#8a8a9a", "#dc2626"
COLOURS = (BLUE, ORANGE, GREEN, PURPLE, GREY)
INK = "currentColor"

Point = tuple[float, float]


class Picture:
    """An SVG that grows with every shape.

    >>> picture = Picture(120, 40, "a box")
    >>> picture.rectangle(10, 5, 100, 30)
    >>> picture.text(60, 25, "v1 = x1", anchor="middle")
    >>> "v1 = x1" in picture.svg()
    True
    """

    def __init__(self, width: float, height: float, title: str) -> None:
        self.width, self.height, self.title = width, height, title
        self._parts: list[str] = []
        self._tips: set[str] = set()

    def rectangle(
        self, x: float, y: float, width: float, height: float, *,
        fill: str = "none", stroke: str = INK, opacity: float = 1.0, radius: float = 0.0,
    ) -> None:  # fmt: skip
        """A box; `opacity` is that of its filling."""
        self._parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{radius:g}" fill="{fill}" '
            f'fill-opacity="{opacity:g}" stroke="{stroke}"/>'
        )

    def text(
        self, x: float, y: float, text: str, *, anchor: str = "start", colour: str = INK, size: float = 13.0,
        bold: bool = False,
    ) -> None:  # fmt: skip
        """Words whose baseline is at y. `anchor` is start, middle or end."""
        weight = ' font-weight="bold"' if bold else ""
        self._parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}" font-size="{size:g}"{weight}>'
            f"{html.escape(text)}</text>"
        )

    def line(self, points: Sequence[Point], *, colour: str = INK, width: float = 1.5, dashed: bool = False) -> None:
        """A line through points."""
        dashes = ' stroke-dasharray="5 4"' if dashed else ""
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self._parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width:g}"{dashes}/>'
        )

    def arrow(self, *points: Point, colour: str = INK, curved: bool = True, width: float = 1.5) -> None:
        """An arrow through points, by default horizontal at each of them."""
        path = f"M{points[0][0]:.1f},{points[0][1]:.1f}"
        for (x1, y1), (x2, y2) in pairwise(points):
            middle = (x1 + x2) / 2
            path += f"C{middle:.1f},{y1:.1f} {middle:.1f},{y2:.1f} " if curved and y1 != y2 else "L"
            path += f"{x2:.1f},{y2:.1f}"
        self._tips.add(colour)
        style = f'fill="none" stroke="{colour}" stroke-width="{width:g}" marker-end="url(#{_tip(colour)})"'
        self._parts.append(f'<path d="{path}" {style}/>')

    def circle(self, x: float, y: float, radius: float, *, fill: str = INK, stroke: str = "none") -> None:
        """A disc."""
        self._parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}" fill="{fill}" stroke="{stroke}"/>')

    def svg(self) -> str:
        """The SVG's text."""
        tips = "".join(
            f'<marker id="{_tip(colour)}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
            f'orient="auto"><path d="M0,0L8,4L0,8Z" fill="{colour}"/></marker>'
            for colour in sorted(self._tips)
        )
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width:g} {self.height:g}" '
            f'width="{self.width:g}" role="img" style="max-width:100%;min-width:{0.85 * self.width:.0f}px;height:auto" '
            f'font-family="ui-monospace, monospace" fill="currentColor"><title>{html.escape(self.title)}</title>'
            f"{f'<defs>{tips}</defs>' if tips else ''}{''.join(self._parts)}</svg>"
        )

    def _repr_svg_(self) -> str:
        return self.svg()

    def __repr__(self) -> str:
        return f"<picture of {self.title}, {self.width:g} by {self.height:g}>"

    def save(self, path: str | Path) -> Path:
        """Write the picture into a file; its path."""
        path = Path(path)
        path.write_text(self.svg(), encoding="utf-8")
        return path


def _tip(colour: str) -> str:
    """The name of an arrow's tip: the same in every picture of a page, since it looks the same."""
    return "tip-" + colour.strip("#")
