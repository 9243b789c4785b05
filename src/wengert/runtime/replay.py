"""Replays: a captured call with its program, run again on other arguments and on the slots' present values.

A replay reads every slot afresh, runs the program once, and then gives all slots and gradients their new values
together. `objection` says whether the recording still stands for what the function would do.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from sys import getrefcount
from typing import Any
from weakref import ref

import numpy as np

from wengert import tree
from wengert.autodiff.checkpoint import CHECKPOINT
from wengert.graph import NO_ATTRS, RELEASED, Graph, Node, now, recording
from wengert.ops.core import DATA, VARIABLE, data
from wengert.ops.op import Op, pick
from wengert.reference import is_checking_nans
from wengert.runtime.arguments import ARRAY, OBJECT, TENSOR, Call
from wengert.runtime.capture import ARGUMENT, CONSTANT, NEW, NONE, SAME_GRAD, SLOT, VALUE, Captured, recording_lock
from wengert.runtime.config import config
from wengert.runtime.guards import Guards
from wengert.runtime.machines import is_sole
from wengert.runtime.program import Array, Interpreter, Program
from wengert.runtime.realize import value
from wengert.runtime.repetition import MOVED, Repetition
from wengert.runtime.signature import Recorded, frozen
from wengert.runtime.steady import Steady
from wengert.tensor import Tensor, tensors_like

Results = Mapping[int, Array] | list[Array]
NO_HISTORIES: dict[int, Node] = {}
_TRIES = 4  # replays in a row that may move something before nobody looks any more whether one does not
_THROUGH = frozenset({"cond", "scan", "while_loop", "checkpoint", "custom_vjp", "custom_jvp"})


class Replay:
    """One recording of a function, and its program."""

    def __init__(self, captured: Captured, guards: Guards, call: Call, instance: Any) -> None:
        self.captured = captured
        self.graph = captured.graph
        self.recorded = Recorded(captured.graph)
        self.identity = self._identity()
        self.program: Program | None = None
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
        self._arrays = [k for k, i in enumerate(c.arguments) if specifications[i][0] == ARRAY]
        self._borrowing = _outputs_sharing(c.graph, [c.graph.inputs[k] for k in self._arrays])
        self._arguments = [(i, specifications[i][0] == TENSOR) for i in c.arguments]
        outputs = c.graph.outputs
        self._types_out = [(node.shape, node.dtype, node.device) for node in outputs]
        first = len(c.arguments) + len(c.argument_grads)
        numbers = {id(slot()): first + i for i, slot in enumerate(c.slots)}
        self.pairs = [(numbers[id(slot())], k) for slot, k, _ in c.assigned if id(slot()) in numbers]
        grads = {slot: first + len(c.slots) + i for i, slot in enumerate(c.grads)}
        self.pairs += [(grads[slot], k) for slot, how, k in c.set_grads if how == SAME_GRAD and slot in grads]
        self._new_grads = [(slot, k) for slot, how, k in c.set_grads if how == NEW and slot not in grads]
        self._assigned = [(slot, k, *self._kind(slot, leaf), *self._types_out[k]) for slot, k, leaf in c.assigned]
        tracked = {k for how, k in c.returned if how == VALUE and outputs[k].tracked}
        self._history = sorted(tracked - c.let_go)
        self._let_go = tracked & c.let_go
        self._body = Graph(c.graph.inputs, [outputs[k] for k in self._history], 0) if self._history else None
        touches_arguments = c.argument_grads or c.assigned_arguments or c.set_argument_grads or c.kept
        self._tries = 0 if touches_arguments or self._body or self._borrowing else _TRIES
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

    def repeated(self, leaves: Sequence[Any]) -> Any:
        """The result of a call with this replay's key that finds everything where the last one left it, else MOVED."""
        if self.repetition is None or not self.are_no_slots(leaves):
            return MOVED
        return self.repetition.run(self, leaves, self._computed(self._given, leaves)[1])

    def run(self, call: Call) -> Any:
        """Run the program on a call's arguments, give the slots their new values, return the result."""
        steady, self.repetition = self._before(), None
        result = self._run(call)
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

    def _run(self, call: Call) -> Any:
        c, leaves = self.captured, call.leaves
        sources, arrays = self._computed(self._sources, leaves)
        program = Interpreter(self.graph) if is_checking_nans() else self.program
        results = program(arrays, self._owned(sources, arrays), self._spare())  # type: ignore[misc]
        for k in self._borrowing:
            results[k] = _own(results[k], [arrays[i] for i in self._arrays])
        histories = self._histories(sources, arrays, results)
        with recording_lock:  # while another thread records, slots name abstract values, which are given back then
            self._commit(leaves, results)
        returned = self.returned(leaves, results, histories)
        return returned[0] if c.structure is tree.LEAF else tree.unflatten(c.structure, returned)

    def _owned(self, sources: list[Any], arrays: list[Array]) -> list[int]:
        """The inputs whose memory only their slot refers to: they are about to be replaced, and may be overwritten.

        Three references: the slot's (the node's), the list's, and that of asking.
        """
        if self._body is not None:
            return []  # a later backward pass reads them
        return [
            i
            for i, _ in self.pairs
            if getrefcount(sources[i]) == 3 and getrefcount(arrays[i]) == 3 and is_sole(arrays[i])
        ]

    def _spare(self) -> dict[int, Array]:
        """By output: the array of the gradient that it replaces, where nobody else refers to that (as above)."""
        found = {}
        for slot, k in self._new_grads:
            grad = slot()._grad  # type: ignore[union-attr]
            if grad is None or getrefcount(grad) != 3:
                continue
            node = grad.node
            array = node.buffer
            if getrefcount(node) != 3 or not hasattr(array, "dtype") or getrefcount(array) != 3 or not is_sole(array):
                continue
            alike = (array.shape, array.dtype) == self._types_out[k][:2]
            if alike and (type(array) is not np.ndarray or (array.flags.c_contiguous and array.flags.writeable)):
                found[k] = array
        return found

    def _computed(
        self, sources_of: Callable[[Sequence[Any]], list[Any]], leaves: Sequence[Any]
    ) -> tuple[list[Any], list[Array]]:
        """Sources, and their arrays."""
        sources = sources_of(leaves)
        arrays = [source.buffer if type(source) is Node else self._array(source) for source in sources]
        if not all([hasattr(a, "dtype") for a in arrays]):  # pending, or abstract while another thread records
            with recording_lock:
                sources = sources_of(leaves)
                arrays = [value(source) if type(source) is Node else self._array(source) for source in sources]
        return sources, arrays

    def _given(self, leaves: Sequence[Any]) -> list[Any]:
        """What the arguments are now: nodes, arrays and floats."""
        return [leaves[i].node if is_tensor else leaves[i] for i, is_tensor in self._arguments]

    def _sources(self, leaves: Sequence[Any]) -> list[Any]:
        """What the inputs are now: nodes, and the arrays and floats among the arguments."""
        c = self.captured
        sources = self._given(leaves)
        if c.argument_grads:
            sources += [leaves[i]._grad.node for i in c.argument_grads]
        sources += [slot().node for slot in c.slots]  # type: ignore[union-attr]
        if c.grads:
            sources += [slot()._grad.node for slot in c.grads]  # type: ignore[union-attr]
        return sources

    def _array(self, source: Any) -> Array:
        """The array of an argument that is an array or a float."""
        if type(source) is float:
            return np.array(source, self.captured.float_dtype)
        return np.asarray(source)

    def _histories(self, sources: list[Any], arrays: list[Array], results: list[Array]) -> dict[int, Node]:
        """Nodes for the results that are tracked: a later backward pass goes through the graph as recorded."""
        if self._body is None or not recording.grad:
            return {}
        given = [s if type(s) is Node else data(a) for s, a in zip(sources, arrays)]
        whole = CHECKPOINT(*given, body=self._body)
        whole.buffer = tuple(results[k] for k in self._history)
        parts = {}
        for i, k in enumerate(self._history):
            parts[k] = pick(whole, i)
            parts[k].buffer = results[k]
        return parts

    def _commit(self, leaves: Sequence[Any], results: list[Array]) -> None:
        """Give slots and gradients their new values. One that was overwritten in place has its own already."""
        c = self.captured
        for slot, k, op, attrs, tracked, shape, dtype, device in self._assigned:
            if slot().node.buffer is results[k]:  # type: ignore[union-attr]
                continue
            node = Node(op, (), attrs, shape, dtype, device, tracked, None, results[k])
            node.owner = slot
            slot().node = node  # type: ignore[union-attr]
        for i, k, leaf in c.assigned_arguments:
            self._give(leaves[i], k, leaf, results[k])
        for slot, how, k in c.set_grads:
            self._give_grad(slot(), how, k, results)  # type: ignore[arg-type]
        for i, how, k in c.set_argument_grads:
            self._give_grad(leaves[i], how, k, results)
        now()

    def _kind(self, slot: ref[Tensor], leaf: bool) -> tuple[Op, dict[str, Any], bool]:
        """Op, attributes and whether it is tracked, of the node of a slot that was given an array."""
        return (VARIABLE, {"slot": slot}, True) if leaf else (DATA, NO_ATTRS, False)

    def _give(self, tensor: Tensor, k: int, leaf: bool, array: Array) -> None:
        if tensor.node.buffer is array:
            return
        slot = ref(tensor)
        op, attrs, tracked = self._kind(slot, leaf)
        shape, dtype, device = self._types_out[k]
        node = Node(op, (), attrs, shape, dtype, device, tracked, None, array)
        node.owner = slot
        tensor.node = node

    def _give_grad(self, tensor: Tensor, how: str, k: int, results: list[Array]) -> None:
        if how == NONE:
            tensor._grad = None
        elif how == NEW:
            if tensor._grad is not None and tensor._grad.node.buffer is results[k]:
                return
            tensor._grad = Tensor(Node(DATA, (), NO_ATTRS, *self._types_out[k], False, None, results[k]))
        else:
            self._give(tensor._grad, k, False, results[k])  # type: ignore[arg-type]

    def returned(self, leaves: Sequence[Any], results: Results, histories: dict[int, Node] = NO_HISTORIES) -> list[Any]:
        made: dict[int, Tensor] = {}
        found = []
        for how, what in self.captured.returned:
            if how == VALUE:
                if what not in made:
                    history = histories.get(what)
                    made[what] = self.wrapping(what)(results[what]) if history is None else Tensor(history)
                found.append(made[what])
            elif how == ARGUMENT:
                found.append(leaves[what])
            else:
                found.append(what() if how == SLOT else what)
        return found

    def wrapping(self, k: int) -> Callable[[Array], Tensor]:
        """What makes a tensor of the array of a returned value that has no history, or one that is gone."""
        if k in self._let_go:
            node = self.graph.outputs[k]
            return tensors_like(node.op, RELEASED, node.attrs, *self._types_out[k], True, node.location)
        return tensors_like(DATA, (), NO_ATTRS, *self._types_out[k], False, None)


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


def _outputs_sharing(graph: Graph, inputs: Sequence[Node]) -> list[int]:
    """The outputs that may be views of these inputs: reached through ops that only move elements."""
    if not inputs:
        return []
    reached = set(inputs)
    for node in graph.nodes:
        if (node.op.moves or node.op.name in _THROUGH) and not reached.isdisjoint(node.sources):
            reached.add(node)
    return [k for k, node in enumerate(graph.outputs) if node in reached]


def _own(array: Array, others: Sequence[Array]) -> Array:
    """An array that shares no memory with the caller's."""
    return array.copy() if any(np.may_share_memory(array, other) for other in others) else array
