"""Cases for the elementwise functions: each over 0-d, empty, size-1, strided and broadcast operands of its domain."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.special

from tests.ops.case import Case, arrays

try:
    import torch
except ImportError:
    torch = None  # type: ignore[assignment]


def _torch(name: str) -> Any:
    return getattr(torch, TORCH_NAMES.get(name, name), None) if torch is not None else None


TORCH_NAMES = {
    "bitwise_invert": "bitwise_not",
    "equal": "eq",
    "imag": "only of complex tensors",
    "stop_gradient": "detach",
}
NUMPY = {
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atan2": np.arctan2,
    "atanh": np.arctanh,
    "bitwise_invert": np.bitwise_not,
    "bitwise_left_shift": np.left_shift,
    "bitwise_right_shift": np.right_shift,
    "pow": np.power,
    "sigmoid": scipy.special.expit,
    "stop_gradient": lambda x: x,
}


def _numpy(name: str) -> Any:
    return NUMPY.get(name) or getattr(np, name)


def operands_of_one(seed: int, low: float, high: float) -> Iterator[np.ndarray]:
    """0-d, empty, with axes of size 1, transposed, strided."""
    number, empty, thin, matrix, long = arrays(seed, (), (0, 3), (1, 3, 1), (3, 2), (7,), low=low, high=high)
    yield from (number, empty, thin, matrix.T, long[::2])


def operands_of_two(seed: int, low: float, high: float) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Equal shapes, both broadcast, 0-d beside a matrix, empty, transposed beside strided."""
    a, b, column, row, number, empty, thin = arrays(
        seed, (2, 3), (2, 3), (3, 1), (2,), (), (0, 3), (1, 1), low=low, high=high
    )
    yield from ((a, b), (column, row), (number, a), (empty, thin), (a.T, np.repeat(b.T, 2, axis=0)[::2]))


