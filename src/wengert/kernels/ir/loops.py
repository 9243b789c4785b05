"""The loop IR: what a fused kernel does, as data. Two writers turn it into text: C (`c`) and CUDA C++ (`cuda`).

A Kernel has outer loops (independent, so they may run in parallel) around stages. A stage is one pass over the inner
loops: it loads, computes, accumulates and stores; between stages, row scalars are computed from the accumulated values.
Names are single assignment, a letter and a number: `v` for values, `r` for reductions. Indices are `index` expressions
over the loop variables. `transforms` answers which statements use a name, and what a value is computed from.

An IndexMap says which source elements an element of a node is made from; a movement op is nothing but this map. It
holds the element's indices, or its row-major position where a reshape made the indices useless (a buffer needs only the
position), and guards outside which the value is 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from wengert.core.graph import Node, Shape
from wengert.kernels.ir.index import (
    ZERO,
    Index,
    Loop,
    Quotient,
    add,
    flat,
    number,
    scale,
    side_by_side,
    unflat,
    variable,
)
from wengert.kernels.ir.intrinsics import Intrinsic
from wengert.ops.movement import BROADCAST, FLIP, PERMUTE, RESHAPE, SLICE
from wengert.ops.op import Op


@dataclass(frozen=True)
class Guard:
    """A condition on an index: `low <= index < high`, and a multiple of `step` from `low`."""

    index: Index
    low: int
    high: int
    step: int = 1

    @property
    def always(self) -> bool:
        """Whether it holds whatever the loops are at."""
        low, high = self.index.bounds()
        return self.step == 1 and self.low <= low and high < self.high

    @property
    def never(self) -> bool:
        """Whether it holds nowhere, as far as bounds tell."""
        low, high = self.index.bounds()
        return high < self.low or low >= self.high


class IndexMap(NamedTuple):
    """An element of a node: its indices or its position, and the guards outside which it is 0."""

    indices: tuple[Index, ...] | None
    position: Index | None = None
    guards: tuple[Guard, ...] = ()

    def flat(self, shape: Shape) -> Index:
        """The position in row-major order."""
        if self.position is not None:
            return self.position
        assert self.indices is not None
        return _position(self.indices, shape)

    def along(self, shape: Shape) -> tuple[Index, ...]:
        """The index along each axis."""
        if self.indices is not None:
            return self.indices
        assert self.position is not None
        return unflat(self.position, shape)


_position = lru_cache(maxsize=1 << 14)(flat)  # a model has few distinct shapes and index maps


def loops_of(shape: Shape) -> list[Loop]:
    """A loop for each axis of a shape."""
    return [Loop(f"i{axis}", n) for axis, n in enumerate(shape)]


def everywhere(loops: Sequence[Loop]) -> IndexMap:
    """The element that the loops are at."""
    return IndexMap(tuple(variable(loop) for loop in loops))


def broadcast_place(place: IndexMap, shape: Shape, source: Shape) -> IndexMap:
    """The element of a source that was broadcast to `shape`."""
    if source == shape:
        return place
    indices = place.along(shape)[len(shape) - len(source) :]
    return IndexMap(tuple(ZERO if n == 1 else i for i, n in zip(indices, source)), None, place.guards)


def moved_place(node: Node, place: IndexMap) -> IndexMap:
    """The element of a movement op's source that an element of it is."""
    source, attrs, op = node.sources[0].shape, node.attrs, node.op
    if op is BROADCAST:
        return broadcast_place(place, node.shape, source)
    if op is RESHAPE:
        return _reshaped(node.shape, source, place)
    indices = place.along(node.shape)
    if op is PERMUTE:
        found = [ZERO] * len(source)
        for axis, index in zip(attrs["axes"], indices):
            found[axis] = index
        return IndexMap(tuple(found), None, place.guards)
    if op is SLICE:
        steps = zip(indices, attrs["starts"], attrs["steps"])
        return IndexMap(tuple(add(scale(i, t), number(s)) for i, s, t in steps), None, place.guards)
    if op is FLIP:
        turned = [
            add(scale(i, -1), number(n - 1)) if axis in attrs["axes"] else i
            for axis, (i, n) in enumerate(zip(indices, source))
        ]
        return IndexMap(tuple(turned), None, place.guards)
    return _placed(node, indices, place.guards)


def _reshaped(shape: Shape, source: Shape, place: IndexMap) -> IndexMap:
    if place.indices is not None and _without_ones(shape) == _without_ones(source):
        rest = iter([index for index, n in zip(place.indices, shape) if n != 1])
        return IndexMap(tuple(ZERO if n == 1 else next(rest) for n in source), None, place.guards)
    return IndexMap(None, place.flat(shape), place.guards)


def _without_ones(shape: Shape) -> Shape:
    return tuple(n for n in shape if n != 1)


def _placed(node: Node, indices: Sequence[Index], guards: tuple[Guard, ...]) -> IndexMap:
    """The element of what was laid into zeros; guarded, since most places are zeros."""
    found, more = [], list(guards)
    for index, n, start, step in zip(indices, node.sources[0].shape, node.attrs["starts"], node.attrs["steps"]):
        guard = Guard(index, start, start + max(n - 1, 0) * step + 1 if n else start, step)
        if not guard.always:
            more.append(guard)
        back = add(index, number(-start))
        found.append(back if step == 1 else Index(((Quotient(back, step), 1),)))
    return IndexMap(tuple(found), None, tuple(more))


# --- loops ----------------------------------------------------------------------------------------------------------


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

    @property
    def partials_name(self) -> str:
        """The name of its partial results, if several blocks share it."""
        return f"{self.name}_partial"

    @property
    def result_name(self) -> str:
        """The name of its result when a launch passes it to the next one."""
        return f"{self.name}_total"


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
    buffers: dict[str, tuple[DType, bool]]  # by name: its dtype, and whether it is written
    scratch: dict[str, tuple[DType, int]] = field(default_factory=dict)  # rows kept between passes: dtype and length
    ops: tuple[str, ...] = ()  # what it computes, as text

    @property
    def comment(self) -> str:
        """The ops that it computes."""
        return ", ".join(self.ops)

    @property
    def label(self) -> str:
        """The same as part of a name."""
        return "_".join(self.ops)[:40].strip("_") or "kernel"


# --- accesses -------------------------------------------------------------------------------------------------------

Access = tuple[str, Index, tuple[Guard, ...]]


def access(load: Load) -> Access:
    """What a load reads, regardless of its name."""
    return load.buffer, load.index, load.guards


def is_vector(statement: Load | Store, loop: Loop | None, vector: int) -> bool:
    """Whether V steps of a loop find elements side by side, from a multiple of V on."""
    if vector == 1:
        return True
    if loop is None or not side_by_side(statement.index, loop, vector):
        return False
    guards = statement.guards if isinstance(statement, Load) else ()
    return all(_holds_for_all(guard, loop, vector) for guard in guards)


def _holds_for_all(guard: Guard, loop: Loop, vector: int) -> bool:
    """Whether a guard holds for all of V elements or for none."""
    if guard.index.factor(loop) == 0:
        return True
    even = guard.step == 1 and guard.low % vector == 0 and guard.high % vector == 0
    return even and side_by_side(guard.index, loop, vector)
