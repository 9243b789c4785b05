"""Rows of times as text, beside what the machine can do: its memory's and its matrix products' measured rates."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from wengert.runtime.explain import bytes_text


@dataclass
class Row:
    """What was counted of equal ops or kernels."""

    count: int = 0
    seconds: float = 0.0
    moved: int = 0  # bytes
    flops: int = 0

    def add(self, other: Row) -> None:
        """Count another one's here too."""
        self.count += other.count
        self.seconds += other.seconds
        self.moved += other.moved
        self.flops += other.flops


class Ceiling(NamedTuple):
    """What the machine can do in a second."""

    bytes: float
    flops: float

    def share(self, row: Row) -> float:
        """How much of what limits it a row reached: of the memory's rate or of the arithmetic's, whichever is more."""
        seconds = max(row.seconds, 1e-9)
        return max(row.moved / seconds / self.bytes, row.flops / seconds / self.flops)


@functools.cache
def ceiling() -> Ceiling:
    """Measured here, once: the copy of a large array, and a float32 matrix product."""
    source, target = np.ones(1 << 23, np.float32), np.empty(1 << 23, np.float32)
    a = np.ones((768, 768), np.float32)
    return Ceiling(2 * source.nbytes / _least(lambda: np.copyto(target, source)), 2 * 768**3 / _least(lambda: a @ a))


def _least(run: Callable[[], Any], repeats: int = 5) -> float:
    times = []
    for _ in range(repeats):
        start = perf_counter()
        run()
        times.append(perf_counter() - start)
    return min(times)


def table(rows: Mapping[str, Row], by: str, total: float, top: int) -> str:
    """The first rows with their share of the time, rates, and the share of the ceiling that they reached."""
    found = ceiling()
    lines = [f"{'ms':>10} {'share':>6} {'calls':>7} {'moved':>10} {'GFLOP':>8} {'ceiling':>8}  {by}"]
    for name, row in list(rows.items())[:top]:
        lines.append(
            f"{row.seconds * 1e3:>10.3f} {row.seconds / total:>6.1%} {row.count:>7} {bytes_text(row.moved):>10} "
            f"{row.flops / 1e9:>8.3f} {found.share(row):>8.0%}  {name}"
        )
    if len(rows) > top:
        lines.append(f"           and {len(rows) - top} more")
    lines.append(
        f"ceiling: {found.bytes / 1e9:.1f} GB/s of memory, {found.flops / 1e9:.0f} GFLOP/s of float32 products"
    )
    return "\n".join(lines)
