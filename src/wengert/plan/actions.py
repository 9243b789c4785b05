"""Actions: what a GPU does for a loop or branch whose bodies are plans, as data.

A `DeviceLoop` is a part of a step, beside the `Body` of each plan that it runs. Its actions are copies, steps of a
body, and what is repeated or chosen; places are buffers and temporaries of the step by name. Where a value of a body
lies follows from the number of the step (`Path`), so a body runs where its operands and results lie. A backend carries
actions out one by one, or captures them as a graph in which what is repeated is there once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from wengert.core.graph import Node


class Address(NamedTuple):
    """Bytes of a buffer or temporary, from an offset on."""

    buffer: str
    offset: int = 0

    def on(self, offset: int) -> Address:
        """So many bytes further on."""
        return Address(self.buffer, self.offset + offset)


class Path(NamedTuple):
    """Where a value lies in the steps of a loop: in these places in turn, each this many bytes on from step to step; in
    the last step it may lie elsewhere.
    """

    turns: tuple[Address, ...]
    stride: int = 0
    last: Address | None = None

    def at(self, step: int, count: int) -> Address:
        """Its place in a step of so many."""
        if self.last is not None and step == count - 1:
            return self.last
        return self.turns[step % len(self.turns)].on(step * self.stride)


class Move(NamedTuple):
    """A copy of rows of this many bytes. A pitch is the distance of two rows; inside what is repeated, a stride that
    of two trips.
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
    """Copies, in no order: none reads what another one writes."""

    moves: tuple[Move, ...]


class Shift(NamedTuple):
    """A copy that a body's steps need: of one value, before or after each of them."""

    to: Path
    source: Path
    size: int

    def at(self, step: int, count: int) -> Move:
        """The copy of a step."""
        return Move(self.to.at(step, count), self.source.at(step, count), self.size)


class RunBody(NamedTuple):
    """Steps of a body, one after another."""

    body: int  # its number among the bodies
    steps: int
    paths: Mapping[int, Path]  # by slot of its plan
    before: tuple[Shift, ...] = ()
    after: tuple[Shift, ...] = ()


class Repeat(NamedTuple):
    """Actions that are carried out this many times; on the device, `counter` counts the trips."""

    trips: int
    actions: tuple[Action, ...]
    counter: Address


class While(NamedTuple):
    """Actions that are carried out again as long as a boolean is true, which they make anew."""

    flag: Address
    actions: tuple[Action, ...]


class Choose(NamedTuple):
    """Actions where a boolean is true, and others where it is not."""

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
    """Actions, and those inside them."""
    for action in actions:
        yield action
        if isinstance(action, Repeat | While):
            yield from parts_of(action.actions)
        elif isinstance(action, Choose):
            yield from parts_of((*action.actions, *action.others))


def nodes_of(actions: Sequence[Action], bodies: Sequence[int]) -> int:
    """How many nodes a graph of some actions has, from those of each body; what is repeated is there once."""
    count = 0
    for action in parts_of(actions):
        if isinstance(action, RunBody):
            count += action.steps * (bodies[action.body] + bool(action.before) + bool(action.after))
        else:
            count += 1
    return count
