"""Transfers: copying a value from one rank to another, as pipeline stages pass on their results.

`transfer` is what all ranks of a group have in their graph: stage `target` gets the value of stage `source`, the others
get zeros. Stage q is on member q modulo the size of the group. Its transpose is the transfer back. A rank of a pipeline
has a half of it, a step that sends or one that receives (`compiler/pieces`).

`microbatch` is its operand, known to belong to one of the micro-batches that a rank computes one after another.
`settled` is its operand, and no pass may put off a sum until after it: one value is transferred, not each of its parts.
Both are gone when a rank's program is compiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from wengert.core.communication import communicator
from wengert.core.graph import Node, recording
from wengert.core.mesh import Group
from wengert.ops.collective import by_group, by_rank, collective
from wengert.ops.core import literal
from wengert.ops.factors import broadcasting
from wengert.ops.movement import broadcast_to, concat, slice_axis
from wengert.ops.op import Op

Array = np.ndarray[Any, Any]


def _transferred(x: Array, source: int, target: int, group: Group) -> Array:
    """What a rank has after a transfer."""
    here, start, end = communicator(group), source % group.size, target % group.size
    if here.rank == start:
        here.send(x, end)
    return here.receive(x.shape, x.dtype, start) if here.rank == end else np.zeros_like(x)


def _transfer_batch(y: Node, sources: Sequence[Node], batched: Sequence[bool]) -> Node:
    group, source, target = (y.attrs[name] for name in ("group", "source", "target"))
    (x,) = sources
    if recording.ranks is None or recording.ranks != group.mesh:
        return TRANSFER(x, **y.attrs)
    start, end = source % group.size, target % group.size
    moved = slice_axis(by_group(x, group), 1, start, start + 1)
    nothing = broadcast_to(literal(0, x.dtype, x.device), moved.shape)
    return by_rank(concat([moved if k == end else nothing for k in range(group.size)], axis=1), group)


def _back(g: Node, y: Node, x: Node) -> Node:
    return TRANSFER(g, source=y.attrs["target"], target=y.attrs["source"], group=y.attrs["group"])


TRANSFER: Op = collective(
    "transfer",
    infer=lambda x, source, target, group: (x.shape, x.dtype),
    numpy=_transferred,
    vjp=(_back,),
    linear=(0,),
    complex=True,
    batch=_transfer_batch,
    factors=broadcasting,
)

# --- marks ----------------------------------------------------------------------------------------------------------

MICROBATCH: Op = Op(
    "microbatch",
    infer=lambda x, index: (x.shape, x.dtype),
    numpy=lambda x, index: x,
    vjp=(lambda g, y, x: MICROBATCH(g, **y.attrs),),
    linear=(0,),
    batch=lambda y, sources, batched: MICROBATCH(sources[0], **y.attrs),
    moves=True,
    kind="identity",
    free=True,
)

SETTLED: Op = Op(
    "settled",
    infer=lambda x: (x.shape, x.dtype),
    numpy=lambda x: x,
    vjp=(lambda g, y, x: g,),
    jvp=lambda tangents, y, x: tangents[0],
    complex=True,
    batch=lambda y, sources, batched: SETTLED(sources[0]),
    factors=broadcasting,
    moves=True,
    can_fail=False,
)
