"""Stochastic weight averaging (Izmailov et al., 2018): a model that is the average of another's, and its learning rate.

`AveragedModel` keeps the average, `SWALR` brings the learning rate to where the averaging happens, and `update_bn`
works out the running statistics of the averaged model. `get_ema_avg_fn` makes it an exponential moving average.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import wengert as wg
from wengert import Tensor
from wengert.core.errors import ArgumentError
from wengert.nn import Module
from wengert.nn.normalization import _BatchNorm
from wengert.optim.optimizer import Optimizer
from wengert.optim.schedule import LRScheduler, checked, one_each

AverageFn = Callable[[Tensor, Tensor, Tensor], Tensor]
MultiAverageFn = Callable[[Sequence[Tensor], Sequence[Tensor], Tensor], None]


class AveragedModel(Module):
    """A copy of a model whose parameters are averages of the model's, over the calls of `update_parameters`.

    The average gives all the same weight, unless `avg_fn(average, parameter, count)` says otherwise, or
    `multi_avg_fn(averages, parameters, count)`, which assigns to a list of them. With `use_buffers` the buffers are
    averaged too; without it they are copied. The first call copies the parameters.

    >>> import wengert as wg
    >>> model = wg.nn.Linear(1, 1, bias=False)
    >>> average = wg.optim.AveragedModel(model)
    >>> for value in (1.0, 2.0, 6.0):
    ...     _ = model.weight.assign(wg.full((1, 1), value))
    ...     average.update_parameters(model)
    >>> average(wg.ones((1, 1))).item(), average.n_averaged.item()
    (3.0, 3)
    """

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: AverageFn | None = None,
        multi_avg_fn: MultiAverageFn | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise ArgumentError("AveragedModel takes avg_fn or multi_avg_fn, not both")
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", wg.tensor(0, dtype=wg.int64, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Take the parameters that a model has now into the average."""
        with wg.no_grad():
            averages, values = self._averaged(self.module), self._averaged(model)
            count: Tensor = self.n_averaged
            is_first = count == 0
            before = [average.detach() for average in averages]
            if self.multi_avg_fn is not None:
                self.multi_avg_fn(averages, [value.detach().to(a.device) for a, value in zip(averages, values)], count)
            else:
                function = self.avg_fn or get_swa_avg_fn()
                for average, value in zip(averages, values):
                    new = function(average.detach(), value.detach().to(average.device), count)
                    average.assign(new.to(average.dtype))
            for average, value, old in zip(averages, values, before):
                average.assign(wg.where(is_first, value.detach().to(old.device).to(old.dtype), average))
            if not self.use_buffers:
                for mine, theirs in zip(self.module.buffers(), model.buffers()):
                    mine.assign(theirs.detach().to(mine.device))
            count.assign(count + 1)

    def _averaged(self, model: Module) -> list[Tensor]:
        return [*model.parameters(), *(model.buffers() if self.use_buffers else ())]


def get_swa_avg_fn() -> AverageFn:
    """The function for `AveragedModel` that gives every model the same weight.

    >>> import wengert as wg
    >>> model = wg.nn.Linear(2, 1)
    >>> averaged = wg.optim.AveragedModel(model, avg_fn=wg.optim.get_swa_avg_fn())
    >>> averaged.update_parameters(model)
    >>> averaged(wg.ones((1, 2))).shape
    (1, 1)
    """
    return lambda average, value, count: average + (value - average) / (count + 1).astype(_floating(average))


def get_ema_avg_fn(decay: float = 0.999) -> AverageFn:
    """The function for `AveragedModel` that gives decay * average + (1 - decay) * parameter.

    >>> import wengert as wg
    >>> model = wg.nn.Linear(2, 1)
    >>> averaged = wg.optim.AveragedModel(model, avg_fn=wg.optim.get_ema_avg_fn(0.9))
    >>> averaged.update_parameters(model)
    >>> averaged(wg.ones((1, 2))).shape
    (1, 1)
    """
    if not 0 <= decay <= 1:
        raise ArgumentError(f"decay lies between 0 and 1, not {decay!r}")
    return lambda average, value, count: average * decay + value * (1 - decay)


