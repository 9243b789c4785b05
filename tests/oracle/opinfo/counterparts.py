"""How PyTorch's operators are spelled here, where the name or the order of the arguments is another one.

An adapter has the signature of the operator. An option that it does not take raises TypeError, which is reported as
refused: Wengert does not have that option.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import wengert as wg

# Names that mean something else here, or nothing that a call could be compared by: random draws, dtypes, memory.
OTHER_MEANING = {
    *("unfold", "repeat", "equal", "bool", "bfloat16", "float", "half", "norm", "masked", "save", "load", "tensor"),
    *("empty", "empty_like", "nn.functional.dropout", "nn.functional.dropout2d", "nn.functional.dropout3d"),
    *("nn.functional.alpha_dropout", "nn.functional.scaled_dot_product_attention/dropout"),
}

# Where PyTorch computes less precisely than its dtype: how many times the tolerance is allowed.
PYTORCH_ROUNDS = {
    "nn.functional.hardsigmoid": 100.0,  # its backward multiplies by 1/6 rounded to float32
}

# What means something else here on purpose, in one dtype.
CONVENTIONS = {
    ("nn.functional.hardtanh", "int64"): "of integers it gives floats: its bounds are floats",
}


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


# --- reductions -------------------------------------------------------------------------------------------------------


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


# --- movement ---------------------------------------------------------------------------------------------------------


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


def windows(x: Any, dimension: int, size: int, step: int) -> Any:
    count = (x.shape[dimension] - size) // step + 1
    parts = [wg.moveaxis(narrow(x, dimension, i * step, size), dimension, -1) for i in range(count)]
    return wg.stack(parts, axis=dimension % x.ndim)


# --- indices ----------------------------------------------------------------------------------------------------------


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


def unique(x: Any, sorted: bool = True, return_inverse: bool = False, return_counts: bool = False, dim: Any = None) -> Any:
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


def interpolate(x: Any, *args: Any, recompute_scale_factor: Any = None, **options: Any) -> Any:
    only("recompute_scale_factor", recompute_scale_factor, None, False)
    return wg.interpolate(x, *args, **options)


def adaptive(function: Callable[..., Any]) -> Callable[..., Any]:
    """Adaptive max pooling."""

    def pooled(x: Any, output_size: Any, return_indices: bool = False) -> Any:
        only("return_indices", return_indices, False)
        return function(x, output_size)

    return pooled


def prelu(x: Any, weight: Any) -> Any:
    slope = wg.reshape(weight, (-1, *(1,) * (x.ndim - 2)) if x.ndim > 1 and weight.size > 1 else (1,) * x.ndim)
    return wg.where(x >= 0, x, slope * x)


def addition(product: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    """addmm and its like: beta * x + alpha * a @ b."""

    def added(x: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1) -> Any:
        if integral(x):
            beta, alpha = int(beta), int(alpha)  # PyTorch rounds them to the dtype of the tensors
        return beta * x + alpha * product(a, b)

    return added


def linspace(start: Any, end: Any, steps: int, dtype: Any = None) -> Any:
    if dtype is not None and wg.isdtype(dtype, "integral"):  # PyTorch rounds towards zero, NumPy and Wengert down
        return wg.astype(wg.trunc(wg.linspace(int(start), int(end), steps, dtype=wg.float64)), dtype)
    return wg.linspace(start, end, steps, dtype=dtype)


def arange(start: Any, end: Any = None, step: Any = 1, dtype: Any = None) -> Any:
    if dtype is not None and wg.isdtype(dtype, "integral"):  # PyTorch rounds the bounds first
        start, end, step = int(start), None if end is None else int(end), int(step)
    return wg.arange(start, end, step, dtype=dtype)


SPELLED: dict[str, Callable[..., Any]] = {
    "add": add,
    "sub": sub,
    "rsub": lambda x, other, alpha=1: other - alpha * x,
    "mul": binary(wg.multiply),
    "div": divided,
    "true_divide": binary(wg.divide),
    "neg": wg.negative,
    "clamp": clamp,
    "clamp_min": lambda x, min: wg.clip(x, min=min),
    "clamp_max": lambda x, max: wg.clip(x, max=max),
    "eq": binary(wg.equal),
    "ne": binary(wg.not_equal),
    "lt": binary(wg.less),
    "le": binary(wg.less_equal),
    "gt": binary(wg.greater),
    "ge": binary(wg.greater_equal),
    "max/binary": binary(wg.maximum),
    "min/binary": binary(wg.minimum),
    "bitwise_not": wg.bitwise_invert,
    "float_power": lambda x, y: wg.pow(wg.astype(x, wg.float64), y),
    "__radd__": swapped(lambda a, b: a + b),
    "__rsub__": swapped(lambda a, b: a - b),
    "__rmul__": swapped(lambda a, b: a * b),
    "__rdiv__": swapped(lambda a, b: a / b),
    "__rmod__": swapped(lambda a, b: a % b),
    "__rpow__": swapped(lambda a, b: a**b),
    "__rand__": swapped(lambda a, b: a & b),
    "__ror__": swapped(lambda a, b: a | b),
    "__rxor__": swapped(lambda a, b: a ^ b),
    "__rmatmul__": swapped(lambda a, b: a @ b),
    "__getitem__": lambda x, index: x[index],
    "frac": lambda x: x - wg.trunc(x),
    "deg2rad": lambda x: x * (math.pi / 180),
    "rad2deg": lambda x: x * (180 / math.pi),
    "sgn": wg.sign,
    "conj_physical": wg.conj,
    "resolve_conj": lambda x: x,
    "resolve_neg": lambda x: x,
    "contiguous": lambda x: x,
    "clone": lambda x: x.clone(),
    "round": wg.round,
    "polygamma": lambda x, n: wg.polygamma(n, x),
    "special.polygamma": lambda x, n: wg.polygamma(n, x),
    # reductions
    **{name: reduction(getattr(wg, name)) for name in ("sum", "mean", "prod", "all", "any")},
    "amax": reduction(wg.max),
    "amin": reduction(wg.min),
    "aminmax": lambda x, dim=None, keepdim=False: (
        wg.min(x, axis=dim, keepdims=keepdim),
        wg.max(x, axis=dim, keepdims=keepdim),
    ),
    "count_nonzero": lambda x, dim=None: wg.count_nonzero(x, axis=axes(dim)),
    "max/reduction_no_dim": wg.max,
    "min/reduction_no_dim": wg.min,
    "max/reduction_with_dim": extremum(wg.max, wg.argmax),
    "min/reduction_with_dim": extremum(wg.min, wg.argmin),
    "var": spread(wg.var),
    "std": spread(wg.std),
    "var_mean": with_mean(wg.var),
    "std_mean": with_mean(wg.std),
    "median": median,
    "norm": norm,
    "dist": dist,
    "logsumexp": lambda x, dim, keepdim=False: wg.logsumexp(x, axis=axes(dim), keepdims=keepdim),
    "quantile": quantile,
    "softmax": activation(wg.softmax),
    "log_softmax": activation(wg.log_softmax),
    "nn.functional.softmin": activation(lambda x, axis: wg.softmax(-x, axis=axis)),
    "cumsum": running(wg.cumsum),
    "cumprod": running(wg.cumprod),
    "equal": lambda x, other: bool(x.shape == other.shape and wg.all(wg.equal(x, other)).item()),
    # movement
    "cat": lambda tensors, dim=0: wg.concat(tensors, axis=dim),
    "broadcast_tensors": lambda *tensors: wg.broadcast_arrays(*tensors),
    "diagonal": diagonal,
    "diagonal_copy": diagonal,
    "diff": diff,
    "expand": expand,
    "expand_copy": expand,
    "expand_as": lambda x, other: wg.broadcast_to(x, other.shape),
    "fliplr": lambda x: wg.flip(x, axis=1),
    "flipud": lambda x: wg.flip(x, axis=0),
    "flip": lambda x, dims: wg.flip(x, axis=_tupled(dims)),
    "meshgrid": meshgrid,
    "movedim": lambda x, source, destination: wg.moveaxis(x, source, destination),
    "narrow": narrow,
    "narrow_copy": narrow,
    "permute": lambda x, *dims: wg.permute_dims(x, sized(x, *dims)),
    "permute_copy": lambda x, *dims: wg.permute_dims(x, sized(x, *dims)),
    "ravel": lambda x: wg.reshape(x, (-1,)),
    "repeat": lambda x, *sizes: wg.tile(x, sized(x, *sizes)),
    "reshape": lambda x, *shape: wg.reshape(x, sized(x, *shape)),
    "reshape_as": lambda x, other: wg.reshape(x, other.shape),
    "view": lambda x, *shape: wg.reshape(x, sized(x, *shape)),
    "view_copy": lambda x, *shape: wg.reshape(x, sized(x, *shape)),
    "view_as": lambda x, other: wg.reshape(x, other.shape),
    "roll": lambda x, shifts, dims=None: wg.roll(x, shifts, axis=_tupled(dims) if dims != () else None),
    "rot90": lambda x, k=1, dims=(0, 1): wg.rot90(x, k, axes=dims),
    "select": select,
    "split_with_sizes": lambda x, sizes, dim=0: wg.split(x, list(sizes), axis=dim),
    "split_with_sizes_copy": lambda x, sizes, dim=0: wg.split(x, list(sizes), axis=dim),
    "unsafe_split": wg.split,
    "unsafe_chunk": wg.chunk,
    "squeeze": lambda x, dim=None: wg.squeeze(x, axis=_tupled(dim)),
    "squeeze_copy": lambda x, dim=None: wg.squeeze(x, axis=_tupled(dim)),
    "swapaxes": wg.swapaxes,
    "T": lambda x: x.T,
    "mT": lambda x: x.mT,
    "mH": lambda x: wg.conj(x.mT),
    "H": lambda x: wg.conj(x.mT),
    "t": lambda x: x if x.ndim < 2 else x.mT,
    "t_copy": lambda x: x if x.ndim < 2 else x.mT,
    "tensordot": tensordot,
    "tile": lambda x, *sizes: wg.tile(x, sized(x, *sizes)),
    "transpose": lambda x, dim0, dim1: wg.swapaxes(x, dim0, dim1),
    "transpose_copy": lambda x, dim0, dim1: wg.swapaxes(x, dim0, dim1),
    "tril": lambda x, diagonal=0: wg.tril(x, k=diagonal),
    "triu": lambda x, diagonal=0: wg.triu(x, k=diagonal),
    "unbind": lambda x, dim=0: wg.unstack(x, axis=dim),
    "unbind_copy": lambda x, dim=0: wg.unstack(x, axis=dim),
    "unflatten": unflatten,
    "unfold": windows,
    "unfold_copy": windows,
    "unsqueeze": lambda x, dim: wg.expand_dims(x, axis=dim),
    "unsqueeze_copy": lambda x, dim: wg.expand_dims(x, axis=dim),
    # creation
    "eye": lambda n, m=None, dtype=None: wg.eye(n, m, dtype=dtype or wg.float32),
    "arange": arange,
    "linspace": linspace,
    "full": lambda shape, value, dtype=None: wg.full(shape, value, dtype=dtype),
    "new_zeros": lambda x, shape, dtype=None: wg.zeros(shape, dtype=dtype or x.dtype),
    "new_ones": lambda x, shape, dtype=None: wg.ones(shape, dtype=dtype or x.dtype),
    "new_full": lambda x, shape, value, dtype=None: wg.full(shape, value, dtype=dtype or x.dtype),
    "fill": lambda x, value: wg.broadcast_to(cast(wg.asarray(value), x.dtype), x.shape),
    "where": lambda x, condition, other: wg.where(condition, x, other),
    # indices
    "sort": sort,
    "msort": lambda x: wg.sort(x, axis=0),
    "nonzero": nonzero,
    "scatter": scatter,
    "searchsorted": searchsorted,
    "bucketize": lambda x, boundaries, out_int32=False, right=False: searchsorted(boundaries, x, out_int32, right),
    "unique": unique,
    "repeat_interleave": repeat_interleave,
    "take_along_dim": take_along_dim,
    # networks
    "nn.functional.embedding": lambda weight, index, **options: wg.embedding(index, weight, **options),
    "nn.functional.kl_div": kl_div,
    "constant_pad_nd": lambda x, pad, value=0: wg.pad(x, pad, value=value),
    "nn.functional.pairwise_distance": lambda x, y, p=2.0, eps=1e-6, keepdim=False: wg.norm(
        x - y + eps, ord=p, axis=-1, keepdims=keepdim
    ),
    "nn.functional.cosine_similarity": lambda x, y, dim=1, eps=1e-8: wg.cosine_similarity(x, y, axis=dim, eps=eps),
    "nn.functional.interpolate": interpolate,
    "nn.functional.adaptive_max_pool1d": adaptive(wg.adaptive_max_pool1d),
    "nn.functional.adaptive_max_pool2d": adaptive(wg.adaptive_max_pool2d),
    "nn.functional.prelu": prelu,
    # products
    "einsum": lambda tensors, equation: wg.einsum(equation, *tensors),
    "mm": wg.matmul,
    "bmm": wg.matmul,
    "mv": wg.matmul,
    "dot": wg.matmul,
    "vdot": lambda x, y: wg.vecdot(x, y),
    "addmm": addition(wg.matmul),
    "addmv": addition(wg.matmul),
    "baddbmm": addition(wg.matmul),
    "addr": addition(wg.outer),
    "addbmm": addition(lambda a, b: wg.sum(a @ b, axis=0)),
    "addcmul": lambda x, a, b, *, value=1: x + value * (a * b),
    "addcdiv": lambda x, a, b, *, value=1: x + value * (a / b),
    "cross": lambda x, y, dim=None: wg.cross(x, y, axis=-1 if dim is None else dim),
}
