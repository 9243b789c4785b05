"""Specializations: one recording of a function with its program, and how calls are bound to it.

A `Specialization` says whether its recording is still valid (`objection`). Its `Binding` decides which arrays the
program gets and where its results go: every slot is read again, the program runs once, and then all slots and gradients
get their new values together. A value that only a slot about to be replaced refers to may be overwritten. A call that
finds everything as the last one left it takes the fast path instead.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any
from weakref import ref

import numpy as np

from wengert.autodiff.checkpoint import CHECKPOINT
from wengert.backends.protocol import Runnable
from wengert.compiler.memory import outputs_sharing
from wengert.compiler.stages import Interface
from wengert.core import tree
from wengert.core.canonical import ACROSS_RECORDINGS, frozen, hashable
from wengert.core.context import mode
from wengert.core.devices import is_sole, on_host
from wengert.core.dtypes import as_dtype, native
from wengert.core.graph import NO_ATTRS, RELEASED, Graph, Node, now, recording
from wengert.core.ownership import ownership
from wengert.core.placement import ShardedArray
from wengert.ops.core import DATA, VARIABLE, data
from wengert.ops.op import pick
from wengert.runtime.arguments import ARRAY, OBJECT, TENSOR, CallArguments, Specification
from wengert.runtime.capture import CONSTANT, NEW, NONE, SAME_GRAD, VALUE, Captured, recording_lock
from wengert.runtime.config import config
from wengert.runtime.debug.reasons import Transcript
from wengert.runtime.dynamic.realize import value
from wengert.runtime.partitioned import PartitionedProgram
from wengert.runtime.program import Array, Interpreter
from wengert.runtime.static.fast_path import MOVED, FastPath, given
from wengert.tensor import Tensor, tensors_like

_OFTEN, _RARELY = 1_024, 4_096  # calls up to which recording is repeated at powers of two; between two from then on
_TRIES = 4  # consecutive calls that may move something before the fast path is no longer tried


class Specialization:
    """One recording of a function for one kind of arguments, with its program."""

    def __init__(self, captured: Captured, arguments: CallArguments, instance: Any) -> None:
        self.captured = captured
        self.graph = captured.graph
        self.transcript = Transcript(captured.graph)
        self.identity = self._identity()
        self.program: Runnable | None = None
        self.guards = captured.guards
        self.version = config.version
        self.calls = 0  # since this was recorded and differed from the known recordings
        self.due = 2  # the call before which the recording is repeated
        self.changes = 0  # how many recordings before it differed, with no reason that the guards know
        self.used = 0
        objects = [leaf for leaf, s in zip(arguments.leaves, arguments.specifications) if s[0] == OBJECT]
        objects += [] if instance is None else [instance]
        self.objects = [ref(o) if type(o).__weakrefoffset__ else (lambda o=o: o) for o in objects]
        self._note(arguments)

    def _identity(self) -> Hashable:
        """What two recordings must have in common to be one: the graph, the slots, what is returned and set,
        and the settings that its program was built under.
        """
        c = self.captured
        returned = [(how, frozen(what, ACROSS_RECORDINGS) if how == CONSTANT else what) for how, what in c.returned]
        given = (c.arguments, c.floats.identity(), c.argument_grads)
        wiring = (*given, c.slots, c.grads, c.kept, c.assigned, c.assigned_arguments)
        effects = (c.set_grads, c.set_argument_grads, c.had_grad, sorted(c.let_go))
        settings = [(name, frozen(setting)) for name, setting in vars(config).items() if name != "version"]
        return self.transcript.form, hashable((returned, c.structure, wiring, effects, settings))

    def _note(self, arguments: CallArguments) -> None:
        c = self.captured
        self.slots = c.all_slots()
        self._slot_ids = frozenset(id(slot()) for slot in self.slots)
        nodes = [slot().node for slot in self.slots]  # type: ignore[union-attr]
        self._tracked = [node.tracked for node in nodes]
        self._types = [(node.shape, node.dtype, node.device) for node in nodes]
        self._ids: list[int] = []  # of the nodes at the last call, as long as they all live
        self._watched: list[ref[Node]] = []
        tracked = [(slot, node) for slot, node in zip(c.slots, nodes) if node.tracked]
        self._pinned = [(slot, ref(node)) for slot, node in tracked if not slot().is_leaf]  # type: ignore[union-attr]
        self._tensors = [i for i, s in enumerate(arguments.specifications) if s[0] == TENSOR]
        self.binding = Binding(c, arguments.specifications)
        self._tries = _TRIES if self.binding.leaves_arguments_alone() else 0
        self.fast_path: FastPath | None = None

    def confirm(self, is_other: bool) -> None:
        """Note that a recording confirmed this graph (after a different one if `is_other`); schedule the next check.

        It is repeated at calls 2, 4, 8, ..., 1,024, and then so rarely that it costs a fraction of a microsecond per
        call. The interval depends on the number of nodes, not on a clock.
        """
        if is_other:
            self.calls, self.due = 0, 2
        elif self.calls + 1 >= self.due:
            self.due += self.due if self.due < _OFTEN else max(_RARELY, 16 * len(self.graph.nodes))

    # --- does it still stand ------------------------------------------------------------------------------------

    def objection(self, arguments: CallArguments) -> str | None:
        """Why this recording cannot serve a call with its key, as text; None if it can."""
        if self.version != config.version:
            return "a setting, or an attribute of a Module or an Optimizer, was set"
        if (reason := self.guards.changed()) is not None:
            return reason
        try:
            nodes = [slot().node for slot in self.slots]  # type: ignore[union-attr]
        except AttributeError:
            return "an outer tensor that the function used no longer exists"
        if (reason := self._changed_type(nodes)) is not None:
            return reason
        for slot, had in self.captured.had_grad:
            if (slot()._grad is not None) is not had:  # type: ignore[union-attr]
                return f"grad of an outer tensor is {'None' if had else 'there'}, and was not before"
        for slot, pinned in self._pinned:
            if slot().node is not pinned():  # type: ignore[union-attr]
                return "an outer tensor that was computed from tracked ones has another history"
        for thing in self.objects:
            if thing() is None:
                return "an object that was an argument no longer exists"
        return self._aliasing(arguments)

    def _changed_type(self, nodes: list[Node]) -> str | None:
        """How the slots' values differ in type, in words; empty if they are the nodes of the last call."""
        ids = list(map(id, nodes))
        if ids == self._ids:
            return None
        if [node.tracked for node in nodes] != self._tracked:
            return "an outer tensor requires grad and did not before, or the other way round"
        if [(node.shape, node.dtype, node.device) for node in nodes] != self._types:
            return "an outer tensor has another shape or dtype, or is on another device"
        known = self._ids = ids
        self._watched = [ref(node, lambda _: known.clear()) for node in nodes]  # an identity may come again
        return None

    def _aliasing(self, arguments: CallArguments) -> str | None:
        """Arguments that are slots from outside too must be the same ones."""
        tensors = [(i, id(arguments.leaves[i])) for i in self._tensors]
        found = [(i, identity) for i, identity in tensors if identity in self._slot_ids]
        return None if found == self.captured.kept else "another argument is a tensor that the function already uses"

    def are_no_slots(self, things: Sequence[Any]) -> bool:
        """Whether none of them is an outer tensor that the function used."""
        return self._slot_ids.isdisjoint(map(id, things))

    def is_alive(self) -> bool:
        """Whether all slots and objects that it refers to still exist."""
        references: list[Callable[[], Any]] = [*self.slots, *self.objects]
        return all(reference() is not None for reference in references)

    # --- running ------------------------------------------------------------------------------------------------

    def replayed(self, leaves: Sequence[Any]) -> Any:
        """The result of a call with this key by the fast path, or MOVED."""
        if self.fast_path is None or not self.are_no_slots(leaves):
            return MOVED
        return self.fast_path.run(self, leaves, self.binding.arguments(leaves))

    def run(self, arguments: CallArguments) -> Any:
        """Run the program on a call's arguments, assign the slots their new values, and return the result."""
        self.fast_path = None
        if mode().checks_nans:
            return self.binding.run(Interpreter(self.graph), arguments.leaves)
        fast_path = FastPath.before(self) if self._tries else None
        result = self.binding.run(self.program, arguments.leaves)  # type: ignore[arg-type]
        if fast_path is not None:
            self._tries -= 1
            if fast_path.keeps_slots():
                self._take_fast_path(fast_path, arguments)
        return result

    def _take_fast_path(self, fast_path: FastPath, arguments: CallArguments) -> None:
        """Let the next calls take the fast path, if the program can be replayed."""
        c = self.captured
        replaced = {k for _, k, _ in c.assigned} | {k for _, how, k in c.set_grads if how != NONE}
        fresh = [k for k in range(len(c.graph.outputs)) if k not in replaced]
        replay = self.program.replay(range(self.binding.count), fresh)  # type: ignore[union-attr]
        self._tries = 0 if replay is None else _TRIES
        if replay is not None:
            fast_path.arm(self, arguments, replay, fresh)
            self.fast_path = fast_path


