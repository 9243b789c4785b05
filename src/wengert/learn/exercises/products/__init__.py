"""The exercise `products`: products with the Jacobians of layers, without the Jacobians."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import wengert as wg
from wengert.learn.exercises.exercise import Case, Cases, Check, Exercise, files_in
from wengert.learn.exercises.reference import drawn, gradients

HERE = Path(__file__).parent
GAPS = {
    "homework/products.py": (
        *("tanh_jvp", "tanh_vjp", "matmul_jvp", "matmul_vjp", "softmax_jvp", "softmax_vjp", "unit_jvp", "unit_vjp"),
        *("jacobian_by_columns", "jacobian_by_rows", "_softmax"),
    )
}


def _unit(x: Any) -> Any:
    return x / wg.sqrt(wg.sum(x * x, axis=-1, keepdims=True))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "tanh": wg.tanh,
    "matmul": wg.matmul,
    "softmax": lambda x: wg.softmax(x, axis=-1),
    "unit": _unit,
}


def _pushed(function: Callable[..., Any], inputs: list[Any], directions: list[Any]) -> Any:
    tensors = [[wg.tensor(np.asarray(x, np.float64)) for x in arrays] for arrays in (inputs, directions)]
    return wg.jvp(function, tuple(tensors[0]), tuple(tensors[1]))[1].numpy()


def _inputs(name: str, rng: np.random.Generator) -> Iterator[tuple[list[Any], str]]:
    if name == "matmul":
        for shapes in (((3, 4), (4, 2)), ((1, 5), (5, 1)), ((300, 40), (40, 200))):
            yield [drawn(rng, *shape) for shape in shapes], f"{shapes[0]} @ {shapes[1]}"
        return
    yield [drawn(rng, 5)], "a vector"
    yield [drawn(rng, 3, 4)], "rows"
    if name != "unit":
        yield [drawn(rng, 2, 3) * 800], "values whose exponentials overflow"
    yield [drawn(rng, 20, 5000)], "100,000 elements: a Jacobian would take 80 GB"


def products(name: str, mode: str) -> Cases:
    """JVPs or VJPs of a layer."""

    def cases(rng: np.random.Generator) -> Iterator[Case]:
        function = FUNCTIONS[name]
        for inputs, note in _inputs(name, rng):
            if mode == "jvp":
                directions = [drawn(rng, *x.shape, zeros=True) for x in inputs]
                expected = _pushed(function, inputs, directions)
                yield Case((f"{name}_jvp", *inputs, *directions), expected, note)
            else:
                shape = inputs[0].shape if len(inputs) == 1 else (inputs[0].shape[0], inputs[1].shape[1])
                seed = drawn(rng, *shape, zeros=True)
                found = gradients(function, inputs, seed)
                yield Case((f"{name}_vjp", *inputs, seed), found[0] if len(inputs) == 1 else found, note)

    return cases


def jacobians(rng: np.random.Generator) -> Iterator[Case]:
    """Jacobians out of products, with as many products as needed."""
    for outputs, inputs in ((3, 5), (6, 2), (1, 4), (4, 1)):
        matrix = drawn(rng, outputs, inputs)
        yield Case(("jacobian_by_columns", matrix), (matrix, inputs), f"{outputs} outputs, {inputs} inputs")
        yield Case(("jacobian_by_rows", matrix), (matrix, outputs), f"{outputs} outputs, {inputs} inputs")


EXERCISE = Exercise(
    name="products",
    title="Products with Jacobians",
    lecture="Recitation 3: Jacobians, forward and reverse mode",
    lesson="Jacobians, and products with them",
    minutes=45,
    marks=15,
    allowed_imports=("numpy", "math", "typing", "collections"),
    files=files_in(HERE / "handout"),
    submission=tuple(GAPS),
    probes=(HERE / "probes.py").read_text(encoding="utf-8"),
    checks=(
        *(
            Check(f"{name}_{mode}", "call", products(name, mode), 2 if name in ("softmax", "unit") else 1)
            for name in FUNCTIONS
            for mode in ("jvp", "vjp")
        ),
        Check("a Jacobian by columns and by rows", "jacobian", jacobians, 3),
    ),
    questions=(
        "For which of these functions are the JVP and the VJP the same function of (x, vector)? Why?",
        "You need the diagonal of a Jacobian of 1000 by 1000. Can it be had with fewer than 1000 products?",
    ),
)
