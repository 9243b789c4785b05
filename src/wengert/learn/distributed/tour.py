"""The lesson `wengert learn distributed`: what many ranks do, in one process, a section at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from wengert.learn.derivatives.section import Section, page
from wengert.learn.derivatives.tour import tell
from wengert.learn.distributed import bubble, derivative, memory, ring

TITLE = "Many ranks, in one process"

SECTIONS: tuple[Callable[[], Section], ...] = (
    ring.section,
    derivative.section,
    derivative.accumulate_section,
    memory.zero_section,
    bubble.section,
    memory.ways_section,
)


def sections() -> Iterator[Section]:
    """The sections, each measured when it is asked for."""
    return (section() for section in SECTIONS)


def tour(path: str | None = None) -> None:
    """Print the sections, waiting for Enter between them if a person is there; write them as a page if it is named."""
    print(f"{TITLE}: `simulate` runs the ranks as lanes of vmap.", flush=True)
    told = list(tell(sections()))
    if path is not None and len(told) == len(SECTIONS):
        Path(path).write_text(page(TITLE, told), encoding="utf-8")
        print(f"\nwrote {path}")
    print("\nTry your own: wg.distributed.simulate(f, ranks=4), or really start some ranks:")
    print("wengert launch -n 2 script.py")
