"""Steps: what a program does, one after the other, as data that a backend only carries out.

A step has parts, in order: launches of our kernels, a library's call, C code, an op that the host computes by its
reference. Two kinds foresee what is to come: a `Body` is a plan that a step runs several times (a loop) with values
carried from one trip to the next, and `Start` and `Wait` are the two ends of something that goes on meanwhile (a
collective). A step names the values that it reads and writes; where they lie is the arena's to say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from wengert.core.graph import Node
from wengert.kernels.ir.loops import Kernel
from wengert.kernels.launch import Launch, Work

if TYPE_CHECKING:
    from wengert.kernels.c import Function
    from wengert.plan.plan import Plan


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


class Choice(NamedTuple):
    """Who won, the time it took, and that of the candidate that would be taken untimed; of so many that were timed."""

    winner: str
    seconds: float
    first: str
    first_seconds: float
    tried: int

    def __str__(self) -> str:
        if not self.tried:
            return "as it was chosen before"
        if self.winner == self.first:
            return f"fastest of {self.tried}, {self.seconds * 1e6:.1f} us"
        gain = self.first_seconds / self.seconds
        return f"fastest of {self.tried}, {self.seconds * 1e6:.1f} us, {gain:.2f} times as fast as {self.first}"


@dataclass(frozen=True)
class LibraryCall:
    """A call of a library, on buffers by name; temporaries lie in the step's workspace "workspace"."""

    candidate: LibraryCandidate
    operands: tuple[str, ...]


@dataclass(frozen=True)
class CCode:
    """A C statement, and the function with loops that it calls, if it calls one."""

    text: str
    function: Function | None = None


@dataclass(frozen=True)
class HostOp:
    """An op that the host computes by its reference."""

    node: Node


@dataclass(frozen=True)
class Body:
    """A plan that is run so many times; after each trip a carry's input is given the value of its output.

    Its arena lies in the step's workspace "body".
    """

    plan: Plan
    carries: tuple[tuple[int, int], ...]  # inputs and outputs of the plan's graph, by number
    trips: int


@dataclass(frozen=True)
class Start:
    """Begin something that goes on until the `Wait` of the same token; its step names what is read and written."""

    token: str


@dataclass(frozen=True)
class Wait:
    """Wait for what was started; its step names the same values as the `Start`."""

    token: str


Part = Launch | LibraryCall | CCode | HostOp | Body | Start | Wait


@dataclass(frozen=True)
class Step:
    """A part of a program: what carries it out, and which values it reads and writes."""

    parts: tuple[Part, ...]
    reads: Sequence[Node]
    writes: Sequence[Node]
    buffers: Mapping[str, Node] = field(default_factory=dict)  # by the names that the parts use
    workspace: Mapping[str, int] = field(default_factory=dict)  # temporaries: names and bytes
    kernel: Kernel | None = None  # of loops: what the launches or the C were written from, if that is one kernel
    choice: Choice | None = None  # why it was taken, if candidates were timed
    kept: tuple[Node, ...] = ()  # what an attention's forward keeps for its backward, which are no values of the graph

    @property
    def launches(self) -> tuple[Launch, ...]:
        """The launches among its parts."""
        return tuple(part for part in self.parts if isinstance(part, Launch))

    @property
    def library(self) -> LibraryCall | None:
        """The library's call, if there is one."""
        return next((part for part in self.parts if isinstance(part, LibraryCall)), None)

    @property
    def host_op(self) -> Node | None:
        """The op that the host computes, if that is what the step is."""
        return next((part.node for part in self.parts if isinstance(part, HostOp)), None)

    @property
    def code(self) -> CCode | None:
        """Its C, if it has any."""
        return next((part for part in self.parts if isinstance(part, CCode)), None)

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
    work: Work, buffers: Mapping[str, Node], reads: Sequence[Node], writes: Sequence[Node], **more: Any
) -> Step:
    """A step that launches kernels."""
    return Step(work.launches, reads, writes, buffers, work.workspace, **more)


def called(
    candidate: LibraryCandidate,
    operands: Sequence[str],
    buffers: Mapping[str, Node],
    reads: Sequence[Node],
    writes: Sequence[Node],
    then: Work | None = None,
) -> Step:
    """A step that calls a library, and launches kernels after that."""
    then = then if then is not None else Work(())
    own = {"workspace": candidate.workspace} if candidate.workspace else {}
    call = LibraryCall(candidate, tuple(operands))
    return Step((call, *then.launches), reads, writes, buffers, {**then.workspace, **own})
