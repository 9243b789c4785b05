"""Graphs as boxes and arrows, from left to right: a Value and all that it was computed from, or any boxes and edges.

In: boxes by name with a few lines of text each, and edges between names. Out: a Picture. A box stands in the column
after its last source, and columns are ordered so that few edges cross.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from wengert.learn.drawing.svg import GREY, INK, Picture
from wengert.learn.value.engine import Value, in_order
from wengert.learn.wengert_list import formula_of, names_of

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
    columns = _columns(list(boxes), edges)
    widths = [max(max(map(len, boxes[name])) for name in column) * _LETTER + 20 for column in columns]
    heights = {name: len(lines) * _LINE + 12 for name, lines in boxes.items()}
    tall = max(sum(heights[name] + _GAP_Y for name in column) for column in columns) - _GAP_Y
    labels = max((len(edge.label) for edge in edges), default=0)
    gap = max(_GAP_X, labels * 6.6 + 24)
    picture = Picture(sum(widths) + gap * (len(columns) - 1) + 2 * _MARGIN, tall + 2 * _MARGIN, title)
    places: dict[str, tuple[float, float, float]] = {}  # left, middle, width
    x = float(_MARGIN)
    for column, width in zip(columns, widths):
        y = _MARGIN + (tall - sum(heights[name] + _GAP_Y for name in column) + _GAP_Y) / 2
        for name in column:
            places[name] = (x, y + heights[name] / 2, width)
            y += heights[name] + _GAP_Y
        x += width + gap
    for edge in edges:
        _draw_edge(picture, edge, places)
    for name, lines in boxes.items():
        left, middle, width = places[name]
        colour = (colours or {}).get(name, INK)
        top = middle - heights[name] / 2
        picture.rectangle(left, top, width, heights[name], stroke=colour, radius=5)
        for i, line in enumerate(lines):
            picture.text(left + width / 2, top + _LINE * (i + 1), line, anchor="middle", bold=i == 0)
    return picture


def _draw_edge(picture: Picture, edge: Edge, places: Mapping[str, tuple[float, float, float]]) -> None:
    (left, start, width), (right, stop, _) = places[edge.source], places[edge.target]
    picture.arrow((left + width, start), (right - 1, stop), colour=edge.colour)
    if edge.label:
        middle = (left + width + right) / 2
        picture.text(middle, (start + stop) / 2 - 6, edge.label, anchor="middle", size=11, colour=edge.colour)


def _columns(names: Sequence[str], edges: Sequence[Edge]) -> list[list[str]]:
    """The names by column: the longest path to each, then ordered by where its sources stand."""
    sources: dict[str, list[str]] = {name: [] for name in names}
    for edge in edges:
        sources[edge.target].append(edge.source)
    depth: dict[str, int] = {}
    for name in names:  # sources come before what uses them
        depth[name] = 1 + max((depth[source] for source in sources[name]), default=-1)
    columns: list[list[str]] = [[] for _ in range(max(depth.values()) + 1)]
    height: dict[str, float] = {}
    for name in sorted(names, key=lambda name: depth[name]):
        columns[depth[name]].append(name)
    for column in columns:
        above = {n: sum(height[s] for s in sources[n]) / len(sources[n]) if sources[n] else 0.0 for n in column}
        column.sort(key=lambda name: above[name])
        for i, name in enumerate(column):
            height[name] = (i + 0.5) / len(column)
    return columns


def draw_value(result: Value, *inputs: Value, derivatives: bool = False) -> Picture:
    """The graph of a Value: in each box its name and formula, its data and its gradient.

    Name the inputs to have v1, v2, ... count from them; without them every leaf is an input. `derivatives` writes the
    local derivative beside each arrow.
    """
    inputs = inputs or tuple(value for value in in_order(result) if not value._sources)
    names = names_of(result, inputs)
    boxes, edges = {}, []
    for value, name in names.items():
        text = formula_of(value, names) if value._sources else f"x{name[1:]}"
        boxes[name] = [f"{name} = {text}", f"data {value.data:.4g}", f"grad {value.grad:.4g}"]
        for source, slope in value._sources:
            if source in names:
                edges.append(Edge(names[source], name, f"{slope:.4g}" if derivatives else ""))
    colours = {names[value]: GREY for value in inputs}
    return draw_graph(boxes, edges, f"the graph of {list(names.values())[-1]}", colours)
