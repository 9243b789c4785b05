"""Operands: what a line of a program reads, as it is written."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tests.compiler.random_graphs import Untame
from tests.programs.modes import Mode
from tests.programs.noise import NoisyBuilder
from wengert.core.dtypes import COMPLEX, FLOATING, INEXACT, bool_, real_of
from wengert.core.graph import Node


class Operand(NamedTuple):
    """A value as it is written in a line."""

    text: str
    shape: tuple[int, ...]
    dtype: Any

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(np.prod(self.shape, dtype=int))

    def __format__(self, spec: str) -> str:
        return self.text


class OperandBuilder(NoisyBuilder):
    """Draws the operands of lines from the values that a program has so far."""

    def __init__(self, mode: Mode, seed: list[int], portable: bool) -> None:
        super().__init__(seed)
        self.mode, self.portable = mode.portable() if portable else mode, portable
        self.dtype = self.choice(self.mode.dtypes)
        self.names: dict[Node, str] = {}
        self.constants: dict[str, np.ndarray] = {}

    def operand(self, *dtypes: Any) -> Operand:
        """A value of one of these dtypes, likelier a late one; cast to one if there is none."""
        found = [node for node in self.pool if node.dtype in dtypes] if dtypes else self.pool
        late = found[-6:] if self.chance(0.6) else found
        if late and self.chance(0.93):
            return self.written(self.choice(late))
        x = self.written(self.choice(self.pool))
        dtype = self.dtype if self.dtype in dtypes or not dtypes else self.choice(dtypes)
        if x.dtype in COMPLEX and dtype not in COMPLEX:
            x = Operand(f"wg.real({x})", x.shape, real_of(x.dtype))
        return Operand(f"wg.astype({x}, wg.{dtype.name})", x.shape, dtype)

    def written(self, node: Node) -> Operand:
        """A value by its name."""
        return Operand(self.names[node], node.shape, node.dtype)

    def inexact(self) -> Operand:
        """A value of the program's own kind: complex or floating."""
        return self.operand(*self.mode.inexact)

    def real(self) -> Operand:
        """A floating value."""
        return self.operand(*self.mode.floats)

    def integer(self) -> Operand:
        """An integer value."""
        return self.operand(*self.mode.integers)

    def truth(self) -> Operand:
        """A truth value: one that is there, or a comparison."""
        found = [node for node in self.pool if node.dtype is bool_]
        if found and self.chance(0.7):
            return self.written(self.choice(found[-4:]))
        x = self.real()
        return Operand(f"({x} > {self.number()})", x.shape, bool_)

    def number(self) -> str:
        """A Python number."""
        return self.choice(["0.5", "-0.25", "2", "1", "0.1", "-1.5", "3"])

    def beside_it(self, x: Operand, *dtypes: Any) -> Operand | str:
        """What broadcasts against an operand: a number, itself, another value, or an array."""
        kind = self.rng.integers(8)
        if kind == 0:
            return self.number() if x.dtype in INEXACT else self.choice(["1", "2", "3"])
        allowed = dtypes or (x.dtype,)
        fitting = [n for n in self.pool if n.dtype in allowed and _fits(n.shape, x.shape)]
        if kind == 1 or not fitting:
            shape = tuple(n if self.chance(0.7) else 1 for n in x.shape)[int(self.rng.integers(0, 2)) * (x.ndim > 1) :]
            return self.constant_like(shape, x.dtype)
        return self.written(self.choice(fitting))

    def constant_like(self, shape: tuple[int, ...], dtype: Any) -> Operand:
        """An array of random numbers as a tensor."""
        return self.constant_of(self._laid_out(self.numbers(shape, dtype)))

    def constant_of(self, array: np.ndarray) -> Operand:
        """An array as a tensor."""
        name = f"c{len(self.constants)}"
        self.constants[name] = array
        return Operand(f"wg.tensor({name})", array.shape, array.dtype)

    def places(self, shape: tuple[int, ...], size: int) -> Operand:
        """Indices of an axis of this size."""
        if not size:
            raise Untame
        low = -size if self.chance(0.3) and not self.portable else 0
        return self.constant_of(self.rng.integers(low, size, shape, dtype=np.int64))

    def axis(self, x: Operand) -> int:
        """One of the axes, counted from either side."""
        if not x.ndim:
            raise Untame
        return int(self.rng.integers(-x.ndim, x.ndim))

    def is_distinct(self, x: Operand) -> bool:
        """Whether a value has no two elements that are equal."""
        found = [self.values[node] for node, name in self.names.items() if name == x.text]
        return bool(found) and np.unique(found[0]).size == x.size

    def axes_of(self, x: Operand) -> Any:
        """An axis, several or None."""
        kind = self.rng.integers(4)
        if kind == 0 or not x.ndim:
            return None
        return self.axis(x) if kind < 3 else self.axes(x.ndim)

    def _laid_out(self, array: np.ndarray) -> np.ndarray:
        """The array, now and then with its elements not one after the other."""
        kind = self.rng.integers(6)
        if kind == 0:
            return np.array(array.T).T
        if kind == 1 and array.ndim:
            return np.repeat(array, 2, -1)[..., ::2]
        return array[..., ::-1].copy()[..., ::-1] if kind == 2 and array.ndim else array

    def numbers(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        if dtype in COMPLEX:
            parts = [self.rng.uniform(-2, 2, shape) for _ in range(2)]
            return np.asarray(parts[0] + 1j * parts[1]).astype(dtype)
        if dtype in FLOATING and self.chance(0.15):  # ties and zeros
            return np.asarray(self.rng.integers(-3, 4, shape) / 2).astype(dtype)
        return super().numbers(shape, dtype)


def _fits(a: Any, b: Any) -> bool:
    try:
        return len(np.broadcast_shapes(a, b)) <= 4
    except ValueError:
        return False
