"""`wg.profile`: where the time and the memory of a piece of a program go, by op, kernel, module and source line.

In: whatever runs inside the `with` block. Ops of the interpreting tier are timed one by one; a compiled program's
kernels are called one by one, each as a C function of its own (`runtime.profile`). What is neither, nor building of
programs, is Python: recording, loading data, the script's own work. Out: tables (`table`), a file for Chrome's trace
viewer (`trace`), and times for the page (`wg.inspect.page(..., profile=...)`).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from wengert.backends.cpu import Program
from wengert.errors import ArgumentError
from wengert.graph import Node, describe_type
from wengert.inspect.memory import Memory
from wengert.inspect.modules import Modules
from wengert.inspect.passes import inside
from wengert.inspect.table import Row, table
from wengert.location import Location, describe
from wengert.reference import watch
from wengert.runtime.explain import flops, moved_by, size_of
from wengert.runtime.profile import described, timed_calls
from wengert.runtime.realize import flush


class Key(NamedTuple):
    """What times are added up by."""

    op: str
    kernel: str
    module: tuple[str, ...]
    location: Location


class Event(NamedTuple):
    """One op, kernel or building, for the trace."""

    name: str
    kind: str
    start: float
    seconds: float
    key: Key | None


class Profile:
    """Times and memory of what runs inside a `with` block."""

    bound = 100_000  # events kept for the trace; the tables count all

    def __init__(self) -> None:
        self.seconds = 0.0  # of the whole block
        self.building = 0.0  # of these, in the compiler
        self.events: list[Event] = []
        self.left_out = 0  # events beyond those kept
        self.memory = Memory()
        self._rows: dict[Key, Row] = {}
        self._modules = Modules()
        self._steps: WeakKeyDictionary[Any, list[tuple[Key, int, int]]] = WeakKeyDictionary()
        self._calls: WeakKeyDictionary[Any, list[Callable[..., None]]] = WeakKeyDictionary()
        self._times: dict[str, dict[int, list[float]]] = {}  # by a program's text, the seconds of each step
        self._stack = ExitStack()
        self._start = 0.0

    def __enter__(self) -> Profile:
        if watch.observer is not None:
            raise ArgumentError("profile: another profile is going on; end it first")
        flush()
        self._stack.enter_context(self._modules.watching())
        watch.observer = self
        self._start = perf_counter()
        return self

    def __exit__(self, *exception: Any) -> None:
        if exception[0] is None:
            flush()  # what was recorded inside is computed inside
        self.seconds += perf_counter() - self._start
        watch.observer = None
        self._stack.close()

    # --- what is told while it runs -----------------------------------------------------------------------------

    def ran_op(self, node: Node, result: Any, start: float, stop: float) -> None:
        """An op was computed by its reference."""
        kernel = f"{node.op.name} {describe_type(node)}"
        key = Key(node.op.name, kernel, self._modules.module_of(node), node.location)
        moved = size_of(node) + sum(map(size_of, node.sources))
        self._add(key, start, stop, moved, flops(node))
        self.memory.made(result, node)

    def calls_of(self, program: Program) -> Sequence[Callable[..., None]]:
        """Calls of a program's steps, one by one, each timed."""
        if type(program) is not Program:  # one that checks itself has calls of its own
            return program.calls
        if program not in self._calls:
            start = perf_counter()
            self._steps[program] = self._described(program)
            times = self._times.setdefault(program.source, {})

            def note(number: int, start: float, stop: float) -> None:
                key, moved, operations = self._steps[program][number]
                times.setdefault(number, []).append(stop - start)
                self._add(key, start, stop, moved, operations)

            self._calls[program] = timed_calls(program, note)
            self.built(start, perf_counter())
        self.memory.ran(program)
        return self._calls[program]

    def ran_program(self, program: Any, start: float, stop: float) -> None:
        """A program ran on a GPU, as one launch of all its kernels."""
        outputs = program.graph.outputs
        names = ", ".join(dict.fromkeys(node.op.name for node in outputs))
        modules = self._modules.modules_in(program.graph.nodes)
        key = Key(names, f"{len(program.steps)} steps on {program.device}", modules.get(outputs[0], ()), None)
        moved = sum(size_of(node) for step in program.steps for node in (*step.reads, *step.writes))
        self._add(key, start, stop, moved, sum(map(flops, program.graph.nodes)))

    def built(self, start: float, stop: float) -> None:
        """A program was built."""
        self.building += stop - start
        self._keep(Event("build", "build", start - self._start, stop - start, None))

    def _described(self, program: Program) -> list[tuple[Key, int, int]]:
        """For each step of a program its key, bytes and operations."""
        modules: dict[Node, tuple[str, ...]] = {}
        for report in program.reports:  # from the graph as recorded on: what is known of a node is handed on
            modules = self._modules.modules_in(report.graph.nodes)
        found = []
        for i, (group, step) in enumerate(zip(program.plan.groups, program.steps)):
            root = group.roots[-1]
            names = ", ".join(dict.fromkeys(node.op.name for node in group.roots))
            key = Key(names, described(group, step), modules.get(root, ()), root.location)
            found.append((key, moved_by(step), sum(map(flops, inside(program, i)))))
        return found

    def _add(self, key: Key, start: float, stop: float, moved: int, operations: int) -> None:
        seconds = stop - start
        self._rows.setdefault(key, Row()).add(Row(1, seconds, moved, operations))
        self._keep(Event(key.kernel, "kernel", start - self._start, seconds, key))

    def _keep(self, event: Event) -> None:
        if len(self.events) < self.bound:
            self.events.append(event)
        else:
            self.left_out += 1

    # --- what is told afterwards --------------------------------------------------------------------------------

    @property
    def computing(self) -> float:
        """The seconds in ops and kernels."""
        return sum(row.seconds for row in self._rows.values())

    def rows(self, by: str = "kernel") -> dict[str, Row]:
        """What was counted, by `op`, `kernel`, `module` or `line`; the most seconds first."""
        names: dict[str, Callable[[Key], str]] = {
            "op": lambda key: key.op,
            "kernel": lambda key: key.kernel,
            "module": lambda key: ".".join(key.module) or "(outside of modules)",
            "line": lambda key: describe(key.location),
        }
        if by not in names:
            raise ArgumentError(f"profile: rows by {by!r}; there are {', '.join(names)}")
        found: dict[str, Row] = {}
        for key, row in self._rows.items():
            found.setdefault(names[by](key), Row()).add(row)
        return dict(sorted(found.items(), key=lambda item: -item[1].seconds))

    def table(self, by: str = "kernel", top: int = 10) -> str:
        """The rows that took longest, as text: times, rates, the share of what the machine can do, and memory."""
        rest = max(self.seconds - self.computing - self.building, 0.0)
        parts = {"computing": self.computing, "building programs": self.building, "Python": rest}
        head = f"{self.seconds:.4g} s: " + ", ".join(f"{name} {seconds:.4g}" for name, seconds in parts.items())
        return "\n".join([head, table(self.rows(by), by, self.seconds, top), self.memory.text()])

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        return f"<profile of {self.seconds:.4g} s, {sum(row.count for row in self._rows.values())} kernels>"

    def trace(self, path: str | Path) -> Path:
        """Write the events for Chrome's trace viewer (chrome://tracing) or Perfetto; of very many the first."""
        events = [_traced(event) for event in self.events]
        target = Path(path)
        target.write_text(json.dumps({"traceEvents": events, "otherData": {"left out": self.left_out}}))
        return target

    def times_of(self, program: Program) -> dict[int, float]:
        """The least seconds of each step of a program, by number, where it ran inside; equal programs count as one."""
        return {number: min(times) for number, times in self._times.get(program.source, {}).items()}


def _traced(event: Event) -> dict[str, Any]:
    told: dict[str, Any] = {"name": event.name, "cat": event.kind, "ph": "X", "pid": 0, "tid": 0}
    told |= {"ts": round(event.start * 1e6, 3), "dur": round(event.seconds * 1e6, 3)}
    if event.key is not None:
        told["args"] = {"line": describe(event.key.location), "module": ".".join(event.key.module)}
    return told


def profile() -> Profile:
    """Look at where time and memory go inside a `with` block; print the profile for a table.

    >>> import wengert as wg
    >>> with wg.profile() as profile:
    ...     y = (wg.ones((64, 64)) @ wg.ones((64, 64))).sum().item()
    >>> [name for name in profile.rows("op") if name in ("matmul", "sum")]
    ['matmul', 'sum']
    """
    return Profile()
