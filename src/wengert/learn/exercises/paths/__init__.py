"""The exercise `paths`: the chain rule as a sum over paths, and the same sum in one walk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from wengert.learn.exercises.exercise import Case, Cases, Check, Exercise, files_in

HERE = Path(__file__).parent
GAPS = {"homework/paths.py": ("by_paths", "count_paths", "adjoints", "tangents")}

Edges = list[tuple[int, int, float]]


def _drawn(rng: np.random.Generator, values: int, edges: int) -> Edges:
    """A random graph in random order, perhaps with several edges between two values."""
    found = []
    for _ in range(edges):
        source = int(rng.integers(0, values - 1))
        found.append((source, int(rng.integers(source + 1, min(values, source + 4))), float(rng.uniform(-1.5, 1.5))))
    return [found[k] for k in rng.permutation(edges)]


def _diamonds(rng: np.random.Generator, count: int) -> Edges:
    """A chain in which each value is computed from the one before in two ways: 2 to the power `count` paths."""
    edges = [(3 * k + i, 3 * k + j, 1.0) for k in range(count) for i, j in ((0, 1), (0, 2), (1, 3), (2, 3))]
    edges = [(a, b, float(rng.choice([0.5, -0.5, 0.9]))) for a, b, _ in edges]
    return [edges[k] for k in rng.permutation(len(edges))]


def _matrix(edges: Edges, values: int) -> Any:
    """The local derivatives as a matrix; two edges between the same values add up."""
    local = np.zeros((values, values))
    for source, target, slope in edges:
        local[target, source] += slope
    return local


def _all_derivatives(edges: Edges, values: int) -> Any:
    """Of each value with respect to each: 1 + L + L² + ..., a sum over the lengths of paths."""
    return np.linalg.inv(np.eye(values) - _matrix(edges, values))


def _graphs(rng: np.random.Generator) -> Iterator[tuple[Edges, int, str]]:
    for values, edges in ((5, 6), (8, 14), (10, 24)):
        yield _drawn(rng, values, edges), values, f"a drawn graph of {values} values and {edges} edges"
    yield _diamonds(rng, 3), 10, "a chain of 3 diamonds"
    yield [(0, 1, 2.0), (0, 1, -0.75), (1, 2, 3.0)], 3, "two edges between the same two values"
    yield [(0, 2, 1.5)], 3, "a value that nothing depends on"


def by_paths(rng: np.random.Generator) -> Iterator[Case]:
    """Derivatives along all paths."""
    for edges, values, note in _graphs(rng):
        derivatives = _all_derivatives(edges, values)
        for source, result in ((0, values - 1), (1, values - 1), (values - 1, values - 1), (values - 1, 0)):
            yield Case(("by_paths", edges, source, result), derivatives[result, source], note)


def counts(rng: np.random.Generator) -> Iterator[Case]:
    """Numbers of paths, small and enormous."""
    for edges, values, note in _graphs(rng):
        ones = [(a, b, 1.0) for a, b, _ in edges]
        expected = round(float(_all_derivatives(ones, values)[values - 1, 0]))
        yield Case(("count_paths", edges, 0, values - 1), expected, note)
    many = int(rng.integers(40, 52))
    yield Case(("count_paths", _diamonds(rng, many), 0, 3 * many), 2**many, f"a chain of {many} diamonds")


def walks(name: str, pick: Callable[[Any, int], Any]) -> Cases:
    """Derivatives by one walk, on graphs with more paths than can be listed too."""

    def cases(rng: np.random.Generator) -> Iterator[Case]:
        for edges, values, note in _graphs(rng):
            for end in (0, values // 2, values - 1):
                expected = pick(_all_derivatives(edges, values), end)
                yield Case((name, edges, end, values), tuple(map(float, expected)), note)
        count = int(rng.integers(60, 80))
        edges, values = _diamonds(rng, count), 3 * count + 1
        end = values - 1 if name == "adjoints" else 0
        yield Case((name, edges, end, values), tuple(pick(_all_derivatives(edges, values), end)), f"{count} diamonds")

    return cases


EXERCISE = Exercise(
    name="paths",
    title="The chain rule: a sum over paths",
    lecture="Recitation 3: the chain rule",
    lesson="The chain rule and sums over paths",
    minutes=30,
    marks=10,
    allowed_imports=("math", "typing", "collections", "itertools", "functools"),
    files=files_in(HERE / "handout"),
    submission=tuple(GAPS),
    probes=(HERE / "probes.py").read_text(encoding="utf-8"),
    checks=(
        Check("by_paths: products along paths, and their sum", "call", by_paths, 3),
        Check("count_paths, also where there are too many to list", "call", counts, 2),
        Check("adjoints: one walk from the result", "call", walks("adjoints", lambda all_, end: all_[end]), 3),
        Check("tangents: one walk from the source", "call", walks("tangents", lambda all_, end: all_[:, end]), 2),
    ),
    questions=(
        "How many multiplications do `by_paths` and `adjoints` do for a chain of n diamonds?",
        "When would you walk from the source, and when from the result?",
    ),
)
