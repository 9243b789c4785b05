"""Graphs as boxes and arrows, from left to right.

In: boxes by name with a few lines of text each, and edges between names. Out: a Picture. A box stands in the column
after its last source, and columns are ordered so that few edges cross.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from wengert.learn.drawing.svg import INK, Picture

_LETTER, _LINE, _GAP_X, _GAP_Y, _MARGIN = 7.9, 18, 70, 22, 12


@dataclass(frozen=True)
class Edge:
    """An arrow between two boxes, with words above its middle."""

    source: str
    target: str
    label: str = ""
    colour: str = INK


def draw_graph(
    boxes: Mapping[str, Sequence[str]],
    edges: Sequence[Edge],
    title: str = "a graph",
    colours: Mapping[str, str] | None = None,
) -> Picture:
    """Boxes, each given as its lines of text, and the edges between them. Sources stand left of what uses them."""
    columns, routes = _columns(list(boxes), edges)
    widths = [max(max(map(len, boxes.get(name, [""]))) for name in column) * _LETTER + 20 for column in columns]
    heights = {name: len(boxes.get(name, ())) * _LINE + 12 for column in columns for name in column}
    tall = max(sum(heights[name] + _GAP_Y for name in column) for column in columns) - _GAP_Y
    labels = max((len(edge.label) for edge in edges), default=0)
    gap = max(_GAP_X, labels * 12 + 24)
    picture = Picture(sum(widths) + gap * (len(columns) - 1) + 2 * _MARGIN, tall + 2 * _MARGIN, title)
    places: dict[str, _Place] = {}
    x = float(_MARGIN)
    for column, width in zip(columns, widths):
        y = _MARGIN + (tall - sum(heights[name] + _GAP_Y for name in column) + _GAP_Y) / 2
        for name in column:
            places[name] = _Place(x, y + heights[name] / 2, width)
            y += heights[name] + _GAP_Y
        x += width + gap
    for edge, route in zip(edges, routes):
        _draw_edge(picture, edge, places[edge.source], [places[name] for name in route], places[edge.target])
    for name, lines in boxes.items():
        left, middle, width = places[name]
        colour = (colours or {}).get(name, INK)
        top = middle - heights[name] / 2
        picture.rectangle(left, top, width, heights[name], stroke=colour, radius=5)
        for i, line in enumerate(lines):
            picture.text(left + width / 2, top + _LINE * (i + 1), line, anchor="middle", bold=i == 0)
    return picture


class _Place(NamedTuple):
    """Where a box, or an edge that passes through a column, stands."""

    left: float
    middle: float
    width: float


def _draw_edge(picture: Picture, edge: Edge, source: _Place, route: Sequence[_Place], target: _Place) -> None:
    points = [(source.left + source.width, source.middle)]
    for place in route:
        points += [(place.left, place.middle), (place.left + place.width, place.middle)]
    points.append((target.left - 1, target.middle))
    picture.arrow(*points, colour=edge.colour)
    if edge.label:
        (x1, y1), (x2, y2) = points[:2]
        x, y = (x1 + x2) / 2, (y1 + y2) / 2 - 5
        if abs(y1 - y2) < 8:
            picture.text(x, y, edge.label, anchor="middle", size=11, colour=edge.colour)
        elif y2 < y1:  # beside a line that climbs, to its left; beside one that falls, to its right
            picture.text(x - 4, y, edge.label, anchor="end", size=11, colour=edge.colour)
        else:
            picture.text(x + 5, y + 3, edge.label, size=11, colour=edge.colour)


def _columns(names: Sequence[str], edges: Sequence[Edge]) -> tuple[list[list[str]], list[list[str]]]:
    """The names by column, and for each edge the names of its waypoints: a column that it passes keeps a gap for it."""
    sources: dict[str, list[str]] = {name: [] for name in names}
    for edge in edges:
        sources[edge.target].append(edge.source)
    depth: dict[str, int] = {}
    for name in names:  # sources come before what uses them
        depth[name] = 1 + max((depth[source] for source in sources[name]), default=-1)
    routes = []
    for k, edge in enumerate(edges):
        route = [f"edge {k} in column {column}" for column in range(depth[edge.source] + 1, depth[edge.target])]
        for before, name in zip([edge.source, *route], route):
            depth[name], sources[name] = depth[before] + 1, [before]
        if route:
            sources[edge.target] = [route[-1] if s == edge.source else s for s in sources[edge.target]]
        routes.append(route)
    columns: list[list[str]] = [[] for _ in range(max(depth.values()) + 1)]
    for name in depth:
        columns[depth[name]].append(name)
    height: dict[str, float] = {}
    for column in columns:
        above = {n: sum(height[s] for s in sources[n]) / len(sources[n]) if sources[n] else 0.0 for n in column}
        column.sort(key=lambda name: above[name])
        for i, name in enumerate(column):
            height[name] = (i + 0.5) / len(column)
    return columns, routes
