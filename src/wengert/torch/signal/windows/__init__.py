"""`torch.signal.windows`: windows of M samples, symmetric unless told otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wengert.core.dtypes import float32, float64
from wengert.core.graph import Node
from wengert.ops import windows as _w
from wengert.torch.creation import creating, dtype_or, place_of
from wengert.torch.missing import missing_attribute as _missing_attribute


def _made(make: Callable[..., Node]) -> Any:
    name = make.__name__

    def window(M: int, *, dtype: Any = None, device: Any = None, **kwargs: Any) -> Node:
        kind = dtype_or(dtype)
        if kind is not float32 and kind is not float64:
            raise ValueError(f"{name} expects float32 or float64 dtypes, got: {kind}")
        if M < 0:
            raise ValueError(f"{name} requires non-negative window length, got M={M}")
        return make(M, dtype=kind, device=place_of(device), **kwargs)

    window.__name__ = window.__qualname__ = name
    window.__doc__ = make.__doc__
    made: Any = creating(window)

    def strided(*args: Any, layout: Any = None, **kwargs: Any) -> Any:
        if layout is not None and repr(layout) != "torch.strided":
            raise ValueError(f"{name} is implemented for strided tensors only, got: {layout}")
        return made(*args, **kwargs)

    strided.__name__ = strided.__qualname__ = name
    strided.__doc__ = make.__doc__
    return strided


bartlett = _made(_w.bartlett)
blackman = _made(_w.blackman)
cosine = _made(_w.cosine)
exponential = _made(_w.exponential)
gaussian = _made(_w.gaussian)
general_cosine = _made(_w.general_cosine)
general_hamming = _made(_w.general_hamming)
hamming = _made(_w.hamming)
hann = _made(_w.hann)
kaiser = _made(_w.kaiser)
nuttall = _made(_w.nuttall)


def __getattr__(name: str) -> Any:
    return _missing_attribute("torch.signal.windows", name)
