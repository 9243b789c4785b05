"""Collectives of objects of Python: anything that pickles, as bytes between the ranks."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np

from wengert.core.graph import Node
from wengert.ops.core import data
from wengert.tensor import engine
from wengert.torch import distributed
from wengert.torch.tensor import Tensor


def _of_all(value: Any) -> list[Any]:
    """The objects of all ranks."""
    sent = np.frombuffer(pickle.dumps(value), np.uint8)
    lengths = _rows(data(np.array([sent.size], np.int64)))[:, 0]
    padded = np.zeros(int(lengths.max()), np.uint8)
    padded[: sent.size] = sent
    return [pickle.loads(row[:length].tobytes()) for row, length in zip(_rows(data(padded)), lengths)]


def _rows(mine: Node) -> np.ndarray[Any, Any]:
    """The arrays of all ranks, one below the other."""
    return np.asarray(engine.value(distributed._gathered(Tensor(mine)).node))


def all_gather_object(object_list: list[Any], obj: Any, group: Any = None) -> None:
    """Fill a list with the ranks' objects."""
    object_list[:] = _of_all(obj)


def gather_object(obj: Any, object_gather_list: list[Any] | None = None, dst: int = 0, group: Any = None) -> None:
    """Fill the list of rank `dst` with the ranks' objects."""
    every = _of_all(obj)
    if distributed.get_rank() == dst and object_gather_list is not None:
        object_gather_list[:] = every


def broadcast_object_list(object_list: list[Any], src: int = 0, group: Any = None, device: Any = None) -> None:
    """Fill a list with the contents of the list on rank `src`."""
    is_source = distributed.get_rank() == src
    object_list[:] = _of_all(object_list if is_source else None)[src]


def scatter_object_list(
    scatter_object_output_list: list[Any], scatter_object_input_list: Any = None, src: int = 0, group: Any = None
) -> None:
    """Set the first element of a list to this rank's object from the list on rank `src`."""
    is_source = distributed.get_rank() == src
    every = _of_all(scatter_object_input_list if is_source else None)[src]
    scatter_object_output_list[0] = every[distributed.get_rank()]
