"""Learning rates by the step: schedules that compute in Python between steps and assign the optimizer's slots.

`scheduler.step()` after each optimizer step (or epoch) sets `group["lr"]` of every group. Most schedules multiply the
rate that is there, so that they work together and with changes from outside; the numbers are PyTorch's.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

from wengert.core.errors import ArgumentError, DTypeError
from wengert.optim.groups import ParameterGroup
from wengert.optim.optimizer import Optimizer


class LRScheduler:
    """The base of the schedules. One's own defines `get_lr`: the learning rate of each group at `last_epoch`.

    `last_epoch` other than -1 goes on where an optimizer whose state was loaded had come to.

    >>> import wengert as wg
    >>> optimizer = wg.optim.SGD([wg.ones(2, requires_grad=True)], lr=1.0)
    >>> schedule = wg.optim.StepLR(optimizer, step_size=1, gamma=0.1)
    >>> isinstance(schedule, wg.optim.LRScheduler)
    True
    """

    _unsaved: ClassVar[tuple[str, ...]] = ("optimizer",)

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        self.optimizer = checked(optimizer)
        for group in optimizer.param_groups:
            if last_epoch == -1:
                group.setdefault("initial_lr", float(group["lr"]))
            elif "initial_lr" not in group:
                raise ArgumentError(
                    f"last_epoch={last_epoch} goes on with a schedule, but the optimizer had none: its groups have no "
                    "'initial_lr'. Load the optimizer's state first, or leave last_epoch out"
                )
        self.base_lrs = [float(group["initial_lr"]) for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._start()

    def _start(self) -> None:
        """The step that every schedule takes when it is made."""
        self._is_initial = True
        self.step()
        self._is_initial = False

    def step(self) -> None:
        """Go to the next learning rate."""
        self.last_epoch += 1
        self._set(self.get_lr())

    def get_lr(self) -> list[float]:
        """The learning rate of each group at `last_epoch`."""
        raise TypeError(f"{type(self).__name__} has no schedule: define get_lr(self)")

    def get_last_lr(self) -> list[float]:
        """The learning rates that were set last."""
        return self._last_lr

    def restart(self) -> None:
        """Begin anew from the first rates, whatever they are now, as when a schedule's turn in `SequentialLR` comes."""
        self.last_epoch = 0
        self._set(self._first_lrs())

    def _first_lrs(self) -> list[float]:
        return list(self.base_lrs)

    def _set(self, lrs: Iterable[float]) -> None:
        for group, lr in zip(self.optimizer.param_groups, lrs):
            group["lr"] = lr
        self._last_lr = self._current()

    def _current(self) -> list[float]:
        return [float(group["lr"]) for group in self.optimizer.param_groups]

    def _times(self, factor: float) -> list[float]:
        return [lr * factor for lr in self._current()]

    def state_dict(self) -> dict[str, Any]:
        """Where the schedule is, and its arguments, as Python values."""
        return {name: value for name, value in vars(self).items() if name not in self._unsaved}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on from a state that `state_dict()` gave. Load the optimizer's state too: it has the rates."""
        vars(self).update(state_dict)


def checked(optimizer: Optimizer) -> Optimizer:
    """The optimizer, if it is one."""
    if not isinstance(optimizer, Optimizer):
        raise DTypeError(f"a schedule is for an optimizer, not {type(optimizer).__name__}")
    return optimizer


def one_each(name: str, value: Any, groups: Sequence[ParameterGroup]) -> list[Any]:
    """One value for each group, from one for all or a list."""
    if not isinstance(value, (list, tuple)):
        return [value] * len(groups)
    if len(value) != len(groups):
        raise ArgumentError(f"{name} has {len(value)} values for {len(groups)} parameter groups")
    return list(value)


