"""Plots on linear axes: curves, quantities that change in steps, and a function of two variables as coloured regions.

In: numbers. Out: a Picture. (`derivatives.plot` has logarithmic axes, and draws in characters too.)
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence

from wengert.learn.drawing.svg import BLUE, COLOURS, GREY, ORANGE, Picture, Point

_LEFT, _TOP, _RIGHT, _BOTTOM = 72, 34, 18, 46


class Axes:
    """A frame with ticks, and where points lie in it."""

    def __init__(self, x: Point, y: Point, names: tuple[str, str], title: str, size: Point = (640, 320)) -> None:
        self.x, self.y = x, y
        self.picture = Picture(*size, title)
        self.right, self.bottom = size[0] - _RIGHT, size[1] - _BOTTOM
        for tick in _ticks(*x):
            across, _ = self.at(tick, y[0])
            self.picture.line([(across, self.bottom), (across, self.bottom + 5)], width=1)
            self.picture.text(across, self.bottom + 19, f"{tick:g}", anchor="middle", size=11)
        for tick in _ticks(*y):
            _, up = self.at(x[0], tick)
            self.picture.line([(_LEFT - 5, up), (_LEFT, up)], width=1)
            self.picture.text(_LEFT - 8, up + 4, f"{tick:g}", anchor="end", size=11)
        self.picture.line([(_LEFT, _TOP), (_LEFT, self.bottom), (self.right, self.bottom)], width=1)
        self.picture.text((_LEFT + self.right) / 2, self.bottom + 38, names[0], anchor="middle")
        self.picture.text(8, 16, names[1])

    def at(self, x: float, y: float) -> Point:
        """A point of the plot in pixels."""
        across = (x - self.x[0]) / (self.x[1] - self.x[0] or 1)
        up = (y - self.y[0]) / (self.y[1] - self.y[0] or 1)
        return _LEFT + across * (self.right - _LEFT), self.bottom - up * (self.bottom - _TOP)

    def legend(self, labels: Sequence[str]) -> None:
        """The names of the curves, in their colours, above the plot."""
        x = self.right
        for label, colour in reversed(list(zip(labels, COLOURS))):
            self.picture.text(x, 16, label, anchor="end", colour=colour, bold=True)
            x -= 7.9 * len(label) + 22


def draw_curves(curves: Mapping[str, Sequence[Point]], x: str, y: str, title: str = "curves") -> Picture:
    """Curves by name, each through its points."""
    axes = Axes(*_ranges([point for curve in curves.values() for point in curve]), (x, y), title)
    for points, colour in zip(curves.values(), COLOURS):
        axes.picture.line([axes.at(*point) for point in points], colour=colour, width=2)
    axes.legend(list(curves))
    return axes.picture


def draw_steps(series: Mapping[str, Sequence[float]], x: str, y: str, title: str = "steps") -> Picture:
    """Quantities that keep a value during each step, such as the memory in use; each over its own run from 0 to 1."""
    most = max(max(values) for values in series.values())
    axes = Axes((0.0, 1.0), (0.0, most), (x, y), title)
    for values, colour in zip(series.values(), COLOURS):
        corners = [(k / len(values), value) for i, value in enumerate(values) for k in (i, i + 1)]
        axes.picture.line([axes.at(*corner) for corner in corners], colour=colour, width=2)
    axes.legend(list(series))
    return axes.picture


def draw_regions(
    score: Callable[[float, float], float],
    points: Sequence[tuple[float, float, bool]],
    title: str = "the decision boundary",
    cells: int = 40,
) -> Picture:
    """The plane, coloured by the sign of a score, with points of two classes on it."""
    (left, right), (low, high) = _ranges([(x, y) for x, y, _ in points], 0.12)
    axes = Axes((left, right), (low, high), ("x1", "x2"), title, (560, 400))
    wide, tall = (right - left) / cells, (high - low) / cells
    for j in range(cells):
        y = low + j * tall
        shades = [_shade(score(left + (i + 0.5) * wide, y + tall / 2)) for i in range(cells)]
        start = 0
        for (colour, opacity), run in itertools.groupby(shades):  # neighbours of one shade are one rectangle
            stop = start + len(list(run))
            (x1, y1), (x2, y2) = axes.at(left + start * wide, y + tall), axes.at(left + stop * wide, y)
            axes.picture.rectangle(x1, y1, x2 - x1, y2 - y1, fill=colour, stroke="none", opacity=opacity)
            start = stop
    for x, y, positive in points:
        axes.picture.circle(*axes.at(x, y), 4.5, fill=ORANGE if positive else BLUE, stroke="#ffffff")
    return axes.picture


def _shade(score: float) -> tuple[str, float]:
    """The colour of a class, and how strong it is, in five levels."""
    return ORANGE if score > 0 else BLUE, round(0.12 + 0.08 * min(4, int(2.5 * abs(score))), 2)


def draw_bars(
    rows: Mapping[str, float], x: str, title: str = "bars", texts: Mapping[str, str] | None = None
) -> Picture:
    """A bar for each name, with its number."""
    wide = max(map(len, rows)) * 7.9 + 16
    most, length = max(rows.values()) or 1, 420
    picture = Picture(wide + length + 110, 30 * len(rows) + 34, title)
    picture.text(8, 16, x, colour=GREY)
    for i, (name, value) in enumerate(rows.items()):
        y = 28 + 30 * i
        picture.text(8, y + 16, name)
        picture.rectangle(wide, y, max(1.0, length * value / most), 22, fill=COLOURS[0], stroke="none", opacity=0.8)
        picture.text(wide + length * value / most + 8, y + 16, (texts or {}).get(name, f"{value:g}"))
    return picture


def _ranges(points: Sequence[Point], margin: float = 0.0) -> tuple[tuple[float, float], tuple[float, float]]:
    """From the least to the largest x and y, and a part of that more on both sides."""
    found = []
    for axis in (0, 1):
        low, high = min(p[axis] for p in points), max(p[axis] for p in points)
        extra = margin * (high - low)
        found.append((low - extra, high + extra if high > low else low + 1))
    return found[0], found[1]


def _ticks(low: float, high: float) -> list[float]:
    """About five round numbers."""
    raw = (high - low) / 5 or 1.0
    size = 10 ** math.floor(math.log10(raw))
    step = next(size * k for k in (1, 2, 5, 10) if size * k >= raw)
    first = math.ceil(low / step - 1e-9)
    return [round(step * k, 10) for k in range(first, math.floor(high / step + 1e-9) + 1)]
