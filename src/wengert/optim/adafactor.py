"""Adafactor: Adam's scaling from one number per row and column instead of one per element."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

import wengert as wg
from wengert import Tensor
from wengert.core.errors import ArgumentError
from wengert.optim.groups import ParameterGroup
from wengert.optim.optimizer import Optimizer, working_dtype, zeros_for


class _Bounds(tuple[float | None, float]):
    """The pair `eps`, which compares with a number part by part, as the check of a group's options asks."""

    def __ge__(self, bound: Any) -> bool:
        return all(part is None or part >= bound for part in self)


class Adafactor(Optimizer):
    """Steps divided by a factored estimate of the average squared gradient (Shazeer and Stern, 2018).

    For a matrix, or the last two axes of a tensor, it stores only the means over rows and over columns. The step is
    proportional to the root mean square of the parameter (at least `eps[1]`), and an update whose root mean square
    exceeds `d` is scaled down. `eps[0]` is the lower bound of the averages; None is the dtype's rounding unit.

    >>> import wengert as wg
    >>> w = wg.ones((2, 3), requires_grad=True)
    >>> optimizer = wg.optim.Adafactor([w], lr=0.5)
    >>> w.sum().backward()
    >>> optimizer.step()
    >>> w.tolist()
    [[0.5, 0.5, 0.5], [0.5, 0.5, 0.5]]
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "beta2_decay": beta2_decay,
                "eps": _Bounds(eps),
                "d": d,
                "weight_decay": weight_decay,
                "foreach": foreach,
                "maximize": maximize,
            },
        )

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        own = {"eps": _Bounds(param_group["eps"])} if "eps" in param_group else {}
        super().add_param_group({**param_group, **own})

    def initial(self, parameter: Tensor, group: ParameterGroup) -> dict[str, Tensor]:
        if group["beta2_decay"] > 0:
            raise ArgumentError(
                f"beta2_decay is an exponent of the step count and must be at most 0, not {group['beta2_decay']!r}"
            )
        if group["d"] < 1:
            raise ArgumentError(f"d, the largest root mean square of an update, must be at least 1, not {group['d']!r}")
        if parameter.ndim < 2:
            return {"variance": zeros_for(parameter)}
        *batch, rows, columns = parameter.shape
        like = {"dtype": working_dtype(parameter), "device": parameter.device}
        return {"row_var": wg.zeros((*batch, rows, 1), **like), "col_var": wg.zeros((*batch, 1, columns), **like)}

    def scalars(self, group: ParameterGroup, step: Tensor) -> dict[str, Tensor]:
        lr = super().scalars(group, step)["lr"]
        return {
            "rate": wg.minimum(lr, 1 / wg.sqrt(step)),
            "kept": 1 - lr * group["weight_decay"],
            "weight": step ** group["beta2_decay"],
        }

    def rule(
        self, p: Tensor, g: Tensor, state: dict[str, Tensor], group: ParameterGroup, s: Any
    ) -> tuple[Tensor, dict[str, Tensor]]:
        g = -g if group["maximize"] else g
        smallest, least_size = group["eps"]
        least = float(np.finfo(p.dtype).eps) if smallest is None else smallest
        size = wg.maximum(_root_mean_square(p), least_size)
        p = p * s.kept if group["weight_decay"] else p
        moved, variance = _averaged(g, state, s.weight, least)
        update = g / wg.sqrt(wg.maximum(variance, least * least))
        shortened = wg.maximum(_root_mean_square(update) / group["d"], 1.0)
        return p - update * (size * s.rate / shortened), moved


def _averaged(g: Tensor, state: dict[str, Tensor], weight: Tensor, least: float) -> tuple[dict[str, Tensor], Tensor]:
    """The state moved towards the squares of `g`, and the average square of each element that follows from it."""
    squares = g * g
    if "variance" in state:
        moved = {"variance": state["variance"] + (squares - state["variance"]) * weight}
        return moved, moved["variance"]
    rows, columns = squares.mean(-1, keepdims=True), squares.mean(-2, keepdims=True)
    moved = {
        "row_var": state["row_var"] + (rows - state["row_var"]) * weight,
        "col_var": state["col_var"] + (columns - state["col_var"]) * weight,
    }
    mean = wg.maximum(moved["row_var"].mean(-2, keepdims=True), least)
    return moved, moved["row_var"] * moved["col_var"] / mean


def _root_mean_square(x: Tensor) -> Tensor:
    return wg.sqrt((x * x).mean())
