"""An exponential moving average of parameters, to evaluate with."""

from __future__ import annotations

from collections.abc import Iterable
from types import TracebackType
from typing import Any

import wengert as wg
from wengert import Tensor
from wengert.core.errors import ArgumentError, AssignmentError, ShapeError
from wengert.optim.optimizer import working_dtype


class ExponentialMovingAverage:
    """Averages of parameters that follow them slowly: average = decay * average + (1 - decay) * parameter.

    Takes a module or tensors. Call `update()` after every optimizer step; evaluate inside `with average.apply():`, or
    between `apply()` and `restore()`. The averages are Tensors and an update only records, so a compiled step can
    contain it.

    >>> import wengert as wg
    >>> w = wg.tensor(0.0, requires_grad=True)
    >>> average = wg.optim.ExponentialMovingAverage([w], decay=0.75)
    >>> _ = w.assign(4.0)
    >>> average.update()
    >>> with average.apply():
    ...     w.item()
    1.0
    >>> w.item()
    4.0
    """

    def __init__(self, parameters: Any, decay: float = 0.999) -> None:
        if not 0 <= decay <= 1:
            raise ArgumentError(f"decay must be between 0 and 1, not {decay!r}")
        self.decay = decay
        self.parameters = _tensors_of(parameters)
        # Halves would round the small steps of an average away.
        self.averages = [p.detach().to(working_dtype(p)).clone() for p in self.parameters]
        self._held: list[Tensor] | None = None

    def __setattr__(self, name: str, value: Any) -> None:
        object.__setattr__(self, name, value)
        wg.config.changed()

    def update(self) -> None:
        """Move the averages towards the parameters."""
        with wg.no_grad():
            for average, parameter in zip(self.averages, self.parameters):
                average.assign(average + (parameter.to(average.dtype) - average) * (1.0 - self.decay))

    def apply(self) -> ExponentialMovingAverage:
        """Set the parameters to their averages, until `restore()` or the end of the `with` block."""
        if self._held is not None:
            raise AssignmentError("apply: the parameters already hold their averages; call restore() first")
        self._held = [parameter.detach() for parameter in self.parameters]
        self._assign(self.averages)
        return self

    def restore(self) -> None:
        """Restore the parameters' values from before `apply()`."""
        if self._held is None:
            raise AssignmentError("restore: the parameters hold their own values; call apply() first")
        self._assign(self._held)
        self._held = None

    def __enter__(self) -> ExponentialMovingAverage:
        if self._held is None:
            self.apply()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.restore()

    def _assign(self, values: list[Tensor]) -> None:
        with wg.no_grad():
            for parameter, value in zip(self.parameters, values):
                parameter.assign(value.detach())

    def state_dict(self) -> dict[str, Any]:
        """The decay and the current averages, in the parameters' order."""
        return {"decay": self.decay, "averages": [average.detach() for average in self.averages]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a state that `state_dict()` returned."""
        loaded = [wg.asarray(value) for value in state_dict["averages"]]
        shapes, found = [a.shape for a in self.averages], [value.shape for value in loaded]
        if shapes != found:
            raise ShapeError(f"load_state_dict: averages of shapes {found} for parameters of shapes {shapes}")
        self.decay = state_dict["decay"]
        for average, value in zip(self.averages, loaded):
            average.assign(value.detach())


def _tensors_of(parameters: Any) -> list[Tensor]:
    """The tensors of a module, or of a list of tensors or (name, tensor) pairs."""
    found: Iterable[Any] = parameters.parameters() if hasattr(parameters, "parameters") else parameters
    tensors = [item[1] if isinstance(item, tuple) else item for item in found]
    if not tensors:
        raise ArgumentError(
            "there are no parameters to average: the list is empty (or an iterator that was used up before)"
        )
    return tensors
