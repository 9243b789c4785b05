"""Pooling on a CUDA device: the maximum or sum of each window, and the derivative of the maximum.

Windows slide over the last axes, or over those before the channels if channels come last.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wengert.core.dtypes import COMPLEX, HALF, bool_, float16
from wengert.core.graph import Node
from wengert.kernels.gather_scatter.c import is_zero
from wengert.kernels.launch import Argument, Asked, DeviceProperties, Launch, LaunchList, Named
from wengert.kernels.matmul.product import device_type
from wengert.ops.channels_last import MAX_POOL_BACK_LAST, MAX_POOL_LAST, SUM_POOL_LAST
from wengert.ops.movement import RESHAPE
from wengert.ops.op import PICK
from wengert.ops.window import MAX_POOL

DType = np.dtype[Any]
_BLOCK = 256
_BLOCK_UP_TO = 8  # elements whose sums a thread holds


@dataclass(frozen=True)
class PoolWindows:
    """The sizes of a pooling along its axes, three at most; `inner` channels come after them."""

    planes: int
    size: tuple[int, ...]
    count: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    low: tuple[int, ...] = ()
    dilation: tuple[int, ...] = ()
    inner: int = 1

    @property
    def elements(self) -> int:
        return self.planes * math.prod(self.size) * self.inner

    @property
    def results(self) -> int:
        return self.planes * math.prod(self.count) * self.inner

    @property
    def block(self) -> tuple[int, ...]:
        """The elements, along each axis, whose derivative a thread makes."""
        return self.stride if math.prod(self.stride) <= _BLOCK_UP_TO else (1,) * len(self.size)

    def vector(self, dtype: DType) -> int:
        """Channels that a thread works on: as many as one access of 16 bytes has, and a whole number of times."""
        return math.gcd(self.inner, 16 // dtype.itemsize)

    def text(self, dtype: DType, threads: int) -> str:
        """The sizes as constants for pool.cuh, filled up to three axes."""
        axes = len(self.size)
        low, gap = self.low or (0,) * axes, self.dilation or (1,) * axes
        values = {
            "size": self.size,
            "count": self.count,
            "kernel": self.kernel,
            "stride": self.stride,
            "gap": gap,
            "low": low,
            "block": self.block,
        }
        lines = ""
        for name, given in values.items():
            filled = (*(0 if name == "low" else 1,) * (3 - axes), *given)
            lines += "".join(f"    static const int {name}{axis} = {value};\n" for axis, value in enumerate(filled))
        lines += f"    static const int inner = {self.inner}, vector = {self.vector(dtype)};\n"
        index = "int" if threads < 1 << 30 else "long long"
        return f"typedef {index} wg_index;\nstruct wg_windows {{\n{lines}}};\n"


_LAST = (MAX_POOL_LAST, MAX_POOL_BACK_LAST, SUM_POOL_LAST)


def windows_of(node: Node, shape: Sequence[int], count: Sequence[int]) -> PoolWindows | None:
    """The windows of a pool over a value of this shape, with results of shape `count`; None beyond three axes."""
    a, dtype = node.attrs, node.sources[0].dtype
    axes = len(a["kernel"])
    if axes > 3 or dtype in COMPLEX or dtype == bool_:
        return None
    last = node.op in _LAST
    lead = 1 if last else len(shape) - axes
    low = tuple(pair[0] for pair in a.get("padding", ((0, 0),) * axes))
    over = slice(lead, lead + axes)
    return PoolWindows(
        math.prod(shape[:lead]),
        tuple(shape[over]),
        tuple(count[over]),
        a["kernel"],
        a["stride"],
        low,
        a.get("dilation", ()),
        shape[-1] if last else 1,
    )


def pooled_by(places: Node) -> Node | None:
    """The max_pool whose places these are, however they are shaped."""
    while places.op is RESHAPE:
        places = places.sources[0]
    chosen = places.op is PICK and places.attrs["index"] == 1 and places.sources[0].op is MAX_POOL
    return places.sources[0] if chosen else None


def add_along(node: Node, named: Named) -> LaunchList | None:
    """An add_along into zeros that is the derivative of a max_pool, as one that gathers; None for others."""
    target, values, places = node.sources
    pooled = pooled_by(places)
    if pooled is None or not is_zero(target) or node.attrs["axis"] != node.ndim - 1:
        return None
    windows = windows_of(pooled, pooled.sources[0].shape, pooled.shape[0])
    if windows is None or (windows.elements, windows.results) != (node.size, places.size):
        return None
    return max_pool_back(windows, node.dtype, places.dtype, named(values), named(places), named(node))


def max_pool(w: PoolWindows, dtype: DType, place: DType, x: str, values: str | None, places: str | None) -> LaunchList:
    """The largest of each window and, in the dtype `place`, where in its plane it lies; None for what nobody reads."""
    kinds = {"values": device_type(dtype), "places": device_type(place)}
    given = {name: buffer for name, buffer in (("values", values), ("places", places)) if buffer}
    parameters = ", ".join(f"{kinds[name]} *{name}" for name in given)
    passed = ", ".join(name if name in given else f"({kind} *)0" for name, kind in kinds.items())
    body = f"wg_max_pool(x, {passed}, count, {_lowest(dtype)});"
    threads = w.results // w.vector(dtype)
    return _work("max_pool", w, dtype, f"const {kinds['values']} *x, {parameters}", body, [x, *given.values()], threads)


def max_pool_back(w: PoolWindows, dtype: DType, place: DType, g: str, places: str, to: str) -> LaunchList:
    """The cotangent of max_pool's input: every element gathers from the windows that chose it."""
    kind = device_type(dtype)
    parameters = f"const {kind} *g, const {device_type(place)} *places, {kind} *to"
    blocks = math.prod(-(-n // b) for n, b in zip(w.size, w.block))
    threads = w.planes * blocks * w.inner // w.vector(dtype)
    body = "wg_max_pool_back(g, places, to, count);"
    return _work("max_pool_back", w, dtype, parameters, body, [g, places, to], threads)


def sum_pool(w: PoolWindows, dtype: DType, x: str, to: str) -> LaunchList:
    """The sum of each window."""
    kind, threads = device_type(dtype), w.results // w.vector(dtype)
    parameters = f"const {kind} *x, {kind} *to"
    return _work("sum_pool", w, dtype, parameters, "wg_sum_pool(x, to, count);", [x, to], threads)


# --- from nodes to launches ------------------------------------------------------------------------------------------


def windows(node: Node) -> PoolWindows | None:
    """The windows of a pool."""
    x, count = node.sources[0].shape, node.shape
    if node.op is MAX_POOL_BACK_LAST:
        x, count = node.shape, x
    return windows_of(node, x, count[0] if isinstance(node.dtype, tuple) else count)


def has_windows(node: Node) -> bool:
    """Whether our kernels support a pool."""
    return windows(node) is not None


def sum_pool_work(node: Node, named: Named, device: DeviceProperties, asked: Asked) -> LaunchList | None:
    found = windows(node)
    if found is None:
        return None
    return sum_pool(found, node.dtype, named(node.sources[0]), named(node))


def max_pool_work(node: Node, named: Named, device: DeviceProperties, asked: Asked) -> LaunchList | None:
    found = windows(node)
    if found is None:
        return None
    x = node.sources[0]
    values, places = (named(asked.results[i]) if i in asked.results else None for i in range(2))
    return max_pool(found, x.dtype, node.dtype[1], named(x), values, places)


def max_pool_back_work(node: Node, named: Named, device: DeviceProperties, asked: Asked) -> LaunchList | None:
    found = windows(node)
    if found is None:
        return None
    g, places = node.sources
    return max_pool_back(found, node.dtype, places.dtype, named(g), named(places), named(node))


# --- texts -----------------------------------------------------------------------------------------------------------


def _lowest(dtype: DType) -> str:
    """The smallest value of a dtype, as C++."""
    if dtype in HALF:
        return f"{device_type(dtype)}{{{'0xfc00' if dtype == float16 else '0xff80'}}}"
    if dtype.kind == "f":
        return f"({device_type(dtype)})-__int_as_float(0x7f800000)"
    if dtype.kind == "i":
        return f"({device_type(dtype)})(1ll << {8 * dtype.itemsize - 1})"
    return f"({device_type(dtype)})0"


def _work(
    name: str, w: PoolWindows, dtype: DType, parameters: str, body: str, buffers: Sequence[str], threads: int
) -> LaunchList:
    if not threads:
        return LaunchList(())
    source = f"""{w.text(dtype, threads)}
#include "pool.cuh"
extern "C" __global__ void __launch_bounds__({_BLOCK}) {name}({parameters}, wg_index count)
{{
    {body}
}}
"""
    why = f"{w.vector(dtype)} neighbours a thread, {threads} threads"
    count = np.int32(threads) if threads < 1 << 30 else np.int64(threads)
    arguments: tuple[Argument, ...] = (*buffers, count)
    return LaunchList((Launch(source, name, (-(-threads // _BLOCK), 1, 1), (_BLOCK, 1, 1), arguments, why=why),))
