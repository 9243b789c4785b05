"""`wengert launch` as a test starts it: in a process of its own, of which nothing is left behind the test."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

from wengert.distributed import processes

ROOT = Path(__file__).parents[2]
PATIENCE = 120.0  # seconds that a busy machine may take for anything
QUICK = 6.0
"""Seconds from a loss to the end of all, by the stopwatch: 1.8 of the launcher's at most, and 2 of the stopwatch's."""

ALL_MAY_RAISE = ("--grace", "60")
"""For a launch whose ranks have to say something when one is lost: a busy machine may need more than a second."""


class Launch:
    """A launch under way."""

    def __init__(self, folder: Path, arguments: tuple[str, ...], environment: Mapping[str, str]) -> None:
        self.mark = os.urandom(8).hex()
        self.output = folder / f"output-{self.mark}.txt"
        search = os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")])
        settings = {"PYTHONPATH": search, "LAUNCH_MARK": self.mark, "OMP_NUM_THREADS": "1", **environment}
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "wengert.cli", "launch", *arguments],
                env={**os.environ, **settings},
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=folder,
            )

    def text(self) -> str:
        """What was written so far."""
        return self.output.read_text()

    def says(self, word: str, count: int = 1) -> None:
        """Wait until a word was written so many times."""
        until = time.monotonic() + PATIENCE
        while self.text().count(word) < count:
            assert self.process.poll() is None and time.monotonic() < until, f"no {word!r} in:\n{self.text()}"
            time.sleep(0.01)

    def status(self) -> int:
        """The exit status of a launch that has to end."""
        return self.process.wait(PATIENCE)

    def left(self) -> list[int]:
        """The processes of this launch that still run."""
        return processes.with_variable("LAUNCH_MARK", self.mark)


@contextmanager
def launched(folder: Path, *arguments: object, **environment: str) -> Iterator[Launch]:
    """A launch, all of whose processes are gone behind the block."""
    launch = Launch(folder, tuple(map(str, arguments)), environment)
    try:
        yield launch
    finally:
        for pid in launch.left():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        launch.process.wait(PATIENCE)
