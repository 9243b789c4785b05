"""Adapters: functions with the signatures of PyTorch's operators, where the arguments have another order or name here.

An option that an adapter does not take raises TypeError, which is reported as refused: Wengert does not have
that option.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import wengert as wg


def binary(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """A function of two operands, as an adapter."""
    return lambda x, other: function(x, other)


def swapped(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """The reflected operator."""
    return lambda x, other: function(other, x)


def add(x: Any, other: Any, alpha: Any = 1) -> Any:
    return x + (other if alpha == 1 else alpha * other)


def sub(x: Any, other: Any, alpha: Any = 1) -> Any:
    return x - (other if alpha == 1 else alpha * other)


def divided(x: Any, other: Any, rounding_mode: str | None = None) -> Any:
    if rounding_mode == "floor":
        return wg.floor_divide(x, other)
    if rounding_mode == "trunc" and integral(x) and integral(other):
        down = wg.floor_divide(x, other)
        return wg.where((down < 0) & (down * other != x), down + 1, down)
    return wg.trunc(x / other) if rounding_mode == "trunc" else x / other


def integral(x: Any) -> bool:
    """Whether a number or a tensor is an integer."""
    return wg.isdtype(x.dtype, "integral") if isinstance(x, wg.Tensor) else isinstance(x, int)


def only(option: str, value: Any, *accepted: Any) -> None:
    """Refuse a value of an option that does not exist here."""
    if value not in accepted:
        raise TypeError(f"there is no {option}={value!r} here")


def clamp(x: Any, min: Any = None, max: Any = None) -> Any:
    return wg.clip(x, min, max)


def cast(x: Any, dtype: Any) -> Any:
    return x if dtype is None else wg.astype(x, dtype)


# --- reductions -----------------------------------------------------------------------------------------------------


def axes(dim: Any) -> Any:
    """A `dim` of PyTorch as an `axis`: an empty list is all of them."""
    return None if dim is None or (isinstance(dim, (list, tuple)) and len(dim) == 0) else _tupled(dim)


def _tupled(dim: Any) -> Any:
    return tuple(dim) if isinstance(dim, (list, tuple)) else dim


def reduction(function: Callable[..., Any]) -> Callable[..., Any]:
    """A reduction with PyTorch's options; a dtype is that of the elements."""

    def reduce(x: Any, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
        return function(cast(x, dtype), axis=axes(dim), keepdims=keepdim)

    return reduce


def extremum(values: Callable[..., Any], places: Callable[..., Any]) -> Callable[..., Any]:
    def reduce(x: Any, dim: int, keepdim: bool = False) -> Any:
        return values(x, axis=dim, keepdims=keepdim), places(x, axis=dim, keepdims=keepdim)

    return reduce


def spread(function: Callable[..., Any]) -> Callable[..., Any]:
    """var and std: Bessel's correction unless told otherwise."""

    def reduce(x: Any, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: Any = None) -> Any:
        if isinstance(dim, bool):  # the overload without axes
            dim, unbiased = None, dim
        if correction is None:
            correction = 1 if unbiased is None or unbiased else 0
        return function(x, axis=axes(dim), correction=correction, keepdims=keepdim)

    return reduce


def with_mean(function: Callable[..., Any]) -> Callable[..., Any]:
    def reduce(x: Any, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: Any = None) -> Any:
        over = None if isinstance(dim, bool) else axes(dim)
        first = spread(function)(x, dim, unbiased, keepdim, correction=correction)
        return first, wg.mean(x, axis=over, keepdims=keepdim)

    return reduce


def median(x: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """PyTorch's median is the lower of the two in the middle."""
    if dim is None:
        flat = wg.reshape(x, (-1,))
        return wg.kthvalue(flat, (flat.shape[0] + 1) // 2, axis=0)[0]
    return wg.kthvalue(x, (x.shape[dim] + 1) // 2, axis=dim, keepdims=keepdim)


def norm(x: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
    if p == "nuc":
        return wg.linalg.matrix_norm(cast(x, dtype), ord="nuc", keepdims=keepdim)
    order = 2 if p in ("fro", None) else p
    return wg.norm(cast(x, dtype), ord=order, axis=axes(dim), keepdims=keepdim)


def dist(x: Any, other: Any, p: Any = 2) -> Any:
    return wg.norm(x - other, ord=p)


def activation(function: Callable[..., Any]) -> Callable[..., Any]:
    """softmax and its like; a dtype is that of the elements."""
    return lambda x, dim=-1, *, dtype=None, **_: function(cast(x, dtype), axis=dim)


def running(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, dim, *, dtype=None: function(cast(x, dtype), axis=dim)


# --- movement -------------------------------------------------------------------------------------------------------


def diagonal(x: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    return wg.diagonal(wg.moveaxis(x, (dim1, dim2), (-2, -1)), offset=offset)


def sized(x: Any, *shape: Any) -> tuple[int, ...]:
    """A shape given as one sequence or as numbers."""
    return tuple(shape[0]) if len(shape) == 1 and isinstance(shape[0], (list, tuple)) else shape


def expand(x: Any, *shape: Any) -> Any:
    wanted = sized(x, *shape)
    own = (1,) * (len(wanted) - x.ndim) + tuple(x.shape)
    return wg.broadcast_to(x, tuple(have if want == -1 else want for have, want in zip(own, wanted)))


def meshgrid(*arrays: Any, indexing: str = "ij") -> Any:
    given = arrays[0] if len(arrays) == 1 and isinstance(arrays[0], (list, tuple)) else arrays
    return wg.meshgrid(*given, indexing=indexing)


def narrow(x: Any, dim: int, start: Any, length: int) -> Any:
    begin = int(start) % x.shape[dim] if x.shape[dim] else 0
    return x[(*(slice(None),) * (dim % x.ndim), slice(begin, begin + length))]


def select(x: Any, dim: int, index: int) -> Any:
    return x[(*(slice(None),) * (dim % x.ndim), index)]


def unflatten(x: Any, dim: int, sizes: Any) -> Any:
    at = dim % x.ndim
    return wg.reshape(x, (*x.shape[:at], *sizes, *x.shape[at + 1 :]))


def diff(x: Any, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Any:
    return wg.diff(x, axis=dim, n=n, prepend=prepend, append=append)


def tensordot(x: Any, other: Any, dims: Any = 2) -> Any:
    return wg.tensordot(x, other, axes=dims)


# --- indices --------------------------------------------------------------------------------------------------------


def sort(x: Any, dim: int = -1, descending: bool = False, stable: bool = True) -> Any:
    order = wg.argsort(x, axis=dim, descending=descending, stable=stable)
    return wg.sort(x, axis=dim, descending=descending, stable=stable), order


def nonzero(x: Any, as_tuple: bool = False) -> Any:
    found = wg.nonzero(x)
    return found if as_tuple else wg.stack(list(found), axis=-1)


def scatter(x: Any, dim: int, index: Any, src: Any = None, value: Any = None) -> Any:
    return wg.scatter(x, dim, index, value if src is None else src)


def searchsorted(
    x: Any, values: Any, out_int32: bool = False, right: bool = False, side: str | None = None, sorter: Any = None
) -> Any:
    places = wg.searchsorted(x, values, side=side or ("right" if right else "left"), sorter=sorter)
    return wg.astype(places, wg.int32) if out_int32 else places


def unique(
    x: Any, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: Any = None
) -> Any:
    return wg.unique(x, return_inverse=return_inverse, return_counts=return_counts, axis=dim)


def repeat_interleave(x: Any, repeats: Any, dim: int | None = None, output_size: Any = None) -> Any:
    return wg.repeat(x, repeats, axis=dim)


def take_along_dim(x: Any, indices: Any, dim: int | None = None) -> Any:
    if dim is None:
        return wg.take_along_axis(wg.reshape(x, (-1,)), wg.reshape(indices, (-1,)), axis=0)
    return wg.take_along_axis(x, indices, axis=dim)


def quantile(x: Any, q: Any, dim: Any = None, keepdim: bool = False, *, interpolation: str = "linear") -> Any:
    only("interpolation", interpolation, "linear")
    return wg.quantile(x, q, axis=dim, keepdims=keepdim)


def kl_div(x: Any, target: Any, *, reduction: str = "mean", log_target: bool = False) -> Any:
    return wg.kl_div(x, target, reduction=reduction, log_target=log_target)


def addition(added: Callable[..., Any]) -> Callable[..., Any]:
    """addmm and its like: beta * x + alpha * a @ b."""

    def rounded(x: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
        if integral(x):
            beta, alpha = int(beta), int(alpha)  # PyTorch rounds them to the dtype of the tensors
        return added(x, a, b, beta=beta, alpha=alpha)

    return rounded


def by(product: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    return addition(lambda x, a, b, beta, alpha: beta * x + alpha * product(a, b))


def integral_over(function: Callable[..., Any]) -> Callable[..., Any]:
    """The trapezoidal rule."""
    return lambda y, x=None, *, dx=1.0, dim=-1: function(y, x, dx=dx, axis=dim)


def indices(function: Callable[..., Any]) -> Callable[..., Any]:
    """tril_indices and triu_indices, which are one tensor of two rows in PyTorch."""

    def places(row: int, col: int, offset: int = 0, dtype: Any = wg.int64) -> Any:
        return wg.astype(wg.stack(list(function(row, col, k=offset))), dtype)

    return places


def number(x: Any) -> Any:
    """A bound, which is a number here: of a tensor, its item."""
    return x.item() if isinstance(x, wg.Tensor) else x


def logspace(start: Any, end: Any, steps: int, base: float = 10.0, dtype: Any = None) -> Any:
    start, end = number(start), number(end)
    if dtype is not None and wg.isdtype(dtype, "integral"):
        start, end = int(start), int(end)
    return wg.logspace(start, end, steps, base=base, dtype=dtype)


def linspace(start: Any, end: Any, steps: int, dtype: Any = None) -> Any:
    start, end = number(start), number(end)
    if dtype is not None and wg.isdtype(dtype, "integral"):  # PyTorch rounds towards zero, NumPy and Wengert down
        return wg.astype(wg.trunc(wg.linspace(int(start), int(end), steps, dtype=wg.float64)), dtype)
    return wg.linspace(start, end, steps, dtype=dtype)


def arange(start: Any, end: Any = None, step: Any = 1, dtype: Any = None) -> Any:
    if dtype is not None and wg.isdtype(dtype, "integral"):  # PyTorch rounds the bounds first
        start, end, step = int(start), None if end is None else int(end), int(step)
    return wg.arange(start, end, step, dtype=dtype)
