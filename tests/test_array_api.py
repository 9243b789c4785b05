"""`wengert` as an Array API 2024.12 namespace: names, parameters and results, beside array_api_strict's."""

from __future__ import annotations

import inspect
import re
import warnings
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import wengert as wg

strict = pytest.importorskip("array_api_strict", reason="array-api-strict, the standard's reference, is not installed")

# What array_api_strict exports beside the standard, and what came after 2024.12.
NOT_STANDARD = {"ArrayAPIStrictFlags", "Device", "get_array_api_strict_flags", "reset_array_api_strict_flags"}
NOT_STANDARD |= {"set_array_api_strict_flags", "__version__", "fft", "linalg"}
LATER = {"broadcast_shapes", "isin"}


@pytest.fixture(autouse=True, scope="module")
def version_of_the_standard() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        strict.set_array_api_strict_flags(api_version="2024.12")
    yield
    strict.reset_array_api_strict_flags()


def standard_names() -> list[str]:
    names = [name for name in strict.__all__ if name not in NOT_STANDARD]
    for space in ("linalg", "fft"):
        module = getattr(strict, space)
        names += [f"{space}.{name}" for name in module.__all__]
    return sorted(set(names) - LATER)


def look_up(namespace: ModuleType, dotted: str) -> Any:
    for part in dotted.split("."):
        namespace = getattr(namespace, part)
    return namespace


@pytest.mark.parametrize("name", standard_names())
def test_name_and_parameters(name: str) -> None:
    theirs, ours = look_up(strict, name), look_up(wg, name)
    if not inspect.isfunction(theirs):
        return
    wanted = inspect.signature(theirs).parameters.values()
    found = inspect.signature(ours).parameters
    takes_any = any(p.kind is p.VAR_KEYWORD for p in found.values())
    named = [p.name for p in wanted if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)]
    missing = [parameter for parameter in named if parameter not in found and not takes_any]
    assert not missing, f"{name}{inspect.signature(ours)} does not take {missing}"
    positional = [p for p in wanted if p.kind is p.POSITIONAL_ONLY]
    taken = [p for p in found.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.VAR_POSITIONAL)]
    enough = len(taken) >= len(positional) or any(p.kind is p.VAR_POSITIONAL for p in taken)
    assert enough, f"{name}{inspect.signature(ours)} takes too few positional arguments"


STANDARD_ATTRIBUTES = {"T", "device", "dtype", "mT", "ndim", "shape", "size", "to_device"}
NOT_OF_THE_STANDARD = {"__array__", "__buffer__", "__annotations__", "__weakref__", "__slots__", "__getstate__"}


def standard_methods() -> list[str]:
    own = set(dir(type(strict.asarray(1.0)))) - set(dir(object)) - NOT_OF_THE_STANDARD
    return sorted(name for name in own if name.startswith("__")) + sorted(STANDARD_ATTRIBUTES)


@pytest.mark.parametrize("name", standard_methods())
def test_tensor_has(name: str) -> None:
    assert hasattr(wg.Tensor, name)


def test_the_namespace_says_what_it_is() -> None:
    assert wg.tensor(1.0).__array_namespace__() is wg
    assert wg.tensor(1.0).__array_namespace__(api_version="2024.12") is wg
    assert wg.__array_api_version__ == "2024.12"
    info = wg.__array_namespace_info__()
    assert info.default_device() == wg.tensor(1.0).device
    assert info.default_device() in info.devices()
    assert info.capabilities().keys() >= {"boolean indexing", "data-dependent shapes", "max dimensions"}
    assert info.default_dtypes() == {
        "real floating": wg.float32,
        "complex floating": wg.complex64,
        "integral": wg.int64,
        "indexing": wg.int64,
    }
    assert info.dtypes(kind="bool") == {"bool": wg.bool}
    assert info.dtypes(kind="signed integer").keys() == {"int8", "int16", "int32", "int64"}
    assert info.dtypes(kind=("real floating", "complex floating")).keys() >= {"float32", "float64", "complex64"}


