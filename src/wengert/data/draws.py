"""Where samplers get their random numbers: one place, so that another library's streams can take its part.

A `Draws` turns a generator (or None, the default one) into permutations and indices. Samplers, `random_split` and
loaders have one as an attribute; a subclass with other methods gives the order of another library.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

import wengert as wg
from wengert.api.generator import Generator, default_generator
from wengert.core.errors import ArgumentError, DTypeError
from wengert.tensor import Tensor


class Draws:
    """Draws from a `wg.random.Generator` (None: the default one) or a NumPy Generator.

    >>> sorted(Draws().permutation(4, wg.random.Generator(3)))
    [0, 1, 2, 3]
    """

    def seed(self, generator: Any = None) -> int:
        """Draw a seed of 63 bits; this advances the generator."""
        if isinstance(generator, np.random.Generator):
            return int(generator.integers(1 << 63))
        source = default_generator if generator is None else generator
        if not isinstance(source, Generator):
            raise DTypeError(
                f"generator must be a wg.random.Generator or a NumPy Generator, not {type(generator).__name__}"
            )
        high, low = Tensor(source.bits((2,), 32)).tolist()
        return ((high << 32) | low) & ((1 << 63) - 1)

    def generator(self, seed: int) -> Any:
        """A new generator of this seed."""
        return np.random.default_rng(seed)

    def permutation(self, count: int, generator: Any = None) -> list[int]:
        """A random permutation of the numbers below `count`."""
        found: list[int] = self._numpy(generator).permutation(count).tolist()
        return found

    def integers(self, high: int, size: int, generator: Any = None) -> list[int]:
        """`size` numbers below `high`."""
        found: list[int] = self._numpy(generator).integers(high, size=size).tolist()
        return found

    def weighted(self, weights: Sequence[float], count: int, replacement: bool, generator: Any = None) -> list[int]:
        """Draw `count` indices into `weights`, with probabilities proportional to them."""
        chances = np.asarray(weights, np.float64)
        if not np.isfinite(chances).all() or (chances < 0).any() or not chances.sum() > 0:
            raise ArgumentError("weights must be finite and non-negative, and some of them positive")
        possible = len(chances) if replacement else np.count_nonzero(chances)
        if not replacement and count > possible:
            raise ArgumentError(f"cannot draw {count} of {possible} indices with a positive weight without replacement")
        rng = self._numpy(generator)
        found: list[int] = rng.choice(len(chances), count, replacement, chances / chances.sum()).tolist()
        return found

    def seed_process(self, base: int, worker: int) -> None:
        """Seed all default generators of a worker process: Python's, NumPy's and Wengert's."""
        random.seed(base + worker)
        entropy = [worker, base & 0xFFFFFFFF, base >> 32, 0]
        np.random.seed(np.random.SeedSequence(entropy).generate_state(4))
        wg.random.manual_seed(base + worker)

    def _numpy(self, generator: Any) -> np.random.Generator:
        if isinstance(generator, np.random.Generator):
            return generator
        return np.random.default_rng(self.seed(generator))


DEFAULT = Draws()
