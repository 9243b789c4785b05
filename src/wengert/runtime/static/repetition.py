"""Repetitions: calls of a replay that find everything where the last one left it.

Where a replay writes its state over itself (`steady`), nothing of the next call is new but its arguments and its fresh
results. A Repetition looks whether it is so, in a microsecond or two, has the program repeated, and wraps the results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from wengert.backends.protocol import Repeat
from wengert.core import tree
from wengert.core.devices import accelerator_of
from wengert.core.evaluation import watch
from wengert.core.graph import recording
from wengert.runtime.config import config
from wengert.runtime.program import Array
from wengert.runtime.static.arguments import ARRAY, FLOAT, TENSOR, Call
from wengert.runtime.static.capture import ARGUMENT, SLOT, VALUE
from wengert.runtime.static.results import Results
from wengert.runtime.static.steady import Steady
from wengert.tensor import Tensor

if TYPE_CHECKING:
    from wengert.runtime.static.replay import Replay

MOVED = object()
"""Says that a call is no repeat of the last one."""

_type = attrgetter("shape", "dtype", "device", "tracked")


class Repetition:
    """How to repeat the last call of a replay: `steady` is what it left in its place, `repeat` the program's own part,
    which computes the outputs numbered `fresh`.
    """

    def __init__(self, replay: Replay, steady: Steady, call: Call, repeat: Repeat, fresh: list[int]) -> None:
        self.steady, self.repeat = steady, repeat
        steady.refresh = repeat.refresh
        _, _, self.grad, owner, self.autocast = call.key
        self.owner = id(None) if owner is None else owner
        positional, named = call.key[0].parts
        self.take = None if positional.is_flat else tree.taker(positional)
        self.types = None if named.parts else _types(call)
        self.read = _reader(self.types or (), replay.captured.float_dtype)
        self.seen: tuple[Any, ...] | None = None  # of leaves that fitted, as `read` gives it
        binding, returned = replay.binding, replay.captured.returned
        wraps = [binding.wrapping(k) for k in fresh]
        self.results = Results(wraps, repeat.makers, keeps=accelerator_of(replay.graph) is not None)
        self.returned = [(how, fresh.index(what) if how == VALUE else what) for how, what in returned]
        self.is_all = self.returned == [(VALUE, place) for place in range(len(fresh))]  # the results as they are
        self.is_single = replay.captured.structure is tree.LEAF
        self.put_together = tree.builder(replay.captured.structure)

    def again(self, replay: Replay, instance: Any, args: tuple[Any, ...]) -> Any:
        """The result of a call with these arguments, else MOVED: nothing was done.

        They must be tensors, arrays and floats of the types that there were, in the containers that there were.
        """
        if id(instance) != self.owner or recording.grad is not self.grad or recording.autocast is not self.autocast:
            return MOVED
        leaves = args if self.take is None else self.take(args)
        if leaves is None or self.types is None:
            return MOVED
        try:
            seen, arrays = self.read(*leaves)
        except (AttributeError, TypeError):  # others, or another number of them
            return MOVED
        if seen != self.seen:
            if not self._fits(leaves, arrays) or not replay.are_no_slots(leaves):
                return MOVED
            self.seen = seen
        return self.run(replay, leaves, arrays)

    def _fits(self, leaves: Sequence[Any], arrays: list[Any]) -> bool:
        """Whether leaves are of the types that there were, no tensor twice, and these are their arrays."""
        assert self.types is not None
        tensors = [id(leaf) for leaf in leaves if type(leaf) is Tensor]
        return len({*tensors}) == len(tensors) and all(map(_is_of_type, leaves, arrays, self.types))

    def run(self, replay: Replay, leaves: Sequence[Any], arrays: list[Array]) -> Any:
        """The result of a call with these leaves, whose arrays are given, else MOVED: nothing was done."""
        calls = replay.calls
        if replay.version != config.version or not calls & calls + 1:  # is_due(calls + 1), without asking
            return MOVED
        if watch.observer is not None or watch.checks_nans:
            return MOVED
        for thing in replay.objects:
            if thing() is None:
                return MOVED
        if replay.guards.changed() is not None:
            return MOVED
        given = self.results.again()
        if given is None:
            given = self.results.made()
            drawn = len(given.tensors)
        else:
            drawn = len(given.tracked)
        if not self.steady.holds(drawn) or not self.repeat.run(arrays, given.arrays):
            return MOVED
        replay.calls = calls + 1
        tensors = given.tensors
        if self.is_all:
            return tensors[0] if self.is_single else self.put_together(tensors)
        found = [tensors[what] if how == VALUE else _given(how, what, leaves) for how, what in self.returned]
        return self.put_together(found)


def _given(how: str, what: Any, leaves: Sequence[Any]) -> Any:
    """What is returned as it was before the call."""
    return leaves[what] if how == ARGUMENT else what() if how == SLOT else what


def _reader(types: Sequence[tuple[Any, ...]], float_dtype: Any) -> Callable[..., tuple[tuple[Any, ...], list[Any]]]:
    """What tells of leaves of these types whether they are such, or even the same, and gives their arrays: Python
    written for them takes half the time of a loop.

    Serial numbers stand for tensors: no two tensors name one node.
    """
    names = [f"x{i}" for i in range(len(types))]
    seen, arrays = [], []
    for name, (kind, *_) in zip(names, types):
        if kind == FLOAT:
            seen.append(f"type({name})")
            arrays.append(f"array({name}, dtype) if type({name}) is float else None")
        elif kind == ARRAY:
            seen.append(f"(type({name}), {name}.shape, {name}.dtype)")
            arrays.append(name)
        else:
            seen.append(f"{name}.node.serial")
            arrays.append(f"{name}.node.buffer")
    text = f"lambda {', '.join(names)}: (({''.join(x + ', ' for x in seen)}), [{', '.join(arrays)}])"
    reader: Callable[..., Any] = eval(text, {"array": np.array, "dtype": float_dtype})
    return reader


def _types(call: Call) -> list[tuple[Any, ...]] | None:
    """What counts of each leaf, and the kind of its array, where all are tensors, arrays and floats; else None."""
    if not all(s[0] in (ARRAY, FLOAT) or (s[0] == TENSOR and not s[3]) for s in call.specifications):
        return None
    return [
        (*_type(leaf.node), type(leaf.node.buffer)) if s[0] == TENSOR else s
        for leaf, s in zip(call.leaves, call.specifications)
    ]


def _is_of_type(leaf: Any, array: Any, wanted: tuple[Any, ...]) -> bool:
    if type(leaf) is Tensor:  # its array may be abstract while another thread records, or pending
        return (*_type(leaf.node), type(array)) == wanted
    if type(leaf) is np.ndarray:
        return wanted == (ARRAY, leaf.shape, leaf.dtype)
    return type(leaf) is float and wanted == (FLOAT,)
