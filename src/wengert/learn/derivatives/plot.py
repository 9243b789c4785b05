"""Curves on logarithmic axes: as characters for the terminal, as SVG for a page."""

from __future__ import annotations

import html
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise


@dataclass
class Curve:
    """Points with positive coordinates. In the terminal they are the mark, and its capital where emphasised."""

    label: str
    mark: str
    points: list[tuple[float, float]]
    emphasised: set[int] = field(default_factory=set)


@dataclass
class Plot:
    """Curves, what their axes are, and what emphasis means. Lines to points without it are `broken`, or not."""

    curves: list[Curve]
    x: str
    y: str
    emphasis: str
    broken: bool = False

    def __post_init__(self) -> None:
        drawn = [point for curve in self.curves for point in curve.points]
        self.left, self.right = _decades([x for x, _ in drawn])
        self.low, self.high = _decades([y for _, y in drawn])

    def place(self, x: float, y: float) -> tuple[float, float]:
        """Where a point lies, from 0 to 1, to the right and up."""
        across = (math.log10(x) - self.left) / (self.right - self.left)
        return across, (math.log10(y) - self.low) / (self.high - self.low)


def _decades(values: Sequence[float]) -> tuple[int, int]:
    """The powers of ten around some numbers."""
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return low, max(high, low + 1)


def as_text(plot: Plot, width: int = 66, height: int = 15) -> str:
    """The plot in characters, at most 80 columns wide."""
    grid = [[" "] * width for _ in range(height)]
    for emphasised in (False, True):
        for curve in plot.curves:
            for i, point in enumerate(curve.points):
                if (i in curve.emphasised) is emphasised:
                    across, up = plot.place(*point)
                    row = grid[height - 1 - round(up * (height - 1))]
                    _put(row, round(across * (width - 1)), curve.mark.upper() if emphasised else curve.mark)
    names = [""] * height
    for tick in _ticks(plot.low, plot.high, height // 2):
        names[height - 1 - round((tick - plot.low) / (plot.high - plot.low) * (height - 1))] = f"1e{tick:+03d}"
    lines = [f"  {plot.y}"]
    lines += [f"  {name:>6} |{''.join(row)}".rstrip() for name, row in zip(names, grid)]
    lines.append(f"         +{'-' * width}")
    below = [" "] * (width + 16)
    for tick in _ticks(plot.left, plot.right, width // 8):
        start = 7 + round((tick - plot.left) / (plot.right - plot.left) * (width - 1))
        below[start : start + 5] = f"1e{tick:+03d}"
    lines.append("".join(below).rstrip())
    lines.append(f"  {plot.x} ->   " + "  ".join(f"{curve.mark} {curve.label}" for curve in plot.curves))
    return "\n".join([*lines, f"  * several curves; capitals: {plot.emphasis}"])


def _put(row: list[str], column: int, mark: str) -> None:
    """Set a mark over a lesser one, or a star where another curve has its like already."""
    there = row[column]
    row[column] = "*" if there not in (" ", mark) and there.isupper() == mark.isupper() else mark


def _ticks(low: int, high: int, most: int) -> list[int]:
    """Powers of ten to name, not more than `most`."""
    return list(range(low, high + 1, max(1, math.ceil((high - low) / max(1, most - 1)))))


COLOURS = ("#ea580c", "#3b82f6", "#16a34a", "#c026d3")  # to be told apart on light and on dark


def as_svg(plot: Plot, width: int = 640, height: int = 360) -> str:
    """The plot as SVG."""
    left, top, right, bottom = 64, 28, width - 150, height - 44

    def at(x: float, y: float) -> tuple[float, float]:
        across, up = plot.place(x, y)
        return left + across * (right - left), bottom - up * (bottom - top)

    parts = [_axes(plot, (left, top, right, bottom))]
    for i, (curve, colour) in enumerate(zip(plot.curves, COLOURS)):
        places = [at(*point) for point in curve.points]
        for j, ((x1, y1), (x2, y2)) in enumerate(pairwise(places)):
            dashes = ' stroke-dasharray="4 4"' if plot.broken and j + 1 not in curve.emphasised else ""
            line = f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}"{dashes}/>'
            parts.append(line)
        circles = [f'<circle cx="{places[j][0]:.1f}" cy="{places[j][1]:.1f}" r="4"/>' for j in sorted(curve.emphasised)]
        parts.append(f'<g fill="{colour}">{"".join(circles)}</g>')
        y = top + 16 + 20 * i
        parts.append(
            f'<text x="{right + 16}" y="{y}" fill="{colour}" font-weight="bold">{html.escape(curve.label)}</text>'
        )
    about = f"{html.escape(plot.y)} by {html.escape(plot.x)}"
    return (
        f'<svg viewBox="0 0 {width} {height}" width="{width}" role="img" font-family="sans-serif" font-size="12" '
        f'fill="currentColor" stroke-width="1.5"><title>{about}</title>{"".join(parts)}</svg>'
    )


def _axes(plot: Plot, frame: tuple[int, int, int, int]) -> str:
    left, top, right, bottom = frame
    parts = []
    for tick in _ticks(plot.left, plot.right, 9):
        x = left + (tick - plot.left) / (plot.right - plot.left) * (right - left)
        parts.append(f'<line x1="{x:.1f}" y1="{top}" x2="{x:.1f}" y2="{bottom}" stroke="currentColor" opacity="0.15"/>')
        parts.append(f'<text x="{x:.1f}" y="{bottom + 16}" text-anchor="middle">1e{tick:+03d}</text>')
    for tick in _ticks(plot.low, plot.high, 9):
        y = bottom - (tick - plot.low) / (plot.high - plot.low) * (bottom - top)
        parts.append(f'<line x1="{left}" y1="{y:.1f}" x2="{right}" y2="{y:.1f}" stroke="currentColor" opacity="0.15"/>')
        parts.append(f'<text x="{left - 6}" y="{y + 4:.1f}" text-anchor="end">1e{tick:+03d}</text>')
    below = f"{plot.x} (dots: {plot.emphasis})"
    parts.append(f'<text x="{(left + right) / 2}" y="{bottom + 36}" text-anchor="middle">{html.escape(below)}</text>')
    parts.append(f'<text x="{left}" y="{top - 12}">{html.escape(plot.y)}</text>')
    return "".join(parts)
