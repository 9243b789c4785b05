"""Pictures as SVG for pages that may be light or dark: a canvas, bars, and curves over logarithmic axes.

Nothing is drawn behind a picture, and every colour can be read on white and on a dark page.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from html import escape

INK, SOFT, GRID = "#7b8190", "#7b8190", "#7b819038"
BLUE, ORANGE, GREEN, PURPLE, RED = "#3f86cf", "#dd7319", "#1f9c8f", "#8d6ad0", "#d2545b"
LETTER = 6.7  # pixels that a letter of 12 px is wide, about


class Canvas:
    """Shapes and words at pixels; `svg()` is the picture."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self.width, self.height, self.title = width, height, title
        self.parts: list[str] = []

    def text(
        self,
        x: float,
        y: float,
        words: str,
        anchor: str = "start",
        colour: str = INK,
        size: int = 12,
        bold: bool = False,
    ) -> None:
        """Words whose first baseline begins, has its middle or ends at a point."""
        weight = ' font-weight="600"' if bold else ""
        self.parts.append(
            f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}" font-size="{size}"{weight}>'
            f"{escape(words)}</text>"
        )

    def rect(
        self, x: float, y: float, width: float, height: float, colour: str, fill: float = 1.0, corner: float = 2.0
    ) -> None:
        """A rectangle, filled as densely as `fill` says; below 1 with an edge."""
        edge = f' stroke="{colour}"' if fill < 1 else ""
        width, height = max(width, 0.5), max(height, 0.5)
        self.parts.append(
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{corner}" '
            f'fill="{colour}" fill-opacity="{fill}"{edge}/>'
        )

    def line(
        self, points: Sequence[tuple[float, float]], colour: str = INK, width: float = 1.4, dash: str = ""
    ) -> None:
        """A line through points."""
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"{dashed}/>',
        )

    def arrow(self, start: tuple[float, float], end: tuple[float, float], colour: str = INK) -> None:
        """A line with a head."""
        angle = math.atan2(end[1] - start[1], end[0] - start[0])
        base = end[0] - 6 * math.cos(angle), end[1] - 6 * math.sin(angle)
        self.line([start, base], colour, 1.2)
        sides = [(angle + turn, 3.2) for turn in (math.pi / 2, -math.pi / 2)]
        corners = [end, *[(base[0] + r * math.cos(a), base[1] + r * math.sin(a)) for a, r in sides]]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
        self.parts.append(f'<polygon points="{path}" fill="{colour}"/>')

    def dot(self, x: float, y: float, colour: str, hint: str = "") -> None:
        """A point, with what is said of it."""
        said = f"<title>{escape(hint)}</title>" if hint else ""
        self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.4" fill="{colour}">{said}</circle>')

    def box(self, x: float, y: float, width: float, height: float, words: Sequence[str], colour: str = BLUE) -> None:
        """A box with centred lines of words."""
        self.rect(x, y, width, height, colour, 0.14, 5)
        top = y + height / 2 - 7.5 * (len(words) - 1) + 4
        for i, line in enumerate(words):
            self.text(x + width / 2, top + 15 * i, line, "middle", INK if i else colour, 12, not i)

    def svg(self) -> str:
        """The picture."""
        head = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" width="{self.width}" '
            f'height="{self.height}" font-family="system-ui, sans-serif" role="img">'
        )
        return "\n".join([head, f"<title>{escape(self.title)}</title>", *self.parts, "</svg>\n"])


# --- bars -----------------------------------------------------------------------------------------------------------

Row = tuple[str, Mapping[str, float]]
"""The name of a row, and a value for each kind of bar."""


