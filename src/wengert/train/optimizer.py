"""The recipe's optimizer and its learning rate: from names and numbers to parameters in groups and a factor by step."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from typing import Any

from wengert import nn, optim
from wengert.train.settings import known_names, like, unknown

OPTIMIZERS = {
    "sgd": optim.SGD,
    "adam": optim.Adam,
    "adamw": optim.AdamW,
    "nadam": optim.NAdam,
    "rmsprop": optim.RMSprop,
    "lion": optim.Lion,
}


def make_optimizer(settings: Mapping[str, Any], model: nn.Module) -> optim.Optimizer:
    """Create the optimizer of a recipe. Weight decay applies to matrices and filters, not to biases and norms."""
    options = {key: tuple(value) if isinstance(value, list) else value for key, value in settings.items()}
    name = options.pop("name", "adamw")
    if not isinstance(name, str) or name not in OPTIMIZERS:
        raise unknown("optimizer", name, list(OPTIMIZERS))
    _, *known = inspect.signature(OPTIMIZERS[name]).parameters.values()
    known_names(f"optimizer {name}", options, [parameter.name for parameter in known])
    for parameter in known:
        expected = like(parameter.default)
        if parameter.name in options and expected is not None:
            expected.check(f"{parameter.name} of the optimizer", options[parameter.name])
    parameters = [p for p in model.parameters() if p.requires_grad]
    if not options.get("weight_decay"):
        return OPTIMIZERS[name](parameters, **options)
    groups: list[dict[str, Any]] = [
        {"params": [p for p in parameters if p.ndim > 1]},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]
    return OPTIMIZERS[name]([group for group in groups if group["params"]], **options)


def rate_factor(schedule: Mapping[str, Any], step: int, total: int) -> float:
    """The factor of the learning rate at a step (counted from 0) of a schedule over `total` steps.

    >>> [round(rate_factor({"name": "linear", "warmup": 0.25}, step, 8), 2) for step in range(9)]
    [0.33, 0.67, 1.0, 0.83, 0.67, 0.5, 0.33, 0.17, 0.0]
    """
    warm = schedule.get("warmup", 0.0) * total
    if step < warm:
        return (step + 1) / (math.ceil(warm) + 1)
    final = schedule.get("final", 0.0)
    share = min((step - warm) / max(total - warm, 1), 1.0)
    if schedule["name"] == "linear":
        return final + (1 - final) * (1 - share)
    if schedule["name"] == "cosine":
        return final + (1 - final) * (1 + math.cos(math.pi * share)) / 2
    return 1.0
