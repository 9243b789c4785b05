"""Stretches: launches and library calls with nothing of the host's between them, which one CUDA graph replays."""

from __future__ import annotations

from contextlib import nullcontext
from itertools import groupby
from typing import Any

from wengert.backends.cuda.driver import Arguments
from wengert.kernels.launch import Launch

ERROR_FLAG = "wg_error"  # the buffer in which kernels note an index out of range
GATHERED = 64  # steps that are given to the device at once when they are timed


class Call:
    """One launch of a program, with its arguments packed."""

    __slots__ = ("arguments", "function", "graph_node", "launch", "shape", "step")

    def __init__(self, function: Any, launch: Launch, encode: Any, step: int) -> None:
        self.function, self.launch, self.step = function, launch, step
        self.shape = (*launch.grid, *launch.block, launch.shared)
        self.arguments = Arguments([0 if isinstance(a, str) else a for a in launch.arguments], encode)
        self.graph_node: Any = None

    def enqueue(self, driver: Any) -> None:
        """Put it on the stream."""
        driver.launch(self.function, self.shape, self.arguments)


class VendorCall:
    """One call of a library. What it captures keeps its addresses for good."""

    __slots__ = ("candidate", "pointers", "step", "workspace")

    def __init__(self, candidate: Any, count: int, workspace: int, step: int) -> None:
        self.candidate, self.workspace, self.step = candidate, workspace, step
        self.pointers = [0] * count

    def enqueue(self, driver: Any) -> None:
        """Put it on the stream."""
        self.candidate.enqueue(int(driver.stream), self.pointers, self.workspace)


class Stretch:
    """Launches with nothing of the host's between them: what one CUDA graph replays."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver
        self.calls: list[Call | VendorCall] = []
        self.runs = 0
        self.recording: Any = None
        self.changed: set[Call] = set()

    def run(self, captures: bool) -> None:
        """Launch everything: one by one the first time, as a graph later."""
        self.runs += 1
        if not captures or self.runs == 1:
            self._launch(None)
            return
        if self.recording is None:
            with self.driver.capturing() as recording:
                self._launch(recording)
            self.recording = recording
        else:
            for call in self.changed:
                self.recording.change(call.graph_node, call.function, call.shape, call.arguments)
        self.changed.clear()
        self.recording.replay()

    def run_marked(self) -> list[tuple[int, Any, Any]]:
        """Launch everything one by one; the program's steps by number, with marks of their beginning and end."""
        self.runs += 1
        steps = [(step, list(calls)) for step, calls in groupby(self.calls, lambda call: call.step)]
        found = []
        for first in range(0, len(steps), GATHERED):
            with self.driver.gathered() if self.runs > 1 else nullcontext():  # loading a kernel may wait for the device
                for step, calls in steps[first : first + GATHERED]:
                    start = self.driver.mark()
                    for call in calls:
                        call.enqueue(self.driver)
                    found.append((step, start, self.driver.mark()))
        return found

    def _launch(self, recording: Any) -> None:
        for call in self.calls:
            call.enqueue(self.driver)
            if recording is not None and isinstance(call, Call):
                call.graph_node = recording.node()
