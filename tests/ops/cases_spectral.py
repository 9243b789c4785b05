"""Cases for window functions and short-time Fourier transforms, against torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.ops.case import Case, arrays

try:
    import torch
except ImportError:
    torch = None  # type: ignore[assignment]

F64 = np.float64


def _theirs(name: str) -> Callable[..., Any] | None:
    """torch's window function, in float64."""
    if torch is None:
        return None
    found = getattr(torch.signal.windows, name, None) or getattr(torch, name)
    return lambda *args, dtype, **options: found(*args, dtype=torch.float64, **options)


OPTIONS: dict[str, dict[str, Any]] = {
    "bartlett": {},
    "blackman": {},
    "cosine": {},
    "exponential": {"tau": 2.0},
    "gaussian": {"std": 1.5},
    "general_cosine": {"a": [0.5, 0.3, 0.2]},
    "general_hamming": {"alpha": 0.6},
    "hamming": {},
    "hann": {},
    "kaiser": {"beta": 5.0},
    "nuttall": {},
}
WINDOWS = [
    Case(f"windows.{name}", (count,), {**options, "sym": sym, "dtype": F64}, torch=_theirs(name))
    for name, options in OPTIONS.items()
    for count, sym in ((0, True), (1, True), (7, True), (8, True), (8, False))
]
PERIODIC = [
    Case(name, (count, periodic, *more), {"dtype": F64}, torch=_theirs(name))
    for name, more in (
        ("bartlett_window", ()),
        ("blackman_window", ()),
        ("hamming_window", (0.5, 0.4)),
        ("hann_window", ()),
        ("kaiser_window", (6.0,)),
    )
    for count, periodic in ((0, True), (1, True), (7, True), (8, True), (8, False))
]


def _stft(x: Any, n_fft: int, **options: Any) -> Any:
    return torch.stft(x, n_fft, **{"return_complex": True, **options})


_signal, _window, _short = arrays(21, (2, 20), (8,), (6,), low=0.2, high=1.5)


def _pairs(x: Any, n: int, window: Any, hop: int) -> Any:
    """Real and imaginary parts of the spectra."""
    wide = np.pad(x, ((0, 0), (n // 2, n // 2)), mode="reflect")
    pieces = np.lib.stride_tricks.sliding_window_view(wide, n, axis=1)[:, ::hop] * window
    found = np.fft.rfft(pieces).swapaxes(1, 2)
    return np.stack([found.real, found.imag], -1)


SPECTRA = [
    Case("stft", (_signal - 0.8, 8), {"window": _window, **options}, torch=torch and _stft)
    for options in (
        {},
        {"hop_length": 3, "center": False},
        {"normalized": True, "pad_mode": "replicate"},
        {"onesided": False, "hop_length": 4},
    )
] + [
    Case(
        "stft",
        (_signal, 8),
        {"window": _window, "return_complex": False, "hop_length": 5},
        numpy=lambda x, n, window, return_complex, hop_length: _pairs(x, n, window, hop_length),
        half=False,
        note="a transform is of float32 at least",
    ),
    Case("stft", (_signal[0], 8), {"window": _short, "win_length": 6, "hop_length": 2}, torch=torch and _stft),
]

CASES = [*WINDOWS, *PERIODIC, *SPECTRA]
