"""Muon: momentum whose matrix is made orthogonal before the step."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import wengert as wg
from wengert import Tensor
from wengert.core.errors import ArgumentError, ShapeError
from wengert.optim.groups import ParameterGroup
from wengert.optim.optimizer import Optimizer, zeros_for


class Muon(Optimizer):
    """Momentum orthogonalised by Newton-Schulz steps, for matrices (Jordan et al., 2024).

    Meant for the hidden weight matrices; embeddings, biases and the last layer go to AdamW. PyTorch's arguments. Where
    its iteration runs in bfloat16, this one runs in the parameter's own precision.

    `adjust_lr_fn`: "original" multiplies the learning rate of an (a, b) matrix by sqrt(max(1, a / b)),
    "match_rms_adamw" by 0.2 * sqrt(max(a, b)), so that AdamW's learning rate fits.

    >>> import wengert as wg
    >>> w = wg.ones((2, 2), requires_grad=True)
    >>> optimizer = wg.optim.Muon([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w.shape
    (2, 2)
    """

    slots = ("lr", "momentum")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        weight_decay: float = 0.1,
        momentum: float | Tensor = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.7750, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "weight_decay": weight_decay,
                "momentum": momentum,
                "nesterov": nesterov,
                "ns_coefficients": ns_coefficients,
                "eps": eps,
                "ns_steps": ns_steps,
                "adjust_lr_fn": adjust_lr_fn,
            },
        )

    def check_parameter(self, parameter: Tensor) -> None:
        super().check_parameter(parameter)
        if parameter.ndim != 2:
            raise ShapeError(f"Muon is for matrices; a parameter of shape {parameter.shape} goes to AdamW instead")

    def initial(self, parameter: Tensor, group: ParameterGroup) -> dict[str, Tensor]:
        if group["adjust_lr_fn"] not in (None, "original", "match_rms_adamw"):
            raise ArgumentError(f'adjust_lr_fn is "original" or "match_rms_adamw", not {group["adjust_lr_fn"]!r}')
        return {"momentum_buffer": zeros_for(parameter)}

    def scalars(self, group: ParameterGroup, step: Tensor) -> dict[str, Tensor]:
        lr, momentum = group["lr"], group["momentum"]
        return {"lr": lr, "momentum": momentum, "weight": 1 - momentum, "kept": 1 - lr * group["weight_decay"]}

    def rule(
        self, p: Tensor, g: Tensor, state: dict[str, Tensor], group: ParameterGroup, s: Any
    ) -> tuple[Tensor, dict[str, Tensor]]:
        buffer = state["momentum_buffer"] + (g - state["momentum_buffer"]) * s.weight
        along = g + (buffer - g) * s.momentum if group["nesterov"] else buffer
        direction = orthogonalized(along, group["ns_coefficients"], group["ns_steps"], group["eps"])
        return p * s.kept - s.lr * lr_ratio(p.shape, group["adjust_lr_fn"]) * direction, {"momentum_buffer": buffer}


def orthogonalized(matrix: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float) -> Tensor:
    """A matrix with the same singular vectors and singular values near 1, by a quintic Newton-Schulz iteration.

    The coefficients make small singular values grow as fast as they can; the values end between about 0.7 and 1.2.
    """
    a, b, c = coefficients
    tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.T if tall else matrix
    x = x / wg.maximum(wg.norm(x), eps)  # no singular value above 1
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * (gram @ gram)) @ x
    return x.T if tall else x


def lr_ratio(shape: tuple[int, ...], adjustment: str | None) -> float:
    """What the learning rate is multiplied by for a matrix of this shape."""
    rows, columns = shape
    if adjustment == "match_rms_adamw":
        return 0.2 * math.sqrt(max(rows, columns))
    return math.sqrt(max(1.0, rows / columns))
