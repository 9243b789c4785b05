"""The table of intermediate values v1, v2, ..., with their tangents and adjoints: what Wengert's list looks like.

In: a function of numbers and a point. Out: an ElementaryStep for each value. The tangent of v is its derivative with
respect to one input, which forward mode carries along from the first step to the last; the adjoint of v is the
derivative of the result with respect to v, which reverse mode carries back from the last step to the first. How each
follows from others is written by `rules`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wengert.autodiff.forward import forward
from wengert.autodiff.reverse import or_zero, reverse
from wengert.core.dtypes import float64
from wengert.core.errors import ArgumentError
from wengert.core.graph import Graph, Node, dependents
from wengert.learn.derivatives.recorded import Function, argument_names, record
from wengert.learn.derivatives.rules import Rules
from wengert.ops.core import literal


@dataclass
class ElementaryStep:
    """One line of the list."""

    name: str  # v3
    formula: str  # log(v1)
    value: float
    tangents: list[float]  # its derivative with respect to each input: forward mode
    adjoint: float  # the derivative of the result with respect to it: reverse mode
    tangent_rule: str = ""  # t1 / v1, where t is a tangent; empty where nothing depends on an input
    adjoint_rule: str = ""  # a5 + a6 * v2, where a is an adjoint; empty for the result


def steps(function: Function, point: Sequence[float]) -> list[ElementaryStep]:
    """The intermediate values of a function at a point: first its inputs, last its result."""
    recorded = record(function, len(point))
    names = argument_names(function, point)
    inputs = recorded.inputs
    nodes = [*inputs, *dependents([recorded.output], inputs)]
    if recorded.output not in nodes:
        raise ArgumentError(f"compare: the result does not depend on {', '.join(names)}")
    for node in nodes:
        if node.shape != ():
            raise ArgumentError(f"compare: {node.op.name} gives shape {node.shape}; only numbers make a table of steps")
    values, tangents, adjoints = _computed(inputs, nodes, point)
    written = Rules(nodes)
    found = []
    for i, node in enumerate(nodes):
        formula = written.formula(node) if node.sources else names[i]
        by_input, rules = [row[i] for row in tangents], (written.tangent(node), written.adjoint(node))
        found.append(ElementaryStep(f"v{i + 1}", formula, values[i], by_input, adjoints[i], *rules))
    return found


def _computed(
    inputs: list[Node], nodes: list[Node], point: Sequence[float]
) -> tuple[list[float], list[list[float]], list[float]]:
    """The values of the nodes at a point; their tangents with respect to each input; their adjoints."""
    one = literal(1.0, float64)
    rows: list[list[Any]] = [[*nodes]]
    rows += [forward(nodes, inputs, [one if i is j else None for j in inputs]) for i in inputs]
    tracked = [node for node in nodes if node.tracked]  # no derivative passes through the others
    adjoints = dict(zip(tracked, reverse([nodes[-1]], [one], tracked)))
    rows.append([adjoints.get(node) for node in nodes])
    outputs = [or_zero(node, like) for row in rows for node, like in zip(row, nodes)]
    graph = Graph(inputs, outputs, since=0)
    results = [float(value) for value in graph(*[np.array(x, float64) for x in point])]
    values, *tangents, back = [results[i : i + len(nodes)] for i in range(0, len(results), len(nodes))]
    return values, tangents, back
