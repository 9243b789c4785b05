"""Padding, resizing, tables and products: functions whose arguments differ from Wengert's by more than a name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import wengert as wg
from wengert.torch.nn.functional.renamed import renamed
from wengert.torch.tensor import axis_of, write


def pad(input: Any, pad: Any, mode: str = "constant", value: Any = None) -> Any:
    """Pad the input: two sizes for each axis, starting with the last one."""
    if mode != "constant" and value not in (None, 0):
        raise ValueError(f'Padding mode "{mode}" doesn\'t take in value argument')
    return wg.pad(input, tuple(pad), mode, 0 if value is None else value)


def normalize(input: Any, p: float = 2.0, dim: Any = 1, eps: float = 1e-12, out: Any = None) -> Any:
    """Divide each vector along an axis by its norm."""
    if input.ndim:
        found = wg.normalize(input, p, dim, eps)
    else:
        found = wg.normalize(input.reshape((1,)), p, axis_of(dim, 0), eps).reshape(())
    return found if out is None else write(out, found)


def cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Any:
    """The cosine of the angle between vectors along an axis; a vector shorter than `eps` counts as that long."""
    if x1.ndim or x2.ndim:
        return wg.cosine_similarity(x1, x2, dim, eps)
    return wg.cosine_similarity(x1.reshape((1,)), x2.reshape((1,)), axis_of(dim, 0), eps)


def one_hot(tensor: Any, num_classes: int = -1) -> Any:
    """One-hot vectors for class indices; by default there are as many classes as the largest index needs."""
    count = int(tensor.max().item()) + 1 if num_classes == -1 else num_classes
    return wg.one_hot(tensor, count, dtype=wg.int64)


_resized = renamed(wg.interpolate)


def upsample(
    input: Any, size: Any = None, scale_factor: Any = None, mode: str = "nearest", align_corners: Any = None
) -> Any:
    """`interpolate`, under its old name."""
    return _resized(input, size, scale_factor, mode, align_corners)


def upsample_nearest(input: Any, size: Any = None, scale_factor: Any = None) -> Any:
    """`interpolate` by the nearest neighbour."""
    return _resized(input, size, scale_factor, "nearest")


def upsample_bilinear(input: Any, size: Any = None, scale_factor: Any = None) -> Any:
    """`interpolate`, bilinear with aligned corners."""
    return _resized(input, size, scale_factor, "bilinear", True)


def embedding_bag(
    input: Any,
    weight: Any,
    offsets: Any = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Any = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Any:
    """The sums, means or maxima of bags of rows of a table."""
    options = (max_norm, float(norm_type), scale_grad_by_freq, mode, sparse, per_sample_weights)
    return wg.embedding_bag(input, weight, offsets, *options, include_last_offset, padding_idx)


def conv_tbc(input: Any, weight: Any, bias: Any, pad: int = 0) -> Any:
    """`conv1d` of (time, batch, channels) with a weight of (kernel, inputs, outputs)."""
    by_channel = wg.conv1d(wg.moveaxis(input, 0, 2), wg.permute_dims(weight, (2, 1, 0)), bias, 1, pad)
    return wg.moveaxis(by_channel, 2, 0)


def linear_cross_entropy(
    input: Any,
    linear_weight: Any,
    target: Any,
    *,
    linear_bias: Any = None,
    weight: Any = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: Any = None,
) -> Any:
    """The cross-entropy of `linear(input, linear_weight, linear_bias)`, whose weight has the classes first."""
    classes = linear_weight.shape[:-1]
    bias = None if linear_bias is None else wg.reshape(linear_bias, (-1,))
    scores = wg.linear(input, wg.reshape(linear_weight, (-1, linear_weight.shape[-1])), bias)
    if len(classes) > 1:
        scores = wg.reshape(scores, (*scores.shape[:-1], *classes))
    index = -100 if ignore_index is None else ignore_index
    return wg.cross_entropy(scores, target, weight, index, reduction, label_smoothing)


def _with_indices(name: str) -> Callable[..., Any]:
    """The function that gives where the maxima are, too."""
    pool = renamed(getattr(wg, name))

    def pool_with_indices(*args: Any, return_indices: bool = True, **kwargs: Any) -> Any:
        return pool(*args, return_indices=True, **kwargs)

    pool_with_indices.__name__ = pool_with_indices.__qualname__ = f"{name}_with_indices"
    pool_with_indices.__signature__ = inspect.signature(pool)  # type: ignore[attr-defined]
    pool_with_indices.__doc__ = f"`{name}`, with where the maxima are."
    return pool_with_indices


max_pool1d_with_indices, max_pool2d_with_indices = _with_indices("max_pool1d"), _with_indices("max_pool2d")
max_pool3d_with_indices = _with_indices("max_pool3d")
adaptive_max_pool1d_with_indices = _with_indices("adaptive_max_pool1d")
adaptive_max_pool2d_with_indices = _with_indices("adaptive_max_pool2d")
adaptive_max_pool3d_with_indices = _with_indices("adaptive_max_pool3d")
fractional_max_pool2d_with_indices = _with_indices("fractional_max_pool2d")
fractional_max_pool3d_with_indices = _with_indices("fractional_max_pool3d")
native_channel_shuffle = renamed(wg.channel_shuffle)
