"""A recorded computation as plain data: what the page's scripts draw.

In: a RecordedCall. Out: dictionaries and lists, ready for JSON. A node is described once, by its number; edges,
gradients, rules and groups are numbers. Fields in brackets may be absent. The page:

    title, differentiated     the function's name; whether the gradients have been computed
    forward, backward         the nodes, in the order in which they are computed
    inputs, outputs           numbers of forward nodes; the inputs in the order of the function's arguments
    groups                    see below; of a Tensor, which was recorded before anything watched, only those of modules
    [formulas]                of a function of a few numbers: what a browser needs to compute the page anew
    [compiler], [ranks]       of a compiled function; see `passes` and `ranks`

A node:

    id, name, op, type        `v3`, a parameter's own name, or `c1` of a constant; inputs are v1, v2, ..., as in
                              `wg.learn.compare`
    sources, text             numbers of nodes; `log(v1)`
    [given], [role], [label]  an "argument", "leaf", "parameter", "buffer" or "constant"; its name in the program (`x1`)
    [group], [function]       the innermost group it belongs to; the public function that recorded it, `cross_entropy`
    [module]                  the path of its module, as a list
    [value], [scalar]         what is known of its value (`summary`); the text of a value of one element
    [seconds]                 from a profile: the mean of one time
    [accumulates], [assigns]  the tensor whose `grad`, or whose value, it becomes
    [line], [source], [attrs]

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
    [output], [inputs]        the type of what comes out of it; a list of those that go in, parameters aside
    [parameters]              how many elements its parameters have, those of the modules inside included
    [seconds]                 from a profile
    [line], [source]          the line of the call

A call that shows as a single node is no group: the node stands for it. What was recorded outside of modules and calls
has no group. `formulas` is there only if all nodes have one element and every op a JavaScript expression:

    inputs                    [id, value] of each input that may be moved
    given                     by id, the values of all nodes where the computation begins
    functions                 by name, JavaScript functions: what `f` holds
    steps                     [id, JavaScript], in order: expressions of `v[id]` and `f.name(...)`, gradient included
    derivatives               [id, position, JavaScript] of the local derivatives
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from wengert.core.graph import Node, describe_type
from wengert.inspect.adjoints import Adjoints, scalar
from wengert.inspect.calls import WatchedCall
from wengert.inspect.formulas import formulas
from wengert.inspect.groups import Groups
from wengert.inspect.lines import line_of
from wengert.inspect.names import adjoint_name, value_names
from wengert.inspect.recorded import ARGUMENT, CONSTANT, RecordedCall
from wengert.inspect.summary import summary
from wengert.inspect.symbols import call_text
from wengert.inspect.times import Times


def as_data(recorded: RecordedCall, times: Times | None = None) -> dict[str, Any]:
    """The computation for the page, with times if a profile has some."""
    return _Model(recorded, times).data()


class _Model:
    """The numbers and names of the nodes, and the description of each."""

    def __init__(self, recorded: RecordedCall, times: Times | None) -> None:
        self.recorded = recorded
        self.times = times
        nodes = [*recorded.forward, *recorded.backward]
        self.numbers = {node: i for i, node in enumerate(nodes)}
        self.names = node_names(recorded)
        self.groups = Groups(recorded, times)
        self.adjoints = Adjoints(recorded, self.names, self.numbers)
        self.accumulated, self.assigned = recorded.accumulated_nodes(), recorded.assigned_nodes()
        self.seeds = recorded.observed.adjoint_nodes()  # where no rule recorded them
        self.adjoint_of: dict[Node, list[Node]] = {}
        for node in recorded.forward:
            for cotangent in _cotangents(recorded, node):
                if cotangent is not None:
                    self.adjoint_of.setdefault(cotangent, []).append(node)

    def data(self) -> dict[str, Any]:
        recorded = self.recorded
        found = {
            "title": recorded.title,
            "differentiated": recorded.differentiated,
            "forward": [self._description(node) | self._derivatives(node) for node in recorded.forward],
            "backward": [self._description(node) | self._gradient(node) for node in recorded.backward],
            "inputs": self._numbered(recorded.inputs),
            "outputs": self._numbered(recorded.outputs),
            "groups": self.groups.data(self.numbers),
        }
        computed_anew = formulas(recorded, self.numbers, self.adjoints)
        return found | ({"formulas": computed_anew} if computed_anew is not None else {})

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
        if node in self.recorded.given:
            described |= {"given": True, "sources": []} | self._origin(node)
        else:
            described["text"] = call_text(node, self.names)
        attrs = {key: str(value)[:200] for key, value in node.attrs.items() if key not in ("slot", "body")}
        if attrs:
            described["attrs"] = attrs
        described |= self._place(node)
        for word, named in (("accumulates", self.accumulated), ("assigns", self.assigned)):
            if node in named:
                described[word] = named[node]
        described |= line_of(node.location)
        if node in self.recorded.values:
            value = self.recorded.values[node]
            described |= {"value": summary(value)} | scalar(value)
        return described

    def _origin(self, node: Node) -> dict[str, Any]:
        """The role of an input or parameter, and its name in the program."""
        role = self.recorded.given[node]
        label = self.recorded.names.get(node)
        if label is None:
            return {"role": role, "text": role}
        return {"role": role, "label": label, "text": label if role == ARGUMENT else f"{label} ({role})"}

    def _place(self, node: Node) -> dict[str, Any]:
        """The call that a node belongs to."""
        found: dict[str, Any] = {}
        call: WatchedCall | None = self.groups.calls[node]
        group = self.groups.of.get(node)
        if group is not None:
            found["group"] = group.number
        if call is not None and call.path:
            found["module"] = list(call.path)
        if call is not None and call.function and node not in self.recorded.given:
            found["function"] = call.function
        seconds = self.times.of_node(node, call) if self.times is not None else None
        return found | ({"seconds": seconds} if seconds else {})

    def _derivatives(self, node: Node) -> dict[str, Any]:
        """The local derivatives and the adjoint of a forward node."""
        described: dict[str, Any] = {"cotangents": self._numbered(_cotangents(self.recorded, node))}
        derivatives = self.adjoints.derivatives_data(node)
        if derivatives:
            described["derivatives"] = derivatives
        adjoint = self.adjoints.data(node)
        return described | ({"adjoint": adjoint} if adjoint is not None else {})

    def _gradient(self, node: Node) -> dict[str, Any]:
        """The part that a node of the gradient plays in the chain rule."""
        observed = self.recorded.observed
        found: dict[str, Any] = {"adjoint_of": self._numbered(self.adjoint_of.get(node, []))}
        if node in self.recorded.given:
            return found
        if node in observed.sums:
            terms = self._numbered(observed.terms_of(node))
            at = self._numbered([observed.sums[node]])
            return found | {"role": "accumulation", "terms": terms} | ({"at": at[0]} if at else {})
        forward = observed.forward_of(node)
        if forward is None:
            return found | {"role": "seed" if node in self.seeds else "step"}
        rule = self._numbered([forward])
        return found | {"role": "step"} | ({"rule": rule[0]} if rule else {})


def _cotangents(recorded: RecordedCall, node: Node) -> list[Node | None]:
    """The cotangents of a node, one for each result."""
    found = recorded.observed.cotangents.get(node)
    return found if isinstance(found, list) else [found]


def node_names(recorded: RecordedCall) -> dict[Node, str]:
    """The names of all nodes: v1, v2, ... for values, v̄1, v̄2, ... for adjoints, g1, g2, ... for steps between."""
    own = {node: name for node, name in recorded.names.items() if recorded.given.get(node) != ARGUMENT}
    constants = [node for node, role in recorded.given.items() if role == CONSTANT and node not in own]
    own |= {node: f"c{i + 1}" for i, node in enumerate(constants)}
    names = value_names(recorded.inputs, recorded.forward, own)
    for node in reversed(recorded.observed.cotangents):  # the last one reported, nearest to the output, gives the name
        if node in names:
            names.update((g, adjoint_name(names[node])) for g in _cotangents(recorded, node) if g is not None)
    unnamed = [node for node in recorded.backward if node not in names]
    return names | {node: f"g{i + 1}" for i, node in enumerate(unnamed)}
