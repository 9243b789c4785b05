"""A recorded computation as plain data: what the page's scripts draw.

In: a RecordedCall. Out: dictionaries and lists, ready for JSON. A node is described once, by its number; edges,
gradients, rules and groups are numbers. Fields in brackets may be absent. The page:

    title, differentiated     the function's name; whether the gradients have been computed
    forward, backward         the nodes, in the order in which they are computed
    inputs, outputs           numbers of forward nodes; the inputs in the order of the function's arguments
    groups                    see below; none for a Tensor that was recorded before anything watched
    [formulas]                of a function of a few numbers: what a browser needs to compute the page anew
    [compiler], [ranks]       of a compiled function; see `passes` and `ranks`

A node:

    id, name, op, type        `v3`, or a parameter's own name; inputs are v1, v2, ..., as in `wg.learn.compare`
    sources, text             numbers of nodes; `log(v1)`
    [given], [role], [label]  an "argument", "parameter", "buffer" or "constant", and its name in the program (`x1`)
    [group], [function]       the innermost group it belongs to; the public function that recorded it, `cross_entropy`
    [module]                  the path of its module
    [value], [scalar]         what is known of its value (`summary`); the text of a value of one element
    [line], [source], [attrs], [accumulates]

A forward node has besides

    cotangents                the numbers of its adjoints' nodes
    [derivatives]             with respect to each source: of, symbols, local, [value], [scalar]
    [adjoint]                 name (`v̄3`), [node], [scalar], [same_as] (`v̄5`: the adjoint of which it is the same node),
                              [seed] (true where the backward pass begins),
                              [terms]: reader, text (`v̄6 * ∂v6/∂v2`), symbols, [node], [scalar] (-0.283662),
                              [numbers] (`-1 * 0.283662`); one for each path over which the adjoint is accumulated
                              [sum]: `-0.283662 + 2 = 1.71634`, where there are several terms and all are numbers

and a node of the gradient

    role                      "seed", "accumulation" (the sum of the terms of an adjoint) or "step"
    [rule], [at]              the forward node whose rule recorded it; of an accumulation the node whose adjoint it is
    [terms]                   of an accumulation: the numbers of the nodes that it adds
    adjoint_of                the forward nodes of which it is the adjoint

A group is one call, of a module or of a public function. Groups nest, and a node belongs to the innermost one:

    id, kind, side            "module" or "function"; "forward" or "backward"
    label                     `conv1`, `cross entropy`; in the gradient `cross entropy backward`
    [parent], [of]            the group around it; in the gradient, the forward group that it differentiates
    module, [class]           the path (`ResNet.layer1.0.conv1`), and the module's class (`Conv2d`)
    [function]                the function's public name
    nodes                     those recorded directly in it, not those of the groups inside
    leaf                      whether no module is inside: such a group is one box at first sight
    [output], [inputs]        types of what comes out of it and of what goes in, parameters aside
    [parameters]              how many elements its parameters have, those of the modules inside included
    [seconds]                 from a profile
    [line], [source]          the line of the call

A call that shows as a single node is no group: the node stands for it. What was recorded outside of modules and calls
has no group. `formulas` is

    inputs                    [id, value] of each input that may be moved
    steps                     [id, JavaScript], in order: each is an expression of `v[id]`, also for the gradient's nodes
    derivatives               [id, position, JavaScript]: of the local derivatives

and is there only if all nodes have one element and every op a JavaScript expression.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from wengert.core.graph import Node, describe_type, has_array
from wengert.inspect.lines import line_of
from wengert.inspect.recorded import RecordedCall, evaluate
from wengert.inspect.summary import summary
from wengert.inspect.symbols import call_text, local_derivatives
from wengert.ops.core import DATA, PLACEHOLDER, VARIABLE


def is_given(node: Node) -> bool:
    """Whether a node is where a computation begins: an argument, a parameter, a value with no history."""
    return node.op in (DATA, PLACEHOLDER, VARIABLE) or (not node.sources and has_array(node))


def as_data(recorded: RecordedCall) -> dict[str, Any]:
    """The computation for the page."""
    return _Model(recorded).data()


class _Model:
    """The numbers and names of the nodes, and the description of each."""

    def __init__(self, recorded: RecordedCall) -> None:
        self.recorded = recorded
        nodes = [*recorded.forward, *recorded.backward]
        self.numbers = {node: i for i, node in enumerate(nodes)}
        self.names = _named(recorded)
        self.modules = _modules(recorded, nodes)
        self.accumulated = recorded.accumulated_nodes()

    def data(self) -> dict[str, Any]:
        recorded = self.recorded
        return {
            "title": recorded.title,
            "forward": [self._description(node) | self._derivatives(node) for node in recorded.forward],
            "backward": [self._description(node) | self._rule(node) for node in recorded.backward],
            "outputs": self._numbered(recorded.outputs),
            "differentiated": recorded.differentiated,
        }

    def _numbered(self, nodes: Iterable[Node | None]) -> list[int]:
        return [self.numbers[node] for node in nodes if node in self.numbers]

    def _description(self, node: Node) -> dict[str, Any]:
        """The description of every node."""
        described: dict[str, Any] = {
            "id": self.numbers[node],
            "name": self.names[node],
            "op": node.op.name,
            "type": describe_type(node),
            "sources": list(dict.fromkeys(self._numbered(node.sources))),
        }
        if is_given(node):
            described |= {"given": True, "sources": [], "text": "given"}
        else:
            described["text"] = call_text(node, self.names)
        attrs = {key: str(value)[:200] for key, value in node.attrs.items() if key not in ("slot", "body")}
        if attrs:
            described["attrs"] = attrs
        if self.modules[node]:
            described["module"] = list(self.modules[node])
        if node in self.accumulated:
            described["accumulates"] = self.accumulated[node]
        described |= line_of(node.location)
        if node in self.recorded.values:
            described["value"] = summary(self.recorded.values[node])
        return described

    def _derivatives(self, node: Node) -> dict[str, Any]:
        """Of a forward node: its cotangents, and its derivative by each source in symbols and in numbers."""
        described: dict[str, Any] = {"cotangents": self._numbered(_cotangents(self.recorded, node))}
        found = local_derivatives(node, self.names) if node.tracked and not is_given(node) else None
        if found:
            described["derivatives"] = [self._derivative(node, *each) for each in found if each[0] in self.numbers]
        return described

    def _derivative(self, node: Node, source: Node, text: str, derivative: Node | None, g: Node) -> dict[str, Any]:
        described: dict[str, Any] = {"of": self.numbers[source], "symbols": text, "local": derivative is not None}
        if derivative is not None and node in self.recorded.values:
            values = {**self.recorded.values, g: np.ones(node.shape, node.dtype)}
            evaluate([derivative], values)
            described["value"] = summary(values[derivative])
        return described

    def _rule(self, node: Node) -> dict[str, Any]:
        """Of a gradient's node: the forward node whose rule recorded it."""
        forward = self.recorded.observed.forward_of(node)
        return {"rule": self.numbers[forward]} if forward in self.numbers else {}


