"""Mesh and Group: how ranks are arranged, and which of them a collective runs over.

A mesh has named axes, as an array of ranks would: `Mesh(data=2, tensor=4)` has 8 ranks, and the last axis counts
fastest. A group names axes of a mesh. Every rank is in one group of those axes: with the ranks that differ from it
along them alone. Both are plain values, the same on every rank: which one a process is, `core.communication` knows.
"""

from __future__ import annotations

import math
from typing import Any

from wengert.core.errors import ArgumentError


class Mesh:
    """Ranks arranged along named axes.

    >>> mesh = Mesh(data=2, tensor=4)
    >>> mesh.size, mesh.sizes, mesh.coordinates(6)
    (8, {'data': 2, 'tensor': 4}, {'data': 1, 'tensor': 2})
    >>> mesh["tensor"].members(6), mesh["data"].members(6)
    ((4, 5, 6, 7), (2, 6))
    """

    def __init__(self, **sizes: int) -> None:
        for name, size in sizes.items():
            if not isinstance(size, int) or size < 1:
                raise ArgumentError(f"a mesh's axis {name} has at least 1 rank, not {size!r}")
        self.sizes = sizes
        self._key = tuple(sizes.items())

    @property
    def size(self) -> int:
        """How many ranks there are."""
        return math.prod(self.sizes.values())

    def __getitem__(self, axes: str | tuple[str, ...]) -> Group:
        return Group(self, (axes,) if isinstance(axes, str) else tuple(axes))

    def __contains__(self, axis: object) -> bool:
        return axis in self.sizes

    @property
    def whole(self) -> Group:
        """The group of all ranks."""
        return Group(self, tuple(self.sizes))

    def coordinates(self, rank: int) -> dict[str, int]:
        """The place of a rank along each axis."""
        found = {}
        for name, size in reversed(self.sizes.items()):
            rank, found[name] = divmod(rank, size)
        return {name: found[name] for name in self.sizes}

    def rank_at(self, coordinates: dict[str, int]) -> int:
        """The rank at a place."""
        rank = 0
        for name, size in self.sizes.items():
            rank = rank * size + coordinates[name]
        return rank

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mesh) and other._key == self._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        return f"Mesh({', '.join(f'{name}={size}' for name, size in self.sizes.items())})"


def mesh_of(given: Any, who: str) -> Mesh:
    """What was given as a mesh, if it is one."""
    if not isinstance(given, Mesh):
        raise ArgumentError(f"{who}: mesh is a Mesh, as wg.distributed.start().mesh(data=-1), not {given!r}")
    return given


class Group:
    """Some axes of a mesh: what a collective runs over. Members are numbered with the last axis counting fastest.

    >>> import wengert as wg
    >>> group = wg.distributed.Mesh(data=2, tensor=4)["tensor"]
    >>> isinstance(group, wg.distributed.Group), group.members(6)
    (True, (4, 5, 6, 7))
    """

    def __init__(self, mesh: Mesh, axes: tuple[str, ...]) -> None:
        for axis in axes:
            if axis not in mesh.sizes:
                raise ArgumentError(f"{mesh} has no axis {axis!r}; it has {', '.join(mesh.sizes)}")
        if len(set(axes)) != len(axes):
            raise ArgumentError(f"an axis stands twice in {axes}")
        self.mesh = mesh
        self.axes = tuple(axis for axis in mesh.sizes if axis in axes)

    @property
    def size(self) -> int:
        """How many ranks a collective over it has."""
        return math.prod(self.mesh.sizes[axis] for axis in self.axes)

    def rank_of(self, rank: int) -> int:
        """The number, within its group, of a rank of the mesh."""
        place = self.mesh.coordinates(rank)
        number = 0
        for axis in self.axes:
            number = number * self.mesh.sizes[axis] + place[axis]
        return number

    def members(self, rank: int) -> tuple[int, ...]:
        """The ranks of the mesh that are in one group with this one, in order."""
        place = self.mesh.coordinates(rank)
        others = {name: at for name, at in place.items() if name not in self.axes}
        inside = Mesh(**{axis: self.mesh.sizes[axis] for axis in self.axes})
        return tuple(self.mesh.rank_at({**others, **inside.coordinates(k)}) for k in range(inside.size))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Group) and (other.mesh, other.axes) == (self.mesh, self.axes)

    def __hash__(self) -> int:
        return hash((self.mesh, self.axes))

    def __repr__(self) -> str:
        axes = self.axes[0] if len(self.axes) == 1 else self.axes
        return f"{self.mesh!r}[{axes!r}]"
