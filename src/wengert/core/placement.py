"""Placements: which part of a value each rank holds, and arrays of which a rank holds a part.

A placement says, for some axes of a mesh, along which axis of a value the ranks have blocks of it; along the others the
ranks have the same. It may also say that only the ranks of one place along an axis hold the value: what belongs to a
stage of a pipeline lies on its ranks. Where one axis of a value is cut along two axes of the mesh, the first of these
cuts it first.

A `ShardedArray` is the array of a value that is held so: the block of this rank, and the shape of the whole. Programs
that `partition` made for a mesh take and give blocks; everyone else gets the whole, which all ranks gather together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from wengert.core.communication import Communicator, communicator, current
from wengert.core.errors import ArgumentError, ShapeError
from wengert.core.mesh import Mesh

Shape = tuple[int, ...]


NOWHERE: Mapping[str, int] = {}


class Placement:
    """Which part of a value each rank of a mesh holds: by axis of the mesh, the axis of the value that it cuts.

    >>> placement = Placement(Mesh(data=2, tensor=2), {"data": 0, "tensor": 1})
    >>> placement.block_shape((8, 6)), placement.slices((8, 6), rank=1)
    ((4, 3), (slice(0, 4, None), slice(3, 6, None)))
    """

    def __init__(
        self, mesh: Mesh, splits: Mapping[str, int], stored: Iterable[str] = (), at: Mapping[str, int] = NOWHERE
    ) -> None:
        for name in (*splits, *at):
            if name not in mesh.sizes:
                raise ArgumentError(f"{mesh} has no axis {name!r}; it has {', '.join(mesh.sizes)}")
        self.mesh = mesh
        self.splits = {name: int(splits[name]) for name in mesh.sizes if name in splits}
        self.stored = frozenset(stored)  # axes of the mesh along which blocks are kept, and gathered to work with them
        self.at = dict(at)  # by axis of the mesh: the only place along it whose ranks hold anything, as a stage's do

    @property
    def is_replicated(self) -> bool:
        """Whether every rank holds the whole."""
        return not self.at and all(self.mesh.sizes[name] == 1 for name in self.splits)

    def is_held(self, rank: int) -> bool:
        """Whether a rank holds a part of the value."""
        place = self.mesh.coordinates(rank)
        return all(place[name] == at for name, at in self.at.items())

    def block_shape(self, shape: Shape) -> Shape:
        """The shape of a rank's block of a value of this shape."""
        sizes = list(shape)
        for name, axis in self.splits.items():
            count = self.mesh.sizes[name]
            if not 0 <= axis < len(shape):
                raise ShapeError(f"a value of shape {shape} has no axis {axis} to cut along {name!r}")
            if sizes[axis] % count:
                raise ShapeError(
                    f"axis {axis} of shape {shape} does not divide into blocks for {count} ranks of {name!r}"
                )
            sizes[axis] //= count
        return tuple(sizes)

    def slices(self, shape: Shape, rank: int) -> tuple[slice, ...]:
        """Where the block of a rank lies in a value of this shape."""
        self.block_shape(shape)  # raises where it does not divide
        place = self.mesh.coordinates(rank)
        starts, sizes = [0] * len(shape), list(shape)
        for name, axis in self.splits.items():
            sizes[axis] //= self.mesh.sizes[name]
            starts[axis] += place[name] * sizes[axis]
        return tuple(slice(start, start + size) for start, size in zip(starts, sizes))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Placement) and other._key == self._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[Any, ...]:
        return self.mesh, tuple(self.splits.items()), self.stored, tuple(self.at.items())

    def __repr__(self) -> str:
        stored = f", stored={sorted(self.stored)}" if self.stored else ""
        at = f", at={self.at}" if self.at else ""
        return f"Placement({self.mesh}, {self.splits}{stored}{at})"


class Absent:
    """In place of a block that other ranks hold: its type, and no memory."""

    def __init__(self, shape: Shape, dtype: Any, device: str) -> None:
        self.shape, self.dtype, self.device = shape, dtype, device


class ShardedArray:
    """The array of a value of which this rank holds a block."""

    made = False  # whether there ever was one: until then nobody looks for them
    __slots__ = ("__weakref__", "block", "dtype", "placement", "shape")

    def __init__(self, block: Any, shape: Shape, placement: Placement) -> None:
        if tuple(block.shape) != placement.block_shape(shape):
            raise ShapeError(
                f"a block of shape {tuple(block.shape)} is none of a value of shape {shape} at {placement}"
            )
        ShardedArray.made = True
        self.block = block
        self.shape = shape
        self.dtype = block.dtype
        self.placement = placement

    @property
    def device(self) -> str:
        """The device that the block is on."""
        return str(self.block.device)

    def whole(self, download: Any = np.asarray) -> np.ndarray[Any, Any]:
        """The whole on the host, gathered: every rank of the mesh must ask for it."""
        is_held = not isinstance(self.block, Absent)
        found = download(self.block) if is_held else np.zeros(self.block.shape, self.block.dtype)
        for name, at in self.placement.at.items():
            found = handed_out(found, communicator(self.placement.mesh[name]), at)
        for name, axis in reversed(self.placement.splits.items()):
            found = communicator(self.placement.mesh[name]).all_gather(found, axis)
        return found


def handed_out(x: np.ndarray[Any, Any], group: Communicator, source: int) -> np.ndarray[Any, Any]:
    """The value of one rank of a group, on each of them."""
    if group.rank != source:
        return group.receive(x.shape, x.dtype, source)
    for target in range(group.size):
        if target != source:
            group.send(x, target)
    return x


def block_of(array: Any, placement: Placement, rank: int | None = None) -> Any:
    """The block of a rank (this one, unless told) of a whole array: a view of it."""
    return array[placement.slices(tuple(array.shape), current.rank if rank is None else rank)]


def block_axis(shape: Shape, count: int) -> int | None:
    """The axis along which a value is kept in so many blocks: the first that divides."""
    return next((i for i, n in enumerate(shape) if n and n % count == 0), None)
