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
    """The largest element of windows over the last axis.

    >>> import wengert as wg
    >>> wg.nn.MaxPool1d(2)(wg.tensor([[[1.0, 3.0, 5.0, 2.0]]])).tolist()
    [[[3.0, 5.0]]]
    """

    _pool = staticmethod(wg.max_pool1d)


class MaxPool2d(_MaxPool):
    """The largest element of windows over the last two axes.

    >>> import wengert as wg
    >>> wg.nn.MaxPool2d(2)(wg.zeros((1, 3, 8, 8))).shape
    (1, 3, 4, 4)
    """

    _pool = staticmethod(wg.max_pool2d)


class MaxPool3d(_MaxPool):
    """The largest element of windows over the last three axes.

    >>> import wengert as wg
    >>> wg.nn.MaxPool3d(2)(wg.ones((1, 3, 4, 4, 4))).shape
    (1, 3, 2, 2, 2)
    """

    _pool = staticmethod(wg.max_pool3d)


class AvgPool1d(Module):
    """The mean of windows over the last axis.

    >>> import wengert as wg
    >>> wg.nn.AvgPool1d(2)(wg.tensor([[[1.0, 3.0, 5.0, 7.0]]])).tolist()
    [[[2.0, 6.0]]]
    """

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
    """The mean of windows over the last two axes, or their sum over `divisor_override`.

    >>> import wengert as wg
    >>> wg.nn.AvgPool2d(2)(wg.ones((1, 3, 8, 8))).shape
    (1, 3, 4, 4)
    """

    _pool: Callable[..., wg.Tensor] = staticmethod(wg.avg_pool2d)

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
        return type(self)._pool(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )


class AvgPool3d(AvgPool2d):
    """The mean of windows over the last three axes, or their sum over `divisor_override`.

    >>> import wengert as wg
    >>> wg.nn.AvgPool3d(2)(wg.ones((1, 3, 4, 4, 4))).shape
    (1, 3, 2, 2, 2)
    """

    _pool = staticmethod(wg.avg_pool3d)


# --- as many windows as are asked for -------------------------------------------------------------------------------


class _AdaptivePool(Module):
    _pool: Callable[..., Any]

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: wg.Tensor) -> Any:
        """One element for each of `output_size` windows that cover the input evenly."""
        return type(self)._pool(input, self.output_size)

    def extra_repr(self) -> str:
        """The number of windows."""
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptivePool):
    """The means of `output_size` windows over the last axis.

    >>> import wengert as wg
    >>> wg.nn.AdaptiveAvgPool1d(2)(wg.ones((1, 3, 8))).shape
    (1, 3, 2)
    """

    _pool = staticmethod(wg.adaptive_avg_pool1d)


class AdaptiveAvgPool2d(_AdaptivePool):
    """The means of `output_size` windows over the last two axes; None keeps an axis as it is.

    >>> import wengert as wg
    >>> wg.nn.AdaptiveAvgPool2d(1)(wg.ones((1, 3, 8, 8))).shape
    (1, 3, 1, 1)
    """

    _pool = staticmethod(wg.adaptive_avg_pool2d)


class AdaptiveAvgPool3d(_AdaptivePool):
    """The means of `output_size` windows over the last three axes; None keeps an axis as it is.

    >>> import wengert as wg
    >>> wg.nn.AdaptiveAvgPool3d(2)(wg.ones((1, 3, 4, 4, 4))).shape
    (1, 3, 2, 2, 2)
    """

    _pool = staticmethod(wg.adaptive_avg_pool3d)


class _AdaptiveMaxPool(_AdaptivePool):
    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__(output_size)
        self.return_indices = return_indices

    def forward(self, input: wg.Tensor) -> Any:
        """The largest element of each window, and with `return_indices` where it is."""
        return type(self)._pool(input, self.output_size, self.return_indices)


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """The largest elements of `output_size` windows over the last axis.

    >>> import wengert as wg
    >>> wg.nn.AdaptiveMaxPool1d(2)(wg.ones((1, 3, 8))).shape
    (1, 3, 2)
    """

    _pool = staticmethod(wg.adaptive_max_pool1d)


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """The largest elements of `output_size` windows over the last two axes; None keeps an axis as it is.

    >>> import wengert as wg
    >>> wg.nn.AdaptiveMaxPool2d((2, 3))(wg.ones((1, 3, 8, 9))).shape
    (1, 3, 2, 3)
    """

    _pool = staticmethod(wg.adaptive_max_pool2d)


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """The largest elements of `output_size` windows over the last three axes; None keeps an axis as it is.

    >>> import wengert as wg
    >>> wg.nn.AdaptiveMaxPool3d(2)(wg.ones((1, 3, 4, 4, 4))).shape
    (1, 3, 2, 2, 2)
    """

    _pool = staticmethod(wg.adaptive_max_pool3d)


# --- means of powers, random windows, and back -----------------------------------------------------------------------


