"""Results in the place of operands: where a program needs most memory, a kernel writes over what it is last to read.

In: the steps, and when each value of the arena is needed. Out: the steps, some of them written anew, and whose place a
result takes. Only the step at which most is alive is changed, then the one at which most is alive after that: elsewhere
it would save nothing, and a kernel that writes over none of its operands can read further ahead.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from wengert.backends.cuda.candidates import Step
from wengert.compiler.memory import Life, live
from wengert.graph import Node
from wengert.kernels.cuda import write_over
from wengert.kernels.launch import Device


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
        improves = _improve(found, bytes_alive.index(max(bytes_alive)), device)
    return found


def _improve(found: InPlace, number: int, device: Device) -> bool:
    """Have a step write a result over an operand, the largest that there is; whether it can."""
    steps, alive, over = found
    step = steps[number]
    for result, operand in sorted(_pairs(found, number), key=lambda pair: -pair[0].size * pair[0].dtype.itemsize):
        names = {node: name for name, node in step.buffers.items()}
        assert step.kernel is not None
        written = write_over(step.kernel, names[result], names[operand], device)
        if written is not None:
            kernel, work = written
            buffers = {name: node for name, node in step.buffers.items() if node is not result}
            steps[number] = step._replace(kernel=kernel, work=work, buffers=buffers)
            owner = over[result] = over.get(operand, operand)
            alive[owner] = Life(alive[owner].first, alive.pop(result).last)
            return True
    return False


def _pairs(found: InPlace, number: int) -> Iterator[tuple[Node, Node]]:
    """Results of a step, each with an operand like it that nothing needs afterwards."""
    steps, alive, over = found
    step = steps[number]
    for result in step.writes if step.kernel is not None else ():
        for operand in step.reads:
            life = alive.get(over.get(operand, operand))
            alike = (result.size, result.dtype) == (operand.size, operand.dtype)
            if alike and result in alive and life is not None and life.first < number == life.last:
                yield result, operand
