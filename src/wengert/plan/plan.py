"""Plan: a program as data, from an optimised graph to steps over planned memory.

The result is `steps`, `buffers`, `arena` and `waits`: a backend carries out the steps, each after those it waits for,
over memory that is laid out already. What else a plan holds is what its stages (`pipeline`) decided on the way.

A step has parts, in order: launches of our kernels, a library's call, C code, an op that the host computes by its
reference. Two kinds foresee what is to come: a `Body` is a plan that a step runs several times (a loop) with values
carried from one trip to the next, and `Start` and `Wait` are the two ends of something that goes on meanwhile (a
collective). Code generators, C for the CPU and CUDA C++ for a GPU, answer the same questions of the stages.
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
    """One way in which a library carries out an op: an algorithm of cuBLASLt, a plan of cuDNN."""

    name: str

    @property
    def works(self) -> bool:
        """Whether the library takes these sizes after all; it may have to build something to tell."""
        ...

    @property
    def workspace(self) -> int:
        """The bytes that it works in."""
        ...

    def enqueue(self, stream: int, pointers: Sequence[int], workspace: int) -> None:
        """Put the call on a stream."""
        ...


@dataclass(frozen=True)
class LibraryCall:
    """A call of a library, on buffers by name; temporaries lie in the step's workspace "workspace"."""

    candidate: LibraryCandidate
    operands: tuple[str, ...]
    captured: bool = True  # whether it may be part of a CUDA graph: it neither waits for the device nor allocates


@dataclass(frozen=True)
class CCode:
    """A C statement, and the function with loops that it calls, if it calls one."""

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
    """A plan that is run this many times; after each trip a carry's input is given the value of its output.

    Its arena lies in the step's workspace: "body" on a device, "scratch" on the CPU.
    """

    plan: Plan
    carries: tuple[tuple[int, int], ...]  # inputs and outputs of the plan's graph, by number
    trips: int | None  # None: as long as a condition holds
    name: str = "step"  # what it is of a loop or branch


@dataclass(frozen=True)
class Start:
    """Begin something that goes on until the `Wait` of the same token; its step names what is read and written."""

    token: str
    node: Node | None = None  # the collective that is begun


@dataclass(frozen=True)
class Wait:
    """Wait for what was started; its step names the same values as the `Start`."""

    token: str
    node: Node | None = None


Part = Launch | LibraryCall | CCode | HostOp | Body | DeviceLoop | Start | Wait


@dataclass(frozen=True)
class Step:
    """A part of a program: what carries it out, and which values it reads and writes."""

    parts: tuple[Part, ...]
    reads: Sequence[Node]
    writes: Sequence[Node]
    buffers: Mapping[str, Node] = field(default_factory=dict)  # by the names that the parts use
    workspace: Mapping[str, int] = field(default_factory=dict)  # temporaries: names and bytes
    kernel: LoopKernel | None = None  # of loops: what the launches or the C were written from, if that is one kernel
    choice: Choice | None = None  # why it was taken, if candidates were timed
    kept: tuple[Node, ...] = ()  # what an attention's forward keeps for its backward, which are no values of the graph
    reason: str = ""  # why the host computes it, of what could have been compiled

    @property
    def launches(self) -> tuple[Launch, ...]:
        """The launches among its parts."""
        return tuple(part for part in self.parts if isinstance(part, Launch))

    def exact(self) -> Step:
        """The step with launches whose texts are compiled without contraction."""
        return replace(self, parts=tuple([part.exact() if isinstance(part, Launch) else part for part in self.parts]))

    @property
    def library(self) -> LibraryCall | None:
        """The library's call, if there is one."""
        return next((part for part in self.parts if isinstance(part, LibraryCall)), None)

    @property
    def flight(self) -> Start | Wait | None:
        """The start or the end of a collective, if that is what the step is."""
        return next((part for part in self.parts if isinstance(part, (Start, Wait))), None)

    @property
    def host_op(self) -> Node | None:
        """The op that the host computes, if that is what the step is."""
        return next((part.node for part in self.parts if isinstance(part, HostOp)), None)

    @property
    def loop(self) -> DeviceLoop | None:
        """What a GPU does with its bodies, if it is a loop or branch there."""
        return next((part for part in self.parts if isinstance(part, DeviceLoop)), None)

    @property
    def code(self) -> CCode | None:
        """Its C, if it has any."""
        return next((part for part in self.parts if isinstance(part, CCode)), None)

    @property
    def first_result(self) -> Node | None:
        """What it writes first: the value to name it by. A step whose results nobody reads writes none."""
        return next(iter(self.writes), None)

    @property
    def does_nothing(self) -> bool:
        """Whether its value is in its place already."""
        return not self.parts

    @property
    def carrier(self) -> str:
        """Who carries it out, if it is not a kernel of ours."""
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
    """A step that calls a library, and launches kernels after that."""
    then = then if then is not None else LaunchList(())
    own = {"workspace": candidate.workspace} if candidate.workspace else {}
    call = LibraryCall(candidate, tuple(operands))
    return Step((call, *then.launches), reads, writes, buffers, {**then.workspace, **own})


# --- codegen --------------------------------------------------------------------------------------------------------


