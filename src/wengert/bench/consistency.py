"""Figures that cannot be right beside their neighbours: found, measured again, and marked where they remain.

In: the points of a report. Out: the same points, those in doubt with the reason. Two things hold of true times: a
forward pass takes no longer than forward and backward together, and more work of the same kind takes no less time.
Whatever disturbs a measurement makes it longer, so of two times that do not fit together the longer one is in doubt.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wengert.bench.plot import seconds, short

Point = dict[str, Any]

TOLERANCE = 1.5
"""A time is in doubt from this multiple on. Smaller differences are noise, or another kernel for another size."""


def doubts(points: Sequence[Point]) -> list[Point]:
    """The points whose times cannot be right beside those of the others.

    >>> about = {"case": "sum", "device": "cpu", "pass": "forward", "unit": "elements"}
    >>> points = [{**about, "size": 1, "seconds": 3e-6}, {**about, "size": 8, "seconds": 1e-6}]
    >>> [point["size"] for point in doubts(points)]
    [1]
    """
    return [point for point in points if reason(point, points)]


def reason(point: Point, points: Sequence[Point]) -> str:
    """Why a point is in doubt; nothing if it is not."""
    own = [p for p in points if (p["case"], p["device"]) == (point["case"], point["device"])]
    for other in own:
        if point["seconds"] <= TOLERANCE * other["seconds"]:
            continue
        if point["pass"] == "forward" != other["pass"] and other["size"] == point["size"]:
            return f"longer than {other['pass']}, {seconds(other['seconds'])}"
        if point["pass"] == other["pass"] and other["size"] > point["size"]:
            return f"longer than at {short(other['size'])} {other['unit']}, {seconds(other['seconds'])}"
    return ""


def marked(points: Sequence[Point]) -> list[Point]:
    """The points, those in doubt with the reason under `doubt`."""
    clean = [{name: value for name, value in point.items() if name != "doubt"} for point in points]
    by_case: dict[str, list[Point]] = {}
    for point in clean:
        by_case.setdefault(point["case"], []).append(point)
    found = [(point, reason(point, by_case[point["case"]])) for point in clean]
    return [{**point, "doubt": why} if why else point for point, why in found]


def trusted(points: Sequence[Point]) -> list[Point]:
    """The points that are not marked."""
    return [point for point in points if not point.get("doubt")]