def bars(
    title: str,
    rows: Sequence[Row],
    colours: Mapping[str, str],
    said: Callable[[float], str],
    axis: str,
    log: bool = False,
    width: int = 760,
) -> str:
    """Groups of horizontal bars from 0, or on a logarithmic axis; each with its value written behind it."""
    label = max(62, *(int(LETTER * len(name)) + 14 for name, _ in rows))
    values = [value for _, group in rows for value in group.values()]
    ticks = log_ticks(min(values), max(values)) if log else linear_ticks(max(values))
    low, high = (math.log10(min(values)) - 0.25, math.log10(max(values))) if log else (0.0, max(*values, ticks[-1]))
    room = width - label - 70
    thick = 15

    def across(value: float) -> float:
        return label + ((math.log10(value) if log else value) - low) / (high - low) * room

    height = 62 + sum(len(group) * thick + 11 for _, group in rows)
    canvas = Canvas(width, height, title)
    x = label
    for name, colour in colours.items():
        canvas.rect(x, 6, 10, 10, colour)
        canvas.text(x + 15, 15, name)
        x += 30 + int(LETTER * len(name))
    for tick in ticks:
        canvas.line([(across(tick), 30), (across(tick), height - 24)], GRID, 1)
        canvas.text(across(tick), height - 10, said(tick), "middle", SOFT, 11)
    canvas.text(8, height - 10, axis, "start", SOFT, 11)
    y = 34
    for name, group in rows:
        canvas.text(label - 8, y + len(group) * thick / 2 + 4, name, "end")
        for kind, value in group.items():
            canvas.rect(label, y + 1, across(value) - label, thick - 3, colours[kind])
            canvas.text(across(value) + 5, y + 11, said(value), size=11)
            y += thick
        y += 11
    return canvas.svg()


def linear_ticks(high: float) -> list[float]:
    """Round numbers from 0 to about `high`.

    >>> linear_ticks(7), linear_ticks(800)
    ([0.0, 2.0, 4.0, 6.0], [0.0, 200.0, 400.0, 600.0, 800.0])
    """
    size = 10.0 ** math.floor(math.log10(high))
    step = next(size * factor for factor in (0.2, 0.5, 1.0, 2.0, 5.0) if high / (size * factor) <= 5)
    return [step * i for i in range(int(high / step + 1e-9) + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Powers of ten within a range."""
    return [10.0**decade for decade in range(math.ceil(math.log10(low) - 0.25), math.floor(math.log10(high)) + 1)]


# --- curves ---------------------------------------------------------------------------------------------------------


def curves(
    title: str,
    lines: Mapping[str, Sequence[tuple[float, float]]],
    colours: Mapping[str, str],
    x_axis: str,
    y_axis: str,
    said: Callable[[float], str],
    width: int = 760,
    height: int = 340,
) -> str:
    """Curves over logarithmic axes, each with its name at its end."""
    left, right, top, bottom = 70, 8 + max(int(LETTER * len(name)) for name in lines) + 8, 30, 44
    points = [point for line in lines.values() for point in line]
    spans = [_span([point[i] for point in points]) for i in (0, 1)]

    def place(x: float, y: float) -> tuple[float, float]:
        shares = [(math.log10(v) - low) / (high - low) for v, (low, high) in zip((x, y), spans)]
        return left + shares[0] * (width - left - right), height - bottom - shares[1] * (height - top - bottom)

    canvas = Canvas(width, height, title)
    for tick in log_ticks(*[10**end for end in spans[1]]):
        _, y = place(points[0][0], tick)
        if top - 1 <= y <= height - bottom + 1:
            canvas.line([(left, y), (width - right, y)], GRID, 1)
            canvas.text(left - 8, y + 4, said(tick), "end", SOFT, 11)
    for x in sorted({point[0] for point in points}):
        across, _ = place(x, points[0][1])
        canvas.text(across, height - bottom + 18, f"{x:g}", "middle", SOFT, 11)
    canvas.text(left - 8, 16, y_axis, "start", SOFT, 11)
    canvas.text(width - right, height - 8, x_axis, "end", SOFT, 11)
    ends: list[float] = []
    for name, line in sorted(lines.items(), key=lambda item: place(*item[1][-1])[1]):
        canvas.line([place(x, y) for x, y in line], colours[name], 1.8)
        for x, y in line:
            canvas.dot(*place(x, y), colours[name], f"{name}, {x:g}: {said(y)}")
        end_x, end_y = place(*line[-1])
        end_y = max([end_y, *[end + 15 for end in ends[-1:]]])
        ends.append(end_y)
        canvas.text(end_x + 9, end_y + 4, name, colour=colours[name])
    return canvas.svg()


def _span(values: Sequence[float]) -> tuple[float, float]:
    low, high = math.log10(min(values)), math.log10(max(values))
    room = max(0.04 * (high - low), 0.05)
    return low - room, high + room
