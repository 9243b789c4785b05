"""The calls of an op that are measured, and their programs, built ahead in processes side by side.

What a compiler takes for hundreds of ops and sizes would be most of the time of a report. Processes leave what they
built in the cache on disk, where those who measure find it.
"""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from time import perf_counter
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

import wengert as wg
from wengert.bench.cases import OPS, Array, BenchOp
from wengert.bench.every import EVERY
from wengert.bench.measure import placed
from wengert.runtime.static.compile import Compiled

_BY_NAME = {op.name: op for op in (*OPS, *EVERY)}


class TimedCall(NamedTuple):
    """A pass of an op: what is called with what, the arrays it came from and the results it gave."""

    name: str
    compiled: Compiled
    given: Sequence[wg.Tensor]
    arrays: list[Array]
    results: list[wg.Tensor]


def calls(case: BenchOp, size: int, device: str) -> Iterator[TimedCall]:
    """An op forward, and, if it has a derivative, forward and backward; each has been called once."""
    function, arrays = case.make(size)
    dtype = getattr(wg, case.dtype)
    tensors = [placed(a, device).to(dtype) if a.dtype == np.float32 else placed(a, device) for a in arrays]
    count = sum(a.dtype == np.float32 for a in arrays)
    forward = Compiled(function)
    result = forward(*tensors)
    yield TimedCall("forward", forward, tensors, arrays, [result])
    if not case.has_derivative:
        return

    def both(g: wg.Tensor, *inputs: wg.Tensor) -> Any:
        floats, rest = inputs[:count], inputs[count:]
        value, pullback = wg.vjp(lambda *given: function(*given, *rest), *floats)
        return value, *pullback(g)  # the value too: otherwise a forward pass that no gradient needs is pruned

    backward, given = Compiled(both), [wg.ones_like(result), *tensors]
    yield TimedCall("forward + backward", backward, given, arrays, list(backward(*given)))


def build(wanted: Sequence[tuple[BenchOp, str, Sequence[int]]], deadline: float) -> None:
    """Build the programs of ops on devices for sizes, in that order, until the deadline."""
    tasks = [(op.name, size, device) for op, device, sizes in wanted for size in sizes]
    if not tasks:
        return
    workers = min(os.cpu_count() or 1, len(tasks))
    with (
        patch.dict(os.environ, OMP_WAIT_POLICY="passive"),  # there are more threads than cores
        multiprocessing.get_context("spawn").Pool(workers) as pool,
    ):
        done = pool.imap_unordered(_called, tasks)
        with suppress(multiprocessing.TimeoutError, StopIteration):
            while True:
                done.next(max(deadline - perf_counter(), 0))


def _called(task: tuple[str, int, str]) -> None:
    name, size, device = task
    with suppress(Exception):  # whoever measures it will say so
        for _ in calls(_BY_NAME[name], size, device):
            pass
