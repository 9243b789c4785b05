"""The events of a profile (ops, kernels, copies, builds), and the trace file that is written from them.

Out: Chrome's trace format (chrome://tracing, Perfetto): a row for each device, arrows from each kernel of the forward
pass to those that differentiate it, and the memory that values take, as a counter.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from wengert.core.code import Backward, Location, describe
from wengert.core.devices import HOST
from wengert.core.graph import Node

HOST_ROW = "host"


class Key(NamedTuple):
    """What times are summed by."""

    op: str
    kernel: str
    module: tuple[str, ...]
    function: str
    is_step: bool  # of an optimizer
    location: Location
    device: str = HOST


class Flow(NamedTuple):
    """What a kernel computes, by the locations of its nodes, each an object of its own: forward values, and the forward
    values whose rules its gradients come from.
    """

    forward: tuple[Location, ...] = ()
    differentiated: tuple[Location, ...] = ()


class Counts(NamedTuple):
    """What a step reads and writes, in bytes, and its operations: all, and those of products in half precision."""

    moved: int
    flops: int
    half: int = 0


class StepFacts(NamedTuple):
    """The facts of a step of a program, or of an op that runs alone."""

    key: Key
    counts: Counts
    flow: Flow
    live: int | None = None  # bytes that its program holds while it runs


class TraceEvent(NamedTuple):
    """An op, kernel, copy or build."""

    name: str
    kind: str
    start: float
    seconds: float
    facts: StepFacts | None
    row: str = HOST_ROW


class MemorySample(NamedTuple):
    """The memory that values took at a moment, on a device."""

    start: float
    device: str
    bytes: int


def flow_of(nodes: Sequence[Node]) -> Flow:
    """The flow of a kernel that computes some nodes."""
    forward: dict[int, Location] = {}
    differentiated: dict[int, Location] = {}
    for node in nodes:
        location = node.location
        if isinstance(location, Backward):
            differentiated[id(location.forward)] = location.forward
        elif location is not None:
            forward[id(location)] = location
    return Flow(tuple(forward.values()), tuple(differentiated.values()))


def write_trace(path: str | Path, events: Sequence[TraceEvent], memory: Sequence[MemorySample], left_out: int) -> Path:
    """Write events and memory for Chrome's trace viewer or Perfetto."""
    ordered = sorted(events, key=lambda event: event.start)
    rows = row_names(ordered)
    numbers = {name: i for i, name in enumerate(rows)}
    named = [{"name": "thread_name", "ph": "M", "pid": 0, "tid": i, "args": {"name": n}} for n, i in numbers.items()]
    shown = [_event(event, numbers[event.row]) for event in ordered]
    arrows = list(_arrows(ordered, numbers))
    counters = [_counter(sample) for sample in memory]
    found = {"traceEvents": [*named, *shown, *arrows, *counters], "otherData": {"left out": left_out}}
    target = Path(path)
    target.write_text(json.dumps(found), encoding="utf-8")
    return target


def row_names(events: Sequence[TraceEvent]) -> list[str]:
    """The rows of a trace: the host, then devices and their copies."""
    return [HOST_ROW, *sorted({event.row for event in events} - {HOST_ROW})]


def pairs(events: Sequence[TraceEvent]) -> Iterator[tuple[int, int]]:
    """The indices of each event that differentiates another, after that of the latest such event before it."""
    last: dict[int, int] = {}
    for place, event in enumerate(events):
        if event.facts is None:
            continue
        found = [last[id(one)] for one in event.facts.flow.differentiated if id(one) in last]
        if found:
            yield max(found), place
        last.update((id(one), place) for one in event.facts.flow.forward)


def _arrows(events: Sequence[TraceEvent], rows: Mapping[str, int]) -> Iterator[dict[str, Any]]:
    for number, (forward, backward) in enumerate(pairs(events)):
        common = {"name": "backward of", "cat": "differentiation", "id": number, "pid": 0}
        first, second = events[forward], events[backward]
        yield common | {"ph": "s", "tid": rows[first.row], "ts": _microseconds(first.start)}
        yield common | {"ph": "f", "bp": "e", "tid": rows[second.row], "ts": _microseconds(second.start)}


def _event(event: TraceEvent, row: int) -> dict[str, Any]:
    shown: dict[str, Any] = {"name": event.name, "cat": event.kind, "ph": "X", "pid": 0, "tid": row}
    shown |= {"ts": _microseconds(event.start), "dur": _microseconds(event.seconds)}
    if event.facts is not None:
        key, counts = event.facts.key, event.facts.counts
        told = {"line": describe(key.location), "module": ".".join(key.module), "function": key.function}
        shown["args"] = told | {"bytes": counts.moved, "flops": counts.flops}
    return shown


def _counter(sample: MemorySample) -> dict[str, Any]:
    name = f"memory on {sample.device}"
    return {"name": name, "ph": "C", "pid": 0, "ts": _microseconds(sample.start), "args": {"bytes": sample.bytes}}


def _microseconds(seconds: float) -> float:
    return round(seconds * 1e6, 3)
