"""The progress display of a run: one updating line in a terminal, plain lines elsewhere.

In: reports. Needs `rich` for the terminal; without it lines are printed as they are elsewhere.
"""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import wengert as wg
from wengert.core.communication import current
from wengert.core.devices import HOST, is_host

SECONDS_BETWEEN_LINES = 15
"""Where there is no terminal; an epoch's end is always shown."""
SECONDS_BETWEEN_FRAMES = 0.125


@dataclass(frozen=True)
class ProgressReport:
    """The progress of a run."""

    epoch: int
    epochs: int
    done: float
    """The share of all epochs that is done."""
    values: Mapping[str, float]
    rate: float
    """Units seen in a second."""
    unit: str
    seconds_left: float
    device: str = HOST

    def fields(self) -> list[str]:
        """The parts of a progress line."""
        return [
            *(f"{name} {shown(name, value)}" for name, value in self.values.items()),
            f"{counted(self.rate)} {self.unit}/s",
            f"ETA {clock(self.seconds_left)}",
            memory(self.device),
        ]


class Lines:
    """Prints plain lines at intervals."""

    def __init__(self) -> None:
        self._last = time.perf_counter()

    def __enter__(self) -> Lines:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def show(self, report: ProgressReport) -> None:
        """Show the progress, if an update is due."""
        if time.perf_counter() - self._last >= SECONDS_BETWEEN_LINES:
            self.line("  ".join([epoch_of(report), *report.fields()]))

    def line(self, text: str) -> None:
        """Print a permanent line."""
        self._last = time.perf_counter()
        print(text, flush=True)


class Live:
    """A progress bar in the terminal, with permanent lines above it."""

    def __init__(self, rich_progress: Any) -> None:
        self._progress = rich_progress.Progress(
            rich_progress.TextColumn("{task.description}"),
            rich_progress.BarColumn(bar_width=None),
            rich_progress.TextColumn("{task.fields[line]}", markup=False),
            expand=True,
            transient=True,
            refresh_per_second=1 / SECONDS_BETWEEN_FRAMES,
        )
        self._last = 0.0
        self._task = self._progress.add_task("compiling", total=1.0, line="")

    def __enter__(self) -> Live:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def show(self, report: ProgressReport) -> None:
        """Update the bar, if an update is due."""
        if time.perf_counter() - self._last < SECONDS_BETWEEN_FRAMES:
            return
        self._last = time.perf_counter()
        line = " ".join(report.fields())
        self._progress.update(self._task, completed=report.done, description=epoch_of(report), line=line)

    def line(self, text: str) -> None:
        """Print a permanent line."""
        self._progress.console.print(text, markup=False, highlight=False)


class NoScreen:
    """The screen of a rank other than 0, which shows nothing."""

    def __enter__(self) -> NoScreen:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def show(self, report: ProgressReport) -> None:
        """Show nothing."""

    def line(self, text: str) -> None:
        """Print nothing."""


class Pace:
    """The pace of updates, from their recent times."""

    def __init__(self, step: int) -> None:
        self._marks = deque([(time.perf_counter(), step)], maxlen=100)

    def advance(self, step: int) -> tuple[float, float]:
        """The seconds since the last mark, and the updates per second over the recent marks."""
        now = time.perf_counter()
        since = now - self._marks[-1][0]
        self._marks.append((now, step))
        (start, first), (end, last) = self._marks[0], self._marks[-1]
        return since, (last - first) / (end - start) if end > start else 0.0


def screen() -> Lines | Live | NoScreen:
    """The screen that suits the output; of several ranks only the first prints lines, which a launcher passes on."""
    if current.rank:
        return NoScreen()
    if current.size > 1 or not sys.stdout.isatty():
        return Lines()
    try:
        import rich.progress
    except ImportError:
        return Lines()
    return Live(rich.progress)


# --- words ----------------------------------------------------------------------------------------------------------


def epoch_of(report: ProgressReport) -> str:
    """The current epoch."""
    return f"epoch {report.epoch:{len(str(report.epochs))}}/{report.epochs}"


def summary(report: ProgressReport, kind: str, tested: Mapping[str, float], seconds: float) -> str:
    """The line about a finished epoch, with the results on data of a kind, "test" or "validation"."""
    parts = [epoch_of(report)]
    for name, value in report.values.items():
        test = f" ({kind} {shown(name, tested[name])})" if name in tested else ""
        parts.append(f"{name} {shown(name, value)}{test}")
    return "  ".join([*parts, f"{seconds:.2f} s" if seconds < 10 else clock(seconds)])


def shown(name: str, value: float) -> str:
    """A metric formatted for reading: accuracies as percentages."""
    return f"{value:.2%}" if name == "accuracy" else f"{value:.4f}"


def counted(number: float) -> str:
    """A count with its noun.

    >>> counted(950.4), counted(12_345.0)
    ('950', '12.3k')
    """
    return f"{number:.0f}" if number < 1000 else f"{number / 1000:.1f}k"


def clock(seconds: float) -> str:
    """A duration, formatted.

    >>> clock(75), clock(3700)
    ('1:15', '1:01:40')
    """
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def memory(device: str = HOST) -> str:
    """The memory in use on a GPU, or by the process."""
    if not is_host(device):
        on_gpu = wg.cuda.memory(device)
        held = on_gpu.live + on_gpu.arena
    else:
        held = _resident()
    return f"{held / 1e6:.0f} MB" if held < 1e9 else f"{held / 1e9:.1f} GB"


def _resident() -> int:
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
