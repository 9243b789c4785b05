"""Calls: what a program enqueues on a GPU's stream for the steps of its plan, one by one or as a graph segment.

In: the launches, library calls and loops of a step. Out: calls with packed arguments. Addresses in the arena are fixed;
addresses in slots are set before the call. A graph segment is a sequence of calls without host work in between, which
one CUDA graph replays.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from itertools import groupby
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from wengert.backends.cuda.failures import number_of
from wengert.backends.protocol import CapturedGraph, Driver, Replayable, StreamEvent
from wengert.core.errors import DistributedError, OutOfMemoryError
from wengert.kernels.launch import ERROR_FLAG, FAILING_OP, Launch, Number, Struct, TensorMap
from wengert.plan.actions import DeviceLoop
from wengert.plan.loop_writer import TEMPORARY
from wengert.plan.plan import Body, LibraryCall, Plan

if TYPE_CHECKING:
    from wengert.backends.cuda.loops import BoundLoop


class Arguments:
    """The packed arguments of a kernel, in the driver's format: eight bytes each, and a pointer to each.

    A tensor map has its own block, which `encode` fills whenever the address of its buffer is set; so has a struct. A
    table (a tuple) is one argument with several entries, numbered consecutively with all others.
    """

    def __init__(self, values: Sequence[Any], encode: Callable[[TensorMap, int], bytes] | None = None) -> None:
        places = [len(value) if isinstance(value, tuple) else 1 for value in values]
        self.slots = np.zeros(max(sum(places), 1), np.uint64)
        heads = np.cumsum([0, *places[:-1]], dtype=np.uint64)
        self.addresses = self.slots.ctypes.data + 8 * heads
        self.maps: dict[int, tuple[TensorMap, np.ndarray[Any, Any]]] = {}
        self.structs: list[np.ndarray[Any, Any]] = []
        self.encode = encode
        for i, (value, head) in enumerate(zip(values, heads.tolist())):
            if isinstance(value, TensorMap):
                raw = np.zeros(192, np.uint8)
                block = raw[-raw.ctypes.data % 64 :][:128]
                self.maps[head] = value, block
                self.addresses[i] = block.ctypes.data
            elif isinstance(value, Struct):
                self.structs.append(np.frombuffer(value.content, np.uint8))
                self.addresses[i] = self.structs[-1].ctypes.data
            elif not isinstance(value, tuple | Number):
                self.set(head, value)
        self.pointer = self.addresses.ctypes.data

    def set(self, i: int, value: Any) -> None:
        """Set an argument: an address, or a typed number."""
        if i in self.maps:
            assert self.encode is not None
            described, block = self.maps[i]
            block[:] = np.frombuffer(self.encode(described, value), np.uint8)
        elif isinstance(value, np.generic):
            self.slots[i : i + 1].view(np.uint8)[: value.nbytes] = np.frombuffer(value.tobytes(), np.uint8)
        else:
            self.slots[i] = value


Waits = Mapping[int, Sequence[int]] | Sequence[Sequence[int]]
"""By step: the steps that it waits for."""

BATCH = 64  # steps that are given to the device at once when they are timed


class StepCall(Protocol):
    """A part of a step that is enqueued on the stream: a launch, a library call, a loop."""

    @property
    def step(self) -> int:
        """The number of its step."""
        ...

    @property
    def keeps_addresses(self) -> bool:
        """Whether a captured graph keeps the addresses it was captured with."""
        ...

    @property
    def name(self) -> str:
        """Its name."""
        ...

    def point(self, position: int, address: int) -> None:
        """Set an argument's address."""
        ...

    def prepare(self, driver: Driver) -> None:
        """Prepare everything, so that only enqueueing remains."""
        ...

    def enqueue(self, driver: Driver) -> None:
        """Enqueue it on the stream."""
        ...

    def capture(self, driver: Driver, graph: CapturedGraph) -> None:
        """Capture it in a graph."""
        ...


class KernelCall:
    """One launch of a program, with packed arguments."""

    __slots__ = ("arguments", "function", "graph_node", "launch", "shape", "step")
    keeps_addresses = False

    def __init__(self, function: Any, launch: Launch, encode: Any, step: int) -> None:
        self.function, self.launch, self.step = function, launch, step
        self.shape = (*launch.grid, *launch.block, launch.shared)
        self.arguments = Arguments([0 if isinstance(a, str) else a for a in launch.arguments], encode)
        self.graph_node: Any = None

    @property
    def name(self) -> str:
        """The kernel."""
        return self.launch.entry

    def point(self, position: int, address: int) -> None:
        """Set an argument's address."""
        self.arguments.set(position, address)

    def prepare(self, driver: Driver) -> None:
        """Does nothing: everything is ready."""

    def enqueue(self, driver: Driver) -> None:
        """Enqueue it on the stream."""
        driver.launch(self.function, self.shape, self.arguments, self.launch.cooperative)

    def capture(self, driver: Driver, graph: CapturedGraph) -> None:
        """Capture it in a graph; its arguments may change later."""
        self.enqueue(driver)
        (self.graph_node,) = graph.nodes()


