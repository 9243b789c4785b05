"""Schedules made of schedules: several at once, or one after the other."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from typing import Any

from wengert.core.errors import ArgumentError
from wengert.optim.optimizer import Optimizer
from wengert.optim.plateau import ReduceLROnPlateau
from wengert.optim.schedule import LRScheduler


class _Several(LRScheduler):
    """What schedules made of schedules share."""

    _unsaved = ("optimizer", "_schedulers")

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None) -> None:
        if not schedulers:
            raise ArgumentError(f"{type(self).__name__} takes at least one schedule")
        self.optimizer = optimizer or schedulers[0].optimizer
        self._schedulers = list(schedulers)
        for scheduler in schedulers:
            if isinstance(scheduler, ReduceLROnPlateau):
                raise ArgumentError(f"{type(self).__name__}: ReduceLROnPlateau needs a measure at every step")
            if scheduler.optimizer is not self.optimizer:
                raise ArgumentError(f"{type(self).__name__}: {type(scheduler).__name__} is for another optimizer")

    def restart(self) -> None:
        for group in self.optimizer.param_groups:
            group["lr"] = group["initial_lr"]
        for scheduler in self._parts():
            scheduler.last_epoch = -1
        self._start()

    def _parts(self) -> Iterator[LRScheduler]:
        """The schedules it is made of in the end."""
        for scheduler in self._schedulers:
            if isinstance(scheduler, _Several):
                yield from scheduler._parts()
            else:
                yield scheduler

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "_schedulers": [scheduler.state_dict() for scheduler in self._schedulers]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        own = {name: value for name, value in state_dict.items() if name != "_schedulers"}
        super().load_state_dict(own)
        for scheduler, state in zip(self._schedulers, state_dict["_schedulers"]):
            scheduler.load_state_dict(state)


class ChainedScheduler(_Several):
    """Several schedules at once, each multiplying what the one before has set.

    >>> import wengert as wg
    >>> optimizer = wg.optim.SGD([wg.ones(2, requires_grad=True)], lr=1.0)
    >>> parts = [wg.optim.ConstantLR(optimizer, 0.5), wg.optim.ExponentialLR(optimizer, 0.5)]
    >>> schedule = wg.optim.ChainedScheduler(parts)
    >>> schedule.step()
    >>> schedule.get_last_lr()
    [0.25]
    """

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        super().__init__(schedulers, optimizer)
        self._last_lr = self._current()

    def _start(self) -> None:
        for scheduler in self._schedulers:
            scheduler._start()
        self._last_lr = self._current()

    def step(self) -> None:
        for scheduler in self._schedulers:
            scheduler.step()
        self._last_lr = self._current()


class SequentialLR(_Several):
    """One schedule after the other: the next begins at each milestone.

    >>> import wengert as wg
    >>> optimizer = wg.optim.SGD([wg.tensor(0.0, requires_grad=True)], lr=1.0)
    >>> warmup = wg.optim.LinearLR(optimizer, start_factor=0.5, total_iters=2)
    >>> decay = wg.optim.ExponentialLR(optimizer, gamma=0.5)
    >>> scheduler = wg.optim.SequentialLR(optimizer, [warmup, decay], milestones=[2])
    >>> rates = [scheduler.get_last_lr()[0]]
    >>> for _ in range(4):
    ...     scheduler.step()
    ...     rates.append(scheduler.get_last_lr()[0])
    >>> rates
    [0.5, 0.75, 1.0, 0.5, 0.25]
    """

    def __init__(
        self, optimizer: Optimizer, schedulers: Sequence[LRScheduler], milestones: Sequence[int], last_epoch: int = -1
    ) -> None:
        super().__init__(schedulers, optimizer)
        if len(milestones) != len(schedulers) - 1:
            raise ArgumentError(
                f"SequentialLR: {len(schedulers)} schedules have {len(schedulers) - 1} milestones between them, "
                f"not {len(milestones)}"
            )
        self.milestones = list(milestones)
        # Every schedule took its first step when it was made; only that of the first counts.
        for group in optimizer.param_groups:
            group["lr"] = group["initial_lr"]
        for scheduler in self._parts():
            scheduler.last_epoch -= 1
        self._start()
        self.last_epoch = last_epoch + 1

    def _start(self) -> None:
        self.last_epoch = 0
        first = self._schedulers[bisect_right(self.milestones, 0)]
        first._start()
        self._last_lr = first.get_last_lr()

    def step(self) -> None:
        self.last_epoch += 1
        turn = bisect_right(self.milestones, self.last_epoch)
        scheduler = self._schedulers[turn]
        if turn > 0 and self.milestones[turn - 1] == self.last_epoch:
            scheduler.restart()
        else:
            scheduler.step()
        self._last_lr = scheduler.get_last_lr()
