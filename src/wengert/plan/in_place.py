"""Results in the place of operands: where a program needs most memory, a kernel writes over what it is last to read.

In: the steps, and when each value of the arena is needed. Out: the steps, some of them written anew, and whose place a
result takes. Only the step at which most is alive is changed, then the one at which most is alive after that: elsewhere
it would save nothing, and a kernel that is not that of a model's equal layers any more is one more to compile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from wengert.compiler.liveness import Life, live
from wengert.core.graph import Node
from wengert.kernels.cuda import write_in_place
from wengert.kernels.launch import Device
from wengert.plan.candidates import Step

WORTH = 1 / 50  # of what is alive: what a result must be at least for a kernel of its own


class InPlace(NamedTuple):
    """The steps, the lives of what has a place of its own, and by result the value whose place it takes."""

    steps: list[Step]
    alive: dict[Any, Life]
    over: dict[Node, Node]


def in_place(steps: Sequence[Step], alive: Mapping[Any, Life], sizes: Mapping[Any, int], device: Device) -> InPlace:
    """Have steps write over operands, as long as that takes away from the most that is alive at once."""
    found = InPlace(list(steps), dict(alive), {})
    improves = True
    while improves and found.alive:
        bytes_alive = live(found.alive, sizes)
        most = max(bytes_alive)
        improves = _improve(found, bytes_alive.index(most), device, WORTH * most)
    return found


def _improve(found: InPlace, number: int, device: Device, least: float = 0) -> bool:
    """Have a step write a result of at least so many bytes over an operand; whether it can."""
    steps, alive, over = found
    step = steps[number]
    if step.kernel is None:
        return False
    names = {node: name for name, node in step.buffers.items()}
    for result, operand in _pairs(found, number, least):
        written = write_in_place(step.kernel, names[result], names[operand], device)
        if written is not None:
            kernel, work = written
            buffers = {name: node for name, node in step.buffers.items() if node is not result}
            steps[number] = step._replace(kernel=kernel, work=work, buffers=buffers)
            owner = over[result] = over.get(operand, operand)
            alive[owner] = Life(alive[owner].first, alive.pop(result).last)
            return True
    return False


def _pairs(found: InPlace, number: int, least: float) -> list[tuple[Node, Node]]:
    """Results of a step, the largest first, each with the operands like it that nothing needs afterwards."""
    steps, alive, over = found
    used = set(steps[number].buffers.values())
    operands = [node for node in steps[number].reads if node in used and over.get(node, node) in alive]
    dying = [node for node in operands if alive[over.get(node, node)].last == number]
    results = [node for node in steps[number].writes if node in alive and _bytes(node) >= least]
    results.sort(key=_bytes, reverse=True)
    return [(r, o) for r in results for o in dying if (r.size, r.dtype) == (o.size, o.dtype)]


def _bytes(node: Node) -> int:
    return node.size * node.dtype.itemsize
