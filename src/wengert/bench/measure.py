"""How things are measured: medians of spans long enough for the clock, what a machine can do at most, what copies cost.

On a GPU calls are asked for without waiting, and the span ends when the device has done them all; the time in which
they were only asked for is the host's.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

import wengert as wg
from wengert.bench.cases import numbers
from wengert.core import devices
from wengert.core.devices import HOST, is_host
from wengert.runtime.static.compile import Compiled

SPANS = 5
LEAST = 2e-3  # seconds that a span takes
MOST_CALLS = 1000
LONG = 10e-3  # seconds of a copy that is not repeated
COPIED = (4, 4096, 1 << 20, 1 << 24, 1 << 28)  # bytes
QUEUED = 16  # calls that a device can be behind without making the host wait


class Time(NamedTuple):
    """The seconds of a call, and those of the host alone."""

    seconds: float
    host: float


def timed(call: Callable[[], Any], device: str, budget: float = 0.15) -> Time:
    """How long a call takes, after it was called often enough to be compiled: the median of spans within the budget."""
    wait = _waiting(device)
    for _ in range(3):
        call()
        wait()
    start = perf_counter()
    call()
    wait()
    once = max(perf_counter() - start, 1e-7)
    count = int(min(max(LEAST / once, 1), MOST_CALLS))
    spans = int(min(max(budget / (once * count), 1), SPANS))
    found = [_span(call, wait, count) for _ in range(spans)]
    return Time(statistics.median(found), _asked(call, wait) if device == "gpu" else 0.0)


def _span(call: Callable[[], Any], wait: Callable[[], None], count: int) -> float:
    start = perf_counter()
    for _ in range(count):
        call()
    wait()
    return (perf_counter() - start) / count


def _asked(call: Callable[[], Any], wait: Callable[[], None]) -> float:
    """The seconds of the host for asking for a call."""
    start = perf_counter()
    for _ in range(QUEUED):
        call()
    host = (perf_counter() - start) / QUEUED
    wait()
    return host


def _waiting(device: str) -> Callable[[], None]:
    return wg.cuda.synchronize if device == "gpu" else lambda: None


def placed(array: np.ndarray[Any, Any], device: str) -> wg.Tensor:
    """An array as a Tensor on a device."""
    return wg.tensor(array, device=devices.CUDA if device == "gpu" else HOST)


# --- copies ---------------------------------------------------------------------------------------------------------


def copied(arrays: list[np.ndarray[Any, Any]], results: list[wg.Tensor]) -> float:
    """The seconds for bringing arrays to the GPU and results back: the best of three, of long ones the second."""
    _up(arrays)
    first = _up(arrays) + _down(results)
    return first if first > LONG else min(first, *(_up(arrays) + _down(results) for _ in range(2)))


def _up(arrays: list[np.ndarray[Any, Any]]) -> float:
    wg.cuda.synchronize()
    start = perf_counter()
    held = [placed(array, "gpu") for array in arrays]
    wg.cuda.synchronize()
    seconds = perf_counter() - start
    del held
    return seconds


def _down(tensors: list[wg.Tensor]) -> float:
    wg.cuda.synchronize()
    start = perf_counter()
    for tensor in tensors:
        tensor.detach().numpy()
    return perf_counter() - start


def copies() -> list[dict[str, float]]:
    """What copies between host and GPU cost, over sizes: with ordinary (pageable) memory, and with pinned memory."""
    found = []
    for size in COPIED:
        array = np.ones(size // 4, np.float32)
        pinned = wg.cuda.pinned(array.shape)
        pinned[...] = array
        there = placed(array, "gpu")
        ways = {
            "upload": lambda array=array: _up([array]),
            "download": lambda there=there: _down([there]),
            "upload pinned": lambda pinned=pinned: _up_pinned(pinned),
            "download pinned": lambda there=there: _down_pinned(there),
        }
        found.append({"bytes": size, **{name: min(way() for _ in range(4)) for name, way in ways.items()}})
    return found


def _up_pinned(array: np.ndarray[Any, Any]) -> float:
    """The seconds of an upload of an array that the GPU reads where it lies."""
    wg.cuda.synchronize()
    start = perf_counter()
    held = wg.cuda.upload(array)
    wg.cuda.synchronize()
    seconds = perf_counter() - start
    del held
    return seconds


def _down_pinned(tensor: wg.Tensor) -> float:
    """The seconds of a download into pinned memory."""
    wg.cuda.synchronize()
    start = perf_counter()
    wg.cuda.download(tensor).numpy()
    return perf_counter() - start


# --- what a machine can do ------------------------------------------------------------------------------------------


def launch() -> dict[str, float]:
    """What a call costs whatever it computes: a program of one small kernel, asked for, and waited for."""
    step, x = Compiled(lambda x: x + 1.0), placed(np.ones(1, np.float32), "gpu")
    time = min(timed(lambda: step(x), "gpu") for _ in range(SPANS))  # others may have been at work
    waited = []
    for _ in range(100):
        start = perf_counter()
        step(x)
        wg.cuda.synchronize()
        waited.append(perf_counter() - start)
    return {"host": time.host, "call": time.seconds, "waited for": statistics.median(waited)}


def ceilings(device: str) -> dict[str, float]:
    """Bytes a second from and to memory, and floating-point operations a second, as measured."""
    found = {"bandwidth": _bandwidth(device), "float32": _rate(device, 2048 if is_host(device) else 4096, "float32")}
    if device == "gpu":
        found["bfloat16"] = _rate(device, 8192, "bfloat16")
    return found


def _bandwidth(device: str) -> float:
    x = placed(np.ones(1 << (25 if is_host(device) else 28), np.float32), device)
    copy = Compiled(lambda x: x + 1.0)
    return 8 * x.size / timed(lambda: copy(x), device, 0.5).seconds


def _rate(device: str, n: int, dtype: str) -> float:
    x, y = (placed(numbers(n, n, seed=i), device).to(getattr(wg, dtype)) for i in range(2))
    multiply = Compiled(wg.matmul)
    best = timed(lambda: multiply(x, y), device, 0.5).seconds
    if is_host(device):
        a, b = x.detach().numpy(), y.detach().numpy()
        best = min(best, timed(lambda: a @ b, device, 0.5).seconds)
    return 2 * n**3 / best
