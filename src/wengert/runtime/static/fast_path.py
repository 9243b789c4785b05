"""The fast path: a compiled call that finds everything as the last one left it.

A repeated training step updates its parameters, moments and gradients in place: every slot keeps its node, and every
node its array. Then only the arguments and results of the next call are new. A FastPath notes what the slots name
before a call, looks after it whether they still do, and from then on checks at each call, in a microsecond or two, that
everything is unchanged; if so, the program's `Replay` runs on the same memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter, itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import getweakrefcount, ref

import numpy as np

from wengert.backends.protocol import Replay
from wengert.core import code, context, tree
from wengert.core.devices import accelerator_of, keepers, owns_memory
from wengert.core.evaluation import watch
from wengert.core.graph import now
from wengert.core.ownership import ownership
from wengert.runtime.arguments import ARRAY, FLOAT, TENSOR, CallArguments, Floats
from wengert.runtime.capture import ARGUMENT, NONE, NUMBER, SLOT, VALUE, VIEW_OF
from wengert.runtime.config import config
from wengert.runtime.program import Array
from wengert.tensor import Tensor

if TYPE_CHECKING:
    from wengert.runtime.static.specialization import Specialization

MOVED = object()
"""Says that a call cannot be served by the fast path; nothing was done."""

KEPT = 2  # results: the last, and the next
_NEVER = -1
_KNOWN = 0  # begins the serial numbers that are known, as long as they are: there may be none

_type = attrgetter("shape", "dtype", "device", "tracked")


class FastPath:
    """The fast path for calling a specialization again. It is created before a call, and `arm`ed after it."""

    @staticmethod
    def before(specialization: Specialization) -> FastPath | None:
        """A fast path that has noted the current state, for a call that may leave it unchanged."""
        try:
            return FastPath(specialization)
        except AttributeError:  # a gradient that is overwritten is not there yet
            return None

    def __init__(self, specialization: Specialization) -> None:
        c = specialization.captured
        watched = list(dict.fromkeys([*(slot for slot, _ in c.had_grad), *(slot for slot, *_ in c.set_grads)]))
        graded = [slot for slot, how, _ in c.set_grads if how != NONE]
        self._slots = specialization.slots
        self._assigned = _picking(self._slots, [slot for slot, *_ in c.assigned])  # those that are overwritten
        self._watched = _picking(self._slots, watched)  # those whose gradient counts
        self._graded = _picking(watched, graded)  # of these, those whose gradient is overwritten
        # How many others refer to what `_keeps_slots` asks about. A node: its slot, `nodes`, `assigned`; its array: the
        # node. A gradient: its slot, `grads`, `graded`; its node: the gradient, `grad_nodes`; its array: that node.
        self._references = (3 + 1) * len(c.assigned) + (3 + 2 + 1) * len(graded)
        self._expected = _NEVER  # the serial number of the next time of asking, if nothing happens
        self._serials: list[int | None] = []  # of what the slots name, as long as all of it lives
        self._note([slot() for slot in self._slots])

    def _note(self, slots: list[Any]) -> None:
        """Note what the slots name. When some of it goes, all is forgotten."""
        nodes, grads = [slot.node for slot in slots], [slot._grad for slot in self._watched(slots)]
        grad_nodes = [grad.node for grad in self._graded(grads)]
        self._owns = all(owns_memory(node.buffer) for node in (*self._assigned(nodes), *grad_nodes))
        self._serials[:] = _serials(nodes, grads)
        forget, found = self._serials.clear, (*slots, *nodes, *grads, *grad_nodes)
        self._lives = [ref(thing, lambda _: forget()) for thing in found if thing is not None]

    def keeps_slots(self) -> bool:
        """Whether the call before which this was created overwrote all it replaced, which nothing else refers to."""
        return self._owns and self._keeps_slots()

    def arm(self, specialization: Specialization, arguments: CallArguments, replay: Replay, fresh: list[int]) -> None:
        """Serve calls like the one with these arguments; the replay computes the outputs numbered `fresh`."""
        captured = specialization.captured
        self.replay = replay
        _, _, self._grad, owner, self._autocast = arguments.key
        self._owner = id(None) if owner is None else owner
        positional, named = arguments.key[0].parts
        self._take = None if positional.is_flat else tree.taker(positional)
        self._types = None if named.parts else _types(arguments)
        self._read = None if self._types is None else _reader(self._types, captured.floats)
        self._seen: tuple[Any, ...] | None = None  # of leaves that fitted, as `_read` gives it
        wraps = [specialization.binding.wrapping(k) for k in fresh]
        self.results = ResultPool(wraps, replay.makers, keeps=accelerator_of(specialization.graph) is not None)
        self._returned = [_among(how, what, fresh) for how, what in captured.returned]
        self._is_all = self._returned == [(VALUE, place) for place in range(len(fresh))]  # the results as they are
        self._is_single = captured.structure is tree.LEAF
        self._put_together = tree.builder(captured.structure)

    # --- calls ------------------------------------------------------------------------------------------------------

    def call(self, specialization: Specialization, instance: Any, args: tuple[Any, ...]) -> Any:
        """The result of a call with these arguments, or MOVED.

        They must be tensors, arrays and floats of the same types, in the same containers, as before.
        """
        if (how := context.mode()).grad is not self._grad or how.autocast is not self._autocast:
            return MOVED
        leaves = args if self._take is None else self._take(args)
        if leaves is None or self._read is None or id(instance) != self._owner:
            return MOVED
        try:
            seen, arrays = self._read(*leaves)
        except (AttributeError, TypeError, ArithmeticError):  # others, or another number of them
            return MOVED
        if seen != self._seen:
            if not self._fits(leaves, arrays) or not specialization.are_no_slots(leaves):
                return MOVED
            self._seen = seen
        return self.run(specialization, leaves, arrays)

    def _fits(self, leaves: Sequence[Any], arrays: list[Any]) -> bool:
        """Whether leaves are of the types that there were, no tensor twice, and these are their arrays."""
        tensors = [id(leaf) for leaf in leaves if isinstance(leaf, Tensor)]
        rest = iter(arrays)
        given = [None if type(leaf) is float else next(rest, None) for leaf in leaves]
        return len({*tensors}) == len(tensors) and all(map(_is_of_type, leaves, given, self._types or ()))

    def run(self, specialization: Specialization, leaves: Sequence[Any], arrays: list[Array]) -> Any:
        """The result of a call with these leaves and their arrays, or MOVED."""
        tensors, made, drawn = self.results.take()  # before: another thread may take what is looked at, until it runs
        if not self.is_unchanged(specialization, drawn) or not self.replay.run(arrays, made):
            return MOVED
        specialization.calls += 1
        if self._is_all:
            return tensors[0] if self._is_single else self._put_together(tensors)
        found = self._returned
        return self._put_together([tensors[w] if how == VALUE else given(how, w, leaves, tensors) for how, w in found])

    def is_unchanged(self, specialization: Specialization, drawn: int = 0) -> bool:
        """Whether a call now would find everything as the last one left it.

        That is: settings, outer values that the function reads, the values of slots; and nothing else refers to memory
        that would be overwritten. The slots are unchanged if no serial number but the caller's `drawn` was drawn.
        """
        calls = specialization.calls
        if specialization.version != config.version or calls + 1 >= specialization.due:
            return False
        if watch.observer is not None or context.mode().checks_nans:
            return False
        for thing in specialization.objects:
            if thing() is None:
                return False
        if specialization.guards.changed() is not None:
            return False
        number = now()
        if number - drawn != self._expected or not self._serials:
            if not self._keeps_slots():
                self._expected = _NEVER
                return False
            self.replay.refresh()  # they are the same, but perhaps overwritten
        self._expected = number + 1
        return True

    def _keeps_slots(self) -> bool:
        """Whether the slots still name the same, and nobody else refers to what is overwritten."""
        try:
            slots: list[Any] = [slot() for slot in self._slots]
            nodes, grads = [slot.node for slot in slots], [slot._grad for slot in self._watched(slots)]
            graded = self._graded(grads)
            grad_nodes = [grad.node for grad in graded]
        except AttributeError:  # a slot is gone, or has no gradient any more
            return False
        if _serials(nodes, grads) != self._serials:
            return False
        assigned = self._assigned(nodes)
        arrays = [node.buffer for node in (*assigned, *grad_nodes)]
        return self._references == ownership.total([*assigned, *graded, *grad_nodes]) + ownership.total(arrays)


def _serials(nodes: list[Any], grads: list[Any]) -> list[int | None]:
    """The serial numbers of nodes and of gradients' nodes: they tell which they are, since no two tensors name one."""
    return [_KNOWN, *[node.serial for node in nodes], *[None if grad is None else grad.node.serial for grad in grads]]


