"""Rprop: steps whose lengths follow how often each element's gradient changes its sign."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import wengert as wg
from wengert import Tensor
from wengert.core.errors import ArgumentError
from wengert.optim.groups import ParameterGroup
from wengert.optim.optimizer import Optimizer, zeros_for


class Rprop(Optimizer):
    """Resilient backpropagation (Riedmiller and Braun, 1993), for full-batch gradients.

    Each element has a step length of its own, which starts at `lr`. It is multiplied by `etas[1]` while the gradient
    keeps its sign and by `etas[0]` when the sign changes, within `step_sizes`.

    >>> import wengert as wg
    >>> w = wg.tensor([1.0, -4.0], requires_grad=True)
    >>> optimizer = wg.optim.Rprop([w], lr=0.5)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> w.tolist()
    [0.5, -3.5]
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "etas": etas,
                "step_sizes": step_sizes,
                "foreach": foreach,
                "maximize": maximize,
                "differentiable": differentiable,
                "capturable": capturable,
            },
        )

    def initial(self, parameter: Tensor, group: ParameterGroup) -> dict[str, Tensor]:
        shrink, grow = group["etas"]
        if not 0 < shrink < 1 < grow:
            raise ArgumentError(f"etas must be a number between 0 and 1 and one above 1, not {group['etas']!r}")
        return {"prev": zeros_for(parameter), "step_size": zeros_for(parameter)}

    def scalars(self, group: ParameterGroup, step: Tensor) -> dict[str, Tensor]:
        return {**super().scalars(group, step), "is_first": step == 1}

    def rule(
        self, p: Tensor, g: Tensor, state: dict[str, Tensor], group: ParameterGroup, s: Any
    ) -> tuple[Tensor, dict[str, Tensor]]:
        g = -g if group["maximize"] else g
        (shrink, grow), (least, most) = group["etas"], group["step_sizes"]
        product = g * state["prev"]
        # They start at the first step's learning rate, which a warm-up may have set after the optimizer was made.
        lengths = wg.where(s.is_first, s.lr, state["step_size"])
        lengths = wg.where(product > 0, lengths * grow, wg.where(product < 0, lengths * shrink, lengths))
        lengths = wg.clip(lengths, least, most)
        g = wg.where(product < 0, 0.0, g)
        return p - wg.sign(g) * lengths, {"prev": g, "step_size": lengths}
