"""Recording a function: from a call's arguments to a closed graph with its inputs and outputs.

The function runs once on Tensors that stand for the arguments. What it reads from outside becomes inputs, by slot; what
it changes outside (assigned slots, gradients) becomes outputs; afterwards the outside is restored. `compile`, `bisect`
and `inspect.page` use this.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from typing import Any
from weakref import ref

from wengert.core import tree
from wengert.core.devices import HOST
from wengert.core.errors import AbstractValueError, AssignmentError
from wengert.core.forking import new_rlock
from wengert.core.graph import Graph, Node, Trace, has_array, recorded_as, recording, tracing
from wengert.ops.core import PLACEHOLDER, alias, data, placeholder
from wengert.runtime.arguments import (
    FLOAT,
    NUMPY_SCALAR,
    OBJECT,
    SAME,
    STATIC,
    TENSOR,
    VIEW,
    CallArguments,
    Float,
    Floats,
    Specification,
)
from wengert.runtime.debug.reasons import names, steady_random
from wengert.runtime.dynamic.realize import flush, value
from wengert.runtime.reads.arrays import array_input
from wengert.runtime.reads.log import ReadLog
from wengert.runtime.recorded_numbers import Recorded
from wengert.runtime.static.guards import Guards
from wengert.tensor import Tensor, family_of

VALUE, SLOT, ARGUMENT, CONSTANT, NUMBER = "value", "slot", "argument", "constant", "number"
VIEW_OF = "view of"
NEW, SAME_GRAD, NONE = "new", "same", "none"

recording_lock = new_rlock()
"""Held while slots name abstract values: from the beginning of a recording until they are given back."""


class Captured:
    """A recorded call: the closed graph, the sources of its inputs, and the destinations of its outputs.

    The graph's inputs are, in this order, those of `arguments` (tensors and arrays), `floats`, `argument_grads`,
    `slots`, `grads`. Arguments are identified by the positions of leaves; slots are held weakly.
    """

    def __init__(self) -> None:
        self.graph: Graph
        self.guards = Guards()
        self.arrays: list[Tensor] = []  # slots for outer NumPy arrays, with no other holder
        self.arguments: list[int] = []
        self.floats = Floats()  # of the call, and which of them are inputs
        self.argument_grads: list[int] = []
        self.slots: list[ref[Tensor]] = []
        self.grads: list[ref[Tensor]] = []  # slots whose gradient from before is read
        self.had_grad: list[tuple[ref[Tensor], bool]] = []  # slots whose gradient was looked for, and whether it was
        self.kept: list[tuple[int, int]] = []  # arguments that are slots too: place and identity
        self.structure: tree.Structure
        # VALUE output, SLOT reference, ARGUMENT place, CONSTANT, NUMBER, VIEW_OF one of the first three and which part
        self.returned: list[tuple[str, Any]] = []
        self.assigned: list[tuple[ref[Tensor], int, bool]] = []  # slot, output, whether it is a leaf
        self.assigned_arguments: list[tuple[int, int, bool]] = []
        self.set_grads: list[tuple[ref[Tensor], str, int]] = []
        self.set_argument_grads: list[tuple[int, str, int]] = []
        self.families: dict[int, type[Tensor]] = {}  # of outputs that are returned, where it is not Tensor itself
        self.let_go: set[int] = set()  # outputs whose graph a backward pass inside has used
        self.stages: list[tuple[int, int | None]] = []  # from which serial number on which stage was recorded
        self.held: list[Tensor] = []  # the slots, until the first replay: the function may have dropped one

    def all_slots(self) -> list[ref[Tensor]]:
        """Every outer slot that is read, assigned, given a gradient or returned."""
        others = [*(s for s, *_ in self.assigned), *(s for s, *_ in self.set_grads), *(s for s, _ in self.had_grad)]
        returned = [what for how, what in self.without_views() if how == SLOT and what().born is None]
        return list(dict.fromkeys([*self.slots, *self.grads, *others, *returned]))

    def without_views(self) -> list[tuple[str, Any]]:
        """The returned tensors, with views replaced by the tensors they are views of."""
        found = []
        for how, what in self.returned:
            while how == VIEW_OF:
                how, what = what[0]
            found.append((how, what))
        return found

    def unread(self) -> list[Node]:
        """The values of slots that are assigned, given a gradient or returned, but not read."""
        tensors = [slot() for slot in self.all_slots() if slot not in set(self.slots)]
        return [tensor.node for tensor in tensors if tensor is not None]


def capture(
    function: Callable[..., Any], arguments: CallArguments, make_log: Callable[[], ReadLog] | None = None
) -> Captured:
    """Record a function on the arguments of a call, optionally with a log of what it reads from outside."""
    with recording_lock:
        flush()
        return _capture(function, arguments, make_log)


def _capture(
    function: Callable[..., Any], arguments: CallArguments, make_log: Callable[[], ReadLog] | None
) -> Captured:
    kept: set[int] = set()
    own = {id(leaf) for leaf, s in zip(arguments.leaves, arguments.specifications) if s[0] == TENSOR}
    while True:  # again, with the arguments that the function turns out to reach from outside too as they are
        attempt = _Attempt(arguments, kept, None if make_log is None else make_log())
        try:
            captured = attempt.record(function)
        except Exception:
            if own.isdisjoint(attempt.touched() - kept):
                raise
            kept |= own & attempt.touched()
            continue
        more = own & set(map(id, captured.held)) - kept
        if not more and (attempt.log is None or not attempt.log.found_more()):
            return captured
        kept |= more


class _Attempt:
    """One run of the function on stand-ins for the arguments; those in `kept` are passed as they are."""

    def __init__(self, arguments: CallArguments, kept: set[int], log: ReadLog | None) -> None:
        self.log = log
        self.given = arguments
        self.captured = Captured()
        self.kept = kept
        self.inputs: list[Node] = []
        self.grad_inputs: list[Node] = []
        self.twins: dict[int, tuple[Tensor, Node, Tensor | None]] = {}  # by place: stand-in, its value, its gradient
        self.stand_ins: list[Any] = []
        self.views: dict[int, int] = {}  # arguments that are views: place, by the identity of what stands for them
        self.made: dict[int, tuple[str, Any]] = {}  # the structure of the return value, by identity
        self.outputs: list[Node] = []
        self.trace: Trace | None = None

    def touched(self) -> set[int]:
        """The identities of the slots from outside that were assigned or whose gradient was looked at."""
        return set() if self.trace is None else {id(slot) for slot in (*self.trace.before, *self.trace.grads)}

    def record(self, function: Callable[..., Any]) -> Captured:
        """Run the function; the closed graph of what it did."""
        how = recorded_as(None, recording.grad, recording.autocast)
        with _own_pending(), how, tracing("compile", static=True) as trace:
            self.trace = trace
            trace.array_of = None if self.log is None else partial(array_input, self.log)
            args, kwargs = tree.unflatten(self.given.key[0], self._stand_ins())
            with nullcontext() if self.log is None else self._watching(function, self.log):
                result = function(*args, **kwargs)
                if self.log is not None:
                    self.log.returned(result)
            self._collect(result, trace)
        self.captured.stages = trace.stages
        if self.log is not None:
            self.captured.guards, self.captured.arrays = self.log.finish(), self.log.arrays
        with _own_pending():  # values made inside are not computed together with the slots that closing reads
            self.captured.graph = self._close(trace)
        self.captured.held = [slot() for slot in self.captured.all_slots()]  # type: ignore[misc]
        return self.captured

    @contextmanager
    def _watching(self, function: Callable[..., Any], log: ReadLog) -> Iterator[None]:
        """A context in which reads are logged and the global random states must not move."""
        with steady_random(log.name), log.watching(function, self._objects()):
            yield

    def _objects(self) -> list[tuple[str, Any]]:
        """The arguments that are objects, with their names."""
        found = zip(names(self.given.key[0]), self.given.leaves, self.given.specifications)
        return [(label, leaf) for label, leaf, s in found if s[0] in (STATIC, OBJECT)]

    # --- arguments ----------------------------------------------------------------------------------------------

    def _stand_ins(self) -> list[Any]:
        given = list(zip(self.given.leaves, self.given.specifications))
        seen: list[Any] = [None] * len(given)
        for i, (leaf, specification) in enumerate(given):
            kind = specification[0]
            if kind in (STATIC, OBJECT) or (kind == TENSOR and id(leaf) in self.kept):
                seen[i] = leaf
                if kind == TENSOR:
                    self.captured.kept.append((i, id(leaf)))
            elif kind == FLOAT:
                seen[i] = self.captured.floats.add(i)
            elif kind not in (SAME, VIEW):
                seen[i] = self._stand_in(i, leaf, specification)
        for i in range(len(given)):
            self._whole(i, seen, given)
        self.stand_ins = seen  # which keeps identities from coming again
        return [seen[s[1]] if s[0] == SAME else found for found, (_, s) in zip(seen, given)]

    def _whole(self, place: int, seen: list[Any], given: Sequence[tuple[Any, Specification]]) -> Any:
        """What stands for an argument that may be a view, of one that may be one too."""
        if seen[place] is None and given[place][1][0] == VIEW:
            _, further, which = given[place][1]
            seen[place] = which(self._whole(further, seen, given))
            self.views[id(seen[place])] = place
        return seen[place]

    def _stand_in(self, i: int, leaf: Any, specification: Sequence[Any]) -> Tensor:
        shape, dtype = specification[1:3]
        device = specification[5] if specification[0] == TENSOR else HOST
        node = placeholder(shape, dtype, device, tracked=False)
        self.inputs.append(node)
        self.captured.arguments.append(i)
        family, is_number = family_of((leaf,)), specification[-1] == NUMPY_SCALAR
        twin, grad = Float(Recorded(node)) if is_number else family(node), None
        if specification[0] == TENSOR and specification[3]:
            twin.requires_grad = True
            if specification[4] is not None:
                shape, dtype = specification[4]
                grad = family(placeholder(shape, dtype, device, tracked=False))
                self.grad_inputs.append(grad.node)
                self.captured.argument_grads.append(i)
                twin._grad = grad
        self.twins[i] = (twin, twin.node, grad)
        return twin

    # --- what came of it ----------------------------------------------------------------------------------------

    def _output(self, node: Node) -> int:
        self.outputs.append(node)
        return len(self.outputs) - 1

    def _collect(self, result: Any, trace: Trace) -> None:
        """Record what the function returned and what it changed."""
        captured = self.captured
        leaves, captured.structure = tree.flatten(result, attributes=True)
        places = {id(twin): i for i, (twin, _, _) in self.twins.items()}
        captured.returned = [self._returned(leaf, places, trace) for leaf in leaves]
        self._require_one_history(leaves, trace)
        self._collect_arguments()
        grads = {id(before): slot for slot, (before, _) in trace.grads.items() if before is not None}
        for slot, node in trace.assigned().items():
            if id(slot) in grads:
                captured.set_grads.append((ref(grads[id(slot)]), SAME_GRAD, self._output(node)))
            else:
                captured.assigned.append((ref(slot), self._output(node), _is_leaf(slot)))
        for slot, (before, reads) in trace.grads.items():
            if reads:
                captured.had_grad.append((ref(slot), before is not None))
            if slot._grad is None:
                captured.set_grads.append((ref(slot), NONE, 0))
            elif slot._grad is not before:
                captured.set_grads.append((ref(slot), NEW, self._output(slot._grad.node)))
        captured.let_go = {k for k, node in enumerate(self.outputs) if node in trace.let_go}
        self._grads_by_identity = {id(before): ref(slot) for slot, (before, _) in trace.grads.items()}

    def _require_one_history(self, leaves: Sequence[Any], trace: Trace) -> None:
        """Raise an error if a result shares memory with something that stays, and has another history: it would be
        apart."""
        views = [leaf for leaf in {id(leaf): leaf for leaf in leaves}.values() if getattr(leaf, "view_of", None)]
        stay = {*map(id, leaves), *[id(twin) for twin, _, _ in self.twins.values()]}
        roots = [id(leaf.view_of[0]) for leaf in views]
        for leaf in views:
            root, which = leaf.view_of
            if which is not None or trace.is_outside(leaf):
                continue
            if trace.is_outside(root) or id(root) in stay or roots.count(id(root)) > 1:
                raise AssignmentError(
                    "compile: a result shares memory with another result, an argument or an outer tensor, but has "
                    "its own gradient history (it was detached, and then made a leaf or assigned a tracked value). "
                    "Return its clone()"
                )

    def _returned(self, leaf: Any, places: dict[int, int], trace: Trace) -> tuple[str, Any]:
        if id(leaf) not in self.made:
            self.made[id(leaf)] = self._how_returned(leaf, places, trace)
        return self.made[id(leaf)]

    def _how_returned(self, leaf: Any, places: dict[int, int], trace: Trace) -> tuple[str, Any]:
        if not isinstance(leaf, Tensor):
            return CONSTANT, leaf
        if type(leaf) is Float:
            if type(leaf.weak) is not Recorded:
                return NUMBER, leaf.weak
            leaf = Tensor(alias(leaf.weak.recorded))
        if id(leaf) in places and self.given.specifications[places[id(leaf)]][0] == TENSOR:
            return ARGUMENT, places[id(leaf)]
        if id(leaf) in self.views:
            return ARGUMENT, self.views[id(leaf)]
        if trace.is_outside(leaf):
            return SLOT, ref(leaf)
        root, which = leaf.view_of or (None, None)
        if which is not None:
            return VIEW_OF, (self._returned(root, places, trace), which)
        k = self._output(leaf.node)
        if leaf.family is not Tensor:
            self.captured.families[k] = leaf.family
        return VALUE, k

    def _collect_arguments(self) -> None:
        for i, (twin, before, grad) in self.twins.items():
            if twin.node is not before:
                if self.given.specifications[i][0] != TENSOR:
                    raise AssignmentError(
                        "compile: the function assigns an argument that is a NumPy array or a number; pass a tensor, "
                        "or compute a new value instead of assigning",
                        twin.node.location,
                    )
                self.captured.assigned_arguments.append((i, self._output(twin.node), _is_leaf(twin)))
            if grad is not None and twin._grad is grad and grad.node is not self.grad_inputs[self._grad_place(i)]:
                self.captured.set_argument_grads.append((i, SAME_GRAD, self._output(grad.node)))
            elif twin._grad is None and grad is not None:
                self.captured.set_argument_grads.append((i, NONE, 0))
            elif twin._grad is not grad and twin._grad is not None:
                self.captured.set_argument_grads.append((i, NEW, self._output(twin._grad.node)))

    def _grad_place(self, i: int) -> int:
        return self.captured.argument_grads.index(i)

    # --- the closed graph ---------------------------------------------------------------------------------------

    def _close(self, trace: Trace) -> Graph:
        """The graph with its captures as inputs if a slot names them, or as constants."""
        captured = self.captured
        floats = list(captured.floats.inputs.values())
        graph = Graph([*self.inputs, *floats, *self.grad_inputs], self.outputs, trace.start)
        read = [source for node in graph.nodes for source in node.sources]
        floats = captured.floats.close([*read, *self.outputs])
        graph.inputs = (*self.inputs, *floats, *self.grad_inputs)
        replacing: dict[Node, Node] = {}
        slots, grads = [], []
        for node in graph.captured():
            owner = None if node.owner is None else node.owner()
            if node.serial >= trace.start or owner is None or owner.node is not node:
                replacing[node] = _with_serial(data(value(node), node.device), node)
                continue
            if not has_array(node):
                value(node)  # raises for an abstract value that escaped from an earlier recording
            replacing[node] = _with_serial(placeholder(node.shape, node.dtype, node.device, node.tracked), node)
            slot = self._grads_by_identity.get(id(owner))
            if slot is None:
                captured.slots.append(ref(owner))
                slots.append(replacing[node])
            else:
                captured.grads.append(slot)
                grads.append(replacing[node])
        _require_known(graph)
        for node in graph.nodes:
            if not replacing.keys().isdisjoint(node.sources):
                node.sources = tuple([replacing.get(source, source) for source in node.sources])
        outputs = [replacing.get(node, node) for node in self.outputs]
        return Graph([*graph.inputs, *slots, *grads], outputs, trace.start)


def _is_leaf(slot: Tensor) -> bool:
    """Whether an assigned slot is a leaf; if not, its value must not be tracked: its graph ends with the call."""
    if slot.node.tracked and not slot.is_leaf:
        raise AssignmentError(
            "compile: the function assigns an outer tensor a value that is tracked for gradients, which would keep "
            "the graph of every call alive. Assign value.detach(), or do it inside `with wg.no_grad():`",
            slot.node.location,
        )
    return slot._is_variable()


def _with_serial(node: Node, replaced: Node) -> Node:
    """A node in place of another: no younger than what reads it."""
    node.serial = replaced.serial
    return node


def _require_known(graph: Graph) -> None:
    for node in graph.nodes:
        if node.op is PLACEHOLDER:
            raise AbstractValueError(
                "compile: a tensor used here escaped from a function that vmap, scan, cond or similar was recording, "
                "so it has no value. Return it from that function instead",
                node.location,
            )


@contextmanager
def _own_pending() -> Iterator[None]:
    """Values made inside do not join an outer flush, unless something still holds them."""
    before, recording.pending = recording.pending, []
    cut = recording.cut
    try:
        yield
    finally:
        recording.pending = before + [slot for slot in recording.pending if slot() is not None]
        recording.cut = min(cut, len(before))
