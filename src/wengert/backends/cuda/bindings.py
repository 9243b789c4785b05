"""The bindings of NVIDIA's driver, or an error that says how to install them, and its status codes as errors."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

from wengert.core.errors import CudaError, MissingDeviceError, OutOfMemoryError

_BY_KERNELS = tuple(
    f"CUDA_ERROR_{name}" for name in ("ILLEGAL_ADDRESS", "MISALIGNED_ADDRESS", "LAUNCH_FAILED", "ILLEGAL_INSTRUCTION")
)
OF_A_KERNEL = (
    ". A kernel caused this, possibly much earlier. Run the program again with wg.config.check = True, which names "
    "the kernel, op and line. This process can no longer use the GPU"
)
INSTALL = "install Wengert's CUDA parts with: pip install 'wengert[cuda]'"


@functools.cache
def bindings() -> Any:
    """The driver's bindings; raises with instructions if they, a driver or a GPU are missing."""
    try:
        from cuda.bindings import driver as cu
    except ImportError as error:
        raise MissingDeviceError(f"cuda-bindings is missing ({error}); {INSTALL}") from None
    try:
        status = int(cu.cuInit(0)[0])
    except RuntimeError as error:  # there is no libcuda
        raise MissingDeviceError(f"no NVIDIA driver was found ({error}); device='cpu' works") from None
    if status == int(cu.CUresult.CUDA_ERROR_NO_DEVICE):
        raise MissingDeviceError("the NVIDIA driver found no GPU; device='cpu' works")
    if status:
        name = _name(cu, status)
        raise MissingDeviceError(
            f"the NVIDIA driver does not start ({name}): it may be older than these CUDA libraries"
        )
    return cu


def _name(cu: Any, status: int) -> str:
    found = cu.cuGetErrorName(cu.CUresult(status))[1]
    return found.decode() if isinstance(found, bytes) else str(status)


def check(result: Sequence[Any]) -> Any:
    """The result of a driver call without its status; raises on failure."""
    status = int(result[0])
    if status:
        cu = bindings()
        if status == int(cu.CUresult.CUDA_ERROR_OUT_OF_MEMORY):
            raise OutOfMemoryError("the GPU is out of memory")
        text = cu.cuGetErrorString(cu.CUresult(status))[1]
        name, text = _name(cu, status), text.decode() if isinstance(text, bytes) else text
        raise CudaError(f"{name}: {text}{OF_A_KERNEL if name in _BY_KERNELS else ''}")
    rest = result[1:]
    return rest[0] if len(rest) == 1 else rest


def count() -> int:
    """The number of GPUs."""
    return int(check(bindings().cuDeviceGetCount()))
