"""Drawings of what was computed: a `Value` with all that it depends on, and the tape of a `mytorch` engine.

In each box are the name and the formula of a value, its data and its gradient, as in micrograd's drawings.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wengert.learn.drawing.graphs import Edge, draw_graph
from wengert.learn.drawing.svg import GREY, Picture
from wengert.learn.mytorch import Autograd
from wengert.learn.value.engine import Value, in_order
from wengert.learn.wengert_list import names_of, wengert_list


def draw(computation: Value | Autograd, *inputs: Any, derivatives: bool = False) -> Picture:
    """The graph of a Value, or of the tape of a `mytorch` engine: in each box a value's formula, data and gradient.

    Name the inputs to have v1, v2, ... count from them; without them all values are inputs that nothing computed.
    `derivatives` writes the local derivative of a Value beside each arrow. A notebook shows the picture; `save` writes
    it to a file.

    >>> x1, x2 = Value(2.0), Value(5.0)
    >>> y = x1 * x2 + x1
    >>> y.backward()
    >>> picture = draw(y, x1, x2)
    >>> "v3 = v1 * v2" in picture.svg(), "grad 6" in picture.svg()
    (True, True)
    """
    if isinstance(computation, Value):
        values = inputs or tuple(value for value in in_order(computation) if not value._sources)
        return _draw_value(computation, values, derivatives)
    return _drawn(wengert_list(computation, *(inputs or _unwritten(computation))), len(inputs), {})


def _draw_value(result: Value, inputs: tuple[Value, ...], derivatives: bool) -> Picture:
    names = names_of(result, inputs)
    labels = {
        (names[source], name, k): f"{slope:.4g}"
        for value, name in names.items()
        for k, (source, slope) in enumerate((s, d) for s, d in value._sources if s in names)
    }
    return _drawn(wengert_list(result, *inputs), len(inputs), labels if derivatives else {})


def _drawn(lines: Any, inputs: int, labels: dict[tuple[str, str, int], str]) -> Picture:
    boxes = {
        line.name: [f"{line.name} = {line.formula}", f"data {_figure(line.value)}", f"grad {_figure(line.adjoint)}"]
        for line in lines
    }
    edges = [
        Edge(source, line.name, labels.get((source, line.name, k), ""))
        for line in lines
        for k, source in enumerate(line.sources)
    ]
    return draw_graph(boxes, edges, f"the graph of {lines[-1].name}", {line.name: GREY for line in lines[:inputs]})


def _unwritten(engine: Any) -> list[Any]:
    """The arrays that operations read and none of them wrote, in the order in which they are read."""
    if not isinstance(engine, Autograd) or not engine.operation_list:
        raise TypeError(f"draw: there is nothing to draw in {engine!r}; it takes a Value or an engine with a tape")
    written = {id(operation.output) for operation in engine.operation_list}
    read = {id(array): array for operation in engine.operation_list for array in operation.inputs}
    return [array for place, array in read.items() if place not in written]


def _figure(value: Any) -> str:
    return f"{float(value):.4g}" if np.size(value) == 1 else f"of shape {np.shape(value)}"
