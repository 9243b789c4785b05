"""NumPy functions on tensors record; arrays go out and come in, through NumPy and DLPack, shared where they can be."""

from __future__ import annotations

import numpy as np
import pytest

import wengert as wg
from wengert.core.errors import DTypeError, GradientError, WengertError

A = np.linspace(0.1, 0.9, 6).reshape(2, 3)
B = np.linspace(-1.0, 1.0, 6).reshape(2, 3)


def is_tensor_like(result, expected):
    """Whether a result is a Tensor with NumPy's own values and dtype."""
    assert type(result) is wg.Tensor, type(result)
    assert result.dtype == expected.dtype and result.shape == expected.shape
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-12, atol=1e-14)
    return True


# --- NumPy functions record -----------------------------------------------------------------------------------------

UNARY = [
    "sin", "cos", "tan", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "arcsinh", "arctanh", "exp", "expm1",
    "log", "log1p", "log2", "log10", "sqrt", "square", "negative", "positive", "absolute", "abs", "sign", "floor",
    "ceil", "trunc", "rint", "reciprocal", "exp2", "isfinite", "isinf", "isnan", "logical_not", "signbit",
]  # fmt: skip
BINARY = [
    "add", "subtract", "multiply", "divide", "true_divide", "power", "float_power", "maximum", "minimum", "arctan2",
    "hypot", "copysign", "logaddexp", "fmax", "fmin", "fmod", "remainder", "mod", "floor_divide", "equal",
    "not_equal", "less", "less_equal",
    "greater", "greater_equal", "logical_and", "logical_or", "logical_xor",
]  # fmt: skip


@pytest.mark.parametrize("name", UNARY)
def test_unary_ufuncs(name):
    assert is_tensor_like(getattr(np, name)(wg.tensor(A)), getattr(np, name)(A))


@pytest.mark.parametrize("name", BINARY)
def test_binary_ufuncs_of_tensors_arrays_and_numbers(name):
    f = getattr(np, name)
    base, other = np.abs(B) + 0.5, A
    assert is_tensor_like(f(wg.tensor(base), wg.tensor(other)), f(base, other))
    assert is_tensor_like(f(wg.tensor(base), other), f(base, other))
    assert is_tensor_like(f(base, wg.tensor(other)), f(base, other))
    assert is_tensor_like(f(wg.tensor(base), 0.5), f(base, 0.5))
    assert is_tensor_like(f(0.5, wg.tensor(base)), f(0.5, base))


@pytest.mark.parametrize("name", ["bitwise_and", "bitwise_or", "bitwise_xor", "left_shift", "right_shift"])
def test_bit_ufuncs(name):
    a, b = np.array([1, 6, 12]), np.array([3, 2, 1])
    assert is_tensor_like(getattr(np, name)(wg.tensor(a), b), getattr(np, name)(a, b))


