"""What all tests share: the line at the end that says how much of the library the op suite covered."""

from __future__ import annotations

from typing import Any

SUITE = "test_every_op.py::test_"


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Count the suite's cases and checks from the reports, which come back from all of xdist's processes."""
    reports = [r for r in terminalreporter.stats.get("passed", []) if r.when == "call" and SUITE in r.nodeid]
    checked = [r.nodeid.split("[", 1)[1] for r in reports if "[" in r.nodeid]
    if not checked:
        return
    functions = {case.split("(", 1)[0] for case in checked}
    reached = [value for r in reports for key, value in r.user_properties if key == "primitives"]
    primitives = f"{reached[0]} primitives, " if reached else ""
    counts = f"{len(functions)} public functions, {primitives}{len(set(checked))} cases, {len(checked)} checks passed"
    terminalreporter.write_line(f"every op: {counts}")
