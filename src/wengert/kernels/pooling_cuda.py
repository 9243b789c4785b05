"""Pooling on a CUDA device: the largest or the sum of each window, and the derivative of the largest.

Windows slide over the last axes, or over those before the channels where these come last.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wengert.dtypes import COMPLEX, HALF, bool_, float16
from wengert.graph import Node
from wengert.kernels.addressing import is_zero
from wengert.kernels.launch import Argument, Launch, Work
from wengert.kernels.product import device_type

DType = np.dtype[Any]
_BLOCK = 256


@dataclass(frozen=True)
class Windows:
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

    def text(self) -> str:
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
        }
        lines = ""
        for name, given in values.items():
            filled = (*(0 if name == "low" else 1,) * (3 - axes), *given)
            lines += "".join(f"    static const int {name}{axis} = {value};\n" for axis, value in enumerate(filled))
        return f"struct wg_windows {{\n{lines}}};\n"


def windows_of(node: Node, count: Sequence[int]) -> Windows | None:
    """The windows of a max_pool or sum_pool node, results of shape `count`; None beyond three axes."""
    x, a = node.sources[0], node.attrs
    axes = len(a["kernel"])
    if axes > 3 or x.dtype in COMPLEX or x.dtype == bool_:
        return None
    lead = x.ndim - axes
    low = tuple(pair[0] for pair in a.get("padding", ((0, 0),) * axes))
    planes = math.prod(x.shape[:lead])
    return Windows(planes, x.shape[lead:], tuple(count[lead:]), a["kernel"], a["stride"], low, a.get("dilation", ()))


def pooled_by(places: Node) -> Node | None:
    """The max_pool whose places these are, however they are shaped."""
    while places.op.name == "reshape":
        places = places.sources[0]
    chosen = places.op.name == "pick" and places.attrs["index"] == 1 and places.sources[0].op.name == "max_pool"
    return places.sources[0] if chosen else None


def add_along(node: Node, named: Callable[[Node], str]) -> Work | None:
    """An add_along into zeros that is the derivative of a max_pool, as one that gathers; None for others."""
    target, values, places = node.sources
    pooled = pooled_by(places)
    if pooled is None or not is_zero(target) or node.attrs["axis"] != node.ndim - 1:
        return None
    windows = windows_of(pooled, pooled.shape[0])
    if windows is None or (windows.elements, windows.results) != (node.size, places.size):
        return None
    return max_pool_back(windows, node.dtype, named(values), named(places), named(node))


def max_pool(w: Windows, dtype: DType, x: str, values: str | None, places: str | None) -> Work:
    """The largest of each window and, as int64, where in its plane it lies; None for what nobody reads."""
    kind = device_type(dtype)
    kept = [
        (name, f"{c} *{name}")
        for name, c, wanted in (("values", kind, values), ("places", "long long", places))
        if wanted
    ]
    parameters = ", ".join(declared for _, declared in kept)
    passed = ", ".join(
        name if name in dict(kept) else f"({c} *)0" for name, c in (("values", kind), ("places", "long long"))
    )
    body = f"wg_max_pool(x, {passed}, inner, count, {_lowest(dtype)});"
    buffers = [buffer for buffer in (values, places) if buffer]
    return _work("max_pool", w, f"const {kind} *x, {parameters}", body, [x, *buffers], w.results)


def max_pool_back(w: Windows, dtype: DType, g: str, places: str, to: str) -> Work:
    """The cotangent of max_pool's input: every element gathers from the windows that chose it."""
    kind = device_type(dtype)
    parameters = f"const {kind} *g, const long long *places, {kind} *to"
    return _work(
        "max_pool_back", w, parameters, "wg_max_pool_back(g, places, to, inner, count);", [g, places, to], w.elements
    )


def sum_pool(w: Windows, dtype: DType, x: str, to: str) -> Work:
    """The sum of each window."""
    kind = device_type(dtype)
    return _work("sum_pool", w, f"const {kind} *x, {kind} *to", "wg_sum_pool(x, to, inner, count);", [x, to], w.results)


def _lowest(dtype: DType) -> str:
    """What every element is at least, as C++."""
    if dtype in HALF:
        return f"{device_type(dtype)}{{{'0xfc00' if dtype == float16 else '0xff80'}}}"
    if dtype.kind == "f":
        return f"({device_type(dtype)})-__int_as_float(0x7f800000)"
    if dtype.kind == "i":
        return f"({device_type(dtype)})(1ll << {8 * dtype.itemsize - 1})"
    return f"({device_type(dtype)})0"


def _work(name: str, w: Windows, parameters: str, body: str, buffers: Sequence[str], count: int) -> Work:
    if not count:
        return Work(())
    source = f"""{w.text()}
#include "pool.cuh"
extern "C" __global__ void __launch_bounds__({_BLOCK}) {name}({parameters}, int inner, long long count)
{{
    {body}
}}
"""
    why = f"a thread for each of {count} elements"
    arguments: tuple[Argument, ...] = (*buffers, np.int32(w.inner), np.int64(count))
    return Work((Launch(source, name, (-(-count // _BLOCK), 1, 1), (_BLOCK, 1, 1), arguments, why=why),))
