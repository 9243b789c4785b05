"""Tuning: time the candidates for the groups of a program, and keep the winners.

In: candidates, and how many seconds there are. Out: choices, kept on disk. The groups that compute most come first, of
equals those that read most; what is left when the time is up goes on untimed. The first candidate is what runs without
tuning, and stays where no other is faster by more than a margin.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from statistics import median
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from wengert.backends.cuda.choices import Choice
from wengert.backends.cuda.segment import ERROR_FLAG, Call, VendorCall
from wengert.core.errors import OutOfMemoryError
from wengert.core.graph import Node
from wengert.kernels.convolution.form import convolution, is_convolution
from wengert.kernels.launch import TensorMap
from wengert.ops.linalg import MATMUL
from wengert.plan.candidates import Candidate, Candidates, Step
from wengert.plan.groups import Group

TOGETHER = 16  # groups whose candidates are compiled side by side
MARGIN = 0.03  # the share of its time by which another must beat the first candidate
ROUNDS = 5  # times that each candidate is timed, in turn with the others
SPAN = 1e-3  # seconds that one timing should take, by carrying a step out again and again
MOST = 64  # times in a row
HOPELESS = 1.5  # times as slow as the best in the first round: not timed again


class Tuned(NamedTuple):
    """What tuning a program came to."""

    seconds: float
    choices: dict[str, Choice]  # new ones
    known: int  # timed before
    left: int  # for which there was no time

    def __str__(self) -> str:
        left = f", {self.left} left for want of time" if self.left else ""
        return f"tuning took {self.seconds:.1f} s: {len(self.choices)} timed, {self.known} known before{left}"


def tune(candidates: Candidates, groups: Iterable[Group], seconds: float) -> Tuned:
    """Time the candidates for groups that have several and no choice yet, for about so many seconds."""
    start = perf_counter()
    wanted = {key: group for group in groups if (key := candidates.key(group)) is not None}
    new = [key for key in wanted if candidates.choices.get(key) is None]
    new.sort(key=lambda key: _weight(wanted[key]), reverse=True)
    found: dict[str, Choice] = {}
    left = len(new)
    for chunk in (new[i : i + TOGETHER] for i in range(0, len(new), TOGETHER)):
        if perf_counter() - start > seconds:
            break
        for key, steps in _ready(candidates, {key: wanted[key] for key in chunk}).items():
            if perf_counter() - start > seconds:
                break
            left -= 1
            steps.update(_steps(candidate for candidate in candidates.of(wanted[key]) if candidate.is_late))
            choice = _winner(candidates.driver, steps) if len(steps) > 1 else None
            if choice is not None:
                found[key] = choice
                candidates.choices.keep({key: choice})
    return Tuned(perf_counter() - start, found, len(wanted) - len(new), left)


def _ready(candidates: Candidates, groups: dict[str, Group]) -> dict[str, dict[str, Step]]:
    """The steps of the candidates for some groups, by key and name, their kernels compiled side by side."""
    found = {
        key: _steps(candidate for candidate in candidates.of(group) if not candidate.is_late)
        for key, group in groups.items()
    }
    works = [step.work for steps in found.values() for step in steps.values() if step.work]
    candidates.driver.kernels([launch for work in works for launch in work.launches])
    return found


def _steps(candidates: Iterable[Candidate]) -> dict[str, Step]:
    """The steps of the candidates that work, by name."""
    made = {candidate.name: candidate.make() for candidate in candidates}
    return {name: step for name, step in made.items() if step is not None}


def _weight(group: Group) -> tuple[int, int]:
    """About how many products of numbers a group adds up, and how many numbers it reads."""
    node = group.roots[0]
    first, second, *_ = node.sources
    found = convolution(node) if is_convolution(node) else None
    if found is not None:
        products = found.form.flops // 2
    else:
        products = node.size * first.shape[-1] if node.op is MATMUL else first.size * second.shape[-2]
    return products, sum(read.leaf.size for read in group.reads)


def _winner(driver: Any, steps: dict[str, Step]) -> Choice | None:
    """Who wins; None where there is no memory to time them in, or the first does not run."""
    try:
        with driver.lock, Bench(driver, steps.values()) as bench:
            times = timed(bench, steps)
    except OutOfMemoryError:
        return None
    first = next(iter(steps))
    if first not in times:
        return None
    winner = min(times, key=lambda name: times[name])
    if times[winner] > (1 - MARGIN) * times[first]:
        winner = first
    return Choice(winner, times[winner], first, times[first], len(times))


def timed(bench: Bench, steps: dict[str, Step]) -> dict[str, float]:
    """The median seconds of each step that runs, timed in turn; those far behind are timed once."""
    ready: dict[str, tuple[Any, int]] = {}
    for name, step in steps.items():
        with suppress(Exception):  # a library's way to say that it does not take these operands after all
            ready[name] = bench.repeated(step)
    times: dict[str, list[float]] = {name: [] for name in ready}
    first = next(iter(steps))
    for _ in range(ROUNDS):
        best = min((span[0] for span in times.values() if span), default=float("inf"))
        for name, (recording, count) in ready.items():
            if name == first or not times[name] or times[name][0] < HOPELESS * best:
                times[name].append(bench.driver.time(recording.replay) / count)
    return {name: median(spans) for name, spans in times.items()}


class Bench:
    """Memory for what some steps read, write and work in, so that each can be carried out alone."""

    def __init__(self, driver: Any, steps: Iterable[Step]) -> None:
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

    def repeated(self, step: Step) -> tuple[Any, int]:
        """A recording of a step many times in a row, and how many times."""
        calls = self._calls(step)

        def once() -> None:
            for call in calls:
                call.enqueue(self.driver)

        once()  # what is set up at the first call is not timed
        count = max(1, min(MOST, round(SPAN / max(self.driver.time(once), 1e-7))))
        with self.driver.capturing() as recording:
            for _ in range(count):
                once()
        recording.replay()
        return recording, count

    def _calls(self, step: Step) -> Sequence[Call | VendorCall]:
        """What carries a step out, with the addresses in place."""
        places = {name: self.places[node] for name, node in step.buffers.items()}
        places[ERROR_FLAG] = self.driver.error_flag()
        at = self.workspace
        for name, size in step.workspace.items():
            places[name] = at
            at += _rounded(size)
        calls: list[Call | VendorCall] = []
        if step.vendor is not None:
            call = VendorCall(step.vendor, len(step.operands), places.get("workspace", 0), 0)
            call.pointers[:] = [places[name] for name in step.operands]
            calls.append(call)
        for launch in step.work.launches if step.work else ():
            own = Call(self.driver.functions[launch.source, launch.entry], launch, self.driver.encode, 0)
            for position, argument in enumerate(launch.arguments):
                buffer = argument.buffer if isinstance(argument, TensorMap) else argument
                if isinstance(buffer, str):
                    own.arguments.set(position, places[buffer])
            calls.append(own)
        return calls


def _rounded(size: int) -> int:
    return -(-size // 256) * 256
