"""Cases of what NumPy users look for: common divisors, numbers taken apart, writes, combinations, histograms."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.ops.case import Case, arrays

try:
    import torch
except ImportError:
    torch = None  # type: ignore[assignment]

A, V, CUBE, SQUARE = arrays(501, (3, 4), (5,), (2, 3, 4), (4, 4))
WHOLE, OTHER = np.array([[12, -18, 0], [7, 9, 100]]), np.array([8, 0, 30])
OF_INTEGERS: dict[str, Any] = {"differentiable": False, "half": False}
PLACED: dict[str, Any] = {"half": False, "vmap": False, "note": "places move where values are rounded or moved"}


def _torch(name: str) -> Any:
    return getattr(torch, name) if torch is not None else None


def _numbers() -> Iterator[Case]:
    for a, b in ((WHOLE, OTHER), (WHOLE, WHOLE.T[:2, :1]), (WHOLE.astype(np.int32), np.int32(6)), (OTHER, OTHER[::-1])):
        yield Case("gcd", (a, b), numpy=np.gcd, **OF_INTEGERS)
        yield Case("lcm", (a, b), numpy=np.lcm, **OF_INTEGERS)
    for name in ("gcd", "lcm"):
        yield Case(name, (np.zeros((0, 2), int), np.array([1, 2])), numpy=getattr(np, name), **OF_INTEGERS)
    for x in (A, A.T[::2], V, np.zeros((0, 3)), np.array(-3.5)):
        yield Case("frexp", (x,), numpy=lambda x: tuple(np.frexp(x)), half=False, invariant=lambda f: f.mantissa)
        yield Case("ldexp", (x, np.array(3)), numpy=np.ldexp)
        yield Case("heaviside", (x, np.array(0.5)), numpy=np.heaviside)
        yield Case("deg2rad", (x,), numpy=np.deg2rad)
        yield Case("rad2deg", (x,), numpy=np.rad2deg, half=False, note="57 times as large")
    yield Case("ldexp", (V, np.array([1, -2, 0, 4, 9])), numpy=np.ldexp)
    zeros = np.where(A > 0, A, 0.0)
    yield Case("heaviside", (zeros, A[0]), numpy=np.heaviside, differentiable=False, vmap=False, note="at the step")


def _writes() -> Iterator[Case]:
    places = np.array([0, 7, -1])
    yield Case("put", (A, places, np.array([1.0, 2.0, 3.0])), numpy=_put)
    yield Case("put", (A, places, np.array(5.0)), numpy=_put)
    yield Case("put", (A, np.array([[0, 5]]), np.array([[1.0, 2.0]])), numpy=_put)
    yield Case("put", (A, np.array([1, 1, 2]), np.array([1.0, 2.0, 3.0])), {"accumulate": True}, torch=_put_torch)
    yield Case("put", (V, np.array([], int), np.array([])), numpy=_put, vmap=False)
    for axis, index, shape in ((0, 1, (3, 4)), (1, -1, (2, 4)), (-1, 2, (2, 3)), (2, 0, (2, 3)), (-3, -2, (3, 4))):
        source = arrays(510 + axis, shape)[0]
        yield Case("select_scatter", (CUBE, source, axis, index), torch=_torch("select_scatter"))
    for axis, start, end, step, count in ((0, None, 1, 1, 1), (1, 1, None, 1, 2), (2, 0, 4, 2, 2), (-1, 1, 9, 1, 3)):
        shape = list(CUBE.shape)
        shape[axis] = count
        source = arrays(520, tuple(shape))[0]
        yield Case("slice_scatter", (CUBE, source, axis, start, end, step), torch=_torch("slice_scatter"))
    yield Case("slice_scatter", (V, arrays(521, (0,))[0], 0, 2, 2), torch=_torch("slice_scatter"))
    for offset, first, second in ((0, -2, -1), (1, 0, 1), (-1, 0, 2), (2, 1, 2), (5, 0, 1)):
        shape = np.diagonal(CUBE, offset, first, second).shape
        source = arrays(530, shape)[0]
        yield Case("diagonal_scatter", (CUBE, source, offset, first, second), torch=_torch("diagonal_scatter"))


def _put(x: np.ndarray, places: np.ndarray, values: np.ndarray) -> np.ndarray:
    result = x.copy()
    if places.size:
        np.put(result, places, values)
    return result


def _put_torch(x: Any, places: Any, values: Any, accumulate: bool) -> Any:
    return torch.Tensor.put(x, places, values, accumulate)


def _shapes() -> Iterator[Case]:
    for name in ("atleast_1d", "atleast_2d", "atleast_3d"):
        for x in (np.array(1.5), V, A, CUBE):
            yield Case(name, (x,), numpy=getattr(np, name))
        yield Case(name, (V, A), numpy=getattr(np, name))
    for several in ([V, V], [V, A.T[:1].reshape(3)[:0].reshape(0)], [A, A], [A, V[:3]], [CUBE, CUBE]):
        if len({x.shape[0] for x in several}) == 1:
            yield Case("column_stack", (several,), numpy=np.column_stack)
    yield Case("column_stack", ([np.zeros(0), np.zeros(0)],), numpy=np.column_stack)
    for r, again in ((2, False), (2, True), (3, False), (1, False), (5, False), (0, False)):
        options = {"r": r, "with_replacement": again}
        yield Case("combinations", (V,), options, numpy=_combinations)
    for several in ([V], [V, A[0]], [V[:2], V[:3], V[:1]], [V, np.zeros(0)], [V[::2], V[::-1]]):
        yield Case("cartesian_prod", tuple(several), numpy=_products)
    for options in ({}, {"axis": 0}, {"axis": (1, 0)}, {"axis": -1, "edge_order": 2}):
        yield Case("gradient", (A,), options, numpy=lambda x, **given: _as_tuple(np.gradient(x, **given)))
    yield Case("gradient", (A, 0.5), numpy=lambda x, h: tuple(np.gradient(x, h)))
    places = np.array([0.0, 0.5, 2.0, 2.5])
    for order in (1, 2):
        options = {"axis": 1, "edge_order": order}
        yield Case("gradient", (A, places), options, numpy=np.gradient)


def _as_tuple(found: Any) -> Any:
    return tuple(found) if isinstance(found, (tuple, list)) else found


def _combinations(x: np.ndarray, r: int, with_replacement: bool) -> np.ndarray:
    ways = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    rows = list(ways(x, r))
    return np.array(rows).reshape(len(rows), r)


def _products(*several: np.ndarray) -> np.ndarray:
    return several[0] if len(several) == 1 else np.array(list(itertools.product(*several))).reshape(-1, len(several))


def _histograms() -> Iterator[Case]:
    for options in ({}, {"bins": 4}, {"bins": 3, "range": (-1.0, 1.5)}, {"bins": [-2.0, 0.0, 0.5, 2.0]}):
        yield Case("histogram", (A,), options, numpy=lambda x, **given: tuple(np.histogram(x, **given)), **PLACED, differentiable=False)  # noqa: E501  # fmt: skip
    weighted = lambda x, w: (np.histogram(x, 3, weights=w)[0], np.histogram(x, 3)[1])
    yield Case("histogram", (A, 3, None, np.abs(A)), numpy=lambda x, b, r, w: weighted(x, w), invariant=lambda f: f.hist, **PLACED)  # noqa: E501  # fmt: skip
    yield Case("histogram", (A, 3), {"density": True}, numpy=lambda x, b, density: tuple(np.histogram(x, b, density=density)), **PLACED, differentiable=False)  # noqa: E501  # fmt: skip
    for options in ({}, {"bins": 5}, {"bins": 3, "min": -1.0, "max": 1.0}, {"bins": 2, "min": 1, "max": 1}):
        yield Case("histc", (A,), options, torch=_torch("histc"), **PLACED, differentiable=False)
    yield Case("histc", (np.ones(3), 4), torch=_torch("histc"), **PLACED, differentiable=False)
    points = arrays(540, (20, 2))[0]
    given: tuple[dict[str, Any], ...] = ({"bins": 3}, {"bins": (2, 3)}, {"bins": 3, "density": True})
    for options in (*given, {"range": ((-1, 1), (-2, 1))}, {"bins": ([-2.0, 0.0, 2.0], 2)}):
        yield Case("histogramdd", (points,), options, numpy=_histogramdd, **PLACED, differentiable=False)


def _histogramdd(x: np.ndarray, **given: Any) -> Any:
    hist, edges = np.histogramdd(x, **given)
    return hist, tuple(edges)


def _modes() -> Iterator[Case]:
    few = np.array([[2.0, 1.0, 2.0, 3.0], [1.0, 3.0, 3.0, 1.0], [4.0, 4.0, 4.0, 0.5]])
    for axis, keep in ((-1, False), (0, True), (1, True)):
        options = {"axis": axis, "keepdims": keep}
        yield Case("mode", (few,), options, invariant=lambda f: f.values, differentiable=False, vmap=False, note="ties")
    yield Case("mode", (V,), invariant=lambda f: f.values)
    yield Case("mode", (CUBE,), {"axis": 1}, invariant=lambda f: f.values)
    for x in (np.array([1, 1, 2, 2, 2, 1]), np.array([]), np.array([[1, 1], [1, 1], [2, 1]]), np.array([3])):
        yield Case("unique_consecutive", (x, True, True), torch=_torch("unique_consecutive"), vmap=False, **OF_INTEGERS)
    grid = np.array([[1.0, 2.0], [1.0, 2.0], [3.0, 1.0]])
    yield Case(
        "unique_consecutive",
        (grid,),
        {"axis": 0},
        numpy=lambda x, axis: x[1:],
        vmap=False,
        half=False,
        differentiable=False,
    )


CASES = [*_numbers(), *_writes(), *_shapes(), *_histograms(), *_modes()]
