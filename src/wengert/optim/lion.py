"""Lion: steps along the sign of the momentum."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import wengert as wg
from wengert import Tensor
from wengert.optim.groups import ParameterGroup
from wengert.optim.optimizer import Optimizer, zeros_for


class Lion(Optimizer):
    """Evolved sign momentum (Chen et al., "Symbolic discovery of optimization algorithms", 2023).

    Every element moves by `lr`, up or down. Use a learning rate 3 to 10 times smaller than for AdamW, and a weight
    decay larger by the same factor.

    >>> import wengert as wg
    >>> w = wg.tensor([1.0, -1.0], requires_grad=True)
    >>> optimizer = wg.optim.Lion([w], lr=0.25)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w.tolist()
    [0.75, -0.75]
    """

    slots = ("lr", "betas")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-4,
        betas: tuple[float | Tensor, float | Tensor] = (0.9, 0.99),
        weight_decay: float = 0,
        *,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay, "maximize": maximize})

    def initial(self, parameter: Tensor, group: ParameterGroup) -> dict[str, Tensor]:
        return {"exp_avg": zeros_for(parameter)}

    def scalars(self, group: ParameterGroup, step: Tensor) -> dict[str, Tensor]:
        beta1, beta2 = group["betas"]
        kept = 1 - group["lr"] * group["weight_decay"]
        return {"lr": group["lr"], "weight1": 1 - beta1, "weight2": 1 - beta2, "kept": kept}

    def rule(
        self, p: Tensor, g: Tensor, state: dict[str, Tensor], group: ParameterGroup, s: Any
    ) -> tuple[Tensor, dict[str, Tensor]]:
        g = -g if group["maximize"] else g
        average = state["exp_avg"]
        direction = wg.sign(average + (g - average) * s.weight1)
        kept = p * s.kept if group["weight_decay"] else p
        return kept - s.lr * direction, {"exp_avg": average + (g - average) * s.weight2}
