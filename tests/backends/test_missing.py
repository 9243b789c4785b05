"""What is said where CUDA, or a part of it, is missing: simulated, on the user's own line."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import wengert as wg
from wengert.backends.cuda import bindings, compile
from wengert.core import devices
from wengert.core.errors import DeviceError

NO_DEVICE, TOO_OLD, NO_DRIVER = 100, 803, "Failed to dlopen libcuda.so.1"


@pytest.fixture(autouse=True)
def _afresh(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing was asked for before, and nothing is remembered after."""
    monkeypatch.setattr(devices, "_opened", {devices.HOST: devices.of(devices.HOST)})
    remembering = (bindings.bindings, compile.bindings, compile._fingerprint)
    for cached in remembering:
        cached.cache_clear()
    yield
    for cached in remembering:
        cached.cache_clear()


def install(monkeypatch: pytest.MonkeyPatch, **modules: Any) -> None:
    """Have `from cuda.bindings import NAME` give these and no others."""
    package = ModuleType("cuda.bindings")
    monkeypatch.setitem(sys.modules, "cuda", ModuleType("cuda"))
    monkeypatch.setitem(sys.modules, "cuda.bindings", package)
    for name in ("driver", "nvrtc"):
        monkeypatch.delitem(sys.modules, f"cuda.bindings.{name}", raising=False)
    for name, module in modules.items():
        setattr(package, name, module)


def fake_driver(status: int = 0, count: int = 1, init: Callable[[int], Any] | None = None) -> Any:
    """The driver's bindings, as far as they are asked before a GPU is opened."""
    return SimpleNamespace(
        cuInit=init or (lambda flags: (status,)),
        cuDeviceGetCount=lambda: (0, count),
        cuGetErrorName=lambda code: (0, b"CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"),
        CUresult=SimpleNamespace(CUDA_ERROR_NO_DEVICE=NO_DEVICE, __call__=int),
    )


def refusal(device: str = "cuda") -> str:
    """What is said to somebody who asks for a GPU; it is on their line."""
    with pytest.raises(DeviceError) as caught:
        wg.tensor(1.0, device=device)
    assert "wg.tensor(1.0, device=device)" in str(caught.value)
    return str(caught.value)


def test_no_bindings(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch)
    assert "cuda-bindings is missing" in refusal() and "pip install 'wengert[cuda]'" in refusal()
    assert not wg.cuda.is_available() and wg.cuda.device_count() == 0


def test_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def init(flags: int) -> Any:
        raise RuntimeError(NO_DRIVER)

    install(monkeypatch, driver=fake_driver(init=init))
    assert f"no NVIDIA driver was found ({NO_DRIVER}); device='cpu' works" in refusal()
    assert not wg.cuda.is_available()


def test_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, driver=fake_driver(NO_DEVICE))
    assert "found no GPU" in refusal() and not wg.cuda.is_available()


def test_a_driver_that_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = fake_driver(TOO_OLD)
    fake.CUresult = type("CUresult", (int,), {"CUDA_ERROR_NO_DEVICE": NO_DEVICE})
    install(monkeypatch, driver=fake)
    said = refusal()
    assert "does not start (CUDA_ERROR_SYSTEM_DRIVER_MISMATCH)" in said and "older than these CUDA libraries" in said


def test_a_gpu_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, driver=fake_driver(count=2))
    assert "there is no device 'cuda:7': this machine has 2 GPUs, starting at 'cuda:0'" in refusal("cuda:7")


@pytest.mark.parametrize("missing", ["the bindings", "the library"])
def test_no_nvrtc(monkeypatch: pytest.MonkeyPatch, missing: str) -> None:
    def version() -> Any:
        raise RuntimeError("Failed to dlopen libnvrtc.so.13")

    install(monkeypatch, **({} if missing == "the bindings" else {"nvrtc": SimpleNamespace(nvrtcVersion=version)}))
    with pytest.raises(DeviceError, match=r"NVRTC is missing .*pip install 'wengert\[cuda\]'"):
        compile.compiled(["__global__ void nothing() {}"], "90a")


def test_a_name_that_is_no_device() -> None:
    with pytest.raises(DeviceError, match="'gpu' is not a device; choose 'cpu', or 'cuda'"):
        wg.ones(3, device="gpu")


def test_a_kernel_that_does_not_compile_says_why() -> None:
    pytest.importorskip("cuda.bindings.nvrtc", reason="compiling CUDA needs the cuda extra")
    with pytest.raises(wg.errors.CompilerError, match=r"NVRTC could not build a kernel(.|\n)*expected a"):
        compile.cubin("__global__ void wrong( {", "90a")
