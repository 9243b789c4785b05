"""Cases: small programs, many to a file, each with something outside of the function that changes between calls.

A file in `cases/` is a family. It begins with imports that all of its cases share, and each case begins with a line

    # case: NAME -> EXPECTED (OPTIONS)

The lines below it are run as a module of their own, at their own line numbers, so that what they define is as a user's
script has it: functions and globals of a module, with a source file. A case defines

    f         the function that is compiled
    plain     the function to compare with, where that is not f itself
    args      its arguments; a small vector where they are not given
    change    alters what f reads
    each      what the caller does between calls
    effect    for functions that change something: what can be seen of that from outside
    undo      for effects that happen once (a sort): takes it back, so that the next call is to do it again

EXPECTED is `follows` unless given. The options are `long` (tried after 1,030 calls too) and `fresh` (no two calls of
the plain function give the same: the clock).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CodeType, ModuleType
from typing import Any

import numpy as np

import wengert as wg

FOLDER = Path(__file__).parent / "cases"
CORRECT = "correct"
"""How families of programs begin that have nothing outside that changes."""

_MARKER = re.compile(r"# case: (?P<name>.+?)(?: -> (?P<expected>[\w ,]+?))?(?: \((?P<options>[\w ,]+)\))?$")
_numbers = count()


@dataclass(frozen=True)
class Case:
    """A small program: where it stands, what is expected of it."""

    family: str
    name: str
    expected: tuple[str, ...]
    options: tuple[str, ...]
    path: Path
    header: CodeType
    lines: range  # its line numbers in the file
    body: CodeType

    @property
    def is_correct(self) -> bool:
        """Whether there is nothing outside that changes."""
        return "runs" in self.expected

    @property
    def id(self) -> str:
        """What the case is called in reports."""
        return f"{self.family}: {self.name}"

    def load(self) -> World:
        """The program, made anew: nothing of an earlier one is shared."""
        module = ModuleType(f"honesty_{self.family}_{next(_numbers)}")
        module.__file__ = str(self.path)
        sys.modules[module.__name__] = module  # where dataclasses look for the module of a class
        for code in (self.header, self.body):
            exec(code, module.__dict__)
        return World(module)


class World:
    """A case's program at work: its function, its arguments, and what changes them."""

    def __init__(self, module: ModuleType) -> None:
        self.module = module
        self._vector = (wg.tensor(np.array([1.0, 2.0, 3.0])),)
        self.f: Callable[..., Any] = module.f
        self.plain: Callable[..., Any] = getattr(module, "plain", module.f)
        self.change: Callable[[], Any] | None = getattr(module, "change", None)
        self.each: Callable[[], Any] | None = getattr(module, "each", None)
        self.effect: Callable[[], Any] | None = getattr(module, "effect", None)
        self.undo: Callable[[], Any] | None = getattr(module, "undo", None)

    @property
    def arguments(self) -> tuple[Any, ...]:
        """What the function is called with now."""
        return getattr(self.module, "args", self._vector)

    def close(self) -> None:
        """Let go of the module, and of the folders that it has made."""
        for value in vars(self.module).values():
            if type(value) is TemporaryDirectory:  # isinstance would ask the value itself
                value.cleanup()
        sys.modules.pop(self.module.__name__, None)


def cases() -> list[Case]:
    """All cases, family by family."""
    return [case for path in sorted(FOLDER.glob("*.py")) for case in _cases_of(path)]


def _cases_of(path: Path) -> Iterator[Case]:
    """The cases of a file."""
    lines = path.read_text().splitlines()
    starts = [i for i, line in enumerate(lines) if line.startswith("# case:")]
    header = compile("\n".join(lines[: starts[0]]), str(path), "exec")
    for start, stop in zip(starts, [*starts[1:], len(lines)]):
        marker = _MARKER.match(lines[start])
        assert marker, f"{path}:{start + 1}: not a marker of a case: {lines[start]}"
        expected = marker["expected"] or ("runs" if path.stem.startswith(CORRECT) else "follows")
        # Empty lines above, so that the code has the line numbers of the file.
        body = compile("\n" * start + "\n".join(lines[start:stop]), str(path), "exec")
        yield Case(
            path.stem,
            marker["name"],
            tuple(expected.split(" or ")),
            tuple((marker["options"] or "").split(", ")),
            path,
            header,
            range(start + 1, stop + 1),
            body,
        )
