"""The page of a timeline: two lanes a rank, computation and communication; exposed communication is red.

Plain HTML: a lane is a box, a span a bar in it at its share of the time. The only script makes the lanes wider.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files

from wengert.inspect.spans import BUILD, COMMUNICATION, COMPUTE, COPY, STATE, Interval, RankSpans, Span, length, waits
from wengert.runtime.debug.explain import bytes_text

_FINE = 20_000  # a bar is not shorter than this part of the time: neighbours that are become one
_TICKS = 10


def page(ranks: Sequence[RankSpans], told: str) -> str:
    """The page; `told` is the text below it."""
    end = max((one.stop for one in ranks), default=0.0) or 1.0
    waited = waits(ranks)
    lanes = "".join(_lanes(one, end, waited) for one in ranks)
    names = "".join(f"<div>rank {one.rank}<small>compute</small><small>communicate</small></div>" for one in ranks)
    total = sum(one.seconds for one in ranks) or 1.0
    share = sum(length(one.exposed) for one in ranks) / total
    count = f"{len(ranks)} rank{'s' if len(ranks) > 1 else ''}"
    head = f'{count}, {end * 1e3:.3f} ms; <b id="exposed">{share:.1%}</b> of the time is exposed communication'
    parts = {"title": f"Timeline of {count}", "head": head, "names": names, "ticks": "".join(_ticks(end))}
    text = (files("wengert.inspect") / "timeline.html").read_text(encoding="utf-8")
    for name, part in (parts | {"told": escape(told), "lanes": lanes}).items():
        text = text.replace(f"<!-- {name} -->", part)
    return text


def _ticks(end: float) -> Iterator[str]:
    for k in range(_TICKS):
        yield f'<span style="left:{100 * k / _TICKS:g}%">{end * 1e3 * k / _TICKS:.3f} ms</span>'


def _lanes(one: RankSpans, end: float, waited: dict[tuple[int, int], float]) -> str:
    work = "".join(_bar(span, (span.start, span.stop), end, span.kind) for span in _merged(one, end))
    wire = []
    for number, span in enumerate(one.of(COMMUNICATION)):
        exposed = one.exposed_of(span)
        late = waited.get((one.rank, number), 0.0)
        note = f", {late * 1e3:.3f} ms of it waiting for other ranks" if late else ""
        wire.append(_bar(span, (span.start, span.stop), end, COMMUNICATION, note))
        wire += [_bar(span, part, end, "exposed", note) for part in exposed]
    return f'<div class="lane" data-rank="{one.rank}">{work}</div><div class="lane wire">{"".join(wire)}</div>'


def _merged(one: RankSpans, end: float) -> Iterator[Span]:
    """The spans of the first lane; very short ones of one kind that follow each other closely are drawn as one."""
    held: Span | None = None
    fine = end / _FINE
    for span in one.of(COMPUTE, BUILD, COPY, STATE):
        if held is not None and held.kind == span.kind and span.stop - held.start < fine:
            held = held._replace(stop=max(held.stop, span.stop), name=f"{held.name} and more")
            continue
        if held is not None:
            yield held
        held = span
    if held is not None:
        yield held


def _bar(span: Span, at: Interval, end: float, kind: str, note: str = "") -> str:
    start, stop = at
    told = [span.name, f"{(stop - start) * 1e3:.3f} ms{note}", bytes_text(span.bytes) if span.bytes else "", span.line]
    if span.ranks:
        told.insert(1, f"ranks {', '.join(map(str, span.ranks))}")
    words = escape("\n".join(filter(None, told)), quote=True)
    place = f"left:{100 * start / end:.4f}%;width:{100 * (stop - start) / end:.4f}%"
    return f'<i class="{kind}" style="{place}" title="{words}"></i>'