class _PowerPool(Module):
    _pool: Callable[..., wg.Tensor]

    def __init__(self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def forward(self, input: wg.Tensor) -> wg.Tensor:
        """The root of the sum of powers of each window."""
        return type(self)._pool(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)

    def extra_repr(self) -> str:
        """The power and the windows."""
        window = f"kernel_size={self.kernel_size}, stride={self.stride}"
        return f"norm_type={self.norm_type}, {window}, ceil_mode={self.ceil_mode}"


class LPPool1d(_PowerPool):
    """`(sum of x ** p) ** (1 / p)` of windows over the last axis.

    >>> import wengert as wg
    >>> wg.nn.LPPool1d(2, 2)(wg.tensor([[[3.0, 4.0]]])).tolist()
    [[[5.0]]]
    """

    _pool = staticmethod(wg.lp_pool1d)


class LPPool2d(_PowerPool):
    """`(sum of x ** p) ** (1 / p)` of windows over the last two axes.

    >>> import wengert as wg
    >>> wg.nn.LPPool2d(2, 2)(wg.ones((1, 3, 4, 4))).shape
    (1, 3, 2, 2)
    """

    _pool = staticmethod(wg.lp_pool2d)


class LPPool3d(_PowerPool):
    """`(sum of x ** p) ** (1 / p)` of windows over the last three axes.

    >>> import wengert as wg
    >>> wg.nn.LPPool3d(2, 2)(wg.ones((1, 3, 4, 4, 4))).shape
    (1, 3, 2, 2, 2)
    """

    _pool = staticmethod(wg.lp_pool3d)


class _FractionalMaxPool(Module):
    _pool: Callable[..., Any]

    def __init__(
        self,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Any = None,
    ) -> None:
        super().__init__()
        if (output_size is None) == (output_ratio is None):
            raise wg.errors.ArgumentError(f"{type(self).__name__}: give either output_size or output_ratio")
        self.kernel_size = kernel_size
        self.output_size = output_size
        self.output_ratio = output_ratio
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)

    _random_samples: Any

    def forward(self, input: wg.Tensor) -> Any:
        """The largest element of each window, other windows at every call."""
        return type(self)._pool(
            input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices, self._random_samples
        )

    def extra_repr(self) -> str:
        """The windows."""
        return f"kernel_size={self.kernel_size}, output_size={self.output_size}, output_ratio={self.output_ratio}"


class FractionalMaxPool2d(_FractionalMaxPool):
    """The largest elements of windows at random places over the last two axes.

    >>> import wengert as wg
    >>> wg.nn.FractionalMaxPool2d(2, output_size=3)(wg.ones((1, 1, 8, 8))).shape
    (1, 1, 3, 3)
    """

    _pool = staticmethod(wg.fractional_max_pool2d)


class FractionalMaxPool3d(_FractionalMaxPool):
    """The largest elements of windows at random places over the last three axes.

    >>> import wengert as wg
    >>> wg.nn.FractionalMaxPool3d(2, output_size=3)(wg.ones((1, 1, 8, 8, 8))).shape
    (1, 1, 3, 3, 3)
    """

    _pool = staticmethod(wg.fractional_max_pool3d)


class _MaxUnpool(Module):
    _unpool: Callable[..., wg.Tensor]

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding

    def forward(self, input: wg.Tensor, indices: wg.Tensor, output_size: Any = None) -> wg.Tensor:
        """Zeros with the values at the places that a max pooling gave."""
        return type(self)._unpool(input, indices, self.kernel_size, self.stride, self.padding, output_size)

    def extra_repr(self) -> str:
        """The windows."""
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpool):
    """What a `MaxPool1d` took, at its places, and zeros elsewhere.

    >>> import wengert as wg
    >>> values, indices = wg.nn.MaxPool1d(2, return_indices=True)(wg.tensor([[[1.0, 3.0, 5.0, 2.0]]]))
    >>> wg.nn.MaxUnpool1d(2)(values, indices).tolist()
    [[[0.0, 3.0, 5.0, 0.0]]]
    """

    _unpool = staticmethod(wg.max_unpool1d)


class MaxUnpool2d(_MaxUnpool):
    """What a `MaxPool2d` took, at its places, and zeros elsewhere.

    >>> import wengert as wg
    >>> pool = wg.nn.MaxPool2d(2, return_indices=True)
    >>> wg.nn.MaxUnpool2d(2)(*pool(wg.ones((1, 1, 4, 4)))).sum().item()
    4.0
    """

    _unpool = staticmethod(wg.max_unpool2d)


class MaxUnpool3d(_MaxUnpool):
    """What a `MaxPool3d` took, at its places, and zeros elsewhere.

    >>> import wengert as wg
    >>> values, indices = wg.nn.MaxPool3d(2, return_indices=True)(wg.ones((1, 3, 4, 4, 4)))
    >>> wg.nn.MaxUnpool3d(2)(values, indices).shape
    (1, 3, 4, 4, 4)
    """

    _unpool = staticmethod(wg.max_unpool3d)
