"""Drawings: well-formed SVG with the numbers in it, boxes that do not overlap, arrows from sources to results."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from wengert.learn import draw
from wengert.learn.drawing import (
    Edge,
    Matrix,
    draw_bars,
    draw_curves,
    draw_graph,
    draw_matrices,
    draw_regions,
    draw_steps,
)
from wengert.learn.mytorch import Autograd, Operations
from wengert.learn.value import Value

SVG = "{http://www.w3.org/2000/svg}"


def parsed(picture):
    return ElementTree.fromstring(picture.svg())


def boxes(picture):
    return [tuple(float(r.get(k)) for k in ("x", "y", "width", "height")) for r in parsed(picture).iter(f"{SVG}rect")]


def words(picture):
    return [element.text for element in parsed(picture).iter(f"{SVG}text")]


@pytest.fixture
def value():
    x1, x2 = Value(2.0), Value(5.0)
    y = x1.log() + x1 * x2 - x2.sin()
    y.backward()
    return y, x1, x2


def test_a_value_is_drawn_with_its_data_and_gradients(value):
    picture = draw(*value, derivatives=True)
    assert {"v7 = v5 - v6", "data 11.65", "grad 1.716", "v2 = x2", "0.2837", "-1"} <= set(words(picture))
    assert len(boxes(picture)) == 7 and picture.svg().count("marker-end") == 8
    assert picture._repr_svg_() == picture.svg()


def test_a_tape_is_drawn_as_the_same_graph(value):
    engine = Autograd()
    op = Operations(engine)
    x1, x2 = np.array(2.0), np.array(5.0)
    op.sub(op.add(op.log(x1), op.mul(x1, x2)), op.sin(x2))
    engine.backward(1)
    assert draw(engine, x1, x2).svg() == draw(*value).svg()
    assert "v7 = v5 - v6" in words(draw(engine))  # the inputs are found
    op.sum(op.mul(np.ones((2, 3)), np.ones(3)))
    assert "data of shape (2, 3)" in words(draw(engine))


def test_there_has_to_be_something_to_draw():
    for nothing in (Autograd(), 3.0):
        with pytest.raises(TypeError, match="takes a Value or an engine with a tape"):
            draw(nothing)


def test_boxes_do_not_overlap_and_lie_inside(value):
    picture = draw(*value)
    found = boxes(picture)
    for i, (x, y, width, height) in enumerate(found):
        assert x >= 0 and x + width <= picture.width and y >= 0 and y + height <= picture.height
        for u, v, wide, tall in found[i + 1 :]:
            assert x + width <= u or u + wide <= x or y + height <= v or v + tall <= y


def test_sources_stand_left_of_what_uses_them():
    names = {"a": ["a"], "b": ["b"], "c": ["c", "sum"]}
    picture = draw_graph(names, [Edge("a", "c"), Edge("b", "c", "2 < 3")])
    (a, b, c) = boxes(picture)
    assert a[0] == b[0] and a[0] + a[2] < c[0] and "2 < 3" in words(picture)


def test_a_file_holds_the_same_svg(value, tmp_path):
    picture = draw(*value)
    assert picture.save(tmp_path / "y.svg").read_text() == picture.svg()


def test_curves_lie_within_the_axes():
    picture = draw_curves({"up": [(0, 1), (1, 3)], "down": [(0, 3), (1, 1)]}, "time", "bytes")
    lines = [e.get("points") for e in parsed(picture).iter(f"{SVG}polyline") if e.get("stroke-width") == "2"]
    assert len(lines) == 2
    for x, y in (map(float, point.split(",")) for line in lines for point in line.split()):
        assert 0 <= x <= picture.width and 0 <= y <= picture.height


def test_steps_keep_their_value_for_a_step():
    picture = draw_steps({"memory": [1.0, 4.0, 2.0]}, "time", "MB")
    (line,) = [e.get("points") for e in parsed(picture).iter(f"{SVG}polyline") if e.get("stroke-width") == "2"]
    heights = [point.split(",")[1] for point in line.split()]
    assert len(heights) == 6 and heights[0] == heights[1] != heights[2] == heights[3]


def test_regions_follow_the_sign_of_the_score():
    picture = draw_regions(lambda x, y: x - 0.5, [(0.0, 0.0, False), (1.0, 1.0, True)], cells=10)
    cells = [(float(r.get("x")), float(r.get("width")), r.get("fill")) for r in parsed(picture).iter(f"{SVG}rect")]
    middle = (min(x for x, _, _ in cells) + max(x + width for x, width, _ in cells)) / 2
    assert {colour for x, width, colour in cells if x + width <= middle + 0.2} == {"#3b82f6"}
    assert {colour for x, _, colour in cells if x >= middle - 0.2} == {"#ea580c"}


def test_bars_are_as_long_as_their_numbers():
    picture = draw_bars({"naive": 4.0, "tiled": 1.0}, "bytes")
    assert boxes(picture)[0][2] == pytest.approx(4 * boxes(picture)[1][2])


def test_matrices_have_their_cells_coloured():
    picture = draw_matrices([Matrix("A", 4, 3, [((1, 0, 1, 3), "#ea580c")], "a row"), Matrix("B", 3, 2)], ["@"])
    found = boxes(picture)
    assert found[0][2:] == (42.0, 14.0) and found[1][2:] == (42.0, 56.0) and "@" in words(picture)
    assert re.search(r"<title>matrices</title>", picture.svg())
