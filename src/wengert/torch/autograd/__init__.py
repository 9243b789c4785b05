"""`torch.autograd`: gradients by reverse mode, functions with rules of their own, and what is recorded."""

from __future__ import annotations

from typing import Any

from wengert.core.evaluation import debug_nans as _debug_nans
from wengert.core.graph import recording
from wengert.tensor import engine
from wengert.torch.autograd import functional
from wengert.torch.autograd.backward import backward, grad
from wengert.torch.autograd.function import Function, FunctionCtx
from wengert.torch.autograd.grad_mode import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from wengert.torch.autograd.gradcheck import gradcheck, gradgradcheck
from wengert.torch.missing import missing_attribute as _missing_attribute
from wengert.torch.tensor import Tensor, of


def Variable(data: Any, requires_grad: bool = False, **options: Any) -> Tensor:
    """Return the tensor, as `Variable(x)` has done since PyTorch 0.4."""
    made = of(data)
    if requires_grad:
        made.requires_grad = True
    return made


class detect_anomaly:
    """A context in which the first op that produces a NaN raises an error, forward and backward."""

    def __init__(self, check_nan: bool = True) -> None:
        self._block = _debug_nans() if check_nan else None

    def __enter__(self) -> None:
        if self._block is not None:
            self._block.__enter__()

    def __exit__(self, *exception: Any) -> None:
        if self._block is None:
            return
        try:
            if exception[:1] == (None,):
                for tensor in [slot() for slot in recording.pending]:  # what was recorded inside is computed inside
                    if tensor is not None:
                        engine.value(tensor.node)
        finally:
            self._block.__exit__(*exception)


class set_detect_anomaly(detect_anomaly):
    """Switch `detect_anomaly` on or off, effective at once."""

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        super().__init__(mode and check_nan)
        super().__enter__()

    def __enter__(self) -> None:
        pass


def __getattr__(name: str) -> Any:
    return _missing_attribute("torch.autograd", name)
