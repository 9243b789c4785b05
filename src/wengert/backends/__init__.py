"""Backends run programs on devices: the host's C and NumPy (`cpu`), NVIDIA's GPUs (`cuda`), and what they share.

Each kind of device is registered here. CUDA is imported when a GPU is first named, so that `import wengert` stays fast.
"""

from __future__ import annotations

from wengert.core import devices
from wengert.core.errors import DeviceError

_DLPACK_CPU, _DLPACK_CUDA = 1, 2  # DLPack's numbers for the kinds of devices


def _open_host(name: str, index: int) -> devices.Device:
    from wengert.backends.cpu.device import HostDevice

    return HostDevice()


def _open_gpu(name: str, index: int) -> devices.Device:
    from wengert.backends.cuda.device import open_device

    return open_device(name, index)


def _count_gpus() -> int:
    """The number of GPUs; 0 if a part of CUDA is missing."""
    from wengert.backends.cuda.bindings import count

    try:
        return count()
    except DeviceError:
        return 0


devices.register(devices.HOST, _open_host, lambda: 1, _DLPACK_CPU)
devices.register(devices.CUDA, _open_gpu, _count_gpus, _DLPACK_CUDA)
