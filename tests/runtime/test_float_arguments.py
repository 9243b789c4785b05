"""A Python float among a compiled function's arguments has the precision of what it meets, as it has uncompiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.core.errors import AbstractValueError, DTypeError

VALUES = [0.1, 1.0, -0.3, 16777217.0, 1e300, 1e-300, 2.0**53 + 2, 65519.9, float("inf"), float("nan"), -0.0]

w64 = wg.tensor(np.array([1.0, 2.0, 3.0]))
w32 = wg.tensor([1.0, 2.0, 3.0])
w16 = wg.tensor(np.array([1.0, 2.0, 3.0], np.float16))
b16 = wg.tensor([1.0, 2.0, 3.0], dtype=wg.bfloat16)
i64 = wg.tensor([1, 2, 3])
z128 = wg.tensor(np.array([1 + 2j, 3j]))
z64 = wg.tensor(np.array([1 + 2j, 3j], np.complex64))
mask = wg.tensor([True, False, True])


def _in_place(k: Any) -> Any:
    k += 1.5
    k *= 2
    return w64 * k


def _assigned(k: Any) -> Any:
    slot = wg.zeros(3, dtype=wg.float64)
    slot[1] = k
    slot += k
    return slot


def _filled(k: Any) -> Any:
    slot = wg.zeros((), dtype=wg.float64)
    slot.assign(k)
    return slot


def _decayed(k: Any) -> Any:
    for _ in range(300):
        k = k * 0.99 + k * k * 1e-9
    return w64 + k


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "float64": lambda k: w64 * k,
    "float64 right": lambda k: k - w64,
    "float32": lambda k: w32 * k,
    "float16": lambda k: w16 + k,
    "bfloat16": lambda k: k + b16,
    "int64": lambda k: i64 * k,
    "bool": lambda k: mask * k,
    "complex128": lambda k: z128 * k,
    "complex64": lambda k: z64 + k,
    "all dtypes": lambda k: (w64 * k, w32 * k, w16 * k, i64 - k),
    "cast inside": lambda k: w32.astype(wg.float64) * k,
    "function": lambda k: (wg.multiply(w64, k), wg.add(k, w32), wg.maximum(k, w64)),
    "numpy array": lambda k: w64 * (np.ones(3) * k if type(k) is float else k * np.ones(3)),
    "where": lambda k: (wg.where(mask, w64, k), wg.where(mask, k, w32)),
    "clip": lambda k: wg.clip(w64, -k, k),
    "full": lambda k: (wg.full((2,), k, dtype=wg.float64), wg.full((2,), k), wg.full_like(w64, k)),
    "tensor": lambda k: (wg.tensor(k, dtype=wg.float64), wg.tensor(k), wg.asarray(k, dtype=wg.float64), wg.asarray(k)),
    "alone": lambda k: wg.sin(k),
    "two alone": lambda k: wg.add(k, k),
    "arithmetic": lambda k: w64 * (k * 2 + 1),
    "more arithmetic": lambda k: w64 * (3.5 - k) / (k * k + 1.0) + (k % 0.7) + abs(-k) + (k // 3) + divmod(k, 0.3)[1],
    "chosen": lambda k: wg.where(wg.asarray(k > 0.1), w64, 0.0),
    "compared with tensors": lambda k: (w64 > k, k <= w32, w64 == k),
    "in place": _in_place,
    "assigned": _assigned,
    "filled": _filled,
    "a long way": _decayed,
    "matrix": lambda k: (w64 * k) @ (w64 + k),
    "in a scan": lambda k: wg.scan(lambda carry, x: (carry + x * k, carry), wg.tensor(np.array(0.0)), w64)[0],
    "in vmap": lambda k: wg.vmap(lambda x: x * k + k * 2)(w64),
    "in grad": lambda k: wg.grad(lambda x: (x * x * k).sum())(w64),
    "by it": lambda k: wg.grad(lambda k: (w32 * k).sum())(k),
}


def _check(found: Any, wanted: Any, message: str = "") -> None:
    """Equal but for the last bits, which differ where C joins a product and a sum in one rounding."""
    pairs = zip(found, wanted) if isinstance(wanted, tuple) else [(found, wanted)]
    for a, b in pairs:
        assert a.dtype is b.dtype, message
        rounding = 4 * float(wg.finfo(b.dtype).eps) if b.dtype.kind in "fcV" else 0
        a, b = (np.asarray(x.numpy(), np.complex128 if x.dtype.kind == "c" else np.float64) for x in (a, b))
        np.testing.assert_allclose(a, b, rtol=rounding, atol=0, err_msg=message)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_float_argument_is_what_a_float_is(name: str) -> None:
    function = FUNCTIONS[name]
    compiled = wg.compile(function)
    for _ in range(2):  # by the fast path at last
        for value in VALUES:
            try:
                expected = function(value)
            except ArithmeticError as error:
                with pytest.raises(type(error)):
                    compiled(value)
                continue
            _check(compiled(value), expected, f"{name} of {value}")


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_floats_in_containers_and_beside_tensors() -> None:
    function = lambda x, options: x * options["rate"] + options["shift"][0]
    compiled = wg.compile(function)
    for rate in VALUES:
        options = {"rate": rate, "shift": [0.1]}
        for x in (w64, w32, np.array([1.0, 2.0]), np.float64(3.0)):
            _check(compiled(x, options), function(wg.asarray(x), options))


@pytest.mark.parametrize("value", [True, False, 3, 2**53 + 1, -(2**62), np.float64(0.1), np.float32(0.1), np.int64(7)])
def test_other_numbers_are_what_they_are_uncompiled(value: Any) -> None:
    functions = [lambda k: w64 * k, lambda k: i64 * k, lambda k: w32.astype(wg.float64) - k]
    if isinstance(value, np.generic):
        functions += [lambda k: w32 / k, lambda k: w32 * (k * 2 + 1), lambda k: wg.maximum(w32, -k)]
        functions += [lambda k: w64 * (k / 3), lambda k: w32 * (0.5 - k), lambda k: w64 * (k * k), wg.asarray]
    for function in functions:
        _check(wg.compile(function)(value), function(value))


def test_a_float_that_is_returned_is_one() -> None:
    compiled = wg.compile(lambda x, k: (x * 2, k, k * 3))
    for _ in range(4):
        _, same, more = compiled(w32, 0.1)
        assert (same, more) == (0.1, 0.1 * 3)
        assert type(same) is type(more) is float


def test_python_errors_of_floats_are_raised_on_their_line() -> None:
    compiled = wg.compile(lambda k: w64 * (1 / k))
    assert compiled(2.0).tolist() == [0.5, 1.0, 1.5]
    for _ in range(5):
        compiled(4.0)
        with pytest.raises(ZeroDivisionError, match=r"test_float_arguments.py:\d+:  compiled = wg.compile"):
            compiled(0.0)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_float_argument_is_recorded_once() -> None:
    compiled = wg.compile(lambda x, k: x * k + w64 * (k + 1))
    for k in VALUES:
        compiled(w32, k)
    assert len(compiled.why()) == 1


def test_branching_on_a_float_argument_still_raises() -> None:
    for function in (lambda k: w64 if k > 1 else w32, lambda k: w64 * float(k), lambda k: w64 * int(k)):
        with pytest.raises(AbstractValueError):
            wg.compile(function)(2.0)


def test_a_function_that_needs_the_number_itself_says_so() -> None:
    for function in (lambda k: wg.var(w64, correction=k), lambda k: wg.arange(0, k), lambda k: wg.celu(w64, alpha=k)):
        with pytest.raises((AbstractValueError, DTypeError)):
            wg.compile(function)(0.5)


def test_a_learning_rate_in_float64_is_exact() -> None:
    w = wg.tensor(np.array([1.0, 2.0]), requires_grad=True)

    @wg.compile
    def step(rate: Any) -> None:
        w.grad = None
        (w * w).sum().backward()
        with wg.no_grad():
            w.assign(w - rate * w.grad)

    expected = np.array([1.0, 2.0])
    for _ in range(6):
        step(0.1)
        expected = expected - 0.1 * (expected + expected)
    np.testing.assert_array_equal(w.detach().numpy(), expected)
