"""The exercise `vmap`: batching rules for a small language."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from wengert.learn.exercises.exercise import Case, Cases, Check, Exercise, files_in
from wengert.learn.exercises.reference import drawn

HERE = Path(__file__).parent
GAPS = {
    "homework/vmap.py": ("to_front", "unary", "add", "total", "transpose", "matmul", "take", "run", "_rank", "_aligned")
}

Batched = tuple[Any, int | None]
Function = Callable[..., Any]


def _batched(rng: np.random.Generator, count: int, shape: tuple[int, ...], axis: int | None) -> Batched:
    """Examples of a shape along an axis, or one array for all of them."""
    if axis is None:
        return drawn(rng, *shape), None
    return np.moveaxis(drawn(rng, count, *shape), 0, axis), axis


def _one_by_one(function: Function, operands: list[Batched], count: int) -> Batched:
    """What the examples give one after the other, stacked."""
    if all(axis is None for _, axis in operands):
        return function(*(array for array, _ in operands)), None
    examples = [[array if axis is None else np.take(array, k, axis) for array, axis in operands] for k in range(count)]
    return np.stack([function(*each) for each in examples]), 0


def rules(
    name: str, function: Function, shapes: list[tuple[tuple[int, ...], ...]], *extra: Any, first: Any = ()
) -> Cases:
    """A rule with each combination of axes."""

    def cases(rng: np.random.Generator) -> Iterator[Case]:
        for each in shapes:
            for axes in _combinations(each):
                operands = [_batched(rng, 3, shape, axis) for shape, axis in zip(each, axes)]
                expected = _one_by_one(lambda *arrays: function(*arrays, *extra), operands, 3)
                yield Case((name, *first, *operands, *extra), expected, f"shapes {each} of an example, axes {axes}")

    return cases


def _combinations(shapes: tuple[tuple[int, ...], ...]) -> Iterator[tuple[int | None, ...]]:
    options = [(None, 0, len(shape)) if shape else (None, 0) for shape in shapes]
    if len(options) == 1:
        yield from ((axis,) for axis in options[0])
    else:
        yield from ((a, b) for a in options[0] for b in options[1])


def totals(rng: np.random.Generator) -> Iterator[Case]:
    """Sums along positive and negative axes."""
    for axis in (0, 1, -1, -2):
        yield from rules("total", lambda x, a: x.sum(axis=a), [((4, 5),)], axis)(rng)


def takes(rng: np.random.Generator) -> Iterator[Case]:
    """Rows of arrays, with the same index for all examples and with one for each."""
    for axis in (None, 0, 1):
        x = _batched(rng, 3, (4, 2), axis)
        for index in ((np.array(2), None), (rng.integers(0, 4, 3), 0)):
            expected = _one_by_one(lambda x, i: x[int(i)], [x, index], 3)
            yield Case(("take", x, index), expected, f"examples of x on axis {axis}, of the index on {index[1]}")


_OPS: dict[str, Function] = {
    "sin": np.sin,
    "exp": np.exp,
    "add": lambda a, b: a + b,
    "total": lambda x, axis: x.sum(axis=axis),
    "transpose": lambda x: x.T,
    "matmul": lambda a, b: a @ b,
    "take": lambda x, i: x[int(i)],
}


def _run(program: list[tuple[Any, ...]], arrays: tuple[Any, ...]) -> Any:
    values = list(arrays)
    for op, *operands in program:
        if op == "total":
            values.append(_OPS[op](values[operands[0]], operands[1]))
        else:
            values.append(_OPS[op](*(values[k] for k in operands)))
    return values[-1]


def programs(rng: np.random.Generator) -> Iterator[Case]:
    """Programs with shared and batched inputs."""
    layer = [("matmul", 0, 1), ("add", 3, 2), ("sin", 4), ("total", 5, -1), ("exp", 6)]
    for axes in ((0, None, None), (None, 0, None), (0, 2, 1), (1, 1, 0), (None, None, None)):
        inputs = [_batched(rng, 3, shape, axis) for shape, axis in zip(((2, 4), (4, 5), (5,)), axes)]
        expected = _one_by_one(lambda *arrays: _run(layer, arrays), inputs, 3)
        yield Case((layer, inputs), expected, f"a layer, with its input, weight and bias batched along {axes}")
    lookup: list[tuple[Any, ...]] = [("take", 0, 1), ("transpose", 0), ("matmul", 0, 3), ("total", 4, 0), ("add", 5, 2)]
    for table in (None, 0):
        inputs = [_batched(rng, 3, (4, 4), table), (rng.integers(0, 4, 3), 0)]
        expected = _one_by_one(lambda *arrays: _run(lookup, arrays), inputs, 3)
        yield Case((lookup, inputs), expected, f"a lookup in a table that is batched along {table}")


def many(rng: np.random.Generator) -> Iterator[Case]:
    """So many examples that a loop over them takes too long."""
    count = 200_000
    x = (drawn(rng, count, 2, 2), 0)
    program = [("matmul", 0, 0), ("sin", 1), ("total", 2, 0)]
    yield Case((program, [x]), (np.sin(x[0] @ x[0]).sum(axis=1), 0), f"{count:,} examples")


EXERCISE = Exercise(
    name="vmap",
    title="Batching rules",
    lecture="Transformations of programs",
    lesson="Wengert in one file",
    minutes=60,
    marks=15,
    allowed_imports=("numpy", "typing", "math"),
    files=files_in(HERE / "handout"),
    submission=tuple(GAPS),
    probes=(HERE / "probes.py").read_text(encoding="utf-8"),
    checks=(
        Check("unary", "rule", rules("unary", np.sin, [((4,),), ((),), ((2, 3),)], first=("sin",)), 1),
        Check("add: the same rank", "rule", rules("add", lambda a, b: a + b, [((4,), (4,)), ((2, 3), (2, 3))]), 2),
        Check(
            "add: different ranks",
            "rule",
            rules("add", lambda a, b: a + b, [((2, 3), (3,)), ((), (2, 3)), ((3, 1), (4,))]),
            3,
        ),
        Check("total, along positive and negative axes", "rule", totals, 2),
        Check("transpose", "rule", rules("transpose", lambda x: x.T, [((4,),), ((2, 3),), ((2, 3, 4),)]), 2),
        Check("matmul", "rule", rules("matmul", lambda a, b: a @ b, [((2, 3), (3, 4))]), 2),
        Check("take", "rule", takes, 2),
        Check("run", "run", programs, 3),
        Check("200,000 examples without a loop", "run", many, 1),
    ),
    questions=(
        "Why does `add` need the ranks of an example, and not only the shapes of the arrays?",
        "What is the rule for `vmap` of a function that is itself a `vmap`?",
    ),
)