class LambdaLR(LRScheduler):
    """The first rate times a function of the epoch (or a list of functions, one a group).

    >>> import wengert as wg
    >>> optimizer = wg.optim.SGD([wg.ones(2, requires_grad=True)], lr=1.0)
    >>> schedule = wg.optim.LambdaLR(optimizer, lambda step: 0.5**step)
    >>> schedule.step()
    >>> [round(v, 4) for v in schedule.get_last_lr()]
    [0.5]
    """

    _unsaved = ("optimizer", "lr_lambdas")

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | Sequence[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        self.lr_lambdas = one_each("lr_lambda", lr_lambda, checked(optimizer).param_groups)
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        return [base * function(self.last_epoch) for base, function in zip(self.base_lrs, self.lr_lambdas)]

    def _first_lrs(self) -> list[float]:
        return self.get_lr()


class MultiplicativeLR(LambdaLR):
    """Times a function of the epoch (or of a list of functions, one a group), at each epoch.

    >>> import wengert as wg
    >>> optimizer = wg.optim.SGD([wg.tensor(0.0, requires_grad=True)], lr=8.0)
    >>> scheduler = wg.optim.MultiplicativeLR(optimizer, lambda epoch: 0.5)
    >>> scheduler.step()
    >>> scheduler.get_last_lr()
    [4.0]
    """

    def get_lr(self) -> list[float]:
        if self._is_initial:
            return self._current()
        return [lr * function(self.last_epoch) for lr, function in zip(self._current(), self.lr_lambdas)]

    def _first_lrs(self) -> list[float]:
        return list(self.base_lrs)


class StepLR(LRScheduler):
    """Times `gamma` every `step_size` epochs.

    >>> import wengert as wg
    >>> optimizer = wg.optim.SGD([wg.tensor(0.0, requires_grad=True)], lr=8.0)
    >>> scheduler = wg.optim.StepLR(optimizer, step_size=2, gamma=0.5)
    >>> for _ in range(4):
    ...     scheduler.step()
    >>> scheduler.get_last_lr()
    [2.0]
    """

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        is_due = self.last_epoch > 0 and self.last_epoch % self.step_size == 0
        return self._times(self.gamma) if is_due else self._current()


class MultiStepLR(LRScheduler):
    """Times `gamma` at each of the `milestones`; one that is named twice counts twice.

    >>> import wengert as wg
    >>> optimizer = wg.optim.SGD([wg.ones(2, requires_grad=True)], lr=1.0)
    >>> schedule = wg.optim.MultiStepLR(optimizer, milestones=[1], gamma=0.1)
    >>> schedule.step()
    >>> [round(v, 4) for v in schedule.get_last_lr()]
    [0.1]
    """

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones = sorted(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        times = self.milestones.count(self.last_epoch)
        return self._times(self.gamma**times) if times else self._current()

    def _first_lrs(self) -> list[float]:
        return [base * self.gamma ** bisect_right(self.milestones, 0) for base in self.base_lrs]


class ConstantLR(LRScheduler):
    """Times `factor` for the first `total_iters` epochs.

    >>> import wengert as wg
    >>> optimizer = wg.optim.SGD([wg.ones(2, requires_grad=True)], lr=1.0)
    >>> schedule = wg.optim.ConstantLR(optimizer, factor=0.5, total_iters=2)
    >>> schedule.step()
    >>> [round(v, 4) for v in schedule.get_last_lr()]
    [0.5]
    """

    def __init__(
        self, optimizer: Optimizer, factor: float = 1.0 / 3, total_iters: int = 5, last_epoch: int = -1
    ) -> None:
        if not 0 <= factor <= 1:
            raise ArgumentError(f"ConstantLR: the factor lies between 0 and 1, not {factor!r}")
        self.factor = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        if self.last_epoch == 0:
            return self._times(self.factor)
        return self._times(1.0 / self.factor) if self.last_epoch == self.total_iters else self._current()

    def _first_lrs(self) -> list[float]:
        return [base * self.factor for base in self.base_lrs]


class LinearLR(LRScheduler):
    """From `start_factor` to `end_factor` times the rate in `total_iters` epochs, in a straight line: a warm-up.

    >>> import wengert as wg
    >>> optimizer = wg.optim.SGD([wg.ones(2, requires_grad=True)], lr=1.0)
    >>> schedule = wg.optim.LinearLR(optimizer, start_factor=0.5, total_iters=2)
    >>> schedule.step()
    >>> [round(v, 4) for v in schedule.get_last_lr()]
    [0.75]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1.0 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 < start_factor <= 1 or not 0 <= end_factor <= 1:
            raise ArgumentError(
                f"LinearLR: factors lie between 0 and 1 and start_factor is not 0; they are {start_factor!r} and "
                f"{end_factor!r}"
            )
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        if self.last_epoch == 0:
            return self._times(self.start_factor)
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._current()
        rise = self.end_factor - self.start_factor
        return self._times(1.0 + rise / (self.total_iters * self.start_factor + (self.last_epoch - 1) * rise))

    def _first_lrs(self) -> list[float]:
        return [base * self.start_factor for base in self.base_lrs]


class ExponentialLR(LRScheduler):
    """Times `gamma` every epoch.

    >>> import wengert as wg
    >>> optimizer = wg.optim.SGD([wg.ones(2, requires_grad=True)], lr=1.0)
    >>> schedule = wg.optim.ExponentialLR(optimizer, gamma=0.5)
    >>> schedule.step()
    >>> [round(v, 4) for v in schedule.get_last_lr()]
    [0.5]
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        return self._current() if self._is_initial else self._times(self.gamma)


class PolynomialLR(LRScheduler):
    """To 0 in `total_iters` epochs, as a power of what remains of them.

    >>> import wengert as wg
    >>> optimizer = wg.optim.SGD([wg.ones(2, requires_grad=True)], lr=1.0)
    >>> schedule = wg.optim.PolynomialLR(optimizer, total_iters=2)
    >>> schedule.step()
    >>> [round(v, 4) for v in schedule.get_last_lr()]
    [0.5]
    """

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        if self._is_initial or self.last_epoch > self.total_iters:
            return self._current()
        left, before = 1 - self.last_epoch / self.total_iters, 1 - (self.last_epoch - 1) / self.total_iters
        return self._times((left / before) ** self.power)
