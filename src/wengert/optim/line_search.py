"""A line search for the strong Wolfe conditions (Nocedal and Wright, "Numerical Optimization", section 3.5).

In: a function of the step length, and where it starts. Out: a step length at which the function has fallen enough and
its slope is flat enough. The arithmetic is Python's, as every comparison decides what is evaluated next.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

SUFFICIENT_DECREASE = 1e-4  # c1: a step gains at least this share of what the first slope promises
CURVATURE = 0.9  # c2: the slope falls to at most this share of the first


@dataclass(frozen=True)
class Point:
    """A step length, with the value, the gradient and the slope along the direction at that length."""

    length: float
    value: float
    gradient: Any
    slope: float


Evaluate = Callable[[float], Point]


def strong_wolfe(evaluate: Evaluate, start: Point, length: float, scale: float, least: float, most: int) -> Point:
    """The first step length found that satisfies both Wolfe conditions, or the best of `most` evaluations.

    `scale` is the largest element of the direction: the search ends when elements would move by less than `least`.
    """
    search = _Search(evaluate, start)
    low, high = search.bracket(length, most)
    return low if high is None else search.zoom(low, high, scale, least, most)


class _Search:
    """One search: what it compares with, and how many more points it has looked at after the first."""

    def __init__(self, evaluate: Evaluate, start: Point) -> None:
        self.evaluate = evaluate
        self.start = start
        self.count = 0

    def bracket(self, length: float, most: int) -> tuple[Point, Point | None]:
        """Two points between which a good one lies, or a good one and None."""
        before, point = self.start, self.evaluate(length)
        while self.count < most:
            if self._is_too_high(point) or (self.count > 1 and point.value >= before.value):
                return before, point
            if self._is_flat(point):
                return point, None
            if point.slope >= 0:
                return before, point
            bounds = (point.length + 0.01 * (point.length - before.length), point.length * 10)
            after = self.evaluate(cubic_minimum(before, point, bounds))
            before, point = point, after
            self.count += 1
        return self.start, point

    def zoom(self, first: Point, second: Point, scale: float, least: float, most: int) -> Point:
        """Close in on a good point between two, of which the lower one is kept."""
        ends = [first, second]
        low = 0 if first.value <= second.value else 1
        has_stalled = False
        while self.count < most and abs(ends[1].length - ends[0].length) * scale >= least:
            length, has_stalled = _inside(cubic_minimum(ends[0], ends[1]), ends, has_stalled)
            point = self.evaluate(length)
            self.count += 1
            if self._is_too_high(point) or point.value >= ends[low].value:
                ends[1 - low] = point
                low = 0 if ends[0].value <= ends[1].value else 1
                continue
            is_done = self._is_flat(point)
            if not is_done and point.slope * (ends[1 - low].length - ends[low].length) >= 0:
                ends[1 - low] = ends[low]
            ends[low] = point
            if is_done:
                break
        return ends[low]

    def _is_too_high(self, point: Point) -> bool:
        return point.value > self.start.value + SUFFICIENT_DECREASE * point.length * self.start.slope

    def _is_flat(self, point: Point) -> bool:
        return abs(point.slope) <= -CURVATURE * self.start.slope


def _inside(length: float, ends: list[Point], has_stalled: bool) -> tuple[float, bool]:
    """A length that is not too near an end twice running, and whether it is near one now."""
    least, most = sorted(end.length for end in ends)
    margin = 0.1 * (most - least)
    if min(most - length, length - least) >= margin:
        return length, False
    if not has_stalled and least < length < most:
        return length, True
    return (most - margin if abs(length - most) < abs(length - least) else least + margin), False


def cubic_minimum(first: Point, second: Point, bounds: tuple[float, float] | None = None) -> float:
    """The minimum of the cubic through two values and slopes, within bounds; their midpoint if there is none."""
    low, high = (first, second) if first.length <= second.length else (second, first)
    least, most = bounds or (low.length, high.length)
    if low.length == high.length:
        return (least + most) / 2
    # Written from the first point to the second, as both orders round differently.
    part = first.slope + second.slope - 3 * (first.value - second.value) / (first.length - second.length)
    square = part**2 - first.slope * second.slope
    if not square >= 0:
        return (least + most) / 2
    root = math.sqrt(square)
    divisor = high.slope - low.slope + 2 * root
    if divisor == 0:
        return (least + most) / 2
    at = high.length - (high.length - low.length) * ((high.slope + root - part) / divisor)
    return min(max(at, least), most)
