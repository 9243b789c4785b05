"""A plan as launches on a GPU over one arena, replayed as a CUDA graph.

In: a plan. Out: a Program that computes its outputs from arrays on the device (arrays on the host are uploaded). Loop
groups become generated kernels, matrix products and the like have kernels of their own; ops without CUDA are computed
on the host by their references, between two segments of launches. The first call launches one by one; later calls
replay each segment as a whole. Addresses that differ from the last call's are set in the graph.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import Any
from weakref import ref

import numpy as np

from wengert.backends.cuda import report
from wengert.backends.cuda.bodies import compute_here, held_constant, placed
from wengert.backends.cuda.calls import BoundLibraryCall, GraphSegment, KernelCall, StepCall, bound_calls
from wengert.backends.cuda.collectives import CollectiveCalls, launched_by
from wengert.backends.cuda.failures import number_of
from wengert.backends.cuda.libraries import CandidateTimer, CudaLibraries, choices_of
from wengert.backends.cuda.loops import BoundLoop
from wengert.backends.cuda.memory import DeviceArray, afforded, download, opened, unchecked, upload_into
from wengert.backends.cuda.recycle import OutputArrays
from wengert.backends.cuda.replay import CudaReplay
from wengert.compiler.memory import storage
from wengert.core.code import describe
from wengert.core.devices import Target
from wengert.core.evaluation import watch
from wengert.core.graph import Graph, Node, Shape
from wengert.kernels.launch import ERROR_FLAG, FAILING_OP
from wengert.kernels.loops.device import KERNELS
from wengert.plan.cuda_codegen import CudaCodegen
from wengert.plan.outputs import counted_on, device_of
from wengert.plan.pipeline import planned
from wengert.plan.plan import MakeCodegen, Plan, nested

NOTHING: Mapping[int, Any] = {}
CAPTURED_ANEW = 4  # how often for a slot that moves to where it never was, before it gets a fixed place


class CudaProgram:
    """A compiled graph on a GPU; call it with arrays for the inputs."""

    is_compiled, language = True, "CUDA"

    def __init__(self, plan: Plan, captures: bool = True) -> None:
        self.plan, self.graph, self.captures = plan, plan.graph, captures
        self.device, self.driver = plan.target.device, opened(plan.target.device)
        self.steps, self.slots = plan.steps, plan.buffers.slots
        host = plan.host
        counts = (
            {
                i: counted_on(host.graph.outputs[host.hosted.index(k)], host.graph.inputs[i])
                for k, i in host.replaces.items()
            }
            if host.graph
            else {}
        )
        self.counts = {i: count for i, count in counts.items() if count is not None}
        self.collectives = launched_by(self.steps) if plan.target.overlaps else None
        self._plan_results()
        start = perf_counter()
        self._connect()
        self.seconds = perf_counter() - start  # of NVRTC, and of loading its output

    # --- launches -------------------------------------------------------------------------------------------------

    def _connect(self) -> None:
        """Compile and load the kernels, pack their arguments, and record which arguments change between calls."""
        driver = self.driver
        arena = afforded(driver.arena, self.plan.arena.size, self.device)
        steps = [step for plan in nested(self.plan) for step in plan.steps]
        launches = [launch for step in steps for launch in step.launches]
        launches += KERNELS if any(step.loop is not None for step in steps) else ()
        self.sources = list(dict.fromkeys(launch.source for launch in launches))
        checking = [step for step in steps if any(ERROR_FLAG in launch.arguments for launch in step.launches)]
        self.checks = dict.fromkeys(_named(node) for step in checking for node in step.writes)
        driver.kernels(launches)
        self.held = [held_constant(node, self.device) for node in self.plan.buffers.constants]
        self.pieces: list[Any] = []
        self.users: dict[int, list[tuple[Any, StepCall, int]]] = {}  # by slot, with the piece that a call is in
        for number, step in enumerate(self.steps):
            if step.host_op is not None:
                self.pieces.append(step.host_op)
                continue
            for call, used in bound_calls(self.plan, number, arena, driver):
                self._place(call)
                for slot, position in used:
                    self.users.setdefault(slot, []).append((self.pieces[-1], call, position))
        self.last = [0] * sum(map(len, self.plan.buffers[:3]))
        self.staging: dict[int, tuple[DeviceArray, bytes]] = {}
        self.from_host: dict[int, ref[Any]] = {}  # by input: the array on the host that is staged
        self.kept: dict[int, OutputArrays] = {}  # by output: of those that a replay gives
        self.moved: Counter[int] = Counter()  # how often what a library uses was elsewhere, by slot
        self.fixed: dict[
            int, DeviceArray
        ] = {}  # by slot: the fixed address for libraries, if the slot moves at every call

    def _place(self, call: StepCall) -> None:
        """Append a call to the current segment, unless it is a loop that the host steps through.

        A call that cannot be captured runs between two graphs, on the same stream.
        """
        if isinstance(call, BoundLoop) and call.needs_host(self.driver):
            self.pieces.append(call)
            return
        captured = not isinstance(call, BoundLibraryCall) or call.is_capturable
        last = self.pieces[-1] if self.pieces else None
        if not isinstance(last, GraphSegment) or last.is_capturable is not captured:
            last = GraphSegment(self.driver, lambda number: _named(self.steps[number].writes[0]), captured)
            self.pieces.append(last)
        last.add(call, self.plan.waits[call.step])

    # --- showing --------------------------------------------------------------------------------------------------

    @property
    def source(self) -> str:
        """The CUDA C++ of all kernels."""
        return "\n".join(self.sources)

    def described(self) -> str:
        """The launches in order: how each launch shape was derived, and which library calls and host ops take part."""
        return report.described(self)

    def text_of(self, number: int) -> str:
        """The CUDA C++ of a step, each kernel after the derivation of its launch shape."""
        return report.text_of(self.steps[number])

    def tuning(self) -> str:
        """Which candidates won: the time of each, against what would have run untimed."""
        return report.tuning(self)

    # --- running --------------------------------------------------------------------------------------------------

    def __call__(
        self, arrays: Sequence[Any], owned: Container[int] = (), spare: Mapping[int, Any] = NOTHING
    ) -> list[Any]:
        """The outputs, computed from arrays for the inputs; those numbered in `owned` may be overwritten.

        `spare` are arrays by the number of an output, in which that may be put.
        """
        with self.driver.lock:
            self.driver.make_current()
            given = [*map(self.staged, range(len(arrays)), arrays)]
            for number in self.overwritten:
                if number not in owned or given[number] is not arrays[number]:
                    given[number] = given[number].copy()
            made = [spare.get(k) or self._made(k, shape, dtype) for k, shape, dtype in self.fresh]
            table = [*given, *self.held, *made]
            self._point_at(table)
            if self.checks:
                unchecked.setdefault(self.device, {}).update(self.checks)
            self.copy_in()
            self._run(arrays, table)
            if self.collectives is not None:
                self.collectives.tell(self.driver)
            if self.checks and any(isinstance(piece, Node) for piece in self.pieces):
                unchecked.setdefault(self.device, {}).update(self.checks)  # an op on the host has looked in between
            self.copy_out()
            return self._in_order(self._results(table), arrays, owned)

    def _run(self, arrays: Sequence[Any], table: Sequence[DeviceArray]) -> None:
        """Run all steps."""
        results: dict[Node, Any] = {}
        for piece in self.pieces:
            if isinstance(piece, Node):
                self._on_host(piece, arrays, table, results)
            elif isinstance(piece, BoundLoop):
                self._step_through(piece)
            elif watch.observer is None:
                piece.run(self.captures)
            else:
                watch.observer.ran_steps(self, piece.run_timed())

    def _step_through(self, loop: BoundLoop) -> None:
        """Run a loop from the host."""
        start = self.driver.event() if watch.observer is not None else None
        loop.enqueue(self.driver)
        if start is not None and watch.observer is not None:
            watch.observer.ran_steps(self, [(loop.step, start, self.driver.event())])

    def _in_order(self, results: list[Any], arrays: Sequence[Any], owned: Container[int]) -> list[Any]:
        """The device's and the host's outputs in the graph's order; the host's also overwrite what they replace."""
        host = self.plan.host
        if host.graph is None:
            return results
        found = dict(zip(host.numbers, results))
        found.update(zip(host.hosted, map(np.array, host.graph(*arrays))))
        for k, i in host.replaces.items():
            there, new = arrays[i], found[k]
            if i not in owned or i not in self.from_host or not there.flags.writeable:
                continue
            if (there.shape, there.dtype) == (new.shape, new.dtype):
                there[...] = new
                found[k] = there
        return [found[k] for k in range(len(found))]

    def staged(self, i: int, array: Any) -> DeviceArray:
        """A host array on the device, in its input's own memory; uploaded only if it differs from the last one."""
        if type(array) is DeviceArray:
            return array
        if isinstance(array, np.ndarray):
            self.from_host[i] = ref(array)
        else:  # a number, which cannot be overwritten
            self.from_host.pop(i, None)
        array = np.asarray(array, order="C")
        there = self.staging.get(i)
        content = array.tobytes() if array.nbytes <= 64 else b""
        if there is None:
            there = DeviceArray(array.shape, array.dtype, self.device), b""
        if not content or content != there[1]:
            upload_into(there[0].pointer, array, self.device)
            self.staging[i] = there[0], content
        return there[0]

    def _point_at(self, table: Sequence[DeviceArray]) -> None:
        """Set the addresses that differ from the last call's."""
        if [array.pointer for array in table] != self.last:
            for slot, array in enumerate(table):
                if array.pointer != self.last[slot]:
                    self.move(slot, array)

    def move(self, slot: int, array: DeviceArray, comes_back: bool = False) -> None:
        """Set a slot's address; for one that it had before, a separate graph is kept from then on."""
        if slot in self.users and slot not in self.fixed:
            self._point_slot(slot, array, not self.last[slot], comes_back)
        self.last[slot] = array.pointer

    def stands_for(self, node: Node) -> None:
        """Attribute failures in this program, which is a single op's, to this node and its line."""
        calls = [call for piece in self.pieces if isinstance(piece, GraphSegment) for call in piece.calls]
        for call in calls:
            if isinstance(call, KernelCall) and FAILING_OP in call.launch.arguments:
                call.point(call.launch.spread.index(FAILING_OP), number_of(node))
        self.checks = {_named(node): None} if self.checks else self.checks

    def _made(self, k: int, shape: Shape, dtype: np.dtype[Any]) -> DeviceArray:
        """An array for an output."""
        kept = self.kept.get(k)
        return DeviceArray(shape, dtype, self.device) if kept is None else kept.take()

    def replay(self, inputs: Sequence[int], outputs: Sequence[int]) -> CudaReplay | None:
        """This program on the memory of its last call, in which only these inputs and outputs may move."""
        return CudaReplay.of(self, inputs, outputs)

    def _point_slot(self, slot: int, array: DeviceArray, is_first: bool, comes_back: bool) -> None:
        """Set a slot's address in all calls that use it.

        A library call is captured with its address, so when that moves everything is captured again. If a slot moves
        repeatedly, its library calls use a fixed address instead, with copies in and out.
        """
        users = self.users[slot]
        moves = not is_first and any(call.keeps_addresses for _, call, _ in users)
        if moves:
            self.moved[slot] = 0 if comes_back else self.moved[slot] + 1
        if self.moved[slot] > CAPTURED_ANEW:
            array = self.fixed[slot] = DeviceArray(array.shape, array.dtype, self.device)
        for piece, call, position in users:
            call.point(position, array.pointer)
            if isinstance(call, KernelCall):
                piece.changed.add(call)
            if moves:
                piece.graph = None

    def copy_in(self) -> None:
        """Copy operands to their fixed addresses."""
        for slot, fixed in self.fixed.items():
            if slot < len(self.last) - len(self.made):
                self.driver.copy(fixed.pointer, self.last[slot], fixed.nbytes)

    def copy_out(self) -> None:
        """Copy results from their fixed addresses to their destinations."""
        for slot, fixed in self.fixed.items():
            if slot >= len(self.last) - len(self.made) or slot in self.overwritten:
                self.driver.copy(self.last[slot], fixed.pointer, fixed.nbytes)

    def _on_host(
        self, node: Node, arrays: Sequence[Any], table: Sequence[DeviceArray], results: dict[Any, Any]
    ) -> None:
        """Compute an op by its reference: download its operands, upload its results."""
        fetched, address = partial(self._fetched, arrays, table), partial(self._address, table=table)
        compute_here(node, results, fetched, address, self.device)

    def _fetched(self, arrays: Sequence[Any], table: Sequence[DeviceArray], node: Node) -> np.ndarray[Any, Any]:
        owner = storage(node)
        slot = self.slots.get(owner)
        if slot is not None and slot < len(arrays) and isinstance(arrays[slot], np.ndarray):
            return np.asarray(arrays[slot]).reshape(node.shape)
        return download(self._placed(node, table))

    def _placed(self, node: Node, table: Sequence[DeviceArray]) -> DeviceArray:
        """A value as an array at its address during a program run."""
        return placed(node, self._address(node, table), self.device)

    def _address(self, node: Node, table: Sequence[DeviceArray]) -> int:
        owner = storage(node)
        slot = self.slots.get(owner)
        if slot is not None:
            return self.fixed.get(slot, table[slot]).pointer
        return int(self.driver.arena(self.plan.arena.size) + self.plan.arena.offsets[owner])

    def _results(self, table: Sequence[DeviceArray]) -> list[Any]:
        """The outputs. One that is also an input or a constant is copied: results never alias."""
        results: list[Any] = [table[slot] for slot in self.places]
        for k, node, is_own in self.changed:
            array = results[k]
            array = array if array.shape == node.shape else array.reshape(node.shape)
            array = array if is_own else array.copy()
            results[k] = array if node.device == self.device else download(array)
        return results

    def _plan_results(self) -> None:
        """The slots of the outputs, and which outputs need further work."""
        outputs, made, donated = self.graph.outputs, self.plan.buffers.made, self.plan.donated
        own = self.plan.host.numbers
        numbers = {storage(node): own[k] for k, node in reversed(list(enumerate(outputs)))}
        shapes = dict(zip(own, (node.shape for node in outputs)))
        self.made = made
        self.fresh = [(numbers[node], shapes[numbers[node]], node.dtype) for node in made]
        self.overwritten = [self.slots[source] for source in donated.values()]
        self.places = [self.slots[storage(node)] for node in outputs]
        self.changed: list[tuple[int, Node, bool]] = []
        free = {*made, *donated}
        for k, node in enumerate(outputs):
            owner = storage(node)
            reshaped = owner in donated and owner.shape != node.shape
            if owner not in free or reshaped or node.device != self.device:
                self.changed.append((k, node, owner in free))


def _named(node: Node) -> str:
    return f"{node.op.name} at {describe(node.location)}"


def target_of(device: str, tf32: bool = False, budget: int | None = None) -> Target:
    """A GPU as a compilation target."""
    return Target(device, replace(opened(device).properties, tf32=tf32), tf32, budget)


def codegen_with(tuning: float = 0.0) -> MakeCodegen:
    """A factory of code generators for a GPU with its libraries, which times candidates for up to `tuning` seconds."""

    def make(target: Target) -> CudaCodegen:
        driver = opened(target.device)
        libraries = CudaLibraries(target.device, target.tf32)
        timer = CandidateTimer(driver)
        return CudaCodegen(target, libraries, choices_of(driver), timer, tuning, CollectiveCalls())

    return make


def build(
    graph: Graph,
    pairs: Sequence[tuple[int, int]] = (),
    off: Collection[str] = (),
    captures: bool = True,
    device: str | None = None,
    tf32: bool = False,
    tuning: float = 0.0,
) -> CudaProgram:
    """The program of an optimised graph; `pairs` are inputs and the outputs that replace them, by number."""
    target = target_of(device or device_of(graph), tf32)
    return CudaProgram(planned(graph, target, codegen_with(tuning), pairs, off), captures)
