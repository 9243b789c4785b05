"""ResNet (He et al., "Deep residual learning for image recognition", 2015), with torchvision's parameter names.

A stem, four stages of residual blocks with 64, 128, 256 and 512 channels, the mean over the image, a linear layer. The
stem for ImageNet shrinks an image fourfold; the one for CIFAR's small images keeps its size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import wengert as wg
from wengert import nn


def _conv(inputs: int, outputs: int, size: int, stride: int, dtype: Any) -> nn.Conv2d:
    """A convolution that keeps the size of an image, but for its stride. The batch norm after it has the bias."""
    return nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, bias=False, dtype=dtype)


class BasicBlock(nn.Module):
    """Two 3x3 convolutions beside a shortcut; the block of ResNet-18 and 34."""

    expansion = 1

    def __init__(self, inputs: int, planes: int, stride: int = 1, dtype: Any = None) -> None:
        super().__init__()
        self.conv1 = _conv(inputs, planes, 3, stride, dtype)
        self.bn1 = nn.BatchNorm2d(planes, dtype=dtype)
        self.conv2 = _conv(planes, planes, 3, 1, dtype)
        self.bn2 = nn.BatchNorm2d(planes, dtype=dtype)
        self.downsample = _shortcut(inputs, planes, stride, dtype)

    def forward(self, x: wg.Tensor) -> wg.Tensor:
        """`x` through the block."""
        y = wg.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return wg.relu(y + (x if self.downsample is None else self.downsample(x)))


class Bottleneck(nn.Module):
    """1x1, 3x3 and 1x1 convolutions beside a shortcut; the block of ResNet-50. The 3x3 has the stride ("v1.5")."""

    expansion = 4

    def __init__(self, inputs: int, planes: int, stride: int = 1, dtype: Any = None) -> None:
        super().__init__()
        outputs = planes * self.expansion
        self.conv1 = _conv(inputs, planes, 1, 1, dtype)
        self.bn1 = nn.BatchNorm2d(planes, dtype=dtype)
        self.conv2 = _conv(planes, planes, 3, stride, dtype)
        self.bn2 = nn.BatchNorm2d(planes, dtype=dtype)
        self.conv3 = _conv(planes, outputs, 1, 1, dtype)
        self.bn3 = nn.BatchNorm2d(outputs, dtype=dtype)
        self.downsample = _shortcut(inputs, outputs, stride, dtype)

    def forward(self, x: wg.Tensor) -> wg.Tensor:
        """`x` through the block."""
        y = wg.relu(self.bn1(self.conv1(x)))
        y = wg.relu(self.bn2(self.conv2(y)))
        y = self.bn3(self.conv3(y))
        return wg.relu(y + (x if self.downsample is None else self.downsample(x)))


def _shortcut(inputs: int, outputs: int, stride: int, dtype: Any) -> nn.Sequential | None:
    """What gives the input the shape of a block's output; None where it has it."""
    if stride == 1 and inputs == outputs:
        return None
    return nn.Sequential(_conv(inputs, outputs, 1, stride, dtype), nn.BatchNorm2d(outputs, dtype=dtype))


class ResNet(nn.Module):
    """A ResNet of `depths` blocks in its four stages; `resnet18`, `resnet34` and `resnet50` make the usual ones.

    `stem` is "imagenet" (a 7x7 convolution of stride 2 and a max pool) or "cifar" (a 3x3 convolution).

    >>> import wengert as wg
    >>> sum(p.size for p in wg.models.resnet18().parameters())
    11689512
    """

    def __init__(
        self,
        block: type[BasicBlock | Bottleneck],
        depths: Sequence[int],
        num_classes: int = 1000,
        *,
        stem: str = "imagenet",
        in_channels: int = 3,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if stem not in ("imagenet", "cifar"):
            raise wg.errors.ArgumentError(f'ResNet: the stem is "imagenet" or "cifar", not {stem!r}')
        self.stem = stem
        size, stride = (7, 2) if stem == "imagenet" else (3, 1)
        self.conv1 = _conv(in_channels, 64, size, stride, dtype)
        self.bn1 = nn.BatchNorm2d(64, dtype=dtype)
        widths = [planes * block.expansion for planes in (64, 128, 256, 512)]
        self.layer1 = _stage(block, depths[0], 64, 64, 1, dtype)
        self.layer2 = _stage(block, depths[1], widths[0], 128, 2, dtype)
        self.layer3 = _stage(block, depths[2], widths[1], 256, 2, dtype)
        self.layer4 = _stage(block, depths[3], widths[2], 512, 2, dtype)
        self.fc = nn.Linear(widths[3], num_classes, dtype=dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw all parameters anew: convolutions normal with the variance that relu keeps backwards (torchvision's)."""
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(layer, (nn.BatchNorm2d, nn.Linear)):
                layer.reset_parameters()

    def forward(self, x: wg.Tensor) -> wg.Tensor:
        """Images (N, in_channels, height, width) to a score for each class; softmax of them gives probabilities."""
        x = wg.relu(self.bn1(self.conv1(x)))
        if self.stem == "imagenet":
            x = wg.max_pool2d(x, 3, 2, 1)
        for stage in (self.layer1, self.layer2, self.layer3, self.layer4):
            x = stage(x)
        return self.fc(wg.mean(x, axis=(2, 3)))

    def extra_repr(self) -> str:
        """The stem."""
        return f"stem={self.stem!r}"


def _stage(
    block: type[BasicBlock | Bottleneck], depth: int, inputs: int, planes: int, stride: int, dtype: Any
) -> nn.Sequential:
    """Blocks one after the other, the first of which has the stride."""
    rest = [block(planes * block.expansion, planes, dtype=dtype) for _ in range(depth - 1)]
    return nn.Sequential(block(inputs, planes, stride, dtype), *rest)


def resnet18(num_classes: int = 1000, *, stem: str = "imagenet", in_channels: int = 3, dtype: Any = None) -> ResNet:
    """ResNet-18: 11.7 million parameters for ImageNet's 1000 classes.

    >>> import wengert as wg
    >>> model = wg.models.resnet18(num_classes=10, stem="cifar").eval()
    >>> model(wg.zeros((1, 3, 8, 8))).shape
    (1, 10)
    """
    return ResNet(BasicBlock, (2, 2, 2, 2), num_classes, stem=stem, in_channels=in_channels, dtype=dtype)


def resnet34(num_classes: int = 1000, *, stem: str = "imagenet", in_channels: int = 3, dtype: Any = None) -> ResNet:
    """ResNet-34: 21.8 million parameters for ImageNet's 1000 classes.

    >>> import wengert as wg
    >>> sum(p.size for p in wg.models.resnet34().parameters())
    21797672
    """
    return ResNet(BasicBlock, (3, 4, 6, 3), num_classes, stem=stem, in_channels=in_channels, dtype=dtype)


def resnet50(num_classes: int = 1000, *, stem: str = "imagenet", in_channels: int = 3, dtype: Any = None) -> ResNet:
    """ResNet-50: 25.6 million parameters for ImageNet's 1000 classes.

    >>> import wengert as wg
    >>> sum(p.size for p in wg.models.resnet50().parameters())
    25557032
    """
    return ResNet(Bottleneck, (3, 4, 6, 3), num_classes, stem=stem, in_channels=in_channels, dtype=dtype)