def _modules(recorded: RecordedCall, nodes: Sequence[Node]) -> dict[Node, tuple[str, ...]]:
    """The module of each node; what was given is where it is first used."""
    found = recorded.observed.modules_in(nodes)
    for node in reversed(nodes):
        for source in node.sources:
            if source in found and is_given(source):
                found[source] = found[node]
    return found


def _cotangents(recorded: RecordedCall, node: Node) -> list[Node | None]:
    """The cotangents of a node: one, or for several results one each."""
    found = recorded.observed.cotangents.get(node)
    return found if isinstance(found, list) else [found]


def _named(recorded: RecordedCall) -> dict[Node, str]:
    """Textbook names: what was given by its own, then v1, v2, ...; a cotangent after its value, other gradients' nodes
    g1, g2, ...
    """
    names = dict(recorded.names)
    for letter, nodes in (("v", recorded.forward), ("g", recorded.backward)):
        unnamed = [node for node in nodes if node not in names]
        names.update((node, f"{letter}{i + 1}") for i, node in enumerate(unnamed))
    for node in reversed(recorded.observed.cotangents):  # the last one reported, nearest to the output, gives the name
        if node in names:
            own = names[node]
            barred = f"{own[0]}\u0304{own[1:]}" if len(own) < 5 else f"grad {own}"
            names.update((g, barred) for g in _cotangents(recorded, node) if g is not None)
    return names
