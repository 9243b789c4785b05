"""`wengert torch --torch-random`: draws random numbers as PyTorch does on the CPU, so that a script has its losses.

Each generator has a `random_stream.Stream`, from which numbers are drawn immediately, on the host. A compiled program
would draw them only while it is recorded, so compilation is refused and the function runs uncompiled.
"""

from __future__ import annotations

from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from wengert.api import random as drawn
from wengert.core import devices
from wengert.core.errors import RecordingError
from wengert.core.graph import Node, Shape, recording
from wengert.ops.core import as_node, cast, data
from wengert.ops.elementwise import add, multiply, subtract
from wengert.tensor import engine
from wengert.torch import random
from wengert.torch.random_stream import Stream as Numbers


class TorchStream(random.Stream):
    """PyTorch's numbers for each distribution."""

    def __init__(self) -> None:
        self._numbers: WeakKeyDictionary[Any, Numbers] = WeakKeyDictionary()

    def _of(self, generator: Any) -> Numbers:
        if recording.trace is not None:
            raise RecordingError(
                "--torch-random draws numbers immediately, which is impossible inside a function that is being recorded"
            )
        if devices.default == devices.META:  # what is drawn for tensors without values does not count
            return Numbers(0)
        source = random.default_generator if generator is None else generator
        if source not in self._numbers:
            self._numbers[source] = Numbers(source.initial_seed())
        return self._numbers[source]

    def uniform(self, shape: Shape, low: Any, high: Any, dtype: Any, generator: Any) -> Node:
        """Uniformly distributed numbers in [low, high)."""
        numbers = self._of(generator)
        if isinstance(low, Node) or isinstance(high, Node):
            unit = data(numbers.rand(shape, dtype))
            return add(multiply(unit, subtract(as_node(high), as_node(low))), low)
        return data(numbers.uniform(shape, float(low), float(high), dtype))

    def normal(self, shape: Shape, mean: Any, std: Any, dtype: Any, generator: Any) -> Node:
        """Normally distributed numbers."""
        numbers = self._of(generator)
        if isinstance(mean, Node) or isinstance(std, Node):
            return add(multiply(data(numbers.randn(shape, dtype)), std), mean)
        return data(numbers.normal(shape, float(mean), float(std), dtype))

    def truncated_normal(
        self, shape: Shape, mean: Any, std: Any, low: float, high: float, dtype: Any, generator: Any
    ) -> Node:
        """Normally distributed numbers within bounds that are counted in deviations."""
        m, s = float(mean), float(std)
        return data(self._of(generator).trunc_normal(shape, m, s, m + low * s, m + high * s, dtype))

    def randint(self, shape: Shape, low: int, high: int, dtype: Any, generator: Any) -> Node:
        """Uniformly distributed integers in [low, high)."""
        return data(self._of(generator).randint(low, high, shape, dtype))

    def random(self, shape: Shape, dtype: Any, generator: Any) -> Node:
        """Integers from 0 to the largest that the dtype holds."""
        return data(self._of(generator).random(shape, dtype))

    def permutation(self, n: int, generator: Any) -> Node:
        """The numbers from 0 to below `n` in random order."""
        return data(self._of(generator).randperm(n))

    def bernoulli(self, shape: Shape, p: Any, generator: Any) -> Node:
        """Booleans that are true with probability `p`."""
        given = np.broadcast_to(engine.value(p), shape) if isinstance(p, Node) else float(p)
        return cast(data(self._of(generator).bernoulli(given, shape)), np.dtype(np.bool_))

    def exponential(self, shape: Shape, dtype: Any, generator: Any) -> Node:
        """Exponentially distributed numbers with mean 1."""
        return data(self._of(generator).exponential(shape, 1.0, dtype))

    def multinomial(self, p: Node, count: int, replacement: bool, generator: Any) -> Node:
        """Draw indices for each row of probabilities."""
        return data(np.asarray(self._of(generator).multinomial(np.array(engine.value(p)), count, replacement)))

    def seeded(self, generator: Any, seed: int) -> None:
        """Called when a generator is seeded."""
        self._numbers[generator] = Numbers(seed)

    def state(self, generator: Any) -> np.ndarray[Any, Any]:
        """Where a generator is, as bytes."""
        return self._of(generator).get_state()

    def set_state(self, generator: Any, state: np.ndarray[Any, Any]) -> None:
        """Restore what `state` returned."""
        self._of(generator).set_state(state)


def install() -> None:
    """Draw PyTorch's numbers from now on, also for initial values and dropout."""
    numbers = TorchStream()
    random.set_stream(numbers)
    drawn.stream = numbers
