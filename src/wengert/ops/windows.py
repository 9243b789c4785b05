"""Window functions for spectra: numbers between 0 and 1 that fade a piece of a signal in and out.

Symmetric windows are for filters; a periodic one, for spectra, is a symmetric one of a sample more without its last.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wengert.core.dtypes import FLOATING, as_dtype, default_float
from wengert.core.errors import ArgumentError, DTypeError
from wengert.core.graph import Node
from wengert.ops.core import data, to_device
from wengert.ops.creation import check_device


def _made(name: str, count: Any, sym: bool, dtype: Any, device: Any, values: Callable[[Any, int], Any]) -> Node:
    """The window that `values` gives for places 0 to m - 1 of m."""
    kind = default_float if dtype is None else as_dtype(dtype)
    if kind not in FLOATING:
        raise DTypeError(f"{name}: a window is of a floating-point dtype, not {kind}")
    if not isinstance(count, int) or count < 0:
        raise ArgumentError(f"{name}: the number of samples is an integer and not negative, not {count!r}")
    m = count if sym else count + 1
    found = np.ones(count) if count <= 1 else values(np.arange(m, dtype=np.float64), m)[:count]
    return to_device(data(np.asarray(found, np.float64).astype(kind)), check_device(device, name))


def general_cosine(M: int, *, a: Sequence[float], sym: bool = True, dtype: Any = None, device: Any = None) -> Node:
    """A sum of cosines with alternating signs and these weights.

    >>> import wengert as wg
    >>> print(wg.windows.general_cosine(3, a=[0.5, 0.5]).numpy().round(4))
    [0. 1. 0.]
    """
    weights = [float(w) for w in a]
    if not weights:
        raise ArgumentError("general_cosine: a holds the weights of the cosines, at least one")

    def values(n: Any, m: int) -> Any:
        return sum((-1) ** k * w * np.cos(2 * np.pi * k * n / (m - 1)) for k, w in enumerate(weights))

    return _made("general_cosine", M, sym, dtype, device, values)


def general_hamming(M: int, *, alpha: float = 0.54, sym: bool = True, dtype: Any = None, device: Any = None) -> Node:
    """`alpha` less `1 - alpha` times a cosine.

    >>> import wengert as wg
    >>> print(wg.windows.general_hamming(3, alpha=0.5).numpy().round(4))
    [0. 1. 0.]
    """
    return general_cosine(M, a=(alpha, 1 - alpha), sym=sym, dtype=dtype, device=device)


def hann(M: int, *, sym: bool = True, dtype: Any = None, device: Any = None) -> Node:
    """A raised cosine, 0 at its ends.

    >>> import wengert as wg
    >>> wg.windows.hann(5).numpy().round(3).tolist()
    [0.0, 0.5, 1.0, 0.5, 0.0]
    """
    return general_hamming(M, alpha=0.5, sym=sym, dtype=dtype, device=device)


def hamming(M: int, *, sym: bool = True, dtype: Any = None, device: Any = None) -> Node:
    """A raised cosine, 0.08 at its ends.

    >>> import wengert as wg
    >>> print(wg.windows.hamming(3).numpy().round(4))
    [0.08 1.   0.08]
    """
    return general_hamming(M, sym=sym, dtype=dtype, device=device)


def blackman(M: int, *, sym: bool = True, dtype: Any = None, device: Any = None) -> Node:
    """Two cosines, with weights 0.42, 0.5 and 0.08.

    >>> import wengert as wg
    >>> print(wg.windows.blackman(3).numpy().round(4))
    [-0.  1. -0.]
    """
    return general_cosine(M, a=(0.42, 0.5, 0.08), sym=sym, dtype=dtype, device=device)


def nuttall(M: int, *, sym: bool = True, dtype: Any = None, device: Any = None) -> Node:
    """Three cosines, with the least side lobes (Nuttall, 1981).

    >>> import wengert as wg
    >>> print(wg.windows.nuttall(3).numpy().round(4))
    [4.e-04 1.e+00 4.e-04]
    """
    return general_cosine(M, a=(0.3635819, 0.4891775, 0.1365995, 0.0106411), sym=sym, dtype=dtype, device=device)


def bartlett(M: int, *, sym: bool = True, dtype: Any = None, device: Any = None) -> Node:
    """A triangle, 0 at its ends.

    >>> import wengert as wg
    >>> wg.windows.bartlett(3).tolist()
    [0.0, 1.0, 0.0]
    """
    return _made("bartlett", M, sym, dtype, device, lambda n, m: 1 - np.abs(2 * n / (m - 1) - 1))


def cosine(M: int, *, sym: bool = True, dtype: Any = None, device: Any = None) -> Node:
    """Half a period of a sine.

    >>> import wengert as wg
    >>> print(wg.windows.cosine(3).numpy().round(4))
    [0.5 1.  0.5]
    """
    return _made("cosine", M, sym, dtype, device, lambda n, m: np.sin(np.pi * (n + 0.5) / m))


def exponential(
    M: int, *, center: float | None = None, tau: float = 1.0, sym: bool = True, dtype: Any = None, device: Any = None
) -> Node:
    """`exp(-|n - center| / tau)`; only a window that is not symmetric has a center of its own.

    >>> import wengert as wg
    >>> print(wg.windows.exponential(3).numpy().round(4))
    [0.3679 1.     0.3679]
    """
    if sym and center is not None:
        raise ArgumentError("exponential: a symmetric window has its center in the middle; give sym=False")
    if not tau > 0:
        raise ArgumentError(f"exponential: tau is positive, not {tau!r}")

    def values(n: Any, m: int) -> Any:
        return np.exp(-np.abs(n - ((m - 1) / 2 if center is None else center)) / tau)

    return _made("exponential", M, sym, dtype, device, values)


def gaussian(M: int, *, std: float = 1.0, sym: bool = True, dtype: Any = None, device: Any = None) -> Node:
    """A bell of this standard deviation, in samples.

    >>> import wengert as wg
    >>> print(wg.windows.gaussian(3).numpy().round(4))
    [0.6065 1.     0.6065]
    """
    if not std > 0:
        raise ArgumentError(f"gaussian: std is positive, not {std!r}")
    return _made("gaussian", M, sym, dtype, device, lambda n, m: np.exp(-(((n - (m - 1) / 2) / std) ** 2) / 2))


def kaiser(M: int, *, beta: float = 12.0, sym: bool = True, dtype: Any = None, device: Any = None) -> Node:
    """Kaiser's window, a ratio of Bessel functions; `beta` says how fast it falls.

    >>> import wengert as wg
    >>> print(wg.windows.kaiser(3).numpy().round(4))
    [1.e-04 1.e+00 1.e-04]
    """
    if not beta >= 0:
        raise ArgumentError(f"kaiser: beta is not negative, as {beta!r} is")

    def values(n: Any, m: int) -> Any:
        return np.i0(beta * np.sqrt(np.maximum(1 - (2 * n / (m - 1) - 1) ** 2, 0))) / np.i0(beta)

    return _made("kaiser", M, sym, dtype, device, values)


# --- periodic by default, by PyTorch's names ------------------------------------------------------------------------


def bartlett_window(window_length: int, periodic: bool = True, *, dtype: Any = None, device: Any = None) -> Node:
    """A triangle. `periodic` ones, for spectra, begin anew after their last sample.

    >>> import wengert as wg
    >>> wg.bartlett_window(4).tolist()
    [0.0, 0.5, 1.0, 0.5]
    """
    return bartlett(window_length, sym=not periodic, dtype=dtype, device=device)


def blackman_window(window_length: int, periodic: bool = True, *, dtype: Any = None, device: Any = None) -> Node:
    """Blackman's window, of two cosines.

    >>> import wengert as wg
    >>> print(wg.blackman_window(4).numpy().round(4))
    [-0.    0.34  1.    0.34]
    """
    return blackman(window_length, sym=not periodic, dtype=dtype, device=device)


def hamming_window(
    window_length: int,
    periodic: bool = True,
    alpha: float = 0.54,
    beta: float = 0.46,
    *,
    dtype: Any = None,
    device: Any = None,
) -> Node:
    """`alpha - beta * cos(2 pi n / N)`.

    >>> import wengert as wg
    >>> print(wg.hamming_window(4).numpy().round(4))
    [0.08 0.54 1.   0.54]
    """
    return general_cosine(window_length, a=(alpha, beta), sym=not periodic, dtype=dtype, device=device)


def hann_window(window_length: int, periodic: bool = True, *, dtype: Any = None, device: Any = None) -> Node:
    """Hann's window, a raised cosine.

    >>> import wengert as wg
    >>> wg.hann_window(4).numpy().round(3).tolist()
    [0.0, 0.5, 1.0, 0.5]
    """
    return hann(window_length, sym=not periodic, dtype=dtype, device=device)


def kaiser_window(
    window_length: int, periodic: bool = True, beta: float = 12.0, *, dtype: Any = None, device: Any = None
) -> Node:
    """Kaiser's window; `beta` says how fast it falls.

    >>> import wengert as wg
    >>> print(wg.kaiser_window(4, beta=5.0).numpy().round(4))
    [0.0367 0.5529 1.     0.5529]
    """
    return kaiser(window_length, beta=beta, sym=not periodic, dtype=dtype, device=device)