# Expressions over xp (either namespace) and these operands, whose values and dtypes must be the standard's.
OPERANDS = {
    "x": np.array([[0.5, -1.25, 2.0], [3.0, 0.25, -0.75]]),
    "y": np.array([[1.5, 0.5, -2.0], [0.25, 4.0, 1.0]]),
    "p": np.array([[0.5, 0.25, 0.75], [0.125, 0.625, 0.875]]),
    "f": np.array([0.5, 1.5, 2.5, -3.5], "float32"),
    "s": np.array(2.5),
    "m": np.array([[4.0, 1.0], [1.0, 3.0]]),
    "n": np.array([[1.0, 2.0], [3.0, -4.0]]),
    "v": np.array([1.0, -2.0, 3.0]),
    "w": np.array([0.5, 2.0, -1.0]),
    "i": np.array([[1, 2, 3], [4, 5, 7]]),
    "j": np.array([3, 1, 2], "int32"),
    "k": np.array([2, 0, 1]),
    "u": np.array([1, 7, 3], "uint8"),
    "b": np.array([True, False, True]),
    "c": np.array([1 + 2j, -0.5j, 3.0]),
    "e": np.zeros((0, 3)),
}
# A line of names in braces stands for the expressions with each of them.
EXPRESSIONS = """
xp.{abs ceil cos cosh exp expm1 floor isfinite isinf isnan negative positive reciprocal round sign signbit}(x)
xp.{abs ceil cos cosh exp expm1 floor isfinite isinf isnan negative positive reciprocal round sign signbit}(f)
xp.{sin sinh square tan tanh trunc asinh atan}(x)
xp.{acos asin atanh log log10 log1p log2 sqrt}(p)
xp.acosh(y * y + 1)
xp.{add atan2 copysign divide equal floor_divide greater greater_equal hypot less less_equal logaddexp}(x, y)
xp.{maximum minimum multiply nextafter not_equal remainder subtract}(x, y)
xp.{add atan2 divide floor_divide less maximum multiply remainder}(x, w)
xp.{add subtract multiply floor_divide remainder equal less pow maximum}(i, j)
xp.{bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift}(j, j)
xp.{logical_and logical_or logical_xor equal bitwise_xor bitwise_and}(b, b)
xp.{real imag conj abs exp sqrt negative square isfinite sin log reciprocal sign}(c)
xp.bitwise_invert(u)
xp.logical_not(b)
xp.pow(p, y)
xp.pow(i, xp.asarray(2))
xp.clip(x, -1, 1)
xp.clip(x, min=0.0)
xp.clip(x, max=y)
x + 1, 2 * x, 1 - x, x / 2, x**2, x % 2.0, x // 2.0, -x, +x, abs(x)
i + 1, i // 2, i % 2, i << 1, i >> 1, i & 3, i | 8, i ^ 5, ~i
x < y, x <= y, x == x, x != y, x > 0, x >= 0
x @ xp.matrix_transpose(y), v @ w, m @ n
u + u, u * u, j + j, b & b, b | b, ~b

xp.arange(5, dtype=xp.int32), xp.arange(1.0, 3.0, 0.5, dtype=xp.float64), xp.arange(7, 1, -2)
xp.asarray([1, 2, 3], dtype=xp.float64), xp.asarray(True), xp.asarray([[1, 2], [3, 4]], dtype=xp.uint8)
xp.eye(3, dtype=xp.float64), xp.eye(2, 4, k=1, dtype=xp.int64), xp.eye(3, k=-1, dtype=xp.bool)
xp.full((2, 3), 7), xp.full((2,), 1.5, dtype=xp.float64), xp.full((), True)
xp.linspace(0.0, 1.0, 5, dtype=xp.float64), xp.linspace(0, 10, 4, endpoint=False, dtype=xp.float64)
xp.zeros((2, 2), dtype=xp.float64), xp.ones(3, dtype=xp.int8)
xp.zeros_like(x), xp.ones_like(i), xp.full_like(x, 3.0), xp.empty_like(x).shape, xp.empty((2, 3)).shape
xp.meshgrid(v, w)
xp.meshgrid(v, w, indexing="ij")
xp.tril(x), xp.triu(x, k=1), xp.tril(i, k=-1)

xp.astype(x, xp.float32), xp.astype(x, xp.int64), xp.astype(i, xp.float64), xp.astype(x, xp.bool)
xp.can_cast(xp.int32, xp.int64), xp.can_cast(xp.float64, xp.float32), xp.result_type(xp.int8, xp.int32)
xp.isdtype(xp.float32, "real floating"), xp.isdtype(xp.int8, ("integral", "bool")), xp.isdtype(xp.uint8, "numeric")
xp.finfo(xp.float32).eps, xp.finfo(xp.float64).max, xp.iinfo(xp.int16).min, xp.iinfo(xp.int64).max
xp.finfo(xp.float32).bits, xp.finfo(x).bits, xp.finfo(xp.complex128).bits, xp.iinfo(i).bits
xp.finfo(xp.float64).smallest_normal, xp.finfo(xp.float32).min
xp.result_type(x, f), xp.result_type(i, j, u)

xp.{sum prod max min mean std var}(x)
xp.{sum prod max min mean std var}(x, axis=0)
xp.{sum prod max min mean std var}(x, axis=-1, keepdims=True)
xp.{sum mean var}(x, axis=(0, 1), keepdims=True)
xp.{sum prod}(u), xp.sum(j), xp.sum(f), xp.sum(i, dtype=xp.float64)
xp.{sum prod}(e), xp.sum(e, axis=0)
xp.var(x, correction=1), xp.std(x, axis=1, correction=1.0)
xp.all(b), xp.any(b), xp.all(x, axis=0), xp.any(i, axis=1, keepdims=True)
xp.argmax(x), xp.argmax(x, axis=1), xp.argmin(x, axis=0, keepdims=True)
xp.count_nonzero(i), xp.count_nonzero(b), xp.count_nonzero(x, axis=1)
xp.{cumulative_sum cumulative_prod}(v), xp.cumulative_sum(u)
xp.{cumulative_sum cumulative_prod}(x, axis=1, include_initial=True)
xp.diff(v), xp.diff(x, axis=0), xp.diff(x, n=2), xp.diff(v, prepend=w, append=w)

xp.broadcast_to(v, (2, 3))
xp.broadcast_arrays(v, x)
xp.concat([x, y], axis=1), xp.concat([x, y], axis=None), xp.concat((j, i[0, :]))
xp.expand_dims(x, axis=1), xp.flip(x), xp.flip(x, axis=1), xp.moveaxis(x, 0, 1), xp.permute_dims(x, (1, 0))
xp.repeat(v, 2), xp.repeat(x, 2, axis=1), xp.repeat(v, k)
xp.reshape(x, (3, 2)), xp.reshape(x, (-1,))
xp.roll(x, 1), xp.roll(x, (1, -1), axis=(0, 1)), xp.squeeze(xp.expand_dims(x, axis=0), axis=0)
xp.stack([x, y]), xp.stack([x, y], axis=-1), xp.tile(v, (2,)), xp.tile(x, (2, 1))
xp.unstack(x), xp.unstack(x, axis=1)
x.T, x.mT, x[0, :], x[:, 1], x[..., -1], x[None, 0, ::2], x[:, xp.newaxis, 1:]
x[xp.asarray([[True, False, True], [False, False, True]])]

xp.nonzero(i), xp.nonzero(b)
xp.where(b, v, w), xp.where(x > 0, x, y), xp.where(b, j, i)
xp.searchsorted(xp.sort(v), w)
xp.searchsorted(v, w, side="right", sorter=xp.argsort(v))
xp.sort(v), xp.sort(x, axis=0, descending=True)
xp.argsort(v), xp.argsort(x, axis=0, descending=True), xp.argsort(i)
xp.take(x, k, axis=1), xp.take(v, k)
xp.take_along_axis(x, xp.asarray([[0, 2], [1, 1]]), axis=1)
xp.{unique_values unique_counts unique_inverse unique_all}(i)

xp.matmul(x, y.T), xp.matrix_transpose(x), xp.tensordot(x, y, axes=((1,), (1,))), xp.tensordot(v, w, axes=0)
xp.vecdot(x, y), xp.vecdot(x, w, axis=-1), xp.vecdot(c, c)
xp.linalg.{matmul tensordot}(m, n), xp.linalg.vecdot(v, w), xp.linalg.matrix_transpose(n)
xp.linalg.cholesky(m), xp.linalg.cholesky(m, upper=True)
xp.linalg.{det inv slogdet}(n)
xp.linalg.solve(n, m), xp.linalg.solve(n, n[:, 0])
xp.linalg.{svdvals pinv matrix_rank}(x), xp.linalg.eigvalsh(m)
xp.linalg.matrix_norm(n), xp.linalg.matrix_norm(n, ord="nuc"), xp.linalg.matrix_norm(n, ord=1, keepdims=True)
xp.linalg.matrix_norm(n, ord=2), xp.linalg.matrix_norm(n, ord=-2), xp.linalg.matrix_norm(n, ord=xp.inf)
xp.linalg.matrix_power(n, 3), xp.linalg.matrix_power(n, -2), xp.linalg.matrix_power(n, 0)
xp.linalg.{outer cross}(v, w)
xp.linalg.diagonal(x, offset=1), xp.linalg.trace(n), xp.linalg.trace(i)
xp.linalg.vector_norm(x), xp.linalg.vector_norm(x, axis=1, ord=1), xp.linalg.vector_norm(x, ord=3, keepdims=True)

xp.fft.{fft ifft fftn ifftn fftshift ifftshift hfft irfft}(c)
xp.fft.{rfft ihfft rfftn}(v)
xp.fft.fft(c, n=5, norm="ortho"), xp.fft.rfft(x, axis=0, norm="forward")
xp.fft.irfftn(xp.fft.rfftn(x), s=(2, 3), axes=(0, 1))
xp.fft.fftfreq(5, dtype=xp.float64), xp.fft.rfftfreq(6, d=0.5, dtype=xp.float64)

xp.e, xp.pi, xp.inf, xp.newaxis, float(s), int(s), bool(b[0]), complex(s), x.shape, x.ndim, x.size
"""