class Binding:
    """What a captured call reads and writes. `pairs` are inputs and the outputs that replace them, by number."""

    def __init__(self, captured: Captured, specifications: Sequence[Specification]) -> None:
        c = self.captured = captured
        self.takes_blocks = False  # whether its program takes the blocks of values that are sharded
        self._arrays = [k for k, i in enumerate(c.arguments) if specifications[i][0] == ARRAY]
        self._borrowing = outputs_sharing(c.graph, [c.graph.inputs[k] for k in self._arrays])
        self._arguments = [(i, specifications[i][0] == TENSOR) for i in c.arguments]
        outputs = c.graph.outputs
        self._types_out = [(node.shape, node.dtype, node.device) for node in outputs]
        self.count = len(c.arguments) + len(c.floats.used)  # of the inputs that are a call's own
        first = self.count + len(c.argument_grads)
        numbers = {id(slot()): first + i for i, slot in enumerate(c.slots)}
        self.pairs = [(numbers[id(slot())], k) for slot, k, _ in c.assigned if id(slot()) in numbers]
        places = {i: number for number, i in enumerate(c.arguments)}
        self.pairs += [(places[i], k) for i, k, _ in c.assigned_arguments if i in places]
        grads = {slot: first + len(c.slots) + i for i, slot in enumerate(c.grads)}
        self.pairs += [(grads[slot], k) for slot, how, k in c.set_grads if how == SAME_GRAD and slot in grads]
        self._new_grads = [(slot, k) for slot, how, k in c.set_grads if how == NEW and slot not in grads]
        self._values = list(dict.fromkeys([k for how, k in c.without_views() if how == VALUE]))
        tracked = {k for k in self._values if outputs[k].tracked}
        self._history = sorted(tracked - c.let_go)
        self._let_go = tracked & c.let_go
        self._body = Graph(c.graph.inputs, [outputs[k] for k in self._history], 0) if self._history else None

    def interface(self) -> Interface:
        """What a pipeline needs to know about the graph."""
        returned = frozenset(self._values)
        return Interface(self.captured.stages, self.count, {k: i for i, k in self.pairs}, returned)

    def leaves_arguments_alone(self) -> bool:
        """Whether a call only reads the values of its arguments, and keeps no reference to them."""
        c = self.captured
        touches = c.argument_grads or c.assigned_arguments or c.set_argument_grads or c.kept
        return not (touches or self._body or self._borrowing)

    def run(self, program: Runnable, leaves: Sequence[Any]) -> Any:
        """Run the program on a call's leaves, assign the slots their new values, and return the result."""
        structure = self.captured.structure
        self.takes_blocks = isinstance(program, PartitionedProgram)
        sources, arrays = self._computed(self._sources, leaves)
        results = program(arrays, self._owned(sources, arrays), self._spare())
        for k in self._borrowing:  # a result shares no memory with the caller's arrays
            if any(np.may_share_memory(results[k], arrays[i]) for i in self._arrays):
                results[k] = results[k].copy()
        histories = self._histories(sources, arrays, results)
        with recording_lock:  # while another thread records, slots name abstract values, which are given back then
            self._commit(leaves, results)
        returned = self._returned(leaves, results, histories)
        return returned[0] if structure is tree.LEAF else tree.unflatten(structure, returned)

    # --- what comes in ------------------------------------------------------------------------------------------

    def arguments(self, leaves: Sequence[Any]) -> list[Array]:
        """The arrays of the arguments."""
        return self._computed(self._given, leaves)[1]

    def arrays(self, leaves: Sequence[Any]) -> list[Array]:
        """The arrays of all inputs."""
        return self._computed(self._sources, leaves)[1]

    def _computed(self, sources_of: Callable[..., list[Any]], leaves: Sequence[Any]) -> tuple[list[Any], list[Array]]:
        """Sources, and their arrays."""
        sources = sources_of(leaves)
        arrays = [source.buffer if type(source) is Node else self._array(source) for source in sources]
        if not all([hasattr(a, "dtype") for a in arrays]):  # pending, or abstract while another thread records
            with recording_lock:
                sources = sources_of(leaves)
                arrays = [value(source) if type(source) is Node else self._array(source) for source in sources]
        if ShardedArray.made and not self.takes_blocks:
            arrays = [on_host(array) if type(array) is ShardedArray else array for array in arrays]
        return sources, arrays

    def _given(self, leaves: Sequence[Any]) -> list[Any]:
        """The current arguments: nodes, and arrays."""
        given = [leaves[i].node if is_tensor else leaves[i] for i, is_tensor in self._arguments]
        return given + self.captured.floats.arrays(leaves)

    def _sources(self, leaves: Sequence[Any]) -> list[Any]:
        """The current inputs: nodes, and the arrays among the arguments."""
        c = self.captured
        sources = self._given(leaves)
        if c.argument_grads:
            sources += [leaves[i]._grad.node for i in c.argument_grads]
        sources += [slot().node for slot in c.slots]  # type: ignore[union-attr]
        if c.grads:
            sources += [slot()._grad.node for slot in c.grads]  # type: ignore[union-attr]
        return sources

    def _array(self, source: Any) -> Array:
        """The array of an argument that is an array or a number."""
        array = np.asarray(source)
        return native(array, as_dtype(array.dtype))

    def _owned(self, sources: list[Any], arrays: list[Array]) -> list[int]:
        """The inputs whose memory only their slot refers to: they are about to be replaced, and may be overwritten."""
        if self._body is not None or not self.pairs:
            return []  # with a body, a later backward pass reads them
        slots, nodes = ownership.others(sources), ownership.others(arrays)  # how many refer to each source, each array
        return [i for i, _ in self.pairs if slots[i] == nodes[i] == 1 and is_sole(arrays[i])]

    def _spare(self) -> dict[int, Array]:
        """For each output, the array of the gradient it replaces, if nothing else refers to that."""
        grads: list[tuple[int, Any]] = [(k, slot()._grad) for slot, k in self._new_grads]  # type: ignore[union-attr]
        found = {k: grad.node.buffer for k, grad in grads if grad is not None and self._is_like(grad.node, k)}
        held = [part for k, grad in grads if k in found for part in (grad, grad.node, found[k])]
        others = ownership.others(held)
        # A gradient: its slot, and its tuple in `grads`. Its node: the gradient. Its array: the node, and `found`.
        sole = [others[i : i + 3] == [2, 1, 2] and is_sole(held[i + 2]) for i in range(0, len(held), 3)]
        return {k: array for (k, array), is_free in zip(found.items(), sole) if is_free}

    def _is_like(self, node: Node, k: int) -> bool:
        """Whether the array of a node can take output k."""
        array = node.buffer
        if not hasattr(array, "dtype") or (node.shape, node.dtype, node.device) != self._types_out[k]:
            return False
        return type(array) is not np.ndarray or (array.flags.c_contiguous and array.flags.writeable)

    # --- what goes out ------------------------------------------------------------------------------------------

    def _histories(self, sources: list[Any], arrays: list[Array], results: list[Array]) -> dict[int, Node]:
        """Nodes for the results that are tracked: a later backward pass goes through the graph as recorded."""
        if self._body is None or not recording.grad:
            return {}
        nodes = [s if type(s) is Node else data(a) for s, a in zip(sources, arrays)]
        whole = CHECKPOINT(*nodes, body=self._body)
        whole.buffer = tuple(results[k] for k in self._history)
        parts = {}
        for i, k in enumerate(self._history):
            parts[k] = pick(whole, i)
            parts[k].buffer = results[k]
        return parts

    def _commit(self, leaves: Sequence[Any], results: list[Array]) -> None:
        """Assign slots and gradients their new values. One that was overwritten in place has its value already."""
        c = self.captured
        for slot, k, leaf in c.assigned:
            self._give(slot(), k, leaf, results[k])  # type: ignore[arg-type]
        for i, k, leaf in c.assigned_arguments:
            self._give(leaves[i], k, leaf, results[k])
        for slot, how, k in c.set_grads:
            self._give_grad(slot(), how, k, results)  # type: ignore[arg-type]
        for i, how, k in c.set_argument_grads:
            self._give_grad(leaves[i], how, k, results)
        now()

    def _give(self, tensor: Tensor, k: int, leaf: bool, array: Array) -> None:
        if tensor.node.buffer is not array:
            slot = ref(tensor)
            op, attrs = (VARIABLE, {"slot": slot}) if leaf else (DATA, NO_ATTRS)
            node = Node(op, (), attrs, *self._types_out[k], leaf, None, array)
            node.owner = slot
            tensor.node = node

    def _give_grad(self, tensor: Tensor, how: str, k: int, results: list[Array]) -> None:
        if how == NONE:
            tensor._grad = None
        elif how == NEW:
            if tensor._grad is not None and tensor._grad.node.buffer is results[k]:
                return
            tensor._grad = tensor.family(Node(DATA, (), NO_ATTRS, *self._types_out[k], False, None, results[k]))
        else:
            self._give(tensor._grad, k, False, results[k])  # type: ignore[arg-type]

    def _returned(self, leaves: Sequence[Any], results: list[Array], histories: dict[int, Node]) -> list[Any]:
        """The return value of the call, with these results."""
        made: dict[int, Tensor] = {}
        for k in self._values:
            history = histories.get(k)
            made[k] = self.wrapping(k)(results[k]) if history is None else self._family(k)(history)
        return [made[w] if how == VALUE else given(how, w, leaves, made) for how, w in self.captured.returned]

    def wrapping(self, k: int) -> Callable[[Array], Tensor]:
        """Makes a tensor from the array of a returned value that has no gradient history, or one that is gone."""
        if k in self._let_go:
            node = self.captured.graph.outputs[k]
            like = Node(node.op, RELEASED, node.attrs, *self._types_out[k], True, node.location)
        else:
            like = Node(DATA, (), NO_ATTRS, *self._types_out[k], False, None)
        return tensors_like(like, self._family(k))

    def _family(self, k: int) -> type[Tensor]:
        return self.captured.families.get(k, Tensor)
