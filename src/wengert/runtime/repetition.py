"""Repetitions: calls of a replay that find everything where the last one left it.

Where a replay writes its state over itself (`steady`), nothing of the next call is new but its arguments and its fresh
results. A Repetition looks whether it is so, in a microsecond or two, has the program repeated, and wraps the results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from wengert import tree
from wengert.graph import recording
from wengert.reference import is_checking_nans, watch
from wengert.runtime.arguments import TENSOR, Call
from wengert.runtime.capture import VALUE
from wengert.runtime.config import config
from wengert.runtime.program import Array
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

    def __init__(
        self, replay: Replay, steady: Steady, call: Call, repeat: Callable[..., Any], fresh: list[int]
    ) -> None:
        self.steady, self.repeat, self.fresh = steady, repeat, fresh
        _, _, self.grad, owner, self.autocast = call.key
        self.owner = id(None) if owner is None else owner
        self.types = _plain_types(call)
        self.seen: list[tuple[int, int]] | None = None  # identities and serial numbers of arguments that fitted
        returned = replay.captured.returned
        values = {what for how, what in returned if how == VALUE}
        self.made = len(values)  # nodes for what is returned
        self.wraps: list[tuple[Callable[[Array], Tensor], int]] = []  # where nothing but fresh values is returned
        if len(values) == len(returned):
            self.wraps = [(replay.binding.wrapping(k), fresh.index(k)) for _, k in returned]
        self.is_single = replay.captured.structure is tree.LEAF and self.made == 1
        self.put_together = tree.builder(replay.captured.structure)

    def again(self, replay: Replay, instance: Any, args: tuple[Any, ...]) -> Any:
        """The result of a call with these arguments, else MOVED: nothing was done.

        They are not taken apart: they must be tensors of the types that there were.
        """
        if id(instance) != self.owner or recording.grad is not self.grad or recording.autocast is not self.autocast:
            return MOVED
        seen, arrays = [], []
        try:
            for arg in args:
                node = arg.node
                seen.append((id(arg), node.serial))
                arrays.append(node.buffer)
        except AttributeError:  # they are not all tensors
            return MOVED
        if seen != self.seen:
            if not self._fits(args, arrays) or not replay.are_no_slots(args):
                return MOVED
            self.seen = seen
        return self.run(replay, args, arrays)

    def _fits(self, args: tuple[Any, ...], arrays: list[Any]) -> bool:
        """Whether arguments are different tensors of the types that there were, and these are their arrays."""
        if self.types is None or len(args) != len(self.types) or len({*map(id, args)}) != len(args):
            return False
        for arg, array, (shape, dtype, device, tracked, kind) in zip(args, arrays, self.types):
            if type(arg) is not Tensor or type(array) is not kind:  # abstract while another thread records, or pending
                return False
            node = arg.node
            if node.shape != shape or node.dtype is not dtype or node.device != device or node.tracked is not tracked:
                return False
        return True

    def run(self, replay: Replay, leaves: Sequence[Any], arrays: list[Array]) -> Any:
        """The result of a call with these leaves, whose arrays are given, else MOVED: nothing was done."""
        calls = replay.calls
        if replay.version != config.version or not calls & calls + 1:  # is_due(calls + 1), without asking
            return MOVED
        if watch.observer is not None or is_checking_nans():
            return MOVED
        for thing in replay.objects:
            if thing() is None:
                return MOVED
        if replay.guards.changed() is not None or not self.steady.holds(self.made):
            return MOVED
        made = self.repeat(arrays)
        if made is None:
            return MOVED
        replay.calls = calls + 1
        if self.is_single:
            wrap, place = self.wraps[0]
            return wrap(made[place])
        if self.wraps:
            return self.put_together([wrap(made[place]) for wrap, place in self.wraps])
        return self.put_together(replay.binding.returned(leaves, dict(zip(self.fresh, made))))


def _plain_types(call: Call) -> list[tuple[Any, ...]] | None:
    """What counts of each argument, and the kind of its array, where all are tensors; else None."""
    if len(call.leaves) != len(call.args) or not tree.are_leaves(call.args):
        return None
    if not all(s[0] == TENSOR and not s[3] for s in call.specifications):
        return None
    return [(*_type(tensor.node), type(tensor.node.buffer)) for tensor in call.args]
