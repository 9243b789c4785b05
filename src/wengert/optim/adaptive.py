"""Adagrad, RMSprop and Adadelta: steps divided by how large the gradients have been."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import wengert as wg
from wengert import Tensor
from wengert.optim.groups import ParameterGroup
from wengert.optim.optimizer import Optimizer, descent, working_dtype, zeros_for


class Adagrad(Optimizer):
    """Steps divided by the root of the sum of all squared gradients (Duchi et al., 2011).

    >>> import wengert as wg
    >>> w = wg.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = wg.optim.Adagrad([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> [round(v, 4) for v in w.tolist()]
    [0.9, -1.9]
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "lr_decay": lr_decay,
                "eps": eps,
                "weight_decay": weight_decay,
                "initial_accumulator_value": initial_accumulator_value,
                "maximize": maximize,
                "foreach": foreach,
                "differentiable": differentiable,
                "fused": fused,
            },
        )

    def initial(self, parameter: Tensor, group: ParameterGroup) -> dict[str, Tensor]:
        start = group["initial_accumulator_value"]
        return {"sum": wg.full(parameter.shape, start, dtype=working_dtype(parameter), device=parameter.device)}

    def scalars(self, group: ParameterGroup, step: Tensor) -> dict[str, Tensor]:
        return {"lr": group["lr"] / (1 + (step - 1) * group["lr_decay"])}

    def rule(
        self, p: Tensor, g: Tensor, state: dict[str, Tensor], group: ParameterGroup, s: Any
    ) -> tuple[Tensor, dict[str, Tensor]]:
        g = descent(p, g, group)
        total = state["sum"] + g * g
        return p - s.lr * (g / (wg.sqrt(total) + group["eps"])), {"sum": total}


class RMSprop(Optimizer):
    """Steps divided by the root of a running average of squared gradients (Hinton's lecture, 2012).

    `centered` subtracts the square of the average gradient first, which makes it a variance.

    >>> import wengert as wg
    >>> w = wg.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = wg.optim.RMSprop([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> [round(v, 4) for v in w.tolist()]
    [0.0, -1.0]
    """

    slots = ("lr", "momentum")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float | Tensor = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "momentum": momentum,
                "alpha": alpha,
                "eps": eps,
                "centered": centered,
                "weight_decay": weight_decay,
                "maximize": maximize,
                "capturable": capturable,
                "foreach": foreach,
                "differentiable": differentiable,
            },
        )

    def initial(self, parameter: Tensor, group: ParameterGroup) -> dict[str, Tensor]:
        momentum = [] if group.is_zero("momentum") else ["momentum_buffer"]
        average = ["grad_avg"] if group["centered"] else []
        return {name: zeros_for(parameter) for name in ["square_avg", *momentum, *average]}

    def scalars(self, group: ParameterGroup, step: Tensor) -> dict[str, Tensor]:
        return {"lr": group["lr"], "momentum": group["momentum"]}

    def rule(
        self, p: Tensor, g: Tensor, state: dict[str, Tensor], group: ParameterGroup, s: Any
    ) -> tuple[Tensor, dict[str, Tensor]]:
        g, alpha = descent(p, g, group), group["alpha"]
        moved = {"square_avg": state["square_avg"] * alpha + g * g * (1 - alpha)}
        spread = moved["square_avg"]
        if group["centered"]:
            average = moved["grad_avg"] = state["grad_avg"] + (g - state["grad_avg"]) * (1 - alpha)
            spread = spread - average * average
        along = g / (wg.sqrt(spread) + group["eps"])
        if not group.is_zero("momentum"):
            along = moved["momentum_buffer"] = state["momentum_buffer"] * s.momentum + along
        return p - s.lr * along, moved


class Adadelta(Optimizer):
    """Steps as large as past steps, in the ratio of the gradient to past gradients (Zeiler, 2012).

    >>> import wengert as wg
    >>> w = wg.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = wg.optim.Adadelta([w], lr=1.0)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> [round(v, 4) for v in w.tolist()]
    [0.9968, -1.9968]
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "rho": rho,
                "eps": eps,
                "weight_decay": weight_decay,
                "maximize": maximize,
                "foreach": foreach,
                "capturable": capturable,
                "differentiable": differentiable,
            },
        )

    def initial(self, parameter: Tensor, group: ParameterGroup) -> dict[str, Tensor]:
        return {"square_avg": zeros_for(parameter), "acc_delta": zeros_for(parameter)}

    def rule(
        self, p: Tensor, g: Tensor, state: dict[str, Tensor], group: ParameterGroup, s: Any
    ) -> tuple[Tensor, dict[str, Tensor]]:
        g, rho, eps = descent(p, g, group), group["rho"], group["eps"]
        square = state["square_avg"] * rho + g * g * (1 - rho)
        delta = wg.sqrt(state["acc_delta"] + eps) / wg.sqrt(square + eps) * g
        deltas = state["acc_delta"] * rho + delta * delta * (1 - rho)
        return p - s.lr * delta, {"square_avg": square, "acc_delta": deltas}
