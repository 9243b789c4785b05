"""The loop IR: what a fused kernel does, as data. Two writers make text of it: C (`c`) and CUDA C++ (`cuda`).

A Kernel has outer loops (independent: they may run in parallel) around stages. A stage is one pass over the inner
loops: it loads, computes, accumulates and stores; between stages row scalars are computed from what was accumulated.
Names are single assignment, a letter and a number: `v` for values, `r` for reductions. Indices are `index` expressions
over the loops' variables. Who uses which name, and what a value is made of, is asked of `match`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from wengert.kernels.ir.index import Index, Loop
from wengert.kernels.ir.index_map import Guard
from wengert.kernels.ir.intrinsics import Intrinsic
from wengert.ops.op import Op

DType = np.dtype[Any]


class Literal(NamedTuple):
    """A number, by its bits: -0 is not 0, and a NaN equals itself."""

    content: bytes
    dtype: DType

    @property
    def value(self) -> Any:
        """The number, as a NumPy scalar."""
        return np.frombuffer(self.content, self.dtype)[0]


def literal(value: Any, dtype: DType) -> Literal:
    """A number in a dtype."""
    return Literal(np.asarray(value, dtype).tobytes(), dtype)


Operand = str | Literal  # the name of an earlier value, or a number


@dataclass(frozen=True)
class Load:
    """`name = buffer[index]`, and 0 where a guard does not hold."""

    name: str
    buffer: str
    dtype: DType
    index: Index
    guards: tuple[Guard, ...] = ()


@dataclass(frozen=True)
class Let:
    """`name = op(operands)`, and 0 where a guard does not hold."""

    name: str
    dtype: DType
    op: Op | Intrinsic
    operands: tuple[Operand, ...]
    computed_in: DType  # the dtype of the last operand
    attributes: tuple[tuple[str, Any], ...] = ()
    guards: tuple[Guard, ...] = ()
    fast: bool = False  # whether a device's own, less exact exponentials serve


def let(
    name: str,
    dtype: DType,
    op: Op | Intrinsic,
    *operands: Operand,
    attributes: Mapping[str, Any] | None = None,
    guards: tuple[Guard, ...] = (),
) -> Let:
    """A value of a dtype that is computed in that dtype."""
    return Let(name, dtype, op, operands, dtype, tuple((attributes or {}).items()), guards)


@dataclass(frozen=True)
class Position:
    """`name = index`, as a number."""

    name: str
    dtype: DType
    index: Index


@dataclass(frozen=True)
class Store:
    """`buffer[index] = value`."""

    buffer: str
    dtype: DType
    index: Index
    value: Operand


@dataclass(frozen=True)
class Accumulate:
    """`name = kind(name, value)` over the inner loops; `kind` is sum, prod, max, min, all, any, argmax or argmin."""

    name: str
    kind: str
    dtype: DType  # of the reduction
    value: Operand
    position: Index | None = None  # for argmax, argmin: where along the reduced axis


Value = Load | Let | Position  # what has a name
Statement = Value | Store | Accumulate


@dataclass
class Stage:
    """One pass over the inner loops, after some row scalars."""

    before: list[Statement] = field(default_factory=list)
    inside: list[Statement] = field(default_factory=list)


@dataclass
class LoopKernel:
    """Loops around stages, and the row scalars and stores that come last."""

    name: str
    outer: list[Loop]
    inner: list[Loop]
    stages: list[Stage]
    after: list[Statement]
    buffers: dict[str, tuple[DType, bool]]  # by name: what it holds, and whether it is written
    scratch: dict[str, tuple[DType, int]] = field(default_factory=dict)  # rows kept between passes: dtype and length
    ops: tuple[str, ...] = ()  # what it computes, for people

    @property
    def comment(self) -> str:
        """The ops that it computes."""
        return ", ".join(self.ops)

    @property
    def label(self) -> str:
        """The same as part of a name."""
        return "_".join(self.ops)[:40].strip("_") or "kernel"
