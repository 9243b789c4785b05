"""The exercise `value`: reverse mode on single numbers."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import wengert as wg
from wengert.learn.exercises.exercise import Case, Cases, Check, Exercise, files_in

HERE = Path(__file__).parent
GAPS = {
    "homework/value.py": (
        *(f"Value.__{name}__" for name in ("add", "sub", "mul", "truediv", "pow", "neg")),
        *(f"Value.__{name}__" for name in ("radd", "rsub", "rmul", "rtruediv")),
        *(f"Value.{name}" for name in ("exp", "log", "sin", "tanh", "relu", "backward")),
    )
}


def _expected(program: str, inputs: dict[str, float], backwards: int = 1) -> tuple[float, dict[str, float]]:
    names = {name: wg.tensor(number, wg.float64, requires_grad=True) for name, number in inputs.items()}
    text = re.sub(r"(\w+)\.(exp|log|sin|tanh)\(\)", r"wg.\2(\1)", program)
    scope: dict[str, Any] = dict(names)
    exec(text, {"wg": wg}, scope)
    result = scope["y"]
    (result * 1.0).backward()
    found = {name: 0.0 if t.grad is None else backwards * t.grad.item() for name, t in names.items()}
    return result.item(), found


def programs(*texts: str, backwards: int = 1, at: tuple[float, float] | None = None) -> Cases:
    """Values and gradients of programs in a and b."""

    def cases(rng: np.random.Generator) -> Iterator[Case]:
        for text in texts:
            a, b = at or tuple(map(float, rng.uniform(0.4, 2.0, 2)))
            inputs = {"a": a, "b": b}
            expected = _expected(text, inputs, backwards)
            yield Case((text, inputs, backwards), expected, f"{text} at a = {a:.3f}, b = {b:.3f}")

    return cases


def drawn_programs(rng: np.random.Generator) -> Iterator[Case]:
    """Random programs: a sequence of assignments in which values are used again."""
    for _ in range(6):
        names, lines = ["a", "b"], []
        for k in range(8):
            p, q = (names[int(rng.integers(len(names)))] for _ in range(2))
            forms = (
                f"{p} + {q}",
                f"{p} * {q}",
                f"{p} - {q}",
                f"{p}.sin()",
                f"{p}.tanh() * {q}",
                f"{p} / ({q} * {q} + 1)",
            )
            lines.append(f"v{k} = {forms[int(rng.integers(len(forms)))]}")
            names.append(f"v{k}")
        program = "; ".join([*lines, f"y = {names[-1]} * {names[-2]} + {names[-3]}"])
        inputs = {name: float(rng.uniform(0.4, 1.5)) for name in ("a", "b")}
        yield Case((program, inputs), _expected(program, inputs), program)


def at_zero(rng: np.random.Generator) -> Iterator[Case]:
    """Points where a derivative needs care."""
    for program, a, slope in (
        *(("y = a.relu()", 0.0, 0.0), ("y = a.relu()", 1.5, 1.0), ("y = a.relu()", -0.5, 0.0)),
        *(("y = a ** 2", 0.0, 0.0), ("y = a ** 1", 0.0, 1.0), ("y = a ** 0", 0.0, 0.0), ("y = a ** 3", -2.0, 12.0)),
    ):
        value = {"y = a.relu()": max(a, 0.0)}.get(program, a ** int(program[-1]) if "**" in program else 0.0)
        yield Case((program, {"a": a}), (value, {"a": slope}), f"{program} at {a}")


def chains(rng: np.random.Generator) -> Iterator[Case]:
    """A chain that is longer than Python's recursion limit."""
    yield Case((20_000, float(rng.uniform(0.5, 1.5))), 1.0, "a chain of 30,000 operations")


def shared(rng: np.random.Generator) -> Iterator[Case]:
    """Two results over a shared part: gradients add up over calls of backward."""
    for _ in range(3):
        x = float(rng.uniform(0.5, 1.5))
        yield Case((x,), (6 * x, 6 * x + math.cos(x * x) * 2 * x), "backward of two results, one after the other")


EXERCISE = Exercise(
    name="value",
    title="A number that remembers how it was computed",
    lecture="Recitation 3: reverse mode",
    lesson="Reverse mode on single numbers",
    minutes=45,
    marks=15,
    allowed_imports=("math", "typing", "collections"),
    files=files_in(HERE / "handout"),
    submission=tuple(GAPS),
    probes=(HERE / "probes.py").read_text(encoding="utf-8"),
    checks=(
        Check(
            "sums, differences and products",
            "gradient",
            programs("y = a + b", "y = a - b", "y = a * b - a", "y = -a * b"),
            2,
        ),
        Check("quotients", "gradient", programs("y = a / b", "y = 2.0 / a + b", "y = a / b / a"), 1),
        Check(
            "plain numbers on either side",
            "gradient",
            programs("y = 2 + a - 1 + b", "y = 3 - a * b", "y = 2 * a * 0.5 + b"),
            1,
        ),
        Check("functions", "gradient", programs("y = a.exp() * b", "y = a.log() - b.sin()", "y = a.tanh() + b"), 2),
        Check("powers and relu, at 0 too", "gradient", at_zero, 2),
        Check(
            "values that are used twice: paths add",
            "gradient",
            programs("y = a * a + b", "c = a * b; y = c * c + c", "y = a + a + b"),
            2,
        ),
        Check("drawn programs", "gradient", drawn_programs, 2),
        Check(
            "a second backward adds the same once more",
            "gradient",
            programs("c = a * b; y = c * c + a", backwards=2),
            2,
        ),
        Check("two results that share a part", "two_results", shared, 1),
        Check("a chain that is longer than the recursion limit", "chain", chains, 2),
        Check("an input that is not used has the gradient 0", "gradient", programs("y = a * 2.0"), 1),
    ),
    questions=(
        "Why must a value come after everything that it was computed from when you walk back? Give an example.",
        "Why are `share` and `grad` two things? What would a second `backward` compute if they were one?",
    ),
)
