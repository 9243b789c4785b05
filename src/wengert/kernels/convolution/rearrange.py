"""Launches that rearrange values around a convolution: channels first to channels last and back, weights to chunks."""

from __future__ import annotations

from dataclasses import astuple, dataclass, fields

import numpy as np

from wengert.kernels.launch import Launch
from wengert.kernels.matmul.product import DType, device_type


def swap(name: str, source: str, to: str, batch: int, rows: int, columns: int, pitch: int, dtype: DType) -> Launch:
    """(batch, rows, columns) to (batch, columns, pitch): the axes exchanged, rows filled up with zeros to `pitch`."""
    kind, numbers = device_type(dtype), (np.int32(rows), np.int32(columns))
    if pitch * dtype.itemsize in (4, 8, 16):
        text = f"""#include "arrange.cuh"
extern "C" __global__ void {name}(const {kind} *from, {kind} *to, int rows, int columns)
{{
    wg_swap_few<{kind}, {pitch}>(from, to, rows, columns);
}}
"""
        why = f"a thread gathers {pitch} elements"
        return Launch(text, name, (-(-columns // 256) * batch, 1, 1), (256, 1, 1), (source, to, *numbers), why=why)
    text = f"""#include "arrange.cuh"
extern "C" __global__ void {name}(const {kind} *from, {kind} *to, int rows, int columns, int pitch)
{{
    wg_swap(from, to, rows, columns, pitch);
}}
"""
    grid = (-(-columns // 32) * -(-pitch // 32) * batch, 1, 1)
    return Launch(
        text,
        name,
        grid,
        (32, 8, 1),
        (source, to, *numbers, np.int32(pitch)),
        why="tiles of 32 x 32 by way of shared memory",
    )


@dataclass(frozen=True)
class Arrangement:
    """A weight (outs, channels, lines, columns) as (rows, lines, wide, fold * pitch); the sizes that wg_arrange takes.

    `fold` neighbouring columns, from `shift` before the first on, count as channels. `last` says (1, or 0) that the
    weight's channels come last already: (outs, lines, columns, channels).
    """

    rows: int
    outs: int
    channels: int
    lines: int
    columns: int
    wide: int
    fold: int
    pitch: int
    shift: int
    last: int = 0

    @property
    def changes_nothing(self) -> bool:
        """Whether the weight is arranged as it comes."""
        filled = (self.rows, self.pitch, self.wide) == (self.outs, self.channels, self.columns)
        return bool(self.last) and filled and self.fold == 1 and not self.shift

    def into(self, source: str, to: str, dtype: DType) -> Launch:
        """The weight arranged, zeros around it."""
        elements = self.rows * self.lines * self.wide * self.fold * self.pitch
        return self._launch("wg_arrange", source, to, device_type(dtype), device_type(dtype), elements)

    def back(self, source: str, to: str, source_dtype: DType, dtype: DType) -> Launch:
        """An arranged weight as it was."""
        elements = self.outs * self.channels * self.lines * self.columns
        return self._launch("wg_arrange_back", source, to, device_type(source_dtype), device_type(dtype), elements)

    def _launch(self, function: str, source: str, to: str, from_kind: str, to_kind: str, elements: int) -> Launch:
        names = [field.name for field in fields(self)]
        text = f"""#include "arrange.cuh"
extern "C" __global__ void arrange(const {from_kind} *from, {to_kind} *to, {", ".join(f"int {name}" for name in names)})
{{
    {function}(from, to, wg_arrangement{{{", ".join(names)}}});
}}
"""
        numbers = [np.int32(n) for n in astuple(self)]
        why = f"a thread for each of {elements} elements"
        return Launch(text, "arrange", (-(-elements // 256), 1, 1), (256, 1, 1), (source, to, *numbers), why=why)
