"""MLP: linear layers with an activation between them, made the way micrograd makes one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import wengert as wg
from wengert import nn
from wengert.distributed import Split


class MLP(nn.Module):
    """A multilayer perceptron from `nin` features through each of `nouts`; the activation follows all layers but the
    last.

    The parameters are `layers.0.weight`, `layers.0.bias`, `layers.1.weight`, ...

    >>> import wengert as wg
    >>> model = wg.models.MLP(300, [300, 300, 1])
    >>> model(wg.zeros((100, 300))).shape, sum(p.size for p in model.parameters())
    ((100, 1), 180901)
    """

    def __init__(
        self,
        nin: int,
        nouts: Sequence[int],
        activation: Callable[[wg.Tensor], wg.Tensor] = wg.relu,
        *,
        bias: bool = True,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if not nouts:
            raise wg.errors.ArgumentError(
                "MLP: nouts is empty; it must have the output size of each layer, such as [300, 1]"
            )
        sizes = [nin, *nouts]
        self.activation = activation
        self.layers = nn.ModuleList(nn.Linear(a, b, bias, dtype=dtype) for a, b in pairwise(sizes))

    def forward(self, x: wg.Tensor) -> wg.Tensor:
        """(..., nin) to (..., nouts[-1])."""
        *hidden, last = self.layers
        for layer in hidden:
            x = self.activation(layer(x))
        return last(x)

    @property
    def tensor_plan(self) -> dict[str, Any]:
        """How to split the parameters for tensor parallelism (`wg.distributed.place`): of two consecutive layers the
        first along its outputs, the second along its inputs, with one all-reduce after them. Sizes that do not divide
        stay whole.
        """
        plan: dict[str, Any] = {}
        for number, layer in enumerate(self.layers):
            if number % 2:
                plan[f"layers.{number}.weight"] = (Split(1, "tensor"), None)
            elif number + 1 < len(self.layers):
                plan[f"layers.{number}.weight"] = (Split(0, "tensor"), None)
                plan |= {} if layer.bias is None else {f"layers.{number}.bias": (Split(0, "tensor"), None)}
        return plan
