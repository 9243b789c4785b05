"""Sharding: values of which each rank holds a block. `shard` stores them that way (ZeRO), `place` computes on blocks.

Both change where a tensor is stored, not its meaning: its shape is the global one, and reading it on all ranks gives
the whole. `compile(mesh=...)` makes programs that work on the blocks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

import numpy as np

from wengert.core import devices
from wengert.core.errors import ArgumentError, ShapeError
from wengert.core.mesh import Group, Mesh, mesh_of
from wengert.core.placement import Placement, ShardedArray, block_axis
from wengert.runtime.config import config
from wengert.runtime.dynamic.realize import value
from wengert.runtime.partitioned import block_here
from wengert.tensor import Tensor


class Split(NamedTuple):
    """Splits a tensor's axis along an axis of the mesh: as a whole, or in several runs of equal length.

    The combined weight of q, k and v has three runs, `Split(1, "tensor", runs=3)`: a rank holds its heads of each.

    >>> import wengert as wg
    >>> model = wg.nn.Linear(4, 8)
    >>> wg.distributed.place(model, {"weight": wg.distributed.Split(0, "tensor")}, wg.distributed.Mesh(tensor=1))
    >>> model.weight.shape
    (8, 4)
    """

    axis: int
    along: str
    runs: int = 1


def shard(what: Any, group: Group) -> None:
    """Shard the tensors of a model, an optimizer or its state over a group: each rank keeps one block of each (ZeRO).

    Sharding an optimizer's state gives ZeRO stages 1 and 2. Sharding a model before its optimizer is created gives
    stage 3: parameters, gradients and state. A tensor is split along its first axis that divides evenly, preferably one
    that is not already split along another mesh axis; a tensor without such an axis stays whole.

    >>> import wengert as wg
    >>> model = wg.nn.Linear(4, 2)
    >>> wg.distributed.shard(model, wg.distributed.Mesh(data=1)["data"])
    """
    if not isinstance(group, Group) or len(group.axes) != 1:
        raise ArgumentError(f'shard takes one axis of a mesh, as in mesh["data"], not {group!r}')
    (name,) = group.axes
    for tensor in tensors_of(what):
        held = placement_of(tensor, group.mesh)
        shape, count = held.block_shape(tensor.shape), config.parts or group.size
        uncut = tuple([1 if i in held.splits.values() else n for i, n in enumerate(shape)])
        axis = block_axis(uncut, count) if block_axis(uncut, count) is not None else block_axis(shape, count)
        if axis is not None and name not in held.splits:
            put(tensor, with_split(held, Split(axis, name), stored=True))
    config.changed()


Plan = Mapping[str, "Split | Sequence[Split | None] | None"]
"""By name or pattern of a parameter: how it is cut, None for whole; of several the first is taken that divides it."""


def place(model: Any, plan: Plan, mesh: Mesh) -> None:
    """Split parameters along axes of a mesh, by name or pattern (the first match applies), to compute on blocks (tensor
    parallelism). Models can define a plan as `model.tensor_plan`.

    >>> import wengert as wg
    >>> from wengert.distributed import Mesh, Split, place
    >>> model = wg.nn.Sequential(wg.nn.Linear(4, 8), wg.nn.ReLU(), wg.nn.Linear(8, 2))
    >>> plan = {"0.*": Split(0, "tensor"), "2.weight": Split(1, "tensor")}  # the first by columns, the second by rows
    >>> place(model, plan, Mesh(tensor=1))
    """
    if not hasattr(model, "named_parameters"):
        raise ArgumentError(f"place takes a model, whose parameters have names, not {type(model).__name__}")
    if not isinstance(plan, Mapping):
        example = "{'*.weight': Split(0, 'tensor')}"
        raise ArgumentError(f"place: a plan maps parameter names to splits, as in {example}, not {plan!r}")
    parameters = dict(model.named_parameters())
    for name, placement in planned(model, plan, mesh_of(mesh, "place")).items():
        put(parameters[name], placement)
    config.changed()


def planned(model: Any, plan: Plan, mesh: Mesh) -> dict[str, Placement]:
    """The placement that a plan gives to each parameter that it splits."""
    used, found = set(), {}
    for name, parameter in model.named_parameters():
        pattern = next((pattern for pattern in plan if fnmatchcase(name, pattern)), None)
        used.add(pattern)
        split = None if pattern is None else _fitting(name, pattern, plan[pattern], parameter.shape, mesh)
        if split is not None:
            found[name] = with_split(placement_of(parameter, mesh), _on_axis(name, split, parameter.shape))
            try:
                found[name].block_shape(parameter.shape)
            except ShapeError as error:
                raise ShapeError(f"place: {name}: {error.message}") from None
    unused = [pattern for pattern in plan if pattern not in used]
    if unused:
        raise ArgumentError(f"place: no parameter name matches {', '.join(map(repr, unused))}")
    return found


def _fitting(name: str, pattern: str, choice: Any, shape: tuple[int, ...], mesh: Mesh) -> Split | None:
    """The first of several splits that gives equal blocks; a single split is always taken."""
    if choice is None or isinstance(choice, Split):
        return choice
    if not isinstance(choice, Sequence) or not all(one is None or isinstance(one, Split) for one in choice):
        how = "a Split, several of which the first that divides applies, or None for no split"
        raise ArgumentError(f"place: {pattern!r} needs {how}, not {choice!r}")
    for split in choice:
        if split is None:
            return None
        if shape[_on_axis(name, split, shape).axis] % (mesh[split.along].size * split.runs) == 0:
            return split
    raise ArgumentError(f"place: none of {list(choice)} divides {name} of shape {shape} over {mesh}")


def _on_axis(name: str, split: Split, shape: tuple[int, ...]) -> Split:
    """A split whose axis is counted from the first."""
    if not -len(shape) <= split.axis < len(shape):
        raise ShapeError(
            f"place: {name} has shape {shape}, which has no axis {split.axis} to split along {split.along!r}"
        )
    return split._replace(axis=split.axis % len(shape))


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


def placement_of(tensor: Tensor, mesh: Mesh) -> Placement:
    """The current placement of a tensor over a mesh."""
    held = tensor.node.buffer
    if not isinstance(held, ShardedArray):
        return Placement(mesh, {})
    if held.placement.mesh != mesh:
        raise ArgumentError(f"a tensor that is placed on {held.placement.mesh} cannot be placed on {mesh}")
    return held.placement


def with_split(held: Placement, split: Split, stored: bool = False) -> Placement:
    """A placement that is also split along one more axis of the mesh."""
    splits, runs = {**held.splits, split.along: split.axis}, {**held.runs, split.along: split.runs}
    return Placement(held.mesh, splits, {*held.stored, split.along} if stored else held.stored, runs)


def put(tensor: Tensor, placement: Placement) -> None:
    """Replace a tensor on this rank by its block; every rank holds the whole tensor, or its block of it."""
    array = value(tensor.node)
    if placement.is_replicated:
        return
    block = block_here(array, placement)
    device = devices.of(tensor.node.device)
    if isinstance(block, np.ndarray):  # also of what has lain in blocks until now, which is gathered on the host
        block = device.upload(block.copy())
    else:  # a view would keep the whole
        view, block = block, device.empty(block.shape, block.dtype)
        device.copy_into(block, view)
    tensor.node.buffer = ShardedArray(block, tensor.shape, placement)


def lay_like(parameter: Tensor, tensors: Iterable[Tensor]) -> None:
    """Give the state of a sharded parameter the parameter's placement, where it has the same shape."""
    held = parameter.node.buffer
    if isinstance(held, ShardedArray):
        for tensor in tensors:
            if tensor.shape == parameter.shape:
                put(tensor, held.placement)
