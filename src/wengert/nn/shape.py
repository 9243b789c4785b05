"""Padding, and layers that change the size of images or lay their elements out anew."""

from __future__ import annotations

from typing import Any

import wengert as wg
from wengert.nn.module import Module


class _Pad(Module):
    axes: int
    mode: str

    def __init__(self, padding: Any) -> None:
        super().__init__()
        self.padding = (padding,) * (2 * self.axes) if isinstance(padding, int) else tuple(padding)

    def forward(self, input: wg.Tensor) -> wg.Tensor:
        """The input with elements put around it."""
        return wg.pad(input, self.padding, mode=self.mode)

    def extra_repr(self) -> str:
        """The numbers before and after, from the last axis to the first."""
        return str(self.padding)


class _ConstantPad(_Pad):
    mode = "constant"

    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: wg.Tensor) -> wg.Tensor:
        """The input with a number put around it."""
        return wg.pad(input, self.padding, mode=self.mode, value=self.value)

    def extra_repr(self) -> str:
        """The numbers before and after, from the last axis to the first, and the value."""
        return f"padding={self.padding}, value={self.value}"


class ConstantPad1d(_ConstantPad):
    """A number around the last axis.

    >>> import wengert as wg
    >>> wg.nn.ConstantPad1d(1, 9.0)(wg.tensor([[[1.0, 2.0]]])).tolist()
    [[[9.0, 1.0, 2.0, 9.0]]]
    """

    axes = 1


class ConstantPad2d(_ConstantPad):
    """A number around the last two axes: `padding` is (left, right, top, bottom), or one number for all.

    >>> import wengert as wg
    >>> wg.nn.ConstantPad2d(1, 9.0)(wg.ones((1, 1, 2, 2))).shape
    (1, 1, 4, 4)
    """

    axes = 2


class ConstantPad3d(_ConstantPad):
    """A number around the last three axes.

    >>> import wengert as wg
    >>> wg.nn.ConstantPad3d(1, 9.0)(wg.ones((1, 1, 2, 2, 2))).shape
    (1, 1, 4, 4, 4)
    """

    axes = 3


class ZeroPad1d(_Pad):
    """Zeros around the last axis.

    >>> import wengert as wg
    >>> wg.nn.ZeroPad1d(1)(wg.tensor([[[1.0, 2.0]]])).tolist()
    [[[0.0, 1.0, 2.0, 0.0]]]
    """

    axes, mode = 1, "constant"


class ZeroPad2d(_Pad):
    """Zeros around the last two axes: `padding` is (left, right, top, bottom), or one number for all.

    >>> import wengert as wg
    >>> wg.nn.ZeroPad2d((1, 0, 0, 0))(wg.ones((1, 1, 2))).tolist()
    [[[0.0, 1.0, 1.0]]]
    """

    axes, mode = 2, "constant"


class ZeroPad3d(_Pad):
    """Zeros around the last three axes.

    >>> import wengert as wg
    >>> wg.nn.ZeroPad3d(1)(wg.ones((1, 1, 2, 2, 2))).shape
    (1, 1, 4, 4, 4)
    """

    axes, mode = 3, "constant"


class ReflectionPad1d(_Pad):
    """The last axis mirrored at its ends.

    >>> import wengert as wg
    >>> wg.nn.ReflectionPad1d(1)(wg.tensor([[[1.0, 2.0, 3.0]]])).tolist()
    [[[2.0, 1.0, 2.0, 3.0, 2.0]]]
    """

    axes, mode = 1, "reflect"


class ReflectionPad2d(_Pad):
    """The last two axes mirrored at their ends.

    >>> import wengert as wg
    >>> wg.nn.ReflectionPad2d(1)(wg.ones((1, 1, 3, 3))).shape
    (1, 1, 5, 5)
    """

    axes, mode = 2, "reflect"


class ReflectionPad3d(_Pad):
    """The last three axes mirrored at their ends.

    >>> import wengert as wg
    >>> wg.nn.ReflectionPad3d(1)(wg.ones((1, 1, 3, 3, 3))).shape
    (1, 1, 5, 5, 5)
    """

    axes, mode = 3, "reflect"


class ReplicationPad1d(_Pad):
    """The last axis with its end elements repeated.

    >>> import wengert as wg
    >>> wg.nn.ReplicationPad1d(1)(wg.tensor([[[1.0, 2.0, 3.0]]])).tolist()
    [[[1.0, 1.0, 2.0, 3.0, 3.0]]]
    """

    axes, mode = 1, "replicate"


class ReplicationPad2d(_Pad):
    """The last two axes with their end elements repeated.

    >>> import wengert as wg
    >>> wg.nn.ReplicationPad2d(1)(wg.ones((1, 1, 3, 3))).shape
    (1, 1, 5, 5)
    """

    axes, mode = 2, "replicate"


class ReplicationPad3d(_Pad):
    """The last three axes with their end elements repeated.

    >>> import wengert as wg
    >>> wg.nn.ReplicationPad3d(1)(wg.ones((1, 1, 3, 3, 3))).shape
    (1, 1, 5, 5, 5)
    """

    axes, mode = 3, "replicate"


