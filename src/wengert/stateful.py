"""Functions that use more than their arguments: dropout in its forms, which draws from a generator.

They take and give Tensors, over the public functions. What is drawn is drawn again where a backward pass needs it (see
`ops.random`), so a mask is never stored.
"""

from __future__ import annotations

import math
from typing import Any

from wengert.dtypes import FLOATING
from wengert.errors import ArgumentError, DTypeError, ShapeError
from wengert.functions import where
from wengert.ops.core import as_node
from wengert.random import Generator, bernoulli
from wengert.tensor import Tensor

__all__ = ["alpha_dropout", "dropout", "dropout1d", "dropout2d", "dropout3d"]


def dropout(x: Any, p: float = 0.5, training: bool = True, *, generator: Generator | None = None) -> Tensor:
    """`x` with each element set to 0 with probability `p`, and the others scaled by 1 / (1 - p) to keep the mean.

    When not `training`, `x` as it is.

    >>> import wengert as wg
    >>> sorted(set(wg.dropout(wg.ones(100), 0.5).tolist()))
    [0.0, 2.0]
    """
    x = _checked("dropout", x, p)
    return _scaled_mask(x, p, x.shape, generator) if training and p else x


def dropout1d(x: Any, p: float = 0.5, training: bool = True, *, generator: Generator | None = None) -> Tensor:
    """`x` of shape (batch, channels, length) or (channels, length) with whole channels dropped."""
    return _drop_channels("dropout1d", 1, x, p, training, generator)


def dropout2d(x: Any, p: float = 0.5, training: bool = True, *, generator: Generator | None = None) -> Tensor:
    """`x` of shape (batch, channels, height, width) or (channels, height, width) with whole channels dropped."""
    return _drop_channels("dropout2d", 2, x, p, training, generator)


def dropout3d(x: Any, p: float = 0.5, training: bool = True, *, generator: Generator | None = None) -> Tensor:
    """`x` of shape (batch, channels, depth, height, width), or without the batch, with whole channels dropped."""
    return _drop_channels("dropout3d", 3, x, p, training, generator)


_SATURATION = -1.7580993408473766
"""What selu tends to on the left, -scale * alpha: the value that alpha dropout sets elements to."""


def alpha_dropout(x: Any, p: float = 0.5, training: bool = True, *, generator: Generator | None = None) -> Tensor:
    """Dropout for selu networks, keeping mean 0 and variance 1 (Klambauer et al., "Self-normalizing networks")."""
    x = _checked("alpha_dropout", x, p)
    if not training or not p:
        return x
    if p == 1:
        return _scaled_mask(x, p, x.shape, generator)
    scale = 1 / math.sqrt((1 - p) * (1 + p * _SATURATION**2))
    keep = bernoulli(1.0 - p, x.shape, generator=generator)
    return where(keep, x, _SATURATION) * scale - _SATURATION * p * scale


def _drop_channels(name: str, spatial: int, x: Any, p: float, training: bool, generator: Generator | None) -> Tensor:
    x = _checked(name, x, p)
    if x.ndim - spatial not in (1, 2):
        raise ShapeError(f"{name} takes {spatial + 1} or {spatial + 2} axes; the shape is {x.shape}")
    mask = x.shape[: x.ndim - spatial] + (1,) * spatial
    return _scaled_mask(x, p, mask, generator) if training and p else x


def _scaled_mask(x: Tensor, p: float, shape: tuple[int, ...], generator: Generator | None) -> Tensor:
    """A choice instead of a product, so that a dropped infinity or NaN is 0 too."""
    keep = bernoulli(1.0 - p, shape, generator=generator)
    return where(keep, x * (1.0 / (1.0 - p) if p < 1 else 1.0), 0)


def _checked(name: str, x: Any, p: float) -> Tensor:
    x = x if isinstance(x, Tensor) else Tensor(as_node(x))
    if x.dtype not in FLOATING:
        raise DTypeError(f"{name} takes floating-point values, not {x.dtype}")
    if not isinstance(p, (int, float)) or not 0 <= p <= 1:
        raise ArgumentError(f"{name}: p is {p!r}; the probability to drop is a number between 0 and 1")
    return x
