"""How PyTorch's operators are spelled here, where the name or the order of the arguments is another one.

An entry that is not here has its counterpart by name.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import wengert as wg
from tests.oracle.opinfo.adapters import (
    _tupled,
    activation,
    add,
    addition,
    arange,
    axes,
    binary,
    by,
    cast,
    clamp,
    diagonal,
    diff,
    dist,
    divided,
    expand,
    extremum,
    indices,
    integral_over,
    kl_div,
    linspace,
    logspace,
    median,
    meshgrid,
    narrow,
    nonzero,
    norm,
    quantile,
    reduction,
    repeat_interleave,
    running,
    scatter,
    searchsorted,
    select,
    sized,
    sort,
    spread,
    sub,
    swapped,
    take_along_dim,
    tensordot,
    unflatten,
    unique,
    with_mean,
)

# Names that mean something else here, or nothing that a call could be compared by: random draws, dtypes, memory.
OTHER_MEANING = {
    *("unfold", "repeat", "equal", "bool", "bfloat16", "float", "half", "norm", "masked", "save", "load", "tensor"),
    *("nn.functional.fractional_max_pool2d", "nn.functional.fractional_max_pool3d", "nn.functional.rrelu"),
    *("nn.functional.feature_alpha_dropout", "nn.functional.gumbel_softmax"),
    *("empty", "empty_like", "nn.functional.dropout", "nn.functional.dropout2d", "nn.functional.dropout3d"),
    *("nn.functional.alpha_dropout", "nn.functional.scaled_dot_product_attention/dropout"),
}

# Where PyTorch computes less precisely than its dtype: how many times the tolerance is allowed.
PYTORCH_ROUNDS = {
    "nn.functional.hardsigmoid": 100.0,  # its backward multiplies by 1/6 rounded to float32
    # its Bessel functions have errors of 1e-8 in float64, and larger ones near a zero
    **dict.fromkeys([f"special.bessel_{kind}{order}" for kind in "jy" for order in (0, 1)], 100.0),
}

# What means something else here on purpose, in one dtype.
CONVENTIONS = {
    ("heaviside", "int64"): "of integers it gives floats, as NumPy's does",
    **dict.fromkeys(
        ((f"special.bessel_{name}", "float64") for name in ("j0", "j1", "y0", "y1")),
        "PyTorch's is off by 1e-8 of its amplitude and more from about 4.8 on, against 40 digits",
    ),
    ("nn.functional.hardtanh", "int64"): "of integers it gives floats: its bounds are floats",
    **{
        (f"nn.functional.max_unpool{axes}d", dtype): "the last of several values for one place has its derivative"
        for axes in (1, 2, 3)
        for dtype in ("float64", "float32")
    },
    **{
        (
            "nn.functional.ctc_loss",
            dtype,
        ): "PyTorch's derivative is right behind a log_softmax only"
        for dtype in ("float64", "float32")
    },
}


def by_arguments(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of several tensors that may come as one list."""
    return lambda *xs: function(*xs[0]) if len(xs) == 1 and isinstance(xs[0], (list, tuple)) else function(*xs)


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
    "nansum": reduction(wg.nansum),
    "nanmean": reduction(wg.nanmean),
    "trapezoid": integral_over(wg.trapezoid),
    "trapz": integral_over(wg.trapezoid),
    "cumulative_trapezoid": integral_over(wg.cumulative_trapezoid),
    "cdist": lambda x, y, p=2.0, compute_mode=None: wg.cdist(x, y, p=p),
    "tensor_split": lambda x, parts, dim=0: wg.tensor_split(
        x, parts.tolist() if isinstance(parts, wg.Tensor) else parts, axis=dim
    ),
    "max/reduction_no_dim": wg.max,
    "min/reduction_no_dim": wg.min,
    "max/reduction_with_dim": extremum(wg.max, wg.argmax),
    "min/reduction_with_dim": extremum(wg.min, wg.argmin),
    "var": spread(wg.var),
    "std": spread(wg.std),
    "var_mean": spread(wg.var_mean),
    "std_mean": with_mean(wg.std),
    "median": median,
    "norm": norm,
    "dist": dist,
    "logsumexp": lambda x, dim, keepdim=False: wg.logsumexp(x, axis=axes(dim), keepdims=keepdim),
    "quantile": quantile,
    "softmax": activation(wg.softmax),
    "log_softmax": activation(wg.log_softmax),
    "nn.functional.softmin": activation(wg.softmin),
    "cumsum": running(wg.cumsum),
    "cumprod": running(wg.cumprod),
    "allclose": lambda x, y, rtol=1e-5, atol=1e-8, equal_nan=False: bool(wg.allclose(x, y, rtol, atol, equal_nan)),
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
    "unfold": wg.sliding_window,
    "unfold_copy": wg.sliding_window,
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
    "logspace": logspace,
    "diag": lambda x, diagonal=0: wg.diag(x, diagonal),
    "diagflat": lambda x, offset=0: wg.diagflat(x, offset),
    "diag_embed": lambda x, offset=0, dim1=-2, dim2=-1: wg.diag_embed(x, offset, dim1, dim2),
    "tril_indices": indices(wg.tril_indices),
    "triu_indices": indices(wg.triu_indices),
    # indices
    "isin": lambda x, values, assume_unique=False, invert=False: wg.isin(x, values, invert=invert),
    "sort": sort,
    "msort": lambda x: wg.sort(x, axis=0),
    "nonzero": nonzero,
    "scatter": scatter,
    "searchsorted": searchsorted,
    "bucketize": lambda x, boundaries, out_int32=False, right=False: searchsorted(boundaries, x, out_int32, right),
    "unique": unique,
    "unique_consecutive": lambda x, return_inverse=False, return_counts=False, dim=None: wg.unique_consecutive(
        x, return_inverse, return_counts, axis=dim
    ),
    **{f"atleast_{n}d": by_arguments(getattr(wg, f"atleast_{n}d")) for n in (1, 2, 3)},
    "repeat_interleave": repeat_interleave,
    "take_along_dim": take_along_dim,
    # networks
    "nn.functional.embedding_bag": lambda weight, index, **options: wg.embedding_bag(index, weight, **options),
    "nn.functional.embedding": lambda weight, index, **options: wg.embedding(index, weight, **options),
    "nn.functional.kl_div": kl_div,
    "nn.functional.ctc_loss": wg.ctc_loss,
    "constant_pad_nd": lambda x, pad, value=0: wg.pad(x, pad, value=value),
    "nn.functional.cosine_similarity": lambda x, y, dim=1, eps=1e-8: wg.cosine_similarity(x, y, axis=dim, eps=eps),
    "nn.functional.upsample_nearest": partial(wg.interpolate, mode="nearest"),
    "nn.functional.upsample_bilinear": partial(wg.interpolate, mode="bilinear", align_corners=True),
    # products
    "einsum": lambda tensors, equation: wg.einsum(equation, *tensors),
    "mm": wg.matmul,
    "bmm": wg.matmul,
    "mv": wg.matmul,
    "dot": wg.matmul,
    "vdot": lambda x, y: wg.vecdot(x, y),
    "addmm": addition(wg.addmm),
    "addmv": by(wg.matmul),
    "baddbmm": addition(wg.baddbmm),
    "addr": by(wg.outer),
    "addbmm": by(lambda a, b: wg.sum(a @ b, axis=0)),
    "cross": lambda x, y, dim=None: wg.cross(x, y, axis=-1 if dim is None else dim),
}
