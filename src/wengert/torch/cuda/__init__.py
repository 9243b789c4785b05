"""`torch.cuda`: what is asked of GPUs."""

from __future__ import annotations

import time
from importlib import import_module as _import_module
from typing import Any

import wengert as wg
from wengert.core import devices as _devices
from wengert.torch.devices import device as _device
from wengert.torch.missing import missing_attribute as _missing_attribute


def is_available() -> bool:
    """Whether there is a usable GPU."""
    return bool(_devices.gpus())


def device_count() -> int:
    """The number of GPUs."""
    return len(_devices.gpus())


def is_initialized() -> bool:
    """Whether a GPU has been used."""
    return any(_devices.kind_of(name) == _devices.CUDA for name in _devices.in_use())


def init() -> None:
    """Do nothing: GPUs are initialised on first use."""


_current = 0


def current_device() -> int:
    """The index of the GPU that "cuda" refers to."""
    _require()
    return _current


def set_device(device: Any) -> None:
    """Make "cuda" refer to this GPU; only the first one is possible."""
    number = device if isinstance(device, int) else (_device(device).index or 0)
    if number not in range(device_count()):
        raise RuntimeError(f"CUDA error: invalid device ordinal: there are {device_count()} GPUs")
    if number != 0:
        raise RuntimeError("torch.cuda.set_device: write device='cuda:1' where the tensors are made")


class device:
    """A block inside which tensors are made on a GPU."""

    def __init__(self, device: Any) -> None:
        self._device = (
            None if device is None else _device("cuda", device) if isinstance(device, int) else _device(device)
        )

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: Any) -> None:
        pass


def _require() -> None:
    if not is_available():
        raise RuntimeError("no GPU is available: torch.cuda.is_available() is False")


def synchronize(device: Any = None) -> None:
    """Wait until everything recorded has been computed."""
    wg.synchronize()


def _memory(device: Any) -> Any:
    from wengert import cuda

    _require()
    return cuda.memory("cuda" if device is None else str(_device(device)))


def memory_allocated(device: Any = None) -> int:
    """The bytes held by tensors now."""
    return int(_memory(device).used) if is_available() else 0


def max_memory_allocated(device: Any = None) -> int:
    """The peak bytes held by tensors."""
    return int(_memory(device).peak) if is_available() else 0


memory_reserved, max_memory_reserved = memory_allocated, max_memory_allocated


def reset_peak_memory_stats(device: Any = None) -> None:
    """Do nothing: the peak is always since the start of the process."""


def empty_cache() -> None:
    """Do nothing: freed memory is returned automatically."""


def get_device_name(device: Any = None) -> str:
    """The name of the GPU."""
    return str(get_device_properties(device).name)


def get_device_properties(device: Any = None) -> Any:
    """The driver's properties of the GPU."""
    _require()
    return _devices.of("cuda").target().properties


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """The GPU's compute capability."""
    number = int(get_device_properties(device).architecture)
    return number // 10, number % 10


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether bfloat16 works."""
    return True


def manual_seed(seed: int) -> None:
    """Seed the random numbers."""
    wg.manual_seed(seed)


manual_seed_all = manual_seed


class Event:
    """A point in time by which everything recorded before it has been computed."""

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        self._time = 0.0

    def record(self, stream: Any = None) -> None:
        """Record the time when everything before is done."""
        wg.synchronize()
        self._time = time.perf_counter()

    def synchronize(self) -> None:
        """Do nothing: the event has happened when `record` returns."""

    def query(self) -> bool:
        """Whether it has happened."""
        return True

    def elapsed_time(self, end_event: Event) -> float:
        """The milliseconds to another event."""
        return (end_event._time - self._time) * 1e3


class Stream:
    """A stream; Wengert chooses the order of a GPU's work itself."""

    def __init__(self, device: Any = None, priority: int = 0) -> None:
        self.device = device

    def synchronize(self) -> None:
        """Wait for all work."""
        wg.synchronize()

    def wait_stream(self, stream: Any) -> None:
        """Do nothing: work runs in program order."""

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *exception: Any) -> None:
        pass


class StreamContext:
    """A block whose work goes to a stream."""

    def __init__(self, stream: Any) -> None:
        self.stream = stream

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: Any) -> None:
        pass


class CUDAGraph:
    """A recorded series of kernels in PyTorch, which is not here: a compiled function replays one by itself."""

    def __init__(self, keep_graph: bool = False) -> None:
        raise RuntimeError("torch.cuda.CUDAGraph is not in wengert.torch: a compiled function is one CUDA graph")


class graph:
    """A block that is recorded as a CUDAGraph in PyTorch, and is not here."""

    def __init__(self, cuda_graph: Any, *args: Any, **kwargs: Any) -> None:
        raise RuntimeError("torch.cuda.graph is not in wengert.torch: a compiled function is one CUDA graph")


def stream(stream: Any) -> Any:
    """A context for a stream, without effect."""
    return Stream() if stream is None else stream


def current_stream(device: Any = None) -> Stream:
    """The stream in use."""
    return Stream(device)


def __getattr__(name: str) -> Any:
    if name == "amp":
        return _import_module("wengert.torch.cuda.amp")
    if name.endswith("Tensor"):
        globals().update(_import_module("wengert.torch.creation").classes("cuda"))
        if name in globals():
            return globals()[name]
    return _missing_attribute("torch.cuda", name)
