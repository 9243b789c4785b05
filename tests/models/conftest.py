"""The line at the end that says how much of the models was compared with torch."""

from __future__ import annotations

import importlib.util
from typing import Any

# references in torch: what uses them skips where it is missing
collect_ignore = [] if importlib.util.find_spec("torch") else ["compare.py", "torch_references.py"]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Add up what the tests noted as `compared`; reports come back from all of xdist's processes."""
    reports = [r for r in terminalreporter.stats.get("passed", []) if r.when == "call" and "tests/models/" in r.nodeid]
    counts = [value for r in reports for key, value in r.user_properties if key == "compared"]
    if counts:
        tensors, numbers = (sum(column) for column in zip(*counts))
        terminalreporter.write_line(f"models beside torch: {tensors} tensors, {numbers} numbers compared to 1e-9")
