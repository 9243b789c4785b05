"""Plots as SVG for the page: times over sizes, rooflines, speedups. Axes are logarithmic, colours the page's own."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from html import escape
from typing import NamedTuple

LEFT, RIGHT, TOP, BOTTOM = 52, 14, 30, 38
LETTER = 6.3  # pixels that a letter is wide, about


class TimeCurve(NamedTuple):
    """Points, each with what is said of it; `kind` is a class of the page's style: a device, and how it is drawn."""

    kind: str
    points: Sequence[tuple[float, float, str]]
    line: bool = True
    hollow: frozenset[int] = frozenset()  # which points are drawn hollow, and not joined


class Axes:
    """A frame of logarithmic axes, and what is drawn in it."""

    def __init__(
        self,
        title: str,
        x: str,
        y: str,
        points: Sequence[tuple[float, float]],
        unit: Callable[[float], str],
        width: int = 370,
        height: int = 250,
    ) -> None:
        self.width, self.height = width, height
        self.left, self.right = _span([x for x, _ in points])
        self.low, self.high = _span([y for _, y in points])
        self.parts = [f'<text class="title" x="{LEFT}" y="17">{escape(title)}</text>']
        for number in _ticks(self.low, self.high):
            _, at = self.place(10**self.left, number)
            self.parts.append(f'<path class="grid" d="M{LEFT} {at:.1f}H{width - RIGHT}"/>')
            self.parts.append(f'<text x="{LEFT - 5}" y="{at + 4:.1f}" text-anchor="end">{unit(number)}</text>')
        for number in _ticks(self.left, self.right, 6):
            at, _ = self.place(number, 10**self.low)
            self.parts.append(f'<path class="grid" d="M{at:.1f} {TOP}V{height - BOTTOM}"/>')
            text = short(number)
            self.parts.append(f'<text x="{at:.1f}" y="{height - BOTTOM + 14}" text-anchor="middle">{text}</text>')
        self.parts.append(f'<text x="{LEFT - 5}" y="17" text-anchor="end">{escape(y)}</text>')
        self.parts.append(f'<text x="{width - RIGHT}" y="{height - 6}" text-anchor="end">{escape(x)}</text>')

    def place(self, x: float, y: float) -> tuple[float, float]:
        """Where a point lies in the picture."""
        across = (math.log10(x) - self.left) / (self.right - self.left)
        up = (math.log10(y) - self.low) / (self.high - self.low)
        room = self.height - TOP - BOTTOM
        return LEFT + across * (self.width - LEFT - RIGHT), TOP + (1 - up) * room

    def add(self, curve: TimeCurve) -> None:
        """Draw a curve."""
        places = [self.place(x, y) for x, y, _ in curve.points]
        if curve.line:
            joined = [place for i, place in enumerate(places) if i not in curve.hollow]
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in joined)
            self.parts.append(f'<polyline class="{curve.kind}" points="{path}"/>')
        for i, ((x, y), (_, _, said)) in enumerate(zip(places, curve.points)):
            kind = f"{curve.kind} doubt" if i in curve.hollow else curve.kind
            dot = f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="3.2">'
            self.parts.append(f"{dot}<title>{escape(said)}</title></circle>")

    def mark(self, x: float, kind: str, said: str) -> None:
        """A line from top to bottom at a size."""
        if 10**self.left <= x <= 10**self.right:
            at, _ = self.place(x, 10**self.low)
            line = f'<path class="mark {kind}" d="M{at:.1f} {TOP}V{self.height - BOTTOM}">'
            self.parts.append(f"{line}<title>{escape(said)}</title></path>")

    def text(self, x: float, y: float, words: str, kind: str = "") -> None:
        """Words beside a point."""
        across, down = self.place(x, y)
        beyond = across + 6 + LETTER * len(words) > self.width
        anchor, across = ("end", across - 6) if beyond else ("start", across + 6)
        self.parts.append(
            f'<text class="{kind}" x="{across:.1f}" y="{down + 4:.1f}" text-anchor="{anchor}">{escape(words)}</text>'
        )

    def svg(self) -> str:
        """The picture."""
        inside = "\n".join(self.parts)
        return f'<svg viewBox="0 0 {self.width} {self.height}" width="{self.width}" role="img">\n{inside}\n</svg>'


