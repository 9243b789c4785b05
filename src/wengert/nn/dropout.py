"""Dropout: random elements, or whole channels, set to 0 while training. `inplace` is accepted and says nothing."""

from __future__ import annotations

from collections.abc import Callable

import wengert as wg
from wengert.nn.module import Module


class _Dropout(Module):
    _drop: Callable[..., wg.Tensor]

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise wg.errors.ArgumentError(f"{type(self).__name__}: p is a probability, between 0 and 1, not {p!r}")
        self.p = p
        self.inplace = inplace

    def forward(self, input: wg.Tensor) -> wg.Tensor:
        """The input with parts dropped and the rest scaled up; as it is when not training."""
        return type(self)._drop(input, self.p, self.training)

    def extra_repr(self) -> str:
        """The probability."""
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_Dropout):
    """Each element set to 0 with probability `p`, and the others scaled by 1 / (1 - p).

    >>> import wengert as wg
    >>> wg.nn.Dropout(0.5).eval()(wg.ones(3)).tolist()
    [1.0, 1.0, 1.0]
    """

    _drop = staticmethod(wg.dropout)


class Dropout1d(_Dropout):
    """Whole channels of (N, C, L) or (C, L) dropped.

    >>> import wengert as wg
    >>> wg.nn.Dropout1d(0.5).eval()(wg.ones((2, 3, 4))).shape
    (2, 3, 4)
    """

    _drop = staticmethod(wg.dropout1d)


class Dropout2d(_Dropout):
    """Whole channels of (N, C, H, W) or (C, H, W) dropped.

    >>> import wengert as wg
    >>> wg.nn.Dropout2d(0.5).eval()(wg.ones((2, 3, 4, 4))).shape
    (2, 3, 4, 4)
    """

    _drop = staticmethod(wg.dropout2d)


class Dropout3d(_Dropout):
    """Whole channels of (N, C, D, H, W) or (C, D, H, W) dropped.

    >>> import wengert as wg
    >>> wg.nn.Dropout3d(0.5).eval()(wg.ones((2, 3, 2, 4, 4))).shape
    (2, 3, 2, 4, 4)
    """

    _drop = staticmethod(wg.dropout3d)


class AlphaDropout(_Dropout):
    """Dropout that keeps mean 0 and variance 1, for networks with SELU.

    >>> import wengert as wg
    >>> wg.nn.AlphaDropout(0.5).eval()(wg.ones(3)).tolist()
    [1.0, 1.0, 1.0]
    """

    _drop = staticmethod(wg.alpha_dropout)


class FeatureAlphaDropout(_Dropout):
    """`AlphaDropout` of whole channels of (N, C, ...).

    >>> import wengert as wg
    >>> wg.nn.FeatureAlphaDropout(0.5).eval()(wg.ones((2, 3, 4))).shape
    (2, 3, 4)
    """

    _drop = staticmethod(wg.feature_alpha_dropout)
