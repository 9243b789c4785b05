"""Parts of a flush: the nodes that one device computes in one go, and the moves between devices.

In: the nodes of a flush in order, and those whose values must exist afterwards. Out: parts, to run one after another.
Nodes that depend on no value in memory (literals, ramps) are computed by each part that reads them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from wengert.core.devices import HOST
from wengert.core.graph import Node
from wengert.ops.core import TO_DEVICE


class Part(NamedTuple):
    """Nodes of one device in order, and which of them to keep. A move between devices is a part of its own."""

    device: str
    order: list[Node]
    keep: set[Node]
    is_move: bool = False


def parts(order: Sequence[Node], keep: set[Node]) -> list[Part]:
    """The parts of a flush. If everything is on one device there is one."""
    devices = {node.device for node in order}
    if len(devices) == 1 and not any(node.op is TO_DEVICE for node in order):
        return [Part(devices.pop(), list(order), keep)]
    weightless = _weightless(order)
    runs = _runs([node for node in order if node not in weightless], weightless)
    kept = keep & weightless
    if kept:
        runs.insert(0, Part(HOST, sorted(kept, key=_serial), kept))
    found = []
    for number, run in enumerate(runs):
        later = {source for other in runs[number + 1 :] for node in other.order for source in node.sources}
        behind = set() if run.is_move else _behind(run.order, weightless - kept)
        whole = sorted({*run.order, *behind}, key=_serial)
        found.append(Part(run.device, whole, set(run.order) & (keep | later), run.is_move))
    return found


def _serial(node: Node) -> int:
    return node.serial


def _weightless(order: Iterable[Node]) -> set[Node]:
    """Nodes on the host that depend on no value in memory."""
    found: set[Node] = set()
    for node in order:
        if node.device == HOST and found.issuperset(node.sources):
            found.add(node)
    return found


def _runs(order: Sequence[Node], weightless: set[Node]) -> list[Part]:
    """Maximal runs of one device; moves of values in memory are runs of their own."""
    runs: list[Part] = []
    for node in order:
        is_move = node.op is TO_DEVICE and node.sources[0] not in weightless
        if not runs or is_move or runs[-1].is_move or runs[-1].device != node.device:
            runs.append(Part(node.device, [], set(), is_move))
        runs[-1].order.append(node)
    return runs


def _behind(run: Iterable[Node], weightless: set[Node]) -> set[Node]:
    """The weightless values that some nodes are made from."""
    found: set[Node] = set()
    stack = [source for node in run for source in node.sources if source in weightless]
    while stack:
        node = stack.pop()
        if node not in found:
            found.add(node)
            stack += [source for source in node.sources if source in weightless]
    return found
