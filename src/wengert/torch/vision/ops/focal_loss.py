"""The focal loss of RetinaNet."""

from __future__ import annotations

from typing import Any

import wengert as wg
from wengert.torch.tensor import Tensor, of


def sigmoid_focal_loss(
    inputs: Any, targets: Any, alpha: float = 0.25, gamma: float = 2, reduction: str = "none"
) -> Tensor:
    """Binary cross-entropy of scores, weighted down where the score is right already."""
    if reduction not in ("none", "mean", "sum"):
        raise ValueError(f"Invalid Value for arg 'reduction': '{reduction}'")
    p = wg.sigmoid(inputs)
    loss = wg.binary_cross_entropy_with_logits(inputs, targets, reduction="none")
    loss = loss * (1 - (p * targets + (1 - p) * (1 - targets))) ** gamma
    if alpha >= 0:
        loss = (alpha * targets + (1 - alpha) * (1 - targets)) * loss
    return of(loss if reduction == "none" else wg.mean(loss) if reduction == "mean" else wg.sum(loss))