class BoundLibraryCall:
    """A library call. A graph that captures it keeps its addresses."""

    __slots__ = ("candidate", "is_capturable", "own", "pointers", "step", "workspace")
    keeps_addresses = True

    def __init__(self, call: LibraryCall, workspace: int, step: int, own: int = 0) -> None:
        self.candidate, self.workspace, self.step = call.candidate, workspace, step
        self.is_capturable = call.captured
        self.own = own  # bytes of the workspace, if nothing else of the program ever uses its place
        self.pointers = [0] * len(call.operands)

    @property
    def name(self) -> str:
        """The library and its algorithm."""
        return str(self.candidate.name)

    def point(self, position: int, address: int) -> None:
        """Set an operand's address."""
        self.pointers[position] = address

    def prepare(self, driver: Driver) -> None:
        """Does nothing: everything is ready."""

    def enqueue(self, driver: Driver) -> None:
        """Enqueue it on the stream."""
        self.candidate.enqueue(int(driver.stream), self.pointers, self.workspace)

    def capture(self, driver: Driver, graph: CapturedGraph) -> None:
        """Capture it in a graph."""
        if self.own:
            graph.owns(self.workspace, self.own)
        self.enqueue(driver)


def capture_steps(
    driver: Driver,
    graph: CapturedGraph,
    calls: Iterable[StepCall],
    waits: Waits,
    begun: Callable[[StepCall], Any] = lambda call: None,
) -> None:
    """Capture calls in a graph, each step after those it waits for; `begun` is called before each.

    A step that waits for none follows what was captured before, or the first step. Whatever comes next waits for all.
    """
    before = graph.nodes()
    ends: dict[int, list[Any]] = {}  # by step: the nodes of the graph that it ends with
    for call in calls:
        begun(call)
        if call.step not in ends:
            own = [node for step in waits[call.step] for node in ends.get(step, ())]
            graph.after(own or before or next(iter(ends.values()), []))
        call.capture(driver, graph)
        ends[call.step] = graph.nodes()
    waited = {step for number in ends for step in waits[number]}
    graph.after([node for step, nodes in ends.items() if step not in waited for node in nodes] or before)


class GraphSegment:
    """Calls without host work in between, replayed by one CUDA graph.

    In the graph a step waits only for steps whose memory it uses, so that others run concurrently; a step without
    dependencies waits for the first. (In a small step with 15 kernels, three had no dependencies: with a single root
    the graph takes 43 us instead of 46, and launching it takes 4.4 us of host time instead of 6.7.)
    """

    def __init__(self, driver: Driver, describe: Callable[[int], str], is_capturable: bool = True) -> None:
        self.driver, self.describe = driver, describe  # what the step of a number computes, for people
        self.calls: list[StepCall] = []
        self.is_capturable = is_capturable
        self.waits: dict[int, Sequence[int]] = {}  # by step: the steps it waits for
        self.runs = 0
        self.graph: Replayable | None = None
        self.changed: set[KernelCall] = set()

    def add(self, call: StepCall, waits: Sequence[int]) -> None:
        """Append a call; `waits` are the steps that its step waits for."""
        self.calls.append(call)
        self.waits[call.step] = waits

    def run(self, captures: bool) -> None:
        """Launch everything: one by one the first time, as a graph afterwards."""
        if captures and self.graph is not None and not self.changed:
            self.graph.replay()
            return
        self.runs += 1
        if captures and self.runs > 1 and self.is_capturable:
            self._renew()
        if self.graph is None:
            for call in self.calls:
                call.enqueue(self.driver)
        else:
            self.graph.replay()
        self.changed.clear()

    def _renew(self) -> None:
        """Build the graph (or the dependent launch of the only kernel) to replay with the current arguments.

        Builds nothing if a call cannot be captured; a warning says so once.
        """
        if self.graph is not None:
            for call in self.changed:
                self.graph.change(call.graph_node, call.function, call.shape, call.arguments)
            return
        first: Any = self.calls[0] if self.calls else None
        if isinstance(first, KernelCall) and first.launch.follows:
            self.graph = self.driver.dependent_launch(first.function, first.shape, first.arguments)
            return
        begun: list[StepCall] = []
        try:
            with self.driver.capturing() as graph:
                capture_steps(self.driver, graph, self.calls, self.waits, begun.append)
            self.graph = graph
        except (OutOfMemoryError, DistributedError):
            raise
        except Exception as error:
            self.is_capturable = False
            warnings.warn(
                f"{begun[-1].name}, which computes {self.describe(begun[-1].step)}, cannot be captured in a CUDA "
                f"graph ({error}); the steps around it are launched one by one",
                RuntimeWarning,
                stacklevel=2,
            )

    def run_timed(self) -> list[tuple[int, StreamEvent, StreamEvent]]:
        """Launch everything one by one; returns the program's steps by number, with events at their start and end."""
        self.runs += 1
        steps = [(step, list(calls)) for step, calls in groupby(self.calls, lambda call: call.step)]
        found = []
        for call in self.calls:
            call.prepare(self.driver)
        for first in range(0, len(steps), BATCH):
            # not in the first run: loading a kernel may wait for the device
            with self.driver.batched_submission() if self.runs > 1 else nullcontext():
                for step, calls in steps[first : first + BATCH]:
                    start = self.driver.event()
                    for call in calls:
                        call.enqueue(self.driver)
                    found.append((step, start, self.driver.event()))
        return found