def _picking(slots: Sequence[ref[Tensor]], some: Sequence[ref[Tensor]]) -> Callable[[Sequence[Any]], tuple[Any, ...]]:
    """What picks, of something for each of the slots, that of some of them."""
    number = {slot: i for i, slot in enumerate(slots)}
    places = [number[slot] for slot in some]
    return itemgetter(*places) if len(places) > 1 else lambda items: tuple([items[place] for place in places])


def _among(how: str, what: Any, fresh: list[int]) -> tuple[str, Any]:
    """What is returned, with the place of an output among those that a call computes for its number."""
    if how == VIEW_OF:
        (whole_how, whole), which = what
        return how, (_among(whole_how, whole, fresh), which)
    return how, fresh.index(what) if how == VALUE else what


def given(how: str, what: Any, leaves: Sequence[Any], values: Any) -> Any:
    """The result: a value from before the call, or a view of it or of one of the new values."""
    if how == VIEW_OF:
        (whole_how, whole), which = what
        return which(given(whole_how, whole, leaves, values))
    if how == VALUE:
        return values[what]
    if how == NUMBER:
        return what.value(leaves)
    return leaves[what] if how == ARGUMENT else what() if how == SLOT else what


# --- arguments ------------------------------------------------------------------------------------------------------


def _reader(types: Sequence[tuple[Any, ...]], floats: Floats) -> Callable[..., tuple[tuple[Any, ...], list[Any]]]:
    """What tells of leaves of these types whether they are such, or even the same, and gives the inputs' arrays.

    Serial numbers stand for tensors: no two tensors name one node.
    """
    names = [f"x{i}" for i in range(len(types))]
    seen, arrays = [], []
    for name, (kind, *_) in zip(names, types):
        if kind == FLOAT:
            seen.append(f"type({name})")
        elif kind == ARRAY:
            seen.append(f"(type({name}), {name}.shape, {name}.dtype, {name}.flags.aligned)")
            arrays.append(name)
        else:
            seen.append(f"{name}.node.serial")
            arrays.append(f"{name}.node.buffer")
    text = f"(({''.join(x + ', ' for x in seen)}), [{', '.join([*arrays, *floats.texts(names)])}])"
    return code.function(names, text, floats.named_in_texts())


