"""The plot of a run as SVG: a panel for each metric, with its training and test curves over the steps.

The panel's range is that of the curves after the first twentieth of the steps; earlier values outside it are clipped at
its edge.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape

Curve = Sequence[tuple[float, float]]
"""Points (step, value)."""

WIDTH, HEIGHT = 420, 276
LEFT, RIGHT, TOP, BOTTOM = 56, 12, 34, 52
COLOURS = {"train": "#8d6ad0", "test": "#dd6f12", "validation": "#1f9c8f"}
TEXT, GRID = "#7b8190", "#7b819040"  # in the middle between a white and a dark page
MOST_EPOCHS = 6  # that are labelled


def plot(title: str, panels: Mapping[str, Mapping[str, Curve]], steps_per_epoch: float | None = None) -> str:
    """An SVG of panels by name, each of curves by name; with `steps_per_epoch` an axis of epochs below that of steps.

    >>> plot("run", {"loss": {"train": [(0, 2.0), (10, 0.5)]}}).count("<polyline")
    1
    """
    parts = [_panel(name, curves, i * WIDTH, steps_per_epoch) for i, (name, curves) in enumerate(panels.items())]
    width = WIDTH * max(len(parts), 1)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {HEIGHT}" width="{width}" height="{HEIGHT}" '
            f'font-family="sans-serif" font-size="11" fill="{TEXT}">',
            f"<title>{escape(title)}</title>",
            *parts,
            "</svg>\n",
        ]
    )


def _panel(name: str, curves: Mapping[str, Curve], left: int, steps_per_epoch: float | None) -> str:
    finite = {label: [point for point in curve if math.isfinite(point[1])] for label, curve in curves.items()}
    points = [point for curve in finite.values() for point in curve]
    last = max((x for x, _ in points), default=1) or 1
    values = [y for x, y in points if x >= last / 20] or [0.0, 1.0]
    marks = _marks(min(values), max(values))
    low, high = marks[0], marks[-1]

    def place(x: float, y: float) -> tuple[float, float]:
        across = LEFT + x / last * (WIDTH - LEFT - RIGHT)
        return left + across, TOP + (high - y) / (high - low) * (HEIGHT - TOP - BOTTOM)

    parts = [f'<text x="{left + LEFT}" y="18" font-size="13" font-weight="bold">{escape(name)}</text>']
    for mark in marks:
        x, y = place(0, mark)
        parts.append(f'<path d="M{x:.1f} {y:.1f}H{left + WIDTH - RIGHT}" stroke="{GRID}"/>')
        parts.append(f'<text x="{x - 6:.1f}" y="{y + 4:.1f}" text-anchor="end">{mark:g}</text>')
    steps = [(share * last, f"{share * last:,.0f}") for share in (0, 0.5, 1)]
    parts += _axis("step", [(place(x, low)[0], text) for x, text in steps], left, 18)
    if steps_per_epoch:
        epochs = [(x, text) for x, text in _epochs(last / steps_per_epoch)]
        parts += _axis("epoch", [(place(x * steps_per_epoch, low)[0], text) for x, text in epochs], left, 36)
    at, rows = left + WIDTH - RIGHT, {"▲": 0, "▼": 0}
    for label, curve in reversed(finite.items()):
        colour = COLOURS.get(label, TEXT)
        for piece in _pieces(curve, low, high):
            path = " ".join("{:.1f},{:.1f}".format(*place(x, y)) for x, y in piece)
            parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.6"/>')
            if len(piece) == 1:
                x, y = place(*piece[0])
                parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>')
        for triangle, x, value, edge in _outside(curve, low, high):
            parts.append(_beyond(triangle, value, place(x, edge), rows[triangle], colour))
            rows[triangle] += 1
        parts.append(f'<text x="{at}" y="18" text-anchor="end" fill="{colour}">{escape(label)}</text>')
        at -= 16 + 6 * len(label)
    return "\n".join(parts)


def _axis(name: str, places: Sequence[tuple[float, str]], left: int, below: int) -> list[str]:
    """The label of the left axis, and its numbers; a label at the right edge is right-aligned."""
    y, right = HEIGHT - BOTTOM + below, left + WIDTH - RIGHT
    parts = [f'<text x="{left + LEFT - 12}" y="{y}" text-anchor="end">{name}</text>']
    for x, text in places:
        anchor = "end" if x > right - 4 * len(text) else "middle"
        parts.append(f'<text x="{min(x, right):.1f}" y="{y}" text-anchor="{anchor}">{text}</text>')
    return parts


def _epochs(count: float) -> list[tuple[int, str]]:
    """The labelled epochs: 0, and round ones up to the last.

    >>> [epoch for epoch, _ in _epochs(4)], [epoch for epoch, _ in _epochs(30)]
    ([0, 1, 2, 3, 4], [0, 5, 10, 15, 20, 25, 30])
    """
    scale = 10 ** max(math.floor(math.log10(max(count, 1) / MOST_EPOCHS)), 0)
    step = next(scale * factor for factor in (1, 2, 5, 10) if count / (scale * factor) <= MOST_EPOCHS)
    return [(epoch, f"{epoch:,}") for epoch in range(0, math.floor(count + 1e-9) + 1, step)]


# --- what lies beyond the panel -------------------------------------------------------------------------------------


def _pieces(curve: Curve, low: float, high: float) -> Iterator[list[tuple[float, float]]]:
    """The parts of a curve between two values, each up to the edge where it goes on beyond it.

    >>> list(_pieces([(0, 4.0), (1, 2.0), (2, 1.0)], 0.0, 3.0))
    [[(0.5, 3.0), (1, 2.0), (2, 1.0)]]
    """
    piece: list[tuple[float, float]] = []
    for here, there in zip(curve, [*curve[1:], None]):
        if low <= here[1] <= high:
            piece.append(here)
        if there is None:
            continue
        crossings = [_crossing(here, there, edge) for edge in (low, high) if (here[1] - edge) * (there[1] - edge) < 0]
        piece += sorted(crossings)
        if piece and not low <= there[1] <= high:
            yield piece
            piece = []
    if piece:
        yield piece


def _crossing(here: tuple[float, float], there: tuple[float, float], edge: float) -> tuple[float, float]:
    share = (edge - here[1]) / (there[1] - here[1])
    return here[0] + share * (there[0] - here[0]), edge


def _outside(curve: Curve, low: float, high: float) -> Iterator[tuple[str, float, float, float]]:
    """For each edge that a curve goes beyond: a triangle, where and how far it goes, and the edge."""
    above = max((y, x) for x, y in curve) if curve else (high, 0.0)
    below = min((y, x) for x, y in curve) if curve else (low, 0.0)
    if above[0] > high:
        yield "▲", above[1], above[0], high
    if below[0] < low:
        yield "▼", below[1], below[0], low


def _beyond(mark: str, value: float, place: tuple[float, float], row: int, colour: str) -> str:
    """What says at the edge that a curve goes on to a value; each of several curves in a row of its own."""
    x, y = place
    down = 10 + 13 * row if mark == "▲" else -3 - 13 * row
    return f'<text class="beyond" x="{x + 4:.1f}" y="{y + down:.1f}" fill="{colour}">{mark} {value:.3g}</text>'


def _marks(low: float, high: float) -> list[float]:
    """Round numbers from below the lowest to above the highest value."""
    spread = (high - low) or abs(high) or 1.0
    size = 10.0 ** math.floor(math.log10(spread))
    step = next(size * factor for factor in (0.2, 0.5, 1, 2, 5) if spread / (size * factor) <= 6)
    first, last = math.floor(low / step), math.ceil(high / step)
    return [round(i * step, 12) for i in range(first, max(last, first + 1) + 1)]