def expressions() -> list[str]:
    found = []
    for line in filter(None, EXPRESSIONS.splitlines()):
        names = re.search(r"{(.*?)}", line)
        found += [line.replace(names[0], name) for name in names[1].split()] if names else [line]
    return found


@pytest.mark.parametrize("expression", expressions())
def test_result(expression: str) -> None:
    expected = evaluate(expression, strict, strict.asarray)
    found = evaluate(expression, wg, wg.tensor)
    assert_same(found, expected)


def evaluate(expression: str, xp: ModuleType, make: Any) -> Any:
    operands = {name: make(value) for name, value in OPERANDS.items()}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        return eval(expression, {"xp": xp, **operands})


def assert_same(found: Any, expected: Any) -> None:
    """Values, shapes and dtypes of nested results."""
    if isinstance(expected, (tuple, list)):
        assert len(found) == len(expected)
        assert getattr(found, "_fields", None) == getattr(expected, "_fields", None)
        for ours, theirs in zip(found, expected):
            assert_same(ours, theirs)
    elif isinstance(expected, type(strict.asarray(1))):
        assert found.shape == expected.shape
        assert found.dtype.name == np.asarray(expected).dtype.name
        np.testing.assert_allclose(found.numpy(), np.asarray(expected), rtol=1e-6, atol=1e-12)
    elif isinstance(expected, type(strict.float32)):
        assert found.name == str(expected).split(".")[-1]
    else:
        assert found == expected


def test_a_factorisation_multiplies_back() -> None:
    """Factors are unique up to signs only, so they are checked by what they are for."""
    x, m = wg.tensor(OPERANDS["x"]), wg.tensor(OPERANDS["m"])
    q, r = wg.linalg.qr(x)
    np.testing.assert_allclose((q @ r).numpy(), OPERANDS["x"], atol=1e-12)
    u, s, vh = wg.linalg.svd(x, full_matrices=False)
    np.testing.assert_allclose(((u * s) @ vh).numpy(), OPERANDS["x"], atol=1e-12)
    values, vectors = wg.linalg.eigh(m)
    np.testing.assert_allclose((vectors * values @ vectors.mT).numpy(), OPERANDS["m"], atol=1e-12)
    assert wg.linalg.svd(x).U.shape == (2, 2) and wg.linalg.svd(x).Vh.shape == (3, 3)
    assert wg.linalg.qr(x, mode="complete").R.shape == (2, 3)
