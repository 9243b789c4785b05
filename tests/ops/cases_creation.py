"""Cases for the creation functions: against NumPy's, in every dtype, with the edges of ranges."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.ops.case import Case, arrays

try:
    import torch
except ImportError:
    torch = None  # type: ignore[assignment]

SHAPES: list[Any] = [(), (0, 2), 3, (2, 1, 3), (1,)]
DTYPES = ["float64", "int32", "bool", "complex64", "uint8"]


def _torch(name: str) -> Any:
    return getattr(torch, name) if torch is not None else None


def _constant_cases() -> Iterator[Case]:
    (x,) = arrays(1, (4, 3))
    likes = [x, x[:0], x[0, 0:1], x.T[::2], np.arange(6).reshape(2, 3)]
    for shape, dtype, like in zip(SHAPES, DTYPES, likes):
        for name in ("zeros", "ones"):
            yield Case(name, (shape,), {"dtype": dtype}, numpy=getattr(np, name))
            yield Case(f"{name}_like", (like,), numpy=getattr(np, f"{name}_like"), torch=_torch(f"{name}_like"))
        yield Case("empty", (shape,), {"dtype": dtype}, numpy=np.zeros)
        yield Case("empty_like", (like,), {"dtype": dtype}, numpy=np.zeros_like, differentiable=False)
        yield Case("full", (shape, 1), {"dtype": dtype}, numpy=np.full)
        yield Case("full_like", (like, 2), numpy=np.full_like, torch=_torch("full_like"))
    for value in (2.5, True, 7, 1 + 2j, np.float64(0.1)):
        yield Case("full", ((2, 2), value), numpy=np.full)


def _ramp_cases() -> Iterator[Case]:
    for bounds in ((5,), (0,), (-3,), (2, 9, 2), (9, 2, -3), (1, 1)):
        yield Case("arange", bounds, numpy=np.arange, torch=_torch("arange") if bounds != (-3,) else None)
    for bounds in ((0, 1, 0.1), (1, 0, -0.3), (0.5, 3), (1e6, 1e6 + 1, 0.25)):
        for dtype in ("float64", "float32", "float16"):
            if bounds[0] < 1e6 or dtype != "float16":
                yield Case("arange", bounds, {"dtype": dtype}, numpy=np.arange)
    yield Case("arange", (3, -1, -1), {"dtype": "uint8"}, numpy=np.arange)
    yield Case("arange", (0.5, 3), {"dtype": "int64"}, numpy=np.arange)
    for ends in ((0, 1, 5), (-2.0, 3.0, 7), (3, 1, 1), (1, 2, 0), (2, 2, 3), (0, 5e-324, 4), (0.1, 0.7, 11)):
        for kwargs in ({"dtype": "float64"}, {"dtype": "float64", "endpoint": False}, {"dtype": "int64"}):
            yield Case("linspace", ends, kwargs, numpy=np.linspace)
    yield Case("linspace", (0, 1 + 1j, 3), {"dtype": "complex128"}, numpy=np.linspace)
    yield Case("linspace", (0, 1, 5), numpy=lambda *ends: np.linspace(*ends, dtype=np.float32))


def _matrix_cases() -> Iterator[Case]:
    for sides in ((3,), (2, 3), (3, 2), (0,), (1, 1)):
        for k in (0, 1, -1, 5):
            yield Case("eye", sides, {"k": k}, numpy=np.eye)
            yield Case("tri", sides, {"k": k}, numpy=np.tri)
    square, batch, thin, empty, wide = arrays(2, (3, 3), (2, 3, 4), (1, 1), (0, 2), (2, 5))
    for name in ("tril", "triu"):
        for x, k in ((square, 0), (batch, 1), (thin, -1), (empty, 0), (wide.T, -1), (wide[:, ::2], 2)):
            yield Case(name, (x,), {"k": k}, numpy=getattr(np, name))
        yield Case(name, (np.arange(6).reshape(2, 3),), numpy=getattr(np, name), torch=_torch(name))


def _grid_cases() -> Iterator[Case]:
    a, b, c, number, row = arrays(3, (3,), (2,), (4,), (), (2, 1))
    for xs in ((a, b), (a, b, c[::2]), (a,), (number, b), (a[:0], b), ()):
        for indexing in ("xy", "ij"):
            yield Case("meshgrid", xs, {"indexing": indexing}, numpy=np.meshgrid)
    for xs in ((a, row), (number, a, row), (a,), (c[:0], row), (row.T, row)):
        yield Case("broadcast_arrays", xs, numpy=np.broadcast_arrays)


def _lerp(start: Any, end: Any, weight: Any) -> Any:
    return (1 - weight) * start + weight * end


def _lerp_cases() -> Iterator[Case]:
    a, b, row, number, empty = arrays(4, (2, 3), (2, 3), (3,), (), (0, 3))
    (weight,) = arrays(5, (2, 3), low=-0.5, high=1.5)
    for args in ((a, b, 0.3), (a, b, 0.9), (a, row, weight), (number, number, 0.5), (empty, row, 2.0)):
        yield Case("lerp", args, numpy=_lerp, torch=_torch("lerp"))
    yield Case("lerp", (a.T, b.T, weight.T), numpy=_lerp, torch=_torch("lerp"))


CASES = [*_constant_cases(), *_ramp_cases(), *_matrix_cases(), *_grid_cases(), *_lerp_cases()]
