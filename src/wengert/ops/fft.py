"""Fourier transforms along some axes, and the frequencies and shifts that go with them.

There are four primitives: complex to complex and back, real to half-spectrum and back. The Hermitian ones are those
with the direction exchanged. All are linear: the tangent is the transform of the tangent, the cotangent that of the
adjoint transform, which goes the other way and is scaled where the first is not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wengert.core.dtypes import (
    COMPLEX,
    FLOATING,
    INEXACT,
    as_dtype,
    complex64,
    complex128,
    default_float,
    float64,
    real_of,
)
from wengert.core.errors import ArgumentError, DTypeError
from wengert.core.graph import Node, Shape
from wengert.ops.core import as_node, cast, data
from wengert.ops.creation import check_device
from wengert.ops.elementwise import conj, conjugate
from wengert.ops.factors import other_axes
from wengert.ops.movement import normalize_axes, normalize_axis, place, take_slice
from wengert.ops.op import Op, behind_lanes
from wengert.ops.rearrange import roll

_OTHER_WAY = {"backward": "forward", "ortho": "ortho", "forward": "backward"}


def _complex_of(dtype: np.dtype[Any]) -> np.dtype[Any]:
    return complex128 if dtype in (float64, complex128) else complex64


def _sized(shape: Shape, sizes: Shape, axes: tuple[int, ...]) -> Shape:
    """A shape with other sizes along some axes."""
    new = dict(zip(axes, sizes))
    return tuple(new.get(i, n) for i, n in enumerate(shape))


def _full_infer(x: Node, sizes: Shape, axes: tuple[int, ...], norm: str) -> tuple[Any, Any]:
    return _sized(x.shape, sizes, axes), _complex_of(x.dtype)


def _half_infer(x: Node, sizes: Shape, axes: tuple[int, ...], norm: str) -> tuple[Any, Any]:
    return _sized(x.shape, (*sizes[:-1], sizes[-1] // 2 + 1), axes), _complex_of(x.dtype)


def _real_infer(x: Node, sizes: Shape, axes: tuple[int, ...], norm: str) -> tuple[Any, Any]:
    return _sized(x.shape, sizes, axes), real_of(_complex_of(x.dtype))


def _fitted(g: Node, x: Node) -> Node:
    """The adjoint of cutting `x`, or padding it with zeros, to the shape of `g`: padding, or cutting."""
    none, ones = (0,) * x.ndim, (1,) * x.ndim
    kept = take_slice(g, none, ones, tuple(min(m, n) for m, n in zip(g.shape, x.shape)))
    return place(kept, x.shape, none, ones)


def _full_vjp(other: Callable[[], Op]) -> Callable[..., Node]:
    def vjp(g: Node, y: Node, x: Node) -> Node:
        attrs = y.attrs
        return _fitted(other()(g, sizes=attrs["sizes"], axes=attrs["axes"], norm=_OTHER_WAY[attrs["norm"]]), x)

    return vjp


def _irfft_vjp(g: Node, y: Node, x: Node) -> Node:
    """Each element counts twice, for itself and its mirror image; those that are their own mirror image once."""
    half = RFFT(g, sizes=y.attrs["sizes"], axes=y.attrs["axes"], norm=_OTHER_WAY[y.attrs["norm"]])
    return _fitted(half * _counts(half, y, 2), x)


def _rfft_vjp(g: Node, y: Node, x: Node) -> Node:
    """The real part of the inverse of half a spectrum: a real inverse, which counts each element twice."""
    whole = IRFFT(g * _counts(g, y, 0.5), **{**y.attrs, "norm": _OTHER_WAY[y.attrs["norm"]]})
    return _fitted(whole, x)


def _counts(half: Node, y: Node, often: float) -> Node:
    """Factors for the elements of a half-spectrum: 1 for those that are their own mirror image."""
    size, axis = y.attrs["sizes"][-1], y.attrs["axes"][-1]
    shape = [1] * half.ndim
    shape[axis] = half.shape[axis]
    places = np.arange(shape[axis])
    counts = np.where((places == 0) | (2 * places == size), 1, often).reshape(shape)
    return data(counts.astype(real_of(half.dtype)), half.device)


def _transform(name: str, infer: Callable[..., Any], reference: Callable[..., Any], vjp: Callable[..., Node]) -> Op:
    def numpy(x: Any, sizes: Shape, axes: tuple[int, ...], norm: str) -> Any:
        if x.size == 0:  # NumPy's are defined for axes that have elements; a batch of none is none
            return np.zeros(infer(x, sizes, axes, norm)[0])
        return reference(x, sizes, axes, norm)

    return Op(
        name,
        infer=infer,
        numpy=numpy,
        vjp=(vjp,),
        linear=(0,),
        complex=True,
        batch=behind_lanes,
        factors=other_axes,
        expensive=True,
    )


FFT: Op = _transform("fft", _full_infer, np.fft.fftn, _full_vjp(lambda: IFFT))
IFFT: Op = _transform("ifft", _full_infer, np.fft.ifftn, _full_vjp(lambda: FFT))
RFFT: Op = _transform("rfft", _half_infer, np.fft.rfftn, _rfft_vjp)
IRFFT = _transform("irfft", _real_infer, np.fft.irfftn, _irfft_vjp)


def _record(op: Op, name: str, x: Any, sizes: Any, axes: Any, norm: str) -> Node:
    """Record a transform over several axes, with its sizes and axes worked out and checked."""
    x = as_node(x)
    if x.dtype not in INEXACT:
        x = cast(x, default_float)
    if op is RFFT and x.dtype in COMPLEX:
        raise DTypeError(f"{name} takes real values, not {x.dtype}; {name.replace('r', '', 1)} takes complex ones")
    if norm not in _OTHER_WAY:
        raise ArgumentError(f'{name}: norm is "backward", "ortho" or "forward", not {norm!r}')
    places = _axes(name, x, sizes, axes)
    if sizes is None:
        sizes = [x.shape[axis] for axis in places]
        if op is IRFFT and sizes:
            sizes[-1] = 2 * (sizes[-1] - 1)
    elif len(sizes) != len(places):
        raise ArgumentError(f"{name}: {len(sizes)} sizes for {len(places)} axes")
    if not places and op is not FFT and op is not IFFT:
        raise ArgumentError(f"{name}: there is no axis to transform")
    if any(n < 1 for n in sizes):
        raise ArgumentError(f"{name}: the sizes along axes {places} are {tuple(sizes)}; each must be at least 1")
    return op(x, sizes=tuple(int(n) for n in sizes), axes=places, norm=norm)


def _axes(name: str, x: Node, sizes: Any, axes: Any) -> tuple[int, ...]:
    """The axes in the order given: the last of them is the halved one."""
    if axes is None:
        count = x.ndim if sizes is None else len(sizes)
        axes = range(x.ndim - count, x.ndim)
    normalize_axes(tuple(axes), x.ndim, name)
    return tuple(normalize_axis(axis, x.ndim, name) for axis in axes)


def _one(n: int | None) -> tuple[int] | None:
    return None if n is None else (n,)


# --- one axis -------------------------------------------------------------------------------------------------------


def fft(x: Any, /, n: int | None = None, axis: int = -1, norm: str = "backward") -> Node:
    """The discrete Fourier transform along an axis, cut or padded with zeros to `n` elements first.

    `norm` says which direction divides by the number of elements: "backward", "forward", or each by its root, "ortho".

    >>> import wengert as wg
    >>> wg.fft.fft(wg.tensor([1.0, 0.0, 0.0, 0.0])).tolist()
    [(1+0j), (1+0j), (1+0j), (1+0j)]
    """
    return _record(FFT, "fft", x, _one(n), (axis,), norm)


def ifft(x: Any, /, n: int | None = None, axis: int = -1, norm: str = "backward") -> Node:
    """The inverse of `fft`.

    >>> import wengert as wg
    >>> wg.fft.ifft(wg.tensor([4.0, 0.0, 0.0, 0.0])).tolist()
    [(1+0j), (1+0j), (1+0j), (1+0j)]
    """
    return _record(IFFT, "ifft", x, _one(n), (axis,), norm)


def rfft(x: Any, /, n: int | None = None, axis: int = -1, norm: str = "backward") -> Node:
    """The first half (`n // 2 + 1` elements) of the transform of real values; the rest is its mirror image.

    >>> import wengert as wg
    >>> wg.fft.rfft(wg.ones(4)).tolist()
    [(4+0j), 0j, 0j]
    """
    return _record(RFFT, "rfft", x, _one(n), (axis,), norm)


def irfft(x: Any, /, n: int | None = None, axis: int = -1, norm: str = "backward") -> Node:
    """The inverse of `rfft`, real. Without `n` the result has an even number of elements.

    >>> import wengert as wg
    >>> wg.fft.irfft(wg.tensor([4.0, 0.0, 0.0])).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    return _record(IRFFT, "irfft", x, _one(n), (axis,), norm)


