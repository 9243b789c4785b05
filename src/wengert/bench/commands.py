"""What `wengert bench` does: measure, and write the page and the table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from wengert.bench.cases import OPS
from wengert.bench.every import EVERY
from wengert.bench.page import page
from wengert.bench.run import TIME_WAS_UP, checked, machine, measured
from wengert.core.errors import ArgumentError

OFTEN = 10.0  # seconds after which what is known is written again


def bench(out: str, seconds: float, only: Sequence[str], more: bool = False) -> Path:
    """Measure for about this many seconds and write `out`, an HTML page, and beside it the same as JSON, as it comes.

    With `more` the report that is there already is completed.
    """
    families = ["models", *dict.fromkeys(op.family for op in (*OPS, *EVERY))]
    unknown = [name for name in only if name not in families]
    if unknown:
        raise ArgumentError(f"bench: there is no family {unknown[0]!r}; the families are {', '.join(families)}")
    if seconds <= 0:
        raise ArgumentError(f"bench: --seconds must be positive, not {seconds:g}")
    path, written = Path(out), perf_counter()

    def keep(report: dict[str, Any]) -> None:
        nonlocal written
        if perf_counter() - written > OFTEN:
            _write(path, report)
            written = perf_counter()

    report = measured(seconds, only, keep=keep, known=_known(path) if more else None)
    _write(path, report)
    if not report["machine"]["gpu"]:
        print("no GPU found: only the CPU was measured")
    hurried = sum(point["why"] == TIME_WAS_UP for point in report["left out"])
    if hurried:
        print(f"time ran out before {hurried} measurements: continue with --more, or allow more --seconds")
    print(f"{path} and {path.with_suffix('.json')}")
    return path


def redraw(stored: Path) -> Path:
    """Write the page of a stored report again, with its times checked; nothing is measured."""
    try:
        report = json.loads(stored.read_text())
        page_path = stored.with_suffix(".html")
        _write(page_path, checked(report))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ArgumentError(f"bench: {stored} is no report that `wengert bench` wrote: {error}") from error
    return page_path


def _known(path: Path) -> dict[str, Any]:
    """The report that is to be completed."""
    stored = path.with_suffix(".json")
    try:
        report: dict[str, Any] = json.loads(stored.read_text())
        theirs = report["machine"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ArgumentError(
            f"bench: --more completes the report beside {path}, but {stored} is not one: {error}"
        ) from error
    ours = json.loads(json.dumps(machine()))
    different = [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]
    if different:
        name = different[0]
        raise ArgumentError(
            f"bench: --more completes a report of the same machine; {stored} has {name} {theirs.get(name)}, "
            f"here it is {ours.get(name)}"
        )
    return report


def _write(path: Path, report: dict[str, Any]) -> None:
    """The page and the JSON, in figures of five digits."""
    report = json.loads(json.dumps(report), parse_float=lambda text: float(f"{float(text):.5g}"))
    path.write_text(page(report))
    path.with_suffix(".json").write_text(_lines(report))


def _lines(report: dict[str, Any]) -> str:
    """JSON with a line for every measurement."""

    def text(value: Any) -> str:
        return "[\n" + ",\n".join(map(json.dumps, value)) + "\n]" if isinstance(value, list) else json.dumps(value)

    return "{\n" + ",\n".join(f"{json.dumps(key)}: {text(value)}" for key, value in report.items()) + "\n}\n"
