"""The page of a timeline: two lanes a rank, computation and communication; exposed communication is red.

Plain HTML: a lane is a box, a span a bar in it at its share of the time. The script (`timeline.js`) zooms, pans and
describes the bars; every timeline shares it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from importlib.resources import files

from wengert.inspect.spans import (
    BUILD,
    COMMUNICATION,
    COMPUTE,
    COPY,
    STATE,
    STEP,
    Interval,
    RankSpans,
    Span,
    length,
    waits,
)
from wengert.runtime.debug.explain import bytes_text

_FINE = 20_000  # a bar is not shorter than this part of the time: neighbours that are become one
_KEY = (
    ("compute", "computing"),
    ("communication", "communication beside it"),
    ("exposed", "exposed communication"),
    ("build", "building, copies, loading, saving"),
)


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
    return document(f"Timeline of {count}", head, end, names=names, lanes=lanes, told=told)


def document(
    title: str,
    head: str,
    seconds: float,
    *,
    names: str,
    lanes: str,
    told: str = "",
    key: Sequence[tuple[str, str]] = _KEY,
) -> str:
    """The page of a timeline from its parts: `head`, `names` and `lanes` are HTML, `title` and `told` are text; `key`
    is what bars of a class mean.
    """
    shown = "".join(f'<i class="{kind}"></i>{escape(meaning)}' for kind, meaning in key)
    parts = {"title": escape(title), "head": head, "key": shown, "names": names, "seconds": f"{seconds:.9g}"}
    folder = files("wengert.inspect")
    text = (folder / "timeline.html").read_text(encoding="utf-8")
    parts |= {"told": escape(told), "script": (folder / "timeline.js").read_text(encoding="utf-8"), "lanes": lanes}
    for name, part in parts.items():
        text = text.replace(f"<!-- {name} -->", part)
    return text


def _lanes(one: RankSpans, end: float, waited: dict[tuple[int, int], float]) -> str:
    shown = [*_merged(one, end), *one.of(STEP)]
    work = "".join(_bar(span, (span.start, span.stop), end, span.kind) for span in shown)
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
    told = [
        span.name,
        f"{(stop - start) * 1e3:.3f} ms{note}" if stop > start else "",
        bytes_text(span.bytes) if span.bytes else "",
        span.line,
    ]
    if span.ranks:
        told.insert(1, f"ranks {', '.join(map(str, span.ranks))}")
    words = escape("\n".join(filter(None, told)), quote=True)
    place = f"left:{100 * start / end:.4f}%;width:{100 * (stop - start) / end:.4f}%"
    return f'<i class="{kind}" style="{place}" title="{words}"></i>'
