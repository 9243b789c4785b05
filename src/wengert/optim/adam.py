"""Adam and its relatives: steps scaled by running averages of the gradient and of its square."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import wengert as wg
from wengert import Tensor
from wengert.optim.groups import ParameterGroup
from wengert.optim.optimizer import Optimizer, descent, working_dtype, zeros_for

Betas = tuple[float | Tensor, float | Tensor]


class Adam(Optimizer):
    """Adam (Kingma and Ba, 2015); with `amsgrad`, the variant that never lets its denominator shrink.

    `weight_decay` is added to the gradient, or with `decoupled_weight_decay` taken off the parameter, as AdamW does.

    >>> import wengert as wg
    >>> w = wg.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = wg.optim.Adam([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> [round(v, 4) for v in w.tolist()]
    [0.9, -1.9]
    """

    slots = ("lr", "betas")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        betas: Betas = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": betas,
                "eps": eps,
                "weight_decay": weight_decay,
                "amsgrad": amsgrad,
                "maximize": maximize,
                "foreach": foreach,
                "capturable": capturable,
                "differentiable": differentiable,
                "fused": fused,
                "decoupled_weight_decay": decoupled_weight_decay,
            },
        )

    def initial(self, parameter: Tensor, group: ParameterGroup) -> dict[str, Tensor]:
        names = ["exp_avg", "exp_avg_sq"] + (["max_exp_avg_sq"] if group["amsgrad"] else [])
        return {name: zeros_for(parameter) for name in names}

    def scalars(self, group: ParameterGroup, step: Tensor) -> dict[str, Tensor]:
        beta1, beta2 = group["betas"]
        return {
            **_averaging(group),
            "step_size": group["lr"] / (1 - beta1**step),
            "correction": wg.sqrt(1 - beta2**step),
        }

    def rule(
        self, p: Tensor, g: Tensor, state: dict[str, Tensor], group: ParameterGroup, s: Any
    ) -> tuple[Tensor, dict[str, Tensor]]:
        p, g = _decayed(p, g, group, s)
        moved = _averaged(g, state, s)
        square = moved["exp_avg_sq"]
        if group["amsgrad"]:
            square = moved["max_exp_avg_sq"] = wg.maximum(state["max_exp_avg_sq"], square)
        return p - s.step_size * (moved["exp_avg"] / (wg.sqrt(square) / s.correction + group["eps"])), moved


class AdamW(Adam):
    """Adam with weight decay apart from the gradient (Loshchilov and Hutter, 2019).

    >>> import wengert as wg
    >>> w = wg.tensor([1.0, -1.0], requires_grad=True)
    >>> optimizer = wg.optim.AdamW([w], lr=0.1)
    >>> w.sum().backward()
    >>> optimizer.step()
    >>> [round(x, 4) for x in w.tolist()]
    [0.899, -1.099]
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        betas: Betas = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )


class Adamax(Optimizer):
    """Adam with the largest gradient, decayed, in place of the average square (Kingma and Ba, 2015).

    >>> import wengert as wg
    >>> w = wg.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = wg.optim.Adamax([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> [round(v, 4) for v in w.tolist()]
    [0.9, -1.9]
    """

    slots = ("lr", "betas")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 2e-3,
        betas: Betas = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": betas,
                "eps": eps,
                "weight_decay": weight_decay,
                "maximize": maximize,
                "foreach": foreach,
                "capturable": capturable,
                "differentiable": differentiable,
            },
        )

    def initial(self, parameter: Tensor, group: ParameterGroup) -> dict[str, Tensor]:
        return {"exp_avg": zeros_for(parameter), "exp_inf": zeros_for(parameter)}

    def scalars(self, group: ParameterGroup, step: Tensor) -> dict[str, Tensor]:
        beta1, beta2 = group["betas"]
        return {"weight": 1 - beta1, "beta2": beta2, "step_size": group["lr"] / (1 - beta1**step)}

    def rule(
        self, p: Tensor, g: Tensor, state: dict[str, Tensor], group: ParameterGroup, s: Any
    ) -> tuple[Tensor, dict[str, Tensor]]:
        g = descent(p, g, group)
        average = state["exp_avg"] + (g - state["exp_avg"]) * s.weight
        largest = wg.maximum(state["exp_inf"] * s.beta2, wg.abs(g) + group["eps"])
        return p - s.step_size * (average / largest), {"exp_avg": average, "exp_inf": largest}


