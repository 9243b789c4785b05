"""Checks your work on the cases beside this file: python autograder/runner.py

It prints a line for each check, and what was wrong. What you hand in is graded on other cases, which you do not see:
zeros, ties, other shapes. The last line has your marks here in the form that Autolab reads.
"""

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE)]


def main() -> int:
    """Run all checks; 0 if every one passes."""
    wire, probes = _load("wire"), _load("probes")
    exercise = json.loads((HERE / "cases.json").read_text(encoding="utf-8"))
    scores: dict = {}
    for check in exercise["checks"]:
        problem = ""
        for case in check["cases"]:
            inputs, expected = wire.from_plain(case["inputs"]), wire.from_plain(case["expected"])
            problem = _problem(wire, probes, check, inputs, expected, case["is_refused"])
            if problem:
                problem += f"\n({case['note']})" if case["note"] else ""
                break
        marks = 0 if problem else check["marks"]
        scores[check["group"]] = scores.get(check["group"], 0) + marks
        print(f"{'FAIL' if problem else 'ok  '}  {marks:>5g}/{check['marks']:<5g}  {check['title']}")
        for line in problem.splitlines():
            print(f"        {line}")
    total = sum(scores.values())
    print(f"\n{total:g} of {exercise['marks']:g} marks on these cases\n")
    print(json.dumps({"scores": scores}))
    return 0 if total == exercise["marks"] else 1


def _problem(wire, probes, check, inputs, expected, is_refused) -> str:
    """What is wrong with one case; nothing if it is right."""
    try:
        found = wire.from_plain(wire.to_plain(getattr(probes, check["probe"])(*inputs)))
    except Exception as error:
        is_right = is_refused and not isinstance(error, NotImplementedError)
        return "" if is_right else f"{type(error).__name__}: {error}"
    if is_refused:
        return "this should raise an error, and does not"
    if _agree(found, expected, check["rtol"], check["atol"]):
        return ""
    return f"the result is\n{found}\nand should be\n{expected}"


def _agree(found, expected, rtol, atol) -> bool:
    if isinstance(expected, dict):
        has_parts = isinstance(found, dict) and list(found) == list(expected)
        return has_parts and all(_agree(found[key], expected[key], rtol, atol) for key in expected)
    if isinstance(expected, tuple):
        is_tuple = isinstance(found, tuple) and len(found) == len(expected)
        return is_tuple and all(_agree(a, b, rtol, atol) for a, b in zip(found, expected))
    if expected is None or isinstance(expected, str):
        return bool(found == expected) if type(found) is type(expected) else False
    if isinstance(found, (str, tuple, dict)) or found is None or np.shape(found) != np.shape(expected):
        return False
    return bool(np.allclose(found, expected, rtol=rtol, atol=atol, equal_nan=True))


def _load(name):
    """A module beside this file."""
    spec = importlib.util.spec_from_file_location(name, HERE / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    sys.exit(main())
