"""Placements: the part of a value that each rank holds, and arrays of which a rank holds a part.

A placement maps axes of a mesh to the axis of a value that is split along it; along other mesh axes the value is
replicated. If one axis of a value is split along two mesh axes, the one named first splits it first. An axis may
consist of several runs of equal length, each of which is split: q, k and v in one weight, each by heads. A value may be
held only by the ranks at one coordinate along a mesh axis: the value of a pipeline stage.

A `ShardedArray` is the array of such a value: the block of this rank, and the shape of the whole. Programs that
`partition` made for a mesh take and return blocks; other code gets the whole, which all ranks gather together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product
from types import MappingProxyType
from typing import Any

import numpy as np

from wengert.core.communication import Communicator, communicator, current
from wengert.core.errors import ArgumentError, ShapeError
from wengert.core.mesh import Group, Mesh

Shape = tuple[int, ...]
Slices = tuple[slice, ...]


class Placement:
    """The part of a value that each rank of a mesh holds: for each mesh axis, the axis of the value that it splits.

    >>> placement = Placement(Mesh(data=2, tensor=2), {"data": 0, "tensor": 1})
    >>> placement.block_shape((8, 6)), placement.slices((8, 6), rank=1)
    ((4, 3), (slice(0, 4, None), slice(3, 6, None)))
    >>> Placement(Mesh(tensor=2), {"tensor": 0}, runs={"tensor": 3}).block(np.arange(12), rank=1)
    array([ 2,  3,  6,  7, 10, 11])
    """

    def __init__(
        self,
        mesh: Mesh,
        splits: Mapping[str, int],
        stored: Iterable[str] = (),
        runs: Mapping[str, int] = MappingProxyType({}),
        at: Mapping[str, int] = MappingProxyType({}),
    ) -> None:
        for name in (*splits, *runs, *at):
            if name not in mesh.sizes:
                raise ArgumentError(f"{mesh} has no axis {name!r}; it has {', '.join(mesh.sizes)}")
        self.mesh = mesh
        is_cut_twice = len(set(splits.values())) < len(splits)  # then the order counts
        self.splits = {name: int(splits[name]) for name in (splits if is_cut_twice else mesh.sizes) if name in splits}
        self.stored = frozenset(stored)  # axes of the mesh along which blocks are kept, and gathered to work with them
        self.runs = {name: runs[name] for name in self.splits if runs.get(name, 1) > 1}
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
                raise ShapeError(f"a value of shape {shape} has no axis {axis} to split along {name!r}")
            if sizes[axis] % (count * self.runs.get(name, 1)):
                blocks = f"{self.runs[name]} runs of blocks" if name in self.runs else "blocks"
                raise ShapeError(
                    f"axis {axis} of shape {shape} does not divide into {blocks} for {count} ranks of {name!r}"
                )
            sizes[axis] //= count
        return tuple(sizes)

    def slices(self, shape: Shape, rank: int) -> tuple[slice, ...]:
        """The slices of a rank's block in a value of this shape, none of whose axes may be split in several runs."""
        if self.runs:
            raise ArgumentError(f"{self}: a block of several runs is not a slice of the whole; see `pieces`")
        self.block_shape(shape)  # raises where it does not divide
        place = self.mesh.coordinates(rank)
        starts, sizes = [0] * len(shape), list(shape)
        for name, axis in self.splits.items():
            sizes[axis] //= self.mesh.sizes[name]
            starts[axis] += place[name] * sizes[axis]
        return tuple(slice(start, start + size) for start, size in zip(starts, sizes))

    def places(self, shape: Shape, rank: int) -> list[np.ndarray[Any, Any]]:
        """The indices along each axis of the elements in a rank's block of a value of this shape, in order."""
        self.block_shape(shape)  # raises where it does not divide
        coordinates = self.mesh.coordinates(rank)
        found = [np.arange(size) for size in shape]
        for name, axis in self.splits.items():
            blocks = found[axis].reshape(self.runs.get(name, 1), self.mesh.sizes[name], -1)
            found[axis] = blocks[:, coordinates[name]].reshape(-1)
        return found

    def pieces(self, shape: Shape, rank: int) -> list[tuple[Slices, Slices]]:
        """A rank's block as contiguous pieces: the position of each in the whole and in the block."""
        axes = [_stretches(at) for at in self.places(shape, rank)]
        found = [tuple(zip(*each)) or ((), ()) for each in product(*axes)]
        return [(whole, block) for whole, block in found]

    def block(self, array: Any, rank: int) -> Any:
        """A rank's block of a whole array: a view if it is one run."""
        if not self.runs:
            return array[self.slices(tuple(array.shape), rank)]
        return array[np.ix_(*self.places(tuple(array.shape), rank))]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Placement) and other._key == self._key

    def __hash__(self) -> int:
        return hash(self._key)

    @property
    def _key(self) -> tuple[Any, ...]:
        return self.mesh, tuple(self.splits.items()), self.stored, tuple(self.runs.items()), tuple(self.at.items())

    def __repr__(self) -> str:
        stored = f", stored={sorted(self.stored)}" if self.stored else ""
        runs = f", runs={self.runs}" if self.runs else ""
        at = f", at={self.at}" if self.at else ""
        return f"Placement({self.mesh}, {self.splits}{stored}{runs}{at})"


