"""Modules that only pass a value on, or give it another shape."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import wengert as wg
from wengert.nn.module import Module


class Identity(Module):
    """Gives back what it takes; other arguments to make one are ignored.

    >>> import wengert as wg
    >>> wg.nn.Identity()(wg.tensor([1.0, 2.0])).tolist()
    [1.0, 2.0]
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Any) -> Any:
        """The input."""
        return input


class Flatten(Module):
    """The axes from `start_dim` to `end_dim` as one.

    >>> import wengert as wg
    >>> wg.nn.Flatten()(wg.zeros((2, 3, 4, 5))).shape
    (2, 60)
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: wg.Tensor) -> wg.Tensor:
        """The same elements with fewer axes."""
        return wg.flatten(input, self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        """The axes."""
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """The axis `dim` as several, of these sizes; one may be -1.

    >>> import wengert as wg
    >>> wg.nn.Unflatten(1, (2, 3))(wg.ones((4, 6))).shape
    (4, 2, 3)
    """

    def __init__(self, dim: int, unflattened_size: Iterable[int]) -> None:
        super().__init__()
        self.dim = dim
        self.unflattened_size = tuple(unflattened_size)

    def forward(self, input: wg.Tensor) -> wg.Tensor:
        """The same elements with more axes."""
        at = self.dim if self.dim >= 0 else self.dim + input.ndim
        if not 0 <= at < input.ndim:
            raise wg.errors.ShapeError(f"Unflatten: there is no axis {self.dim} in shape {input.shape}")
        return wg.reshape(input, (*input.shape[:at], *self.unflattened_size, *input.shape[at + 1 :]))

    def extra_repr(self) -> str:
        """The axis and the sizes."""
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
