"""The log of a run: one JSON object per line in `log.jsonl`, and TensorBoard event files beside it."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from wengert.train.events import EventFile


class NoLog:
    """The log of a rank other than 0, which writes nothing."""

    def note(self, kind: str, step: int, values: Mapping[str, Any]) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""


class Log:
    """Logs numbers by step. A resumed run continues in the same file."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._lines = (folder / "log.jsonl").open("a", encoding="utf-8")
        self._events = EventFile(folder)
        self._start = time.perf_counter()

    def note(self, kind: str, step: int, values: Mapping[str, Any]) -> None:
        """Log numbers of a kind ("train", "test") at a step."""
        seconds = round(time.perf_counter() - self._start, 3)
        self._lines.write(json.dumps({"kind": kind, "step": step, "seconds": seconds, **values}) + "\n")
        self._lines.flush()
        numbers = {f"{kind}/{name}": value for name, value in values.items() if isinstance(value, (int, float))}
        self._events.add(step, numbers)

    def close(self) -> None:
        """Close the files."""
        self._lines.close()
        self._events.close()
