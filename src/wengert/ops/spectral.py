"""Short-time Fourier transforms: spectra of overlapping pieces of a signal, and the signal from them.

Pieces are windows along the last axis, so both directions are a window, a transform and an unfold or a fold, with their
derivatives.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from wengert.core.dtypes import COMPLEX, INEXACT
from wengert.core.errors import ArgumentError, ComputationError, DTypeError, ShapeError
from wengert.core.graph import Node
from wengert.ops.core import as_node
from wengert.ops.creation import ones
from wengert.ops.elementwise import imag, real
from wengert.ops.fft import fft, ifft, irfft, rfft
from wengert.ops.movement import broadcast_to, moveaxis, reshape, slice_axis, stack, swapaxes
from wengert.ops.pad import pad
from wengert.ops.window import FOLD, UNFOLD


def _hop_and_window(
    name: str, n_fft: int, hop: int | None, length: int | None, window: Any, x: Node
) -> tuple[int, Node]:
    """How far pieces are apart, and the window, in the middle of zeros up to `n_fft`."""
    hop = n_fft // 4 if hop is None else hop
    length = n_fft if length is None else length
    if not hop > 0 or not 0 < length <= n_fft:
        raise ArgumentError(
            f"{name}: hop_length must be positive and win_length from 1 to n_fft={n_fft}; they are {hop} and {length}"
        )
    part = real(x) if x.dtype in COMPLEX else x
    shape = ones((length,), dtype=part.dtype, device=x.device) if window is None else as_node(window)
    if shape.shape != (length,):
        raise ShapeError(f"{name}: the window must have {length} elements (win_length), not shape {shape.shape}")
    before = (n_fft - length) // 2
    return hop, pad(shape, (before, n_fft - length - before))


def stft(
    x: Any,
    n_fft: int,
    hop_length: int | None = None,
    win_length: int | None = None,
    window: Any = None,
    center: bool = True,
    pad_mode: str = "reflect",
    normalized: bool = False,
    onesided: bool | None = None,
    return_complex: bool = True,
) -> Node:
    """The spectra of pieces of `n_fft` samples, `hop_length` apart, of a signal (..., time): (..., frequency, pieces).

    Each piece is multiplied by the window first. With `center`, the signal is padded by half a piece at both ends. For
    real signals only the first half of each spectrum is kept, unless `onesided` is False. `normalized` divides by the
    square root of `n_fft`. Without `return_complex`, real and imaginary parts form a last axis.

    >>> import wengert as wg
    >>> wg.stft(wg.ones(16), 8, window=wg.hann_window(8)).shape
    (5, 9)
    """
    x = as_node(x)
    if x.ndim not in (1, 2) or x.dtype not in INEXACT:
        raise ShapeError(
            f"stft: the signal must be (time,) or (batch, time), floating or complex; it is {x.dtype} {x.shape}"
        )
    if not isinstance(n_fft, int) or n_fft < 1:
        raise ArgumentError(f"stft: n_fft must be a positive integer, not {n_fft!r}")
    hop, shape = _hop_and_window("stft", n_fft, hop_length, win_length, window, x)
    complex_input = x.dtype in COMPLEX or shape.dtype in COMPLEX
    if onesided and complex_input:
        raise ArgumentError("stft: the spectrum of a complex signal is not symmetric; pass onesided=False")
    if center:
        rows = reshape(x, (1, *x.shape)) if x.ndim == 1 else x
        x = reshape(pad(rows, (n_fft // 2, n_fft // 2), mode=pad_mode), (*x.shape[:-1], -1))
    if x.shape[-1] < n_fft:
        raise ShapeError(f"stft: a piece of n_fft={n_fft} samples does not fit into {x.shape[-1]}")
    pieces = swapaxes(UNFOLD(x, kernel=(n_fft,), stride=(hop,), dilation=(1,)), -1, -2) * shape
    norm = "ortho" if normalized else "backward"
    half = not complex_input if onesided is None else onesided
    spectra = swapaxes((rfft if half else fft)(pieces, norm=norm), -1, -2)
    return spectra if return_complex else stack([real(spectra), imag(spectra)], axis=-1)


def istft(
    x: Any,
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
    """The inverse of `stft`: the signal with these spectra, by adding overlapping pieces and dividing by the windows'
    sum.

    The options are those of `stft`. `length` is the original number of samples.

    >>> import wengert as wg
    >>> signal, window = wg.arange(16.0), wg.hann_window(8)
    >>> wg.istft(wg.stft(signal, 8, window=window), 8, window=window).numpy().round(3).tolist()[-2:]
    [14.0, 15.0]
    """
    x = as_node(x)
    if x.dtype not in COMPLEX:
        raise DTypeError(
            f"istft: spectra must be complex, not {x.dtype}; combine real and imaginary parts a, b as a + 1j * b"
        )
    half = x.shape[-2] != n_fft if onesided is None else onesided
    if x.ndim not in (2, 3) or x.shape[-2] != (n_fft // 2 + 1 if half else n_fft):
        wanted = n_fft // 2 + 1 if half else n_fft
        raise ShapeError(
            f"istft: spectra must be ({wanted}, pieces) or (batch, {wanted}, pieces); the shape is {x.shape}"
        )
    if half and return_complex:
        raise ArgumentError("istft: half a spectrum gives a real signal; pass onesided=False for a complex one")
    hop, shape = _hop_and_window("istft", n_fft, hop_length, win_length, window, x)
    norm = "ortho" if normalized else "backward"
    spectra = swapaxes(x, -1, -2)
    pieces = irfft(spectra, n_fft, norm=norm) if half else ifft(spectra, norm=norm)
    if not half and not return_complex:
        pieces = real(pieces)
    count = x.shape[-1]
    total = n_fft + hop * (count - 1)
    signal = _added_up(pieces * shape, total, n_fft, hop)
    weights = _added_up(broadcast_to(shape * shape, (count, n_fft)), total, n_fft, hop)
    start = n_fft // 2 if center else 0
    stop = (total - start if center else total) if length is None else min(start + length, total)
    signal, weights = (slice_axis(v, v.ndim - 1, start, stop) for v in (signal, weights))
    _require_cover(shape, count, total, n_fft, hop, start, stop)
    found = signal / weights
    missing = 0 if length is None else length - (stop - start)
    return pad(found, (0, missing)) if missing > 0 else found


def _added_up(pieces: Node, total: int, n_fft: int, hop: int) -> Node:
    return FOLD(moveaxis(pieces, -1, -2), sizes=(total,), kernel=(n_fft,), stride=(hop,), dilation=(1,))


def _require_cover(shape: Node, count: int, total: int, n_fft: int, hop: int, start: int, stop: int) -> None:
    """Raise an error if the windows, where they are known, add up to nothing somewhere: there is no signal to be had
    there."""
    known = shape.buffer
    if not isinstance(known, np.ndarray) or math.prod((count, n_fft)) == 0:
        return
    sums = np.zeros(total)
    for i in range(count):
        sums[i * hop : i * hop + n_fft] += np.abs(known) ** 2
    if (sums[start:stop] < 1e-11).any():
        where = start + int(np.argmin(sums[start:stop]))
        raise ComputationError(
            f"istft: the windows of all pieces are 0 at sample {where}, so no piece covers it; use a smaller "
            "hop_length, a window without zeros at its ends, or center=True"
        )
