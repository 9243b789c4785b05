"""What comparing takes that a compiled function does at every call: its guards, the best of many rounds.

python benchmarks/guards.py [--rounds 300]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from time import perf_counter
from types import SimpleNamespace
from typing import Any

import wengert as wg

PLACES = 150
CALLS = 200  # in a round


class Weights:
    """Three numbers."""

    def __init__(self, start: float) -> None:
        self.a, self.b, self.c = start, start + 0.25, start + 0.5


objects = [Weights(float(i)) for i in range(PLACES // 3)]
numbers = [float(i) for i in range(PLACES)]
table = {f"k{i}": float(i) for i in range(PLACES)}
holder = SimpleNamespace(**table)


def over_objects(x: wg.Tensor) -> wg.Tensor:
    """Three attributes of each of fifty objects in a list."""
    total = 0.0
    for one in objects:
        total += one.a + one.b + one.c
    return x * total


CASES: dict[str, Callable[..., Any]] = {
    f"{PLACES} attributes of {PLACES // 3} objects in a list": over_objects,
    f"{PLACES} attributes of one, by a table of names": lambda x: x * sum(getattr(holder, name) for name in table),
    f"{PLACES} numbers of a list": lambda x: x * sum(numbers),
    f"{PLACES} items of a dictionary": lambda x: x * sum(table.values()),
}


def microseconds(function: Callable[..., Any], rounds: int) -> tuple[float, int]:
    """The least that one comparison took, and how many places it has."""
    compiled = wg.compile(function)
    compiled(wg.ones(3))
    guards = compiled._newest("guards").guards
    best = float("inf")
    for _ in range(rounds):
        start = perf_counter()
        for _ in range(CALLS):
            guards.changed()
        best = min(best, (perf_counter() - start) / CALLS)
    return best * 1e6, guards.places


def main() -> None:
    """Print a line for each case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=300)
    rounds = parser.parse_args().rounds
    for name, function in CASES.items():
        spent, places = microseconds(function, rounds)
        print(f"{name:46} {spent:6.2f} us, {places} places compared")


if __name__ == "__main__":
    main()
