"""The only file of the replay check that knows the compiler's internals. A refactoring edits this file and no other.

It gives three things: `without_toolchains`, inside which nothing is compiled by gcc or NVRTC and no GPU is needed;
`record`, the graph that a compiled function would be built from; and `build`, which compiles a graph and describes the
program as plain data.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from time import process_time
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

import wengert as wg
from tests.backends.emulated import IdleDriver
from wengert.backends.cpu import program as cpu
from wengert.backends.cpu import toolchain
from wengert.backends.cpu.device import HostDevice
from wengert.backends.cuda import blas, dnn, dnn_attention, fft, solver
from wengert.backends.cuda.device import CudaDevice
from wengert.core import devices
from wengert.core.graph import Graph
from wengert.kernels import headers as kernel_headers
from wengert.kernels.launch import ERROR_FLAG, FAILING_OP, H200, Launch
from wengert.ops import random
from wengert.ops.core import to_device
from wengert.plan import plan
from wengert.plan.libraries import PartList
from wengert.runtime import program as building
from wengert.runtime.static import compile as static

DEVICE = "cuda:0"
LONG = 0.015  # seconds: from here on a compile time is worth measuring twice


class Recorded(NamedTuple):
    """A graph ready to be compiled, and the pairs of inputs and outputs that may share memory."""

    graph: Graph
    pairs: Sequence[tuple[int, int]] = ()


# --- an environment in which programs are made and never run --------------------------------------------------------


class VirtualDriver(IdleDriver):
    """An H200 whose memory is addresses alone: nothing is stored, nothing runs."""

    def __init__(self) -> None:
        super().__init__(memory=1 << 37)
        self.properties, self.next = H200, 1 << 40

    def allocate(self, size: int) -> int:
        """Addresses that nobody has yet."""
        self.next += -(-size // 256) * 256 + 256
        return self.next

    def free(self, pointer: int) -> None:
        """Addresses are not used again."""

    def reserved(self) -> int:
        """Nothing."""
        return 0

    def arena(self, size: int) -> int:
        """An address of its own; kernels' texts do not depend on it."""
        return 1 << 39

    def upload(self, pointer: int, array: np.ndarray) -> None:
        """Nothing is stored."""

    def download(self, array: np.ndarray, pointer: int) -> None:
        """All memory is zeros."""
        array[...] = np.zeros((), array.dtype)

    def copy(self, to: int, source: int, size: int) -> None:
        """Nothing is stored."""

    def clear(self, pointer: int, size: int) -> None:
        """All memory is zeros already."""

    def took_error(self) -> int:
        """No kernel runs."""
        return 0

    def encode(self, described: Any, address: int) -> bytes:
        """A tensor map has 128 bytes."""
        return bytes(128)


class LibraryCall:
    """A candidate of a library that is always there; it is named and placed, and never called."""

    works = True

    def __init__(self, name: str, workspace: int) -> None:
        self.name, self.workspace = name, workspace


class Recipe:
    """A recipe of a library that is always there: one call, never made."""

    def __init__(self, name: str) -> None:
        self.name = name

    def parts(self, node: Any, named: Any, results: Any, factors: Any = None) -> PartList:
        """The call, on all operands and results."""
        made = [*results.values()] if isinstance(node.dtype, tuple) else [node]
        operands = tuple(dict.fromkeys(map(named, (*node.sources, *made))))
        return PartList((plan.LibraryCall(LibraryCall(self.name, 0), operands),), {})


def _transforms(node: Any, device: int) -> list[Recipe]:
    return [Recipe("cuFFT")] if node.size and fft.stages(node) is not None else []


def _matrices(node: Any, device: int) -> list[Recipe]:
    fits = node.sources[0].dtype in solver.DTYPES and node.sources[0].size and node.sources[-1].size
    return [Recipe("cuSOLVER")] if fits else []


class _NoLibrary:
    """What the C compiler would have built."""


@contextmanager
def without_toolchains(libraries: bool = False) -> Iterator[None]:
    """Inside, programs are made for the CPU and for an H200, but never built or run; values are zeros.

    `libraries`: as if cuBLASLt and cuDNN had one candidate for everything that they are asked for.
    """
    with ExitStack() as stack:
        enter = lambda target, name, value: stack.enter_context(patch.object(target, name, value))
        enter(cpu, "load", lambda units, more=(): _NoLibrary())
        enter(cpu, "close_with", lambda owner, library: None)
        enter(cpu.CpuProgram, "_connect", lambda self: None)
        enter(toolchain, "has_compiler", lambda: True)
        enter(random, "drawer", _draw_zeros)
        enter(devices, "_opened", {devices.HOST: HostDevice(), DEVICE: CudaDevice(DEVICE, VirtualDriver())})
        for module, name in ((blas, "cuBLASLt"), (dnn, "cuDNN"), (dnn_attention, "cuDNN attention")):
            enter(module, "library", lambda: None)
            found = [LibraryCall(name, 1 << 20)] if libraries else []
            enter(module, "candidates", lambda shape, device, found=found: found)
        for module, recipes in ((fft, _transforms), (solver, _matrices)):
            enter(module, "library", lambda: None)
            enter(module, "recipes", recipes if libraries else lambda node, device: [])
        settings = {name: getattr(wg.config, name) for name in ("tier", "tf32")}
        wg.config.tier = "interpret"  # so that set-up computes by the references, or by kernels that do nothing
        try:
            yield
        finally:
            for name, value in settings.items():
                setattr(wg.config, name, value)


