"""ASGD: gradient descent that also keeps the average of its iterates."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import wengert as wg
from wengert import Tensor
from wengert.optim.groups import ParameterGroup
from wengert.optim.optimizer import Optimizer, descent, working_dtype, zeros_for


class ASGD(Optimizer):
    """Averaged stochastic gradient descent (Polyak and Juditsky, 1992).

    The learning rate falls as `lr / (1 + lambd * lr * step) ** alpha`. From step `t0` on, `state[p]["ax"]` is the mean
    of the parameter's values; before that, it is the parameter itself.

    >>> import wengert as wg
    >>> w = wg.tensor(4.0, requires_grad=True)
    >>> optimizer = wg.optim.ASGD([w], lr=0.25, lambd=0.0)
    >>> (w * w).backward()
    >>> optimizer.step()
    >>> w.item(), optimizer.state[w]["ax"].item()
    (2.0, 2.0)
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "lambd": lambd,
                "alpha": alpha,
                "t0": t0,
                "weight_decay": weight_decay,
                "foreach": foreach,
                "maximize": maximize,
                "differentiable": differentiable,
                "capturable": capturable,
            },
        )

    def initial(self, parameter: Tensor, group: ParameterGroup) -> dict[str, Tensor]:
        number = {"dtype": working_dtype(parameter), "device": parameter.device}
        return {"eta": wg.zeros((), **number), "mu": wg.ones((), **number), "ax": zeros_for(parameter)}

    def scalars(self, group: ParameterGroup, step: Tensor) -> dict[str, Tensor]:
        lr = super().scalars(group, step)["lr"]
        return {
            "lr": lr,
            "is_first": step == 1,
            "eta": lr / (1 + group["lambd"] * lr * step) ** group["alpha"],
            "mu": 1 / wg.maximum(step - group["t0"], 1.0),
        }

    def rule(
        self, p: Tensor, g: Tensor, state: dict[str, Tensor], group: ParameterGroup, s: Any
    ) -> tuple[Tensor, dict[str, Tensor]]:
        g = descent(p, g, group)
        eta = wg.where(s.is_first, s.lr, state["eta"])  # a step takes the rate that the one before worked out
        p = p * (1 - group["lambd"] * eta) - g * eta
        average = wg.where(state["mu"] == 1, p, state["ax"] + (p - state["ax"]) * state["mu"])
        return p, {"eta": s.eta, "mu": s.mu, "ax": average}
