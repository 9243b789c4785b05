"""How a tensor lies on an axis of a mesh, in PyTorch's words."""

from __future__ import annotations

from dataclasses import dataclass


class Placement:
    """How a tensor lies on an axis of a mesh."""

    def is_shard(self, dim: int | None = None) -> bool:
        """Whether each rank has a part, along `dim` if one is given."""
        return isinstance(self, Shard) and dim in (None, self.dim)

    def is_replicate(self) -> bool:
        """Whether each rank has all of it."""
        return isinstance(self, Replicate)

    def is_partial(self) -> bool:
        """Whether the ranks' values have yet to be reduced."""
        return isinstance(self, Partial)


@dataclass(frozen=True)
class Shard(Placement):
    """Each rank has a part along an axis."""

    dim: int


@dataclass(frozen=True)
class _StridedShard(Shard):
    """Each rank has a part of each of several groups along an axis."""

    split_factor: int = 1


@dataclass(frozen=True)
class Replicate(Placement):
    """Each rank has all of it."""


@dataclass(frozen=True)
class Partial(Placement):
    """The ranks' values have yet to be reduced."""

    reduce_op: str = "sum"