@pytest.mark.parametrize(
    "call",
    [
        lambda t, u: np.concatenate([t, u]),
        lambda t, u: np.concatenate([t, u], axis=1),
        lambda t, u: np.stack([t, u], axis=-1),
        lambda t, u: np.vstack([t, u]),
        lambda t, u: np.hstack([t, u]),
        lambda t, u: np.dstack([t, u]),
        lambda t, u: np.diag(t),
        lambda t, u: np.diag(t[0], 1),
        lambda t, u: np.diagflat(t),
        lambda t, u: np.cov(t),
        lambda t, u: np.corrcoef(t),
        lambda t, u: np.inner(t, u),
        lambda t, u: np.isclose(t, u, rtol=0.5),
        lambda t, u: np.nan_to_num(t, nan=1.0),
        lambda t, u: np.nansum(t, axis=0),
        lambda t, u: np.nanmean(t, axis=0),
        lambda t, u: np.round(u, 1),
        lambda t, u: np.sinc(t),
        lambda t, u: np.trapezoid(t, u, axis=0),
        lambda t, u: np.argwhere(u),
        lambda t, u: np.sum(t),
        lambda t, u: np.sum(t, axis=0),
        lambda t, u: np.mean(t, axis=1, keepdims=True),
        lambda t, u: np.max(t, axis=0),
        lambda t, u: np.prod(t),
        lambda t, u: np.std(t),
        lambda t, u: np.argmax(t, axis=1),
        lambda t, u: np.reshape(t, (3, 2)),
        lambda t, u: np.transpose(t, (1, 0)),
        lambda t, u: np.moveaxis(t, 0, 1),
        lambda t, u: np.squeeze(t[:, :1]),
        lambda t, u: np.expand_dims(t, axis=0),
        lambda t, u: np.broadcast_to(t, (2, 2, 3)),
        lambda t, u: np.where(t > u, t, u),
        lambda t, u: np.clip(t, 0.2, 0.5),
        lambda t, u: np.matmul(t, u.T),
        lambda t, u: np.tensordot(t, u.T, axes=1),
        lambda t, u: np.einsum("ij,kj->ik", t, u),
        lambda t, u: np.flip(t, axis=1),
        lambda t, u: np.sort(u, axis=1),
        lambda t, u: np.argsort(u, axis=1),
        lambda t, u: np.cumsum(t, axis=1),
        lambda t, u: np.zeros_like(t),
        lambda t, u: np.transpose(t),
        lambda t, u: np.median(t, axis=0),
        lambda t, u: np.roll(t, 1),
        lambda t, u: np.repeat(t, 2, axis=1),
        lambda t, u: np.tile(t, 2),
        lambda t, u: np.take(t, [1, 0], axis=1),
        lambda t, u: np.linalg.norm(t),
        lambda t, u: np.linalg.norm(t, axis=1),
        lambda t, u: np.linalg.norm(t, 1),
        lambda t, u: np.linalg.norm(t, 2),
        lambda t, u: np.linalg.norm(t[0], 1),
        lambda t, u: np.linalg.norm(t[None], "fro", axis=(0, 2), keepdims=True),
        lambda t, u: np.linalg.inv(t @ t.T),
        lambda t, u: np.fft.fft(t),
    ],
)
def test_numpy_functions(call):
    assert is_tensor_like(call(wg.tensor(A), wg.tensor(B)), np.asarray(call(A, B)))


def test_questions_about_values_are_answered_by_numpy():
    t = wg.tensor(A)
    assert np.shape(t) == (2, 3) and np.ndim(t) == 2 and np.size(t) == 6 and np.size(t, 1) == 3
    assert np.allclose(t, A) and np.array_equal(t, t) and not np.allclose(t, t + 1)
    assert np.result_type(t, np.float32) == np.float64
    np.testing.assert_allclose(t, A)


def test_arrays_first_and_tensors_second_in_operators():
    t = wg.tensor(B)
    for result, expected in [
        (A + t, A + B), (A - t, A - B), (A * t, A * B), (A / t, A / B), (A**t, A**B), (A // t, A // B), (A % t, A % B),
        (A @ t.T, A @ B.T), (t > A, A < B), (t == A, A == B), (np.float64(2) * t, 2 * B), (np.int64(2) + t, 2 + B),
    ]:  # fmt: skip
        assert is_tensor_like(result, expected)


def test_numpy_functions_are_differentiated():
    gradient = wg.grad(lambda t: np.sum(np.sin(t) * A))(wg.tensor(B))
    np.testing.assert_allclose(gradient.numpy(), np.cos(B) * A)
    x = wg.tensor(B, requires_grad=True)
    np.sum(np.concatenate([x, A * x]) ** 2).backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * B + 2 * A * A * B)


def test_numpy_functions_work_under_vmap():
    found = wg.vmap(lambda row: np.exp(row) / np.sum(np.exp(row)))(wg.tensor(A))
    np.testing.assert_allclose(found.numpy(), np.exp(A) / np.exp(A).sum(1, keepdims=True))


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.int32, np.uint8, np.bool_, np.complex64])
def test_arrays_keep_their_dtype(dtype):
    array = np.ones(3, dtype)
    assert wg.tensor(array).dtype == wg.asarray(array).dtype == np.asarray(wg.tensor(array)).dtype == dtype


@pytest.mark.parametrize(
    "call",
    [
        lambda t: np.add.reduce(t),
        lambda t: np.add.at(t, [0], 1),
        lambda t: np.add(t, t, out=np.zeros((2, 3))),
        lambda t: np.busday_count(t, t),
        lambda t: np.spacing(t),
        lambda t: np.digitize(t, t),
    ],
)
def test_what_has_no_counterpart_says_how_to_get_at_the_array(call):
    with pytest.raises(DTypeError, match=r"has no counterpart in Wengert; call it on t.numpy\(\)"):
        call(wg.tensor(A))


