"""Training on the GPU: the same losses as on the CPU, dynamically and compiled; what is kept on the device."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wengert as wg


def losses(device: str, compiled: bool, steps: int = 5, dtype: Any = wg.float64, drop: float = 0.0) -> list[float]:
    wg.manual_seed(0)
    model = wg.nn.Sequential(wg.models.MLP(20, [32, 16, 5]), wg.nn.Dropout(drop)).to(dtype).to(device)
    optimizer = wg.optim.Adam(model.parameters(), lr=1e-2)
    rng = np.random.default_rng(0)
    x = wg.tensor(rng.normal(size=(64, 20)), dtype=dtype, device=device)
    y = wg.tensor(rng.integers(0, 5, 64), device=device)

    def step(x: wg.Tensor, y: wg.Tensor) -> wg.Tensor:
        optimizer.zero_grad()
        loss = wg.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    function = wg.compile(step) if compiled else step
    return [function(x, y).item() for _ in range(steps)]


@pytest.mark.parametrize("compiled", [False, True])
def test_an_mlp_trains_as_on_the_cpu(compiled: bool) -> None:
    np.testing.assert_allclose(losses("cuda", compiled), losses("cpu", compiled), rtol=1e-9)


@pytest.mark.parametrize("compiled", [False, True])
def test_dropout_draws_as_on_the_cpu(compiled: bool) -> None:
    on_gpu, on_cpu = (losses(device, compiled, steps=12, drop=0.25) for device in ("cuda", "cpu"))
    np.testing.assert_allclose(on_gpu, on_cpu, rtol=1e-9)


def test_the_same_steps_twice_give_the_same_bits() -> None:
    assert losses("cuda", True, dtype=wg.float32) == losses("cuda", True, dtype=wg.float32)


def test_a_hundred_dynamic_steps_upload_nothing_and_download_the_loss_once() -> None:
    wg.manual_seed(0)
    model = wg.models.MLP(20, [32, 1]).to("cuda")
    optimizer = wg.optim.SGD(model.parameters(), lr=1e-2)
    x, y = (wg.tensor(np.ones(shape, np.float32), device="cuda") for shape in ((8, 20), (8, 1)))

    def step() -> wg.Tensor:
        optimizer.zero_grad()
        loss = ((model(x) - y) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(5):
        step()
    before = wg.cuda.transfers()
    for _ in range(100):
        loss = step()
    loss.item()
    after = wg.cuda.transfers()
    assert after["uploads"] - before["uploads"] == 0
    assert after["downloads"] - before["downloads"] == 1


def test_a_returned_value_is_never_overwritten() -> None:
    double = wg.compile(lambda x: x * 2)
    held = [double(wg.full((1000,), i, device="cuda", dtype=wg.float32)) for i in range(6)]
    assert [t.numpy()[0].item() for t in held] == [2.0 * i for i in range(6)]


def test_values_move_and_gradients_come_back() -> None:
    x = wg.tensor([1.0, 2.0], requires_grad=True)
    (x.to("cuda") ** 2).sum().backward()
    assert x.grad.device == "cpu" and x.grad.tolist() == [2.0, 4.0]


def test_devices_do_not_mix_silently() -> None:
    with pytest.raises(wg.errors.DeviceError, match="move one with"):
        wg.tensor([1.0]) + wg.tensor([1.0], device="cuda")


def test_dropout_differs_between_replays_and_repeats_from_a_seed() -> None:
    x = wg.ones((1000,), device="cuda")
    drop = wg.compile(lambda x: wg.dropout(x, 0.5))

    def three() -> list[np.ndarray]:
        wg.manual_seed(3)
        return [drop(x).numpy() for _ in range(3)]

    first, second = three(), three()
    assert all((a == b).all() for a, b in zip(first, second))
    assert (first[0] != first[1]).any()


def test_torch_and_back_without_a_copy() -> None:
    torch = pytest.importorskip("torch", reason="torch is not installed")
    x = wg.arange(6, dtype=wg.float32, device="cuda")
    there = torch.from_dlpack(x)
    assert there.is_cuda and there.tolist() == x.tolist()
    back = wg.from_dlpack(there * 2)
    assert back.device == "cuda:0" and back.tolist() == [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]


def test_an_index_out_of_range_is_an_error_that_names_the_op() -> None:
    table = wg.ones((4, 3), device="cuda")
    rows = wg.tensor([0, 7], device="cuda")
    with pytest.raises((wg.errors.OutOfRangeError, wg.errors.ComputationError), match="gather"):
        wg.take(table, rows, axis=0).detach().numpy()


def test_a_kernel_of_ones_own() -> None:
    triple = wg.cuda.kernel(
        'extern "C" __global__ void triple(const float *x, int n, float *y)'
        "{ int i = blockIdx.x * blockDim.x + threadIdx.x; if (i < n) y[i] = 3 * x[i]; }",
        "triple",
        grid=lambda x, n: -(-n // 256),
    )
    x = wg.arange(1000, dtype=wg.float32, device="cuda")
    assert (triple(x, 1000).numpy() == 3 * np.arange(1000)).all()
    compiled = wg.compile(lambda x: triple(x + 1, 1000) - 1)
    for _ in range(4):
        assert (compiled(x).numpy() == 3 * (np.arange(1000) + 1) - 1).all()


def test_a_kernel_of_ones_own_may_ask_for_more_shared_memory_later() -> None:
    source = """extern "C" __global__ void turned(const int *x, int n, int *y)
    {
        extern __shared__ int held[];
        for (int i = threadIdx.x; i < n; i += blockDim.x) held[i] = x[i];
        __syncthreads();
        for (int i = threadIdx.x; i < n; i += blockDim.x) y[i] = held[n - 1 - i];
    }"""
    for n in (64, 1024, 20_000):
        x = wg.arange(n, dtype=wg.int32, device="cuda")
        assert (wg.cuda.kernel(source, "turned", grid=1, shared=4 * n)(x, n).numpy() == np.arange(n)[::-1]).all()
