"""Bodies of loops on a GPU: the calls of their plans over an arena, and the ops in them that the host computes.

A loop holds a `BoundBody` for each of its plans.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from wengert.backends.cuda.calls import StepCall, bound_calls, capture_steps
from wengert.backends.cuda.loops import BoundLoop
from wengert.backends.cuda.memory import DeviceArray, download, upload, upload_into
from wengert.backends.protocol import CapturedGraph, Driver
from wengert.compiler.memory import storage
from wengert.core.evaluation import apply_here
from wengert.core.graph import Node
from wengert.ops.op import PICK
from wengert.plan.loop_writer import constant_name
from wengert.plan.plan import Plan


class BoundBody:
    """The plan of a loop's body over an arena; it reads and writes the addresses in its slots."""

    def __init__(self, plan: Plan, arena: int, driver: Driver) -> None:
        self.plan, self.arena, self.device = plan, arena, plan.target.device
        self.users: dict[int, list[tuple[StepCall, int]]] = {}
        self.addresses: dict[int, int] = {}
        self.calls: list[StepCall | Node] = []
        for number, step in enumerate(plan.steps):
            if step.host_op is not None:
                self.calls.append(step.host_op)
                continue
            for call, used in bound_calls(plan, number, arena, driver):
                self.calls.append(call)
                for slot, position in used:
                    self.users.setdefault(slot, []).append((call, position))
        self.held = {node: held_constant(node, self.device) for node in plan.buffers.constants}
        for node, array in self.held.items():
            self.point(plan.buffers.slots[node], array.pointer)

    @property
    def looks(self) -> bool:
        """Whether control flow depends on values on the device."""
        return any(isinstance(call, BoundLoop) and call.looks for call in self.calls)

    def constants(self, number: int) -> dict[str, int]:
        """The addresses of its constant arrays, by their names in the loop."""
        slots = self.plan.buffers.slots
        return {constant_name(number, slots[node]): array.pointer for node, array in self.held.items()}

    def point(self, slot: int, address: int) -> None:
        """Set the address of a value."""
        if self.addresses.get(slot) != address:
            self.addresses[slot] = address
            for call, position in self.users.get(slot, ()):
                call.point(position, address)

    def enqueue(self, driver: Driver) -> None:
        """Run its steps, including those of the host."""
        results: dict[Node, Any] = {}
        for call in self.calls:
            if isinstance(call, Node):
                compute_here(call, results, self._fetched, self._address, self.device)
            elif isinstance(call, BoundLoop):
                call.step_through(driver)
            else:
                call.enqueue(driver)

    def capture(self, driver: Driver, graph: CapturedGraph) -> None:
        """Capture its steps in a graph, each after those it waits for."""
        calls = [call for call in self.calls if not isinstance(call, Node)]
        capture_steps(driver, graph, calls, self.plan.waits)

    def _address(self, node: Node) -> int:
        owner = storage(node)
        slot = self.plan.buffers.slots.get(owner)
        return self.addresses[slot] if slot is not None else self.arena + self.plan.arena.offsets[owner]

    def _fetched(self, node: Node) -> np.ndarray[Any, Any]:
        return download(placed(node, self._address(node), self.device))


# --- on the host ------------------------------------------------------------------------------------------------------


class _Place:
    """Memory that belongs to another object, as the owner of an array."""

    def __init__(self, pointer: int, device: str) -> None:
        self.pointer, self.device = pointer, device


def placed(node: Node, pointer: int, device: str) -> DeviceArray:
    """A value as an array at its address during a program run."""
    place = _Place(pointer, device)
    return DeviceArray.over(node.shape, node.dtype, place, pointer, place)


def held_constant(node: Node, device: str) -> DeviceArray:
    """A constant array on the device."""
    buffer = node.buffer
    return buffer if type(buffer) is DeviceArray else upload(np.asarray(buffer), device)


def compute_here(
    node: Node,
    results: dict[Node, Any],
    fetched: Callable[[Node], Any],
    address: Callable[[Node], int],
    device: str,
) -> None:
    """Compute an op by its reference: download its operands, upload its result. `results` has those of several."""
    if node.op is PICK and node.sources[0] in results:
        value = results[node.sources[0]][node.attrs["index"]]
    else:
        operands = [results[source] if source in results else fetched(source) for source in node.sources]
        with np.errstate(all="ignore"):
            value = apply_here(node, operands)
    if isinstance(node.dtype, tuple):
        results[node] = value
    else:
        upload_into(address(node), np.asarray(value, order="C"), device)
