"""Dtypes: promotion as the Array API has it, weak Python numbers, the dtype each function gives, what is refused."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.core.dtypes import ALL, COMPLEX, FLOATING, HALF, INTEGER, NUMERIC, REAL

STANDARD = [dtype for dtype in ALL if dtype not in HALF]


def one(dtype: Any) -> wg.Tensor:
    return wg.tensor(np.ones(2), dtype)


def test_promotion_is_the_standards_where_it_defines_one() -> None:
    strict = pytest.importorskip(
        "array_api_strict", reason="array-api-strict, which holds the standard's table, is missing"
    )
    compared = 0
    for a, b in product(STANDARD, STANDARD):
        try:
            expected = strict.result_type(getattr(strict, a.name), getattr(strict, b.name))
        except TypeError:
            continue  # the standard leaves it open
        assert wg.result_type(a, b) == np.dtype(str(expected).rsplit(".")[-1]), (a, b)
        assert (one(a) * one(b)).dtype is wg.result_type(a, b)
        compared += 1
    assert compared == 73  # all pairs the standard defines


def test_promotion_where_the_standard_leaves_it_open() -> None:
    for integer, floating in product((wg.bool, *INTEGER), FLOATING):
        assert wg.result_type(integer, floating) is floating
    assert wg.result_type(wg.bool, wg.int8) is wg.int8
    assert wg.result_type(wg.float16, wg.bfloat16) is wg.float32
    assert wg.result_type(wg.bfloat16, wg.float32) is wg.float32
    assert wg.result_type(wg.int64, wg.complex64) is wg.complex64
    assert wg.result_type(wg.float64, wg.complex64) is wg.complex128
    for a, b in product(ALL, ALL):
        if {a, b} & {wg.uint64} and {a, b} & {wg.int8, wg.int16, wg.int32, wg.int64}:
            continue
        assert wg.result_type(a, b) is wg.result_type(b, a)


@pytest.mark.parametrize("signed", ["int8", "int16", "int32", "int64"])
def test_uint64_meets_no_signed_integer(signed: str) -> None:
    with pytest.raises(TypeError, match=f"no integer dtype holds both uint64 and {signed}"):
        one("uint64") + one(signed)
    with pytest.raises(TypeError, match="no integer dtype holds both"):
        wg.result_type(wg.uint64, signed)


def test_python_numbers_are_weak() -> None:
    for dtype in NUMERIC:
        assert (one(dtype) + 1).dtype is dtype and (2 * one(dtype)).dtype is dtype
        assert (one(dtype) * True).dtype is dtype
    for dtype in FLOATING:
        assert (one(dtype) * 0.5).dtype is dtype and (0.5 - one(dtype)).dtype is dtype
        assert wg.maximum(one(dtype), 0.5).dtype is dtype and wg.where(one(dtype) > 0, one(dtype), 0.5).dtype is dtype
        assert wg.pow(2.0, one(dtype)).dtype is dtype and wg.clip(one(dtype), 0.5, 2).dtype is dtype
    for dtype in INTEGER:
        assert (one(dtype) * 0.5).dtype is wg.float32 and wg.clip(one(dtype), 0.5).dtype is wg.float32
    assert (one("bool") + 1).dtype is wg.int64 and (one("float64") * 1j).dtype is wg.complex128
    assert (one("float32") * 1j).dtype is wg.complex64 and (one("complex64") * 0.5).dtype is wg.complex64


def test_numpy_scalars_are_weak_and_arrays_are_strong() -> None:
    """As numbers are in Python and in PyTorch: `x / np.sqrt(64)` keeps the dtype of `x`."""
    for dtype in FLOATING:
        for number in (np.float16(2), np.float32(2), np.float64(2), np.int64(2), np.bool_(True)):
            assert (one(dtype) * number).dtype is dtype and (number - one(dtype)).dtype is dtype
            assert wg.maximum(one(dtype), number).dtype is dtype and wg.add(number, one(dtype)).dtype is dtype
            assert wg.where(one(dtype) > 0, number, one(dtype)).dtype is dtype and (one(dtype) ** number).dtype is dtype
        assert wg.clip(one(dtype), np.float64(0), np.int64(1)).dtype is dtype
    assert (one("int8") + np.int64(1)).dtype is wg.int8 and (one("int8") + np.float64(1)).dtype is wg.float32
    assert (one("float32") + np.complex128(1j)).dtype is wg.complex64
    assert (one("float32") + np.ones(2)).dtype is wg.float64 and (one("float32") * np.array(2.0)).dtype is wg.float64
    assert wg.asarray(np.float64(2)).dtype is wg.float64 and wg.add(np.float64(2), np.float32(1)).dtype is wg.float64
    assert (one("float64") * np.float64(0.1)).tolist() == (one("float64") * 0.1).tolist()
    with pytest.raises(TypeError, match="does not fit into"):
        one("uint8") + np.int64(300)


def test_a_number_that_does_not_fit_raises() -> None:
    for call in (lambda: one("int8") + 200, lambda: one("uint8") - -1, lambda: one("uint8") * 256):
        with pytest.raises(TypeError, match="does not fit into"):
            call()


SMOOTH = ["exp", "log", "sin", "sqrt", "tanh", "reciprocal", "log1p", "acos", "atanh"]


@pytest.mark.parametrize("name", [*SMOOTH, "divide"])
def test_smooth_functions_of_integers_are_floats(name: str) -> None:
    function = getattr(wg, name)
    for dtype in ALL:
        x = one(dtype)
        result = function(x, x) if name == "divide" else function(x)
        expected = dtype if dtype in (*FLOATING, *COMPLEX) else wg.float32
        assert result.dtype is expected and result.numpy().dtype == expected


@pytest.mark.parametrize("name", ["floor", "ceil", "trunc", "round", "sign", "abs", "square", "negative", "positive"])
def test_rounding_and_signs_keep_the_dtype(name: str) -> None:
    for dtype in REAL:
        x = wg.tensor(np.array([3, 2]), dtype)
        result = getattr(wg, name)(x)
        assert result.dtype is dtype and result.numpy().dtype == dtype
    large = wg.tensor(np.array([2**62 + 1]))
    assert getattr(wg, name)(large).dtype is wg.int64
    if name in ("floor", "ceil", "trunc", "round", "positive", "abs"):
        assert getattr(wg, name)(large).item() == 2**62 + 1  # nothing went through a float


def test_integer_arithmetic_is_numpys() -> None:
    a, b = np.array([7, -7, 7, -7, -128], np.int8), np.array([2, 2, -2, -2, 3], np.int8)
    for name in ("add", "subtract", "multiply", "floor_divide", "remainder", "maximum", "minimum"):
        np.testing.assert_array_equal(getattr(wg, name)(a, b).numpy(), getattr(np, name)(a, b))
    np.testing.assert_array_equal((wg.tensor(a) ** 3).numpy(), a**3)
    np.testing.assert_array_equal(abs(wg.tensor(a)).numpy(), np.abs(a))
    with pytest.raises(TypeError, match="an integer to the power -1"):
        wg.tensor(a) ** -1


FLOATS = np.array([0.0, -0.0, 1.0, -1.5, 2.5, np.inf, -np.inf, np.nan, 1e300, 5e-324])


@pytest.mark.parametrize(
    "name",
    ["floor_divide", "remainder", "pow", "hypot", "atan2", "copysign", "maximum", "minimum", "logaddexp", "divide"],
)
def test_floating_special_cases_are_numpys(name: str) -> None:
    a, b = np.meshgrid(FLOATS, FLOATS)
    with np.errstate(all="ignore"):
        reference = {"pow": np.power, "atan2": np.arctan2}.get(name) or getattr(np, name)
        expected = reference(a, b)
    found = getattr(wg, name)(a, b).numpy()
    np.testing.assert_array_equal(found, expected)
    np.testing.assert_array_equal(np.signbit(found[found == 0]), np.signbit(expected[expected == 0]))


def test_complex_values_go_forward() -> None:
    z = np.array([1 + 2j, -0.5 + 0.1j, 0j])
    t = wg.tensor(z)
    names = {"asin": "arcsin", "atan": "arctan", "acosh": "arccosh"}
    for name in [
        "exp",
        "sin",
        "sqrt",
        "tanh",
        "log1p",
        "expm1",
        "square",
        "sign",
        "round",
        "conj",
        "asin",
        "atan",
        "acosh",
    ]:
        np.testing.assert_allclose(getattr(wg, name)(t).numpy(), getattr(np, names.get(name, name))(z), err_msg=name)
    assert wg.abs(t).dtype is wg.float64 and wg.real(t).dtype is wg.float64 and wg.imag(t).tolist() == [2.0, 0.1, 0.0]
    np.testing.assert_allclose((t ** (1 + 1j)).numpy(), z ** (1 + 1j))
    for name in ("floor", "maximum", "less", "atan2"):
        with pytest.raises(TypeError, match="complex128"):
            getattr(wg, name)(*[t] * (1 if name == "floor" else 2))


def test_bitwise_functions_take_no_floats_and_smooth_ones_no_strings() -> None:
    with pytest.raises(TypeError, match="bitwise_and does not take float32"):
        one("float32") & one("float32")
    with pytest.raises(TypeError, match="expected a tensor"):
        wg.exp("a")
    with pytest.raises(TypeError, match=r"wg\.tensor"):
        wg.exp([1.0])


def test_dtype_names() -> None:
    assert wg.tensor([1.0], "bfloat16").dtype is wg.bfloat16 and wg.tensor([1.0], float).dtype is wg.float32
    for wrong in ("float33", "object", "datetime64[s]", "S3", object, 3.5):
        with pytest.raises(TypeError, match="is not a supported dtype; choose one of bool, int8"):
            wg.tensor([1.0], wrong)


# --- the standard's utilities ---------------------------------------------------------------------------------------


def test_result_type_of_values_dtypes_and_numbers() -> None:
    assert wg.result_type(one("int8"), 3) is wg.int8 and wg.result_type(wg.int8, 2.0) is wg.float32
    assert wg.result_type(one("float16"), wg.int32, 1.0) is wg.float16
    assert wg.result_type(wg.float64, 1j) is wg.complex128
    with pytest.raises(ValueError, match="at least one"):
        wg.result_type(1, 2.0)


def test_can_cast() -> None:
    assert wg.can_cast(wg.int8, wg.int16) and wg.can_cast(one("float32"), wg.float64)
    assert not wg.can_cast(wg.float64, wg.float32) and not wg.can_cast(wg.float32, wg.int64)
    assert not wg.can_cast(wg.uint64, wg.int64)


def test_isdtype() -> None:
    kinds = ["bool", "signed integer", "unsigned integer", "integral", "real floating", "complex floating", "numeric"]
    for dtype in STANDARD:
        for kind in kinds:
            assert wg.isdtype(dtype, kind) == np.isdtype(dtype, kind)
    assert wg.isdtype(wg.bfloat16, "real floating") and wg.isdtype(wg.int8, (wg.int8, "bool"))
    assert not wg.isdtype(wg.int8, wg.int16)
    with pytest.raises(ValueError, match="not a kind"):
        wg.isdtype(wg.int8, "integer")


def test_finfo_and_iinfo() -> None:
    for dtype in (wg.float16, wg.float32, wg.float64):
        mine, theirs = wg.finfo(dtype), np.finfo(dtype)
        for name in ("bits", "eps", "max", "min", "smallest_normal"):
            assert getattr(mine, name) == getattr(theirs, name)
    assert wg.finfo(wg.complex64).dtype is wg.float32 and wg.finfo(one("float64")).bits == 64
    assert wg.finfo(wg.bfloat16).eps == 2.0**-7 and type(wg.finfo(wg.bfloat16).max) is float
    assert (wg.iinfo(wg.int8).min, wg.iinfo(one("uint64")).max) == (-128, 2**64 - 1)
    for call in (lambda: wg.finfo(wg.int8), lambda: wg.iinfo(wg.float32)):
        with pytest.raises(TypeError, match="takes"):
            call()


def test_asarray_and_astype() -> None:
    x = wg.tensor([1.0, 2.0], requires_grad=True)
    assert wg.asarray(x) is x and wg.asarray(x, copy=True) is not x
    assert wg.asarray(x, dtype=wg.float64).requires_grad
    assert wg.grad(lambda x: wg.asarray([x, 2 * x]).sum())(1.0).item() == 3
    array = np.ones(3)
    shared, copied = wg.asarray(array, copy=False), wg.asarray(array)
    array[0] = 5
    assert shared.tolist() == [5, 1, 1] and copied.tolist() == [1, 1, 1]
    for refused in (lambda: wg.asarray([1.0], copy=False), lambda: wg.asarray(array, dtype="int8", copy=False)):
        with pytest.raises(ValueError, match="without a copy"):
            refused()
    assert wg.astype(x, wg.float32, copy=False) is x and wg.astype(x, wg.float32) is not x
    assert wg.astype(x, wg.int8).tolist() == [1, 2]
    with pytest.raises(TypeError, match="imaginary part"):
        wg.astype(wg.tensor(1j), wg.float32)


def test_constants_and_shapes() -> None:
    assert (wg.pi, wg.e, wg.inf, wg.newaxis) == (np.pi, np.e, np.inf, None) and np.isnan(wg.nan)
    assert wg.broadcast_shapes((3, 1), 4, ()) == (3, 4)
    with pytest.raises(ValueError, match="do not broadcast"):
        wg.broadcast_shapes((3,), (2,))


def test_the_namespace_says_what_it_has() -> None:
    info = wg.__array_namespace_info__()
    assert info.capabilities()["data-dependent shapes"] and info.default_device() in info.devices()
    assert info.default_dtypes()["real floating"] is wg.float32 and info.default_dtypes()["integral"] is wg.int64
    assert info.dtypes().keys() == {dtype.name for dtype in STANDARD}
    assert info.dtypes(kind=("bool", "complex floating")).keys() == {"bool", "complex64", "complex128"}
