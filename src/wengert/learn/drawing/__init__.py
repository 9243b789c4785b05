"""Drawings of the lessons, as SVG made in Python alone.

`svg` has the Picture that all of them are; `graphs` draws boxes and arrows; `computations` the graph of a `Value` or a
tape (`draw`); `plots` curves, bars, quantities over time and regions of the plane; `tiles` matrices with their tiles.
"""

from wengert.learn.drawing.computations import draw
from wengert.learn.drawing.graphs import Edge, draw_graph
from wengert.learn.drawing.plots import draw_bars, draw_curves, draw_regions, draw_steps
from wengert.learn.drawing.svg import Picture
from wengert.learn.drawing.tiles import Matrix, draw_matrices

__all__ = [
    *("Edge", "Matrix", "Picture", "draw", "draw_bars", "draw_curves", "draw_graph", "draw_matrices", "draw_regions"),
    "draw_steps",
]
