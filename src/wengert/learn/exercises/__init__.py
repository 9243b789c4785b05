"""The exercises, a folder each: what students get, probes that run beside what they hand in, and hidden cases.

`find` returns an exercise by its name, `names` lists all of them. `exercise` says what an exercise consists of.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from wengert.core.errors import ArgumentError
from wengert.learn.exercises.exercise import REFUSED, Case, Check, Exercise, files_in

__all__ = ["Case", "Check", "Exercise", "REFUSED", "files_in", "find", "names"]


def names() -> list[str]:
    """The names of all exercises."""
    return sorted(path.parent.name for path in Path(__file__).parent.glob("*/__init__.py"))


def find(name: str) -> Exercise:
    """The exercise of this name."""
    if name not in names():
        raise ArgumentError(f"learn: there is no exercise {name!r}; there are {', '.join(names())}")
    exercise: Exercise = import_module(f"{__name__}.{name}").EXERCISE
    return exercise
