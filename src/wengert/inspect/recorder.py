"""Records what one rank does as spans of time: pieces of programs, ops, collectives, builds.

Programs run as usual: the C between two collectives is timed as a whole, whereas `wg.profile` calls every kernel
separately. Collectives are timed where the engine enters and leaves them, on any thread; on a GPU, where they are steps
of a program, by the device's clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from itertools import groupby
from time import perf_counter
from typing import Any
from weakref import WeakKeyDictionary

from wengert.backends.cpu.program import CpuProgram
from wengert.core import communication
from wengert.core.code import Location, describe
from wengert.core.communication import Watcher
from wengert.core.errors import ArgumentError
from wengert.core.evaluation import watch
from wengert.core.graph import Node, describe_type
from wengert.inspect.events import EventTimes
from wengert.inspect.spans import BUILD, COMMUNICATION, COMPUTE, COPY, STATE, STEP, RankSpans, Span
from wengert.plan.plan import Step
from wengert.runtime.debug.explain import bytes_text, size_of
from wengert.runtime.debug.profile import described

Calls = list[Callable[..., None]]
_NAMED = 4  # kernels of a piece that its name has


class RankRecorder:
    """Records what this rank does inside a `with` block, in `found`."""

    bound = 50_000  # spans that are kept

    def __init__(self, rank: int) -> None:
        self.found = RankSpans(rank, 0.0, 0.0)
        self._watcher: Watcher | None = None
        self._entered: tuple[float, str, int, Location, tuple[int, ...]] | None = None
        self._calls: WeakKeyDictionary[Any, Calls] = WeakKeyDictionary()
        self._times_on_gpu = EventTimes()

    def __enter__(self) -> RankRecorder:
        if watch.observer is not None:
            raise ArgumentError("timeline: a profile or another timeline is active; leave its `with` block first")
        self._times_on_gpu.begin()
        self._watcher, communication.watcher = communication.watcher, self
        watch.observer = self
        self.found.start = perf_counter()
        return self

    def __exit__(self, *exception: Any) -> None:
        self.found.stop = perf_counter()
        watch.observer = None
        if communication.watcher is self:  # else the world has ended
            communication.watcher = self._watcher
        if exception[0] is None:
            self._times_on_gpu.read()

    def _keep(self, span: Span) -> None:
        if len(self.found.spans) < self.bound:
            self.found.spans.append(span)
        else:
            self.found.left_out += 1

    # --- collectives: what engines tell ---------------------------------------------------------------------------

    def entering(self, number: int, name: str, bytes: int, location: Location, ranks: Sequence[int] = ()) -> None:
        """This rank enters a collective."""
        if self._watcher is not None:
            self._watcher.entering(number, name, bytes, location, ranks)
        self._entered = perf_counter(), name, bytes, location, tuple(ranks)

    def left(self) -> None:
        """The collective is done."""
        if self._entered is not None:
            start, name, size, location, ranks = self._entered
            self._entered = None
            self._keep(Span(COMMUNICATION, name, start, perf_counter(), describe(location), size, ranks))
        if self._watcher is not None:
            self._watcher.left()

    @contextmanager
    def during(self, state: str) -> Iterator[None]:
        """This rank does something that takes as long as it takes."""
        inner: AbstractContextManager[None] = nullcontext() if self._watcher is None else self._watcher.during(state)
        start = perf_counter()
        with inner:
            yield
        if state != "compiling":  # which `built` reports
            self._keep(Span(STATE, state, start, perf_counter()))

    def agree(self, key: str, digest: str, describe: Callable[[], Sequence[str]]) -> None:
        """All ranks compare a digest."""
        if self._watcher is not None:
            self._watcher.agree(key, digest, describe)

    def step(self) -> None:
        """The next step begins."""
        if self._watcher is not None:
            self._watcher.step()
        now = perf_counter()
        self._keep(Span(STEP, "a step begins", now, now))

    def saved(self, checkpoint: str) -> None:
        """A checkpoint is complete."""
        if self._watcher is not None:
            self._watcher.saved(checkpoint)

    # --- computation: what programs tell ----------------------------------------------------------------------------

    def ran_op(self, node: Node, result: Any, start: float, stop: float) -> None:
        """An op was computed by its reference. A collective tells of itself, where it is entered."""
        if not node.op.collective:
            name = f"{node.op.name} {describe_type(node)}"
            self._keep(Span(COMPUTE, name, start, stop, describe(node.location)))

    def calls_of(self, program: CpuProgram) -> Sequence[Callable[..., None]]:
        """The program's own calls, of which the pieces of C are timed."""
        if type(program) is not CpuProgram:  # one that checks itself has calls of its own
            return program.calls
        if program not in self._calls:
            names = _piece_names(program)
            pairs = zip(program.calls, program.pieces, names)
            self._calls[program] = [self._timed(c, *name) if isinstance(p, str) else c for c, p, name in pairs]
        return self._calls[program]

    def _timed(self, call: Callable[..., None], name: str, line: str) -> Callable[..., None]:
        def timed(*arguments: Any) -> None:
            start = perf_counter()
            call(*arguments)
            self._keep(Span(COMPUTE, name, start, perf_counter(), line))

        return timed

    def ran_steps(self, program: Any, steps: Sequence[tuple[int, Any, Any]]) -> None:
        """Steps of a program were given to a GPU."""
        for number, start, stop in steps:
            self._times_on_gpu.add(program.driver, start, stop, self._noting(*self._step(program, number)))

    def _step(self, program: Any, number: int) -> tuple[str, str, Node]:
        if watch.node is not None:  # a program for it alone
            return COMPUTE, f"{watch.node.op.name} {describe_type(watch.node)}", watch.node
        group = program.plan.groups_of_steps[number]
        root = group.roots[0 if group.opaque else -1]
        kind = COMMUNICATION if root.op.collective else COMPUTE
        return kind, described(group, program.steps[number]), root

    def _noting(self, kind: str, name: str, node: Node) -> Callable[[float, float], None]:
        given = sum(map(size_of, node.sources)) if kind == COMMUNICATION else 0
        line = describe(node.location)
        return lambda start, stop: self._keep(Span(kind, name, start, stop, line, given))

    def copied(self, driver: Any, size: int, start: Any, stop: Any) -> None:
        """Bytes were copied to a GPU."""
        name = f"copy of {bytes_text(size)}"
        self._times_on_gpu.add(driver, start, stop, lambda start, stop: self._keep(Span(COPY, name, start, stop)))

    def built(self, start: float, stop: float) -> None:
        """A program was built."""
        self._keep(Span(BUILD, "build", start, stop))


