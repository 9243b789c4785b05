"""Calls of the C pooling kernels: windows over the last axes of a value."""

from __future__ import annotations

import math
from collections.abc import Sequence

from wengert.core.dtypes import float32, float64
from wengert.core.graph import Node
from wengert.kernels.c_ops import CCall, Pointer, braces, called
from wengert.kernels.writer import suffix


def _windows(x: Node, count: Sequence[int], node: Node) -> str | None:
    """The struct of a pooling's sizes, filled up to three axes."""
    a = node.attrs
    axes = len(a["kernel"])
    if axes > 3 or x.dtype not in (float32, float64):
        return None
    ones, zeros, lead = (1,) * (3 - axes), (0,) * (3 - axes), x.ndim - axes
    low = [pair[0] for pair in a.get("padding", ((0, 0),) * axes)]
    parts = {
        "size": (*ones, *x.shape[lead:]),
        "count": (*ones, *count[lead:]),
        "kernel": (*ones, *a["kernel"]),
        "stride": (*ones, *a["stride"]),
        "low": (*zeros, *low),
        "dilation": (*ones, *a.get("dilation", (1,) * axes)),
    }
    fields = ", ".join(f".{name} = {braces(values)}" for name, values in parts.items())
    return f"&(wg_windows){{.planes = {math.prod(x.shape[:lead])}, {fields}}}"


def max_pool(node: Node, pointer: Pointer, results: Sequence[Node | None]) -> CCall | None:
    """The largest element of each window, and where it is."""
    x = node.sources[0]
    windows = _windows(x, node.shape[0], node)
    if windows is None or math.prod(x.shape[-len(node.attrs["kernel"]) :]) >= 1 << 31:
        return None
    values, places = (*results, None, None)[:2]
    return called("max_pool", suffix(x.dtype), f"{pointer(x)}, {pointer(values)}, {pointer(places)}, {windows}")


def sum_pool(node: Node, pointer: Pointer) -> CCall | None:
    """The sum of each window."""
    x = node.sources[0]
    windows = _windows(x, node.shape, node)
    if windows is None:
        return None
    return called("sum_pool", suffix(x.dtype), f"{pointer(x)}, {pointer(node)}, {windows}")
