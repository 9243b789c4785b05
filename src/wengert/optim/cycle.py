"""Learning rates that come and go: along a cosine, with warm restarts, or in one cycle."""

from __future__ import annotations

import math
from collections.abc import Sequence

from wengert.core.errors import ArgumentError
from wengert.optim.groups import ParameterGroup
from wengert.optim.optimizer import Optimizer
from wengert.optim.schedule import LRScheduler, checked, one_each


class CosineAnnealingLR(LRScheduler):
    """Down to `eta_min` in `T_max` epochs along half a cosine, and up again."""

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
    """Half a cosine down to `eta_min` in `T_0` epochs, then again from the top in `T_mult` times as many, and so on."""

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


def _set_momentum(group: ParameterGroup, value: float) -> None:
    if "betas" in group:
        group["betas"] = (value, *group["betas"][1:])
    else:
        group["momentum"] = value
