"""The models of the benchmarks in plain PyTorch, the way PyTorch is fastest: fused attention, modules of its own."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional as F


def micrograd() -> nn.Module:
    """Layers of 300, 300 and 1."""
    return nn.Sequential(nn.Linear(300, 300), nn.ReLU(), nn.Linear(300, 300), nn.ReLU(), nn.Linear(300, 1))


def mlp() -> nn.Module:
    """Layers of 512, 256 and 10."""
    return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 10))


class ConvNet(nn.Sequential):
    """Three convolutions with relu and pooling, two linear layers: `wengert.models.ConvNet`."""

    def __init__(self) -> None:
        blocks: list[nn.Module] = []
        for inputs, outputs in ((1, 32), (32, 64), (64, 128)):
            blocks += [nn.Conv2d(inputs, outputs, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)]
        super().__init__(*blocks, nn.Flatten(), nn.Linear(128 * 9, 128), nn.ReLU(), nn.Linear(128, 10))


class Residual(nn.Module):
    """A basic block of a ResNet."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        same = stride == 1 and inputs == outputs
        shortcut = [nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)]
        self.shortcut = nn.Identity() if same else nn.Sequential(*shortcut)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.relu(self.bn1(self.conv1(x)), inplace=True)
        return F.relu(self.bn2(self.conv2(y)) + self.shortcut(x), inplace=True)


def resnet18() -> nn.Module:
    """ResNet-18 with CIFAR's stem."""
    layers: list[nn.Module] = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU(inplace=True)]
    inputs = 64
    for outputs, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [Residual(inputs, outputs, stride), Residual(outputs, outputs, 1)]
        inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


def resnet18_224() -> nn.Module:
    """ResNet-18 for images of 224 x 224: torchvision's, whose parts are those above."""
    import torchvision

    return torchvision.models.resnet18()


class Block(nn.Module):
    """Causal attention and an MLP, each normed before."""

    def __init__(self, features: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(features), nn.LayerNorm(features)
        self.qkv, self.out = nn.Linear(features, 3 * features), nn.Linear(features, features)
        self.up, self.down = nn.Linear(features, 4 * features), nn.Linear(4 * features, features)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, features = x.shape
        parts = self.qkv(self.ln_1(x)).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(*parts.unbind(0), is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, features))
        return x + self.down(F.gelu(self.up(self.ln_2(x)), approximate="tanh"))

    def extended(
        self, x: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, position: torch.Tensor, seen: torch.Tensor
    ) -> torch.Tensor:
        """One token (batch, 1, features) more, whose keys and values go into the caches at a position."""
        q, k, v = self.qkv(self.ln_1(x)).view(*x.shape[:2], 3, self.heads, -1).permute(2, 0, 3, 1, 4).unbind(0)
        keys.index_copy_(2, position, k)
        values.index_copy_(2, position, v)
        y = F.scaled_dot_product_attention(q, keys, values, attn_mask=seen)
        x = x + self.out(y.transpose(1, 2).reshape(x.shape))
        return x + self.down(F.gelu(self.up(self.ln_2(x)), approximate="tanh"))


class GPT(nn.Module):
    """GPT-2 in small, the scores tied to the embedding."""

    def __init__(self, vocabulary: int, length: int, features: int, layers: int, heads: int) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, features), nn.Embedding(length, features)
        self.blocks = nn.Sequential(*[Block(features, heads) for _ in range(layers)])
        self.ln_f = nn.LayerNorm(features)
        self.head = nn.Linear(features, vocabulary, bias=False)
        nn.init.normal_(self.wte.weight, 0.0, 0.02)
        self.head.weight = self.wte.weight

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
        return self.head(self.ln_f(self.blocks(x)))
