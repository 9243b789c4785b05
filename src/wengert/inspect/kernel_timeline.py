"""The page of a profile over time: a lane for each device, kernels in the colours of their modules, memory below.

In: a profile. Out: one self-contained HTML file. It uses the script of the ranks' timeline (`timeline.js`) to zoom and
pan: a bar's title describes what ran, and `data-module` is its module.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING

from wengert.core.code import Backward, describe
from wengert.inspect.public_functions import textbook_name
from wengert.inspect.timeline_page import document
from wengert.inspect.trace import MemorySample, TraceEvent, row_names
from wengert.runtime.debug.explain import bytes_text

if TYPE_CHECKING:
    from wengert.inspect.profile import Profile

BUILDING = "building"
_KEY = (("compute", "kernels, in the colours of their modules"), ("build", "building programs, copies"))
_TABLES = ("kernel", "module", "function")
_FINE = 20_000  # a bar is not shorter than this part of the time: neighbours of a module that are become one
_STEPS = 2_000  # of the memory's outline


def page(profile: Profile) -> str:
    """The page of a profile."""
    events = sorted(profile.events, key=lambda event: event.start)
    end = max([profile.seconds, *(event.start + event.seconds for event in events)]) or 1.0
    names, lanes = [], []
    for name, own in _rows(events):
        bars = "".join(_bar(event, count, end) for event, count in _merged(own, end / _FINE))
        names.append(f'<div class="single" title="{escape(name, quote=True)}">{escape(name)}</div>')
        lanes.append(f'<div class="lane" data-name="{escape(name, quote=True)}">{bars}</div>')
    for device in dict.fromkeys(sample.device for sample in profile.samples):
        samples = [sample for sample in profile.samples if sample.device == device]
        most = max(sample.bytes for sample in samples)
        told = f"memory on {device}: at most {bytes_text(most)}"
        label = f"<small>memory</small><small>{bytes_text(most)}</small>"
        names.append(f'<div class="single" title="{escape(told, quote=True)}">{label}</div>')
        lanes.append(f'<div class="lane" data-name="memory on {device}">{_outline(samples, most, end, told)}</div>')
    left_out = f"; {profile.left_out:,} events are left out" if profile.left_out else ""
    head = f"{escape(profile.head())}{left_out}"
    parts = {"names": "".join(names), "lanes": "".join(lanes), "told": profile.table(_TABLES)}
    return document("Kernel timeline", head, end, key=_KEY, **parts)


def _rows(events: Sequence[TraceEvent]) -> Iterator[tuple[str, list[TraceEvent]]]:
    """The events of each lane: devices, copies to them, and programs being built."""
    for name in row_names(events):
        yield name, [event for event in events if event.row == name and event.kind != "build"]
    built = [event for event in events if event.kind == "build"]
    if built:
        yield BUILDING, built


def _merged(events: Iterable[TraceEvent], fine: float) -> Iterator[tuple[TraceEvent, int]]:
    """The events of a lane, each with how many it stands for: short ones of one module, close together, are merged."""
    held: TraceEvent | None = None
    count = 0
    for event in events:
        if held is not None and _module(event) == _module(held) and event.start + event.seconds - held.start < fine:
            held = held._replace(seconds=event.start + event.seconds - held.start)
            count += 1
            continue
        if held is not None:
            yield held, count
        held, count = event, 1
    if held is not None:
        yield held, count


def _module(event: TraceEvent) -> str | None:
    return None if event.facts is None else ".".join(event.facts.key.module)


def _bar(event: TraceEvent, count: int, end: float) -> str:
    told = [event.name if count == 1 else f"{event.name} and {count - 1} more", f"{event.seconds * 1e3:.4g} ms"]
    kind, module = "build", ""
    if event.facts is not None:
        key, counts = event.facts.key, event.facts.counts
        kind, module = "compute", f' data-module="{escape(".".join(key.module), quote=True)}"'
        place = [".".join(key.module) or "outside of modules", textbook_name(key.function)]
        told.append(", ".join(filter(None, [*place, _side(event)])))
        if count == 1:
            told.append(f"{bytes_text(counts.moved)} moved, {counts.flops:,} FLOPs")
        told.append(describe(key.location))
    words = escape("\n".join(told), quote=True)
    style = f"left:{100 * event.start / end:.5f}%;width:{100 * event.seconds / end:.5f}%"
    return f'<i class="{kind}" style="{style}"{module} title="{words}"></i>'


def _side(event: TraceEvent) -> str:
    is_gradient = event.facts is not None and isinstance(event.facts.key.location, Backward)
    return "backward" if is_gradient else ""


def _outline(samples: Sequence[MemorySample], most: int, end: float, told: str) -> str:
    """The memory over time as an area; of many samples, the largest in each short interval."""
    heights: dict[int, int] = {}
    last = 0
    for sample in samples:
        k = min(int(_STEPS * sample.start / end), _STEPS - 1)
        heights[k] = max(heights.get(k, 0), sample.bytes)
    points = ["0,100"]
    for k in range(_STEPS):
        now = heights.get(k, last)
        if now != last:
            points += [f"{k},{100 - 100 * last / (most or 1):.1f}", f"{k},{100 - 100 * now / (most or 1):.1f}"]
        last = now
    points += [f"{_STEPS},{100 - 100 * last / (most or 1):.1f}", f"{_STEPS},100"]
    style = "position:absolute;inset:0;width:100%;height:100%"
    return (
        f'<svg viewBox="0 0 {_STEPS} 100" preserveAspectRatio="none" style="{style}" role="img">'
        f"<title>{escape(told)}</title>"
        f'<polygon points="{" ".join(points)}" fill="var(--compute)" fill-opacity=".5"/></svg>'
    )
