"""Lazy layers: their first input says how many features or channels they take.

Until then such a layer has no parameters. Its first call makes them, on the input's device, and from then on it is the
layer of that name without "Lazy".
"""

from __future__ import annotations

from typing import Any

import wengert as wg
from wengert.nn.conv import Conv1d, Conv2d, Conv3d, ConvTranspose1d, ConvTranspose2d, ConvTranspose3d
from wengert.nn.linear import Linear
from wengert.nn.module import Module
from wengert.nn.normalization import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    InstanceNorm1d,
    InstanceNorm2d,
    InstanceNorm3d,
)


class LazyModule(Module):
    """A layer that is made by its first input; see the module's head. A subclass says which, and how to count."""

    cls_to_become: Any

    def __init__(self, *options: Any, **named: Any) -> None:
        super().__init__()
        self._options = options
        self._named = named

    def _size(self, input: wg.Tensor) -> int:
        """The number of features or channels of an input."""
        raise wg.errors.ArgumentError(f"{type(self).__name__} does not say which axis of its input it takes")

    def has_uninitialized_params(self) -> bool:
        """Whether the parameters are still to be made."""
        return True

    def initialize_parameters(self, input: wg.Tensor) -> None:
        """Make the parameters that an input like this asks for, and become the layer that has them."""
        name = type(self).__name__
        if wg.graph.recording.trace is not None:
            raise wg.errors.ArgumentError(
                f"{name} has no parameters yet, and they cannot be made while a function is recorded: call the model "
                "once outside, with any input of the right shape"
            )
        named = dict(self._named)
        if named.get("device") is None:
            named["device"] = input.device
        made = self.cls_to_become(self._size(input), *self._options, **named)
        kept = {key: value for key, value in self.__dict__.items() if key not in ("_options", "_named")}
        self.__dict__.clear()
        self.__dict__.update({**made.__dict__, **kept})
        object.__setattr__(self, "__class__", self.cls_to_become)
        wg.config.changed()

    def forward(self, input: wg.Tensor, *args: Any, **kwargs: Any) -> Any:
        """What the layer gives that this call makes of it."""
        self.initialize_parameters(input)
        return self.forward(input, *args, **kwargs)

    def extra_repr(self) -> str:
        """What is known: all but the input's size."""
        named = [f"{key}={value!r}" for key, value in self._named.items()]
        return ", ".join([*map(repr, self._options), *named])


class LazyLinear(LazyModule):
    """A `Linear` whose `in_features` are those of its first input.

    >>> import wengert as wg
    >>> layer = wg.nn.LazyLinear(2)
    >>> layer(wg.zeros((4, 3))).shape, layer
    ((4, 2), Linear(in_features=3, out_features=2, bias=True))
    """

    cls_to_become = Linear

    def __init__(self, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None) -> None:
        super().__init__(out_features, bias=bias, device=device, dtype=dtype)

    def _size(self, input: wg.Tensor) -> int:
        if not input.ndim:
            raise wg.errors.ShapeError("LazyLinear: the input has features along its last axis; it is a single number")
        return input.shape[-1]


def _channels(name: str, input: wg.Tensor, axes: int) -> int:
    """The number of channels of (N, C, *spatial) or (C, *spatial)."""
    if input.ndim not in (axes + 1, axes + 2):
        raise wg.errors.ShapeError(f"{name} takes {axes + 1} or {axes + 2} axes; the input's shape is {input.shape}")
    return input.shape[input.ndim - axes - 1]


