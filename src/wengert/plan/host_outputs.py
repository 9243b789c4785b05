"""Outputs of a program on a GPU: each has memory of its own, and the host computes those that it can by itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from wengert.compiler.constants import number
from wengert.compiler.fuel import spend
from wengert.compiler.storage import storage
from wengert.core.dtypes import INTEGER
from wengert.core.graph import Graph, Node, recorded_as
from wengert.ops import elementwise as e
from wengert.ops.core import CAST
from wengert.plan.plan import HostOutputs, Plan


def device_of(graph: Graph) -> str:
    """The GPU that a graph's values are on."""
    for node in (*graph.nodes, *graph.inputs, *graph.outputs):
        if node.device != "cpu":
            return node.device
    raise ValueError("no value of this graph is on a GPU")


def with_own_outputs(graph: Graph) -> Graph:
    """The graph with a copy for each output that lies where another does, as equal gradients do: none may alias."""
    made, seen = set(graph.nodes), set[Node]()
    outputs: list[Node] = []
    for node in graph.outputs:
        owner = storage(node)
        if owner in seen and owner in made and node.device == owner.device:
            with recorded_as(node.location, False):
                node = CAST(node, dtype=node.dtype)
        seen.add(owner)
        outputs.append(node)
    copies = [node for node in outputs if node not in made and node.op is CAST]
    return Graph(graph.inputs, outputs, nodes=[*graph.nodes, *copies]) if copies else graph


def on_host_alone(graph: Graph) -> set[Node]:
    """What is on the host and made only from what is: the host can compute it while the device works."""
    found = {node for node in (*graph.inputs, *graph.captured()) if node.device == "cpu"}
    for node in graph.nodes:
        if node.device == "cpu" and found.issuperset(node.sources):
            found.add(node)
    return found


def counted_on(node: Node, counter: Node) -> np.integer[Any] | None:
    """By how much a value is more than a counter, where nothing but numbers was added to that; else None."""
    if node.dtype not in INTEGER or node.shape:
        return None
    total = 0
    while node is not counter:
        numbers = [number(source) for source in node.sources] if node.op is e.add else []
        known = [value for value in numbers if value is not None]
        if len(known) != 1:
            return None
        total += known[0]
        node = node.sources[numbers.index(None)]
    return np.uint64(total % (1 << 64)).astype(node.dtype)


def host_outputs(plan: Plan) -> Plan:
    """The plan without the outputs that the host can compute from what it has, such as a random counter's."""
    if not plan.target.launches:
        return plan
    graph, pairs = with_own_outputs(plan.graph), plan.pairs
    on_host = on_host_alone(graph)
    hosted = [
        k
        for k, node in enumerate(graph.outputs)
        if node in on_host and spend(node, lambda node=node: f"the host computes {node.op.name}")  # type: ignore[misc]
    ]
    numbers = [k for k in range(len(graph.outputs)) if k not in hosted]
    host = HostOutputs(
        numbers,
        hosted,
        Graph(graph.inputs, [graph.outputs[k] for k in hosted], 0) if hosted else None,
        {k: i for i, k in pairs if k in hosted},
    )
    place = {k: i for i, k in enumerate(numbers)}
    rest = Graph(graph.inputs, [graph.outputs[k] for k in numbers], 0) if hosted else graph
    return replace(plan, graph=rest, host=host, pairs=tuple((i, place[k]) for i, k in pairs if k in place))
