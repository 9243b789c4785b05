"""Distances and angles between vectors, as modules."""

from __future__ import annotations

import wengert as wg
from wengert.nn.module import Module


class CosineSimilarity(Module):
    """The cosine of the angle between vectors along `dim`.

    >>> import wengert as wg
    >>> wg.nn.CosineSimilarity()(wg.tensor([[1.0, 0.0]]), wg.tensor([[3.0, 0.0]])).tolist()
    [1.0]
    """

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1: wg.Tensor, x2: wg.Tensor) -> wg.Tensor:
        """The cosines."""
        return wg.cosine_similarity(x1, x2, self.dim, self.eps)

    def extra_repr(self) -> str:
        """The settings."""
        return f"dim={self.dim}, eps={self.eps}"


class PairwiseDistance(Module):
    """The p-norm of `x1 - x2 + eps` along the last axis.

    >>> import wengert as wg
    >>> wg.nn.PairwiseDistance(eps=0.0)(wg.tensor([[3.0, 4.0]]), wg.zeros((1, 2))).tolist()
    [5.0]
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.p = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: wg.Tensor, x2: wg.Tensor) -> wg.Tensor:
        """The distances."""
        return wg.pairwise_distance(x1, x2, self.p, self.eps, self.keepdim)

    def extra_repr(self) -> str:
        """The settings."""
        return f"p={self.p}, eps={self.eps}, keepdim={self.keepdim}"
