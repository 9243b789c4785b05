"""Sharding: values of which each rank holds a block. `shard` keeps them so (ZeRO), `place` works on them so.

Both change where a tensor lies, not what it is: its shape is that of the whole, and whoever looks at it in all ranks
gets the whole. `compile(mesh=...)` makes programs that work on the blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import numpy as np

from wengert.core.errors import ArgumentError
from wengert.core.mesh import Group, Mesh
from wengert.core.placement import Placement, ShardedArray, block_axis, block_of
from wengert.runtime.config import config
from wengert.runtime.dynamic.realize import value
from wengert.tensor import Tensor


class Split(NamedTuple):
    """A tensor's axis is cut along an axis of the mesh."""

    axis: int
    along: str


def shard(what: Any, group: Group) -> None:
    """Have each rank of a group keep a block of the tensors of a model, an optimizer or its state (ZeRO).

    Of an optimizer's state: stages 1 and 2. Of a model, before its optimizer is made: stage 3, parameters, gradients
    and state. A tensor is cut along its first axis that divides; one that has none stays whole.

    >>> import wengert as wg
    >>> model = wg.nn.Linear(4, 2)
    >>> wg.distributed.shard(model, wg.distributed.Mesh(data=1)["data"])
    """
    if not isinstance(group, Group) or len(group.axes) != 1:
        raise ArgumentError(f'shard takes one axis of a mesh, as mesh["data"], not {group!r}')
    (name,) = group.axes
    for tensor in tensors_of(what):
        splits, stored = placement_of(tensor, group.mesh)
        shape = Placement(group.mesh, splits).block_shape(tensor.shape)
        axis = block_axis(shape, config.parts or group.size)
        if axis is not None and name not in splits:
            put(tensor, Placement(group.mesh, {**splits, name: axis}, {*stored, name}))
    config.changed()


def place(model: Any, table: Mapping[str, Split | None], mesh: Mesh) -> None:
    """Cut parameters along axes of a mesh to work on their blocks: by name or pattern, the first that fits (tensor
    parallelism). `model.tensor_plan` is the table of a model that brings one.
    """
    used = set()
    for name, parameter in model.named_parameters():
        pattern = next((pattern for pattern in table if fnmatchcase(name, pattern)), None)
        used.add(pattern)
        split = table[pattern] if pattern is not None else None
        if split is not None:
            splits, stored = placement_of(parameter, mesh)
            put(parameter, Placement(mesh, {**splits, split.along: split.axis % parameter.ndim}, stored))
    unused = [pattern for pattern in table if pattern not in used]
    if unused:
        raise ArgumentError(f"place: no parameter is named like {', '.join(map(repr, unused))}")
    config.changed()


def tensors_of(what: Any) -> Iterator[Tensor]:
    """The tensors of a model, an optimizer, its state, or of a nested collection."""
    if isinstance(what, Tensor):
        yield what
    elif hasattr(what, "param_groups"):
        yield from tensors_of(what.state)
    elif hasattr(what, "parameters"):
        yield from what.parameters()
    elif isinstance(what, Mapping):
        yield from tensors_of(list(what.values()))
    elif isinstance(what, Iterable) and not isinstance(what, (str, bytes)):
        for item in what:
            yield from tensors_of(item)
    else:
        raise ArgumentError(f"shard takes a model, an optimizer or its state, or tensors, not {type(what).__name__}")


def placement_of(tensor: Tensor, mesh: Mesh) -> tuple[dict[str, int], frozenset[str]]:
    """Along which axes of a mesh a tensor is cut already."""
    held = tensor.node.buffer
    if not isinstance(held, ShardedArray):
        return {}, frozenset()
    if held.placement.mesh != mesh:
        raise ArgumentError(f"a tensor that lies over {held.placement.mesh} cannot be placed on {mesh}")
    return dict(held.placement.splits), held.placement.stored


def put(tensor: Tensor, placement: Placement) -> None:
    """Keep this rank's block of a tensor in place of what it has; every rank has the whole, or its block of it."""
    array = value(tensor.node)
    if placement.is_replicated:
        return
    block = np.array(block_of(array, placement)) if isinstance(array, np.ndarray) else block_of(array, placement)
    tensor.node.buffer = ShardedArray(block, tensor.shape, placement)


def lay_like(parameter: Tensor, tensors: Iterable[Tensor]) -> None:
    """Have the state of a parameter that is sharded lie as the parameter does, where it has its shape."""
    held = parameter.node.buffer
    if isinstance(held, ShardedArray):
        for tensor in tensors:
            if tensor.shape == parameter.shape:
                put(tensor, held.placement)
