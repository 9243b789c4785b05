"""Generators: the source of random numbers.

A `Generator` is two Tensors, a key (from the seed) and a counter. A draw is a function of both and advances the
counter: each draw differs from the last, a seed reproduces the same numbers, and a value that is recomputed (for a
backward pass, by `checkpoint`) stays the same. `ops.random` generates the bits; `random` turns them into distributions.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from wengert.api.creation import tensor
from wengert.core.dtypes import uint32, uint64
from wengert.core.errors import ArgumentError, DTypeError
from wengert.core.forking import new_lock
from wengert.core.graph import Node, Shape, recording
from wengert.ops import random as ops
from wengert.ops.core import as_node
from wengert.tensor import Tensor


class Generator:
    """A source of random numbers: a key and a counter, both Tensors. Without a seed it starts from an unpredictable
    state.

    >>> import wengert as wg
    >>> first, again = wg.random.Generator(7), wg.random.Generator(7)
    >>> wg.random.uniform((2,), generator=first).tolist() == wg.random.uniform((2,), generator=again).tolist()
    True
    """

    def __init__(self, seed: int | None = None) -> None:
        self.key = tensor(np.zeros(2, uint32))
        self.counter = tensor(np.zeros((), uint64))
        self._lock = new_lock()  # two threads that share a generator must not read the same count
        self.seed(int.from_bytes(os.urandom(8), "little") if seed is None else seed)

    def seed(self, seed: int) -> Generator:
        """Restart from this seed, an integer of which the lowest 64 bits are used."""
        try:
            number = seed.__index__() % (1 << 64)
        except AttributeError:
            raise DTypeError(f"a seed must be an integer, not {seed!r}") from None
        self.key.assign(np.array([number & 0xFFFFFFFF, number >> 32], uint32))
        self.counter.assign(np.zeros((), uint64))
        return self

    def state(self) -> dict[str, Tensor]:
        """The current key and counter, to save or to restore later with `set_state`."""
        return {"key": Tensor(self.key.node), "counter": Tensor(self.counter.node)}

    def set_state(self, state: dict[str, Any]) -> Generator:
        """Continue from a state that `state()` returned."""
        if not isinstance(state, dict) or state.keys() != {"key", "counter"}:
            raise ArgumentError("set_state takes what state() returns: a dict with a key and a counter")
        parts = {name: as_node(value) for name, value in state.items()}
        for name, slot in (("key", self.key), ("counter", self.counter)):
            if parts[name].dtype != slot.dtype or parts[name].shape != slot.shape:
                found = f"{parts[name].dtype}{list(parts[name].shape)}"
                raise ArgumentError(f"set_state: the {name} is {slot.dtype}{list(slot.shape)}, not {found}")
        self.key.assign(Tensor(parts["key"]))
        self.counter.assign(Tensor(parts["counter"]))
        return self

    def spawn(self, n: int) -> list[Generator]:
        """`n` new generators, independent of this one and of each other; each call returns new ones."""
        keys = self._draw((n, 2), ops.SPAWN, 32)
        children = [Generator(0) for _ in range(n)]
        for child, key in zip(children, Tensor(keys)):
            child.key.assign(Tensor(key.node))
        return children

    def bits(self, shape: Shape, width: int = 32) -> Node:
        """Random bits of this shape, as uint32 or uint64; every distribution is built from them."""
        return self._draw(shape, ops.DRAW, width)

    def _draw(self, shape: Shape, stream: int, width: int) -> Node:
        used = ops.blocks_for((*shape, width // 32))
        with self._lock:
            key, counter = self.key.node, self.counter.node
            self.counter.assign(counter + used)
        if recording.lane is not None:  # under vmap every lane draws its own
            key = ops.fold_in(key, recording.lane)
        return ops.random_bits(key, counter, shape, stream, width)


default_generator = Generator(0)
"""What is drawn from where no generator is named."""


def manual_seed(seed: int) -> Generator:
    """Restart the default generator from this seed.

    >>> import wengert as wg
    >>> _ = wg.random.manual_seed(3)
    >>> first = wg.random.normal((2,)).tolist()
    >>> _ = wg.random.manual_seed(3)
    >>> wg.random.normal((2,)).tolist() == first
    True
    """
    return default_generator.seed(seed)
