"""The plot of a run as SVG: a panel for each metric, with its training and test curves over the steps.

The panel's range is that of the curves after the first twentieth of the steps; earlier values outside it are clipped at
its edge.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

Curve = Sequence[tuple[float, float]]
"""Points (step, value)."""

WIDTH, HEIGHT = 420, 260
LEFT, RIGHT, TOP, BOTTOM = 56, 12, 34, 36
COLOURS = {"train": "#7e57c2", "test": "#ef6c00", "validation": "#26a69a"}


def plot(title: str, panels: Mapping[str, Mapping[str, Curve]]) -> str:
    """An SVG of panels by name, each of curves by name.

    >>> plot("run", {"loss": {"train": [(0, 2.0), (10, 0.5)]}}).count("<polyline")
    1
    """
    parts = [_panel(name, curves, i * WIDTH) for i, (name, curves) in enumerate(panels.items())]
    width = WIDTH * max(len(parts), 1)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {HEIGHT}" width="{width}" height="{HEIGHT}" '
            'font-family="sans-serif" font-size="11">',
            f"<title>{escape(title)}</title>",
            f'<rect width="{width}" height="{HEIGHT}" fill="white"/>',
            *parts,
            "</svg>\n",
        ]
    )


def _panel(name: str, curves: Mapping[str, Curve], left: int) -> str:
    points = [point for curve in curves.values() for point in curve if math.isfinite(point[1])]
    last = max((x for x, _ in points), default=1) or 1
    values = [y for x, y in points if x >= last / 20] or [0.0, 1.0]
    marks = _marks(min(values), max(values))
    low, high = marks[0], marks[-1]

    def place(x: float, y: float) -> tuple[float, float]:
        across = LEFT + x / last * (WIDTH - LEFT - RIGHT)
        return left + across, TOP + (high - min(max(y, low), high)) / (high - low) * (HEIGHT - TOP - BOTTOM)

    parts = [f'<text x="{left + LEFT}" y="18" font-size="13" font-weight="bold">{escape(name)}</text>']
    for mark in marks:
        x, y = place(0, mark)
        parts.append(f'<path d="M{x:.1f} {y:.1f}H{left + WIDTH - RIGHT}" stroke="#ddd"/>')
        parts.append(f'<text x="{x - 6:.1f}" y="{y + 4:.1f}" text-anchor="end" fill="#555">{mark:g}</text>')
    for share in (0, 0.5, 1):
        x, y = place(share * last, low)
        anchor = "middle" if share < 1 else "end"
        text = f"{'step ' if not share else ''}{share * last:,.0f}"
        parts.append(f'<text x="{x:.1f}" y="{y + 18:.1f}" text-anchor="{anchor}" fill="#555">{text}</text>')
    at = left + WIDTH - RIGHT
    for label, curve in reversed(list(curves.items())):
        colour = COLOURS.get(label, "#555")
        places = [place(x, y) for x, y in curve if math.isfinite(y)]
        path = " ".join("{:.1f},{:.1f}".format(*each) for each in places)
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
        if len(places) == 1:
            x, y = places[0]
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>')
        parts.append(f'<text x="{at}" y="18" text-anchor="end" fill="{colour}">{escape(label)}</text>')
        at -= 16 + 6 * len(label)
    return "\n".join(parts)


def _marks(low: float, high: float) -> list[float]:
    """Round numbers from below the lowest to above the highest value."""
    spread = (high - low) or abs(high) or 1.0
    size = 10.0 ** math.floor(math.log10(spread))
    step = next(size * factor for factor in (0.2, 0.5, 1, 2, 5) if spread / (size * factor) <= 6)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [round(i * step, 12) for i in range(first, max(last, first + 1) + 1)]