def _types(arguments: CallArguments) -> list[tuple[Any, ...]] | None:
    """What counts of each leaf, and the kind of its array, where all are tensors, arrays and floats; else None."""
    if not all(s[0] in (ARRAY, FLOAT) or (s[0] == TENSOR and not s[3]) for s in arguments.specifications):
        return None
    pairs = zip(arguments.leaves, arguments.specifications)
    return [(leaf.family, *_type(leaf.node), type(leaf.node.buffer)) if s[0] == TENSOR else s for leaf, s in pairs]


def _is_of_type(leaf: Any, array: Any, wanted: tuple[Any, ...]) -> bool:
    if isinstance(leaf, Tensor):  # its array may be abstract while another thread records, or pending
        return type(leaf) is leaf.family and (leaf.family, *_type(leaf.node), type(array)) == wanted
    if type(leaf) is np.ndarray:
        return wanted == (ARRAY, leaf.shape, leaf.dtype) and leaf.flags.aligned
    return type(leaf) is float and wanted == (FLOAT,)


# --- results --------------------------------------------------------------------------------------------------------


class Results(NamedTuple):
    """The results of one call: tensors, and the arrays they are made from."""

    tensors: tuple[Tensor, ...]
    arrays: tuple[Any, ...]
    tracked: list[int]  # the places of those that are
    are_free: Callable[[], bool]  # whether nobody has any part of them


class ResultPool:
    """A pool for the results of calls: `makers` make arrays for them, `wraps` make tensors from these.

    Making a tensor and its node takes half a microsecond. A loop drops the results of a call before the next call but
    one: if the pool `keeps` what it made and nothing refers to any of it (not even weakly, or to a node or an array),
    all of it is returned again. The arrays of results then stay alive, as they do on a GPU anyway.
    """

    def __init__(self, wraps: list[Callable[[Any], Tensor]], makers: Sequence[Callable[[], Any]], keeps: bool) -> None:
        self._wraps, self._makers, self._keeps = wraps, makers, keeps and not ownership.copies
        self._made: list[Results] = []
        self._asking = _asking(len(wraps))
        if self._keeps:
            keepers.add(self)

    def take(self) -> tuple[tuple[Tensor, ...], tuple[Any, ...], int]:
        """Unreferenced tensors, their arrays, and the number of serial numbers drawn for them."""
        for tensors, arrays, tracked, are_free in self._made:
            if are_free():
                for place in tracked:  # for others it does not count when they were made
                    tensors[place].node.serial = now()
                return tensors, arrays, len(tracked)
        made = self._make()
        return made.tensors, made.arrays, len(self._wraps)

    def _make(self) -> Results:
        if len(self._made) == KEPT:  # somebody keeps parts of both: the rest may serve
            self._made.clear()
        arrays = tuple([make() for make in self._makers])
        others = ownership.total(arrays) if self._keeps else 0  # who makes them may keep them too
        tensors = tuple([wrap(array) for wrap, array in zip(self._wraps, arrays)])
        tracked = [i for i, tensor in enumerate(tensors) if tensor.node.tracked]
        parts = [part for t, a in zip(tensors, arrays) for part in (t, t.node, a, t.node.owner)]
        # All: `are_free`. A tensor: `tensors`. A node: its tensor. An array: `arrays`, its node. A weak one: its node.
        are_sole = ownership.asking(parts, (4 + 1 + 1 + 2 + 1) * len(tensors) + others)
        made = Results(tensors, arrays, tracked, self._asking(*parts, are_sole))
        if self._keeps:
            self._made.append(made)
        return made

    def let_go(self) -> None:
        """Drop everything: memory is short."""
        self._made.clear()


def _asking(count: int) -> Callable[..., Callable[[], bool]]:
    """What makes `are_free`, of the parts of so many results and of what counts references to them: nobody may have
    given a tensor another value or a gradient, or refer to it weakly (its node does).
    """
    whole = [
        f"t{i}.node is n{i} and n{i}.buffer is a{i} and n{i}.owner is o{i} and t{i}._grad is None and weak(t{i}) == 1"
        for i in range(count)
    ]
    names = [f"t{i}, n{i}, a{i}, o{i}" for i in range(count)]
    text = f"lambda: {' and '.join([*whole, 'are_sole()'])}"
    return code.function([*names, "are_sole"], text, {"weak": getweakrefcount})