def hfft(x: Any, /, n: int | None = None, axis: int = -1, norm: str = "backward") -> Node:
    """The real spectrum of a signal whose second half mirrors the first; `x` is the first half.

    >>> import wengert as wg
    >>> wg.fft.hfft(wg.tensor([1.0, 0.0, 0.0])).tolist()
    [1.0, 1.0, 1.0, 1.0]
    """
    return _record(IRFFT, "hfft", conjugate(as_node(x)), _one(n), (axis,), _other_way(norm))


def ihfft(x: Any, /, n: int | None = None, axis: int = -1, norm: str = "backward") -> Node:
    """The inverse of `hfft`.

    >>> import wengert as wg
    >>> wg.fft.ihfft(wg.ones(4)).shape
    (3,)
    """
    return conj(_record(RFFT, "ihfft", x, _one(n), (axis,), _other_way(norm)))


def _other_way(norm: str) -> str:
    return _OTHER_WAY.get(norm, norm)


# --- several axes ---------------------------------------------------------------------------------------------------


def fftn(x: Any, /, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward") -> Node:
    """The discrete Fourier transform along some axes (all, if none is named), each cut or padded to its size in `s`.

    >>> import wengert as wg
    >>> wg.fft.fftn(wg.ones((2, 2))).tolist()
    [[(4+0j), 0j], [0j, 0j]]
    """
    return _record(FFT, "fftn", x, s, axes, norm)


def ifftn(x: Any, /, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward") -> Node:
    """The inverse of `fftn`.

    >>> import wengert as wg
    >>> wg.fft.ifftn(wg.tensor([[4.0, 0.0], [0.0, 0.0]])).tolist()
    [[(1+0j), (1+0j)], [(1+0j), (1+0j)]]
    """
    return _record(IFFT, "ifftn", x, s, axes, norm)


def rfftn(x: Any, /, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward") -> Node:
    """The transform of real values along some axes; of the last of them only the first half is kept.

    >>> import wengert as wg
    >>> wg.fft.rfftn(wg.ones((4, 4))).shape
    (4, 3)
    """
    return _record(RFFT, "rfftn", x, s, axes, norm)


def irfftn(
    x: Any, /, s: Sequence[int] | None = None, axes: Sequence[int] | None = None, norm: str = "backward"
) -> Node:
    """The inverse of `rfftn`, real.

    >>> import wengert as wg
    >>> wg.fft.irfftn(wg.tensor([[4.0, 0.0], [0.0, 0.0]])).shape
    (2, 2)
    """
    return _record(IRFFT, "irfftn", x, s, axes, norm)


# --- two axes -------------------------------------------------------------------------------------------------------


def fft2(x: Any, /, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: str = "backward") -> Node:
    """`fftn` along two axes, the last ones unless others are named.

    >>> import wengert as wg
    >>> wg.fft.fft2(wg.ones((2, 2))).tolist()
    [[(4+0j), 0j], [0j, 0j]]
    """
    return _record(FFT, "fft2", x, s, axes, norm)


def ifft2(x: Any, /, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: str = "backward") -> Node:
    """The inverse of `fft2`.

    >>> import wengert as wg
    >>> wg.fft.ifft2(wg.tensor([[4.0, 0.0], [0.0, 0.0]])).tolist()
    [[(1+0j), (1+0j)], [(1+0j), (1+0j)]]
    """
    return _record(IFFT, "ifft2", x, s, axes, norm)


def rfft2(x: Any, /, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: str = "backward") -> Node:
    """`rfftn` along two axes, the last ones unless others are named.

    >>> import wengert as wg
    >>> wg.fft.rfft2(wg.ones((4, 4))).shape
    (4, 3)
    """
    return _record(RFFT, "rfft2", x, s, axes, norm)


def irfft2(x: Any, /, s: Sequence[int] | None = None, axes: Sequence[int] = (-2, -1), norm: str = "backward") -> Node:
    """The inverse of `rfft2`, real.

    >>> import wengert as wg
    >>> wg.fft.irfft2(wg.tensor([[4.0, 0.0], [0.0, 0.0]])).shape
    (2, 2)
    """
    return _record(IRFFT, "irfft2", x, s, axes, norm)


# --- frequencies and shifts -----------------------------------------------------------------------------------------


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: str | None = None) -> Node:
    """The frequencies that the elements of `fft` stand for, at `d` between samples.

    >>> import wengert as wg
    >>> wg.fft.fftfreq(4).tolist()
    [0.0, 0.25, -0.5, -0.25]
    """
    return _frequencies("fftfreq", np.fft.fftfreq, n, d, dtype, device)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: str | None = None) -> Node:
    """The frequencies that the elements of `rfft` stand for, at `d` between samples.

    >>> import wengert as wg
    >>> wg.fft.rfftfreq(4).tolist()
    [0.0, 0.25, 0.5]
    """
    return _frequencies("rfftfreq", np.fft.rfftfreq, n, d, dtype, device)


def _frequencies(name: str, reference: Any, n: int, d: float, dtype: Any, device: str | None) -> Node:
    found = default_float if dtype is None else as_dtype(dtype)
    if found not in FLOATING:
        raise DTypeError(f"{name}: frequencies are floating-point numbers, not {found}")
    if not isinstance(n, int) or n < 1:
        raise ArgumentError(f"{name}: the number of elements is {n!r}; it must be an integer of at least 1")
    return data(reference(n, d).astype(found), check_device(device, name))


def fftshift(x: Any, /, *, axes: Any = None) -> Node:
    """`x` with frequency zero moved to the middle of some axes (all, if none is named).

    >>> import wengert as wg
    >>> wg.fft.fftshift(wg.fft.fftfreq(4)).tolist()
    [-0.5, -0.25, 0.0, 0.25]
    """
    x = as_node(x)
    shifted = normalize_axes(axes, x.ndim, "fftshift")
    return roll(x, [x.shape[axis] // 2 for axis in shifted], shifted)


def ifftshift(x: Any, /, *, axes: Any = None) -> Node:
    """The inverse of `fftshift`.

    >>> import wengert as wg
    >>> wg.fft.ifftshift(wg.tensor([-2.0, -1.0, 0.0, 1.0])).tolist()
    [0.0, 1.0, -2.0, -1.0]
    """
    x = as_node(x)
    shifted = normalize_axes(axes, x.ndim, "ifftshift")
    return roll(x, [-(x.shape[axis] // 2) for axis in shifted], shifted)