def get_swa_multi_avg_fn() -> MultiAverageFn:
    """`get_swa_avg_fn` over lists of tensors.

    >>> import wengert as wg
    >>> model = wg.nn.Linear(2, 1)
    >>> averaged = wg.optim.AveragedModel(model, multi_avg_fn=wg.optim.get_swa_multi_avg_fn())
    >>> averaged.update_parameters(model)
    >>> averaged(wg.ones((1, 2))).shape
    (1, 1)
    """
    return _over_lists(get_swa_avg_fn())


def get_ema_multi_avg_fn(decay: float = 0.999) -> MultiAverageFn:
    """`get_ema_avg_fn` over lists of tensors.

    >>> import wengert as wg
    >>> model = wg.nn.Linear(2, 1)
    >>> averaged = wg.optim.AveragedModel(model, multi_avg_fn=wg.optim.get_ema_multi_avg_fn(0.9))
    >>> averaged.update_parameters(model)
    >>> averaged(wg.ones((1, 2))).shape
    (1, 1)
    """
    return _over_lists(get_ema_avg_fn(decay))


def _over_lists(function: AverageFn) -> MultiAverageFn:
    def assign_all(averages: Sequence[Tensor], values: Sequence[Tensor], count: Tensor) -> None:
        with wg.no_grad():
            for average, value in zip(averages, values):
                average.assign(function(average, value, count).to(average.dtype))

    return assign_all


def _floating(tensor: Tensor) -> Any:
    """The dtype to average a tensor in: whole numbers are divided in float32."""
    return tensor.dtype if wg.isdtype(tensor.dtype, "real floating") else wg.float32


def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Work out the running statistics of a model's batch norms anew, as averages over the batches of `loader`.

    A batch is a tensor, or a list or tuple whose first part is the model's input.

    >>> import wengert as wg
    >>> model = wg.nn.BatchNorm1d(2)
    >>> wg.optim.update_bn([wg.ones((4, 2)), 3 * wg.ones((4, 2))], model)
    >>> model.running_mean.tolist()
    [2.0, 2.0]
    """
    norms = [module for module in model.modules() if isinstance(module, _BatchNorm)]
    if not norms:
        return
    momenta = [norm.momentum for norm in norms]
    was_training = model.training
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None  # the average of all batches
    model.train()
    with wg.no_grad():
        for batch in loader:
            batch = batch[0] if isinstance(batch, (list, tuple)) else batch
            batch = wg.asarray(batch)
            model(batch if device is None else batch.to(device))
    for norm, momentum in zip(norms, momenta):
        norm.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """To `swa_lr` in `anneal_epochs` epochs, along a cosine ("cos") or a line ("linear"), and constant from there on.

    >>> import wengert as wg
    >>> optimizer = wg.optim.SGD([wg.tensor(0.0, requires_grad=True)], lr=1.0)
    >>> scheduler = wg.optim.SWALR(optimizer, swa_lr=0.5, anneal_epochs=2, anneal_strategy="linear")
    >>> for _ in range(3):
    ...     scheduler.step()
    >>> scheduler.get_last_lr()
    [0.5]
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | Sequence[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        if anneal_strategy not in ("cos", "linear"):
            raise ArgumentError(f'anneal_strategy is "cos" or "linear", not {anneal_strategy!r}')
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ArgumentError(f"anneal_epochs is a whole number from 0 on, not {anneal_epochs!r}")
        self.swa_lrs = one_each("swa_lr", swa_lr, checked(optimizer).param_groups)
        self.anneal_epochs = anneal_epochs
        self.anneal_strategy = anneal_strategy
        self._step_count = 0
        super().__init__(optimizer, last_epoch)

    def step(self) -> None:
        self._step_count += 1
        super().step()

    def get_lr(self) -> list[float]:
        step = max(1, self._step_count - 1) if self.anneal_epochs == 0 else self._step_count - 1
        before, now = self._share(step - 1), self._share(step)
        return [
            swa_lr * now + (swa_lr if before == 1 else (lr - before * swa_lr) / (1 - before)) * (1 - now)
            for swa_lr, lr in zip(self.swa_lrs, self._current())
        ]

    def restart(self) -> None:
        self._step_count = 1
        super().restart()

    def _share(self, step: int) -> float:
        """How much of the way is gone after so many steps."""
        done = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return done if self.anneal_strategy == "linear" else (1 - math.cos(math.pi * done)) / 2
