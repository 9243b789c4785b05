"""A sample of OpInfo as data: its tensors as NumPy arrays, and how they are put back among the other arguments."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

MEANINGLESS_HERE = {"device", "layout", "memory_format", "pin_memory", "requires_grad", "out"}


@dataclass(frozen=True)
class Place:
    """Where an array of a sample stands."""

    index: int


@dataclass
class Sample:
    """The arguments of one call, in which a Place stands for each tensor."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    arrays: list[np.ndarray]
    moving: list[int]  # the arrays that derivatives are taken by

    def filled(self, tensors: list[Any], rewrite: Callable[[Any], Any] = lambda leaf: leaf) -> tuple[Any, Any]:
        """The arguments with tensors in their places, and everything else rewritten."""

        def put(leaf: Any) -> Any:
            return tensors[leaf.index] if isinstance(leaf, Place) else rewrite(leaf)

        return mapped(put, self.args), mapped(put, self.kwargs)

    def __str__(self) -> str:
        def show(leaf: Any) -> Any:
            if not isinstance(leaf, Place):
                return leaf
            array = self.arrays[leaf.index]
            return Shown(f"{array.dtype}{list(array.shape)}" + (f"={array.tolist()}" if array.size <= 6 else ""))

        args = [repr(mapped(show, arg)) for arg in self.args]
        return ", ".join(args + [f"{key}={mapped(show, value)!r}" for key, value in self.kwargs.items()])


class Shown(str):
    """A text that is its own repr."""

    def __repr__(self) -> str:
        return str(self)


def mapped(function: Callable[[Any], Any], value: Any) -> Any:
    """Nested containers with a function applied to every leaf."""
    if isinstance(value, torch.Size):
        value = tuple(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*[mapped(function, item) for item in value])
    if isinstance(value, (list, tuple)):
        return type(value)([mapped(function, item) for item in value])
    if isinstance(value, dict):
        return {key: mapped(function, item) for key, item in value.items()}
    return function(value)


def leaves(value: Any) -> list[Any]:
    """The leaves of nested containers."""
    found: list[Any] = []
    mapped(found.append, value)
    return found


def taken_apart(sample: Any) -> Sample:
    """An OpInfo sample as data."""
    arrays: list[np.ndarray] = []
    moving: list[int] = []

    def take(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if leaf.requires_grad:
            moving.append(len(arrays))
        arrays.append(array_of(leaf).copy())
        return Place(len(arrays) - 1)

    args = mapped(take, (sample.input, *sample.args))
    return Sample(args, mapped(take, sample.kwargs), arrays, moving)


def array_of(tensor: torch.Tensor) -> np.ndarray:
    """The values of a torch tensor."""
    tensor = tensor.float() if tensor.dtype is torch.bfloat16 else tensor
    return tensor.numpy(force=True)


def for_wengert(leaf: Any) -> Any:
    """A leaf that is no tensor as Wengert takes it: a dtype of torch becomes one of NumPy."""
    if isinstance(leaf, torch.dtype):
        return np.dtype(str(leaf).removeprefix("torch."))
    return leaf
