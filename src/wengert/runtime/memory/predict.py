"""A program's peak memory, part by part, from its plan alone.

In: a plan, and which of its inputs are arguments. Out: a `ProgramMemory`: the bytes of arguments, captured tensors,
constants, results and intermediate values, including the allocator's rounding; on a GPU also the kernels' code and the
driver's context. Python's own objects are not counted.
"""

from __future__ import annotations

import mmap
from collections.abc import Container, Iterable, Mapping, Sequence
from typing import NamedTuple

from wengert.compiler.memory import storage
from wengert.core import devices
from wengert.core.dtypes import HALF
from wengert.core.graph import Graph, Node
from wengert.ops.op import PICK
from wengert.plan.plan import Plan, Step, nested
from wengert.runtime.debug.explain import Moment, Timeline, bytes_text, memory_text, size_of, timeline

MAPPED = 1 << 17  # bytes from which a host array has its own pages
HEAP_AT_MOST = 32 << 20  # bytes: an array that is larger is always mapped, by glibc's allocator
POOL_UNIT = 512  # bytes: what the driver's stream-ordered pool rounds an array up to
ARENA_UNIT = 2 << 20  # bytes: what the driver maps into the arena at once
CODE_UNIT = 2 << 20  # bytes: what the driver takes at once for the code of kernels
KERNEL = 20 << 10  # bytes of a kernel's machine code: the mean of 30 kernels of five programs, for an H200
CONTEXT = 560 << 20  # bytes that the driver takes per process, estimated for an absent GPU
LIBRARY_WORKSPACE = 32 << 20  # bytes of cuBLASLt's workspace, if the library is absent


class Planned(NamedTuple):
    """A program that is planned but not built."""

    plan: Plan

    @property
    def steps(self) -> Sequence[Step]:
        """The plan's steps."""
        return self.plan.steps


class Taken(NamedTuple):
    """The memory of a present GPU that is already in use: by the driver, libraries and other processes; by the
    arena."""

    context: int
    arena: int
    loaded: Container[str]  # the texts whose kernels are loaded


class ProgramMemory(Timeline):
    """The memory of a program: a list of moments, with what is live in its arena at each step, and the totals by part.

    `peak` is the sum of the parts: the most bytes that are in use at once while a call runs.
    """

    def __init__(self, moments: Iterable[Moment], parts: Mapping[str, int], device: str, text: str, held: int) -> None:
        super().__init__(moments)
        self.held = held  # bytes of arguments and tensors from outside that have memory already
        self.parts = {name: size for name, size in parts.items() if size}
        self.device = device
        self.timeline = text

    @property
    def peak(self) -> int:
        """The most bytes that are in use at once."""
        return sum(self.parts.values())

    @property
    def new(self) -> int:
        """The bytes that a call adds to those that its arguments and outer tensors already hold."""
        return self.peak - self.held

    def __str__(self) -> str:
        lines = [f"{bytes_text(self.peak)} at the peak on {self.device}"]
        lines += [f"  {bytes_text(size):>10}  {name}" for name, size in self.parts.items()]
        return "\n".join([*lines, self.timeline])

    def __repr__(self) -> str:
        return f"<memory, {bytes_text(self.peak)} at the peak, {len(self)} steps>"


def predicted(
    plan: Plan, recorded: Graph, arguments: int, untouched: Iterable[Node] = (), held: int = 0
) -> ProgramMemory:
    """The memory of a plan; the first `arguments` inputs of the recorded graph are a call's arguments.

    `untouched` are values of outer tensors that the call replaces without reading them. `held` is how much of all that
    already has memory.
    """
    given = {
        "arguments": _arrays(recorded.inputs[:arguments], plan),
        "parameters": _arrays([*recorded.inputs[arguments:], *untouched], plan),
        "constants": _arrays(plan.buffers.constants, plan),
        "results": _arrays(results(plan), plan),
    }
    own = _on_gpu(plan) if plan.target.launches else _on_host(plan)
    program = Planned(plan)
    return ProgramMemory(timeline(program), given | own, plan.target.device, memory_text(program), held)


def results(plan: Plan) -> list[Node]:
    """The values for which a call allocates an array: those that it writes, and copies of existing ones."""
    outputs = plan.graph.outputs
    first = {storage(node): k for k, node in reversed(list(enumerate(outputs)))}
    free = {first[node] for node in (*plan.buffers.made, *plan.donated)}
    return [*plan.buffers.made, *(node for k, node in enumerate(outputs) if k not in free)]


