"""The steps of training: one update, one accumulation, one evaluation, each a program when compiled.

In: batches. Out: 0-d tensors by name. An update that would make a parameter infinite or NaN is skipped, by selection in
the graph: the model then stays unchanged, and the batch can be inspected.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import wengert as wg
from wengert import nn, optim
from wengert.core.errors import ShapeError
from wengert.core.mesh import Mesh
from wengert.train.task import Objective

HALVES = {"bfloat16": wg.bfloat16, "float16": wg.float16}
Values = dict[str, wg.Tensor]


class Steps:
    """The steps over a model, an optimizer and an objective. `update`, `accumulate` and `evaluate` take a batch."""

    def __init__(
        self,
        model: nn.Module,
        optimizer: optim.Optimizer,
        objective: Objective,
        *,
        clip: float = 0.0,
        accumulated: int = 1,
        dtype: str = "float32",
        compiled: bool = True,
        tune: float = 0.0,
        mesh: Mesh | None = None,
    ) -> None:
        self.model = model
        self.optimizer = optimizer
        self.objective = objective
        self.clip = clip
        self.accumulated = accumulated
        self.half = HALVES.get(dtype)
        self.parameters = [p for p in model.parameters() if p.requires_grad]
        self.scaler = optim.GradScaler(enabled=dtype == "float16", device=self.parameters[0].device)
        self.sums = [wg.zeros_like(p) for p in self.parameters] if accumulated > 1 else []
        made: Callable[[Any], Any] = (
            partial(wg.compile, tune=tune, mesh=mesh) if compiled else (lambda function: function)
        )
        self.update = made(self._update)
        self.accumulate = made(self._accumulate)
        self.evaluate = made(self._evaluate)

    # --- training -----------------------------------------------------------------------------------------------------

    def _accumulate(self, *batch: wg.Tensor) -> Values:
        """Add a batch's gradients to the sums."""
        means = self._backward(batch)
        with wg.no_grad():
            for total, parameter in zip(self.sums, self.parameters):
                total.assign(total + _gradient(parameter))
        self.optimizer.zero_grad()
        return means

    def _update(self, *batch: wg.Tensor) -> Values:
        """Change the parameters by a batch's gradients, and those in the sums."""
        means = self._backward(batch)
        with wg.no_grad():
            for total, parameter in zip(self.sums, self.parameters):
                parameter.grad = total + _gradient(parameter)
                total.assign(wg.zeros_like(total))
        if self.scaler.is_enabled():
            self.scaler.unscale_(self.optimizer)
        norm = self._norm()
        if self.scaler.is_enabled():
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            self.optimizer.step(skip=~wg.isfinite(norm + means["loss"]))
        self.optimizer.zero_grad()
        return {**means, "norm": norm}

    def _backward(self, batch: tuple[wg.Tensor, ...]) -> Values:
        self.optimizer.zero_grad()
        with self._precision():
            values = self._values(batch)
            weight = values.pop("weight", None)
            means = {name: _mean(value, weight) for name, value in values.items()}
        self.scaler.scale(means["loss"] / self.accumulated).backward()
        return {name: mean.detach() for name, mean in means.items()}

    def look_closely(self, batch: tuple[wg.Tensor, ...]) -> None:
        """Compute the loss and the gradients of a batch dynamically, and check each value for NaN and infinities."""
        for value in self._backward(batch).values():
            float(value)
        for parameter in self.parameters:
            if parameter.grad is not None:
                parameter.grad.numpy()

    def _norm(self) -> wg.Tensor:
        """The norm of all gradients, which are scaled down to the limit if there is one."""
        if self.clip:
            return optim.clip_grad_norm_(self.parameters, self.clip)
        with wg.no_grad():
            norms = [wg.norm(p.grad.to(wg.float32)) for p in self.parameters if p.grad is not None]
            return wg.norm(wg.stack(norms))

    # --- evaluating ---------------------------------------------------------------------------------------------------

    def _evaluate(self, *batch: wg.Tensor) -> Values:
        """The weighted sums of a batch's values, and of its weights; the weights are the batch's last array."""
        *inputs, example_weights = batch
        with wg.no_grad(), self._precision():
            values = self._values(tuple(inputs))
            shape = values["loss"].shape
            weight = example_weights.reshape((-1,) + (1,) * (len(shape) - 1)) * wg.ones(shape, device=batch[-1].device)
            if "weight" in values:
                weight = weight * values.pop("weight").to(weight.dtype)
            sums = {name: wg.sum(wg.where(weight > 0, v.to(weight.dtype), 0) * weight) for name, v in values.items()}
        return {**sums, "weight": wg.sum(weight)}

    def _values(self, batch: tuple[wg.Tensor, ...]) -> Values:
        values = dict(self.objective(self.model, *batch))
        if "loss" not in values or values["loss"].ndim == 0:
            found = values["loss"].shape if "loss" in values else "none"
            raise ShapeError(
                "an objective must return a dict with one loss for each example, (N,), so that an evaluation can "
                f"ignore padding; its loss here is {found}. Pass reduction='none' to the loss"
            )
        return values

    def _precision(self) -> AbstractContextManager[None]:
        return nullcontext() if self.half is None else wg.autocast(self.half)


def _mean(value: wg.Tensor, weight: wg.Tensor | None) -> wg.Tensor:
    value = value if wg.isdtype(value.dtype, "real floating") else value.to(wg.float32)
    if weight is None:
        return wg.mean(value)
    weight = weight.to(value.dtype)
    return wg.sum(value * weight) / wg.maximum(wg.sum(weight), 1.0)


def _gradient(parameter: wg.Tensor) -> wg.Tensor:
    return wg.zeros_like(parameter) if parameter.grad is None else parameter.grad
