"""`wg.profile`: where the time and the memory of a piece of a program go, by op, kernel, module, function and line.

In: whatever runs inside the `with` block. Interpreted ops are timed one by one. A compiled program's kernels are called
one by one, each as its own C function (`runtime.debug.profile`); on a GPU they are launched one by one with events
between them, timed by the device's clock. All other time, except for building programs, counts as Python: recording,
loading data, the script's own work. Out: tables (`table`), a trace for Chrome's trace viewer (`trace`), a page of the
kernels over time (`timeline`), and times for `wg.inspect.page(..., profile=...)`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from html import escape
from pathlib import Path
from time import perf_counter
from typing import Any
from weakref import WeakKeyDictionary

from wengert.backends.cpu.program import CpuProgram
from wengert.core.code import describe
from wengert.core.devices import CUDA, HOST, is_host
from wengert.core.dtypes import HALF
from wengert.core.errors import ArgumentError
from wengert.core.evaluation import watch
from wengert.core.formatting import folded_html
from wengert.core.graph import Node, describe_type
from wengert.inspect import kernel_timeline
from wengert.inspect.calls import WatchedCall, WatchedCalls
from wengert.inspect.events import EventTimes
from wengert.inspect.memory import MemoryWatch
from wengert.inspect.passes import inside
from wengert.inspect.public_functions import textbook_name
from wengert.inspect.table import ProfileRow, as_html, ceilings, table
from wengert.inspect.trace import (
    HOST_ROW,
    Counts,
    Key,
    MemorySample,
    StepFacts,
    TraceEvent,
    flow_of,
    write_trace,
)
from wengert.nn.hooks import calls
from wengert.runtime.debug.explain import bytes_text, flops, moved_by, pass_reports, size_of, timeline
from wengert.runtime.debug.profile import described, timed_calls
from wengert.runtime.dynamic.realize import flush


class Profile:
    """Times and memory of what runs inside a `with` block.

    >>> import wengert as wg
    >>> with wg.profile() as profile:
    ...     print(wg.ones(2).sum().item())
    2.0
    >>> isinstance(profile, wg.inspect.Profile)
    True
    """

    bound = 100_000  # events kept for the trace; the tables count all

    def __init__(self) -> None:
        self.seconds = 0.0  # of the whole block
        self.building = 0.0  # of these, in the compiler
        self.events: list[TraceEvent] = []
        self.samples: list[MemorySample] = []  # the memory over time
        self.left_out = 0  # events beyond those kept
        self.memory = MemoryWatch()
        self._rows: dict[Key, ProfileRow] = {}
        self._recorded_calls = WatchedCalls()
        self._steps: WeakKeyDictionary[Any, list[StepFacts]] = WeakKeyDictionary()
        self._calls: WeakKeyDictionary[Any, list[Callable[..., None]]] = WeakKeyDictionary()
        self._times: dict[str, dict[int, list[float]]] = {}  # by a program's text, the seconds of each step
        self._times_on_gpu = EventTimes()
        self._stack = ExitStack()
        self._start = 0.0

    def __enter__(self) -> Profile:
        if watch.observer is not None:
            raise ArgumentError("profile: another profile is active; leave its `with` block first")
        flush()
        self._start = perf_counter()
        self._times_on_gpu.begin()
        self._recorded_calls.remember(calls)
        self._stack.enter_context(self._recorded_calls.watching())
        watch.observer = self
        return self

    def __exit__(self, *exception: Any) -> None:
        if exception[0] is None:
            flush()  # what was recorded inside is computed inside
            self._times_on_gpu.wait()
        self.seconds += perf_counter() - self._start
        watch.observer = None
        self._stack.close()
        if exception[0] is None:
            self._times_on_gpu.read()
            self.memory.look_at_gpus()

    # --- reports while it runs -----------------------------------------------------------------------------

    def ran_op(self, node: Node, result: Any, start: float, stop: float) -> None:
        """Called when an op was computed by its reference."""
        self._add(self._of_node(node, HOST), start, stop)
        self.memory.made(result, node)
        self._sample(stop, HOST, self.memory.now)

    def _of_node(self, node: Node, device: str) -> StepFacts:
        """The facts of an op that runs alone."""
        kernel = f"{node.op.name} {describe_type(node)}"
        call = self._recorded_calls.call_of(node)
        key = Key(node.op.name, kernel, *_place(call), node.location, device)
        counts = _counts(size_of(node) + sum(map(size_of, node.sources)), [node])
        return StepFacts(key, counts, flow_of([node]))

    def calls_of(self, program: CpuProgram) -> Sequence[Callable[..., None]]:
        """A timed call for each step of a program."""
        if type(program) is not CpuProgram:  # one that checks itself has calls of its own
            return program.calls
        if program not in self._calls:
            start = perf_counter()
            described_steps, times = self._described(program, HOST), self._times.setdefault(program.source, {})
            self._calls[program] = timed_calls(program, functools.partial(self._ran_step, described_steps, times))
            self.built(start, perf_counter())
        self.memory.ran(program)
        return self._calls[program]

    def ran_steps(self, program: Any, steps: Sequence[tuple[int, Any, Any]]) -> None:
        """Called when steps of a program were launched on a GPU."""
        if watch.node is not None:  # a program for it alone, and all that are like it
            described_steps = [self._of_node(watch.node, program.device)] * len(steps)
        else:
            described_steps = self._described_once(program)
            self.memory.ran(program)
        times = self._times.setdefault(program.source, {})
        for number, start, stop in steps:
            self._times_on_gpu.add(
                program.driver, start, stop, functools.partial(self._ran_step, described_steps, times, number)
            )

    def _described_once(self, program: Any) -> list[StepFacts]:
        """The facts of each step of a program on a GPU, computed once."""
        if program not in self._steps:
            start = perf_counter()
            self._steps[program] = self._described(program, program.device)
            self.built(start, perf_counter())
        return self._steps[program]

    def copied(self, driver: Any, size: int, start: Any, stop: Any) -> None:
        """Called when bytes were copied to a GPU."""
        name, row = f"copy of {bytes_text(size)}", f"copies to {CUDA}:{driver.index}"

        def note(start: float, stop: float) -> None:
            self._keep(TraceEvent(name, "copy", start - self._start, stop - start, None, row))

        self._times_on_gpu.add(driver, start, stop, note)

    def _ran_step(
        self,
        described_steps: list[StepFacts],
        times: dict[int, list[float]],
        number: int,
        start: float,
        stop: float,
    ) -> None:
        times.setdefault(number, []).append(stop - start)
        facts = described_steps[number]
        self._add(facts, start, stop)
        if facts.live is not None:
            own = facts.live + (self.memory.now if is_host(facts.key.device) else 0)
            self._sample(start, facts.key.device, own)

    def built(self, start: float, stop: float) -> None:
        """Called when a program was built."""
        self.building += stop - start
        self._keep(TraceEvent("build", "build", start - self._start, stop - start, None))

    def _described(self, program: Any, device: str) -> list[StepFacts]:
        """The facts of each step of a program."""
        calls: dict[Node, WatchedCall | None] = {}
        for i, report in enumerate(pass_reports(program)):  # from the graph as recorded on: calls are handed on
            calls = self._recorded_calls.calls_in(report.graph.nodes, after_pass=i > 0)
        found, moments = [], timeline(program)
        for i, (group, step) in enumerate(zip(program.plan.groups_of_steps, program.steps)):
            root = group.roots[0 if group.opaque else -1]
            names = ", ".join(dict.fromkeys(node.op.name for node in group.roots))
            key = Key(names, described(group, step), *_place(calls.get(root)), root.location, device)
            nodes = inside(program, i)
            found.append(StepFacts(key, _counts(moved_by(step), nodes), flow_of(nodes), moments[i].live))
        return found

    def _add(self, facts: StepFacts, start: float, stop: float) -> None:
        seconds, key = stop - start, facts.key
        self._rows.setdefault(key, ProfileRow()).add(ProfileRow(1, seconds, *facts.counts, key.device))
        row = HOST_ROW if is_host(key.device) else key.device
        self._keep(TraceEvent(key.kernel, "kernel", start - self._start, seconds, facts, row))

    def _sample(self, now: float, device: str, live: int) -> None:
        """Record how much memory values take."""
        if len(self.samples) < self.bound:
            self.samples.append(MemorySample(now - self._start, device, live))

    def _keep(self, event: TraceEvent) -> None:
        if len(self.events) < self.bound:
            self.events.append(event)
        else:
            self.left_out += 1

    # --- reports afterwards --------------------------------------------------------------------------------

    @property
    def computing(self) -> float:
        """The seconds in ops and kernels."""
        return sum(row.seconds for row in self._rows.values())

    def rows(self, by: str = "kernel") -> dict[str, ProfileRow]:
        """The counts by `op`, `kernel`, `module`, `function` or `line`, slowest first."""
        names: dict[str, Callable[[Key], str]] = {
            "op": lambda key: key.op,
            "kernel": lambda key: key.kernel,
            "module": lambda key: ".".join(key.module) or "(outside of modules)",
            "function": lambda key: textbook_name(key.function) or "(function not known)",
            "line": lambda key: describe(key.location),
        }
        if by not in names:
            raise ArgumentError(f"profile: rows by {by!r}; there are {', '.join(names)}")
        found: dict[str, ProfileRow] = {}
        for key, row in self._rows.items():
            found.setdefault(names[by](key), ProfileRow()).add(row)
        return dict(sorted(found.items(), key=lambda item: -item[1].seconds))

    def table(self, by: str | Sequence[str] = "kernel", top: int = 10) -> str:
        """The slowest rows as text: times, rates, the share of the machine's peak rate, and memory.

        `by` names one kind of rows, or a list of kinds for a table each.
        """
        kinds = [by] if isinstance(by, str) else by
        tables = "\n\n".join(table(self.rows(kind), kind, self.seconds, top) for kind in kinds)
        return "\n".join([self.head(), tables, ceilings(self.rows()), self.memory.text()])

    def head(self) -> str:
        """The total time, and how it is divided."""
        rest = max(self.seconds - self.computing - self.building, 0.0)
        parts = {"computing": self.computing, "building programs": self.building, "Python": rest}
        return f"{self.seconds:.4g} s: " + ", ".join(f"{name} {seconds:.4g}" for name, seconds in parts.items())

    def _repr_html_(self) -> str:
        """For a notebook: the table by kernel, and the other tables folded."""
        tables = [
            folded_html(f"by {kind}", as_html(self.rows(kind), kind, self.seconds, 10), kind == "kernel")
            for kind in ("kernel", "module", "function", "line")
        ]
        notes = escape(f"{ceilings(self.rows())}\n{self.memory.text()}")
        return f"<p>{escape(self.head())}</p>{''.join(tables)}<pre>{notes}</pre>"

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        return f"<profile of {self.seconds:.4g} s, {sum(row.count for row in self._rows.values())} kernels>"

    def trace(self, path: str | Path) -> Path:
        """Write the events for Chrome's trace viewer (chrome://tracing) or Perfetto; at most the first 100,000.

        Arrows lead from a kernel of the forward pass to those that differentiate it. Memory is a counter.
        """
        return write_trace(path, self.events, self.samples, self.left_out)

    def timeline(self, path: str | Path) -> Path:
        """Write a page of the kernels over time: a lane for each device, a colour for each module, and the memory.

        >>> import wengert as wg, tempfile, os
        >>> with wg.profile() as profile:
        ...     y = (wg.ones((64, 64)) @ wg.ones((64, 64))).sum().item()
        >>> profile.timeline(os.path.join(tempfile.mkdtemp(), "timeline.html")).name
        'timeline.html'
        """
        target = Path(path)
        target.write_text(kernel_timeline.page(self), encoding="utf-8")
        return target

    def rows_by_key(self) -> Sequence[tuple[Key, ProfileRow]]:
        """Every key with its counts."""
        return list(self._rows.items())

    def times_of(self, program: Any) -> dict[int, float]:
        """The shortest time of each step of a program, by number; identical programs count as one."""
        return {number: min(times) for number, times in self._times.get(program.source, {}).items()}


def _place(call: WatchedCall | None) -> tuple[tuple[str, ...], str, bool]:
    """A call's module and public function, and whether it is an optimizer's step."""
    return ((), "", False) if call is None else (call.path, call.function, call.is_step)


def _counts(moved: int, nodes: Sequence[Node]) -> Counts:
    products = [node for node in nodes if node.op.kind == "opaque" and any(s.dtype in HALF for s in node.sources)]
    return Counts(moved, sum(map(flops, nodes)), sum(map(flops, products)))


def profile() -> Profile:
    """Measure where time and memory go inside a `with` block; print the profile to see a table.

    >>> import wengert as wg
    >>> with wg.profile() as profile:
    ...     y = (wg.ones((64, 64)) @ wg.ones((64, 64))).sum().item()
    >>> sorted({"matmul", "sum"} & set(profile.rows("op")))
    ['matmul', 'sum']
    """
    return Profile()
