"""Graph segments: launches and library calls with nothing of the host's between them, which one CUDA graph replays."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from itertools import groupby
from typing import Any

from wengert.backends.cuda.kernel import Arguments
from wengert.backends.protocol import Driver, Replayable, StreamEvent
from wengert.core.errors import OutOfMemoryError
from wengert.kernels.launch import Launch

BATCH = 64  # steps that are given to the device at once when they are timed


class KernelCall:
    """One launch of a program, with its arguments packed."""

    __slots__ = ("arguments", "function", "graph_node", "launch", "shape", "step")

    def __init__(self, function: Any, launch: Launch, encode: Any, step: int) -> None:
        self.function, self.launch, self.step = function, launch, step
        self.shape = (*launch.grid, *launch.block, launch.shared)
        self.arguments = Arguments([0 if isinstance(a, str) else a for a in launch.arguments], encode)
        self.graph_node: Any = None

    def enqueue(self, driver: Driver) -> None:
        """Put it on the stream."""
        driver.launch(self.function, self.shape, self.arguments)


class BoundLibraryCall:
    """One call of a library. What it captures keeps its addresses for good."""

    __slots__ = ("candidate", "own", "pointers", "step", "workspace")

    def __init__(self, candidate: Any, count: int, workspace: int, step: int, own: int = 0) -> None:
        self.candidate, self.workspace, self.step = candidate, workspace, step
        self.own = own  # bytes of the workspace, if nothing else of the program ever uses its place
        self.pointers = [0] * count

    def enqueue(self, driver: Driver) -> None:
        """Put it on the stream."""
        self.candidate.enqueue(int(driver.stream), self.pointers, self.workspace)


class GraphSegment:
    """Launches with nothing of the host's between them: what one CUDA graph replays.

    They belong to steps. In the graph a step waits only for those whose memory it needs, so that others run beside it;
    one that needs no other's waits for the first. (Of a small step's 15 kernels three had nothing to wait for: with one
    beginning instead the graph takes 43 us instead of 46, and launching it 4.4 us of the host's time instead of 6.7.)
    """

    def __init__(self, driver: Driver, describe: Callable[[int], str]) -> None:
        self.driver, self.describe = driver, describe  # what the step of a number computes, for people
        self.calls: list[KernelCall | BoundLibraryCall] = []
        self.is_capturable = True
        self.waits: dict[int, Sequence[int]] = {}  # by step: the steps it waits for
        self.runs = 0
        self.graph: Replayable | None = None
        self.changed: set[KernelCall] = set()

    def add(self, call: KernelCall | BoundLibraryCall, waits: Sequence[int]) -> None:
        """Put a call at the end; `waits` are the steps that its step waits for."""
        self.calls.append(call)
        self.waits[call.step] = waits

    def run(self, captures: bool) -> None:
        """Launch everything: one by one the first time, as a graph later."""
        if captures and self.graph is not None and not self.changed:
            self.graph.replay()
            return
        self.runs += 1
        if captures and self.runs > 1 and self.is_capturable:
            self._renew()
        if self.graph is None:
            for call in self.calls:
                call.enqueue(self.driver)
        else:
            self.graph.replay()
        self.changed.clear()

    def _renew(self) -> None:
        """Have something to replay with the current arguments: a graph, or a dependent launch of the only kernel.
        Nothing where a call cannot be captured, which is said once.
        """
        if self.graph is not None:
            for call in self.changed:
                self.graph.change(call.graph_node, call.function, call.shape, call.arguments)
            return
        first: Any = self.calls[0] if self.calls else None
        if isinstance(first, KernelCall) and first.launch.follows:
            self.graph = self.driver.dependent_launch(first.function, first.shape, first.arguments)
            return
        trying: Any = None
        ends: dict[int, list[Any]] = {}  # by step: the nodes of the graph that it ends with
        try:
            with self.driver.capturing() as graph:
                for trying in self.calls:
                    if trying.step not in ends:
                        before = [node for step in self.waits[trying.step] for node in ends.get(step, ())]
                        graph.after(before or next(iter(ends.values()), []))
                    if isinstance(trying, BoundLibraryCall) and trying.own:
                        graph.owns(trying.workspace, trying.own)
                    trying.enqueue(self.driver)
                    ends[trying.step] = graph.nodes()
                    if isinstance(trying, KernelCall):
                        (trying.graph_node,) = ends[trying.step]
            self.graph = graph
        except OutOfMemoryError:
            raise
        except Exception as error:
            self.is_capturable = False
            warnings.warn(
                f"{name_of(trying)}, which computes {self.describe(trying.step)}, cannot be captured in a CUDA graph "
                f"({error}): what is around it is launched one by one",
                RuntimeWarning,
                stacklevel=2,
            )

    def run_timed(self) -> list[tuple[int, StreamEvent, StreamEvent]]:
        """Launch everything one by one; the program's steps by number, with events at their beginning and end."""
        self.runs += 1
        steps = [(step, list(calls)) for step, calls in groupby(self.calls, lambda call: call.step)]
        found = []
        for first in range(0, len(steps), BATCH):
            # not in the first run: loading a kernel may wait for the device
            with self.driver.batched_submission() if self.runs > 1 else nullcontext():
                for step, calls in steps[first : first + BATCH]:
                    start = self.driver.event()
                    for call in calls:
                        call.enqueue(self.driver)
                    found.append((step, start, self.driver.event()))
        return found


def name_of(call: KernelCall | BoundLibraryCall) -> str:
    """The kernel that a call launches, or the library it calls."""
    return call.launch.entry if isinstance(call, KernelCall) else str(call.candidate.name)
