"""Loss scaling, so that small gradients do not vanish in float16, entirely in graph operations.

The loss is multiplied by a scale before the backward pass and the gradients are divided by it. When one of them is not
finite the optimizer's step is skipped, by selecting the old values, and the scale shrinks; after a while without that
it grows. Nothing reads a value, so a compiled step can contain it all.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import wengert as wg
from wengert import Tensor
from wengert.core.errors import ArgumentError, GradientError
from wengert.optim.groups import put
from wengert.optim.optimizer import Optimizer, working_dtype


class GradScaler:
    """PyTorch's GradScaler: scales a loss, unscales the gradients, and skips steps with infinite or NaN gradients.

    `device` is the device of the loss and the parameters.

    >>> import wengert as wg
    >>> w = wg.tensor(2.0, requires_grad=True)
    >>> optimizer, scaler = wg.optim.SGD([w], lr=0.25), wg.optim.GradScaler()
    >>> scaler.scale(w * w).backward()
    >>> scaler.step(optimizer)
    >>> scaler.update()
    >>> w.item(), scaler.get_scale()
    (1.0, 65536.0)
    """

    def __init__(
        self,
        init_scale: float = 65536.0,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
        device: str | None = None,
    ) -> None:
        if growth_factor <= 1 or not 0 < backoff_factor < 1:
            raise ArgumentError(
                f"the growth factor must be above 1 and the backoff factor between 0 and 1, not {growth_factor!r} and "
                f"{backoff_factor!r}"
            )
        self.growth_factor = growth_factor
        self.backoff_factor = backoff_factor
        self.growth_interval = growth_interval
        self.enabled = enabled
        self._scale = wg.tensor(np.float32(init_scale), device=device)
        self._growth_tracker = wg.tensor(np.int32(0), device=device)
        self._found_inf = wg.tensor(np.False_, device=device)  # in any optimizer's gradients since the last update
        self._unscaled: dict[Optimizer, Tensor] = {}  # since the last update: whether it found what is not finite
        self._stepped: set[Optimizer] = set()

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
        wg.config.changed()

    def scale(self, outputs: Any) -> Any:
        """Multiply the loss (or a nested container of losses) by the scale."""
        if not self.enabled:
            return outputs
        return wg.tree.map(lambda output: output * self._scale.to(output.dtype), outputs)

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divide the gradients of an optimizer's parameters by the scale, and check whether all are finite.

        `step` does this too; call it yourself before clipping the gradients.
        """
        if not self.enabled:
            return
        if optimizer in self._unscaled or optimizer in self._stepped:
            raise GradientError("unscale_: this optimizer's gradients were already unscaled since the last update()")
        gradients = [p.grad for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        if not gradients:
            raise GradientError("unscale_: none of the optimizer's parameters has a gradient; call backward() first")
        with wg.no_grad():
            inverse = 1 / self._scale.to(wg.float64)
            for gradient in gradients:
                dtype = working_dtype(gradient)
                gradient.assign(gradient.to(dtype) * inverse.to(dtype))
            found = wg.any(wg.stack([~wg.all(wg.isfinite(gradient)) for gradient in gradients]))
            self._found_inf.assign(self._found_inf | found)
        self._unscaled[optimizer] = found

    def step(self, optimizer: Optimizer) -> None:
        """Run the optimizer's step with unscaled gradients; skip it if any of them is not finite."""
        if not self.enabled:
            optimizer.step()
            return
        if optimizer in self._stepped:
            raise GradientError("step: this optimizer has already stepped since the last update()")
        if optimizer not in self._unscaled:
            self.unscale_(optimizer)
        optimizer.step(skip=self._unscaled.pop(optimizer))
        self._stepped.add(optimizer)

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Adapt the scale after all optimizers have stepped: shrink it after a skipped step, grow it after many good
        ones.

        `new_scale` sets it instead.
        """
        if not self.enabled:
            return
        if new_scale is not None:
            put(self._scale, new_scale)
        elif not self._stepped and not self._unscaled:
            raise GradientError("update: there was no step() since the last update()")
        else:
            with wg.no_grad():
                self._adapt()
        self._found_inf.assign(np.False_)
        self._unscaled.clear()
        self._stepped.clear()

    def _adapt(self) -> None:
        successes = self._growth_tracker + 1
        is_due = successes == self.growth_interval
        grown = self._scale * self.growth_factor
        larger = wg.where(is_due & wg.isfinite(grown), grown, self._scale)
        self._scale.assign(wg.where(self._found_inf, self._scale * self.backoff_factor, larger))
        self._growth_tracker.assign(wg.where(self._found_inf | is_due, 0, successes))

    def get_scale(self) -> float:
        """The current scale; reads the value."""
        return float(self._scale) if self.enabled else 1.0

    def is_enabled(self) -> bool:
        """Whether the scaler is enabled."""
        return self.enabled

    def state_dict(self) -> dict[str, Any]:
        """The scaler's current state; call it after `update`. It is empty if the scaler is not enabled."""
        if not self.enabled:
            return {}
        return {
            "scale": self._scale.detach(),
            "growth_factor": self.growth_factor,
            "backoff_factor": self.backoff_factor,
            "growth_interval": self.growth_interval,
            "_growth_tracker": self._growth_tracker.detach(),
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a state that `state_dict()` returned, here or in PyTorch."""
        if not self.enabled:
            return
        if not state_dict:
            raise ArgumentError("load_state_dict: the state is empty; was it saved from a disabled scaler?")
        put(self._scale, state_dict["scale"])
        put(self._growth_tracker, state_dict["_growth_tracker"])
        for name in ("growth_factor", "backoff_factor", "growth_interval"):
            setattr(self, name, state_dict[name])
