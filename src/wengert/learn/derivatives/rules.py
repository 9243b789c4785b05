"""The rules of a table of steps: how tangents and adjoints follow from each other, in the names v1, v2, ....

In: the nodes of the table, in order. Out: text such as `a4 * v1 + a6 * cos(v2)`. The local derivatives are those that
Wengert's own rules record (`inspect.symbols`), so nothing but Wengert is needed to write them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from wengert.core.graph import Graph, Node
from wengert.inspect.symbols import call_text, local_derivatives
from wengert.ops.elementwise import power


class Rules:
    """The formulas and rules of the nodes of a table."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self.names = {node: f"v{i + 1}" for i, node in enumerate(nodes)}
        constants = {source for node in nodes for source in node.sources if source not in self.names}
        self._written = {**self.names, **{constant: _constant(constant) for constant in constants}}
        self.slopes = {node: self._local(node) for node in nodes}

    def formula(self, node: Node) -> str:
        """How a value is computed from others: `log(v1)`."""
        return call_text(node, self._written)

    def tangent(self, node: Node) -> str:
        """How the tangent of a value comes from those of its sources: `t1 * v2 + t2 * v1`."""
        return _sum((self._named("t", source), slope) for source, slope in self.slopes[node])

    def adjoint(self, node: Node) -> str:
        """How the adjoint of a value comes from those of the values that use it: a share from each use."""
        uses = ((use, slope) for use, slopes in self.slopes.items() for source, slope in slopes if source is node)
        return _sum((self._named("a", use), slope) for use, slope in uses)

    def _named(self, letter: str, node: Node) -> str:
        return letter + self.names[node][1:]

    def _local(self, node: Node) -> list[tuple[Node, str]]:
        """The derivative of a value with respect to each of its sources that is in the table and moves."""
        if not node.tracked or not node.sources:  # a condition, for one, does not move
            return []
        if node.op is power:
            found = self._of_power(node)
        else:
            found = [(source, text) for source, text, _, _ in local_derivatives(node, self._written) or []]
        return [(source, text) for source, text in found if source in self.names and source.tracked]

    def _of_power(self, node: Node) -> list[tuple[Node, str]]:
        """As textbooks have it. The recorded rule also covers 0^0, and would fill the line."""
        base, exponent = node.sources
        a, b = (self._written[source] for source in node.sources)
        lower = f"{float(b) - 1:g}" if b.replace(".", "", 1).isdigit() else f"({b} - 1)"
        return [(base, f"{b} * {a}^{lower}"), (exponent, f"{self.names[node]} * log({a})")]


def _constant(node: Node) -> str:
    """The value of a node that depends on no input."""
    return f"{float(Graph([], [node], since=0)()[0]):g}"


def _sum(terms: Iterable[tuple[str, str]]) -> str:
    """The sum of products of a tangent or adjoint and a local derivative; equal products are counted."""
    counted = Counter(_product(name, slope) for name, slope in terms if slope != "0")
    texts = [text if count == 1 else f"{count} * {text}" for text, count in counted.items()]
    return " + ".join(texts).replace("+ -", "- ")


def _product(name: str, slope: str) -> str:
    """`a3 / v1` for the adjoint a3 and the local derivative `1 / v1`."""
    if slope in ("1", "-1"):
        return slope.replace("1", name)
    if _is_sum(slope):
        return f"{name} * ({slope})"
    sign = "-" if slope.startswith("-") else ""
    slope = slope.removeprefix("-")
    return f"{sign}{name}{slope[1:]}" if slope.startswith("1 / ") else f"{sign}{name} * {slope}"


def _is_sum(text: str) -> bool:
    """Whether the outermost operator adds or subtracts."""
    depth = 0
    for i, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0 and text[i : i + 3] in (" + ", " - "):
            return True
    return False
