"""`torchvision.models`: ResNet, VGG and AlexNet, with torchvision's parts and names.

`weights` (or `pretrained=True`) reads the published file where torchvision keeps what it downloaded; nothing is
downloaded here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import wengert.torch.nn as nn
from wengert.torch import hub
from wengert.torch.missing import missing_attribute as _missing_attribute

_FILES = {
    "alexnet": "alexnet-owt-7be5be79.pth",
    "resnet18": "resnet18-f37072fd.pth",
    "resnet34": "resnet34-b627a593.pth",
    "resnet50": "resnet50-11ad3fa6.pth",
    "resnet101": "resnet101-cd907fc2.pth",
    "resnet152": "resnet152-f82ba261.pth",
    "vgg11": "vgg11-8a719046.pth",
    "vgg13": "vgg13-19584684.pth",
    "vgg16": "vgg16-397923af.pth",
    "vgg19": "vgg19-dcbb9e9d.pth",
    "vgg11_bn": "vgg11_bn-6002323d.pth",
    "vgg13_bn": "vgg13_bn-abd245e5.pth",
    "vgg16_bn": "vgg16_bn-6c64b313.pth",
    "vgg19_bn": "vgg19_bn-c79401a0.pth",
}


def _with_weights(name: str, model: Any, weights: Any, pretrained: bool) -> Any:
    if weights is not None or pretrained:
        model.load_state_dict(hub.load_state_dict_from_url(f"https://download.pytorch.org/models/{_FILES[name]}"))
    return model


class Weights:
    """The published weights of a model."""

    IMAGENET1K_V1 = "IMAGENET1K_V1"
    DEFAULT = "DEFAULT"


ResNet18_Weights = ResNet34_Weights = ResNet50_Weights = ResNet101_Weights = ResNet152_Weights = Weights
VGG11_Weights = VGG13_Weights = VGG16_Weights = VGG19_Weights = AlexNet_Weights = Weights

# --- ResNet ---------------------------------------------------------------------------------------------------------


def conv3x3(in_planes: int, out_planes: int, stride: int = 1, groups: int = 1, dilation: int = 1) -> Any:
    """A 3 x 3 convolution that keeps the size of an image, but for its stride."""
    return nn.Conv2d(
        in_planes, out_planes, 3, stride=stride, padding=dilation, groups=groups, bias=False, dilation=dilation
    )


def conv1x1(in_planes: int, out_planes: int, stride: int = 1) -> Any:
    """A 1 x 1 convolution."""
    return nn.Conv2d(in_planes, out_planes, 1, stride=stride, bias=False)


class BasicBlock(nn.Module):
    """Two 3 x 3 convolutions beside a shortcut."""

    expansion = 1

    def __init__(
        self,
        inplanes: int,
        planes: int,
        stride: int = 1,
        downsample: Any = None,
        groups: int = 1,
        base_width: int = 64,
        dilation: int = 1,
        norm_layer: Any = None,
    ) -> None:
        super().__init__()
        norm = nn.BatchNorm2d if norm_layer is None else norm_layer
        self.conv1 = conv3x3(inplanes, planes, stride)
        self.bn1 = norm(planes)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = conv3x3(planes, planes)
        self.bn2 = norm(planes)
        self.downsample = downsample
        self.stride = stride

    def forward(self, x: Any) -> Any:
        """`x` through the block."""
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        return self.relu(out + (x if self.downsample is None else self.downsample(x)))


class Bottleneck(nn.Module):
    """1 x 1, 3 x 3 and 1 x 1 convolutions beside a shortcut."""

    expansion = 4

    def __init__(
        self,
        inplanes: int,
        planes: int,
        stride: int = 1,
        downsample: Any = None,
        groups: int = 1,
        base_width: int = 64,
        dilation: int = 1,
        norm_layer: Any = None,
    ) -> None:
        super().__init__()
        norm = nn.BatchNorm2d if norm_layer is None else norm_layer
        width = int(planes * (base_width / 64.0)) * groups
        self.conv1 = conv1x1(inplanes, width)
        self.bn1 = norm(width)
        self.conv2 = conv3x3(width, width, stride, groups, dilation)
        self.bn2 = norm(width)
        self.conv3 = conv1x1(width, planes * self.expansion)
        self.bn3 = norm(planes * self.expansion)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = downsample
        self.stride = stride

    def forward(self, x: Any) -> Any:
        """`x` through the block."""
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        return self.relu(out + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    """Four stages of residual blocks."""

    def __init__(
        self,
        block: Any,
        layers: Sequence[int],
        num_classes: int = 1000,
        zero_init_residual: bool = False,
        groups: int = 1,
        width_per_group: int = 64,
        replace_stride_with_dilation: Any = None,
        norm_layer: Any = None,
    ) -> None:
        super().__init__()
        self._norm_layer = nn.BatchNorm2d if norm_layer is None else norm_layer
        self.inplanes, self.dilation, self.groups, self.base_width = 64, 1, groups, width_per_group
        dilates = replace_stride_with_dilation or (False, False, False)
        self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.bn1 = self._norm_layer(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(kernel_size=3, stride=2, padding=1)
        self.layer1 = self._make_layer(block, 64, layers[0])
        self.layer2 = self._make_layer(block, 128, layers[1], 2, dilates[0])
        self.layer3 = self._make_layer(block, 256, layers[2], 2, dilates[1])
        self.layer4 = self._make_layer(block, 512, layers[3], 2, dilates[2])
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(512 * block.expansion, num_classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
        if zero_init_residual:
            for module in self.modules():
                if isinstance(module, Bottleneck):
                    nn.init.zeros_(module.bn3.weight)
                elif isinstance(module, BasicBlock):
                    nn.init.zeros_(module.bn2.weight)

    def _make_layer(self, block: Any, planes: int, blocks: int, stride: int = 1, dilate: bool = False) -> Any:
        before = self.dilation
        if dilate:
            self.dilation *= stride
            stride = 1
        downsample = None
        if stride != 1 or self.inplanes != planes * block.expansion:
            outputs = planes * block.expansion
            downsample = nn.Sequential(conv1x1(self.inplanes, outputs, stride), self._norm_layer(outputs))
        common = (self.groups, self.base_width)
        made = [block(self.inplanes, planes, stride, downsample, *common, before, self._norm_layer)]
        self.inplanes = planes * block.expansion
        for _ in range(1, blocks):
            made.append(block(self.inplanes, planes, 1, None, *common, self.dilation, self._norm_layer))
        return nn.Sequential(*made)

    def forward(self, x: Any) -> Any:
        """Images to scores of the classes."""
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(self.avgpool(x).flatten(1))


def _resnet(name: str, block: Any, layers: Sequence[int]) -> Callable[..., ResNet]:
    def make(*, weights: Any = None, progress: bool = True, pretrained: bool = False, **kwargs: Any) -> ResNet:
        return _with_weights(name, ResNet(block, layers, **kwargs), weights, pretrained)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"ResNet-{name[6:]}."
    return make


resnet18, resnet34 = _resnet("resnet18", BasicBlock, (2, 2, 2, 2)), _resnet("resnet34", BasicBlock, (3, 4, 6, 3))
resnet50 = _resnet("resnet50", Bottleneck, (3, 4, 6, 3))
resnet101, resnet152 = _resnet("resnet101", Bottleneck, (3, 4, 23, 3)), _resnet("resnet152", Bottleneck, (3, 8, 36, 3))

# --- VGG ------------------------------------------------------------------------------------------------------------

_VGG: dict[str, list[Any]] = {
    "vgg11": [64, "M", 128, "M", 256, 256, "M", 512, 512, "M", 512, 512, "M"],
    "vgg13": [64, 64, "M", 128, 128, "M", 256, 256, "M", 512, 512, "M", 512, 512, "M"],
    "vgg16": [64, 64, "M", 128, 128, "M", *[256] * 3, "M", *[512] * 3, "M", *[512] * 3, "M"],
    "vgg19": [64, 64, "M", 128, 128, "M", *[256] * 4, "M", *[512] * 4, "M", *[512] * 4, "M"],
}


class VGG(nn.Module):
    """Convolutions and max pools, then three linear layers."""

    def __init__(self, features: Any, num_classes: int = 1000, init_weights: bool = True, dropout: float = 0.5) -> None:
        super().__init__()
        self.features = features
        self.avgpool = nn.AdaptiveAvgPool2d((7, 7))
        self.classifier = nn.Sequential(
            nn.Linear(512 * 7 * 7, 4096),
            nn.ReLU(True),
            nn.Dropout(p=dropout),
            nn.Linear(4096, 4096),
            nn.ReLU(True),
            nn.Dropout(p=dropout),
            nn.Linear(4096, num_classes),
        )
        for module in self.modules() if init_weights else ():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
                nn.init.zeros_(module.bias)
            elif isinstance(module, nn.Linear):
                nn.init.normal_(module.weight, 0, 0.01)
                nn.init.zeros_(module.bias)

    def forward(self, x: Any) -> Any:
        """Images to scores of the classes."""
        return self.classifier(self.avgpool(self.features(x)).flatten(1))


def _features(sizes: Sequence[Any], batch_norm: bool) -> Any:
    layers: list[Any] = []
    channels = 3
    for size in sizes:
        if size == "M":
            layers.append(nn.MaxPool2d(kernel_size=2, stride=2))
            continue
        layers.append(nn.Conv2d(channels, size, 3, padding=1))
        layers += [nn.BatchNorm2d(size)] if batch_norm else []
        layers.append(nn.ReLU(inplace=True))
        channels = size
    return nn.Sequential(*layers)


def _vgg(name: str) -> Callable[..., VGG]:
    def make(*, weights: Any = None, progress: bool = True, pretrained: bool = False, **kwargs: Any) -> VGG:
        loads = weights is not None or pretrained
        features = _features(_VGG[name.partition("_")[0]], name.endswith("_bn"))
        return _with_weights(name, VGG(features, **{"init_weights": not loads} | kwargs), weights, pretrained)

    make.__name__ = make.__qualname__ = name
    make.__doc__ = f"VGG-{name[3:5]}{' with batch norm' if name.endswith('_bn') else ''}."
    return make


vgg11, vgg13, vgg16, vgg19 = map(_vgg, ("vgg11", "vgg13", "vgg16", "vgg19"))
vgg11_bn, vgg13_bn, vgg16_bn, vgg19_bn = map(_vgg, ("vgg11_bn", "vgg13_bn", "vgg16_bn", "vgg19_bn"))

# --- AlexNet --------------------------------------------------------------------------------------------------------


class AlexNet(nn.Module):
    """Five convolutions and three linear layers."""

    def __init__(self, num_classes: int = 1000, dropout: float = 0.5) -> None:
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 64, kernel_size=11, stride=4, padding=2),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(kernel_size=3, stride=2),
            nn.Conv2d(64, 192, kernel_size=5, padding=2),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(kernel_size=3, stride=2),
            nn.Conv2d(192, 384, kernel_size=3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(384, 256, kernel_size=3, padding=1),
            nn.ReLU(inplace=True),
            nn.Conv2d(256, 256, kernel_size=3, padding=1),
            nn.ReLU(inplace=True),
            nn.MaxPool2d(kernel_size=3, stride=2),
        )
        self.avgpool = nn.AdaptiveAvgPool2d((6, 6))
        self.classifier = nn.Sequential(
            nn.Dropout(p=dropout),
            nn.Linear(256 * 6 * 6, 4096),
            nn.ReLU(inplace=True),
            nn.Dropout(p=dropout),
            nn.Linear(4096, 4096),
            nn.ReLU(inplace=True),
            nn.Linear(4096, num_classes),
        )

    def forward(self, x: Any) -> Any:
        """Images to scores of the classes."""
        return self.classifier(self.avgpool(self.features(x)).flatten(1))


def alexnet(*, weights: Any = None, progress: bool = True, pretrained: bool = False, **kwargs: Any) -> AlexNet:
    """AlexNet."""
    return _with_weights("alexnet", AlexNet(**kwargs), weights, pretrained)


def __getattr__(name: str) -> Any:
    return _missing_attribute("torchvision.models", name)
