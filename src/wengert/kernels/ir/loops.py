"""The loop language: what a fused kernel does, before it is written down as C (`c`) or CUDA C++ (`cuda`).

A Kernel has outer loops (independent: they may run in parallel) around stages. A stage is one pass over the inner
loops: it loads, computes, accumulates and stores; between stages row scalars are computed from what was accumulated.
Names are single assignment; indices are `compiler.index` expressions over the loops' variables.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wengert.kernels.ir.index import Index, Loop
from wengert.kernels.ir.index_map import Guard

DType = np.dtype[Any]


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
    """`name = text`, an expression over earlier names, and 0 where a guard does not hold; C and CUDA alike."""

    name: str
    dtype: DType
    text: str
    guards: tuple[Guard, ...] = ()


@dataclass(frozen=True)
class Position:
    """`name = index`, as a number."""

    name: str
    dtype: DType
    index: Index


@dataclass(frozen=True)
class Store:
    """`buffer[index] = name`."""

    buffer: str
    dtype: DType
    index: Index
    name: str


@dataclass(frozen=True)
class Accumulate:
    """`total = kind(total, name)` over the inner loops; `kind` is sum, prod, max, min, all, any, argmax or argmin."""

    total: str
    kind: str
    dtype: DType  # of the total
    name: str
    position: Index | None = None  # for argmax, argmin: where along the reduced axis


Statement = Load | Let | Position | Store | Accumulate


@dataclass
class Stage:
    """One pass over the inner loops, after some row scalars."""

    before: list[Statement] = field(default_factory=list)
    inside: list[Statement] = field(default_factory=list)


@dataclass
class Kernel:
    """Loops around stages, and the row scalars and stores that come last."""

    name: str
    outer: list[Loop]
    inner: list[Loop]
    stages: list[Stage]
    after: list[Statement]
    buffers: dict[str, tuple[DType, bool]]  # by name: what it holds, and whether it is written
    scratch: dict[str, tuple[DType, int]] = field(default_factory=dict)  # rows kept between passes: dtype and length
    comment: str = ""