# --- arrays out -----------------------------------------------------------------------------------------------------


def test_asarray_shares_the_memory_and_cannot_be_written():
    t = wg.tensor(A)
    array = np.asarray(t)
    assert type(array) is np.ndarray and np.shares_memory(array, t.numpy())
    with pytest.raises(ValueError, match="read-only"):
        array[0, 0] = 7
    with pytest.raises(ValueError, match="read-only"):
        t.numpy()[0, 0] = 7


def test_array_copies_and_casts():
    t = wg.tensor(A)
    copy = np.array(t)
    copy[0, 0] = 7
    assert t.tolist() == A.tolist()
    assert np.asarray(t, np.float32).dtype == np.float32
    assert np.asarray(t, np.float64, copy=False) is not None
    with pytest.raises(ValueError, match="copy"):
        np.asarray(t, np.float32, copy=False)


def test_asarray_of_a_pending_and_of_a_tracked_value():
    t = wg.tensor(A, requires_grad=True)
    np.testing.assert_allclose(np.asarray((t * 2).detach()), A * 2)
    with pytest.raises(GradientError, match="requires grad"):
        np.asarray(t * 2)
    assert np.asarray([wg.tensor(1.0), wg.tensor(2.0)], dtype=float).tolist() == [1.0, 2.0]


def test_importing_copies_unless_told_not_to():
    array = A.copy()
    copied, shared = wg.tensor(array), wg.tensor(array, copy=False)
    array[0, 0] = 7
    assert copied[0, 0].item() == A[0, 0] and shared[0, 0].item() == 7


# --- DLPack ---------------------------------------------------------------------------------------------------------


def address(array):
    return array.__array_interface__["data"][0]


def test_dlpack_to_numpy_shares_the_memory():
    t = wg.tensor(A)
    assert address(np.from_dlpack(t)) == address(t.numpy())
    assert t.__dlpack_device__() == (1, 0)


def test_dlpack_from_numpy_shares_the_memory():
    t = wg.from_dlpack(A)
    assert type(t) is wg.Tensor and address(t.numpy()) == address(A)
    assert address(wg.from_dlpack(A, copy=True).numpy()) != address(A)


def test_dlpack_there_and_back():
    t = wg.tensor(A)
    assert address(wg.from_dlpack(t).numpy()) == address(t.numpy())


@pytest.mark.parametrize(
    "dtype", ["float64", "float32", "float16", "int64", "int32", "int8", "uint8", "complex64", "bool"]
)
def test_torch_shares_the_memory_both_ways(dtype):
    torch = pytest.importorskip("torch")
    t = wg.tensor(np.arange(6).reshape(2, 3).astype(dtype))
    theirs = torch.from_dlpack(t)
    assert theirs.data_ptr() == address(t.numpy())
    assert str(theirs.dtype) == f"torch.{dtype}" and theirs.tolist() == t.tolist()
    ours = wg.from_dlpack(theirs)
    assert address(ours.numpy()) == theirs.data_ptr() and ours.dtype == dtype


def test_torch_takes_computed_values_and_transposes():
    torch = pytest.importorskip("torch")
    t = wg.tensor(A)
    assert torch.from_dlpack((t * 2).T).tolist() == (A * 2).T.tolist()
    assert torch.from_dlpack(wg.flip(t, axis=1)).tolist() == A[:, ::-1].tolist()
    strided = torch.arange(12.0).reshape(3, 4).T[::2]
    assert wg.from_dlpack(strided).tolist() == strided.tolist()


def test_values_made_from_shared_memory_are_differentiated():
    torch = pytest.importorskip("torch")
    x = wg.from_dlpack(torch.tensor([1.0, 2.0])).requires_grad_()
    (x * x).sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_bfloat16_comes_and_goes_or_says_how():
    torch = pytest.importorskip("torch")
    with pytest.raises(WengertError, match="bfloat16"):
        torch.from_dlpack(wg.tensor([1.0]).to(wg.bfloat16))
    with pytest.raises(WengertError, match="from_dlpack"):
        wg.from_dlpack(torch.ones(2, dtype=torch.bfloat16))


def test_what_is_no_array_raises():
    with pytest.raises(WengertError, match="from_dlpack"):
        wg.from_dlpack([1.0, 2.0])