def _draw_zeros(words: np.ndarray, key: Any, counter: Any, stream: int) -> bool:
    words[...] = 0
    return True


# --- recording ------------------------------------------------------------------------------------------------------


class _Stopped(Exception):
    """The compiled function has been recorded."""


def record(step: Callable[[], Any]) -> Recorded:
    """The graph of the first compiled function that `step` calls; the step ends there."""
    wg.synchronize()
    found: list[Recorded] = []

    def stop(graph: Graph, pairs: Sequence[tuple[int, int]] = (), tuning: float = 0.0, promise: Any = None) -> Any:
        found.append(Recorded(graph, pairs))
        raise _Stopped

    with patch.object(static, "build", stop):
        try:
            step()
        except _Stopped:
            return found[0]
    raise AssertionError("the step called no compiled function")


def on_gpu(recorded: Recorded) -> Recorded:
    """The same graph with its outputs on the GPU, where all of it is computed then."""
    graph = recorded.graph
    outputs = [to_device(node, DEVICE) for node in graph.outputs]
    moves = [node for node in dict.fromkeys(outputs) if node not in set(graph.nodes)]
    return Recorded(Graph(graph.inputs, outputs, nodes=[*graph.nodes, *moves]), recorded.pairs)


# --- building and describing ----------------------------------------------------------------------------------------


def build(recorded: Recorded) -> tuple[dict[str, Any], float]:
    """The program of a graph as plain data, and the seconds of processor time that compiling took.

    What takes long is compiled twice, and the shorter time counts: one time alone is off by half on a busy machine.
    """
    before, wg.config.tier = wg.config.tier, "compile"
    try:
        program, seconds = _timed(recorded)
        if seconds > LONG:
            seconds = min(seconds, _timed(recorded)[1])
    finally:
        wg.config.tier = before
    described = _on_cpu(program) if isinstance(program, cpu.CpuProgram) else _on_cuda(program)
    return described, seconds


def _timed(recorded: Recorded) -> tuple[Any, float]:
    start = process_time()
    program = building.build(recorded.graph, recorded.pairs)
    return program, process_time() - start


def _on_cpu(program: Any) -> dict[str, Any]:
    functions = {name: function.named(name) for name, function in program._defined().items()}
    main = program.source[program.source.index(cpu.CALLING) :]
    return {
        "kernels": [*functions.items(), ("main", main)],
        "launches": [[piece if isinstance(piece, str) else piece.op.name] for piece in program.pieces],
        "library_calls": [],
        "host_ops": [step.host_op.op.name for step in program.steps if step.host_op is not None],
        **_counts(program),
    }


def _on_cuda(program: Any) -> dict[str, Any]:
    steps = program.steps
    launches: list[Launch] = [launch for step in steps for launch in step.launches]
    return {
        "kernels": [(launch.entry, launch.source) for launch in _first_of_each_text(launches)],
        "launches": [[x.entry, list(x.grid), list(x.block), x.shared] for x in launches],
        "arguments": [line for number in range(len(steps)) for line in _arguments(program, number)],
        "library_calls": [step.library.candidate.name for step in steps if step.library is not None],
        "host_ops": [step.host_op.op.name for step in steps if step.host_op is not None],
        **_counts(program),
    }


def _arguments(program: Any, number: int) -> Iterator[str]:
    """What a step waits for, and of each of its calls the arguments: values, and where buffers lie."""
    step = program.steps[number]

    def place(name: str) -> str:
        node = step.buffers.get(name)
        if name in (ERROR_FLAG, FAILING_OP):
            return "error flag"
        if node in program.slots:
            return f"slot {program.slots[node]}"
        return f"arena {program.plan.arena.offsets[(number, name) if node is None else node]}"

    def shown(value: Any) -> str:
        if isinstance(value, str):
            return place(value)
        return repr(replace(value, buffer=place(value.buffer)) if hasattr(value, "buffer") else value)

    calls = [step.library.operands] if step.library is not None else []
    calls += [launch.spread for launch in step.launches]
    for call in calls:
        yield f"step {number} after {sorted(program.plan.waits[number])}: {', '.join(map(shown, call))}"


def _first_of_each_text(launches: Iterable[Launch]) -> list[Launch]:
    found: dict[str, Launch] = {}
    for launch in launches:
        found.setdefault(launch.source, launch)
    return list(found.values())


def _counts(program: Any) -> dict[str, int]:
    return {
        "steps": len(program.steps),
        "arena_bytes": int(program.plan.arena.size),
        "nodes": len(program.graph.nodes),
    }


def headers() -> dict[str, str]:
    """The hand-written headers that generated texts include by name."""
    found = {**kernel_headers.headers("h"), **kernel_headers.headers("cuh")}
    return {name: found[name].read_text() for name in sorted(found)}
