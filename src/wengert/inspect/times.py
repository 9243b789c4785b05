"""The time of each op and each call on a page, from a profile.

A compiled program's kernel belongs to the call that recorded its last value, as in the profile's tables. Ops that ran
one by one, or in programs of the dynamic tier, are matched by module, function and kernel.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from wengert.core.code import Backward
from wengert.core.graph import Node, describe_type
from wengert.inspect.calls import Observed, Path, WatchedCall
from wengert.runtime.debug.explain import pass_reports

if TYPE_CHECKING:
    from wengert.inspect.profile import Profile

FORWARD, BACKWARD = "forward", "backward"
Seconds = dict[tuple[WatchedCall, str], float]
_Place = tuple[Path, str, str]  # a module, a function, and the side


def side_of(node: Node, call: WatchedCall | None) -> str:
    """Whether a node is of the forward pass, or of gradients and updates."""
    is_late = isinstance(node.location, Backward) or (call is not None and call.is_step)
    return BACKWARD if is_late else FORWARD


class Times:
    """Mean seconds by node and by call."""

    def __init__(self, profile: Profile) -> None:
        self._kernels: dict[_Place, dict[str, float]] = {}
        for key, row in profile.rows_by_key():
            is_late = isinstance(key.location, Backward) or key.is_step
            place = (key.module, key.function, BACKWARD if is_late else FORWARD)
            self._kernels.setdefault(place, {})[key.kernel] = row.seconds / row.count
        self._of_calls: Seconds = {}

    def take_program(
        self, program: Any, graph_calls: Mapping[Node, WatchedCall | None], seconds: Mapping[int, float]
    ) -> None:
        """Take the times of a compiled program's steps instead."""
        self._kernels = {}
        for i, group in enumerate(program.plan.groups_of_steps):
            root = group.roots[0 if group.opaque else -1]
            call = graph_calls.get(root)
            if call is not None and i in seconds:
                key = (call, side_of(root, call))
                self._of_calls[key] = self._of_calls.get(key, 0.0) + seconds[i]

    def of_node(self, node: Node, call: WatchedCall | None) -> float | None:
        """The seconds of a node that ran alone."""
        kernels = self._kernels.get(_place(node, call), {})
        return kernels.get(f"{node.op.name} {describe_type(node)}")

    def of_calls(self, calls: Mapping[Node, WatchedCall | None]) -> Seconds:
        """The seconds of calls, on each side, apart from those of the calls inside."""
        if self._of_calls:
            return self._of_calls
        found: Seconds = {}
        at: dict[_Place, set[WatchedCall]] = {}
        for node, call in calls.items():
            if call is not None:
                place = _place(node, call)
                at.setdefault(place, set()).add(call)
                found[call, place[2]] = found.get((call, place[2]), 0.0) + (self.of_node(node, call) or 0.0)
        for place, own in at.items():
            if len(own) == 1 and not found[key := (next(iter(own)), place[2])]:  # it ran in fused kernels
                found[key] = sum(self._kernels.get(place, {}).values())
        return found


def _place(node: Node, call: WatchedCall | None) -> _Place:
    return (call.path, call.function, side_of(node, call)) if call is not None else ((), "", side_of(node, call))


def calls_of_program(observed: Observed, graph: Any, program: Any) -> dict[Node, WatchedCall | None]:
    """The calls of the nodes that a program computes, handed on through its passes."""
    known: dict[Node, WatchedCall | None] = observed.calls_in(graph.nodes)
    for each in [*[report.graph for report in pass_reports(program)], program.graph]:
        known |= observed.calls_in([node for node in each.nodes if node not in known], True, known)
    return known