# --- the calls of a step ----------------------------------------------------------------------------------------------


Used = list[tuple[int, int]]
"""The slots that a call uses, each with the position of the argument that is its address."""


def bound_calls(plan: Plan, number: int, arena: int, driver: Driver) -> list[tuple[StepCall, Used]]:
    """The calls of a step, over an arena at this address, and the slots that they use; loads its kernels."""
    step = plan.steps[number]
    binder = _Binder(plan, number, arena, driver)
    return [binder.bound(part) for part in step.parts if isinstance(part, Launch | LibraryCall | DeviceLoop)]


class _Binder:
    """Builds the calls of a step."""

    def __init__(self, plan: Plan, number: int, arena: int, driver: Driver) -> None:
        self.plan, self.number, self.arena, self.driver = plan, number, arena, driver
        self.step = plan.steps[number]

    def bound(self, part: DeviceLoop | LibraryCall | Launch) -> tuple[StepCall, Used]:
        """The call of a part, and the slots that it uses."""
        self.used: Used = []
        if isinstance(part, Launch):
            return self.kernel(part), self.used
        return (self.library(part) if isinstance(part, LibraryCall) else self.loop(part)), self.used

    def kernel(self, launch: Launch) -> KernelCall:
        """A launch."""
        call = KernelCall(self.driver.functions[launch.source, launch.entry], launch, self.driver.encode, self.number)
        for position, given in enumerate(launch.spread):
            argument = given.buffer if isinstance(given, TensorMap) else given
            if argument == ERROR_FLAG:
                call.point(position, self.driver.error_flag())
            elif argument == FAILING_OP:
                call.point(position, number_of(self.step.writes[0]))
            elif isinstance(argument, str):
                self._bind(call, position, argument)
        return call

    def library(self, part: LibraryCall) -> BoundLibraryCall:
        """A library's call."""
        size, place = part.candidate.workspace, (self.number, "workspace")
        workspace = self.arena + self.plan.arena.offsets[place] if size else 0
        own = size if place in self.plan.private else 0
        call = BoundLibraryCall(part, workspace, self.number, own)
        for position, name in enumerate(part.operands):
            self._bind(call, position, name)
        return call

    def loop(self, part: DeviceLoop) -> BoundLoop:
        """A loop or branch, with its bodies."""
        from wengert.backends.cuda.bodies import BoundBody  # they have separate calls
        from wengert.backends.cuda.loops import BoundLoop

        temporary = self.arena + self.plan.arena.offsets[self.number, TEMPORARY]
        bodies = [BoundBody(one.plan, temporary, self.driver) for one in self.step.parts if isinstance(one, Body)]
        call = BoundLoop(part, bodies, temporary, self.number)
        for position, name in enumerate(part.buffers):
            self._bind(call, position, name)
        return call

    def _bind(self, call: StepCall, position: int, name: str) -> None:
        """Set an argument's address, or record its slot."""
        node = self.step.buffers.get(name)
        if node is None:
            call.point(position, self.arena + self.plan.arena.offsets[self.number, name])
        elif node in self.plan.buffers.slots:
            self.used.append((self.plan.buffers.slots[node], position))
        else:
            call.point(position, self.arena + self.plan.arena.offsets[node])
