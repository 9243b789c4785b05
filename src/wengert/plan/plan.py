"""Plan: a program as data, from an optimised graph to steps over planned memory.

The result is `steps`, `buffers`, `arena` and `waits`: a backend runs each step after those it waits for, in memory that
is already laid out. The other fields record what the stages (`pipeline`) decided on the way.

A step has parts, in order: launches of our kernels, a library call, C code, an op that the host computes by its
reference. A `Body` is a plan that a step runs several times (a loop), with values carried between trips. `Start` and
`Wait` are the two ends of an asynchronous operation (a collective). The code generators, C for the CPU and CUDA C++ for
a GPU, answer the same questions from the stages.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from wengert.compiler.memory import Life
from wengert.core.devices import Target
from wengert.core.graph import Graph, Node
from wengert.kernels.ir.loops import LoopKernel
from wengert.kernels.launch import Launch, LaunchList
from wengert.plan.actions import DeviceLoop
from wengert.plan.groups import FusionGroup, Grouping

if TYPE_CHECKING:
    from wengert.kernels.c import Function, FunctionCall
    from wengert.kernels.c_ops import CFunction
    from wengert.plan.libraries import Choice


class LibraryCandidate(Protocol):
    """One library implementation of an op: an algorithm of cuBLASLt, a plan of cuDNN."""

    name: str

    @property
    def works(self) -> bool:
        """Whether the library really supports these sizes; it may have to build something to find out."""
        ...

    @property
    def workspace(self) -> int:
        """The workspace size in bytes."""
        ...

    def enqueue(self, stream: int, pointers: Sequence[int], workspace: int) -> None:
        """Enqueue the call on a stream."""
        ...


@dataclass(frozen=True)
class LibraryCall:
    """A library call on named buffers; its temporaries lie in the step's workspace "workspace"."""

    candidate: LibraryCandidate
    operands: tuple[str, ...]
    captured: bool = True  # whether it may be part of a CUDA graph: it neither waits for the device nor allocates


@dataclass(frozen=True)
class CCode:
    """A C statement, and the function with loops that it calls, if any."""

    text: str
    function: Function | None = None
    call: FunctionCall | None = None  # of that function, or of the one that takes the rows of a product
    carried_out_by: CFunction | None = None  # the function of a header that does the work
    loop: str = ""  # of a loop or branch of the user's: how it goes, in words


@dataclass(frozen=True)
class HostOp:
    """An op that the host computes by its reference."""

    node: Node


@dataclass(frozen=True)
class Body:
    """A plan that runs this many times; after each trip a carry's input takes the value of its output.

    Its arena lies in the step's workspace: "body" on a device, "scratch" on the CPU.
    """

    plan: Plan
    carries: tuple[tuple[int, int], ...]  # inputs and outputs of the plan's graph, by number
    trips: int | None  # None: as long as a condition holds
    name: str = "step"  # its role in a loop or branch


@dataclass(frozen=True)
class Start:
    """Start an asynchronous operation that ends at the `Wait` with the same token; its step names what it accesses."""

    token: str
    node: Node | None = None  # the collective that is begun


@dataclass(frozen=True)
class Wait:
    """Wait for an operation that was started; its step names the same values as the `Start`."""

    token: str
    node: Node | None = None


Part = Launch | LibraryCall | CCode | HostOp | Body | DeviceLoop | Start | Wait


