"""A graph as launches on a GPU over one arena, replayed as a CUDA graph.

In: an optimised graph. Out: a Program that computes its outputs from arrays on the device (or on the host: those are
uploaded). Loop groups become generated kernels, matrix products and the like kernels of their own; ops without CUDA
are computed on the host by their references, between two stretches of launches. The first call launches one by one;
from the second on every stretch is replayed whole. Addresses that differ from the last call's are put into the graph.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from time import perf_counter
from typing import Any, NamedTuple
from weakref import ref

import numpy as np

from wengert.backends.cuda import report
from wengert.backends.cuda.driver import opened
from wengert.backends.cuda.memory import DeviceArray, afforded, download, unchecked, upload, upload_into
from wengert.backends.cuda.recycle import OutputArrays
from wengert.backends.cuda.replay import CudaReplay
from wengert.backends.cuda.segment import ERROR_FLAG, Call, Stretch, VendorCall
from wengert.backends.cuda.tuning import tune
from wengert.compiler.passes import Report
from wengert.compiler.storage import storage
from wengert.core.evaluation import apply_here, watch
from wengert.core.graph import Graph, Node, Shape
from wengert.core.location import describe
from wengert.kernels import cuda_ops
from wengert.kernels.launch import TensorMap
from wengert.plan.arena import laid_out
from wengert.plan.attention_partials import with_totals
from wengert.plan.buffers import buffers, inlines, picks
from wengert.plan.candidates import Candidates, Step, is_finished, is_hosted, was_timed
from wengert.plan.column_partials import with_margins
from wengert.plan.convolution_epilogue import convolution_finishes
from wengert.plan.dependent_launch import follow
from wengert.plan.donation import donations
from wengert.plan.fuse import fuse
from wengert.plan.groups import Plan
from wengert.plan.horizontal_fusion import together
from wengert.plan.host_outputs import counted_on, device_of, on_host_alone, with_own_outputs
from wengert.plan.library_epilogue import How, finishes, with_operands_first
from wengert.plan.schedule import schedule

NOTHING: Mapping[int, Any] = {}
CAPTURED_ANEW = 2  # how often for a slot that moves, before it gets a fixed place


class Program:
    """A compiled graph on a GPU: call it with arrays for the inputs."""

    def __init__(
        self,
        graph: Graph,
        reports: Sequence[Report] = (),
        pairs: Sequence[tuple[int, int]] = (),
        captures: bool = True,
        device: str | None = None,
        tf32: bool = False,
        tuning: float = 0.0,  # seconds for timing candidates
    ) -> None:
        self.reports, self.captures = list(reports), captures
        self.device = device or device_of(graph)
        graph, pairs = self._without_hosted(with_own_outputs(graph), pairs)
        self.graph = graph
        self.driver = opened(self.device)
        self.figures = replace(self.driver.figures, tf32=tf32)
        self._is_hosted = cache(partial(is_hosted, device=self.device, figures=self.figures))
        self._read = cache(partial(_read_by, is_hosted=self._is_hosted))
        self.picks = picks(graph)
        self.seconds: dict[str, float] = {}
        start = perf_counter()
        is_inlined = cache(inlines)
        self.is_timed = tuning > 0
        self.finishes = {
            **finishes(graph, is_inlined, self._read, self._can_finish),
            **convolution_finishes(graph, is_inlined, self._read, self._can_finish),
        }
        self.graph = graph = with_operands_first(graph, self.finishes)
        self.plan: Plan = fuse(graph, is_inlined, self._operands, self._absorbs, launches=True)
        self.seconds["fuse"] = perf_counter() - start
        self.taken = self._donations(pairs)
        self.external, self.constants, self.made, self.slots = buffers(graph, self.plan, self.taken)
        self._plan_results()
        candidates = Candidates(self.plan, self.taken, self.picks, self.finishes, self.device, self.figures)
        self.tuned = tune(candidates, self.plan.groups, tuning) if tuning else None
        steps = [candidates.step(group) for group in self.plan.groups]
        steps = with_totals(with_margins(steps, self.taken, self.figures), self.taken, candidates)
        steps = follow(together(steps, self.taken, self.figures), self.figures)
        start = perf_counter()
        arena = laid_out(steps, self.slots, self.figures)
        self.steps, self.offsets, self.arena_size, self.over, self.own, self.waits = arena
        self.seconds["memory"] = perf_counter() - start
        start = perf_counter()
        self._connect()
        self.seconds["build"] = perf_counter() - start

    def _without_hosted(self, graph: Graph, pairs: Sequence[tuple[int, int]]) -> tuple[Graph, list[tuple[int, int]]]:
        """The graph without the outputs that the host can compute from what it has, such as a random counter's."""
        hosted = on_host_alone(graph)
        self.numbers = [k for k, node in enumerate(graph.outputs) if node not in hosted]
        self.hosted = [k for k, node in enumerate(graph.outputs) if node in hosted]
        self.host_graph = Graph(graph.inputs, [graph.outputs[k] for k in self.hosted], 0)
        self.over_inputs = {k: i for i, k in pairs if k in self.hosted}  # by output of the host's: what it replaces
        counts = {i: counted_on(graph.outputs[k], graph.inputs[i]) for k, i in self.over_inputs.items()}
        self.counts = {i: count for i, count in counts.items() if count is not None}
        place = {k: i for i, k in enumerate(self.numbers)}
        rest = Graph(graph.inputs, [graph.outputs[k] for k in self.numbers], 0) if self.hosted else graph
        return rest, [(i, place[k]) for i, k in pairs if k in place]

    # --- buffers --------------------------------------------------------------------------------------------------

    def _donations(self, pairs: Sequence[tuple[int, int]]) -> dict[Node, Node]:
        """What is written over an input. The groups are put in an order in which that is right where it can be."""
        nodes = [(self.graph.inputs[i], self.graph.outputs[k]) for i, k in pairs]
        order = schedule(self.graph, self.plan.groups, nodes, self._hosted_groups())
        self.plan = self.plan._replace(groups=order)
        last = max(self._hosted_groups(), default=-1)
        return donations(self.graph, self.plan, nodes, last, cuda_ops.OVERWRITING)

    def _hosted_groups(self) -> list[int]:
        """The groups that the host computes: they may fail, and what was overwritten before would be lost."""
        made = [(k, group.roots[0]) for k, group in enumerate(self.plan.groups) if group.opaque]
        return [k for k, node in made if self._is_hosted(node.sources[0] if node.op.name == "pick" else node)]

    def _operands(self, node: Node) -> Sequence[Node]:
        return (*self._read(node), *self.finishes[node].operands) if node in self.finishes else self._read(node)

    def _can_finish(self, node: Node, how: How) -> bool:
        is_timed = self.is_timed or was_timed(node, self.device, self.figures)
        return is_finished(node, how, self.device, self.figures, is_timed)

    def _absorbs(self, node: Node) -> bool:
        """Whether the op after a node may be part of its kernel."""
        return cuda_ops.absorbs(node, self.figures) or node in self.finishes

    # --- launches -------------------------------------------------------------------------------------------------

    def _connect(self) -> None:
        """Compile and load the kernels, pack their arguments, note which of them change between calls."""
        driver = self.driver
        arena = afforded(driver.arena, self.arena_size, self.device)
        launches = [launch for step in self.steps if step.work for launch in step.work.launches]
        self.sources = list(dict.fromkeys(launch.source for launch in launches))
        checking = [s for s in self.steps if s.work and any(ERROR_FLAG in x.arguments for x in s.work.launches)]
        self.checks = dict.fromkeys(_named(node) for step in checking for node in step.writes)
        functions = driver.kernels(launches)
        self.held = [_constant(node, self.device) for node in self.constants]
        self.pieces: list[Any] = []
        self.users: dict[int, list[tuple[Stretch, Any, int]]] = {}
        for number, step in enumerate(self.steps):
            if step.node is not None:
                self.pieces.append(step.node)
                continue
            if not self.pieces or isinstance(self.pieces[-1], Node):
                self.pieces.append(Stretch(driver, lambda number: _named(self.steps[number].writes[0])))
            if step.vendor is not None:
                self._bind_vendor(number, step, arena, self.pieces[-1])
            for launch in step.work.launches if step.work else ():
                call = Call(functions[launch.source, launch.entry], launch, driver.encode, number)
                self.pieces[-1].add(call, self.waits[number])
                self._bind(call, number, step, arena, self.pieces[-1])
        self.last = [0] * (len(self.external) + len(self.constants) + len(self.made))
        self.staging: dict[int, tuple[DeviceArray, bytes]] = {}
        self.from_host: dict[int, ref[Any]] = {}  # by input: the array on the host that is staged
        self.kept: dict[int, OutputArrays] = {}  # by output: of those that a replay gives
        self.moved: Counter[int] = Counter()  # how often what a library uses was elsewhere, by slot
        self.fixed: dict[int, DeviceArray] = {}  # by slot: where a library finds what lies elsewhere at every call

    def _bind_vendor(self, number: int, step: Step, arena: int, stretch: Stretch) -> None:
        workspace = arena + self.offsets[number, "workspace"] if step.vendor.workspace else 0
        own = step.vendor.workspace if (number, "workspace") in self.own else 0
        call = VendorCall(step.vendor, len(step.operands), workspace, number, own)
        stretch.add(call, self.waits[number])
        for position, name in enumerate(step.operands):
            node = step.buffers.get(name)
            if node in self.slots:
                self.users.setdefault(self.slots[node], []).append((stretch, call, position))
            else:
                call.pointers[position] = arena + self.offsets[(number, name) if node is None else node]

    def _bind(self, call: Call, number: int, step: Step, arena: int, stretch: Stretch) -> None:
        for position, given in enumerate(call.launch.spread):
            argument = given.buffer if isinstance(given, TensorMap) else given
            if not isinstance(argument, str):
                continue
            if argument == ERROR_FLAG:
                call.arguments.set(position, self.driver.error_flag())
            elif argument not in step.buffers:
                call.arguments.set(position, arena + self.offsets[number, argument])
            elif (node := step.buffers[argument]) in self.slots:
                self.users.setdefault(self.slots[node], []).append((stretch, call, position))
            else:
                call.arguments.set(position, arena + self.offsets[node])

    # --- showing --------------------------------------------------------------------------------------------------

    @property
    def source(self) -> str:
        """The CUDA C++ of all kernels."""
        return "\n".join(self.sources)

    def described(self) -> str:
        """What is launched, in order: how each launch's shape was worked out, which library or host op takes part."""
        return report.described(self)

    def text_of(self, number: int) -> str:
        """The CUDA C++ of a step, each kernel after how its launch's shape was worked out."""
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
            self.copy_out()
            return self._in_order(self._results(table), arrays, owned)

    def _run(self, arrays: Sequence[Any], table: Sequence[DeviceArray]) -> None:
        """Carry out all steps."""
        results: dict[Node, Any] = {}
        for piece in self.pieces:
            if isinstance(piece, Node):
                self._on_host(piece, arrays, table, results)
            elif watch.observer is None:
                piece.run(self.captures)
            else:
                watch.observer.ran_steps(self, piece.run_marked())

    def _in_order(self, results: list[Any], arrays: Sequence[Any], owned: Container[int]) -> list[Any]:
        """The device's outputs and the host's, in the graph's order; the latter, too, over what they replace."""
        if not self.hosted:
            return results
        found = dict(zip(self.numbers, results))
        found.update(zip(self.hosted, map(np.array, self.host_graph(*arrays))))
        for k, i in self.over_inputs.items():
            there, new = arrays[i], found[k]
            if i not in owned or i not in self.from_host or not there.flags.writeable:
                continue
            if (there.shape, there.dtype) == (new.shape, new.dtype):
                there[...] = new
                found[k] = there
        return [found[k] for k in range(len(found))]

    def staged(self, i: int, array: Any) -> DeviceArray:
        """A host array on the device, in a place of its input's own; uploaded only if it differs from the last one."""
        if type(array) is DeviceArray:
            return array
        if isinstance(array, np.ndarray):
            self.from_host[i] = ref(array)
        else:  # a number, which nobody can write over
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
        """Give the launches the addresses that differ from those of the last call."""
        if [array.pointer for array in table] != self.last:
            for slot, array in enumerate(table):
                if array.pointer != self.last[slot]:
                    self.move(slot, array)

    def move(self, slot: int, array: DeviceArray) -> None:
        """Give what uses a slot another address."""
        if slot in self.users and slot not in self.fixed:
            self._point_slot(slot, array, is_first=not self.last[slot])
        self.last[slot] = array.pointer

    def _made(self, k: int, shape: Shape, dtype: np.dtype[Any]) -> DeviceArray:
        """An array for an output."""
        kept = self.kept.get(k)
        return DeviceArray(shape, dtype, self.device) if kept is None else kept.take()

    def replay(self, inputs: Sequence[int], outputs: Sequence[int]) -> CudaReplay | None:
        """This program on the memory of its last call, in which only these inputs and outputs may move."""
        return CudaReplay.of(self, inputs, outputs)

    def _point_slot(self, slot: int, array: DeviceArray, is_first: bool) -> None:
        """Give all that use a slot its address.

        A library's call is captured with the address it had: when that moves, all is captured anew. For a slot that
        moves again and again all use a fixed place instead, with copies to and fro.
        """
        users = self.users[slot]
        moves = not is_first and any(isinstance(call, VendorCall) for _, call, _ in users)
        if moves:
            self.moved[slot] += 1
        if self.moved[slot] > CAPTURED_ANEW:
            array = self.fixed[slot] = DeviceArray(array.shape, array.dtype, self.device)
        for stretch, call, position in users:
            if isinstance(call, Call):
                call.arguments.set(position, array.pointer)
                stretch.changed.add(call)
            else:
                call.pointers[position] = array.pointer
            if moves:
                stretch.recording = None

    def copy_in(self) -> None:
        """Bring what has a fixed place there."""
        for slot, fixed in self.fixed.items():
            if slot < len(self.last) - len(self.made):
                self.driver.copy(fixed.pointer, self.last[slot], fixed.nbytes)

    def copy_out(self) -> None:
        """Bring what was made or overwritten in a fixed place to where it belongs."""
        for slot, fixed in self.fixed.items():
            if slot >= len(self.last) - len(self.made) or slot in self.overwritten:
                self.driver.copy(self.last[slot], fixed.pointer, fixed.nbytes)

    def _on_host(
        self, node: Node, arrays: Sequence[Any], table: Sequence[DeviceArray], results: dict[Any, Any]
    ) -> None:
        """Compute an op by its reference: its operands come down, its result goes up."""
        if node.op.name == "pick" and node.sources[0] in results:
            value = results[node.sources[0]][node.attrs["index"]]
        else:
            operands = [results[s] if s in results else self._fetched(s, arrays, table) for s in node.sources]
            with np.errstate(all="ignore"):
                value = apply_here(node, operands)
        if isinstance(node.dtype, tuple):
            results[node] = value
        else:
            array = np.asarray(value, order="C")
            upload_into(self._address(node, table), array, self.device)

    def _fetched(self, node: Node, arrays: Sequence[Any], table: Sequence[DeviceArray]) -> np.ndarray[Any, Any]:
        owner = storage(node)
        slot = self.slots.get(owner)
        if slot is not None and slot < len(arrays) and isinstance(arrays[slot], np.ndarray):
            return np.asarray(arrays[slot]).reshape(node.shape)
        return download(self._placed(node, table))

    def _placed(self, node: Node, table: Sequence[DeviceArray]) -> DeviceArray:
        """A value where it lies while the program runs."""
        place = _Stretch(self._address(node, table), self.device)
        return DeviceArray.over(node.shape, node.dtype, place, place.pointer, place)

    def _address(self, node: Node, table: Sequence[DeviceArray]) -> int:
        owner = storage(node)
        slot = self.slots.get(owner)
        if slot is not None:
            return self.fixed.get(slot, table[slot]).pointer
        return int(self.driver.arena(self.arena_size) + self.offsets[owner])

    def _results(self, table: Sequence[DeviceArray]) -> list[Any]:
        """The outputs. What is an input or a constant is copied: results never alias."""
        results: list[Any] = [table[slot] for slot in self.places]
        for k, node, is_own in self.changed:
            array = results[k]
            array = array if array.shape == node.shape else array.reshape(node.shape)
            array = array if is_own else array.copy()
            results[k] = array if node.device == self.device else download(array)
        return results

    def _plan_results(self) -> None:
        """Which slots the outputs are in, and of which there is something to do besides."""
        outputs = self.graph.outputs
        numbers = {storage(node): self.numbers[k] for k, node in reversed(list(enumerate(outputs)))}
        shapes = dict(zip(self.numbers, (node.shape for node in outputs)))
        self.fresh = [(numbers[node], shapes[numbers[node]], node.dtype) for node in self.made]
        self.overwritten = [self.slots[source] for source in self.taken.values()]
        self.places = [self.slots[storage(node)] for node in outputs]
        self.changed: list[tuple[int, Node, bool]] = []
        free = {*self.made, *self.taken}
        for k, node in enumerate(outputs):
            owner = storage(node)
            turned = owner in self.taken and owner.shape != node.shape
            if owner not in free or turned or node.device != self.device:
                self.changed.append((k, node, owner in free))


class _Stretch(NamedTuple):
    """A place in the arena, which owns its memory."""

    pointer: int
    device: str


def _read_by(node: Node, is_hosted: Callable[[Node], bool]) -> Sequence[Node]:
    """What an op reads from memory, but for what finishes it."""
    return node.sources if is_hosted(node) else cuda_ops.operands(node)


def _constant(node: Node, device: str) -> DeviceArray:
    buffer = node.buffer
    return buffer if type(buffer) is DeviceArray else upload(np.asarray(buffer), device)


def _named(node: Node) -> str:
    return f"{node.op.name} at {describe(node.location)}"
