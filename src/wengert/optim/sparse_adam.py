"""SparseAdam: Adam for tables from which a step reads few rows."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import wengert as wg
from wengert import Tensor
from wengert.optim.groups import ParameterGroup
from wengert.optim.optimizer import Optimizer, zeros_for


class SparseAdam(Optimizer):
    """Adam that leaves rows without a gradient, and their averages, as they are.

    PyTorch's version takes sparse gradients. Here gradients are dense, and a row (an index along the first axis) whose
    gradient is all zeros counts as unused.

    >>> import wengert as wg
    >>> table = wg.zeros((3, 2), requires_grad=True)
    >>> optimizer = wg.optim.SparseAdam([table], lr=0.5)
    >>> table[1].sum().backward()
    >>> optimizer.step()
    >>> [[round(x, 4) for x in row] for row in table.tolist()]
    [[0.0, 0.0], [-0.5, -0.5], [0.0, 0.0]]
    """

    slots = ("lr", "betas")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.999),
        eps: float = 1e-8,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps, "maximize": maximize})

    def initial(self, parameter: Tensor, group: ParameterGroup) -> dict[str, Tensor]:
        return {"exp_avg": zeros_for(parameter), "exp_avg_sq": zeros_for(parameter)}

    def scalars(self, group: ParameterGroup, step: Tensor) -> dict[str, Tensor]:
        beta1, beta2 = group["betas"]
        lr = super().scalars(group, step)["lr"]
        return {
            "weight1": 1 - beta1,
            "weight2": 1 - beta2,
            "step_size": lr * wg.sqrt(1 - beta2**step) / (1 - beta1**step),
        }

    def rule(
        self, p: Tensor, g: Tensor, state: dict[str, Tensor], group: ParameterGroup, s: Any
    ) -> tuple[Tensor, dict[str, Tensor]]:
        g = -g if group["maximize"] else g
        read = wg.any(g != 0, axis=tuple(range(1, g.ndim)), keepdims=True)
        average, square = state["exp_avg"], state["exp_avg_sq"]
        average = wg.where(read, average + (g - average) * s.weight1, average)
        square = wg.where(read, square + (g * g - square) * s.weight2, square)
        moved = p - s.step_size * (average / (wg.sqrt(square) + group["eps"]))
        return wg.where(read, moved, p), {"exp_avg": average, "exp_avg_sq": square}
