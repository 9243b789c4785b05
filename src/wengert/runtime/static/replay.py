"""Replays: a captured call with its program, run again on other arguments and on the slots' present values.

A replay reads every slot afresh, runs the program once, and then gives all slots and gradients their new values
together. `objection` says whether the recording still stands for what the function would do.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any
from weakref import ref

from wengert.backends.protocol import Runnable
from wengert.core.evaluation import watch
from wengert.core.graph import Node
from wengert.runtime.config import config
from wengert.runtime.program import Interpreter
from wengert.runtime.static.arguments import OBJECT, TENSOR, Call
from wengert.runtime.static.binding import Binding
from wengert.runtime.static.capture import CONSTANT, NONE, Captured
from wengert.runtime.static.guards import Guards
from wengert.runtime.static.repetition import MOVED, Repetition
from wengert.runtime.static.signature import Recorded, frozen
from wengert.runtime.static.steady import Steady

_TRIES = 4  # replays in a row that may move something before nobody looks any more whether one does not


class Replay:
    """One recording of a function, and its program."""

    def __init__(self, captured: Captured, guards: Guards, call: Call, instance: Any) -> None:
        self.captured = captured
        self.graph = captured.graph
        self.recorded = Recorded(captured.graph)
        self.identity = self._identity()
        self.program: Runnable | None = None
        self.guards = guards
        self.version = config.version
        self.calls = 0  # since this was recorded and differed from what was known
        self.changes = 0  # how many recordings before it differed, with no reason that the guards know
        self.used = 0
        objects = [leaf for leaf, s in zip(call.leaves, call.specifications) if s[0] == OBJECT]
        self.objects = [_reference(thing) for thing in [*objects, *([] if instance is None else [instance])]]
        self._plan(call)

    def _identity(self) -> Hashable:
        """What two recordings must have in common to be one: the graph, the slots, what is returned and set,
        and the settings that its program was built under.
        """
        c = self.captured
        returned = [(how, frozen(what) if how == CONSTANT else what) for how, what in c.returned]
        wiring = (c.arguments, c.argument_grads, c.slots, c.grads, c.kept, c.assigned, c.assigned_arguments)
        effects = (c.set_grads, c.set_argument_grads, c.had_grad, sorted(c.let_go))
        settings = {name: setting for name, setting in vars(config).items() if name != "version"}
        return self.recorded.signature, _tuples((returned, c.structure, wiring, effects)), frozen(settings)

    def _plan(self, call: Call) -> None:
        c = self.captured
        self._slots = c.all_slots()
        self._slot_ids = frozenset(id(slot()) for slot in self._slots)
        nodes = [slot().node for slot in self._slots]  # type: ignore[union-attr]
        self._tracked = [node.tracked for node in nodes]
        self._types = [(node.shape, node.dtype, node.device) for node in nodes]
        self._ids: list[int] = []  # of the nodes at the last call, as long as they all live
        self._watched: list[ref[Node]] = []
        self._pinned = [
            (slot, ref(node))
            for slot, node in zip(c.slots, nodes)
            if node.tracked and not slot().is_leaf  # type: ignore[union-attr]
        ]
        specifications = call.specifications
        self._tensors = [i for i, s in enumerate(specifications) if s[0] == TENSOR]
        self.binding = Binding(c, specifications)
        self._tries = _TRIES if self.binding.leaves_arguments_alone() else 0
        self.repetition: Repetition | None = None

    # --- does it still stand ------------------------------------------------------------------------------------

    def objection(self, call: Call) -> str | None:
        """Why this recording cannot serve a call with its key, in words; None if it can."""
        if self.version != config.version:
            return "a setting, or an attribute of a Module or an Optimizer, was set"
        reason = self.guards.changed()
        if reason is not None:
            return reason
        try:
            nodes = [slot().node for slot in self._slots]  # type: ignore[union-attr]
        except AttributeError:
            return "a tensor from outside that the function used is gone"
        reason = self._changed_type(nodes)
        if reason is not None:
            return reason
        for slot, had in self.captured.had_grad:
            if (slot()._grad is not None) is not had:  # type: ignore[union-attr]
                return f"grad of a tensor from outside is {'None' if had else 'there'}, and was not before"
        for slot, pinned in self._pinned:
            if slot().node is not pinned():  # type: ignore[union-attr]
                return "a tensor from outside that was computed from tracked ones has another history"
        for thing in self.objects:
            if thing() is None:
                return "an object that was an argument is gone"
        return self._aliasing(call)

    def _changed_type(self, nodes: list[Node]) -> str | None:
        """What is another about the slots' values, in words; nothing where they are the nodes of the last call."""
        ids = list(map(id, nodes))
        if ids == self._ids:
            return None
        if [node.tracked for node in nodes] != self._tracked:
            return "a tensor from outside requires grad, and did not before, or the other way round"
        if [(node.shape, node.dtype, node.device) for node in nodes] != self._types:
            return "a tensor from outside has another shape or dtype, or is on another device"
        known = self._ids = ids
        self._watched = [ref(node, lambda _: known.clear()) for node in nodes]  # an identity may come again
        return None

    def _aliasing(self, call: Call) -> str | None:
        """Arguments that are slots from outside too must be the same ones."""
        leaves, ids = call.leaves, self._slot_ids
        found = [(i, id(leaves[i])) for i in self._tensors if id(leaves[i]) in ids]
        return None if found == self.captured.kept else "another argument is a tensor that the function knows already"

    def are_no_slots(self, things: Sequence[Any]) -> bool:
        """Whether none of them is a tensor from outside that the function used."""
        return self._slot_ids.isdisjoint(map(id, things))

    def is_alive(self) -> bool:
        """Whether all slots and objects that it refers to are still there."""
        references: list[Callable[[], Any]] = [*self._slots, *self.objects]
        return all(reference() is not None for reference in references)

    # --- running ------------------------------------------------------------------------------------------------

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Inputs and the outputs that take their place, by number."""
        return self.binding.pairs

    def repeated(self, leaves: Sequence[Any]) -> Any:
        """The result of a call with this replay's key that finds everything where the last one left it, else MOVED."""
        if self.repetition is None or not self.are_no_slots(leaves):
            return MOVED
        return self.repetition.run(self, leaves, self.binding.arguments(leaves))

    def run(self, call: Call) -> Any:
        """Run the program on a call's arguments, give the slots their new values, return the result."""
        self.repetition = None
        if watch.checks_nans:
            return self.binding.run(Interpreter(self.graph), call.leaves)
        steady = self._before()
        result = self.binding.run(self.program, call.leaves)  # type: ignore[arg-type]
        if steady is not None:
            self._settle(steady, call)
        return result

    def _before(self) -> Steady | None:
        """What is where, for a replay that may leave all of it there."""
        if not self._tries:
            return None
        c = self.captured
        watched = list(dict.fromkeys([*(slot for slot, _ in c.had_grad), *(slot for slot, *_ in c.set_grads)]))
        graded = [slot for slot, how, _ in c.set_grads if how != NONE]
        try:
            return Steady(self._slots, [slot for slot, *_ in c.assigned], watched, graded)
        except AttributeError:  # there is no gradient yet
            return None

    def _settle(self, steady: Steady, call: Call) -> None:
        """The next call may be a repeat if this one left everything where it was; else it is tried a few times more."""
        self._tries -= 1
        if not (steady.owns and steady.holds()):
            return
        c = self.captured
        replaced = {k for _, k, _ in c.assigned} | {k for _, how, k in c.set_grads if how != NONE}
        fresh = [k for k in range(len(c.graph.outputs)) if k not in replaced]
        repeat = self.program.repeat(range(len(c.arguments)), fresh)  # type: ignore[union-attr]
        self._tries = 0 if repeat is None else _TRIES
        self.repetition = None if repeat is None else Repetition(self, steady, call, repeat, fresh)


def is_due(call: int) -> bool:
    """Whether the recording is repeated at this call: 2, 4, 8, 16, ..."""
    return call > 1 and call & (call - 1) == 0


def _reference(thing: Any) -> Callable[[], Any]:
    return ref(thing) if type(thing).__weakrefoffset__ else lambda: thing


def _tuples(value: Any) -> Hashable:
    """Nested lists as tuples, with slots by identity."""
    if type(value) in (list, tuple):
        return tuple([_tuples(item) for item in value])
    return id(value()) if type(value) is ref else value
