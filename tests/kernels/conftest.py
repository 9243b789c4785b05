"""The lines at the end that say how far the C functions were from their references, at worst."""

from __future__ import annotations

from typing import Any


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """List what the tests noted as `ulp`; reports come back from all of xdist's processes."""
    reports = [r for r in terminalreporter.stats.get("passed", []) if r.when == "call"]
    noted = [value for r in reports for key, value in r.user_properties if key == "ulp"]
    for kind in ("float32", "float64"):
        worst = sorted(((error, name) for name, dtype, error in noted if dtype == kind), reverse=True)
        if worst:
            listed = ", ".join(f"{name} {error:.1f}" for error, name in worst)
            terminalreporter.write_line(f"C mathematics in {kind}, worst ulp: {listed}")
