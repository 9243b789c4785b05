"""A simulated world: this process is rank 0, and the data from the other ranks is made up.

Shapes and dtypes are right but values are not, so programs can be planned and timed, but their results are meaningless.
A script runs unchanged: `wg.distributed.start()` returns the simulated world, and meshes and blocks have its size.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from wengert.core.communication import Array, Communicator, current
from wengert.core.mesh import Group
from wengert.distributed import world as worlds
from wengert.distributed.world import World, set_threads
from wengert.kernels.threads import chosen_threads


class MadeUp:
    """Rank 0's end of a group whose other ranks hold the same values; sums are not computed."""

    rank = 0

    def __init__(self, size: int) -> None:
        self.size = size

    def all_reduce(self, x: Array, out: Array | None = None) -> Array:
        """The value."""
        return _given(x, out)

    def all_reduce_max(self, x: Array) -> Array:
        """The value."""
        return x

    def all_reduce_many(self, xs: Sequence[Array], out: Sequence[Array] | None = None) -> list[Array]:
        """The values."""
        return [_given(x, None if out is None else out[k]) for k, x in enumerate(xs)]

    def all_gather(self, x: Array, axis: int, out: Array | None = None) -> Array:
        """The value repeated for each rank."""
        return _given(np.concatenate([x] * self.size, axis), out)

    def reduce_scatter(self, x: Array, axis: int, out: Array | None = None) -> Array:
        """The first block."""
        return _given(_first(x, axis, self.size), out)

    def ppermute(self, x: Array, shift: int) -> Array:
        """The value."""
        return x

    def all_to_all(self, x: Array, split: int, join: int) -> Array:
        """The first block repeated for each rank."""
        return np.concatenate([_first(x, split, self.size)] * self.size, join)

    def send(self, x: Array, target: int) -> None:
        """Do nothing: there is no receiver."""

    def receive(self, shape: tuple[int, ...], dtype: Any, source: int) -> Array:
        """Zeros."""
        return np.zeros(shape, dtype)


def _given(x: Array, out: Array | None) -> Array:
    if out is None:
        return x
    out[...] = x
    return out


def _first(x: Array, axis: int, count: int) -> Array:
    return x[(slice(None),) * axis + (slice(x.shape[axis] // count),)]


class PretendedWorld(World):
    """A world of several ranks, of which only this one exists."""

    def __init__(self, size: int) -> None:
        super().__init__(0, size, 0)

    @property
    def engine(self) -> str:
        """No engine: nothing is sent."""
        return "pretended"

    def barrier(self) -> None:
        """Returns at once."""

    def _find(self, group: Group) -> Communicator:
        self._check()
        return MadeUp(group.size)


@contextmanager
def share_of(cores: float) -> Iterator[None]:
    """A context in which kernels use the threads of a rank with this many cores, unless the environment sets their
    number."""
    if not cores or chosen_threads() is not None:
        yield
        return
    try:
        set_threads(max(1, int(cores)))
        yield
    finally:
        set_threads(None)


@contextmanager
def pretended(size: int, overlaps: bool) -> Iterator[PretendedWorld]:
    """A context in which this process is rank 0 of several; `overlaps` says whether collectives overlap with
    computation."""
    world = PretendedWorld(size)
    kept, worlds.stand_in = worlds.stand_in, world
    before = current.rank, current.size, current.find, current.overlaps
    current.rank, current.size, current.find, current.overlaps = 0, size, world._find, overlaps
    try:
        yield world
    finally:
        worlds.stand_in = kept
        current.rank, current.size, current.find, current.overlaps = before
