"""Actions: how a GPU runs a loop or branch whose bodies are plans, as data.

A `DeviceLoop` is a part of a step, beside the `Body` of each plan that it runs. Its actions are copies, runs of a body,
repetitions and choices. Addresses name buffers and temporaries of the step. The address of a body's value follows from
the step number (`Path`), so a body reads and writes its operands and results in place. A backend carries out the
actions one by one, or captures them as a graph in which repeated actions occur once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from wengert.core.graph import Node


class Address(NamedTuple):
    """Bytes of a buffer or temporary, starting at an offset."""

    buffer: str
    offset: int = 0

    def on(self, offset: int) -> Address:
        """The address this many bytes further on."""
        return Address(self.buffer, self.offset + offset)


class Path(NamedTuple):
    """The address of a value in each step of a loop.

    It cycles through these addresses, each advancing by this many bytes per step; the last step may use another one.
    """

    turns: tuple[Address, ...]
    stride: int = 0
    last: Address | None = None

    def at(self, step: int, count: int) -> Address:
        """The address in a given step."""
        if self.last is not None and step == count - 1:
            return self.last
        return self.turns[step % len(self.turns)].on(step * self.stride)


class Move(NamedTuple):
    """A copy of rows of this many bytes.

    A pitch is the distance between rows; inside a repetition, a stride is the distance between trips.
    """

    to: Address
    source: Address
    size: int
    rows: int = 1
    to_pitch: int = 0
    source_pitch: int = 0
    to_stride: int = 0
    source_stride: int = 0


class Moves(NamedTuple):
    """Independent copies: none reads what another one writes."""

    moves: tuple[Move, ...]


class Shift(NamedTuple):
    """A copy of one value that a body's steps need, before or after each of them."""

    to: Path
    source: Path
    size: int

    def at(self, step: int, count: int) -> Move:
        """The copy for a given step."""
        return Move(self.to.at(step, count), self.source.at(step, count), self.size)


class RunBody(NamedTuple):
    """Consecutive steps of a body."""

    body: int  # its number among the bodies
    steps: int
    paths: Mapping[int, Path]  # by slot of its plan
    before: tuple[Shift, ...] = ()
    after: tuple[Shift, ...] = ()


class Repeat(NamedTuple):
    """Actions repeated this many times; on the device, `counter` counts the trips."""

    trips: int
    actions: tuple[Action, ...]
    counter: Address


class While(NamedTuple):
    """Actions repeated while a boolean is true; they recompute it."""

    flag: Address
    actions: tuple[Action, ...]


class Choose(NamedTuple):
    """Some actions if a boolean is true, others if not."""

    flag: Address
    actions: tuple[Action, ...]
    others: tuple[Action, ...]


Action = Moves | RunBody | Repeat | While | Choose


class DeviceLoop(NamedTuple):
    """A loop or branch as actions over the bodies of its step."""

    node: Node
    actions: tuple[Action, ...]
    why: str  # how it goes, in words
    buffers: tuple[str, ...]  # of its step, in order
    hosted: str = ""  # why the host takes part in every step, if it does


def parts_of(actions: Sequence[Action]) -> Iterator[Action]:
    """These actions, including nested ones."""
    for action in actions:
        yield action
        if isinstance(action, Repeat | While):
            yield from parts_of(action.actions)
        elif isinstance(action, Choose):
            yield from parts_of((*action.actions, *action.others))


def nodes_of(actions: Sequence[Action], bodies: Sequence[int]) -> int:
    """The number of CUDA graph nodes of some actions, from those of each body; repeated actions count once."""
    count = 0
    for action in parts_of(actions):
        if isinstance(action, RunBody):
            count += action.steps * (bodies[action.body] + bool(action.before) + bool(action.after))
        else:
            count += 1
    return count
