"""Timing candidates on a GPU: each step carried out alone, on memory of its own, many times in a row.

In: steps that do the same. Out: the median seconds of each, timed in turn with the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from statistics import median
from typing import Any

import numpy as np

from wengert.backends.cuda.segment import BoundLibraryCall, KernelCall
from wengert.backends.protocol import Driver, Replayable
from wengert.core.errors import OutOfMemoryError
from wengert.core.graph import Node
from wengert.kernels.launch import ERROR_FLAG, Launch, TensorMap
from wengert.plan.plan import Step

ROUNDS = 5  # times that each candidate is timed, in turn with the others
SPAN = 1e-3  # seconds that one timing should take, by carrying a step out again and again
MOST = 64  # times in a row
HOPELESS = 1.5  # times as slow as the best in the first round: not timed again


class CandidateTimer:
    """What times the candidates of a plan on a driver's GPU."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver

    def prepare(self, launches: Iterable[Launch]) -> None:
        """Compile kernels, side by side."""
        self.driver.kernels(list(launches))

    def times(self, steps: Mapping[str, Step]) -> dict[str, float]:
        """The median seconds of each step that runs; none where there is no memory to time them in."""
        try:
            with self.driver.lock, Bench(self.driver, steps.values()) as bench:
                return timed(bench, steps)
        except OutOfMemoryError:
            return {}


def timed(bench: Bench, steps: Mapping[str, Step]) -> dict[str, float]:
    """The median seconds of each step that runs, timed in turn; those far behind are timed once."""
    ready: dict[str, tuple[Replayable, int]] = {}
    for name, step in steps.items():
        with suppress(Exception):  # a library's way to say that it does not take these operands after all
            ready[name] = bench.repeated(step)
    times: dict[str, list[float]] = {name: [] for name in ready}
    first = next(iter(steps))
    for _ in range(ROUNDS):
        best = min((span[0] for span in times.values() if span), default=float("inf"))
        for name, (graph, count) in ready.items():
            if name == first or not times[name] or times[name][0] < HOPELESS * best:
                times[name].append(bench.driver.time(graph.replay) / count)
    return {name: median(spans) for name, spans in times.items()}


class Bench:
    """Memory for what some steps read, write and work in, so that each can be carried out alone."""

    def __init__(self, driver: Driver, steps: Iterable[Step]) -> None:
        self.driver, self.steps = driver, list(steps)
        self.places: dict[Node, int] = {}
        self.workspace = 0

    def __enter__(self) -> Bench:
        try:
            for node in dict.fromkeys(node for step in self.steps for node in step.buffers.values()):
                self._fill(node)
            self.workspace = self.driver.allocate(
                max(sum(map(_rounded, step.workspace.values())) for step in self.steps) + 1
            )
        except OutOfMemoryError:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: Any) -> None:
        self.driver.synchronize()
        for pointer in (*self.places.values(), *([self.workspace] if self.workspace else [])):
            self.driver.free(pointer)

    def _fill(self, node: Node) -> None:
        """Memory for a value, full of random numbers: zeros would take less power, and so less time."""
        size = max(node.size * node.dtype.itemsize, 1)
        pointer = self.places[node] = self.driver.allocate(size)
        count = min(node.size, 1 << 20)
        is_float = node.dtype.kind not in "iub"
        some = (
            (np.random.default_rng(0).random(count) - 0.5).astype(node.dtype)
            if is_float
            else np.zeros(count, node.dtype)
        )
        self.driver.upload(pointer, some)
        full = some.nbytes
        while full < size:
            more = min(full, size - full)
            self.driver.copy(pointer + full, pointer, more)
            full += more

    def repeated(self, step: Step) -> tuple[Replayable, int]:
        """A graph of a step many times in a row, and how many times."""
        calls = self._calls(step)

        def once() -> None:
            for call in calls:
                call.enqueue(self.driver)

        once()  # what is set up at the first call is not timed
        count = max(1, min(MOST, round(SPAN / max(self.driver.time(once), 1e-7))))
        with self.driver.capturing() as graph:
            for _ in range(count):
                once()
        graph.replay()
        return graph, count

    def _calls(self, step: Step) -> Sequence[KernelCall | BoundLibraryCall]:
        """What carries a step out, with the addresses in place."""
        places = {name: self.places[node] for name, node in step.buffers.items()}
        places[ERROR_FLAG] = self.driver.error_flag()
        at = self.workspace
        for name, size in step.workspace.items():
            places[name] = at
            at += _rounded(size)
        calls: list[KernelCall | BoundLibraryCall] = []
        if step.library is not None:
            call = BoundLibraryCall(step.library.candidate, len(step.library.operands), places.get("workspace", 0), 0)
            call.pointers[:] = [places[name] for name in step.library.operands]
            calls.append(call)
        for launch in step.launches:
            own = KernelCall(self.driver.functions[launch.source, launch.entry], launch, self.driver.encode, 0)
            for position, argument in enumerate(launch.arguments):
                buffer = argument.buffer if isinstance(argument, TensorMap) else argument
                if isinstance(buffer, str):
                    own.arguments.set(position, places[buffer])
            calls.append(own)
        return calls


def _rounded(size: int) -> int:
    return -(-size // 256) * 256
