"""torchvision's ResNets and Hugging Face's GPT2LMHeadModel in plain torch: their parameter names and initial values.

Written from the papers and the libraries' documented structure, apart from `wengert.models`, as what to compare with.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

# --- ResNet ---------------------------------------------------------------------------------------------------------


class Basic(nn.Module):
    expansion = 1

    def __init__(self, inputs: int, planes: int, stride: int, downsample: nn.Module | None) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, planes, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(planes, planes, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.downsample = downsample

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        out += x if self.downsample is None else self.downsample(x)
        return self.relu(out)


class Bottleneck(nn.Module):
    expansion = 4

    def __init__(self, inputs: int, planes: int, stride: int, downsample: nn.Module | None) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, planes, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(planes)
        self.conv2 = nn.Conv2d(planes, planes, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(planes)
        self.conv3 = nn.Conv2d(planes, planes * 4, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(planes * 4)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = downsample

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        out += x if self.downsample is None else self.downsample(x)
        return self.relu(out)


class ResNet(nn.Module):
    def __init__(self, block: Any, layers: list[int], num_classes: int, cifar: bool) -> None:
        super().__init__()
        self.inplanes = 64
        self.conv1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False) if cifar else nn.Conv2d(3, 64, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.Identity() if cifar else nn.MaxPool2d(3, 2, 1)
        self.layer1 = self._make_layer(block, 64, layers[0], 1)
        self.layer2 = self._make_layer(block, 128, layers[1], 2)
        self.layer3 = self._make_layer(block, 256, layers[2], 2)
        self.layer4 = self._make_layer(block, 512, layers[3], 2)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(512 * block.expansion, num_classes)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")

    def _make_layer(self, block: Any, planes: int, blocks: int, stride: int) -> nn.Sequential:
        downsample = None
        if stride != 1 or self.inplanes != planes * block.expansion:
            downsample = nn.Sequential(
                nn.Conv2d(self.inplanes, planes * block.expansion, 1, stride, bias=False),
                nn.BatchNorm2d(planes * block.expansion),
            )
        made = [block(self.inplanes, planes, stride, downsample)]
        self.inplanes = planes * block.expansion
        made += [block(self.inplanes, planes, 1, None) for _ in range(1, blocks)]
        return nn.Sequential(*made)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


def resnet(depth: int, num_classes: int = 1000, cifar: bool = False) -> ResNet:
    block, layers = {18: (Basic, [2, 2, 2, 2]), 34: (Basic, [3, 4, 6, 3]), 50: (Bottleneck, [3, 4, 6, 3])}[depth]
    return ResNet(block, layers, num_classes, cifar)


# --- GPT-2 ----------------------------------------------------------------------------------------------------------


class Conv1D(nn.Module):
    def __init__(self, nf: int, nx: int) -> None:
        super().__init__()
        self.nf = nf
        self.weight = nn.Parameter(torch.empty(nx, nf))
        self.bias = nn.Parameter(torch.zeros(nf))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = torch.addmm(self.bias, x.view(-1, x.size(-1)), self.weight)
        return rows.view(*x.shape[:-1], self.nf)


class Attention(nn.Module):
    def __init__(self, n_embd: int, n_head: int) -> None:
        super().__init__()
        self.n_head = n_head
        self.c_attn = Conv1D(3 * n_embd, n_embd)
        self.c_proj = Conv1D(n_embd, n_embd)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, n_embd = x.shape
        heads = [
            part.view(batch, length, self.n_head, n_embd // self.n_head).permute(0, 2, 1, 3)
            for part in self.c_attn(x).split(n_embd, dim=2)
        ]
        query, key, value = heads
        scores = query @ key.transpose(-1, -2) / math.sqrt(value.size(-1))
        causal = torch.tril(torch.ones(length, length, dtype=torch.bool))
        weights = torch.softmax(scores.masked_fill(~causal, torch.finfo(scores.dtype).min), dim=-1)
        merged = (weights @ value).permute(0, 2, 1, 3).contiguous().view(batch, length, n_embd)
        return self.c_proj(merged)


def gelu_new(x: torch.Tensor) -> torch.Tensor:
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


class MLP(nn.Module):
    def __init__(self, n_embd: int) -> None:
        super().__init__()
        self.c_fc = Conv1D(4 * n_embd, n_embd)
        self.c_proj = Conv1D(n_embd, 4 * n_embd)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.c_proj(gelu_new(self.c_fc(x)))


class Block(nn.Module):
    def __init__(self, n_embd: int, n_head: int) -> None:
        super().__init__()
        self.ln_1 = nn.LayerNorm(n_embd, eps=1e-5)
        self.attn = Attention(n_embd, n_head)
        self.ln_2 = nn.LayerNorm(n_embd, eps=1e-5)
        self.mlp = MLP(n_embd)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.attn(self.ln_1(x)) + x
        return x + self.mlp(self.ln_2(x))


class GPT2Model(nn.Module):
    def __init__(self, vocab_size: int, n_positions: int, n_embd: int, n_layer: int, n_head: int) -> None:
        super().__init__()
        self.wte = nn.Embedding(vocab_size, n_embd)
        self.wpe = nn.Embedding(n_positions, n_embd)
        self.h = nn.ModuleList([Block(n_embd, n_head) for _ in range(n_layer)])
        self.ln_f = nn.LayerNorm(n_embd, eps=1e-5)

    def forward(self, input_ids: torch.Tensor) -> torch.Tensor:
        hidden = self.wte(input_ids) + self.wpe(torch.arange(input_ids.size(1)))
        for block in self.h:
            hidden = block(hidden)
        return self.ln_f(hidden)


class GPT2LMHeadModel(nn.Module):
    def __init__(self, vocab_size: int, n_positions: int, n_embd: int, n_layer: int, n_head: int) -> None:
        super().__init__()
        self.transformer = GPT2Model(vocab_size, n_positions, n_embd, n_layer, n_head)
        self.lm_head = nn.Linear(n_embd, vocab_size, bias=False)
        for name, parameter in self.named_parameters():
            if parameter.dim() > 1:
                scale = math.sqrt(2 * n_layer) if name.endswith("c_proj.weight") else 1.0
                nn.init.normal_(parameter, 0.0, 0.02 / scale)
        self.lm_head.weight = self.transformer.wte.weight

    def forward(self, input_ids: torch.Tensor, labels: torch.Tensor | None = None) -> Any:
        logits = self.lm_head(self.transformer(input_ids))
        if labels is None:
            return logits
        shifted = logits[:, :-1].reshape(-1, logits.size(-1))
        return logits, F.cross_entropy(shifted, labels[:, 1:].reshape(-1))


# --- a GPT with the parts of later models ---------------------------------------------------------------------------


def rotate(x: torch.Tensor, base: float = 10000.0) -> torch.Tensor:
    """Rotary positions as products of complex numbers, feature j with feature j + half."""
    length, features = x.shape[-2:]
    rates = base ** (-torch.arange(0, features, 2, dtype=x.dtype) / features)
    angles = torch.outer(torch.arange(length, dtype=x.dtype), rates)
    first, second = x.chunk(2, dim=-1)
    transposed = torch.complex(first, second) * torch.polar(torch.ones_like(angles), angles)
    return torch.cat([transposed.real, transposed.imag], dim=-1)


class Matrix(nn.Module):
    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(0.02 * torch.randn(inputs, outputs))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x @ self.weight


class ModernBlock(nn.Module):
    def __init__(self, n_embd: int, n_head: int, inner: int) -> None:
        super().__init__()
        self.n_head = n_head
        self.ln_1 = nn.RMSNorm(n_embd, eps=1e-5)
        self.attn = nn.ModuleDict({"c_attn": Matrix(n_embd, 3 * n_embd), "c_proj": Matrix(n_embd, n_embd)})
        self.ln_2 = nn.RMSNorm(n_embd, eps=1e-5)
        self.mlp = nn.ModuleDict(
            {"c_gate": Matrix(n_embd, inner), "c_fc": Matrix(n_embd, inner), "c_proj": Matrix(inner, n_embd)}
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, n_embd = x.shape
        parts = self.attn["c_attn"](self.ln_1(x)).view(batch, length, 3, self.n_head, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(rotate(parts[0]), rotate(parts[1]), parts[2], is_causal=True)
        x = x + self.attn["c_proj"](y.transpose(1, 2).reshape(batch, length, n_embd))
        y = self.ln_2(x)
        return x + self.mlp["c_proj"](F.silu(self.mlp["c_gate"](y)) * self.mlp["c_fc"](y))


class ModernGPT(nn.Module):
    def __init__(self, vocab_size: int, n_embd: int, n_layer: int, n_head: int, inner: int) -> None:
        super().__init__()
        blocks = nn.ModuleList([ModernBlock(n_embd, n_head, inner) for _ in range(n_layer)])
        parts = {"wte": nn.Embedding(vocab_size, n_embd), "h": blocks, "ln_f": nn.RMSNorm(n_embd, eps=1e-5)}
        self.transformer = nn.ModuleDict(parts)
        self.lm_head = nn.Linear(n_embd, vocab_size, bias=False)

    def forward(self, input_ids: torch.Tensor, labels: torch.Tensor) -> Any:
        hidden = self.transformer["wte"](input_ids)
        for block in self.transformer["h"]:
            hidden = block(hidden)
        logits = self.lm_head(self.transformer["ln_f"](hidden))
        return logits, F.cross_entropy(logits.flatten(0, 1), labels.flatten())
