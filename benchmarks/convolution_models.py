"""Models of convolutions other than plain 2-d ones, of torch.nn or wengert.nn: both libraries run the same text."""

from __future__ import annotations

from typing import Any

MOBILENET = ((64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *((512, 1),) * 5, (1024, 2), (1024, 1))
DILATIONS = tuple(2**i for i in range(10))
CLASSES = 256  # of a sample, in mu-law


def mobilenet(nn: Any) -> Any:
    """MobileNet V1: depthwise 3 x 3 and 1 x 1 convolutions in turns, each with batch norm and ReLU6."""

    def block(ins: int, outs: int, kernel: int, stride: int = 1, groups: int = 1) -> list[Any]:
        conv = nn.Conv2d(ins, outs, kernel, stride, kernel // 2, groups=groups, bias=False)
        return [conv, nn.BatchNorm2d(outs), nn.ReLU6()]

    layers, ins = block(3, 32, 3, 2), 32
    for outs, stride in MOBILENET:
        layers += block(ins, ins, 3, stride, ins) + block(ins, outs, 1)
        ins = outs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(ins, 1000))


def wavenet(lib: Any, nn: Any, channels: int = 64, skips: int = 256) -> Any:
    """WaveNet: causal convolutions of two taps whose dilation doubles, gated, with residuals and skips."""

    class Layer(nn.Module):  # type: ignore[misc]
        def __init__(self, dilation: int) -> None:
            super().__init__()
            self.before = nn.ConstantPad1d((dilation, 0), 0.0)
            self.dilated = nn.Conv1d(channels, 2 * channels, 2, dilation=dilation)
            self.residual = nn.Conv1d(channels, channels, 1)
            self.skip = nn.Conv1d(channels, skips, 1)

        def forward(self, x: Any) -> Any:
            y = self.dilated(self.before(x))
            y = lib.tanh(y[:, :channels]) * lib.sigmoid(y[:, channels:])
            return x + self.residual(y), self.skip(y)

    class Stack(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Conv1d(1, channels, 1)
            self.layers = nn.ModuleList([Layer(dilation) for dilation in DILATIONS])
            self.mixed = nn.Conv1d(skips, skips, 1)
            self.last = nn.Conv1d(skips, CLASSES, 1)

        def forward(self, x: Any) -> Any:
            x, total = self.first(x), None
            for layer in self.layers:
                x, skip = layer(x)
                total = skip if total is None else total + skip
            return self.last(lib.relu(self.mixed(lib.relu(total))))

    return Stack()
