"""Compares an answer of a submission with what the grader expects: in the grader's process, by the grader's NumPy.

`complaint` returns what is wrong, in the words that the student reads, or an empty string.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wengert.learn.exercises.exercise import Case, Check, Refused


def complaint(check: Check, case: Case, answer: dict[str, Any]) -> str:
    """What is wrong with the answer to a case; nothing if it is right."""
    problem = _problem(check, case, answer)
    return f"{problem}\n({case.note})" if problem and case.note else problem


def _problem(check: Check, case: Case, answer: dict[str, Any]) -> str:
    error = answer.get("error")
    if isinstance(case.expected, Refused):
        refused = isinstance(error, dict) and error.get("type") != "NotImplementedError"
        return "" if refused else _told(error) or "this should raise an error, and does not"
    if error is not None:
        return _told(error)
    if case.judge is not None:
        try:
            return case.judge(answer["value"])
        except Exception as reason:  # an answer of another form than the judge reads
            return f"the answer has another form than it should: {type(reason).__name__}: {reason}"
    return difference(answer["value"], case.expected, check.rtol, check.atol, "the result")


def _told(error: Any) -> str:
    if not isinstance(error, dict):
        return ""
    line = f"  [{error['line']}]" if error.get("line") else ""
    return printable(f"{error.get('type')}: {error.get('text')}{line}")


def printable(text: str, most: int = 2000) -> str:
    """A text from a submission without what moves the cursor, and not too long: it is shown in a terminal."""
    clean = "".join(letter if letter.isprintable() or letter == "\n" else "?" for letter in text[:most])
    return "\n".join(clean.splitlines()[:30])


def difference(found: Any, expected: Any, rtol: float, atol: float, what: str) -> str:
    """How a tree of arrays differs from the one it should be; nothing if it does not."""
    if isinstance(expected, dict):
        if not isinstance(found, dict) or list(found) != list(expected):
            return f"{what} should have the parts {', '.join(expected)}, and is {_shown(found)}"
        parts = [difference(found[key], expected[key], rtol, atol, key) for key in expected]
        return next((part for part in parts if part), "")
    if isinstance(expected, (tuple, list)):
        if not isinstance(found, tuple) or len(found) != len(expected):
            return f"{what} should be {len(expected)} values, and is {_shown(found)}"
        pairs = zip(found, expected)
        parts = [difference(a, b, rtol, atol, f"value {k + 1} of {what}") for k, (a, b) in enumerate(pairs)]
        return next((part for part in parts if part), "")
    if expected is None or isinstance(expected, str):
        return "" if type(found) is type(expected) and found == expected else _both(what, found, expected)
    return _array_difference(found, np.asarray(expected), rtol, atol, what)


def _array_difference(found: Any, expected: Any, rtol: float, atol: float, what: str) -> str:
    if not isinstance(found, (np.ndarray, int, float)):
        return _both(what, found, expected)
    found = np.asarray(found)
    if found.dtype.kind not in "biufc":
        return _both(what, found, expected)
    if found.shape != expected.shape:
        return f"{what} has shape {found.shape}, not {expected.shape}"
    with np.errstate(all="ignore"):
        agrees = np.allclose(found, expected, rtol=rtol, atol=atol, equal_nan=True)
    return "" if agrees else _both(what, found, expected)


def _both(what: str, found: Any, expected: Any) -> str:
    return f"{what} is\n{_shown(found)}\nand should be\n{_shown(expected)}"


def _shown(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return np.array2string(value, precision=6, threshold=60, edgeitems=2)
    text = repr(value)
    return text if len(text) <= 300 else text[:300] + " ..."