class CircularPad1d(_Pad):
    """The last axis continued from its other end.

    >>> import wengert as wg
    >>> wg.nn.CircularPad1d(1)(wg.tensor([[[1.0, 2.0, 3.0]]])).tolist()
    [[[3.0, 1.0, 2.0, 3.0, 1.0]]]
    """

    axes, mode = 1, "circular"


class CircularPad2d(_Pad):
    """The last two axes continued from their other ends.

    >>> import wengert as wg
    >>> wg.nn.CircularPad2d(1)(wg.ones((1, 1, 2, 2))).shape
    (1, 1, 4, 4)
    """

    axes, mode = 2, "circular"


class CircularPad3d(_Pad):
    """The last three axes continued from their other ends.

    >>> import wengert as wg
    >>> wg.nn.CircularPad3d(1)(wg.ones((1, 1, 2, 2, 2))).shape
    (1, 1, 4, 4, 4)
    """

    axes, mode = 3, "circular"


class Upsample(Module):
    """(N, C, *spatial) resized to `size`, or by `scale_factor`; the modes are those of `wg.interpolate`.

    >>> import wengert as wg
    >>> wg.nn.Upsample(scale_factor=2)(wg.tensor([[[1.0, 2.0]]])).tolist()
    [[[1.0, 1.0, 2.0, 2.0]]]
    """

    def __init__(
        self,
        size: Any = None,
        scale_factor: Any = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.size = size
        self.scale_factor = scale_factor
        self.mode = mode
        self.align_corners = align_corners
        self.recompute_scale_factor = recompute_scale_factor

    def forward(self, input: wg.Tensor) -> wg.Tensor:
        """The resized input."""
        return wg.interpolate(
            input, self.size, self.scale_factor, self.mode, self.align_corners, self.recompute_scale_factor
        )

    def extra_repr(self) -> str:
        """The size or the factor, and the mode."""
        by = f"scale_factor={self.scale_factor}" if self.size is None else f"size={self.size}"
        return f"{by}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Images resized, each new pixel the nearest old one.

    >>> import wengert as wg
    >>> wg.nn.UpsamplingNearest2d(scale_factor=2)(wg.ones((1, 1, 2, 2))).shape
    (1, 1, 4, 4)
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, "nearest")


class UpsamplingBilinear2d(Upsample):
    """Images resized by linear interpolation, with the corners aligned.

    >>> import wengert as wg
    >>> wg.nn.UpsamplingBilinear2d(scale_factor=2)(wg.ones((1, 1, 2, 2))).shape
    (1, 1, 4, 4)
    """

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, "bilinear", align_corners=True)


class Unfold(Module):
    """The windows of images as columns: (N, C, H, W) to (N, C * KH * KW, windows).

    >>> import wengert as wg
    >>> wg.nn.Unfold(2)(wg.zeros((1, 3, 4, 4))).shape
    (1, 12, 9)
    """

    def __init__(self, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.padding = padding
        self.stride = stride

    def forward(self, input: wg.Tensor) -> wg.Tensor:
        """The columns."""
        return wg.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        """The windows."""
        window = f"kernel_size={self.kernel_size}, dilation={self.dilation}"
        return f"{window}, padding={self.padding}, stride={self.stride}"


class Fold(Unfold):
    """The sum of overlapping windows given as columns, as images of `output_size`: the transpose of `Unfold`.

    >>> import wengert as wg
    >>> wg.nn.Fold((4, 4), 2, stride=2)(wg.ones((1, 4, 4))).shape
    (1, 1, 4, 4)
    """

    def __init__(
        self, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
    ) -> None:
        super().__init__(kernel_size, dilation, padding, stride)
        self.output_size = output_size

    def forward(self, input: wg.Tensor) -> wg.Tensor:
        """The images."""
        return wg.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        """The size and the windows."""
        return f"output_size={self.output_size}, {super().extra_repr()}"


class ChannelShuffle(Module):
    """The channels of `groups` groups dealt out in turn.

    >>> import wengert as wg
    >>> wg.nn.ChannelShuffle(2)(wg.reshape(wg.arange(4.0), (1, 4, 1, 1))).flatten().tolist()
    [0.0, 2.0, 1.0, 3.0]
    """

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: wg.Tensor) -> wg.Tensor:
        """The channels in another order."""
        return wg.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        """The number of groups."""
        return f"groups={self.groups}"


class PixelShuffle(Module):
    """Channels become pixels: (..., C * r * r, H, W) to (..., C, H * r, W * r).

    >>> import wengert as wg
    >>> wg.nn.PixelShuffle(2)(wg.ones((1, 4, 2, 2))).shape
    (1, 1, 4, 4)
    """

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: wg.Tensor) -> wg.Tensor:
        """The larger image."""
        return wg.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        """The factor."""
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """Pixels become channels: (..., C, H * r, W * r) to (..., C * r * r, H, W).

    >>> import wengert as wg
    >>> wg.nn.PixelUnshuffle(2)(wg.ones((1, 1, 4, 4))).shape
    (1, 4, 2, 2)
    """

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: wg.Tensor) -> wg.Tensor:
        """The smaller image."""
        return wg.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        """The factor."""
        return f"downscale_factor={self.downscale_factor}"
