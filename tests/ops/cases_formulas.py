"""Cases of the formulas, diagonals, statistics and splits that are made of other ops."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tests.ops.case import Case, arrays

A, B, V, W, POSITIVE = arrays(901, (3, 4), (3, 4), (4,), (5,), (3, 4))
POSITIVE = np.abs(POSITIVE) + 0.25
BETWEEN = arrays(902, (3, 4), low=0.1, high=0.9)[0]
HOLES = np.where(np.arange(12).reshape(3, 4) % 5 == 0, np.nan, A)
INFINITE = np.array([np.inf, -np.inf, np.nan, 1.5, -2.0])
MATRICES, MORE = arrays(903, (2, 3, 4), (2, 4, 5))
EMPTY = np.zeros((0, 3))
INTEGERS = np.array([[3, -5, 7], [2, 0, -9]])


def _torch(name: str) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        import torch

        return getattr(torch, name)(*args, **kwargs)

    return call


def _elementwise() -> Iterator[Case]:
    for x in (A, np.array(0.5), EMPTY):
        yield Case("exp2", (x,), numpy=np.exp2, torch=_torch("exp2"))
        yield Case("sinc", (x,), numpy=np.sinc, torch=_torch("sinc"))
    small = np.array([0.0, 1e-9, -1e-3, 0.02, 0.0318, 0.032, 1.0])
    yield Case("sinc", (small,), numpy=np.sinc, half=False, note="around 0, where it is a series")
    yield Case("rsqrt", (POSITIVE,), numpy=lambda x: 1 / np.sqrt(x), torch=_torch("rsqrt"))
    yield Case("logit", (BETWEEN,), numpy=lambda x: np.log(x / (1 - x)), torch=_torch("logit"))
    yield Case("logit", (np.array([0.05, 0.3, 0.97]), 0.1), torch=_torch("logit"))
    xlogy = lambda x, y: np.where(x == 0, 0, x * np.log(np.where(x == 0, 1, y)))
    yield Case("xlogy", (A, POSITIVE), numpy=xlogy, torch=_torch("xlogy"))
    yield Case("xlogy", (V, POSITIVE), numpy=xlogy, torch=_torch("xlogy"))
    for name, same in (("fmax", np.fmax), ("fmin", np.fmin)):
        yield Case(name, (A, B), numpy=same, torch=_torch(name))
        yield Case(name, (A, V), numpy=same, torch=_torch(name))
        yield Case(name, (HOLES, B), numpy=same, torch=_torch(name), differentiable=False, note="NaN")
    signed = np.where(B < 0, B - 0.5, B + 0.5)
    yield Case("fmod", (A * 4, signed), numpy=np.fmod, torch=_torch("fmod"), half=False, note="a jump per quotient")
    yield Case("fmod", (INTEGERS, np.array([2, -3, 4])), numpy=np.fmod, torch=_torch("fmod"), differentiable=False)
    yield Case("addcmul", (A, B, V), {"value": 0.5}, numpy=lambda x, a, b, value: x + value * a * b)
    yield Case("addcmul", (A, B, POSITIVE), torch=_torch("addcmul"))
    yield Case("addcdiv", (A, B, POSITIVE), {"value": -2.0}, torch=_torch("addcdiv"))
    for decimals in (1, 2, -1):
        x, options = A * 30, {"half": False, "note": "a jump at each half"}
        yield Case("round", (x,), {"decimals": decimals}, numpy=np.round, torch=_torch("round"), **options)
    yield Case("nan_to_num", (A,), numpy=np.nan_to_num)
    asked = {"nan": 1.0, "posinf": 2.0, "neginf": -3.0}
    yield Case("nan_to_num", (INFINITE,), asked, numpy=np.nan_to_num, differentiable=False, note="not finite")
    yield Case("nan_to_num", (INTEGERS,), numpy=np.nan_to_num, differentiable=False)


def _questions() -> Iterator[Case]:
    near = A + np.where(A > 0, 1e-9, 1e-2)
    options: dict[str, Any] = {"differentiable": False, "half": False, "note": "a question"}
    yield Case("isclose", (A, near), numpy=np.isclose, torch=_torch("isclose"), **options)
    yield Case("isclose", (INFINITE, INFINITE), numpy=np.isclose, **options)
    yield Case("isclose", (INFINITE, INFINITE), {"equal_nan": True}, numpy=np.isclose, **options)
    yield Case("isclose", (INFINITE, INFINITE[::-1].copy()), {"rtol": 0.5}, numpy=np.isclose, **options)
    yield Case("allclose", (A, A + 1e-9), numpy=np.allclose, **options)
    yield Case("allclose", (A, near), numpy=np.allclose, **options)
    for values in (np.array([3, 7]), np.arange(-12, 4), np.array([], np.int64)):
        yield Case("isin", (INTEGERS, values), numpy=np.isin, **options)
    yield Case("isin", (INTEGERS, np.arange(20)), {"invert": True}, numpy=np.isin, **options)


def _diagonals() -> Iterator[Case]:
    for k in (0, 1, -2):
        yield Case("diag", (V, k), numpy=np.diag, torch=_torch("diag"))
        yield Case("diag", (A, k), numpy=np.diag, torch=_torch("diag"))
        yield Case("diagflat", (A, k), numpy=np.diagflat, torch=_torch("diagflat"))
        yield Case("diag_embed", (A, k), torch=_torch("diag_embed"))
    yield Case("diag_embed", (A, 1, 0, 2), torch=_torch("diag_embed"))
    yield Case("diag", (EMPTY[:, 0],), numpy=np.diag)
    yield Case("diag", (np.array([True, True]),), numpy=np.diag, differentiable=False)
    yield Case("block_diag", (A, V, B), torch=_torch("block_diag"))
    yield Case("block_diag", (A, INTEGERS), torch=_torch("block_diag"))
    for sides, k in (((3,), 0), ((2, 4), 1), ((4, 2), -1)):
        name, options = "_indices", {"vmap": False, "differentiable": False}
        yield Case("tril" + name, sides, {"k": k}, numpy=_indices(np.tril_indices), **options)
        yield Case("triu" + name, sides, {"k": k}, numpy=_indices(np.triu_indices), **options)
    yield Case("logspace", (0.0, 2.0, 5), numpy=_float32(np.logspace), vmap=False, differentiable=False)
    yield Case("logspace", (-1, 3, 4), {"base": 2.0}, numpy=_float32(np.logspace), vmap=False, differentiable=False)


def _float32(function: Any) -> Any:
    return lambda *args, **kwargs: function(*args, **kwargs).astype(np.float32)


def _indices(function: Any) -> Any:
    return lambda rows, columns=None, k=0: function(rows, k, columns)


def _statistics() -> Iterator[Case]:
    yield Case("var_mean", (A,), {"axis": 1}, numpy=lambda x, axis: (x.var(axis), x.mean(axis)))
    yield Case("var_mean", (A,), {"correction": 1}, numpy=lambda x, correction: (x.var(ddof=1), x.mean()))
    for name, same in (("nansum", np.nansum), ("nanmean", np.nanmean)):
        yield Case(name, (A,), {"axis": 0}, numpy=same)
        yield Case(name, (HOLES,), {"axis": 1, "keepdims": True}, numpy=same, differentiable=False, note="NaN")
    yield Case("cov", (A,), numpy=np.cov, torch=_torch("cov"))
    yield Case("cov", (V,), numpy=np.cov, torch=_torch("cov"))
    yield Case("cov", (A,), {"correction": 0}, numpy=lambda x, correction: np.cov(x, ddof=0))
    yield Case("corrcoef", (A,), numpy=np.corrcoef, torch=_torch("corrcoef"))
    for p in (2.0, 1.0, 3.0, np.inf):
        distances = lambda a, b, p=2.0: np.linalg.norm(a[..., :, None, :] - b[..., None, :, :], p, -1)
        yield Case("cdist", (A, B), {"p": p}, numpy=distances, torch=_torch("cdist"))
    yield Case("cdist", (MATRICES, A), numpy=distances, torch=_torch("cdist"))
    yield Case("inner", (A, B), numpy=np.inner, torch=_torch("inner"))
    yield Case("inner", (MATRICES, V), numpy=np.inner, torch=_torch("inner"))
    yield Case("addmm", (W, A, MORE[0]), {"beta": 0.5, "alpha": 2.0}, torch=_torch("addmm"))
    yield Case("addmm", (W, A, MORE[0]), torch=_torch("addmm"))
    yield Case("baddbmm", (W, MATRICES, MORE), {"beta": 0.5}, torch=_torch("baddbmm"))
    yield from _integrals()
    yield Case("bincount", (np.array([0, 2, 2, 5]),), numpy=np.bincount, vmap=False, differentiable=False)
    of = {"weights": W[:4], "minlength": 8}
    yield Case("bincount", (np.array([0, 2, 2, 5]),), of, numpy=np.bincount, vmap=False, note="the data set the shape")
    for x in (INTEGERS, np.array([0, 3]), np.array(2)):
        yield Case("argwhere", (x,), numpy=np.argwhere, vmap=False, differentiable=False, note="the data set the shape")


def _integrals() -> Iterator[Case]:
    places = np.array([0.0, 0.5, 2.0, 2.5])
    yield Case("trapezoid", (A,), numpy=np.trapezoid)
    yield Case("trapezoid", (A,), {"dx": 0.5, "axis": 0}, numpy=np.trapezoid)
    yield Case("trapezoid", (A, places), numpy=np.trapezoid)
    yield Case("trapezoid", (A, B), {"axis": 0}, numpy=np.trapezoid)
    yield Case("cumulative_trapezoid", (A,), torch=_torch("cumulative_trapezoid"))
    yield Case("cumulative_trapezoid", (A, places), torch=_torch("cumulative_trapezoid"))
    transposed = {"axis": 0, "dx": 2.0}
    yield Case("cumulative_trapezoid", (MATRICES,), transposed, torch=lambda y, axis, dx: _cumulated(y, axis, dx))


def _cumulated(y: Any, axis: int, dx: float) -> Any:
    return _torch("cumulative_trapezoid")(y, dim=axis, dx=dx)


def _splits() -> Iterator[Case]:
    for parts in (2, 3, [1, 3], [2, 2, -1, 9]):
        yield Case("tensor_split", (A, parts), {"axis": 1}, numpy=np.array_split, torch=_split_by_torch)
    yield Case("hsplit", (A, 2), numpy=np.hsplit, torch=_torch("hsplit"))
    yield Case("hsplit", (V, [1, 3]), numpy=np.hsplit, torch=_torch("hsplit"))
    yield Case("vsplit", (A, 3), numpy=np.vsplit, torch=_torch("vsplit"))
    yield Case("vsplit", (A, [1]), numpy=np.vsplit, torch=_torch("vsplit"))
    for name, same in (("hstack", np.hstack), ("vstack", np.vstack), ("dstack", np.dstack)):
        yield Case(name, ([A, B],), numpy=same, torch=_torch(name))
        yield Case(name, ([V, V],), numpy=same, torch=_torch(name))
        yield Case(name, ([np.array(1.0), np.array(2.0)],), numpy=same, torch=_torch(name))


def _split_by_torch(x: Any, parts: Any, axis: int) -> Any:
    return _torch("tensor_split")(x, parts, dim=axis)


CASES = [*_elementwise(), *_questions(), *_diagonals(), *_statistics(), *_splits()]
