"""Memory: the lifetimes of a program's values, their offsets in one arena, and the dependencies between steps.

In: the steps, and the slots of values outside the arena: inputs, constants, returned outputs. Out: the lifetime of
every other value and temporary (`liveness`); results that reuse an operand's memory, where the program's peak is
(`in_place`: elsewhere it would save nothing, and a kernel that differs from that of equal layers is one more to
compile); an offset for each (`arena`), so that values with disjoint lifetimes share memory; and for each step, the
earlier steps that touch the same memory, one of them writing (`waits`). Independent steps may run concurrently.
"""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from wengert.compiler.memory import Life, best_fit, live, lives
from wengert.compiler.rewrite import spend
from wengert.core.graph import Node
from wengert.kernels.launch import DeviceProperties
from wengert.plan.collectives import starts_collective
from wengert.plan.plan import Arena, Plan, Step, Wait

APART = 64 << 20  # bytes up to which every value on a GPU has its own memory, so that no step waits for memory
PRIVATE = 1 << 20  # maximum bytes of a workspace with its own memory; partial sums are larger and share
ALL_PRIVATE = 64 << 20  # maximum bytes of all of those together: little for a program with many products

Workspace = TypeVar("Workspace", bound=Hashable)


def liveness(plan: Plan) -> Plan:
    """The plan with lifetimes and sizes of values in the arena. Without fuel every lifetime is the whole program."""
    needed, sizes = _needed(plan)
    alive = lives(needed)
    sizes.update((n, max(n.size * n.dtype.itemsize, 1)) for n in alive if isinstance(n, Node))
    if plan.target.launches:
        sizes = {value: -(-sizes[value] // 256) * 256 for value in alive}
    always = Life(0, len(needed))
    few = plan.target.launches and sum(sizes.values()) <= APART
    if few or not spend(None, lambda: "values that are not needed at the same time share memory"):
        alive = dict.fromkeys(alive, always)
    called = {(number, "workspace") for number, step in enumerate(plan.steps) if step.library is not None}
    alive.update(dict.fromkeys(with_own_places({w: sizes[w] for w in alive if w in called}), always))
    private = frozenset(workspace for workspace in called if alive.get(workspace) == always)
    return replace(plan, lives=alive, sizes=sizes, private=private)


def with_own_places(sizes: Mapping[Workspace, int]) -> list[Workspace]:
    """The smallest library workspaces (name to bytes) that get memory that nothing else ever uses.

    A library's clearing of such memory can move to the start of a CUDA graph (`backends/cuda/memset_kernels`).

    >>> with_own_places({"partial sums": 32 << 20, "counters": 512})
    ['counters']
    """
    found, total = [], 0
    for workspace, size in sorted(sizes.items(), key=lambda item: item[1]):
        total += size
        if size > PRIVATE or total > ALL_PRIVATE:
            break
        found.append(workspace)
    return found


def arena(plan: Plan) -> Plan:
    """The plan with an offset for each value in the arena. Without fuel no memory is reused."""
    if spend(None, lambda: "values are placed into gaps of the arena"):
        offsets, size = best_fit(plan.lives, plan.sizes)
    else:
        offsets, size = best_fit(dict.fromkeys(plan.lives, Life(0, 0)), plan.sizes)
    offsets.update((result, offsets[owner]) for result, owner in plan.aliases.items())
    scratch = max((step.workspace.get("scratch", 0) for step in plan.steps), default=0) if _has_scratch(plan) else 0
    sizes = {value: plan.sizes[value] for value in offsets}
    return replace(plan, arena=Arena(offsets, size + scratch, sizes, scratch=size))


def _has_scratch(plan: Plan) -> bool:
    """Whether steps use scratch memory at the end of the arena: on the CPU, where they run one after another."""
    return not plan.target.launches


def _needed(plan: Plan) -> tuple[list[tuple[list[Any], list[Any]]], dict[Any, int]]:
    """The arena values that each step or parallel region reads and writes, and the bytes of temporaries."""
    slots, sizes = plan.buffers.slots, dict[Any, int]()

    def inside(nodes: Sequence[Node]) -> list[Any]:
        return [n for n in nodes if n not in slots and not isinstance(n.dtype, tuple)]

    def touched(number: int, step: Step) -> tuple[list[Any], list[Any]]:
        temporaries = [] if _has_scratch(plan) else [(number, name) for name in step.workspace]
        sizes.update((temporary, step.workspace[temporary[1]]) for temporary in temporaries)
        return inside(step.reads), [*inside(step.writes), *temporaries]

    each = [touched(number, step) for number, step in enumerate(plan.steps)]
    if not plan.regions:
        return each, sizes
    regions = [[each[number] for number in region] for region in plan.regions]
    return [([n for reads, _ in r for n in reads], [n for _, writes in r for n in writes]) for r in regions], sizes


# --- in place -------------------------------------------------------------------------------------------------------


WORTH = 1 / 50  # the least share of live bytes for which a result gets an in-place kernel


class InPlace(NamedTuple):
    """The steps, the lifetimes of values with memory of their own, and for results in place, whose memory they use."""

    steps: list[Step]
    alive: dict[Any, Life]
    aliases: dict[Node, Node]


def in_place(plan: Plan) -> Plan:
    """The plan with results in place of operands, as long as that lowers the peak of live bytes."""
    if plan.target.properties is None:
        return plan
    found = InPlace(list(plan.steps), dict(plan.lives), {})
    improves = True
    while improves and found.alive:
        bytes_alive = live(found.alive, plan.sizes)
        most = max(bytes_alive)
        improves = _improve(found, bytes_alive.index(most), plan.target.properties, WORTH * most)
    return replace(plan, steps=tuple(found.steps), lives=found.alive, aliases=found.aliases)


def _improve(found: InPlace, number: int, device: DeviceProperties, least: float = 0) -> bool:
    """Let a step write a result of at least this many bytes over an operand; returns whether it can."""
    steps, alive, aliases = found
    step = steps[number]
    if step.kernel is None:
        return False
    names = {node: name for name, node in step.buffers.items()}
    from wengert.kernels.cuda import write_in_place  # which a program for the CPU does not load

    for result, operand in _pairs(found, number, least):
        written = write_in_place(step.kernel, names[result], names[operand], device)
        if written is not None and spend(result, lambda result=result: f"{result.op.name} is written over an operand"):  # type: ignore[misc]
            kernel, work = written
            buffers = {name: node for name, node in step.buffers.items() if node is not result}
            steps[number] = replace(step, kernel=kernel, parts=work.launches, workspace=work.workspace, buffers=buffers)
            owner = aliases[result] = aliases.get(operand, operand)
            alive[owner] = Life(alive[owner].first, alive.pop(result).last)
            return True
    return False


def _pairs(found: InPlace, number: int, least: float) -> list[tuple[Node, Node]]:
    """The results of a step, largest first, each with the matching operands that are dead afterwards."""
    steps, alive, aliases = found
    used = set(steps[number].buffers.values())
    operands = [node for node in steps[number].reads if node in used and aliases.get(node, node) in alive]
    dying = [node for node in operands if alive[aliases.get(node, node)].last == number]
    results = [node for node in steps[number].writes if node in alive and _bytes(node) >= least]
    results.sort(key=_bytes, reverse=True)
    return [(r, o) for r in results for o in dying if (r.size, r.dtype) == (o.size, o.dtype)]


def _bytes(node: Node) -> int:
    return int(node.size * node.dtype.itemsize)


# --- waits ----------------------------------------------------------------------------------------------------------


class MemoryRange(NamedTuple):
    """Bytes from `start` to `end` of some memory: the arena, or an array of its own."""

    memory: int
    start: int
    end: int


class _Touched:
    """An accessed memory range: its last writer, the readers since, and the steps that a reader waits for.

    A reader waits for the last writer, and for others that overwrote a part of the range.
    """

    __slots__ = ("readers", "writer", "writers")

    def __init__(self, writer: int | None, writers: set[int]) -> None:
        self.writer, self.writers, self.readers = writer, writers, list[int]()


class _Memories:
    """The last accesses of each memory range. Rereading a known range needs no search, and is the common case."""

    def __init__(self) -> None:
        self.touched: dict[int, dict[MemoryRange, _Touched]] = {}

    def read(self, place: MemoryRange, step: int) -> set[int]:
        """The steps that a reader must wait for."""
        known = self.touched.setdefault(place.memory, {})
        if place not in known:
            writers = {x.writer for _, x in _overlapping(known, place) if x.writer is not None}
            known[place] = _Touched(None, writers)
        known[place].readers.append(step)
        return known[place].writers

    def write(self, place: MemoryRange, step: int) -> set[int]:
        """The steps that a writer must wait for; later steps wait for this one and so, transitively, for those."""
        known = self.touched.setdefault(place.memory, {})
        found: set[int] = set()
        for other, touched in _overlapping(known, place):
            found.update(touched.readers)
            if touched.writer is not None:
                found.add(touched.writer)
            if place.start <= other.start and other.end <= place.end:
                del known[other]
            else:
                touched.writers.add(step)
        known[place] = _Touched(step, {step})
        return found


def _overlapping(known: dict[MemoryRange, _Touched], place: MemoryRange) -> list[tuple[MemoryRange, _Touched]]:
    _, start, end = place
    return [(other, touched) for other, touched in known.items() if other[1] < end and start < other[2]]


def waits_of(
    steps: Iterable[tuple[Iterable[MemoryRange], Iterable[MemoryRange]]],
    filling: Container[int] = (),
    collectives: Container[int] = (),
) -> list[list[int]]:
    """For each step's (reads, writes), the steps that it waits for; `filling` steps each fill the device.

    Each filling step waits for the previous one. So does each of the `collectives`, which run concurrently with all
    other steps.

    >>> a, b, c, d = (MemoryRange(i, 0, 4) for i in range(4))
    >>> waits_of([([a], [b]), ([a], [c]), ([b, c], [d]), ([d], [a])])
    [[], [], [0, 1], [2]]
    >>> waits_of([([a], [b]), ([a], [c]), ([a], [d])], filling={0, 2})
    [[], [], [0]]
    """
    memories = _Memories()
    last: dict[str, int] = {}  # of those that wait for each other
    ancestors: list[int] = []  # as bits
    found = []
    for step, (reads, writes) in enumerate(steps):
        before: set[int] = set()
        for place in reads:
            before |= memories.read(place, step)
        for place in writes:
            before |= memories.write(place, step)
        chain = "collectives" if step in collectives else "filling" if step in filling else ""
        if chain:
            before.update([last[chain]] if chain in last else [])
            last[chain] = step
        before.discard(step)
        bits, direct = 0, []
        for other in sorted(before, reverse=True):
            if not bits >> other & 1:
                direct.append(other)
                bits |= ancestors[other] | 1 << other
        ancestors.append(bits)
        found.append(direct[::-1])
    return found


# --- the stage ------------------------------------------------------------------------------------------------------

FILLING = 32 << 10  # bytes per SM from which a step fills the device


def waits(plan: Plan) -> Plan:
    """The plan with the dependencies of its steps, on a GPU. Without fuel each step waits for the previous one."""
    if plan.target.properties is None:
        return plan
    if not spend(None, lambda: "steps that need nothing of each other run side by side"):
        return replace(plan, waits=tuple((k - 1,) if k else () for k in range(len(plan.steps))))
    filling = {k for k, step in enumerate(plan.steps) if step.moved_bytes >= FILLING * plan.target.properties.sms}
    collectives = {k for k, step in enumerate(plan.steps) if plan.target.overlaps and starts_collective(step)}
    return replace(plan, waits=tuple(map(tuple, waits_of(touched(plan), filling, collectives))))


def touched(plan: Plan) -> Iterator[tuple[list[MemoryRange], list[MemoryRange]]]:
    """The memory ranges that each step reads and writes; temporaries count as written.

    A step that waits for a collective touches nothing itself: on a GPU, readers of the result wait for the call.
    """
    for number, step in enumerate(plan.steps):
        idle = step.does_nothing or (plan.target.launches and isinstance(step.flight, Wait))
        temporaries = [] if idle else [(number, name) for name in step.workspace]
        reads = [] if idle else step.reads
        writes = [] if idle else step.writes
        yield _places(plan, reads), _places(plan, [*writes, *temporaries])


def _places(plan: Plan, values: Iterable[Any]) -> list[MemoryRange]:
    found = (plan.place(value) for value in values)
    return [MemoryRange(*place) for place in found if place is not None]
