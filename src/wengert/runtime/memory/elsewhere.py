"""Plans for a GPU that is not in this machine: the graph moved to it, and a plan without its libraries.

Recording on the host gives the same graph except for the devices. Products and convolutions are planned with our own
kernels; a library's workspace is known only where the library and the GPU are available.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from wengert.core.devices import Target
from wengert.core.graph import Graph, Node
from wengert.kernels.launch import DeviceProperties
from wengert.ops.core import TO_DEVICE
from wengert.plan.collectives import PlannedCalls
from wengert.plan.cuda_codegen import CudaCodegen
from wengert.plan.libraries import NoChoices, NoLibraries
from wengert.plan.pipeline import compiled_plan
from wengert.plan.plan import Plan
from wengert.runtime.config import config
from wengert.runtime.program import is_invariant


def plan_elsewhere(
    graph: Graph,
    pairs: Sequence[tuple[int, int]],
    device: str,
    properties: DeviceProperties,
    budget: int | None = None,
    overlaps: bool = False,
) -> Plan:
    """The plan of a recorded graph for a GPU with this name and these properties."""
    target = Target(device, replace(properties, tf32=config.tf32), config.tf32, budget, overlaps)
    target = target.with_invariance(is_invariant())
    moved = on_device(graph, device)
    return compiled_plan(moved, target, _codegen, pairs, config.passes_off, config.fuel)


def _codegen(target: Target) -> CudaCodegen:
    return CudaCodegen(target, NoLibraries(), NoChoices(), collectives=PlannedCalls())


def on_device(graph: Graph, device: str) -> Graph:
    """The graph with all its values on one device and without moves between devices."""
    return _Move(device).graph(graph)


class _Move:
    """Copies graphs to a device, each graph that ops carry once."""

    def __init__(self, device: str) -> None:
        self.device = device
        self.graphs: dict[Graph, Graph] = {}

    def graph(self, graph: Graph) -> Graph:
        """The copy of a graph."""
        if graph not in self.graphs:
            copies: dict[Node, Node] = {}
            for node in (*graph.inputs, *graph.captured(), *graph.nodes):
                copies[node] = copies[node.sources[0]] if node.op is TO_DEVICE else self._node(node, copies)
            inputs, outputs = ([copies[node] for node in nodes] for nodes in (graph.inputs, graph.outputs))
            kept = list(dict.fromkeys(copies[node] for node in graph.nodes))
            given = {*inputs, *(copies[node] for node in graph.captured())}
            self.graphs[graph] = Graph(inputs, outputs, nodes=[node for node in kept if node not in given])
        return self.graphs[graph]

    def _node(self, node: Node, copies: Mapping[Node, Node]) -> Node:
        sources = tuple([copies[source] for source in node.sources]) if node in copies or node.sources else ()
        attrs = {key: self._attribute(value) for key, value in node.attrs.items()}
        kind = (node.shape, node.dtype, self.device, node.tracked, node.location, node.buffer)
        return Node(node.op, sources, attrs, *kind)

    def _attribute(self, value: Any) -> Any:
        if isinstance(value, Graph):
            return self.graph(value)
        if type(value) is tuple and value and isinstance(value[0], Graph):
            return tuple(self._attribute(item) for item in value)
        return value
