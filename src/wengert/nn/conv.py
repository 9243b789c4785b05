"""Convolutions and transposed convolutions over one, two and three axes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import wengert as wg
from wengert.nn.linear import init_weight_and_bias, new_parameter
from wengert.nn.module import Module

_PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


def per_axis(value: Any, axes: int) -> tuple[int, ...]:
    """A number for each axis, from one for all or from a sequence."""
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * axes


class _ConvBase(Module):
    """The arguments, the weight and its initial values; `transposed` swaps the weight's first two axes."""

    axes: int
    transposed = False

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any,
        padding: Any,
        dilation: Any,
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any,
        dtype: Any,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        for what, channels in (("in_channels", in_channels), ("out_channels", out_channels)):
            if groups < 1 or channels % groups:
                raise wg.errors.ArgumentError(f"{name}: {what} {channels} does not divide into {groups} groups")
        if padding_mode not in _PADDING_MODES:
            raise wg.errors.ArgumentError(f"{name}: padding_mode is one of {_PADDING_MODES}, not {padding_mode!r}")
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = per_axis(kernel_size, self.axes)
        self.stride = per_axis(stride, self.axes)
        self.padding: Any = padding if isinstance(padding, str) else per_axis(padding, self.axes)
        self.dilation = per_axis(dilation, self.axes)
        self.output_padding = (0,) * self.axes
        self.groups = groups
        self.padding_mode = padding_mode
        ends = (in_channels, out_channels) if self.transposed else (out_channels, in_channels)
        self.weight = new_parameter((ends[0], ends[1] // groups, *self.kernel_size), dtype, device)
        self.register_parameter("bias", new_parameter((out_channels,), dtype, device) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        init_weight_and_bias(self.weight, self.bias)

    def extra_repr(self) -> str:
        """The sizes, and what differs from the default."""
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        if any(self.padding) if isinstance(self.padding, tuple) else True:
            text += f", padding={self.padding}"
        if any(d != 1 for d in self.dilation):
            text += f", dilation={self.dilation}"
        if self.transposed and any(self.output_padding):
            text += f", output_padding={self.output_padding}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        return text if self.padding_mode == "zeros" else f"{text}, padding_mode={self.padding_mode}"


class _Conv(_ConvBase):
    _convolve: Callable[..., wg.Tensor]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def forward(self, input: wg.Tensor) -> wg.Tensor:
        """(N, in_channels, ...) to (N, out_channels, ...); the batch axis may be left out."""
        return self._conv_forward(input, self.weight, self.bias)

    def _conv_forward(self, input: wg.Tensor, weight: wg.Tensor, bias: wg.Tensor | None) -> wg.Tensor:
        """The convolution with any weight and bias; a subclass may work on them first."""
        padding: Any = self.padding
        if self.padding_mode != "zeros":
            input = wg.pad(input, self._pairs(), mode=self.padding_mode)
            padding = 0
        return type(self)._convolve(input, weight, bias, self.stride, padding, self.dilation, self.groups)

    def _pairs(self) -> tuple[int, ...]:
        """How far to pad before and after, from the last axis to the first."""
        pairs: list[int] = []
        for i in reversed(range(self.axes)):
            total = self.dilation[i] * (self.kernel_size[i] - 1) if self.padding == "same" else 0
            before = total // 2 if isinstance(self.padding, str) else self.padding[i]
            pairs += [before, total - before if isinstance(self.padding, str) else before]
        return tuple(pairs)

    def count_flops(self, inputs: tuple[wg.Tensor, ...], output: Any) -> int:
        """A multiplication and an addition for each weight of a channel and each element of the output."""
        return 2 * output.size * (self.in_channels // self.groups) * math.prod(self.kernel_size)


class Conv1d(_Conv):
    """Convolution over the last axis; the weight is (out_channels, in_channels / groups, kernel).

    >>> import wengert as wg
    >>> wg.nn.Conv1d(3, 8, 3, padding=1)(wg.zeros((2, 3, 16))).shape
    (2, 8, 16)
    """

    axes = 1
    _convolve = staticmethod(wg.conv1d)


class Conv2d(_Conv):
    """Convolution over the last two axes; the weight is (out_channels, in_channels / groups, height, width).

    >>> import wengert as wg
    >>> wg.nn.Conv2d(3, 8, 3, padding=1)(wg.zeros((2, 3, 16, 16))).shape
    (2, 8, 16, 16)
    """

    axes = 2
    _convolve = staticmethod(wg.conv2d)


class Conv3d(_Conv):
    """Convolution over the last three axes; the weight is (out_channels, in_channels / groups, *kernel).

    >>> import wengert as wg
    >>> wg.nn.Conv3d(3, 8, 3, padding=1)(wg.zeros((2, 3, 4, 4, 4))).shape
    (2, 8, 4, 4, 4)
    """

    axes = 3
    _convolve = staticmethod(wg.conv3d)


class _ConvTranspose(_ConvBase):
    transposed = True
    _convolve: Callable[..., wg.Tensor]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if padding_mode != "zeros":
            raise wg.errors.ArgumentError(f'{type(self).__name__}: padding_mode is "zeros" here, not {padding_mode!r}')
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )
        self.output_padding = per_axis(output_padding, self.axes)

    def forward(self, input: wg.Tensor, output_size: Any = None) -> wg.Tensor:
        """(N, in_channels, ...) to (N, out_channels, ...), of the spatial sizes `output_size` if given."""
        extra = self.output_padding if output_size is None else self._extra_for(input, output_size)
        return type(self)._convolve(
            input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation
        )

    def _extra_for(self, input: wg.Tensor, output_size: Any) -> tuple[int, ...]:
        """The output padding that gives these sizes: several input sizes of a strided convolution have one output."""
        wanted = per_axis(output_size, self.axes)[-self.axes :]
        least = [
            (n - 1) * s - 2 * p + d * (k - 1) + 1
            for n, s, p, d, k in zip(
                input.shape[-self.axes :], self.stride, self.padding, self.dilation, self.kernel_size
            )
        ]
        for size, low, s in zip(wanted, least, self.stride):
            if not low <= size < low + s:
                top = tuple(low + s - 1 for low, s in zip(least, self.stride))
                raise wg.errors.ShapeError(
                    f"{type(self).__name__}: an input of shape {input.shape} can give {tuple(least)} to {top}, "
                    f"not {tuple(wanted)}"
                )
        return tuple(size - low for size, low in zip(wanted, least))

    def count_flops(self, inputs: tuple[wg.Tensor, ...], output: Any) -> int:
        """A multiplication and an addition for each weight of a channel and each element of the input."""
        return 2 * inputs[0].size * (self.out_channels // self.groups) * math.prod(self.kernel_size)


class ConvTranspose1d(_ConvTranspose):
    """The transpose of Conv1d, spreading where that gathers; the weight is (in_channels, out_channels / groups, K).

    >>> import wengert as wg
    >>> wg.nn.ConvTranspose1d(3, 8, 2, stride=2)(wg.zeros((2, 3, 16))).shape
    (2, 8, 32)
    """

    axes = 1
    _convolve = staticmethod(wg.conv_transpose1d)


class ConvTranspose2d(_ConvTranspose):
    """The transpose of Conv2d; the weight is (in_channels, out_channels / groups, height, width).

    >>> import wengert as wg
    >>> wg.nn.ConvTranspose2d(3, 8, 2, stride=2)(wg.zeros((2, 3, 8, 8))).shape
    (2, 8, 16, 16)
    """

    axes = 2
    _convolve = staticmethod(wg.conv_transpose2d)


class ConvTranspose3d(_ConvTranspose):
    """The transpose of Conv3d; the weight is (in_channels, out_channels / groups, depth, height, width).

    >>> import wengert as wg
    >>> wg.nn.ConvTranspose3d(3, 8, 2, stride=2)(wg.zeros((2, 3, 2, 2, 2))).shape
    (2, 8, 4, 4, 4)
    """

    axes = 3
    _convolve = staticmethod(wg.conv_transpose3d)