def _piece_names(program: CpuProgram) -> list[tuple[str, str]]:
    """For each piece of a program its name and line; those of C are named by the kernels between two references."""
    runs = [
        [number for region in regions for number in region]
        for is_c, regions in groupby(program.regions, lambda region: _is_c(program.steps[region[0]]))
        if is_c
    ]
    kernels = iter(runs)
    names: list[tuple[str, str]] = []
    for is_c, pieces in groupby(program.pieces, lambda piece: isinstance(piece, str)):
        name = _named(program, next(kernels)) if is_c else ("", "")
        names += [name for _ in pieces]
    return names


def _is_c(step: Step) -> bool:
    """Whether a step is C: neither a reference, nor the beginning or end of a collective beside the computation."""
    return step.host_op is None and step.flight is None


def _named(program: CpuProgram, numbers: Sequence[int]) -> tuple[str, str]:
    roots = [program.plan.groups_of_steps[number].roots[-1] for number in numbers]
    ops = list(dict.fromkeys(root.op.name for root in roots))
    more = ", ..." if len(ops) > _NAMED else ""
    count = f"{len(numbers)} kernel{'s' if len(numbers) > 1 else ''}"
    lines = list(dict.fromkeys(describe(root.location) for root in roots))
    return f"{count}: {', '.join(ops[:_NAMED])}{more}", " to ".join(dict.fromkeys([lines[0], lines[-1]]))
