"""The table of intermediate values v1, v2, ..., with their tangents and adjoints: what Wengert's list looks like.

In: a function of numbers and a point. Out: a Step for each value. The tangent of v is its derivative by one input,
which forward mode carries along from the first step to the last; the adjoint of v is the derivative of the result by v,
which reverse mode carries back from the last step to the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wengert.autodiff import symbolic
from wengert.autodiff.forward import forward
from wengert.autodiff.reverse import or_zero, reverse
from wengert.core.dtypes import float64
from wengert.core.errors import ArgumentError, GradientError
from wengert.core.graph import Graph, Node, dependents
from wengert.learn.derivatives.recorded import Function, argument_names, record
from wengert.ops.core import literal
from wengert.ops.elementwise import add, divide, multiply, negative, power, subtract
from wengert.ops.op import Op

INFIX: dict[Op, str] = {add: "+", subtract: "-", multiply: "*", divide: "/", power: "**"}


@dataclass
class ElementaryStep:
    """One line of the list."""

    name: str  # v3
    formula: str  # log(v1)
    value: float
    tangents: list[float]  # its derivative by each input: forward mode
    adjoint: float  # the derivative of the result by it: reverse mode
    tangent_rule: str = ""  # t1/v1, where t is a tangent; empty without SymPy
    adjoint_rule: str = ""  # a6*v2 + a5, where a is an adjoint


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
    written = _Writing(nodes)
    found = []
    for i, node in enumerate(nodes):
        formula = written.formula(node) if node.sources else names[i]
        by_input = [row[i] for row in tangents]
        found.append(ElementaryStep(f"v{i + 1}", formula, values[i], by_input, adjoints[i], *written.rules(node)))
    return found


def _computed(
    inputs: list[Node], nodes: list[Node], point: Sequence[float]
) -> tuple[list[float], list[list[float]], list[float]]:
    """The values of the nodes at a point; their tangents by each input; the adjoints of the last one by them."""
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


class _Writing:
    """Formulas and rules in the names v1, v2, ... of the steps."""

    def __init__(self, nodes: list[Node]) -> None:
        self.names = {node: f"v{i + 1}" for i, node in enumerate(nodes)}
        self.slopes = {node: _slopes(node, self.names) for node in nodes}

    def formula(self, node: Node) -> str:
        """How a value is computed from others."""
        parts = [self.names[s] if s in self.names else f"{_number(s):g}" for s in node.sources]
        if node.op in INFIX:
            return f" {INFIX[node.op]} ".join(parts)
        return f"-{parts[0]}" if node.op is negative else f"{node.op.name}({', '.join(parts)})"

    def rules(self, node: Node) -> tuple[str, str]:
        """How the tangent of a value comes from those of its sources, and its adjoint from those of its uses."""
        tangent = [(source, slope) for source, slope in self.slopes[node].items()]
        adjoint = [(use, slopes[node]) for use, slopes in self.slopes.items() if node in slopes]
        return self._sum("t", tangent), self._sum("a", adjoint)

    def _sum(self, letter: str, terms: list[tuple[Node, Any]]) -> str:
        products = [symbolic.symbol(letter + self.names[node][1:]) * slope for node, slope in terms]
        return " + ".join(str(product) for product in products if product != 0).replace("+ -", "- ")


def _slopes(node: Node, names: dict[Node, str]) -> dict[Node, Any]:
    """The derivative of a value by each of its sources, as a formula in their names; none without a symbolic form."""
    try:
        symbols = {s: symbolic.symbol(names[s]) if s in names else symbolic.constant(s) for s in node.sources}
        formula = symbolic.as_expression(node, [symbols[s] for s in node.sources])
    except (ImportError, GradientError):
        return {}
    moving = [s for s in symbols if s in names and s.tracked and node.tracked]  # conditions, for one, do not move
    return {s: symbolic.settled(formula.diff(symbols[s])) for s in moving}


def _number(node: Node) -> float:
    """The value of a constant."""
    return float(Graph([], [node], since=0)()[0])
