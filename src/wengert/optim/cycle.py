"""Learning rates that come and go: along a cosine, with warm restarts, in one cycle or in many."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from wengert.core.errors import ArgumentError
from wengert.optim.groups import ParameterGroup
from wengert.optim.optimizer import Optimizer
from wengert.optim.schedule import LRScheduler, checked, one_each


class CosineAnnealingLR(LRScheduler):
    """Down to `eta_min` in `T_max` epochs along half a cosine, and up again.

    >>> import wengert as wg
    >>> optimizer = wg.optim.SGD([wg.ones(2, requires_grad=True)], lr=1.0)
    >>> schedule = wg.optim.CosineAnnealingLR(optimizer, T_max=2)
    >>> schedule.step()
    >>> [round(v, 4) for v in schedule.get_last_lr()]
    [0.5]
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        if self._is_initial:
            return self._current()
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:  # from the bottom no factor leads up
            rise = (1 - math.cos(math.pi / self.T_max)) / 2
            return [lr + (base - self.eta_min) * rise for base, lr in zip(self.base_lrs, self._current())]
        factor = self._height(self.last_epoch) / self._height(self.last_epoch - 1)
        return [factor * (lr - self.eta_min) + self.eta_min for lr in self._current()]

    def _height(self, epoch: int) -> float:
        return 1 + math.cos(math.pi * epoch / self.T_max)


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half a cosine down to `eta_min` in `T_0` epochs, then again from the top in `T_mult` times as many, and so on.

    >>> import wengert as wg
    >>> optimizer = wg.optim.SGD([wg.ones(2, requires_grad=True)], lr=1.0)
    >>> schedule = wg.optim.CosineAnnealingWarmRestarts(optimizer, T_0=2)
    >>> schedule.step()
    >>> [round(v, 4) for v in schedule.get_last_lr()]
    [0.5]
    """

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        if T_0 < 1 or T_mult < 1 or not isinstance(T_0, int) or not isinstance(T_mult, int):
            raise ArgumentError(f"T_0 and T_mult are whole numbers from 1 on, not {T_0!r} and {T_mult!r}")
        self.T_0 = self.T_i = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        height = 1 + math.cos(math.pi * self.T_cur / self.T_i)
        return [self.eta_min + (base - self.eta_min) * height / 2 for base in self.base_lrs]

    def _first_lrs(self) -> list[float]:
        return self.get_lr()

    def step(self, epoch: float | None = None) -> None:
        """Go to the next epoch, or to any point in time: `step(epoch + batch / batches)`."""
        if epoch is None and self.last_epoch >= 0:
            self.last_epoch += 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur %= self.T_i
                self.T_i *= self.T_mult
        else:
            self._go_to(0 if epoch is None else epoch)
        self._set(self.get_lr())

    def _go_to(self, epoch: float) -> None:
        if epoch < 0:
            raise ArgumentError(f"step: an epoch from 0 on, not {epoch!r}")
        self.last_epoch = math.floor(epoch)
        if epoch < self.T_0:
            self.T_i, self.T_cur = self.T_0, epoch
        elif self.T_mult == 1:
            self.T_cur = epoch % self.T_0
        else:
            cycle = int(math.log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
            self.T_cur = epoch - self.T_0 * (self.T_mult**cycle - 1) / (self.T_mult - 1)
            self.T_i = self.T_0 * self.T_mult**cycle


Phase = tuple[float, str, str, str, str]


class OneCycleLR(LRScheduler):
    """Up to `max_lr` and down again in one cycle of `total_steps`, a step a batch (Smith and Topin, 2018).

    Starts at `max_lr / div_factor`, is at the top after `pct_start` of the steps, ends at the start divided by
    `final_div_factor`. With `cycle_momentum`, momentum (or the first beta) goes from `max_momentum` down to
    `base_momentum` and back. `three_phase`: down as it went up, and then on to the end.

    >>> import wengert as wg
    >>> optimizer = wg.optim.SGD([wg.ones(2, requires_grad=True)], lr=1.0)
    >>> schedule = wg.optim.OneCycleLR(optimizer, max_lr=1.0, total_steps=10)
    >>> schedule.step()
    >>> [round(v, 4) for v in schedule.get_last_lr()]
    [0.52]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | Sequence[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | Sequence[float] = 0.85,
        max_momentum: float | Sequence[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        groups = checked(optimizer).param_groups
        if total_steps is None and epochs is not None and steps_per_epoch is not None:
            total_steps = epochs * steps_per_epoch
        if total_steps is None or total_steps < 1:
            raise ArgumentError("OneCycleLR takes total_steps, or epochs and steps_per_epoch, from 1 on")
        if not 0 <= pct_start <= 1:
            raise ArgumentError(f"pct_start lies between 0 and 1, not {pct_start!r}")
        if anneal_strategy not in ("cos", "linear"):
            raise ArgumentError(f'anneal_strategy is "cos" or "linear", not {anneal_strategy!r}')
        if cycle_momentum and not {"momentum", "betas"} & optimizer.defaults.keys():
            raise ArgumentError(f"{type(optimizer).__name__} has no momentum to cycle: pass cycle_momentum=False")
        self.total_steps = total_steps
        self.anneal_strategy = anneal_strategy
        self.cycle_momentum = cycle_momentum
        self.phases = _phases(total_steps, pct_start, three_phase)
        tops = one_each("max_lr", max_lr, groups)
        starts = [top / div_factor for top in tops]
        self._lrs = {"start": starts, "top": tops, "end": [start / final_div_factor for start in starts]}
        self._momenta = {
            "high": one_each("max_momentum", max_momentum, groups),
            "low": one_each("base_momentum", base_momentum, groups),
        }
        if last_epoch == -1:
            for group, start in zip(groups, starts):
                group["initial_lr"] = start
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        if self.last_epoch > self.total_steps:
            raise ArgumentError(f"OneCycleLR: step {self.last_epoch} of a schedule of {self.total_steps} steps")
        done, lr_from, lr_to, momentum_from, momentum_to = self._phase()
        if self.cycle_momentum:
            ends = zip(self.optimizer.param_groups, self._momenta[momentum_from], self._momenta[momentum_to])
            for group, start, end in ends:
                _set_momentum(group, self._between(start, end, done))
        return [self._between(start, end, done) for start, end in zip(self._lrs[lr_from], self._lrs[lr_to])]

    def _first_lrs(self) -> list[float]:
        return self.get_lr()

    def _phase(self) -> Phase:
        """The phase now, with how much of it is done in place of its end."""
        start = 0.0
        for phase in self.phases:
            if self.last_epoch <= phase[0] or phase is self.phases[-1]:
                break
            start = phase[0]
        return (self.last_epoch - start) / (phase[0] - start), *phase[1:]

    def _between(self, start: float, end: float, done: float) -> float:
        if self.anneal_strategy == "linear":
            return (end - start) * done + start
        return end + (start - end) / 2.0 * (math.cos(math.pi * done) + 1)


def _phases(total: int, share: float, three: bool) -> list[Phase]:
    """The phases of one cycle: at which step each ends, and between which rates and momenta it goes."""
    up = (float(share * total) - 1, "start", "top", "high", "low")
    if not three:
        return [up, (total - 1, "top", "end", "low", "high")]
    down = (float(2 * share * total) - 2, "top", "start", "low", "high")
    return [up, down, (total - 1, "start", "end", "high", "high")]


class CyclicLR(LRScheduler):
    """Up from `base_lr` to `max_lr` and down again, cycle after cycle, a step a batch (Smith, 2017).

    `step_size_up` and `step_size_down` are the lengths of the halves. The height of a cycle is constant ("triangular"),
    halved each time ("triangular2") or falls with every step by `gamma` ("exp_range"); or `scale_fn` gives it, from the
    number of the cycle or of the step (`scale_mode` "cycle" or "iterations"). With `cycle_momentum`, momentum (or the
    first beta) goes the other way, between `max_momentum` and `base_momentum`.

    >>> import wengert as wg
    >>> optimizer = wg.optim.SGD([wg.tensor(0.0, requires_grad=True)], lr=1.0, momentum=0.9)
    >>> scheduler = wg.optim.CyclicLR(optimizer, base_lr=1.0, max_lr=3.0, step_size_up=2)
    >>> rates = []
    >>> for _ in range(5):
    ...     rates.append(scheduler.get_last_lr()[0])
    ...     scheduler.step()
    >>> rates
    [1.0, 2.0, 3.0, 2.0, 1.0]
    """

    _unsaved = ("optimizer", "_scale_fn")

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | Sequence[float],
        max_lr: float | Sequence[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | Sequence[float] = 0.8,
        max_momentum: float | Sequence[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:
        groups = checked(optimizer).param_groups
        if scale_fn is None and mode not in ("triangular", "triangular2", "exp_range"):
            raise ArgumentError(f'mode is "triangular", "triangular2" or "exp_range", not {mode!r}')
        if scale_mode not in ("cycle", "iterations"):
            raise ArgumentError(f'scale_mode is "cycle" or "iterations", not {scale_mode!r}')
        if cycle_momentum and not {"momentum", "betas"} & optimizer.defaults.keys():
            raise ArgumentError(f"{type(optimizer).__name__} has no momentum to cycle: pass cycle_momentum=False")
        self.total_size = float(step_size_up + (step_size_up if step_size_down is None else step_size_down))
        self.step_ratio = step_size_up / self.total_size
        self.mode = mode
        self.gamma = gamma
        self._scale_fn = scale_fn
        self.scale_mode = scale_mode if scale_fn else ("iterations" if mode == "exp_range" else "cycle")
        self.cycle_momentum = cycle_momentum
        self.max_lrs = one_each("max_lr", max_lr, groups)
        self.base_momentums = one_each("base_momentum", base_momentum, groups)
        self.max_momentums = one_each("max_momentum", max_momentum, groups)
        bases = one_each("base_lr", base_lr, groups)
        if last_epoch == -1:
            for group, base in zip(groups, bases):
                group["lr"] = base
                group["initial_lr"] = base
        super().__init__(optimizer, last_epoch)
        self.base_lrs = bases

    def get_lr(self) -> list[float]:
        cycle = math.floor(1 + self.last_epoch / self.total_size)
        done = 1.0 + self.last_epoch / self.total_size - cycle
        height = done / self.step_ratio if done <= self.step_ratio else (done - 1) / (self.step_ratio - 1)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            for group, low, high in zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums):
                _set_momentum(group, high - (high - low) * height * scale)
        return [low + (high - low) * height * scale for low, high in zip(self.base_lrs, self.max_lrs)]

    def scale_fn(self, x: float) -> float:
        """The height of a cycle, as a share of the first."""
        if self._scale_fn is not None:
            return self._scale_fn(x)
        if self.mode == "triangular2":
            return 1 / (2.0 ** (x - 1))
        return self.gamma**x if self.mode == "exp_range" else 1.0

    def _first_lrs(self) -> list[float]:
        return self.get_lr()


def _set_momentum(group: ParameterGroup, value: float) -> None:
    if "betas" in group:
        group["betas"] = (value, *group["betas"][1:])
    else:
        group["momentum"] = value
