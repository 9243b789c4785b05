"""The settings, and a version number by which compiled functions notice changes to what they depend on.

Setting an attribute of the configuration, of a Module or of an Optimizer increments `version`. Functions recorded under
another version are recorded again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from wengert.core import devices
from wengert.core.errors import ArgumentError
from wengert.core.sizes import budget_of


class Config:
    """Wengert's settings, one object: `wg.config`."""

    def __init__(self) -> None:
        self.__dict__["version"] = 0

    version: int

    tier: str = "auto"
    """How graphs are run: "interpret" (the NumPy references), "compile", or "auto": compiled when they come back."""

    passes_off: frozenset[str] = frozenset()
    """The compiler's passes to leave out, by name."""

    fuel: int | None = None
    """How many rewrites the compiler may make, to find one that is at fault; None for all."""

    memory_budget: int | None = None
    """The bytes, set as 8_000_000_000 or "8GiB", that the program of a compiled function takes at most: its arguments,
    the tensors it reads, its results and what it works in. To keep it, cheap values are computed again instead of being
    kept; where that is not enough, an error says so before anything runs. `compile` takes it as an argument, too.
    """

    tf32: bool = False
    """Whether matrix products and convolutions of float32 on a GPU may round their operands to tf32, which has 10 bits
    of the 23 behind the point: tensor cores take that, several times as fast. Sums stay float32.
    """

    invariant: bool = False
    """Whether the numbers of an example are the same to the last bit in whatever batch it came, and sums over a batch
    have one order of additions, a tree of blocks: docs/reproducibility.md says what is bit-exact where. On the CPU
    dynamic execution and compiled functions then agree to the bit, too. It needs a C compiler.
    """

    parts: int | None = None
    """Into how many parts the batch of a compiled function is cut, whatever the number of ranks, which share them: the
    same bits on 1, 2, 4, ... ranks. The parts' gradients are added in a fixed tree, and programs are `invariant`.
    """

    check: bool = False
    """Whether every kernel of a compiled program is replayed against its reference; the first that differs raises."""

    deadline: float = 60.0
    """The seconds that a collective waits for ranks that have not entered it, before it raises CollectiveTimeout with
    who came and who did not. Time in which a missing rank compiles, loads data or saves does not count.
    """

    def changed(self) -> None:
        """Increment the version: a setting that recorded functions depend on has changed."""
        self.__dict__["version"] += 1

    def __setattr__(self, name: str, value: Any) -> None:
        if not hasattr(type(self), name):
            raise AttributeError(f"there is no setting {name!r}")
        self.__dict__[name] = _CHECKED[name](value) if name in _CHECKED else value
        if name != "deadline":  # nothing that is recorded depends on it
            self.changed()


def _budget(value: Any) -> int | None:
    return budget_of(value, "config.memory_budget")


def _deadline(value: Any) -> float:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not 0 < value <= threading.TIMEOUT_MAX:
        raise ArgumentError(f"config.deadline must be a number of seconds above 0, such as 60, not {value!r}")
    return float(value)


def _parts(value: Any) -> int | None:
    if value is not None and (type(value) is not int or value < 1 or value & (value - 1)):
        raise ArgumentError(f"config.parts must be a power of two, such as 4, or None, not {value!r}")
    return value


_CHECKED: dict[str, Callable[[Any], Any]] = {"memory_budget": _budget, "deadline": _deadline, "parts": _parts}

config = Config()
devices.on_change = config.changed
