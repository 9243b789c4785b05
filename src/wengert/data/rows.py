"""Rows of a batch: the rows of the global batch that a rank prepares, with their random numbers.

The batch of all ranks is a function of the seed and the global position alone. A rank takes its rows, and the part of
every draw that belongs to them, so that they get the same numbers as in a single process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from wengert.core.communication import current
from wengert.core.errors import ArgumentError
from wengert.core.mesh import Mesh, mesh_of
from wengert.core.placement import Placement
from wengert.data.dataset import Array
from wengert.distributed.sharded import sharded_tensor
from wengert.runtime.config import config
from wengert.tensor import Tensor

ROWS = "data"
"""The axis of a mesh along which ranks have rows of their own, unless told."""


class BatchPlacement:
    """The part of each batch that a rank of a mesh holds: `split` maps an axis of the arrays to the mesh axis that
    splits it."""

    def __init__(self, mesh: Mesh, split: Mapping[int, str] | None, rank: int) -> None:
        rows = {0: ROWS} if ROWS in mesh else {}
        self.mesh, self.rank = mesh, rank
        self.split = {**rows, **(split or {})}
        for axis in self.split:
            if not isinstance(axis, int) or axis < 0:
                raise ArgumentError(f"DataLoader: split has the axis {axis!r}; axes count from 0: {{1: 'sequence'}}")
        self.of(max(self.split, default=0) + 1)  # raises where the mesh has no such axis

    def of(self, axes: int) -> Placement:
        """The placement of an array with this many axes."""
        return Placement(self.mesh, {name: axis for axis, name in self.split.items() if axis < axes})

    @property
    def parts(self) -> int:
        """The number of parts into which the rows of a batch are split."""
        return self.mesh.sizes[self.split[0]] if 0 in self.split else 1

    def rows(self, size: int) -> Array:
        """This rank's rows of a batch of this size."""
        return np.arange(size)[self.of(1).slices((size,), self.rank)]

    def padded(self, size: int) -> int:
        """The size to pad a batch to: the next that divides among the ranks and the parts, if any."""
        count = config.parts or self.parts
        return -(-size // count) * count

    def check(self, size: int, what: str) -> None:
        """Raise an error if a batch of this size does not divide."""
        if size % self.parts:
            raise ArgumentError(
                f"DataLoader: {what} of {size} examples does not divide into rows for the {self.parts} ranks of "
                f"{self.split[0]!r} in {self.mesh}"
            )

    def placed(self, rows: Array, upload: Callable[[Array], Tensor]) -> Tensor:
        """The tensor of a batch, from this rank's rows; `upload` copies this rank's block to its device."""
        shape = (len(rows) * self.parts, *rows.shape[1:])
        placement = self.of(rows.ndim)
        columns = placement.slices(shape, self.rank)[1:]
        block = upload(np.ascontiguousarray(rows[(slice(None), *columns)]))
        return block if placement.is_replicated else sharded_tensor(block.node.buffer, shape, placement)


def placement_on(mesh: Mesh | None, split: Mapping[int, str] | None) -> BatchPlacement | None:
    """The part of each batch that this rank holds; None without a mesh."""
    if mesh is None:
        if split:
            raise ArgumentError("DataLoader: split needs a mesh: pass mesh=...")
        return None
    if mesh_of(mesh, "DataLoader").size != current.size:
        raise ArgumentError(f"DataLoader: {mesh} has {mesh.size} ranks, but this world has {current.size}")
    return BatchPlacement(mesh, split, current.rank)


# --- draws ----------------------------------------------------------------------------------------------------------

SIZES = {
    **dict.fromkeys(("random", "standard_normal", "standard_exponential"), 0),
    **dict.fromkeys(("choice", "exponential", "poisson", "geometric", "rayleigh", "standard_gamma"), 1),
    **dict.fromkeys(("integers", "uniform", "normal", "lognormal", "beta", "binomial", "gamma", "laplace"), 2),
}
"""The methods of a generator that draw independent numbers, and the place of `size` among their arguments."""


class RowDraws:
    """A generator that draws for all rows of a batch and returns only some of the rows.

    >>> whole = np.random.default_rng(0).random((4, 2))
    >>> some = RowDraws(np.random.default_rng(0), np.array([1, 3]), 4).random((2, 2))
    >>> bool((some == whole[[1, 3]]).all())
    True
    """

    def __init__(self, rng: np.random.Generator, rows: Array, count: int) -> None:
        self._rng, self._rows, self._count = rng, rows, count

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name not in SIZES:
            raise ArgumentError(f"a by_row transform can draw with {', '.join(sorted(SIZES))}, not with {name}")
        return lambda *args, **kwargs: self._drawn(name, list(args), kwargs)

    def _drawn(self, name: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        place = SIZES[name]
        size = kwargs.get("size", args[place] if len(args) > place else None)
        if size is None:
            found = getattr(self._rng, name)(*args, **kwargs)  # one number, which is that of all rows
            self._require(np.ndim(found) == 0, name, np.shape(found))
            return found
        shape = tuple(size) if isinstance(size, (tuple, list)) else (int(size),)
        self._require(bool(shape) and shape[0] == len(self._rows), name, shape)
        whole = (self._count, *shape[1:])
        if "size" in kwargs:
            kwargs["size"] = whole
        else:
            args[place] = whole
        return getattr(self._rng, name)(*args, **kwargs)[self._rows]

    def _require(self, is_by_row: bool, name: str, shape: tuple[int, ...]) -> None:
        if not is_by_row:
            raise ArgumentError(
                f"a by_row transform or data set drew {name} of shape {shape} for {len(self._rows)} rows; it must "
                "draw one row for each, or one number"
            )