class _LazyConv(LazyModule):
    axes: int

    def __init__(
        self,
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
        options = {"dilation": dilation, "groups": groups, "bias": bias, "padding_mode": padding_mode}
        super().__init__(out_channels, kernel_size, stride, padding, **options, device=device, dtype=dtype)

    def _size(self, input: wg.Tensor) -> int:
        return _channels(type(self).__name__, input, self.axes)


class LazyConv1d(_LazyConv):
    """A `Conv1d` whose `in_channels` are those of its first input.

    >>> import wengert as wg
    >>> wg.nn.LazyConv1d(8, 3)(wg.ones((2, 3, 8))).shape
    (2, 8, 6)
    """

    cls_to_become, axes = Conv1d, 1


class LazyConv2d(_LazyConv):
    """A `Conv2d` whose `in_channels` are those of its first input.

    >>> import wengert as wg
    >>> wg.nn.LazyConv2d(8, 3)(wg.ones((2, 3, 8, 8))).shape
    (2, 8, 6, 6)
    """

    cls_to_become, axes = Conv2d, 2


class LazyConv3d(_LazyConv):
    """A `Conv3d` whose `in_channels` are those of its first input.

    >>> import wengert as wg
    >>> wg.nn.LazyConv3d(8, 3)(wg.ones((2, 3, 4, 4, 4))).shape
    (2, 8, 2, 2, 2)
    """

    cls_to_become, axes = Conv3d, 3


class _LazyConvTranspose(LazyModule):
    axes: int

    def __init__(
        self,
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
        options = {"groups": groups, "bias": bias, "dilation": dilation, "padding_mode": padding_mode}
        super().__init__(
            out_channels, kernel_size, stride, padding, output_padding, **options, device=device, dtype=dtype
        )

    def _size(self, input: wg.Tensor) -> int:
        return _channels(type(self).__name__, input, self.axes)


class LazyConvTranspose1d(_LazyConvTranspose):
    """A `ConvTranspose1d` whose `in_channels` are those of its first input.

    >>> import wengert as wg
    >>> wg.nn.LazyConvTranspose1d(8, 2, stride=2)(wg.ones((2, 3, 8))).shape
    (2, 8, 16)
    """

    cls_to_become, axes = ConvTranspose1d, 1


class LazyConvTranspose2d(_LazyConvTranspose):
    """A `ConvTranspose2d` whose `in_channels` are those of its first input.

    >>> import wengert as wg
    >>> wg.nn.LazyConvTranspose2d(8, 2, stride=2)(wg.ones((2, 3, 8, 8))).shape
    (2, 8, 16, 16)
    """

    cls_to_become, axes = ConvTranspose2d, 2


class LazyConvTranspose3d(_LazyConvTranspose):
    """A `ConvTranspose3d` whose `in_channels` are those of its first input.

    >>> import wengert as wg
    >>> wg.nn.LazyConvTranspose3d(8, 2, stride=2)(wg.ones((2, 3, 2, 2, 2))).shape
    (2, 8, 4, 4, 4)
    """

    cls_to_become, axes = ConvTranspose3d, 3


class _LazyBatchNorm(LazyModule):
    ranks: tuple[int, ...]

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(eps, momentum, affine, track_running_stats, device=device, dtype=dtype, bias=bias)

    def _size(self, input: wg.Tensor) -> int:
        if input.ndim not in self.ranks:
            axes = " or ".join(str(rank) for rank in self.ranks)
            raise wg.errors.ShapeError(f"{type(self).__name__} takes {axes} axes; the input's shape is {input.shape}")
        return input.shape[1]


class LazyBatchNorm1d(_LazyBatchNorm):
    """A `BatchNorm1d` whose `num_features` are those of its first input.

    >>> import wengert as wg
    >>> wg.nn.LazyBatchNorm1d()(wg.ones((2, 3))).shape
    (2, 3)
    """

    cls_to_become, ranks = BatchNorm1d, (2, 3)


class LazyBatchNorm2d(_LazyBatchNorm):
    """A `BatchNorm2d` whose `num_features` are those of its first input.

    >>> import wengert as wg
    >>> wg.nn.LazyBatchNorm2d()(wg.ones((2, 3, 4, 4))).shape
    (2, 3, 4, 4)
    """

    cls_to_become, ranks = BatchNorm2d, (4,)


class LazyBatchNorm3d(_LazyBatchNorm):
    """A `BatchNorm3d` whose `num_features` are those of its first input.

    >>> import wengert as wg
    >>> wg.nn.LazyBatchNorm3d()(wg.ones((2, 3, 2, 4, 4))).shape
    (2, 3, 2, 4, 4)
    """

    cls_to_become, ranks = BatchNorm3d, (5,)


class _LazyInstanceNorm(LazyModule):
    axes: int

    def __init__(
        self,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(eps, momentum, affine, track_running_stats, device=device, dtype=dtype, bias=bias)

    def _size(self, input: wg.Tensor) -> int:
        return _channels(type(self).__name__, input, self.axes)


class LazyInstanceNorm1d(_LazyInstanceNorm):
    """An `InstanceNorm1d` whose `num_features` are those of its first input; affine by default, as in PyTorch.

    >>> import wengert as wg
    >>> wg.nn.LazyInstanceNorm1d()(wg.ones((2, 3, 4))).shape
    (2, 3, 4)
    """

    cls_to_become, axes = InstanceNorm1d, 1


class LazyInstanceNorm2d(_LazyInstanceNorm):
    """An `InstanceNorm2d` whose `num_features` are those of its first input.

    >>> import wengert as wg
    >>> wg.nn.LazyInstanceNorm2d()(wg.ones((2, 3, 4, 4))).shape
    (2, 3, 4, 4)
    """

    cls_to_become, axes = InstanceNorm2d, 2


class LazyInstanceNorm3d(_LazyInstanceNorm):
    """An `InstanceNorm3d` whose `num_features` are those of its first input.

    >>> import wengert as wg
    >>> wg.nn.LazyInstanceNorm3d()(wg.ones((2, 3, 2, 4, 4))).shape
    (2, 3, 2, 4, 4)
    """

    cls_to_become, axes = InstanceNorm3d, 3
