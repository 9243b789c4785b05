"""Windows and short-time Fourier transforms: `torch.hann_window`, `stft`, `istft`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wengert.core.dtypes import COMPLEX, FLOATING
from wengert.core.graph import Node
from wengert.ops import spectral
from wengert.ops import windows as w
from wengert.ops.movement import slice_axis
from wengert.torch.arguments import over_nodes
from wengert.torch.creation import creating, dtype_or, place_of
from wengert.torch.registry import torch_function


def window_dtype(name: str, dtype: Any) -> Any:
    """The dtype of a window: a floating-point one."""
    kind = dtype_or(dtype)
    if kind not in FLOATING:
        raise RuntimeError(f"{name} expects floating point dtypes, got: {kind}")
    return kind


def _enter(make: Callable[..., Node]) -> None:
    name = make.__name__

    def window(window_length: int, *args: Any, dtype: Any = None, device: Any = None, **kwargs: Any) -> Node:
        if window_length < 0:
            raise RuntimeError(f"{name} requires non-negative window_length, got window_length={window_length}")
        return make(window_length, *args, dtype=window_dtype(name, dtype), device=place_of(device), **kwargs)

    window.__name__ = window.__qualname__ = name
    window.__doc__ = make.__doc__
    torch_function(method=False)(creating(window))


for _make in (w.bartlett_window, w.blackman_window, w.hamming_window, w.hann_window, w.kaiser_window):
    _enter(_make)


@torch_function()
@over_nodes("full")
def stft(
    input: Node,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool | None = None,
    align_to_window: bool | None = None,
) -> Node:
    """The spectra of overlapping pieces of a signal, each multiplied with a window."""
    if return_complex is None:
        is_complex = input.dtype in COMPLEX or (isinstance(window, Node) and window.dtype in COMPLEX)
        if not is_complex:
            raise RuntimeError("stft requires the return_complex parameter be given for real inputs")
        return_complex = True
    return spectral.stft(
        input, n_fft, hop_length, win_length, window, center, pad_mode, normalized, onesided, return_complex
    )


@torch_function()
@over_nodes("full")
def istft(
    input: Node,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = None,
    center: bool = True,
    normalized: bool = False,
    onesided: bool | None = None,
    length: int | None = None,
    return_complex: bool = False,
) -> Node:
    """The signal that has these spectra, as `stft` gives them."""
    half = n_fft // 2 + 1
    if not return_complex and input.shape[-2] == n_fft != half and onesided is not True:
        input, onesided = slice_axis(input, len(input.shape) - 2, 0, half), True  # the rest is their conjugates
    return spectral.istft(
        input, n_fft, hop_length, win_length, window, center, normalized, onesided, length, return_complex
    )
