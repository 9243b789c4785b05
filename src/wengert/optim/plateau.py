"""A learning rate that follows a measure: reduced when it stops getting better."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from wengert.core.errors import ArgumentError
from wengert.optim.optimizer import Optimizer
from wengert.optim.schedule import LRScheduler, one_each


class ReduceLROnPlateau(LRScheduler):
    """Times `factor` when the measure given to `step` has not got better for `patience` epochs.

    Better is by more than `threshold`, relative ("rel") or absolute ("abs"), down (`mode` "min") or up ("max"). After a
    reduction, `cooldown` epochs are not counted.

    >>> import wengert as wg
    >>> optimizer = wg.optim.SGD([wg.ones(2, requires_grad=True)], lr=1.0)
    >>> schedule = wg.optim.ReduceLROnPlateau(optimizer, patience=0, factor=0.5)
    >>> for loss in (1.0, 1.0):
    ...     schedule.step(loss)
    >>> optimizer.param_groups[0]["lr"]
    0.5
    """

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | Sequence[float] = 0,
        eps: float = 1e-8,
    ) -> None:
        if factor >= 1:
            raise ArgumentError(f"ReduceLROnPlateau: the factor is below 1, not {factor!r}")
        if mode not in ("min", "max"):
            raise ArgumentError(f'mode is "min" or "max", not {mode!r}')
        if threshold_mode not in ("rel", "abs"):
            raise ArgumentError(f'threshold_mode is "rel" or "abs", not {threshold_mode!r}')
        self.mode = mode
        self.factor = factor
        self.patience = patience
        self.threshold = threshold
        self.threshold_mode = threshold_mode
        self.cooldown = cooldown
        self.min_lrs = one_each("min_lr", min_lr, optimizer.param_groups)
        self.eps = eps
        self.best = math.inf if mode == "min" else -math.inf
        self.num_bad_epochs = 0
        self.cooldown_counter = 0
        super().__init__(optimizer)

    def _start(self) -> None:
        self.last_epoch = 0
        self._last_lr = self._current()

    def get_lr(self) -> list[float]:
        """The learning rates after a reduction; one that would hardly change stays."""
        reduced = [max(lr * self.factor, least) for lr, least in zip(self._current(), self.min_lrs)]
        return [new if lr - new > self.eps else lr for lr, new in zip(self._current(), reduced)]

    @property
    def in_cooldown(self) -> bool:
        """Whether epochs are not counted, since the rate was just lowered."""
        return self.cooldown_counter > 0

    def step(self, metrics: Any) -> None:  # type: ignore[override]
        """Take note of the measure (a number, or a tensor, which is looked at) after an epoch."""
        measure = float(metrics)
        self.last_epoch += 1
        if self._is_better(measure):
            self.best = measure
            self.num_bad_epochs = 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            self._set(self.get_lr())
            self.cooldown_counter = self.cooldown
            self.num_bad_epochs = 0
        self._last_lr = self._current()

    def _is_better(self, measure: float) -> bool:
        sign = -1 if self.mode == "min" else 1
        relative = self.threshold_mode == "rel"
        bound = self.best * (1 + sign * self.threshold) if relative else self.best + sign * self.threshold
        return sign * measure > sign * bound
