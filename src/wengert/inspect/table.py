"""Tables of times, with the measured peak rates of the machine's memory and matrix products."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from wengert.api.random import normal
from wengert.core import devices
from wengert.core.devices import HOST, is_host
from wengert.core.dtypes import bfloat16, float32, uint8
from wengert.core.evaluation import watch
from wengert.core.formatting import table_html
from wengert.runtime.config import config
from wengert.runtime.debug.explain import bytes_text
from wengert.runtime.static.compile import compile


@dataclass
class ProfileRow:
    """What was counted of equal ops or kernels."""

    count: int = 0
    seconds: float = 0.0
    moved: int = 0  # bytes
    flops: int = 0
    half: int = 0  # of the operations, those of products in half precision
    device: str = HOST

    def add(self, other: ProfileRow) -> None:
        """Count another one's here too."""
        self.count += other.count
        self.seconds += other.seconds
        self.moved += other.moved
        self.flops += other.flops
        self.half += other.half
        self.device = other.device


class Ceiling(NamedTuple):
    """The peak rates of a device, per second."""

    bytes: float
    flops: float
    half_flops: float

    def share(self, row: ProfileRow) -> float:
        """The share of the peak rate that a row reached: of memory or of arithmetic, whichever is larger."""
        arithmetic = (row.flops - row.half) / self.flops + row.half / self.half_flops
        return max(row.moved / self.bytes, arithmetic) / max(row.seconds, 1e-9)

    def __str__(self) -> str:
        found = f"{self.bytes / 1e9:.1f} GB/s of memory, {self.flops / 1e9:.0f} GFLOP/s of float32 products"
        return found if self.flops == self.half_flops else f"{found}, {self.half_flops / 1e9:.0f} of bfloat16 ones"


def ceiling(device: str = HOST) -> Ceiling:
    """The peak rates, measured once: copying a large array, and matrix products (with tf32 if it is set)."""
    return _measured(device, config.tf32 and not is_host(device))


@functools.cache
def _measured(device: str, tf32: bool) -> Ceiling:
    if not is_host(device):
        return _on_gpu(device)
    source, target = np.ones(1 << 23, np.float32), np.empty(1 << 23, np.float32)
    a = np.ones((768, 768), np.float32)
    host = devices.of(HOST)
    products = 2 * 768**3 / host.time(lambda: a @ a, 5)
    return Ceiling(2 * source.nbytes / host.time(lambda: host.copy_into(target, source), 5), products, products)


def _on_gpu(device: str) -> Ceiling:
    gpu = devices.of(device)
    source, target = (gpu.empty((1 << 28,), uint8) for _ in range(2))

    def products(dtype: Any) -> float:
        product: Any = compile(lambda x: x @ x)
        x = normal((4096, 4096), device=device).to(dtype)
        for _ in range(3):  # recorded, launched, captured
            product(x)
        return 2 * 4096**3 / gpu.time(lambda: product(x), 5)

    observer, watch.observer = watch.observer, None
    try:
        copies = gpu.time(lambda: gpu.copy_into(target, source), 5)
        return Ceiling(2 * source.nbytes / copies, products(float32), products(bfloat16))
    finally:
        watch.observer = observer


def table(rows: Mapping[str, ProfileRow], by: str, total: float, top: int) -> str:
    """The first rows with their share of the time, rates, and the share of the ceiling that they reached."""
    lines = [f"{'ms':>10} {'share':>6} {'calls':>7} {'moved':>10} {'GFLOP':>8} {'ceiling':>8}  {by}"]
    for name, row in list(rows.items())[:top]:
        lines.append(
            f"{row.seconds * 1e3:>10.3f} {row.seconds / total:>6.1%} {row.count:>7} {bytes_text(row.moved):>10} "
            f"{row.flops / 1e9:>8.3f} {ceiling(row.device).share(row):>8.0%}  {name}"
        )
    if len(rows) > top:
        lines.append(f"           and {len(rows) - top} more")
    return "\n".join(lines)


def as_html(rows: Mapping[str, ProfileRow], by: str, total: float, top: int) -> str:
    """The same rows for a notebook."""
    head = [by, "ms", "share", "calls", "moved", "GFLOP", "of the ceiling"]
    cells = [
        [name, f"{row.seconds * 1e3:.3f}", f"{row.seconds / total:.1%}", str(row.count), bytes_text(row.moved)]
        + [f"{row.flops / 1e9:.3f}", f"{ceiling(row.device).share(row):.0%}"]
        for name, row in list(rows.items())[:top]
    ]
    more = f"<small>and {len(rows) - top} more</small>" if len(rows) > top else ""
    return table_html(head, cells) + more


def ceilings(rows: Mapping[str, ProfileRow]) -> str:
    """The ceilings of the devices that rows were counted on."""
    names = list(dict.fromkeys(row.device for row in rows.values())) or [HOST]
    return "\n".join(f"ceiling{' of ' + each if len(names) > 1 else ''}: {ceiling(each)}" for each in names)