def _arrays(nodes: Iterable[Node], plan: Plan) -> int:
    """The bytes of arrays, including the allocator's rounding."""
    return sum(map(_in_pool if plan.target.launches else _in_pages, map(size_of, nodes)))


def _in_pool(size: int) -> int:
    return rounded(max(size, 1), POOL_UNIT)


def _in_pages(size: int) -> int:
    return rounded(size, mmap.PAGESIZE) if size >= MAPPED else size


def rounded(size: int, unit: int) -> int:
    """A size rounded up to a multiple of a unit.

    >>> rounded(5, 4), rounded(8, 4)
    (8, 8)
    """
    return -(-size // unit) * unit


# --- on the host ----------------------------------------------------------------------------------------------------


def _on_host(plan: Plan) -> dict[str, int]:
    """The arena, and what NumPy's references work in. Of several results of an op all are kept until the call ends."""
    hosted = [step.host_op for step in plan.steps if step.host_op is not None and step.host_op.op is not PICK]
    kept = sum(size_of(node) for node in hosted if isinstance(node.dtype, tuple))
    return {"intermediates": _in_pages(_written(plan)), "references": kept + _at_once(map(_arrays_of, hosted))}


def _at_once(computed: Iterable[Sequence[int]]) -> int:
    """The peak bytes of ops that run one after another, from the sizes of each one's arrays."""
    sizes = [*computed]
    largest = max((size for each in sizes for size in each if size <= HEAP_AT_MOST), default=0)
    mapped = max((sum(size for size in each if size >= largest) for each in sizes), default=0)
    return mapped + max((sum(size for size in each if size < largest) for each in sizes), default=0)


def _arrays_of(node: Node) -> list[int]:
    """The sizes of the arrays that a reference makes to compute an op: its result, and what it makes on the way.

    Half precision is computed in float32. A body is computed op by op, and its values live until a trip ends.
    """
    bodies = [value for value in node.attrs.values() if isinstance(value, Graph)]
    trip = [size_of(n) for body in bodies for n in (*body.nodes, *body.outputs) if n.op.kind != "movement"]
    if isinstance(node.dtype, tuple):
        return trip
    is_half = not node.op.moves and any(source.dtype in HALF for source in node.sources)
    wide = [4 * n.size for n in (*node.sources, node) if n.dtype in HALF] if is_half else []
    return [size_of(node), *wide, *trip]


def _written(plan: Plan) -> int:
    """The bytes of the arena covered by some value or temporary; gaps are never touched."""
    arena = plan.arena
    places = sorted((start, start + arena.sizes[value]) for value, start in arena.offsets.items())
    end = total = 0
    for start, stop in [*places, (arena.scratch, arena.size)]:
        total += max(0, stop - max(start, end))
        end = max(end, stop)
    return total


# --- on a GPU -------------------------------------------------------------------------------------------------------


def taken_from(device: str) -> Taken | None:
    """The memory of a GPU that is already in use; None if it is not present or was not opened yet."""
    if device not in devices.in_use():
        return None
    from wengert.backends.cuda.memory import opened  # which `import wengert` does not load

    driver = opened(device)
    free, total = driver.memory_info()
    loaded = {source for source, _ in driver.functions}
    return Taken(max(total - free - driver.reserved() - driver.arena_size, 0), driver.arena_size, loaded)


def _on_gpu(plan: Plan) -> dict[str, int]:
    """The arena, the kernels' code, and what the driver and the libraries take for themselves."""
    taken = taken_from(plan.target.device)
    context, arena, loaded = taken or Taken(CONTEXT, 0, ())
    steps = [step for one in nested(plan) for step in one.steps]
    sources = {launch.source for step in steps for launch in step.launches if launch.source not in loaded}
    called = any(step.kernel is None and step.launches for step in steps)  # a product, which a library may do
    return {
        "intermediates": arena + rounded(max(plan.arena.size - arena, 0), ARENA_UNIT),
        "libraries": LIBRARY_WORKSPACE if called and taken is None else 0,
        "code": rounded(len(sources) * KERNEL, CODE_UNIT),
        "context": context,
    }