class Absent:
    """A placeholder for a block that other ranks hold: it has a type but no memory."""

    def __init__(self, shape: Shape, dtype: Any, device: str) -> None:
        self.shape, self.dtype, self.device = shape, dtype, device


class ShardedArray:
    """The array of a value of which this rank holds a block."""

    made = False  # whether there ever was one; until then no code searches for them
    __slots__ = ("__weakref__", "block", "dtype", "placement", "shape")

    def __init__(self, block: Any, shape: Shape, placement: Placement) -> None:
        if tuple(block.shape) != placement.block_shape(shape):
            raise ShapeError(
                f"a block of shape {tuple(block.shape)} does not match a value of shape {shape} at {placement}"
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
        """The whole value on the host, gathered: every rank of the mesh must call it."""
        is_held = not isinstance(self.block, Absent)
        found = download(self.block) if is_held else np.zeros(self.block.shape, self.block.dtype)
        for name, at in self.placement.at.items():
            found = handed_out(found, communicator(self.placement.mesh[name]), at)
        for name, axis in reversed(self.placement.splits.items()):
            found = _joined(found, axis, self.placement.runs.get(name, 1), self.placement.mesh[name])
        return found


def handed_out(x: np.ndarray[Any, Any], group: Communicator, source: int) -> np.ndarray[Any, Any]:
    """The value of one rank of a group, broadcast to all of them."""
    if group.rank != source:
        return group.receive(x.shape, x.dtype, source)
    for target in range(group.size):
        if target != source:
            group.send(x, target)
    return x


def _stretches(places: np.ndarray[Any, Any]) -> list[tuple[slice, slice]]:
    """Ordered indices as slices, each with its start and end among them."""
    ends = [*(np.flatnonzero(np.diff(places) != 1) + 1).tolist(), len(places)]
    starts = [0, *ends[:-1]]
    first = [int(places[start]) if end > start else 0 for start, end in zip(starts, ends)]
    return [(slice(at, at + end - start), slice(start, end)) for at, start, end in zip(first, starts, ends)]


def _joined(block: np.ndarray[Any, Any], axis: int, runs: int, group: Group) -> np.ndarray[Any, Any]:
    """The whole along an axis, from blocks of some runs."""
    before, size, behind = block.shape[:axis], block.shape[axis], block.shape[axis + 1 :]
    apart = communicator(group).all_gather(block.reshape(*before, runs, size // runs, *behind), axis + 1)
    return apart.reshape(*before, size * group.size, *behind)


def block_of(array: Any, placement: Placement, rank: int | None = None) -> Any:
    """A rank's block (by default this rank's) of a whole array: a view if it is one run."""
    return placement.block(array, current.rank if rank is None else rank)


def block_axis(shape: Shape, count: int) -> int | None:
    """The axis along which a value is stored in this many blocks: the first that divides."""
    return next((i for i, n in enumerate(shape) if n and n % count == 0), None)
