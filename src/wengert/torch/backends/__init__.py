"""`torch.backends`: switches of PyTorch's libraries. What has a meaning here has it; the rest is kept as it is set."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import wengert as wg
from wengert.core import devices as _devices


class _Switches(ModuleType):
    """A module of switches: each is what it was set to, or its default."""

    def __init__(self, name: str, **defaults: Any) -> None:
        super().__init__(f"wengert.torch.backends.{name}")
        self.__dict__.update(defaults)
        sys.modules[self.__name__] = self


class _TF32(_Switches):
    """Switches, of which `allow_tf32` is `wg.config.tf32`."""

    @property
    def allow_tf32(self) -> bool:
        """Whether tensor cores may round float32."""
        return bool(wg.config.tf32)

    @allow_tf32.setter
    def allow_tf32(self, allowed: bool) -> None:
        wg.config.tf32 = bool(allowed)


def _has_gpu() -> bool:
    return bool(_devices.gpus())


cudnn = _TF32("cudnn", benchmark=False, deterministic=False, enabled=True, is_available=_has_gpu, version=lambda: None)
cuda = _Switches(
    "cuda",
    matmul=_TF32("cuda_matmul", allow_fp16_reduced_precision_reduction=True),
    is_built=_has_gpu,
    flash_sdp_enabled=lambda: True,
    enable_flash_sdp=lambda enabled: None,
    enable_math_sdp=lambda enabled: None,
    enable_mem_efficient_sdp=lambda enabled: None,
)
mps = _Switches("mps", is_available=lambda: False, is_built=lambda: False)
mkldnn = _Switches("mkldnn", is_available=lambda: False, enabled=True)
mkl = _Switches("mkl", is_available=lambda: False)
openmp = _Switches("openmp", is_available=lambda: True)
opt_einsum = _Switches("opt_einsum", is_available=lambda: True, enabled=True, strategy="auto")