def _span(values: Sequence[float]) -> tuple[float, float]:
    """The powers of ten around some numbers, with a little room."""
    low, high = math.log10(min(values)), math.log10(max(values))
    room = max(0.05 * (high - low), 0.1)
    return low - room, high + room


def _ticks(low: float, high: float, most: int = 8) -> list[float]:
    """Numbers to write at an axis from 10^low to 10^high: powers of ten, not too many; 1, 2 and 5 of a short one.

    >>> _ticks(-0.5, 3.5), _ticks(-0.2, 1.2), _ticks(0, 9, 5)
    ([1.0, 10.0, 100.0, 1000.0], [1.0, 2.0, 5.0, 10.0], [1.0, 100.0, 10000.0, 1000000.0, 100000000.0])
    """
    decades = range(math.ceil(low), math.floor(high) + 1)
    if len(decades) > 2:
        return [10.0**decade for decade in decades[:: -(-len(decades) // most)]]
    inside = range(math.floor(low), math.ceil(high) + 1)
    found = [digit * 10.0**decade for decade in inside for digit in (1, 2, 5)]
    return [number for number in found if low <= math.log10(number) <= high]


def bars(rows: Sequence[tuple[str, float, str]], width: int = 760) -> str:
    """Named ratios as bars from 1 on a logarithmic axis, to the right if they are more; each with a hint."""
    label, row, top = max([200, *(int(LETTER * len(name)) for name, _, _ in rows)]), 20, 26
    most = max([abs(math.log10(ratio)) for _, ratio, _ in rows] + [1.0])
    least = min([math.log10(ratio) for _, ratio, _ in rows] + [0.0])
    scale = (width - label - 90) / (most - least)
    zero, bottom = label + 20 - least * scale, top + len(rows) * row
    parts = []
    for number in _ticks(least - 0.01, most):
        at = zero + math.log10(number) * scale
        kind = "axis" if number == 1 else "grid"
        parts.append(f'<path class="{kind}" d="M{at:.1f} {top - 6}V{bottom}"/>')
        parts.append(f'<text x="{at:.1f}" y="{top - 11}" text-anchor="middle">{number:g} x</text>')
    parts.append(f'<text x="{label}" y="{top - 11}" text-anchor="end">times as fast as the CPU</text>')
    for i, (name, ratio, said) in enumerate(rows):
        length, y = math.log10(ratio) * scale, top + i * row
        kind = "gpu" if ratio >= 1 else "cpu"
        x = zero + min(length, 0)
        parts.append(f'<text x="{label}" y="{y + 12}" text-anchor="end">{escape(name)}</text>')
        bar = f'<rect class="{kind}" x="{x:.1f}" y="{y}" width="{max(abs(length), 1):.1f}" height="14">'
        parts.append(f"{bar}<title>{escape(said)}</title></rect>")
        parts.append(f'<text x="{max(zero, zero + length) + 5:.1f}" y="{y + 12}">{ratio:.3g} x</text>')
    return f'<svg viewBox="0 0 {width} {bottom + 6}" width="{width}" role="img">\n{"".join(parts)}\n</svg>'


def short(number: float, unit: str = "") -> str:
    """A number in few characters, perhaps with its unit.

    >>> [short(n) for n in (1, 64, 4096, 1e6, 2.5e9)], short(2.5e9, "B/s")
    (['1', '64', '4.1k', '1M', '2.5G'], '2.5 GB/s')
    """
    scale, letter = next(
        (found for found in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")) if number >= found[0]),
        (1.0, ""),
    )
    digits = 2 if letter and number < 10 * scale else 3
    return f"{number / scale:.{digits}g}{' ' if unit else ''}{letter}{unit}"


def seconds(number: float) -> str:
    """A time in few characters.

    >>> [seconds(s) for s in (2.0, 1.5e-3, 3e-6, 4e-9)]
    ['2 s', '1.5 ms', '3 us', '4 ns']
    """
    for unit, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if number >= unit:
            return f"{number / unit:.3g} {name}"
    return f"{number * 1e9:.3g} ns"
