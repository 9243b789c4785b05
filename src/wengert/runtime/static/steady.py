"""Steadiness: what a replay left in its place need not be looked up at the next one.

A training step that goes on and on writes its parameters, moments and gradients over themselves: every slot keeps its
node, every node its array. A Steady remembers which these are and says whether they still are and nobody else refers to
them; then only the arguments and the fresh results are new. Where nothing was recorded, read out or set since it last
looked, the count of serial numbers tells that at once; else it looks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from operator import itemgetter
from sys import getrefcount
from typing import Any
from weakref import ref

from wengert.core.devices import owns_memory
from wengert.core.graph import now
from wengert.tensor import Tensor

Slots = Sequence[ref[Tensor]]
_NEVER = -1
_KNOWN = 0  # begins the serial numbers that are known, as long as they are: there may be none


class Steady:
    """Slots from outside, and what they name when a replay leaves them as they were before it.

    `assigned` are those that it overwrites, `watched` those whose gradient counts, `graded` those of these whose
    gradient it overwrites.
    """

    def __init__(self, slots: Slots, assigned: Slots, watched: Slots, graded: Slots) -> None:
        self.slots = slots
        self.assigned = _picking(slots, assigned)
        self.watched = _picking(slots, watched)
        self.graded = _picking(watched, graded)
        # How many references there are in `_look` if there are no others: each object's own, and those of the names.
        self.references = (4 + 3) * len(assigned) + (4 + 3 + 3) * len(graded)
        self.refresh: Callable[[], None] = lambda: None  # called where they are the same, but perhaps overwritten
        self.expected = _NEVER  # the serial number of the next time of asking, if nothing happens
        self.serials: list[int | None] = []  # of what the slots name, as long as all of it lives
        self._note([slot() for slot in slots])

    def _note(self, slots: list[Any]) -> None:
        """Note what the slots name. When some of it goes, all is forgotten."""
        nodes, grads = [slot.node for slot in slots], [slot._grad for slot in self.watched(slots)]
        grad_nodes = [grad.node for grad in self.graded(grads)]
        self.owns = all(owns_memory(node.buffer) for node in (*self.assigned(nodes), *grad_nodes))
        self.serials[:] = _serials(nodes, grads)
        forget, found = self.serials.clear, (*slots, *nodes, *grads, *grad_nodes)
        self.lives = [ref(thing, lambda _: forget()) for thing in found if thing is not None]

    def holds(self, drawn: int = 0) -> bool:
        """Whether the slots still name the same, and nobody else refers to what is overwritten.

        Who asks has drawn so many numbers: if there were no others since the last time of asking, all is at rest.
        """
        number = now()
        if number - drawn != self.expected or not self.serials:
            if not self._look():
                self.expected = _NEVER
                return False
            self.refresh()
        self.expected = number + 1
        return True

    def _look(self) -> bool:
        try:
            slots: list[Any] = [slot() for slot in self.slots]
            nodes, grads = [slot.node for slot in slots], [slot._grad for slot in self.watched(slots)]
            graded = self.graded(grads)
            grad_nodes = [grad.node for grad in graded]
        except AttributeError:  # a slot is gone, or has no gradient any more
            return False
        if _serials(nodes, grads) != self.serials:
            return False
        assigned = self.assigned(nodes)
        arrays = [node.buffer for node in chain(assigned, grad_nodes)]
        return sum(map(getrefcount, chain(assigned, graded, grad_nodes, arrays))) == self.references


def _serials(nodes: list[Any], grads: list[Any]) -> list[int | None]:
    """The serial numbers of nodes and of gradients' nodes: they tell which they are, since no two tensors name one."""
    return [_KNOWN, *[node.serial for node in nodes], *[None if grad is None else grad.node.serial for grad in grads]]


def _picking(slots: Slots, some: Slots) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """What picks, of something for each of the slots, that of some of them."""
    number = {slot: i for i, slot in enumerate(slots)}
    places = [number[slot] for slot in some]
    return itemgetter(*places) if len(places) > 1 else lambda items: tuple([items[place] for place in places])
