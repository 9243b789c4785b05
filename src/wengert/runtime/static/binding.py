"""Bindings: which arrays the program of a captured call is given, and where its results go.

In: the leaves of a call, and the slots as they are. The program may overwrite what only a slot refers to that is about
to be given another value. Out: what the call returns; slots and gradients are given their new values together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from sys import getrefcount
from typing import Any
from weakref import ref

import numpy as np

from wengert.autodiff.checkpoint import CHECKPOINT
from wengert.core import tree
from wengert.core.graph import NO_ATTRS, RELEASED, Graph, Node, now, recording
from wengert.ops.core import DATA, VARIABLE, data
from wengert.ops.op import Op, pick
from wengert.runtime.dynamic.realize import value
from wengert.runtime.machines import is_sole
from wengert.runtime.program import Array, Program
from wengert.runtime.static.arguments import ARRAY, TENSOR, Specification
from wengert.runtime.static.capture import ARGUMENT, NEW, NONE, SAME_GRAD, SLOT, VALUE, Captured, recording_lock
from wengert.runtime.static.results import tensors_like
from wengert.tensor import Tensor


class Binding:
    """What a captured call reads and writes. `pairs` are inputs and the outputs that take their place, by number."""

    def __init__(self, captured: Captured, specifications: Sequence[Specification]) -> None:
        c = self.captured = captured
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

    def leaves_arguments_alone(self) -> bool:
        """Whether of its arguments a call only reads the values, and refers to none of them later."""
        c = self.captured
        touches = c.argument_grads or c.assigned_arguments or c.set_argument_grads or c.kept
        return not (touches or self._body or self._borrowing)

    def run(self, program: Program, leaves: Sequence[Any]) -> Any:
        """Run the program on a call's leaves, give the slots their new values, return the result."""
        structure = self.captured.structure
        sources, arrays = self._computed(self._sources, leaves)
        results = program(arrays, self._owned(sources, arrays), self._spare())
        for k in self._borrowing:
            results[k] = _own(results[k], [arrays[i] for i in self._arrays])
        histories = self._histories(sources, arrays, results)
        with recording_lock:  # while another thread records, slots name abstract values, which are given back then
            self._commit(leaves, results)
        returned = self.returned(leaves, results, histories)
        return returned[0] if structure is tree.LEAF else tree.unflatten(structure, returned)

    # --- what comes in ------------------------------------------------------------------------------------------

    def arguments(self, leaves: Sequence[Any]) -> list[Array]:
        """The arrays of the arguments."""
        return self._computed(self._given, leaves)[1]

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
            alike = (node.shape, node.dtype, node.device) == self._types_out[k]
            if alike and (type(array) is not np.ndarray or (array.flags.c_contiguous and array.flags.writeable)):
                found[k] = array
        return found

    # --- what goes out ------------------------------------------------------------------------------------------

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

    def returned(self, leaves: Sequence[Any], results: list[Array], histories: dict[int, Node]) -> list[Any]:
        """What the call returns, in order, with these results."""
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
            node = self.captured.graph.outputs[k]
            return tensors_like(node.op, RELEASED, node.attrs, *self._types_out[k], True, node.location)
        return tensors_like(DATA, (), NO_ATTRS, *self._types_out[k], False, None)


def _outputs_sharing(graph: Graph, inputs: Sequence[Node]) -> list[int]:
    """The outputs that may be views of these inputs: reached through ops that only move elements."""
    if not inputs:
        return []
    reached = set(inputs)
    for node in graph.nodes:
        if (node.op.moves or node.op.kind == "function") and not reached.isdisjoint(node.sources):
            reached.add(node)
    return [k for k, node in enumerate(graph.outputs) if node in reached]


def _own(array: Array, others: Sequence[Array]) -> Array:
    """An array that shares no memory with the caller's."""
    return array.copy() if any(np.may_share_memory(array, other) for other in others) else array
