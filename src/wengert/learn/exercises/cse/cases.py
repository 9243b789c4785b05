"""Programs for the checks of `cse`, drawn so that it is known how many lines have to be left.

A program is drawn together with what each of its lines stands for: a line either computes something new, or repeats a
line before it. So the right number of lines is known without a pass, and values are compared by running both programs.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from wengert.learn.exercises.exercise import Case

Line = tuple[str, str, tuple[Any, ...]]
INPUTS = {"x0": 0.75, "x1": -1.25, "x2": 2.5}


def run(lines: Any, outputs: Any) -> list[float]:
    """A program's outputs."""
    values: dict[str, float] = dict(INPUTS)
    for name, op, operands in lines:
        values[name] = _computed(name, op, operands, values)
    return [values[output] for output in outputs]


def _computed(name: str, op: str, operands: Any, values: dict[str, float]) -> float:
    if op == "constant":
        return float(operands[0])
    if op == "random":
        return zlib.crc32(name.encode()) / 2**32
    numbers = [values[operand] for operand in operands]
    with np.errstate(all="ignore"):
        a = np.float64(numbers[0])
        if op in ("sin", "exp"):
            return float(getattr(np, op)(a))
        return float(getattr(np, op)(a, np.float64(numbers[1])))


def judged(names: tuple[str, ...], lines: list[Line], outputs: list[str], left: int, note: str) -> Case:
    """A case whose answer is a program with the same outputs, to the last bit, and this many lines."""
    expected = {
        "the outputs": tuple(run(lines, outputs)),
        "the number of lines": left,
        "the given program": "unchanged",
    }
    return Case((names, [list(line) for line in lines], outputs, INPUTS), expected, note)


