"""A graph computed group by group as CUDA: its loop groups by emulated kernels, all else by the references."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tests.kernels.emulator import Emulator
from wengert.compiler.memory import storage
from wengert.core.graph import Graph, Node
from wengert.kernels import c_ops
from wengert.kernels.cuda import write
from wengert.kernels.cuda.source import ERROR
from wengert.kernels.ir.loops import LoopKernel
from wengert.kernels.launch import H200, LaunchList, in_turn
from wengert.plan.fuse import grouped
from wengert.plan.groups import FusionGroup
from wengert.plan.lower import lower
from wengert.plan.lowering import inlines

Array = np.ndarray[Any, Any]
Writer = Callable[[LoopKernel], LaunchList]


class CudaGraph:
    """The groups of a graph with their works."""

    def __init__(self, graph: Graph, writer: Writer = lambda kernel: write(kernel, H200)) -> None:
        self.graph = graph
        self.plan = grouped(graph, inlines, c_ops.operands)
        self.works: dict[int, tuple[LaunchList, dict[str, Node]]] = {}
        self.kernels: list[LoopKernel] = []
        for group in self.plan.groups:
            if not group.opaque:
                lowered = [self._lowered(part) for part in group.parts()]
                self.kernels += [kernel for kernel, _ in lowered]
                names = {name: node for _, by_name in lowered for name, node in by_name.items()}
                self.works[group.number] = in_turn([writer(kernel) for kernel, _ in lowered]), names

    def _lowered(self, group: FusionGroup) -> tuple[LoopKernel, dict[str, Node]]:
        by_name: dict[str, Node] = {}

        def buffer_of(node: Node) -> str:
            place = storage(node)
            return by_name.setdefault(f"n{place.serial}", place) and f"n{place.serial}"

        return lower(group, "kernel", self.plan.inlined, buffer_of), by_name

    def run(self, arrays: Sequence[Array], emulator: Emulator | None = None, reverse: bool = False) -> list[Array]:
        """The outputs, computed from arrays for the inputs."""
        emulator = emulator or Emulator(work for work, _ in self.works.values())
        values: dict[Node, Any] = dict(zip(self.graph.inputs, arrays))
        self.errors = np.zeros(1, np.int32)

        def value(node: Node) -> Any:
            if node in values:
                return values[node]
            if node.op.name == "reshape" and node.buffer is None:
                return value(storage(node)).reshape(node.shape)
            return node.buffer if node.buffer is not None else node.op.run([value(s) for s in node.sources], node)

        for group in self.plan.groups:
            if group.opaque:
                node = group.roots[0]
                values[node] = node.op.run([value(s) for s in node.sources], node)
                continue
            work, by_name = self.works[group.number]
            for node in group.stored:
                values[storage(node)] = poison(node)
            named = {name: np.asarray(value(node)) for name, node in by_name.items()}
            emulator.run(work, {**named, ERROR: self.errors}, reverse)
        return [np.asarray(value(node)).reshape(node.shape) for node in self.graph.outputs]


def poison(node: Node) -> Array:
    """Memory for a value, full of what no kernel writes."""
    raw = np.full(node.size * node.dtype.itemsize, 0xFF, np.uint8)
    return raw.view(node.dtype).reshape(node.shape)
