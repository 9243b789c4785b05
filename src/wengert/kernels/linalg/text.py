"""The text of a kernel over many small matrices: its buffers, its shared memory and its launch.

A matrix has a team of threads; a block has one team or several. A matrix's sizes are constants of the text and the
number of matrices is an argument, so one text serves any number of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from wengert.core.dtypes import COMPLEX, HALF, complex64, float64
from wengert.core.graph import Node, Shape
from wengert.kernels.launch import ERROR_FLAG, FAILING_OP, Argument, DeviceProperties, Launch, LaunchList
from wengert.kernels.space import Access, space
from wengert.kernels.writer import narrowed, stored_type, widened

BLOCK = 128  # threads, of one team or of several


def scalar(dtype: np.dtype[Any]) -> str:
    """The C type that a dtype computes in."""
    if dtype in COMPLEX:
        return "wg_c64" if dtype is complex64 else "wg_c128"
    return "double" if dtype is float64 else "float"


def stored(dtype: np.dtype[Any]) -> str:
    """The C type that a dtype has in memory."""
    return scalar(dtype) if dtype in COMPLEX else stored_type(dtype)


def bytes_of(dtype: np.dtype[Any]) -> int:
    """The bytes of a number in shared memory."""
    return 4 if dtype in HALF else dtype.itemsize


def team_of(size: int) -> int:
    """How many threads have a matrix."""
    return BLOCK if size > 32 else max(8, 1 << (size - 1).bit_length())


def odd(columns: int) -> int:
    """Elements from row to row: no two of a column in one bank."""
    return columns | 1


def _padded(size: int) -> int:
    return -(-size // 16) * 16


@dataclass
class Text:
    """A kernel over many matrices while it is written: its buffers, what lies in shared memory, and its lines."""

    name: str
    dtype: np.dtype[Any]
    team: int
    batch: Shape
    parameters: list[str] = field(default_factory=list)
    arguments: list[str] = field(default_factory=list)
    places: list[str] = field(default_factory=list)  # lines that declare the layout of shared memory
    bytes: int = 0  # of shared memory that a team has
    lines_before: list[str] = field(default_factory=list)  # where the results of a matrix lie
    lines: list[str] = field(default_factory=list)
    operands: list[tuple[str, Node, int]] = field(default_factory=list)  # with the elements of one of its matrices

    def shared(self, name: str, count: int, kind: str = "T", size: int = 0) -> None:
        """So many numbers in the shared memory of a team."""
        self.places.append(f"{kind} *{name} = ({kind} *)(own + {self.bytes});")
        self.bytes += _padded(count * (size or bytes_of(self.dtype)))

    def reads(self, name: str, buffer: str, node: Node) -> None:
        """An operand, whose matrices may serve several of the result's."""
        self.parameters.append(f"const {stored(node.dtype)} *__restrict__ {name}")
        self.arguments.append(buffer)
        self.operands.append((name, node, math.prod(node.shape[-2:])))

    def writes(self, name: str, buffer: str, node: Node, each: int) -> None:
        """A result, with this many elements for each matrix."""
        self.parameters.append(f"{stored(node.dtype)} *__restrict__ {name}")
        self.arguments.append(buffer)
        self.lines_before.append(f"{name} += matrix * {each};")

    def fails(self, condition: str, how: str) -> None:
        """Note the op if this holds."""
        if ERROR_FLAG not in self.arguments:
            self.parameters += ["long long wg_op", "int *wg_error"]
            self.arguments += [FAILING_OP, ERROR_FLAG]
        self.lines.append(f"if ({condition} && wg_team<TEAM>::rank() == 0) wg_fail(wg_error, (int)wg_op, {how});")

    def line(self, *lines: str) -> None:
        """More lines."""
        self.lines += lines

    def launch(self, device: DeviceProperties) -> LaunchList:
        """The launch: as many teams a block as it has threads and shared memory for."""
        count = math.prod(self.batch)
        teams = max(1, min(BLOCK // self.team, (48 << 10) // max(self.bytes, 1), count))
        offsets = self._offsets()
        body = "\n    ".join([*self.places, *offsets, *self.lines_before, *self.lines])
        parameters = ", ".join([*self.parameters, "long long count"])
        text = f"""#include "matrix.cuh"
#include "jacobi.cuh"

typedef {scalar(self.dtype)} T;
typedef wg_real_of<T> R;
#define TEAM {self.team}

extern "C" __global__ void __launch_bounds__({teams * self.team})
wg_each_{self.name}({parameters})
{{
    extern __shared__ __align__(16) char wg_shared[];
    const long long matrix = (long long)blockIdx.x * {teams} + threadIdx.x / TEAM;
    if (matrix >= count) return;
    char *own = wg_shared + threadIdx.x / TEAM * {self.bytes};
    {body}
}}
"""
        grid = (-(-count // teams), 1, 1)
        why = f"{count} matrices, {self.team} threads each"
        arguments: tuple[Argument, ...] = (*self.arguments, np.int64(count))
        launch = Launch(
            text, f"wg_each_{self.name}", grid, (teams * self.team, 1, 1), arguments, self.bytes * teams, why
        )
        return LaunchList((launch,))

    def _offsets(self) -> list[str]:
        """Where the matrices of the operands lie that belong to a matrix of the result."""
        steps = []
        for _, node, _ in self.operands:
            lead = node.shape[:-2]
            steps.append(steps_of(lead, self.batch))
        if all(is_plain(step, self.batch) for step in steps):
            return [f"{name} += matrix * {each};" for name, _, each in self.operands]
        where = space(self.batch, [Access(tuple(step)) for step in steps])
        lines, rest = [], "matrix"
        for axis in reversed(range(len(where.extents))):
            lines.append(f"const long long i{axis} = {rest} % {where.extents[axis]}LL;")
            rest = f"{rest} / {where.extents[axis]}LL"
        for (name, _, each), access in zip(self.operands, where.accesses):
            at = " + ".join(f"i{axis} * {step}LL" for axis, step in enumerate(access.steps)) or "0"
            lines.append(f"{name} += ({at}) * {each};")
        return lines


def steps_of(lead: Shape, batch: Shape) -> list[int]:
    """How many matrices lie between neighbours along each axis of the batch."""
    found, step = [], 1
    for size in reversed(lead):
        found.append(0 if size == 1 else step)
        step *= size
    return [0] * (len(batch) - len(lead)) + found[::-1]


def is_plain(steps: Sequence[int], batch: Shape) -> bool:
    """Whether these are the steps of matrices one after another."""
    step = 1
    for own, size in zip(reversed(steps), reversed(batch)):
        if size > 1 and own != step:
            return False
        step *= size
    return True


def element_of(node: Node, name: str, at: str) -> str:
    """An element of an operand as it is computed with."""
    return widened(node.dtype, f"{name}[{at}]")


def load(text: Text, node: Node, name: str, to: str, step: int, conjugate_transpose: bool = False) -> None:
    """An operand's matrix into shared memory."""
    rows, columns = node.shape[-2:]
    if conjugate_transpose:
        element = f"{to}[k % {columns} * {step} + k / {columns}] = wg_conj({element_of(node, name, 'k')});"
    else:
        element = f"{to}[k / {columns} * {step} + k % {columns}] = {element_of(node, name, 'k')};"
    text.line(
        f"for (int k = wg_team<TEAM>::rank(); k < {rows * columns}; k += TEAM) {element}", "wg_team<TEAM>::sync();"
    )


def store(text: Text, node: Node, name: str, rows: int, columns: int, element: str) -> None:
    """A result's matrix: `element` is an expression of i and j."""
    text.line(
        f"for (int k = wg_team<TEAM>::rank(); k < {rows * columns}; k += TEAM) {{",
        f"    const int i = k / {columns}, j = k % {columns};",
        f"    {name}[k] = {narrowed(node.dtype, element)};",
        "}",
    )
