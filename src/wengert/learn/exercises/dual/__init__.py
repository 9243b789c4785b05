"""The exercise `dual`: dual numbers that nest."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import wengert as wg
from wengert.learn.exercises.exercise import Case, Cases, Check, Exercise, files_in

HERE = Path(__file__).parent
GAPS = {
    "homework/dual.py": (
        *(f"Dual.__{name}__" for name in ("add", "sub", "mul", "truediv", "pow", "neg")),
        *(f"Dual.__{name}__" for name in ("radd", "rsub", "rmul", "rtruediv")),
        *("split", "sin", "cos", "exp", "log", "derivative", "gradient"),
    )
}
_REAL = {name: getattr(wg, name) for name in ("sin", "cos", "exp", "log")}


def _real(value: float) -> Any:
    return wg.tensor(float(value), wg.float64)


def _gradient(expression: str, point: tuple[float, ...]) -> tuple[float, ...]:
    function = eval(f"lambda x, y: ({expression}) + 0 * x * y", dict(_REAL))
    return tuple(g.item() for g in wg.grad(function, argnums=(0, 1))(*map(_real, point)))


def _derivative(expression: str, x: float) -> float:
    names: dict[str, Any] = dict(_REAL)
    names["derivative"] = lambda f, z: wg.grad(lambda z: f(z) + 0 * z)(z if isinstance(z, wg.Tensor) else _real(z))
    return float(wg.grad(eval(f"lambda x: ({expression}) + 0 * x", names))(_real(x)).item())


def gradients(*expressions: str) -> Cases:
    """Gradients of expressions in x and y at drawn points."""

    def cases(rng: np.random.Generator) -> Iterator[Case]:
        for expression in expressions:
            point = tuple(map(float, rng.uniform(0.4, 2.0, 2)))
            yield Case((expression, point), _gradient(expression, point), f"{expression} at {point}")

    return cases


def drawn_expressions(rng: np.random.Generator) -> Iterator[Case]:
    """Random expressions, in which values are used more than once."""
    for _ in range(8):
        terms = ["x", "y", f"{rng.uniform(0.5, 2):.2f}"]
        for _ in range(7):
            a, b = (terms[int(rng.integers(len(terms)))] for _ in range(2))
            forms = (
                f"({a} + {b})",
                f"({a} * {b})",
                f"({a} - {b})",
                f"sin({a})",
                f"({a} / (2 + cos({b})))",
                f"cos({a})",
            )
            terms.append(forms[int(rng.integers(len(forms)))])
        point = tuple(map(float, rng.uniform(0.4, 1.5, 2)))
        expression = f"{terms[-1]} + {terms[-2]} * x - y * {terms[-3]}"
        yield Case((expression, point), _gradient(expression, point), f"{expression} at {point}")


def powers(rng: np.random.Generator) -> Iterator[Case]:
    """Constant powers, at 0 too."""
    for exponent in (0, 1, 2, 3):
        yield Case((f"x ** {exponent} + y", (0.0, 1.0)), (1.0 if exponent == 1 else 0.0, 1.0), f"x ** {exponent} at 0")
    for expression in ("x ** -1 * y", "x ** -2 * y", "x ** 0.5 * y", "x ** 2.5 * y"):
        point = (float(rng.uniform(0.4, 2.0)), float(rng.uniform(0.4, 2.0)))
        yield Case((expression, point), _gradient(expression, point), f"{expression} at {point}")


def nested(*expressions: str) -> Cases:
    """Derivatives of expressions that contain derivatives."""

    def cases(rng: np.random.Generator) -> Iterator[Case]:
        for expression in expressions:
            x = float(rng.uniform(0.5, 1.5))
            yield Case((expression, x), _derivative(expression, x), f"{expression} at {x:.3f}")

    return cases


EXERCISE = Exercise(
    name="dual",
    title="Dual numbers that nest",
    lecture="Recitation 3: forward mode",
    lesson="Dual numbers",
    minutes=45,
    marks=15,
    allowed_imports=("math", "typing", "collections", "itertools"),
    files=files_in(HERE / "handout"),
    submission=tuple(GAPS),
    probes=(HERE / "probes.py").read_text(encoding="utf-8"),
    checks=(
        Check("sums and products", "gradient", gradients("x + y", "x - y * x", "x * y * x", "-(x * y)"), 2),
        Check("quotients", "gradient", gradients("x / y", "1 / x + y", "x / (y / x)", "3.5 / (x * y)"), 2),
        Check(
            "with plain numbers on either side",
            "gradient",
            gradients("2 + x - 1", "2 - y", "2 * x * 3", "y / 4 - x"),
            1,
        ),
        Check("constant powers, at 0 too", "gradient", powers, 1),
        Check(
            "functions", "gradient", gradients("sin(x) * cos(y)", "exp(x * y)", "log(x) / y", "log(2) * x + exp(0)"), 2
        ),
        Check("drawn expressions", "gradient", drawn_expressions, 2),
        Check(
            "derivatives of derivatives",
            "derivative",
            nested(
                "derivative(lambda z: sin(z) * z ** 3, x)",
                "derivative(lambda z: derivative(lambda w: exp(w) / w, z), x)",
            ),
            2,
        ),
        Check(
            "an inner derivative that uses an outer variable",
            "derivative",
            nested(
                "x * derivative(lambda z: x * z, 1.0)",
                "x * derivative(lambda z: x + z, 2.0)",
                "derivative(lambda z: sin(z * x) + x, x) * x",
                "derivative(lambda z: x * x, 3.0) + x",
            ),
            3,
        ),
    ),
    questions=(
        "Which lines of your code would be wrong without tags? Give an expression that shows it.",
        "What would numbers with ε³ = 0 carry, and what would their product be?",
    ),
)
