"""`torch.amp`: autocast and the scaling of losses."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import wengert as wg
from wengert.core.context import mode
from wengert.torch import dtypes
from wengert.torch.missing import missing_attribute as _missing_attribute


class autocast:
    """A context, or decorator, in which matrix products and convolutions are computed in a lower dtype."""

    def __init__(
        self, device_type: str = "cuda", dtype: Any = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> None:
        self.device = device_type
        low = dtypes.float16 if device_type == "cuda" else dtypes.bfloat16
        self.fast_dtype = low if dtype is None else dtype
        self.enabled = enabled
        self._blocks: list[Any] = []

    def __enter__(self) -> autocast:
        lowers = self.enabled and dtypes.as_dtype(self.fast_dtype) is not wg.float32
        block = wg.autocast(dtypes.as_dtype(self.fast_dtype), enabled=True) if lowers else wg.autocast(enabled=False)
        block.__enter__()
        self._blocks.append(block)
        return self

    def __exit__(self, *exception: Any) -> None:
        self._blocks.pop().__exit__(*exception)

    def __call__(self, function: Callable[..., Any]) -> Any:
        @functools.wraps(function)
        def inside(*args: Any, **kwargs: Any) -> Any:
            with autocast(self.device, self.fast_dtype, self.enabled):
                return function(*args, **kwargs)

        return inside


def is_autocast_available(device_type: str) -> bool:
    """Whether autocast works on this kind of device."""
    return device_type in ("cpu", "cuda")


def is_autocast_enabled(device_type: str | None = None) -> bool:
    """Whether this is inside autocast."""
    return mode().autocast is not None


class GradScaler(wg.optim.GradScaler):
    """Keeps float16 gradients from vanishing: `scale(loss).backward()`, `step(optimizer)`, `update()`."""

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 65536.0,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        place = str(device) if str(device) == "cpu" or wg.devices.gpus() else None
        works = enabled and place is not None
        super().__init__(init_scale, growth_factor, backoff_factor, growth_interval, works, place)

    def is_enabled(self) -> bool:
        """Whether it scales."""
        return self.enabled


def custom_fwd(fwd: Any = None, *, device_type: str = "cuda", cast_inputs: Any = None) -> Any:
    """A decorator of `Function.forward`: with `cast_inputs` it runs in that dtype, outside autocast."""
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)

    @functools.wraps(fwd)
    def forward(*args: Any, **kwargs: Any) -> Any:
        if cast_inputs is None or mode().autocast is None:
            return fwd(*args, **kwargs)
        cast = [a.to(cast_inputs) if isinstance(a, wg.Tensor) and a.node.dtype.kind in "fV" else a for a in args]
        with wg.autocast(enabled=False):
            return fwd(*cast, **kwargs)

    return forward


def custom_bwd(bwd: Any = None, *, device_type: str = "cuda") -> Any:
    """A decorator of `Function.backward`; gradients have the right dtypes here without it."""
    return (lambda function: function) if bwd is None else bwd


def __getattr__(name: str) -> Any:
    return _missing_attribute("torch.amp", name)