class _Drawing:
    """A program as it is drawn: what is computed so far, and by which names it goes."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.lines: list[Line] = []
        self.names: list[list[str]] = [[name] for name in INPUTS]  # of each distinct value
        self.made: dict[Any, int] = {}
        self.unique: list[tuple[str, tuple[int, ...]]] = []

    def pick(self, count: int) -> int:
        """One of the latest values."""
        return int(self.rng.integers(max(0, len(self.names) - count), len(self.names)))

    def name_of(self, value: int) -> str:
        """One of the names of a value."""
        return str(self.rng.choice(self.names[value]))

    def new(self) -> None:
        """A line whose value is a new one."""
        while True:
            op = str(self.rng.choice(["add", "multiply", "subtract", "sin", "exp"]))
            operands = (self.pick(6),) if op in ("sin", "exp") else (self.pick(6), self.pick(6))
            key = (op, tuple(sorted(operands)) if op in ("add", "multiply") else operands)
            if key not in self.made:
                break
        self.made[key] = len(self.names)
        self.unique.append((op, operands))
        self.names.append([self._write(op, operands)])

    def repeat(self, swap: bool = False) -> None:
        """A line that computes again what one has computed."""
        k = int(self.rng.integers(len(self.unique)))
        op, operands = self.unique[k]
        if swap and op in ("add", "multiply"):
            operands = operands[::-1]
        value = self.made[(op, tuple(sorted(operands)) if op in ("add", "multiply") else operands)]
        self.names[value].append(self._write(op, operands))

    def _write(self, op: str, operands: tuple[int, ...]) -> str:
        name = f"v{len(self.lines)}"
        self.lines.append((name, op, tuple(self.name_of(k) for k in operands)))
        return name


def _program(rng: np.random.Generator, new: int, repeats: int, swap: bool) -> tuple[list[Line], int, _Drawing]:
    drawing = _Drawing(rng)
    drawing.new()
    for is_new in rng.permutation([True] * (new - 1) + [False] * repeats):
        drawing.new() if is_new else drawing.repeat(swap)
    return drawing.lines, new, drawing


def repeated(rng: np.random.Generator) -> Iterator[Case]:
    """The same line twice."""
    lines: list[Line] = [
        *(("a", "sin", ("x0",)), ("b", "sin", ("x0",)), ("c", "subtract", ("x0", "x1"))),
        *(("d", "subtract", ("x1", "x0")), ("e", "subtract", ("x0", "x1")), ("f", "add", ("a", "b"))),
    ]
    yield judged(("cse",), lines, ["f", "c", "d", "e"], 4, "two repeated lines; x0 - x1 is not x1 - x0")
    yield judged(
        ("cse",), [("a", "exp", ("x2",)), ("b", "exp", ("x2",))], ["a", "b"], 1, "two outputs become one value"
    )
    yield judged(("cse",), [], ["x0", "x1"], 0, "a program without lines, whose outputs are inputs")


def chained(rng: np.random.Generator) -> Iterator[Case]:
    """Lines that are equal because their operands are."""
    lines: list[Line] = []
    for copy in range(3):
        before = "x0"
        for k in range(6):
            lines.append((f"{'abc'[copy]}{k}", ("sin", "exp")[k % 2], (before,)))
            before = f"{'abc'[copy]}{k}"
    yield judged(("cse",), lines, ["a5", "b5", "c5", "b2"], 6, "the same chain three times")
    for _ in range(3):
        drawn, left, _ = _program(rng, 10, 12, swap=False)
        yield judged(("cse",), drawn, [line[0] for line in drawn[-4:]], left, "a drawn program")


def commuted(rng: np.random.Generator) -> Iterator[Case]:
    """a + b and b + a, but not a - b and b - a."""
    lines: list[Line] = [
        *(("a", "add", ("x0", "x1")), ("b", "add", ("x1", "x0")), ("c", "multiply", ("a", "x2"))),
        *(("d", "multiply", ("x2", "b")), ("e", "subtract", ("c", "x0")), ("f", "subtract", ("x0", "d"))),
        *(("g", "divide", ("a", "x2")), ("h", "divide", ("x2", "b"))),
    ]
    yield judged(("cse",), lines, ["c", "d", "e", "f", "g", "h"], 6, "add and multiply, not subtract and divide")
    for _ in range(2):
        drawn, left, _ = _program(rng, 12, 14, swap=True)
        yield judged(("cse",), drawn, [line[0] for line in drawn[-5:]], left, "a drawn program")


def constants(rng: np.random.Generator) -> Iterator[Case]:
    """Constants are equal if their bits are."""
    number = float(rng.uniform(1, 2))
    for first, second, left, note in (
        *((number, number, 2, "the same constant"), (1, 1.0, 2, "1 and 1.0"), (0.0, -0.0, 3, "0.0 and -0.0")),
        *((math.nan, math.nan, 2, "NaN and NaN"), (-1.0, -2.0, 3, "-1 and -2, which have the same hash in Python")),
    ):
        lines: list[Line] = [
            *(("a", "constant", (first,)), ("b", "constant", (second,))),
            *(("c", "divide", ("x0", "a")), ("d", "divide", ("x0", "b"))),
        ]
        yield judged(("cse",), lines, ["c", "d"], left + (left == 3), note)


def draws(rng: np.random.Generator) -> Iterator[Case]:
    """Two draws of the same shape are two values."""
    lines: list[Line] = [
        *(("a", "random", (3,)), ("b", "random", (3,)), ("c", "add", ("a", "x0")), ("d", "add", ("b", "x0"))),
        ("e", "add", ("x0", "a")),
    ]
    yield judged(("cse",), lines, ["c", "d", "e"], 4, "two draws, each used, one of them twice")


def dead(rng: np.random.Generator) -> Iterator[Case]:
    """Lines that lead to no output."""
    lines: list[Line] = [
        *(("a", "sin", ("x0",)), ("b", "exp", ("a",)), ("c", "random", (2,)), ("d", "add", ("c", "b"))),
        *(("e", "multiply", ("a", "x1")), ("f", "constant", (2.0,)), ("g", "add", ("e", "f"))),
    ]
    yield judged(("dce",), lines, ["g"], 4, "the draw and what depends on it are not needed")
    yield judged(("dce",), lines, ["a", "d"], 4, "another part is not needed")
    yield judged(("dce",), lines, ["x0"], 0, "the output is an input")
    yield judged(("dce",), lines, ["g", "d", "g"], 7, "everything is needed, one output twice")


def drawn_programs(rng: np.random.Generator) -> Iterator[Case]:
    """Both passes on drawn programs."""
    for _ in range(4):
        drawn, _, drawing = _program(rng, 15, 15, swap=True)
        outputs = [drawn[k][0] for k in sorted(rng.choice(len(drawn), 3, replace=False))]
        yield judged(("cse", "dce"), drawn, outputs, _needed(drawing, outputs), "cse, then dce, on a drawn program")


def _needed(drawing: _Drawing, outputs: list[str]) -> int:
    """How many distinct values lead to some outputs."""
    value_of = {name: value for value, names in enumerate(drawing.names) for name in names}
    first = len(INPUTS)
    needed, waiting = set(), [value_of[output] for output in outputs]
    while waiting:
        value = waiting.pop()
        if value >= first and value not in needed:
            needed.add(value)
            waiting += drawing.unique[value - first][1]
    return len(needed)
