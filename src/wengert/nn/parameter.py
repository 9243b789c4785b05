"""Parameter: a Tensor that a Module learns. It is an ordinary slot, and requires grad by default."""

from __future__ import annotations

from typing import Any

import wengert as wg


class Parameter(wg.Tensor):
    """A Tensor that becomes a parameter of a Module when it is set as an attribute.

    >>> import wengert as wg
    >>> weight = wg.nn.Parameter(wg.zeros((2, 3)))
    >>> weight.requires_grad, weight.shape
    (True, (2, 3))
    """

    __slots__ = ()

    def __init__(self, data: Any, requires_grad: bool = True) -> None:
        value = data if isinstance(data, wg.Tensor) else wg.tensor(data)
        super().__init__(value.detach().node)
        self.requires_grad = requires_grad

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        twin = memo[id(self)] = Parameter(self, self.requires_grad)
        return twin

    def __reduce__(self) -> Any:
        return Parameter, (self.detach().numpy(), self.requires_grad)

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"
