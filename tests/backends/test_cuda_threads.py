"""Threads on one GPU: they take turns, and objects of the GPU may end in any of them, at any time."""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.backends.emulated import EMULATED, EmulatedDriver, install
from tests.kernels.emulator import compiler
from wengert.backends.cuda import driver, memory
from wengert.backends.cuda.driver import CudaDriver
from wengert.backends.cuda.memory import DeviceArray, opened
from wengert.core import devices

emulated = pytest.mark.skipif(compiler() is None, reason="there is no C++ compiler to emulate kernels with")


def in_threads(*work: Callable[[], Any]) -> None:
    """Do all of this at once, in threads that never did anything on a GPU; raises what one of them raised."""
    failures: list[BaseException] = []

    def guarded(one: Callable[[], Any]) -> None:
        try:
            one()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=guarded, args=(one,), daemon=True) for one in work]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    if failures:
        raise failures[0]


def function(k: int) -> Callable[[wg.Tensor], wg.Tensor]:
    """One of several steps, with temporaries."""

    def f(x: wg.Tensor) -> wg.Tensor:
        x = x - x.mean(0, keepdims=True)
        x = x * x.sum(1, keepdims=True) * 0.01 + k
        return (x - x.mean(0, keepdims=True)).sum(1) + k

    return f


@pytest.fixture
def hasty() -> Iterator[None]:
    """Threads that interrupt one another all the time."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


@emulated
@pytest.mark.usefixtures("gpu", "hasty")
def test_programs_of_several_threads_do_not_mix() -> None:
    x = np.random.default_rng(0).normal(size=(16, 24)).astype(np.float32)
    given = wg.tensor(x, device="cuda")
    functions = [wg.compile(function(k)) for k in range(3)]
    expected = [f(given).numpy() for f in functions]

    def work(k: int) -> None:
        for i in range(8):
            if i % 4 == 0:
                functions[k]._specializations.clear()  # so that launches one by one, captures and replays meet
            np.testing.assert_array_equal(functions[k](given).numpy(), expected[k])

    in_threads(*[lambda k=k: work(k) for k in range(3)])


def test_the_calls_of_every_thread_go_to_the_device_it_opens(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu, current = EmulatedDriver(), set[int]()
    monkeypatch.setattr(gpu, "make_current", lambda: current.add(threading.get_ident()))
    install(monkeypatch, gpu)

    def work() -> None:
        opened("cuda:0")
        assert threading.get_ident() in current

    in_threads(work)


def test_one_driver_is_made_for_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    made, met = [], threading.Barrier(2, timeout=10)

    def make(index: int) -> EmulatedDriver:
        made.append(index)
        threading.Event().wait(0.05)
        return EMULATED

    monkeypatch.setattr(devices, "_opened", {devices.HOST: devices.of(devices.HOST)})
    monkeypatch.setattr(driver, "make", make)
    in_threads(*[lambda: (met.wait(), opened("cuda:0"))] * 2)
    assert made == [0]


def test_blocks_that_end_while_memory_is_counted_do_not_wait_for_that(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, EmulatedDriver())
    held = [DeviceArray((4,), np.dtype(np.float32), "cuda:0")]

    def collected_meanwhile() -> None:
        with memory._lock:
            held.clear()

    in_threads(collected_meanwhile)
    assert not opened("cuda:0").blocks


class Calls:
    """A driver's functions, all of which succeed: their names, in order."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def __getattr__(self, name: str) -> Callable[..., tuple[int, int]]:
        return lambda *arguments: (self.names.append(name), (0, 1))[1]  # type: ignore[func-returns-value]


@pytest.fixture
def bare() -> CudaDriver:
    """A driver of no GPU."""
    made = CudaDriver.__new__(CudaDriver)
    made.cu, made.context, made.stream = Calls(), "context", "stream"
    made.lock, made.is_capturing = threading.RLock(), False
    made.postponed = deque()
    return made


def test_memory_is_freed_in_a_thread_that_has_nothing_to_do_with_the_gpu(bare: CudaDriver) -> None:
    in_threads(lambda: bare.free(256))
    assert bare.cu.names == ["cuCtxPushCurrent", "cuMemFreeAsync", "cuCtxPopCurrent"]


def test_who_frees_does_not_wait_for_who_has_the_stream(bare: CudaDriver) -> None:
    with bare.lock:
        in_threads(lambda: bare.free(256))
        assert bare.cu.names == []
        bare.allocate(4)
    assert bare.cu.names[1:] == ["cuMemFreeAsync", "cuCtxPopCurrent", "cuMemAllocAsync"]


def test_nothing_is_freed_during_a_capture(bare: CudaDriver) -> None:
    bare.is_capturing = True
    bare.free(256)
    assert bare.cu.names == []
    bare.is_capturing = False
    bare.free(512)
    assert bare.cu.names.count("cuMemFreeAsync") == 2


@pytest.mark.parametrize("error, kind, waits", [(0, 0, False), (0, 1, True), (1, 0, False)])
def test_an_upload_from_pinned_memory_is_waited_for(bare: CudaDriver, error: int, kind: int, waits: bool) -> None:
    """The device reads such memory by itself, later; of other memory the driver knows nothing, or says that it errs."""
    bare.cu.cuPointerGetAttributes = lambda count, attributes, address: (error, [kind])
    bare.cu.CUpointer_attribute = SimpleNamespace(CU_POINTER_ATTRIBUTE_MEMORY_TYPE=2)
    bare.upload(256, np.ones(4))
    assert bare.cu.names == ["cuMemcpyHtoDAsync"] + ["cuStreamSynchronize"] * waits
