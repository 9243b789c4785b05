"""What all ranks must agree on before they continue, such as the program that they are about to run.

Ranks send digests. Only if they differ, two ranks are asked for descriptions, and the first difference is shown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from wengert.distributed.reports import listed


@dataclass(frozen=True)
class Verdict:
    """The outcome of a comparison: all equal, or the ranks to ask for descriptions."""

    same: bool
    ask: tuple[int, ...] = ()


@dataclass
class _Question:
    said: dict[int, tuple[str, str]] = field(default_factory=dict)  # key and digest of each rank
    ask: tuple[int, ...] = ()
    lines: dict[int, list[str]] = field(default_factory=dict)


class Agreements:
    """The comparisons of a job: the n-th comparisons of all ranks are matched, whatever they are about."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._questions: dict[int, _Question] = {}

    def add(self, rank: int, number: int, key: str, digest: str) -> Verdict | None:
        """Add a rank's digest; returns a verdict after the last one."""
        question = self._questions.setdefault(number, _Question())
        question.said[rank] = (key, digest)
        if len(question.said) < self._size:
            return None
        usual = _usual(question.said)
        others = [r for r in sorted(question.said) if question.said[r] != question.said[usual]]
        if not others:
            del self._questions[number]
            return Verdict(True)
        question.ask = tuple(sorted((usual, others[0])))
        return Verdict(False, question.ask)

    def described(self, rank: int, number: int, lines: list[str]) -> tuple[str, list[int]] | None:
        """Add a rank's description; once both have arrived, returns the text of the difference and the two ranks."""
        question = self._questions[number]
        question.lines[rank] = lines
        if not all(r in question.lines for r in question.ask):
            return None
        return _text(question), list(question.ask)


def _usual(said: dict[int, tuple[str, str]]) -> int:
    """The lowest rank of the largest group that agrees."""
    counts = Counter(said.values())
    return min(said, key=lambda rank: (-counts[said[rank]], rank))


def _text(question: _Question) -> str:
    first, second = question.ask
    key, other = question.said[first][0], question.said[second][0]
    about = key if key == other else f"{key}; {other}"
    place, pair = difference(question.lines[first], question.lines[second])
    sides = [[r for r in sorted(question.said) if question.said[r] == question.said[rank]] for rank in question.ask]
    lines = [
        (f"{listed(sides[0])} and {listed(sides[1])} would run different programs ({about}), starting at line {place}:")
    ]
    lines += [f"rank {rank}: {line}" for rank, line in zip(question.ask, pair)]
    return "\n  ".join([*lines, "Nothing was sent yet. Every rank must run the same program on the same shapes"])


def difference(first: Sequence[str], second: Sequence[str]) -> tuple[int, tuple[str, str]]:
    """The number of the first line in which two descriptions differ, and both versions of it.

    >>> difference(["add", "exp"], ["add", "log"])
    (2, ('exp', 'log'))
    """
    end = "(its program has no such line)"
    for number, pair in enumerate(zip_longest(first, second, fillvalue=end), start=1):
        if pair[0] != pair[1]:
            return number, pair
    same = "(the same description, but a different digest)"
    return len(first) + 1, (same, same)