WHOLE = (-2.0, 2.0)
UNARY = {
    "abs": WHOLE,
    "acos": (-0.9, 0.9),
    "acosh": (1.1, 4.0),
    "asin": (-0.9, 0.9),
    "asinh": WHOLE,
    "atan": WHOLE,
    "atanh": (-0.9, 0.9),
    "conj": WHOLE,
    "cos": WHOLE,
    "cosh": WHOLE,
    "exp": WHOLE,
    "expm1": WHOLE,
    "log": (0.2, 4.0),
    "log10": (0.2, 4.0),
    "log1p": (-0.8, 4.0),
    "log2": (0.2, 4.0),
    "negative": WHOLE,
    "positive": WHOLE,
    "real": WHOLE,
    "reciprocal": (0.4, 3.0),
    "sigmoid": (-5.0, 5.0),
    "sin": WHOLE,
    "sinh": WHOLE,
    "sqrt": (0.2, 4.0),
    "square": WHOLE,
    "tan": (-1.2, 1.2),
    "tanh": WHOLE,
}
UNARY_STEPS = [
    "ceil",
    "floor",
    "imag",
    "isfinite",
    "isinf",
    "isnan",
    "logical_not",
    "round",
    "sign",
    "signbit",
    "trunc",
]
BINARY = {
    "add": WHOLE,
    "atan2": WHOLE,
    "copysign": WHOLE,
    "divide": (0.4, 3.0),
    "hypot": WHOLE,
    "logaddexp": (-5.0, 5.0),
    "maximum": WHOLE,
    "minimum": WHOLE,
    "multiply": WHOLE,
    "pow": (0.3, 2.5),
    "remainder": (0.5, 3.0),
    "subtract": WHOLE,
}
BINARY_STEPS = (
    ["equal", "floor_divide", "greater", "greater_equal", "less", "less_equal"]
    + ["logical_and", "logical_or", "logical_xor", "not_equal"]
)  # fmt: skip
BITWISE = ["bitwise_and", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor"]


def _unary_cases() -> Iterator[Case]:
    for seed, (name, domain) in enumerate(UNARY.items()):
        for x in operands_of_one(seed, *domain):
            yield Case(name, (x,), numpy=_numpy(name), torch=_torch(name))
    for seed, name in enumerate(UNARY_STEPS):
        for x in operands_of_one(100 + seed, -3.0, 3.0):
            yield Case(name, (x,), numpy=_numpy(name), torch=_torch(name), differentiable=False, note="a step")
    for x in operands_of_one(200, *WHOLE):
        yield Case("stop_gradient", (x,), numpy=_numpy("stop_gradient"), differentiable=False, note="by its meaning")


def _binary_cases() -> Iterator[Case]:
    for seed, (name, domain) in enumerate(BINARY.items()):
        for pair in operands_of_two(300 + seed, *domain):
            yield Case(name, pair, numpy=_numpy(name), torch=_torch(name))
    for seed, name in enumerate(BINARY_STEPS):
        for a, b in operands_of_two(400 + seed, 0.5, 3.0):
            yield Case(name, (a, b), numpy=_numpy(name), torch=_torch(name), differentiable=False, note="a step")
    for a, b in operands_of_two(500, *WHOLE):
        note = "the next number is another one in each dtype, too near to difference"
        yield Case("nextafter", (a, b), numpy=np.nextafter, torch=_torch("nextafter"), differentiable=False, half=False,
                   note=note)  # fmt: skip


def _integer_cases() -> Iterator[Case]:
    rng = np.random.default_rng(600)
    shapes: list[tuple[Any, Any]] = [((), ()), ((2, 3), (3,)), ((0, 2), (1,)), ((1, 3), (2, 1)), ((4,), (4,))]
    for name in BITWISE:
        for left, right in shapes:
            pair = (rng.integers(0, 8, left), rng.integers(0, 8, right))
            yield Case(name, pair, numpy=_numpy(name), torch=_torch(name), differentiable=False, note="integers")
    for shape in ((), (0,), (1, 2), (3, 2), (5,)):
        x = rng.integers(-9, 9, shape)
        yield Case("bitwise_invert", (x,), numpy=np.bitwise_not, torch=_torch("bitwise_invert"), differentiable=False)
    signed = (rng.integers(-9, 9, (3, 4)), rng.integers(1, 5, (4,)) * np.array([1, -1, 1, -1]))
    for name in ("floor_divide", "remainder", "add", "maximum", "equal", "less"):
        yield Case(name, signed, numpy=_numpy(name), torch=_torch(name), differentiable=False, note="integers")
    yield Case("pow", (signed[0], np.arange(4)), numpy=np.power, torch=_torch("pow"), differentiable=False)


def _choice_cases() -> Iterator[Case]:
    rng = np.random.default_rng(700)
    for a, b in operands_of_two(700, *WHOLE):
        condition = rng.random(np.broadcast_shapes(a.shape, b.shape)) < 0.5
        yield Case("where", (condition, a, b), numpy=np.where, torch=_torch("where"))
    number, empty, thin, matrix, long = operands_of_one(701, *WHOLE)
    yield Case("where", (np.array([True, False, True]), thin, 0.0), numpy=np.where)
    low, high = np.array([-0.7, -0.3, -0.5]), np.array([[0.6], [0.9]])
    clamp = _torch("clamp")
    yield Case("clip", (number, -1.0, 1.0), numpy=np.clip, torch=clamp)
    yield Case("clip", (empty, -1.0, 1.0), numpy=np.clip, torch=clamp)
    yield Case("clip", (thin,), {"min": -0.5}, numpy=lambda x, min: np.maximum(x, min), torch=clamp)
    yield Case("clip", (long,), {"max": 0.5}, numpy=lambda x, max: np.minimum(x, max), torch=clamp)
    yield Case("clip", (matrix, low, high), numpy=np.clip, torch=clamp)
    yield Case("clip", (matrix, high, low), numpy=np.clip, torch=clamp, note="crossed bounds: the upper one holds")


def _exponent_cases() -> Iterator[Case]:
    (x,) = arrays(800, (2, 3), low=0.3, high=2.0)
    for exponent in (0, 1, 2, 3, -1, -2, 0.5, 2.0, -1.5):
        yield Case("pow", (x, exponent), numpy=np.power, torch=_torch("pow"))
    yield Case("pow", (-x, 3), numpy=np.power, torch=_torch("pow"))
    yield Case("pow", (1.7, x), numpy=np.power, torch=_torch("pow"))


CASES = [*_unary_cases(), *_binary_cases(), *_integer_cases(), *_choice_cases(), *_exponent_cases()]
