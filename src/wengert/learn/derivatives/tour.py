"""The guided tour `wengert learn`: ln(x1) + x1*x2 - sin(x2), differentiated in every way, a section at a time."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import wengert as wg
from wengert.learn.derivatives.compare import compare
from wengert.learn.derivatives.section import Section, to_text


def example(x1: wg.Tensor, x2: wg.Tensor) -> wg.Tensor:
    """The function that textbooks differentiate."""
    return wg.log(x1) + x1 * x2 - wg.sin(x2)


def tour(seconds: float = 2.0, page: str | None = None) -> None:
    """Print the sections, waiting for Enter between them if a person is there. `page` is a file to write them to."""
    print(f"Four ways to differentiate. Measuring, at most {seconds:g} s at a time ...", flush=True)
    comparison = compare(example, (2.0, 5.0), seconds)
    print(f"\n{comparison.title}")
    sections = comparison.sections()
    if len(list(tell(sections))) < len(sections):
        return
    if page is not None:
        print(f"\nwrote {comparison.page(Path(page))}")
    print("\nTry your own function: print(wg.learn.compare(f, x))")
    print("Lessons and exercises: docs/lessons and examples/notebooks/lessons")


def tell(sections: Iterable[Section]) -> Iterator[Section]:
    """Print sections, waiting for Enter between them if a person is there; those that were printed."""
    interactive = sys.stdin.isatty() and sys.stdout.isatty()
    for section in sections:
        print(f"\n{to_text(section)}", flush=True)
        yield section
        if interactive and not _goes_on():
            return


def _goes_on() -> bool:
    try:
        return input("\n[Enter] to continue, q to quit ").strip().lower() != "q"
    except (EOFError, KeyboardInterrupt):
        print()
        return False
