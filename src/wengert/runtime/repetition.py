"""Repetitions: calls of a replay that find everything where the last one left it.

Where a replay writes its state over itself (`steady`), nothing of the next call is new but its arguments and its fresh
results. A Repetition looks whether it is so, in a microsecond or two, has the program repeated, and wraps the results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import numpy as np

from wengert import tree
from wengert.graph import recording
from wengert.reference import watch
from wengert.runtime.arguments import ARRAY, FLOAT, TENSOR, Call
from wengert.runtime.capture import VALUE
from wengert.runtime.config import config
from wengert.runtime.program import Array, Repeat
from wengert.runtime.steady import Steady
from wengert.tensor import Tensor

if TYPE_CHECKING:
    from wengert.runtime.replay import Replay

MOVED = object()
"""Says that a call is no repeat of the last one."""

_type = attrgetter("shape", "dtype", "device", "tracked")


class Repetition:
    """How to repeat the last call of a replay: `steady` is what it left in its place, `repeat` the program's own part,
    which gives the outputs numbered `fresh`.
    """

    def __init__(self, replay: Replay, steady: Steady, call: Call, repeat: Repeat, fresh: list[int]) -> None:
        self.steady, self.repeat, self.fresh = steady, repeat, fresh
        steady.refresh = repeat.refresh
        _, _, self.grad, owner, self.autocast = call.key
        self.owner = id(None) if owner is None else owner
        positional, named = call.key[0].parts
        self.take = None if positional.is_flat else tree.taker(positional)
        self.types = None if named.parts else _types(call)
        self.float_dtype = replay.captured.float_dtype
        self.seen: list[Any] | None = None  # of leaves that fitted: serial numbers, or shapes and dtypes
        returned = replay.captured.returned
        values = {what for how, what in returned if how == VALUE}
        self.made = len(values)  # nodes for what is returned
        self.wraps: list[tuple[Callable[[Array], Tensor], int]] = []  # where nothing but fresh values is returned
        if len(values) == len(returned):
            self.wraps = [(replay.binding.wrapping(k), fresh.index(k)) for _, k in returned]
        is_single = replay.captured.structure is tree.LEAF and len(fresh) == len(self.wraps) == 1
        self.wrap_single = self.wraps[0][0] if is_single else None
        self.put_together = tree.builder(replay.captured.structure)

    def again(self, replay: Replay, instance: Any, args: tuple[Any, ...]) -> Any:
        """The result of a call with these arguments, else MOVED: nothing was done.

        They must be tensors, arrays and floats of the types that there were, in the containers that there were.
        """
        if id(instance) != self.owner or recording.grad is not self.grad or recording.autocast is not self.autocast:
            return MOVED
        leaves = args if self.take is None else self.take(args)
        if leaves is None:
            return MOVED
        seen: list[Any] = []
        arrays = []
        for leaf in leaves:
            kind = type(leaf)
            if kind is Tensor:
                node = leaf.node
                seen.append(node.serial)  # no two tensors name one node
                arrays.append(node.buffer)
            elif kind is np.ndarray:
                seen.append((leaf.shape, leaf.dtype))
                arrays.append(leaf)
            elif kind is float:
                seen.append(kind)
                arrays.append(np.array(leaf, self.float_dtype))
            else:
                return MOVED
        if seen != self.seen:
            if not self._fits(leaves, arrays) or not replay.are_no_slots(leaves):
                return MOVED
            self.seen = seen
        return self.run(replay, leaves, arrays)

    def _fits(self, leaves: Sequence[Any], arrays: list[Any]) -> bool:
        """Whether leaves are of the types that there were, no tensor twice, and these are their arrays."""
        if self.types is None or len(leaves) != len(self.types):
            return False
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
        if replay.guards.changed() is not None or not self.steady.holds(self.made):
            return MOVED
        made = self.repeat.run(arrays)
        if made is None:
            return MOVED
        replay.calls = calls + 1
        if self.wrap_single is not None:
            return self.wrap_single(made[0])
        if self.wraps:
            return self.put_together([wrap(made[place]) for wrap, place in self.wraps])
        return self.put_together(replay.binding.returned(leaves, dict(zip(self.fresh, made))))


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
    return wanted == (FLOAT,) if type(leaf) is float else wanted == (ARRAY, array.shape, array.dtype)
