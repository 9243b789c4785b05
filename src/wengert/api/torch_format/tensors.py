"""Tensors of ours in PyTorch's files: what is made of those that are read, and how ours are described.

Storages stay shared: tensors that are the same elements of one storage are one tensor (weights that are tied), others
that lie in it share its memory. What is no run of elements has to be copied, within bounds.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from wengert.api.creation import tensor
from wengert.api.torch_format.storages import DTYPES, Problem, Storage, TensorInStorage
from wengert.core.devices import HOST
from wengert.tensor import Tensor

MOST_COPIED = 1 << 30
"""Bytes that strided and expanded tensors may take beside their storages, and 4 times the storages."""


class TensorMaker:
    """Makes tensors from a file's contents, each distinct one once, on the host or on the device `map_location`
    chose."""

    def __init__(self, is_mapped: bool) -> None:
        self._is_mapped = is_mapped
        self._made: dict[Any, Tensor] = {}
        self._storages: dict[str, int] = {}
        self._copied = 0

    def tensor(self, stored: TensorInStorage) -> Tensor:
        """The tensor."""
        key = (stored.storage.key, stored.dtype, *stored[2:])
        if key not in self._made:
            self._made[key] = self._new(stored)
        return self._made[key]

    def parameter(self, data: Any, requires_grad: bool) -> Any:
        """The same tensor, which requires grad if the parameter did."""
        if requires_grad and isinstance(data, Tensor):
            data.requires_grad_()
        return data

    def _new(self, stored: TensorInStorage) -> Tensor:
        self._storages[stored.storage.key] = stored.storage.nbytes
        if not stored.is_whole:
            self._copied += stored.size * stored.dtype.read.itemsize
            if self._copied > MOST_COPIED + 4 * sum(self._storages.values()):
                raise Problem(f"its views and expanded tensors would take {self._copied:,} bytes")
        array = np.ascontiguousarray(stored.array()).reshape(stored.shape)
        device = stored.storage.location if self._is_mapped else HOST
        return tensor(array, device=device, requires_grad=stored.requires_grad, copy=False)


def described(value: Any) -> TensorInStorage | None:
    """One of our tensors as a PyTorch file describes it: contiguous, in a storage of its own."""
    if not isinstance(value, Tensor):
        return None
    array = Tensor.numpy(Tensor.detach(value))
    array = array if array.flags.c_contiguous else array.copy(order="C")
    strides, step = [], 1
    for size in reversed(array.shape):
        strides.append(step)
        step *= max(size, 1)
    dtype = DTYPES[array.dtype.name]
    storage = Storage("", array.reshape(-1).view(np.uint8), dtype, HOST)
    grad = value.requires_grad and value.is_leaf
    return TensorInStorage(storage, dtype, 0, array.shape, tuple(reversed(strides)), grad)
