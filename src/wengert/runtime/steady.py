"""Steadiness: what a replay left in its place need not be looked up at the next one.

A training step that goes on and on writes its parameters, moments and gradients over themselves: every slot keeps its
node, every node its array. A Steady remembers which these are and says whether they still are and nobody else refers to
them; then only the arguments and the fresh results are new. Where nothing was recorded, read out or set since it last
looked, the count of serial numbers tells that at once; else it looks, in a few passes that Python makes in C.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from operator import attrgetter, call, itemgetter
from sys import getrefcount
from typing import Any
from weakref import ref

from wengert.graph import now
from wengert.runtime.machines import owns_memory
from wengert.tensor import Tensor

Slots = Sequence[ref[Tensor]]
_node, _grad, _buffer = attrgetter("node"), attrgetter("_grad"), attrgetter("buffer")
_NEVER = -1
_KNOWN = 0  # begins the identities that are known, as long as they are: there may be none


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
        self.ids: list[int] = []
        self._note(list(map(call, slots)))

    def _note(self, slots: list[Any]) -> None:
        """Note what the slots name. An identity may come again when what had it is gone: then all are forgotten."""
        nodes, grads = list(map(_node, slots)), list(map(_grad, self.watched(slots)))
        grad_nodes = list(map(_node, self.graded(grads)))
        self.owns = all(map(owns_memory, map(_buffer, (*self.assigned(nodes), *grad_nodes))))
        found = [*nodes, *grads, *grad_nodes]
        self.ids[:] = [_KNOWN, *map(id, found)]
        forget = self.ids.clear
        self.lives = [ref(thing, lambda _: forget()) for thing in (*slots, *found) if thing is not None]

    def holds(self, making: int = 0) -> bool:
        """Whether the slots still name the same, and nobody else refers to what is overwritten.

        Who asks is about to make so many nodes: if there are no others until the next time of asking, all is at rest.
        """
        number = now()
        if number != self.expected or not self.ids:
            if not self._look():
                self.expected = _NEVER
                return False
            self.refresh()
        self.expected = number + making + 1
        return True

    def _look(self) -> bool:
        try:
            slots = list(map(call, self.slots))
            nodes, grads = list(map(_node, slots)), list(map(_grad, self.watched(slots)))
            graded = self.graded(grads)
            grad_nodes = list(map(_node, graded))
        except AttributeError:  # a slot is gone, or has no gradient any more
            return False
        if [_KNOWN, *map(id, chain(nodes, grads, grad_nodes))] != self.ids:
            return False
        assigned = self.assigned(nodes)
        arrays = list(map(_buffer, chain(assigned, grad_nodes)))
        return sum(map(getrefcount, chain(assigned, graded, grad_nodes, arrays))) == self.references


def _picking(slots: Slots, some: Slots) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """What picks, of something for each of the slots, that of some of them."""
    number = {slot: i for i, slot in enumerate(slots)}
    places = [number[slot] for slot in some]
    return itemgetter(*places) if len(places) > 1 else lambda items: tuple([items[place] for place in places])