@dataclass(frozen=True)
class Step:
    """A part of a program: its implementation, and the values that it reads and writes."""

    parts: tuple[Part, ...]
    reads: Sequence[Node]
    writes: Sequence[Node]
    buffers: Mapping[str, Node] = field(default_factory=dict)  # by the names that the parts use
    workspace: Mapping[str, int] = field(default_factory=dict)  # temporaries: names and bytes
    kernel: LoopKernel | None = None  # of loops: what the launches or the C were written from, if that is one kernel
    choice: Choice | None = None  # why it was chosen, if candidates were timed
    kept: tuple[Node, ...] = ()  # values outside the graph that attention's forward keeps for its backward
    reason: str = ""  # why the host computes it although it could be compiled

    @property
    def launches(self) -> tuple[Launch, ...]:
        """The launches among its parts."""
        return tuple(part for part in self.parts if isinstance(part, Launch))

    def exact(self) -> Step:
        """The step with launches compiled without floating-point contraction."""
        return replace(self, parts=tuple([part.exact() if isinstance(part, Launch) else part for part in self.parts]))

    @property
    def library(self) -> LibraryCall | None:
        """The library call, if there is one."""
        return next((part for part in self.parts if isinstance(part, LibraryCall)), None)

    @property
    def flight(self) -> Start | Wait | None:
        """The start or end of a collective, if the step is one."""
        return next((part for part in self.parts if isinstance(part, (Start, Wait))), None)

    @property
    def host_op(self) -> Node | None:
        """The op that the host computes, if the step is one."""
        return next((part.node for part in self.parts if isinstance(part, HostOp)), None)

    @property
    def loop(self) -> DeviceLoop | None:
        """How a GPU runs its bodies, if it is a loop or branch there."""
        return next((part for part in self.parts if isinstance(part, DeviceLoop)), None)

    @property
    def code(self) -> CCode | None:
        """Its C, if it has any."""
        return next((part for part in self.parts if isinstance(part, CCode)), None)

    @property
    def first_result(self) -> Node | None:
        """The first value it writes, by which it is named. A step with no read results writes none."""
        return next(iter(self.writes), None)

    @property
    def does_nothing(self) -> bool:
        """Whether its value is already in place."""
        return not self.parts

    @property
    def carrier(self) -> str:
        """What runs it, if not a kernel of ours."""
        if self.library is not None:
            return self.library.candidate.name
        return "its reference" if self.host_op is not None else ""

    @property
    def moved_bytes(self) -> int:
        """The bytes of all values that it reads or writes."""
        values = {node for node in (*self.reads, *self.writes) if not isinstance(node.dtype, tuple)}
        return sum(node.size * node.dtype.itemsize for node in values)


NOTHING = Step((), (), ())
"""The step of a value that is in its place already, or that another step computes."""


def launched(
    work: LaunchList, buffers: Mapping[str, Node], reads: Sequence[Node], writes: Sequence[Node], **more: Any
) -> Step:
    """A step that launches kernels."""
    return Step(work.launches, reads, writes, buffers, work.workspace, **more)


def called(
    candidate: LibraryCandidate,
    operands: Sequence[str],
    buffers: Mapping[str, Node],
    reads: Sequence[Node],
    writes: Sequence[Node],
    then: LaunchList | None = None,
) -> Step:
    """A step that calls a library, then launches kernels."""
    then = then if then is not None else LaunchList(())
    own = {"workspace": candidate.workspace} if candidate.workspace else {}
    call = LibraryCall(candidate, tuple(operands))
    return Step((call, *then.launches), reads, writes, buffers, {**then.workspace, **own})


# --- codegen --------------------------------------------------------------------------------------------------------


How = tuple[Any, ...]
"""What a library does with a product before it stores it: words for a matrix product, steps for a convolution."""


class LibraryEpilogue(NamedTuple):
    """A library's epilogue of a product or convolution: what is stored, what is read, what else is stored."""

    how: How
    result: Node
    operands: tuple[Node, ...] = ()
    kept: tuple[Node, ...] = ()


class Codegen(Protocol):
    """A code generator for a target."""

    @property
    def target(self) -> Target:
        """The target."""
        ...

    @property
    def overwriting(self) -> bool:
        """Whether kernels of overwriting ops leave the result in their first operand's memory."""
        ...

    def inlines(self, node: Node) -> bool:
        """Whether a value is an expression in a loop."""
        ...

    def expands(self, node: Node) -> bool:
        """Whether an op should be rewritten as ops that the device runs."""
        ...

    def reads(self, node: Node) -> Sequence[Node]:
        """The operands that an opaque op reads from memory."""
        ...

    def absorbs(self, node: Node) -> bool:
        """Whether an elementwise epilogue may be part of an op's kernel."""
        ...

    def epilogues(self, graph: Graph) -> Mapping[Node, LibraryEpilogue]:
        """The library epilogues, by product."""
        ...

    def fallible(self, grouping: Grouping) -> Collection[int]:
        """The numbers of the groups that may raise at run time."""
        ...

    def tune(self, plan: Plan) -> Any:
        """Time candidates and keep the winners, if that was requested; returns the outcome."""
        ...

    def steps(self, plan: Plan) -> Sequence[Step]:
        """The steps of a plan's groups, one for each."""
        ...


MakeCodegen = Callable[[Target], Codegen]


# --- plan -----------------------------------------------------------------------------------------------------------


