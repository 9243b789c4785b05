"""Programs of one long kernel: it is there when the kernel before it ends.

A graph begins when all before it has ended, and a microsecond later: of a kernel of 130 us that is one part in a
hundred. Launched by itself, by what CUDA calls a programmatic dependent launch, its blocks take the places that the
last blocks of the kernel before it leave, and wait there (`wg_follow` in its text) until that has ended and all that it
wrote can be seen. It costs the host a little more than a graph, so that short kernels are not launched so.
"""

from __future__ import annotations

from collections.abc import Sequence

from wengert.kernels.cuda.source import following
from wengert.kernels.launch import Device, Work
from wengert.plan.candidates import Step

LONG = 64 << 20  # bytes that a kernel moves: it takes longer than to ask for it


def follow(steps: Sequence[Step], device: Device) -> list[Step]:
    """The steps of a program; its kernel, if it is one long one, as a launch that follows the one before it closely."""
    busy = [step for step in steps if not step.does_nothing]
    works = [step.work for step in busy if step.work is not None and step.vendor is None]
    if len(busy) != 1 or len(works) != 1 or len(works[0].launches) != 1:
        return list(steps)
    if int(device.arch.rstrip("a")) < 90 or busy[0].moved_bytes < LONG:
        return list(steps)
    launch = following(works[0].launches[0])
    if launch is None:
        return list(steps)
    return [step if step is not busy[0] else step._replace(work=Work((launch,), works[0].workspace)) for step in steps]
