"""Stochastic gradient descent, with momentum."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import wengert as wg
from wengert import Tensor
from wengert.core.errors import ArgumentError
from wengert.optim.groups import ParameterGroup
from wengert.optim.optimizer import Optimizer, descent, zeros_for


class SGD(Optimizer):
    """Gradient descent: p -= lr * g, with momentum p -= lr * (momentum * buffer + (1 - dampening) * g).

    `nesterov` looks ahead along the buffer (Sutskever et al., 2013).

    >>> import wengert as wg
    >>> w = wg.tensor(4.0, requires_grad=True)
    >>> optimizer = wg.optim.SGD([w], lr=0.1, momentum=0.9)
    >>> (w * w).backward()
    >>> optimizer.step()
    >>> round(w.item(), 4)
    3.2
    """

    slots = ("lr", "momentum")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        momentum: float | Tensor = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "momentum": momentum,
                "dampening": dampening,
                "weight_decay": weight_decay,
                "nesterov": nesterov,
                "maximize": maximize,
                "foreach": foreach,
                "differentiable": differentiable,
                "fused": fused,
            },
        )

    def initial(self, parameter: Tensor, group: ParameterGroup) -> dict[str, Tensor]:
        if group["nesterov"] and (group.is_zero("momentum") or group["dampening"]):
            raise ArgumentError("nesterov needs a momentum above 0 and no dampening")
        return {} if group.is_zero("momentum") else {"momentum_buffer": zeros_for(parameter)}

    def scalars(self, group: ParameterGroup, step: Tensor) -> dict[str, Tensor]:
        # The buffer starts as the first gradient, undamped.
        share = 1 - (step > 1).astype(wg.float64) * group["dampening"]
        return {"lr": group["lr"], "momentum": group["momentum"], "share": share}

    def rule(
        self, p: Tensor, g: Tensor, state: dict[str, Tensor], group: ParameterGroup, s: Any
    ) -> tuple[Tensor, dict[str, Tensor]]:
        g = descent(p, g, group)
        if group.is_zero("momentum"):
            return p - s.lr * g, {}
        buffer = state["momentum_buffer"] * s.momentum + (g * s.share if group["dampening"] else g)
        along = g + buffer * s.momentum if group["nesterov"] else buffer
        return p - s.lr * along, {"momentum_buffer": buffer}