class Buffers(NamedTuple):
    """The values outside the arena: inputs, constants and returned outputs, with their slots in that order.

    An output that overwrites an input shares its slot.
    """

    external: list[Node]
    constants: list[Node]
    made: list[Node]
    slots: Mapping[Node, int]


class Arena(NamedTuple):
    """The offsets of values and temporaries in a program's memory; temporaries go by step number and name."""

    offsets: Mapping[Any, int]
    size: int
    sizes: Mapping[Any, int]  # bytes of what has an offset
    scratch: int = 0  # the offset of scratch memory that every step may use


class HostOutputs(NamedTuple):
    """Outputs that the host computes from its own values, such as a random counter, while the device works."""

    numbers: list[int]  # of the other outputs, which the plan computes
    hosted: list[int]
    graph: Graph | None  # of the hosted ones
    replaces: Mapping[int, int]  # by hosted output: the input that it replaces


NO_BUFFERS, NO_ARENA = Buffers([], [], [], {}), Arena({}, 0, {})
NOTHING_HOSTED, NO_GROUPS = HostOutputs([], [], None, {}), Grouping([], set(), set(), [])


@dataclass(frozen=True)
class Plan:
    """A program: its computation, its target, and the decisions of its stages so far."""

    graph: Graph
    target: Target
    codegen: Codegen
    pairs: tuple[tuple[int, int], ...] = ()  # inputs and the outputs that take their place, by number
    off: frozenset[str] = frozenset()  # passes and stages that are left out
    check: bool = True  # whether it is verified
    steps: tuple[Step, ...] = ()
    buffers: Buffers = NO_BUFFERS
    arena: Arena = NO_ARENA
    waits: tuple[tuple[int, ...], ...] = ()  # by step: those that it waits for

    host: HostOutputs = NOTHING_HOSTED
    epilogues: Mapping[Node, LibraryEpilogue] = field(default_factory=dict)  # by product: what a library does after it
    grouping: Grouping = NO_GROUPS
    donated: Mapping[Node, Node] = field(default_factory=dict)  # by output: the input that it is written over
    step_groups: tuple[FusionGroup, ...] = ()  # by step, where they are not those of `grouping` one by one
    regions: tuple[tuple[int, ...], ...] = ()  # steps that share one parallel region, by number
    lives: Mapping[Any, Life] = field(default_factory=dict)  # of values with their own memory in the arena
    sizes: Mapping[Any, int] = field(default_factory=dict)  # bytes of that
    aliases: Mapping[Node, Node] = field(default_factory=dict)  # by result: the operand that it overwrites
    private: frozenset[Any] = frozenset()  # workspaces whose memory nothing else ever uses
    tuned: Any = None  # the outcome of timing candidates
    reports: tuple[Any, ...] = ()  # of the passes and stages so far

    @property
    def overwriting(self) -> set[Node]:
        """The outputs written after everything that may fail: over an input, or into memory from the caller."""
        last = max(self.codegen.fallible(self.grouping), default=-1)
        late = {root for group in self.grouping.groups[last + 1 :] for root in group.stored}
        return {*self.donated, *[node for node in self.buffers.made if node in late]}

    @property
    def groups_of_steps(self) -> Sequence[FusionGroup]:
        """For each step, the group that it computes."""
        return self.step_groups or self.grouping.groups

    def place(self, value: Any) -> tuple[int, int, int] | None:
        """The memory (a slot, or ARENA), start and end of a value or temporary; None if it has no memory."""
        if value in self.buffers.slots:
            return self.buffers.slots[value], 0, 1
        if value in self.arena.offsets:
            start = self.arena.offsets[value]
            return ARENA, start, start + self.arena.sizes[value]
        return None


ARENA = -1
"""The memory that is no slot's."""


def table_size(plan: Plan) -> int:
    """The number of pointers in a program's table."""
    return 1 + max(plan.buffers.slots.values(), default=-1)


def nested(plan: Plan) -> Iterator[Plan]:
    """A plan and the plans of all bodies in its steps."""
    yield plan
    for step in plan.steps:
        for part in step.parts:
            if isinstance(part, Body):
                yield from nested(part.plan)


def launches_in(step: Step) -> list[Launch]:
    """The launches of a step and of all its bodies."""
    plans = [plan for part in step.parts if isinstance(part, Body) for plan in nested(part.plan)]
    return [launch for one in (step, *(inner for plan in plans for inner in plan.steps)) for launch in one.launches]
