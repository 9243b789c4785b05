"""Cases for the elementwise functions: the samples of the registry, and calls with integers, numbers and bounds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy.special

from tests.ops.case import Case, arrays
from wengert.api import functions
from wengert.ops import registry
from wengert.ops.samples import of_one

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
    "lgamma": scipy.special.gammaln,
    "sigmoid": scipy.special.expit,
    "stop_gradient": lambda x: x,
}


def _numpy(name: str) -> Any:
    """Another implementation than the op's own where there is one."""
    return NUMPY.get(name) or getattr(np, name, None) or getattr(scipy.special, name, None) or registry[name].numpy


# Calls that a check does not take, and why; the rest follows from the op.
EXCEPTIONS: dict[str, dict[str, Any]] = {
    "nextafter": {
        "differentiable": False,
        "half": False,
        "note": "the next number is another one in each dtype, too near to difference",
    }
}


def _registry_cases() -> Iterator[Case]:
    """The samples of every op that has some and a public name; reductions need other oracles (cases_reduce.py)."""
    for name, op in registry.items():
        if op.samples is not None and op.kind != "reduction" and name in functions.__all__:
            options = {"differentiable": op.differentiable, **EXCEPTIONS.get(name, {})}
            for operands, attributes in op.samples():
                yield Case(name, operands, attributes, numpy=_numpy(name), torch=_torch(name), **options)
    for (x,) in of_one(200, -2.0, 2.0):
        yield Case("stop_gradient", (x,), numpy=_numpy("stop_gradient"), differentiable=False, note="by its meaning")


def _integer_cases() -> Iterator[Case]:
    rng = np.random.default_rng(600)
    signed = (rng.integers(-9, 9, (3, 4)), rng.integers(1, 5, (4,)) * np.array([1, -1, 1, -1]))
    for name in ("floor_divide", "remainder", "add", "maximum", "equal", "less"):
        yield Case(name, signed, numpy=_numpy(name), torch=_torch(name), differentiable=False, note="integers")
    yield Case("pow", (signed[0], np.arange(4)), numpy=np.power, torch=_torch("pow"), differentiable=False)


def _choice_cases() -> Iterator[Case]:
    number, empty, thin, matrix, long = (x for (x,) in of_one(701, -2.0, 2.0))
    yield Case("where", (np.array([True, False, True]), thin, 0.0), numpy=np.where)
    low, high = np.array([-0.7, -0.3, -0.5]), np.array([[0.6], [0.9]])
    clamp = _torch("clamp")
    yield Case("clip", (number, -1.0, 1.0), numpy=np.clip, torch=clamp)
    yield Case("clip", (empty, -1.0, 1.0), numpy=np.clip, torch=clamp)
    yield Case("clip", (thin,), {"min": -0.5}, numpy=lambda x, min: np.maximum(x, min), torch=clamp)
    yield Case("clip", (long,), {"max": 0.5}, numpy=lambda x, max: np.minimum(x, max), torch=clamp)
    yield Case("clip", (matrix, low, high), numpy=np.clip, torch=clamp)
    yield Case("clip", (matrix, high, low), numpy=np.clip, torch=clamp, note="crossed bounds: the upper one holds")


def _angle_cases() -> Iterator[Case]:
    for (x,) in of_one(750, -2.0, 2.0):
        yield Case("angle", (x,), numpy=np.angle, torch=_torch("angle"))
    (re, im) = arrays(751, (2, 3), (2, 3))
    yield Case("angle", (re + 1j * im,), numpy=np.angle, torch=_torch("angle"))
    special = np.array([0.0, -0.0, np.inf, -np.inf, np.nan])
    yield Case("angle", (special,), numpy=np.angle, differentiable=False, vmap=False, half=False, note="by its value")


def _exponent_cases() -> Iterator[Case]:
    (x,) = arrays(800, (2, 3), low=0.3, high=2.0)
    for exponent in (0, 1, 2, 3, -1, -2, 0.5, 2.0, -1.5):
        yield Case("pow", (x, exponent), numpy=np.power, torch=_torch("pow"))
    yield Case("pow", (-x, 3), numpy=np.power, torch=_torch("pow"))
    yield Case("pow", (1.7, x), numpy=np.power, torch=_torch("pow"))


CASES = [*_registry_cases(), *_integer_cases(), *_choice_cases(), *_angle_cases(), *_exponent_cases()]
