"""Groups of nodes for the page: a group is one call of a module or of a public function, forward or backward.

In: a recorded computation whose calls were watched. Out: the groups as data, and the group of each node. The gradient's
nodes are grouped by the calls of the forward nodes that they differentiate.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from wengert.core.graph import Node, describe_type
from wengert.inspect.calls import WatchedCall
from wengert.inspect.lines import line_of
from wengert.inspect.public_functions import textbook_name
from wengert.inspect.recorded import ARGUMENT, LEAF, PARAMETER, RecordedCall
from wengert.inspect.times import BACKWARD, FORWARD, Seconds, Times

_SHOWN_TYPES = 3  # of what comes out of a group


@dataclass(eq=False)
class CallGroup:
    """A call on one side, with what was recorded directly in it and the groups inside."""

    call: WatchedCall
    side: str
    around: CallGroup | None
    nodes: list[Node] = field(default_factory=list)
    groups: list[CallGroup] = field(default_factory=list)
    function: str = ""
    calls: list[WatchedCall] = field(default_factory=list)  # its own, and those that it stands for
    number: int = -1

    @property
    def is_leaf(self) -> bool:
        """Whether no module is inside."""
        return not any(group.call.module is not None or not group.is_leaf for group in self.groups)

    def all_nodes(self) -> list[Node]:
        """Its nodes and those of the groups inside."""
        return [*self.nodes, *(node for group in self.groups for node in group.all_nodes())]


class Groups:
    """The groups of a computation."""

    def __init__(self, recorded: RecordedCall, times: Times | None = None) -> None:
        self._recorded = recorded
        nodes = [*recorded.forward, *recorded.backward]
        self.calls = recorded.observed.calls_in(nodes)
        _place_given(recorded, self.calls, nodes)
        for total, at in recorded.observed.sums.items():  # it belongs to the value, not to the rule that came last
            if total in self.calls and at in self.calls:
                self.calls[total] = self.calls[at]
        elsewhere = {*recorded.assigned_nodes(), *recorded.accumulated_nodes()}
        self._outputs = [node for node in recorded.outputs if node not in elsewhere]
        self._kept = elsewhere | _parameter_gradients(recorded)  # by a tensor: no output of a call
        self._groups: dict[tuple[WatchedCall, str], CallGroup] = {}
        self._outermost: list[CallGroup] = []
        for side, own in ((FORWARD, recorded.forward), (BACKWARD, recorded.backward)):
            for node in own:
                call = self.calls[node]
                if call is not None:
                    self._group(call, side).nodes.append(node)
        self._seconds = self._shown_seconds(times.of_calls(self.calls) if times is not None else {})
        self._outermost = [kept for group in self._outermost for kept in _simplified(group, recorded.given)]
        self.all = list(_in_order(self._outermost))
        for i, group in enumerate(self.all):
            group.number = i
        self.of = {node: group for group in self.all for node in group.nodes}

    def _group(self, call: WatchedCall, side: str) -> CallGroup:
        found = self._groups.get((call, side))
        if found is None:
            around = self._group(call.around, side) if call.around is not None else None
            found = self._groups[call, side] = CallGroup(call, side, around, function=call.function, calls=[call])
            (around.groups if around is not None else self._outermost).append(found)
        return found

    def _shown_seconds(self, seconds: Seconds) -> Seconds:
        """The seconds by the side on which a call is shown: clipping, for one, is on that of the gradients."""
        found: Seconds = {}
        for (call, side), own in seconds.items():
            other = BACKWARD if side == FORWARD else FORWARD
            is_moved = (call, side) not in self._groups and (call, other) in self._groups
            key = (call, other if is_moved else side)
            found[key] = found.get(key, 0.0) + own
        return found

    # --- as data ------------------------------------------------------------------------------------------------

    def data(self, numbers: Mapping[Node, int]) -> list[dict[str, Any]]:
        """The groups for the page, outer ones before those inside."""
        readers: dict[Node, list[Node]] = {}
        for side in (self._recorded.forward, self._recorded.backward):
            own = set(side)
            for node in side:
                for source in node.sources:
                    if source in own:
                        readers.setdefault(source, []).append(node)
        return [self._described(group, numbers, readers) for group in self.all]

    def _described(
        self, group: CallGroup, numbers: Mapping[Node, int], readers: Mapping[Node, list[Node]]
    ) -> dict[str, Any]:
        call = group.call
        found: dict[str, Any] = {
            "id": group.number,
            "kind": "function" if call.module is None else "module",
            "side": group.side,
            "label": _label(group) + (" backward" if self._is_backward_function(group) else ""),
            "module": ".".join(call.path),
            "nodes": sorted(numbers[node] for node in group.nodes),
            "leaf": group.is_leaf,
        }
        if group.around is not None:
            found["parent"] = group.around.number
        if group.function:
            found["function"] = group.function
        forward = self._groups.get((call, FORWARD))
        if group.side == BACKWARD and forward is not None and forward.number >= 0:
            found["of"] = forward.number
        module = call.module() if call.module is not None else None
        if module is not None:
            found |= {"class": type(module).__name__, "parameters": sum(p.size for p in module.parameters())}
        found |= self._types(group, readers)
        seconds = _total(group, self._seconds)
        if seconds:
            found["seconds"] = seconds
        return found | line_of(call.location)

    def _types(self, group: CallGroup, readers: Mapping[Node, list[Node]]) -> dict[str, Any]:
        """The types of what comes out of a group, and of what goes in."""
        own, given = group.all_nodes(), self._recorded.given
        inside = set(own)
        made = [node for node in own if node not in given and self._leaves(node, inside, readers)]
        if group.call.is_step:  # it changes tensors, and gives nothing
            made = []
        made = [node for node in made if node not in self._kept] or made
        taken = [s for node in own for s in node.sources if s not in inside and s in self.calls]
        taken = [s for s in dict.fromkeys(taken) if given.get(s, ARGUMENT) in (ARGUMENT, LEAF)]
        parts = {"output": made, "inputs": taken}
        found = {key: list(dict.fromkeys(map(describe_type, nodes))) for key, nodes in parts.items() if nodes}
        if "output" in found:
            found["output"] = _shortened(found["output"])  # type: ignore[assignment]
        return found

    def _leaves(self, node: Node, inside: set[Node], readers: Mapping[Node, list[Node]]) -> bool:
        """Whether a node is read outside of a group, or nowhere."""
        own = readers.get(node, ())
        return not own or node in self._outputs or any(reader not in inside for reader in own)

    def _is_backward_function(self, group: CallGroup) -> bool:
        """Whether a function's group is made of derivatives; on the gradient's side there are updates too."""
        observed = self._recorded.observed
        is_function = group.side == BACKWARD and group.call.module is None
        return is_function and any(observed.forward_of(node) is not None for node in group.all_nodes())


def _parameter_gradients(recorded: RecordedCall) -> set[Node]:
    """The adjoints of parameters. (What a layer passes back to the one before it is the adjoint of its input.)"""
    found = [recorded.observed.cotangents.get(node) for node, role in recorded.given.items() if role == PARAMETER]
    return {node for node in found if isinstance(node, Node)}


def _place_given(recorded: RecordedCall, calls: dict[Node, WatchedCall | None], nodes: Sequence[Node]) -> None:
    """Parameters and constants belong where they are first read; arguments come from outside."""
    for node in reversed(nodes):
        for source in node.sources:
            if source in recorded.given and source in calls:
                calls[source] = calls[node]
    for node, role in recorded.given.items():
        if role in (ARGUMENT, LEAF) and node in calls:
            calls[node] = None


def _simplified(group: CallGroup, given: Mapping[Node, str]) -> list[CallGroup]:
    """A group without levels that add nothing: calls that recorded one node, and the only function of a layer.

    Empty if the group itself is such a call; its nodes then belong to the group around it.
    """
    groups, group.groups = group.groups, []
    for each in groups:
        group.groups += _simplified(each, given)
    computed = [node for node in group.nodes if node not in given]
    if group.call.module is None:
        if group.groups or len(computed) > 1:
            return [group]
        if group.around is not None:
            group.around.nodes += group.nodes
            group.around.calls += group.calls
        return []
    if len(group.groups) == 1 and not computed and group.groups[0].call.module is None:
        (only,) = group.groups
        group.function, group.groups = only.function, only.groups
        group.nodes += only.nodes
        group.calls += only.calls
        for each in group.groups:
            each.around = group
    return [group]


def _in_order(groups: Iterable[CallGroup]) -> Iterable[CallGroup]:
    for group in groups:
        yield group
        yield from _in_order(group.groups)


def _label(group: CallGroup) -> str:
    call = group.call
    if call.module is None:
        return textbook_name(call.function)
    depth = len(call.around.path) if call.around is not None else 0
    return ".".join(call.path[depth:])


def _shortened(types: list[str]) -> str:
    shown = ", ".join(types[:_SHOWN_TYPES])
    return shown if len(types) <= _SHOWN_TYPES else f"{shown} and {len(types) - _SHOWN_TYPES} more"


def _total(group: CallGroup, seconds: Mapping[tuple[WatchedCall, str], float]) -> float:
    own = sum(seconds.get((call, group.side), 0.0) for call in group.calls)
    return own + sum(_total(each, seconds) for each in group.groups)
