"""The adjoint of each value as the chain rule has it: a sum over the paths from the value to the result.

In: a recorded computation and its names. Out: for each forward node its local derivatives and its adjoint, whose terms
are in the order in which the backward pass adds them.
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from wengert.core.graph import Node
from wengert.inspect.names import adjoint_name
from wengert.inspect.recorded import RecordedCall, Value, evaluate
from wengert.inspect.summary import number, summary
from wengert.inspect.symbols import COTANGENT, local_derivatives


class LocalDerivative(NamedTuple):
    """The derivative of a node with respect to one of its sources."""

    source: Node
    symbols: str
    node: Node | None  # what computes it, of an elementwise op; of others the symbols pull back a cotangent
    value: Value | None


class Adjoints:
    """The local derivatives and adjoints of a computation's forward nodes."""

    def __init__(self, recorded: RecordedCall, names: Mapping[Node, str], numbers: Mapping[Node, int]) -> None:
        self._recorded = recorded
        self._names = names
        self._numbers = numbers
        self.cotangent_of_rule: dict[Node, Node] = {}  # by forward node: the placeholder that stands for 1 in its rule
        self.local = {node: self._local(node) for node in recorded.forward}
        self._paths: dict[Node, list[tuple[Node, LocalDerivative | None]]] = {}
        for reader in reversed(recorded.forward):
            self._note_paths(reader)

    def _note_paths(self, reader: Node) -> None:
        """Note the local derivatives through which a node's adjoint reaches its sources; None if it has no symbols."""
        if self._recorded.observed.cotangents.get(reader) is None or reader in self._recorded.given:
            return
        for each in self.local[reader]:
            self._paths.setdefault(each.source, []).append((reader, each))
        written = {each.source for each in self.local[reader]}
        for source in dict.fromkeys(reader.sources):
            if source.tracked and source not in written and isinstance(reader.dtype, tuple):
                self._paths.setdefault(source, []).append((reader, None))

    def _local(self, node: Node) -> list[LocalDerivative]:
        if not node.tracked or node in self._recorded.given:
            return []
        found = []
        for source, symbols, derivative, cotangent in local_derivatives(node, self._names) or []:
            value = None
            if derivative is not None and node in self._recorded.values:
                ones = {cotangent: np.ones(node.shape, node.dtype)}
                values: Any = ChainMap(ones, self._recorded.values)
                evaluate([derivative], values)
                value = values[derivative]
                self.cotangent_of_rule[node] = cotangent
            found.append(LocalDerivative(source, symbols, derivative, value))
        return found

    # --- as data ------------------------------------------------------------------------------------------------

    def derivatives_data(self, node: Node) -> list[dict[str, Any]]:
        """The derivative of a node with respect to each of its sources, for the page."""
        found = []
        for each in self.local[node]:
            if each.source in self._numbers:
                data = {"of": self._numbers[each.source], "symbols": each.symbols, "local": each.node is not None}
                if each.value is not None:
                    data |= {"value": summary(each.value), **scalar(each.value)}
                found.append(data)
        return found

    def data(self, node: Node) -> dict[str, Any] | None:
        """The adjoint of a node for the page; None if no gradient passes through it."""
        cotangent = self._cotangent(node)
        if cotangent is None:
            return None
        found: dict[str, Any] = {"name": adjoint_name(self._names[node])} | self._described(cotangent)
        paths = self._paths.get(node, [])
        if not paths or node in self._seeded():
            found["seed"] = True
        if len(paths) == 1 and self._cotangent(paths[0][0]) is cotangent:
            found["same_as"] = adjoint_name(self._names[paths[0][0]])
        nodes = self._recorded.observed.terms_of(cotangent)
        terms = [self._term(node, *path) for path in paths]
        if terms and node in self._seeded():
            terms.insert(0, {"reader": self._numbers[node], "text": "1, because it is a result", "symbols": "1"})
        if len(nodes) == len(terms):
            terms = [term | self._described(each) for term, each in zip(terms, nodes)]
        if terms:
            found["terms"] = terms
        known = [term["scalar"] for term in terms if "scalar" in term]
        if len(terms) > 1 and len(known) == len(terms) and "scalar" in found:
            found["sum"] = f"{' + '.join(known).replace('+ -', '- ')} = {found['scalar']}"
        return found

    def _seeded(self) -> Sequence[Node]:
        return self._recorded.outputs if self._recorded.specialization is None else ()

    def _cotangent(self, node: Node) -> Node | None:
        """The cotangent of a node with one result."""
        found = self._recorded.observed.cotangents.get(node)
        return found if isinstance(found, Node) else None

    def _term(self, node: Node, reader: Node, each: LocalDerivative | None) -> dict[str, Any]:
        """One path: the reader's adjoint times its derivative with respect to the node."""
        bar = adjoint_name(self._names[reader])
        term: dict[str, Any] = {"reader": self._numbers[reader]}
        if each is None:
            return term | {"text": f"the rule of {reader.op.name}, applied to {bar}", "symbols": ""}
        if each.node is None:
            return term | {"text": each.symbols.replace(COTANGENT, bar), "symbols": each.symbols}
        term |= {"text": f"{bar} * ∂{self._names[reader]}/∂{self._names[node]}", "symbols": each.symbols}
        cotangent = self._cotangent(reader)
        values = [self._recorded.values.get(cotangent) if cotangent is not None else None, each.value]
        numbers = [scalar(value)["scalar"] for value in values if value is not None and scalar(value)]
        return term | ({"numbers": " * ".join(numbers)} if len(numbers) == 2 else {})

    def _described(self, node: Node) -> dict[str, Any]:
        found: dict[str, Any] = {"node": self._numbers[node]} if node in self._numbers else {}
        value = self._recorded.values.get(node)
        return found | (scalar(value) if value is not None else {})


def scalar(value: Value) -> dict[str, str]:
    """The text of a value of one element; empty for others."""
    if isinstance(value, tuple) or np.size(value) != 1:
        return {}
    return {"scalar": number(np.asarray(value).ravel().tolist()[0])}
