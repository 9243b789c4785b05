"""Arrays on the GPU shared with PyTorch, CuPy and JAX, both ways: the same memory, each waiting for the other."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

import wengert as wg

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # JAX would take most of the memory
SIZE = 1 << 24
SLEEP = 200_000_000  # cycles: a tenth of a second


def address(x: wg.Tensor) -> int:
    return int(x.__cuda_array_interface__["data"][0])


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch", reason="torch is not installed")


@pytest.fixture
def cupy() -> Any:
    return pytest.importorskip("cupy", reason="CuPy is not installed")


@pytest.fixture
def jax() -> Any:
    return pytest.importorskip("jax", reason="JAX is not installed")


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int32", "int64", "uint8", "bool"])
def test_torch_in_every_dtype(torch: Any, dtype: str) -> None:
    x = wg.arange(6, dtype=wg.float32, device="cuda").astype(getattr(wg, dtype)).reshape(2, 3)
    there = torch.from_dlpack(x)
    assert there.data_ptr() == address(x) and there.dtype == getattr(torch, dtype)
    assert there.tolist() == x.tolist()
    back = wg.from_dlpack(there)
    assert address(back) == address(x) and back.dtype is x.dtype and back.tolist() == x.tolist()


def test_the_array_interface_is_read_by_torch_and_cupy(torch: Any, cupy: Any) -> None:
    x = wg.arange(6, dtype=wg.float32, device="cuda").reshape(2, 3)
    for there, pointer in ((torch.as_tensor(x, device="cuda"), "data_ptr"), (cupy.asarray(x), "data")):
        place = getattr(there, pointer)
        assert (place() if callable(place) else place.ptr) == address(x) and there.tolist() == x.tolist()


class OnlyInterface:
    """An array that speaks nothing but the CUDA array interface."""

    def __init__(self, held: Any) -> None:
        self.held, self.__cuda_array_interface__ = held, held.__cuda_array_interface__


def test_arrays_with_the_interface_are_taken_in(cupy: Any) -> None:
    there = cupy.arange(6, dtype=cupy.float32).reshape(2, 3)
    shared = wg.asarray(OnlyInterface(there), copy=False)
    assert shared.device == "cuda:0" and address(shared) == there.data.ptr and shared.tolist() == there.tolist()
    own = wg.tensor(OnlyInterface(there))
    assert address(own) != there.data.ptr and own.tolist() == there.tolist()
    with pytest.raises(wg.errors.DTypeError, match="not contiguous"):
        wg.tensor(OnlyInterface(there.T))


def test_cupy_and_jax_by_dlpack(cupy: Any, jax: Any) -> None:
    x = wg.arange(6, dtype=wg.float32, device="cuda")
    assert cupy.from_dlpack(x).data.ptr == address(x) == jax.numpy.from_dlpack(x).unsafe_buffer_pointer()
    theirs = cupy.arange(6, dtype=cupy.float32)
    assert address(wg.from_dlpack(theirs)) == theirs.data.ptr
    made = jax.numpy.arange(6, dtype=jax.numpy.float32)
    assert address(wg.from_dlpack(made)) == made.unsafe_buffer_pointer()
    assert wg.from_dlpack(made).tolist() == wg.from_dlpack(theirs).tolist() == x.tolist()


def test_tensors_of_torch_become_ours_on_the_gpu(torch: Any) -> None:
    there = torch.arange(6, device="cuda", dtype=torch.float32)
    x = wg.tensor(there)
    assert x.device == "cuda:0" and address(x) != there.data_ptr() and x.tolist() == there.tolist()
    assert wg.tensor(there, device="cpu").device == "cpu"
    with pytest.raises(wg.errors.DTypeError, match="grad"):
        wg.tensor(torch.ones(2, device="cuda", requires_grad=True))


def test_torch_waits_for_us(torch: Any) -> None:
    x = wg.ones(SIZE, device="cuda")
    for turn in range(5):
        for _ in range(20):
            x = wg.sin(x) * 1.0 + 1.0 - wg.sin(x)
        with torch.cuda.stream(torch.cuda.Stream()):
            assert torch.from_dlpack(x + turn).sum().item() == SIZE * (1 + turn)


def test_we_wait_for_torch(torch: Any) -> None:
    stream = torch.cuda.Stream()
    for turn in range(3):
        with torch.cuda.stream(stream):
            there = torch.zeros(SIZE, device="cuda")
            torch.cuda._sleep(SLEEP)
            there.fill_(turn + 1.0)
            x = wg.from_dlpack(there) * 2
        assert x.sum().item() == SIZE * 2 * (turn + 1)


def test_memory_that_torch_still_reads_is_not_given_to_another(torch: Any) -> None:
    stream = torch.cuda.Stream()
    for turn in range(3):
        with torch.cuda.stream(stream):
            x = wg.full((SIZE,), turn + 1.0, device="cuda") * 1.0
            there = torch.from_dlpack(x)
            torch.cuda._sleep(SLEEP)
            total = there.sum()
            del x, there
        other = wg.full((SIZE,), -1.0, device="cuda") * 1.0  # may lie where x lay
        other.sum().item()
        assert total.item() == SIZE * (turn + 1)


def test_a_result_that_torch_still_reads_is_not_overwritten_by_the_next(torch: Any) -> None:
    double = wg.compile(lambda x: x * 2)
    small, large = (wg.full((SIZE,), k, device="cuda") * 1.0 for k in (1.0, 3.0))
    for _ in range(9):  # its results lie in one place from here on
        double(small)
    stream = torch.cuda.Stream()
    for _ in range(3):
        with torch.cuda.stream(stream):
            there = torch.from_dlpack(double(small))
            torch.cuda._sleep(SLEEP)
            total = there.sum()
            del there
        double(large)
        stream.synchronize()
        assert total.item() == SIZE * 2


def test_cupy_on_its_own_stream(cupy: Any) -> None:
    x = wg.ones(SIZE, device="cuda")
    for _ in range(20):
        x = wg.sin(x) * 1.0 + 1.0 - wg.sin(x)
    with cupy.cuda.Stream(non_blocking=True):
        assert float(cupy.asarray(x).sum()) == SIZE
        doubled = cupy.from_dlpack(x) * 2
        assert (np.asarray(wg.from_dlpack(doubled).numpy()) == 2).all()