How = tuple[Any, ...]
"""What a library does with a product before it stores it: words for a matrix product, steps for a convolution."""


class LibraryEpilogue(NamedTuple):
    """What a library does after a product or convolution: what it stores then, what it reads, what else it stores."""

    how: How
    result: Node
    operands: tuple[Node, ...] = ()
    kept: tuple[Node, ...] = ()


class Codegen(Protocol):
    """What generates code for a target."""

    @property
    def target(self) -> Target:
        """What the code is for."""
        ...

    @property
    def overwriting(self) -> bool:
        """Whether kernels of ops that overwrite leave the result in the memory of their first operand."""
        ...

    def inlines(self, node: Node) -> bool:
        """Whether a value is an expression in a loop."""
        ...

    def expands(self, node: Node) -> bool:
        """Whether an op is to be written as others, of which something on the device does each."""
        ...

    def reads(self, node: Node) -> Sequence[Node]:
        """What an op that is no loop reads from memory."""
        ...

    def absorbs(self, node: Node) -> bool:
        """Whether an elementwise epilogue may be part of an op's kernel."""
        ...

    def epilogues(self, graph: Graph) -> Mapping[Node, LibraryEpilogue]:
        """The epilogues that a library carries out, by their products."""
        ...

    def fallible(self, grouping: Grouping) -> Collection[int]:
        """The numbers of the groups that may raise while they run."""
        ...

    def tune(self, plan: Plan) -> Any:
        """Time candidates and keep the winners, if that was requested; what it came to."""
        ...

    def steps(self, plan: Plan) -> Sequence[Step]:
        """The steps of a plan's groups, one for each."""
        ...


MakeCodegen = Callable[[Target], Codegen]


# --- plan -----------------------------------------------------------------------------------------------------------


class Buffers(NamedTuple):
    """The values that lie outside the arena: given, constant, or made to be returned; and their slots in that order.

    An output that is written over an input has that input's slot.
    """

    external: list[Node]
    constants: list[Node]
    made: list[Node]
    slots: Mapping[Node, int]


class Arena(NamedTuple):
    """Where values and temporaries lie in a program's memory; a step's temporaries go by its number and their name."""

    offsets: Mapping[Any, int]
    size: int
    sizes: Mapping[Any, int]  # bytes of what has an offset
    scratch: int = 0  # where the memory begins that every step may work in


class HostOutputs(NamedTuple):
    """Outputs that the host computes from what it has, such as a random counter, while the device works."""

    numbers: list[int]  # of the other outputs, which the plan computes
    hosted: list[int]
    graph: Graph | None  # of the hosted ones
    replaces: Mapping[int, int]  # by hosted output: the input whose place it takes


NO_BUFFERS, NO_ARENA = Buffers([], [], [], {}), Arena({}, 0, {})
NOTHING_HOSTED, NO_GROUPS = HostOutputs([], [], None, {}), Grouping([], set(), set(), [])


@dataclass(frozen=True)
class Plan:
    """A program: what it computes, for what, and what its stages decided so far."""

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
    lives: Mapping[Any, Life] = field(default_factory=dict)  # of what has a place of its own in the arena
    sizes: Mapping[Any, int] = field(default_factory=dict)  # bytes of that
    aliases: Mapping[Node, Node] = field(default_factory=dict)  # by result: the operand whose place it takes
    private: frozenset[Any] = frozenset()  # workspaces whose places nothing else uses at any time
    tuned: Any = None  # what timing candidates came to
    reports: tuple[Any, ...] = ()  # of the passes and stages so far

    @property
    def overwriting(self) -> set[Node]:
        """The outputs that are written after all that may fail, over an input or into memory that a caller gives."""
        last = max(self.codegen.fallible(self.grouping), default=-1)
        late = {root for group in self.grouping.groups[last + 1 :] for root in group.stored}
        return {*self.donated, *[node for node in self.buffers.made if node in late]}

    @property
    def groups_of_steps(self) -> Sequence[FusionGroup]:
        """By step: the group that it carries out."""
        return self.step_groups or self.grouping.groups

    def place(self, value: Any) -> tuple[int, int, int] | None:
        """The memory (a slot, or ARENA), start and end of a value or temporary; None for what has no memory."""
        if value in self.buffers.slots:
            return self.buffers.slots[value], 0, 1
        if value in self.arena.offsets:
            start = self.arena.offsets[value]
            return ARENA, start, start + self.arena.sizes[value]
        return None


ARENA = -1
"""The memory that is no slot's."""


def table_size(plan: Plan) -> int:
    """How many pointers a program's table has."""
    return 1 + max(plan.buffers.slots.values(), default=-1)


def nested(plan: Plan) -> Iterator[Plan]:
    """A plan, and those of all bodies that its steps hold."""
    yield plan
    for step in plan.steps:
        for part in step.parts:
            if isinstance(part, Body):
                yield from nested(part.plan)


def launches_in(step: Step) -> list[Launch]:
    """The launches of a step and of all bodies that it holds."""
    plans = [plan for part in step.parts if isinstance(part, Body) for plan in nested(part.plan)]
    return [launch for one in (step, *(inner for plan in plans for inner in plan.steps)) for launch in one.launches]
