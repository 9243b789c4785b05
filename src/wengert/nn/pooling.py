"""Pooling: the largest or the mean element of windows, of a given size or of a given number."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import wengert as wg
from wengert.nn.module import Module


class _MaxPool(Module):
    _pool: Callable[..., Any]

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def forward(self, input: wg.Tensor) -> Any:
        """The largest element of each window, and with `return_indices` where it is."""
        return type(self)._pool(
            input, self.kernel_size, self.stride, self.padding, self.dilation, self.ceil_mode, self.return_indices
        )

    def extra_repr(self) -> str:
        """The windows."""
        window = f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"
        return f"{window}, dilation={self.dilation}, ceil_mode={self.ceil_mode}"


class MaxPool1d(_MaxPool):
    """The largest element of windows over the last axis."""

    _pool = staticmethod(wg.max_pool1d)


class MaxPool2d(_MaxPool):
    """The largest element of windows over the last two axes.

    >>> import wengert as wg
    >>> wg.nn.MaxPool2d(2)(wg.zeros((1, 3, 8, 8))).shape
    (1, 3, 4, 4)
    """

    _pool = staticmethod(wg.max_pool2d)


class AvgPool1d(Module):
    """The mean of windows over the last axis."""

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: wg.Tensor) -> wg.Tensor:
        """The mean of each window."""
        return wg.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)

    def extra_repr(self) -> str:
        """The windows."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool2d(AvgPool1d):
    """The mean of windows over the last two axes, or their sum over `divisor_override`."""

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__(kernel_size, stride, padding, ceil_mode, count_include_pad)
        self.divisor_override = divisor_override

    def forward(self, input: wg.Tensor) -> wg.Tensor:
        """The mean of each window."""
        return wg.avg_pool2d(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )


class _AdaptivePool(Module):
    _pool: Callable[..., wg.Tensor]

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: wg.Tensor) -> wg.Tensor:
        """One element for each of `output_size` windows that cover the input evenly."""
        return type(self)._pool(input, self.output_size)

    def extra_repr(self) -> str:
        """The number of windows."""
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptivePool):
    """The means of `output_size` windows over the last axis."""

    _pool = staticmethod(wg.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(_AdaptivePool):
    """The means of `output_size` windows over the last two axes; None keeps an axis as it is."""

    _pool = staticmethod(wg.adaptive_avg_pool2d)


class AdaptiveMaxPool1d(_AdaptivePool):
    """The largest elements of `output_size` windows over the last axis."""

    _pool = staticmethod(wg.adaptive_max_pool1d)


class AdaptiveMaxPool2d(_AdaptivePool):
    """The largest elements of `output_size` windows over the last two axes; None keeps an axis as it is."""

    _pool = staticmethod(wg.adaptive_max_pool2d)
