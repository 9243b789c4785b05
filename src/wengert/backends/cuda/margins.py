"""Totals of columns beside the rows they belong to: steps that read the same elements along and across become one.

The backward pass of a norm goes over rows; the gradients of its weight and bias, and of the bias of the layer before,
are totals of columns of what it reads and makes. Together they read it once. The step of the columns moves to that of
the rows, if nothing in between keeps them apart; every group keeps its step, and one that is done elsewhere does
nothing.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from wengert.backends.cuda.candidates import Step
from wengert.backends.cuda.together import Order
from wengert.graph import Node
from wengert.kernels.cuda import takes_in, write_margins
from wengert.kernels.launch import Device, Work
from wengert.kernels.loops import Kernel

LARGE = 1 << 20  # elements from which reading them again takes longer than a launch


def with_margins(steps: Sequence[Step], taken: Mapping[Node, Node], device: Device) -> list[Step]:
    """The steps, totals of columns taken in by steps over rows; `taken` says which input an output is written over."""
    found, order = list(steps), Order(steps, taken)
    rows = [number for number, step in enumerate(steps) if _is_large(step.kernel)]
    members: dict[int, list[int]] = {}
    for number in rows:
        near = order.beside(number)
        at = next((k for k in rows if k < number and k in near and _may_take(steps, k, number, order)), None)
        if at is None:
            continue
        joined = _joined([steps[k] for k in (at, *members.get(at, ()), number)], device)
        if joined is not None:
            members.setdefault(at, []).append(number)
            order.move([number], at)
            found[at], found[number] = joined, Step(Work(()), None, {}, [], [])
    return found


def _is_large(kernel: Kernel | None) -> bool:
    return kernel is not None and math.prod(loop.extent for loop in (*kernel.outer, *kernel.inner)) >= LARGE


def _may_take(steps: Sequence[Step], rows: int, columns: int, order: Order) -> bool:
    first, second = steps[rows].kernel, steps[columns].kernel
    if first is None or second is None or order.at[rows] != rows or not takes_in(first, second):
        return False
    return order.can_move(columns, rows, after=rows)


def _joined(steps: Sequence[Step], device: Device) -> Step | None:
    kernels = [step.kernel for step in steps if step.kernel is not None]
    work = write_margins(kernels[0], kernels[1:], device)
    if work is None:
        return None
    buffers = {name: node for step in steps for name, node in step.buffers.items()}
    writes = [node for step in steps for node in step.writes]
    reads = dict.fromkeys(node for step in steps for node in step.reads if node not in writes)
    return Step(work, None, buffers, list(reads), writes)
