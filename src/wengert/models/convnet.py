"""ConvNet: a small convolutional network after LeNet, for images such as MNIST's."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import wengert as wg
from wengert import nn


class ConvNet(nn.Module):
    """Blocks of a 3x3 convolution, relu and a halving max pool, then two linear layers (LeCun et al., 1998).

    The parameters are `blocks.0.conv.weight`, ..., `hidden.weight`, `output.weight` and the biases.

    >>> import wengert as wg
    >>> model = wg.models.ConvNet()
    >>> model(wg.zeros((2, 1, 28, 28))).shape, [block.conv.out_channels for block in model.blocks]
    ((2, 10), [32, 64, 128])
    """

    def __init__(
        self,
        num_classes: int = 10,
        *,
        channels: Sequence[int] = (32, 64, 128),
        in_channels: int = 1,
        image_size: int = 28,
        hidden: int = 128,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        side = image_size >> len(channels)
        if not channels or not side:
            raise wg.errors.ArgumentError(
                f"ConvNet: the number of blocks must be at least 1 and leave at least one of {image_size} pixels, not "
                f"{len(channels)}"
            )
        sizes = [in_channels, *channels]
        self.blocks = nn.Sequential(*[ConvBlock(a, b, dtype) for a, b in pairwise(sizes)])
        self.hidden = nn.Linear(channels[-1] * side * side, hidden, dtype=dtype)
        self.output = nn.Linear(hidden, num_classes, dtype=dtype)

    def forward(self, x: wg.Tensor) -> wg.Tensor:
        """Map images (N, in_channels, image_size, image_size) to a score for each class."""
        features = wg.flatten(self.blocks(x), 1)
        return self.output(wg.relu(self.hidden(features)))


class ConvBlock(nn.Module):
    """A 3x3 convolution, relu, and the maximum of each 2x2 pixels."""

    def __init__(self, in_channels: int, out_channels: int, dtype: Any = None) -> None:
        super().__init__()
        self.conv = nn.Conv2d(in_channels, out_channels, 3, padding=1, dtype=dtype)

    def forward(self, x: wg.Tensor) -> wg.Tensor:
        """Half as high and wide."""
        return wg.max_pool2d(wg.relu(self.conv(x)), 2)
