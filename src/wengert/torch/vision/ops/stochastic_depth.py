"""Stochastic depth: a residual branch left out at random, of a whole batch or row by row."""

from __future__ import annotations

from typing import Any

import wengert as wg
from wengert.torch.nn.module import Module
from wengert.torch.tensor import of


def stochastic_depth(input: Any, p: float, mode: str, training: bool = True) -> Any:
    """The input, or zeros with probability p; what stays is scaled by 1 / (1 - p)."""
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"drop probability has to be between 0 and 1, but got {p}")
    if mode not in ("batch", "row"):
        raise ValueError(f"mode has to be either 'batch' or 'row', but got {mode}")
    if not training or p == 0.0:
        return input
    size = [input.shape[0] if mode == "row" else 1, *[1] * (input.ndim - 1)]
    noise = of(wg.zeros(size, dtype=input.node.dtype)).bernoulli_(1.0 - p)
    return input * (noise / (1.0 - p) if p < 1.0 else noise)


class StochasticDepth(Module):
    """`stochastic_depth` as a layer; off in `eval()`."""

    def __init__(self, p: float, mode: str) -> None:
        super().__init__()
        self.p, self.mode = p, mode

    def forward(self, input: Any) -> Any:
        """The input, or zeros."""
        return stochastic_depth(input, self.p, self.mode, self.training)

    def extra_repr(self) -> str:
        """The settings."""
        return f"p={self.p}, mode={self.mode}"
