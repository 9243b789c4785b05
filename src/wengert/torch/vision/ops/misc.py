"""Blocks of layers that models share: convolution, norm and activation; squeeze and excitation; a frozen batch norm."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import wengert.torch.nn as nn
from wengert.torch.creation import ones, zeros


class FrozenBatchNorm2d(nn.Module):
    """A BatchNorm2d whose statistics, weight and bias are buffers: nothing changes them."""

    def __init__(self, num_features: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = eps
        for name, make in (("weight", ones), ("bias", zeros), ("running_mean", zeros), ("running_var", ones)):
            self.register_buffer(name, make(num_features))

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *args: Any, **kwargs: Any) -> None:
        state_dict.pop(f"{prefix}num_batches_tracked", None)
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)

    def forward(self, x: Any) -> Any:
        """The input, scaled and shifted by channel."""
        scale = self.weight * (self.running_var + self.eps).rsqrt()
        shift = self.bias - self.running_mean * scale
        return x * scale.reshape(1, -1, 1, 1) + shift.reshape(1, -1, 1, 1)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.weight.shape[0]}, eps={self.eps})"


class _ConvNormActivation(nn.Sequential):
    """A convolution that keeps the size, a norm and an activation."""

    convolution: Any
    norm: Any

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any = 3,
        stride: Any = 1,
        padding: Any = None,
        groups: int = 1,
        norm_layer: Callable[..., Any] | None = None,
        activation_layer: Callable[..., Any] | None = nn.ReLU,
        dilation: Any = 1,
        inplace: bool | None = True,
        bias: bool | None = None,
    ) -> None:
        norm_layer = self.norm if norm_layer is None else norm_layer
        if padding is None:
            padding = _kept_size(kernel_size, dilation)
        bias = norm_layer is None if bias is None else bias
        layers = [
            self.convolution(
                in_channels, out_channels, kernel_size, stride, padding, dilation=dilation, groups=groups, bias=bias
            )
        ]
        if norm_layer is not None:
            layers.append(norm_layer(out_channels))
        if activation_layer is not None:
            layers.append(activation_layer(**({} if inplace is None else {"inplace": inplace})))
        super().__init__(*layers)
        self.out_channels = out_channels


def _kept_size(kernel_size: Any, dilation: Any) -> Any:
    """The padding with which a convolution of stride 1 keeps the size."""
    if isinstance(kernel_size, int) and isinstance(dilation, int):
        return (kernel_size - 1) // 2 * dilation
    rank = len(kernel_size) if not isinstance(kernel_size, int) else len(dilation)
    sizes = (kernel_size,) * rank if isinstance(kernel_size, int) else kernel_size
    spread = (dilation,) * rank if isinstance(dilation, int) else dilation
    return tuple((k - 1) // 2 * d for k, d in zip(sizes, spread))


class Conv2dNormActivation(_ConvNormActivation):
    """A Conv2d, a norm (BatchNorm2d) and an activation (ReLU)."""

    convolution, norm = nn.Conv2d, nn.BatchNorm2d


class Conv3dNormActivation(_ConvNormActivation):
    """A Conv3d, a norm (BatchNorm3d) and an activation (ReLU)."""

    convolution, norm = nn.Conv3d, nn.BatchNorm3d


class SqueezeExcitation(nn.Module):
    """Channels scaled by what a small network makes of their means."""

    def __init__(
        self,
        input_channels: int,
        squeeze_channels: int,
        activation: Callable[..., Any] = nn.ReLU,
        scale_activation: Callable[..., Any] = nn.Sigmoid,
    ) -> None:
        super().__init__()
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc1 = nn.Conv2d(input_channels, squeeze_channels, 1)
        self.fc2 = nn.Conv2d(squeeze_channels, input_channels, 1)
        self.activation, self.scale_activation = activation(), scale_activation()

    def forward(self, input: Any) -> Any:
        """The scaled input."""
        return self.scale_activation(self.fc2(self.activation(self.fc1(self.avgpool(input))))) * input


class MLP(nn.Sequential):
    """Linear layers with a norm, an activation and dropout between; the last without norm and activation."""

    def __init__(
        self,
        in_channels: int,
        hidden_channels: list[int],
        norm_layer: Callable[..., Any] | None = None,
        activation_layer: Callable[..., Any] | None = nn.ReLU,
        inplace: bool | None = None,
        bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        options = {} if inplace is None else {"inplace": inplace}
        layers: list[Any] = []
        sizes = [in_channels, *hidden_channels]
        for size, following in pairwise(sizes[:-1]):
            layers.append(nn.Linear(size, following, bias=bias))
            if norm_layer is not None:
                layers.append(norm_layer(following))
            if activation_layer is not None:
                layers.append(activation_layer(**options))
            layers.append(nn.Dropout(dropout, **options))
        layers += [nn.Linear(sizes[-2], sizes[-1], bias=bias), nn.Dropout(dropout, **options)]
        super().__init__(*layers)


class Permute(nn.Module):
    """The axes in another order."""

    def __init__(self, dims: list[int]) -> None:
        super().__init__()
        self.dims = dims

    def forward(self, x: Any) -> Any:
        """The permuted input."""
        return x.permute(self.dims)
