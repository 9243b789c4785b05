"""Runs the checks of an exercise. It is handed out beside them, and needs nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def run_checks(names: Mapping[str, Any]) -> int:
    """Run what is named `test_...`, print a line for each and the score; 0 if all pass."""
    checks = [value for name, value in names.items() if name.startswith("test_")]
    passed = 0
    for check in checks:
        problem = ""
        try:
            check()
            passed += 1
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        print(f"{'ok  ' if not problem else 'FAIL'}  {check.__doc__}")
        for line in problem.splitlines():
            print(f"        {line}")
    print(f"\n{passed} of {len(checks)} points")
    return 0 if passed == len(checks) else 1