class NAdam(Optimizer):
    """Adam with Nesterov's momentum (Dozat, 2016).

    >>> import wengert as wg
    >>> w = wg.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = wg.optim.NAdam([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> [round(v, 4) for v in w.tolist()]
    [0.8944, -1.8944]
    """

    slots = ("lr", "betas")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 2e-3,
        betas: Betas = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": betas,
                "eps": eps,
                "weight_decay": weight_decay,
                "momentum_decay": momentum_decay,
                "decoupled_weight_decay": decoupled_weight_decay,
                "maximize": maximize,
                "foreach": foreach,
                "capturable": capturable,
                "differentiable": differentiable,
            },
        )

    def initial(self, parameter: Tensor, group: ParameterGroup) -> dict[str, Tensor]:
        product = wg.ones((), dtype=working_dtype(parameter), device=parameter.device)
        return {"exp_avg": zeros_for(parameter), "exp_avg_sq": zeros_for(parameter), "mu_product": product}

    def scalars(self, group: ParameterGroup, step: Tensor) -> dict[str, Tensor]:
        beta1, beta2 = group["betas"]
        decay = group["momentum_decay"]
        return {
            **_averaging(group),
            "lr": group["lr"],
            "correction": 1 - beta2**step,
            "mu": beta1 * (1 - 0.5 * 0.96 ** (step * decay)),
            "mu_next": beta1 * (1 - 0.5 * 0.96 ** ((step + 1) * decay)),
        }

    def rule(
        self, p: Tensor, g: Tensor, state: dict[str, Tensor], group: ParameterGroup, s: Any
    ) -> tuple[Tensor, dict[str, Tensor]]:
        p, g = _decayed(p, g, group, s)
        moved = _averaged(g, state, s)
        product = moved["mu_product"] = state["mu_product"] * s.mu
        denominator = wg.sqrt(moved["exp_avg_sq"] / s.correction) + group["eps"]
        p = p - (s.lr * (1 - s.mu) / (1 - product)) * (g / denominator)
        return p - (s.lr * s.mu_next / (1 - product * s.mu_next)) * (moved["exp_avg"] / denominator), moved


class RAdam(Optimizer):
    """Adam that holds back its scaling while the average square rests on few gradients (Liu et al., 2020).

    >>> import wengert as wg
    >>> w = wg.tensor([1.0, -2.0], requires_grad=True)
    >>> optimizer = wg.optim.RAdam([w], lr=0.1)
    >>> (w * w).sum().backward()
    >>> optimizer.step()
    >>> [round(v, 4) for v in w.tolist()]
    [0.8, -1.6]
    """

    slots = ("lr", "betas")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float | Tensor = 1e-3,
        betas: Betas = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": betas,
                "eps": eps,
                "weight_decay": weight_decay,
                "decoupled_weight_decay": decoupled_weight_decay,
                "maximize": maximize,
                "foreach": foreach,
                "capturable": capturable,
                "differentiable": differentiable,
            },
        )

    def initial(self, parameter: Tensor, group: ParameterGroup) -> dict[str, Tensor]:
        return {"exp_avg": zeros_for(parameter), "exp_avg_sq": zeros_for(parameter)}

    def scalars(self, group: ParameterGroup, step: Tensor) -> dict[str, Tensor]:
        beta1, beta2 = group["betas"]
        correction = 1 - beta2**step
        longest = 2 / (1 - beta2) - 1
        length = longest - 2 * step * beta2**step / correction
        rectified = length > 5
        # The other branch's numbers are replaced before the root, which could make NaN of them.
        ratio = (length - 4) * (length - 2) * longest / ((longest - 4) * (longest - 2) * length)
        rectification = wg.sqrt(wg.where(rectified, ratio, 1.0))
        return {
            **_averaging(group),
            "step_size": group["lr"] / (1 - beta1**step),
            "rectified": rectified,
            "scale": wg.sqrt(correction) * rectification,
        }

    def rule(
        self, p: Tensor, g: Tensor, state: dict[str, Tensor], group: ParameterGroup, s: Any
    ) -> tuple[Tensor, dict[str, Tensor]]:
        p, g = _decayed(p, g, group, s)
        moved = _averaged(g, state, s)
        scaled = s.scale / (wg.sqrt(moved["exp_avg_sq"]) + group["eps"])
        return p - s.step_size * (moved["exp_avg"] * wg.where(s.rectified, scaled, 1.0)), moved


# --- what they share ------------------------------------------------------------------------------------------------


def _averaging(group: ParameterGroup) -> dict[str, Tensor]:
    """The numbers for `_averaged` and `_decayed`."""
    beta1, beta2 = group["betas"]
    kept = 1 - group["lr"] * group["weight_decay"]
    return {"weight1": 1 - beta1, "beta2": beta2, "weight2": 1 - beta2, "kept": kept}


def _averaged(g: Tensor, state: dict[str, Tensor], s: Any) -> dict[str, Tensor]:
    """The running averages of the gradient and of its square, moved towards `g`."""
    return {
        "exp_avg": state["exp_avg"] + (g - state["exp_avg"]) * s.weight1,
        "exp_avg_sq": state["exp_avg_sq"] * s.beta2 + g * g * s.weight2,
    }


def _decayed(p: Tensor, g: Tensor, group: ParameterGroup, s: Any) -> tuple[Tensor, Tensor]:
    """Parameter and gradient with the weight decay taken off the one or added to the other."""
    if group["decoupled_weight_decay"] and group["weight_decay"]:
        return p * s.kept, -g if group["maximize"] else g
    return p, descent(p, g, group)
