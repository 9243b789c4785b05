"""Messages from one rank to one other."""

from __future__ import annotations

from typing import Any

import numpy as np

from wengert.ops.core import data
from wengert.tensor import engine
from wengert.torch import distributed
from wengert.torch.tensor import Tensor


def _pair(other: int, verb: str) -> Any:
    """What carries messages, if there is such a rank."""
    rank, size = distributed.get_rank(), distributed.get_world_size()
    if other == rank:
        raise ValueError(f"Invalid {verb} rank: it should not be the same as the rank of the current process.")
    if not 0 <= other < size:
        raise ValueError(f"{verb} rank {other} is not one of {size}")
    return distributed._required().everyone()


def send(tensor: Any, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None) -> None:
    """Send a tensor to a rank."""
    target = group_dst if dst is None else dst
    assert target is not None, "send: the destination rank is missing; pass dst="
    _pair(target, "destination").send(np.asarray(engine.value(tensor.node)), target)


def recv(tensor: Any, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None) -> int:
    """Receive a tensor from a rank."""
    source = group_src if src is None else src
    if source is None:
        raise RuntimeError("torch.distributed.recv from any rank is not in wengert.torch: pass src=")
    array = _pair(source, "source").receive(tensor.node.shape, tensor.node.dtype, source)
    distributed._given(tensor, Tensor(data(array)), False)
    return source


def isend(tensor: Any, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None) -> Any:
    """Send a tensor to a rank; it has been sent when this returns."""
    send(tensor, dst, group, tag, group_dst)
    return distributed.Work()


def irecv(tensor: Any, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None) -> Any:
    """Receive a tensor from a rank; it has arrived when this returns."""
    recv(tensor, src, group, tag, group_src)
    return distributed.Work()
