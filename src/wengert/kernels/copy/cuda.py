"""Work on a GPU for values that are copied, joined, or partly replaced.

Bytes are moved in the widest type that fits them. Texts name their sizes as constants, for compiled programs, or as
arguments, for single ops of any shape (`general`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from wengert.core.graph import Node
from wengert.kernels.gather_scatter.c import is_zero
from wengert.kernels.launch import DeviceProperties, Launch, LaunchList, Named
from wengert.kernels.sizes import Sizes

MOVED = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long long", 16: "uint4"}


def moved(width: int) -> tuple[str, int]:
    """The widest type that divides rows of this many bytes, and the number of such elements."""
    size = next(n for n in (16, 8, 4, 2, 1) if width % n == 0)
    return MOVED[size], width // size


def copy(source: str, target: str, node: Node, device: DeviceProperties, general: bool = False) -> LaunchList:
    """All elements of a value, from one buffer to another."""
    kind, count = moved(max(node.size * node.dtype.itemsize, 1))
    sizes = Sizes(general, count=count)
    text = f"""extern "C" __global__ void wg_copy(const {kind} *x, {kind} *y{sizes.parameters})
{{
    WG_EACH(i, count) y[i] = x[i];
}}
"""
    return LaunchList((sizes.launch(text, "wg_copy", count, device, [source, target]),) if node.size else ())


def filled(x: Node, node: Node, named: Named, device: DeviceProperties, general: bool) -> tuple[Launch, ...]:
    """The launches that fill a result with its first operand, `x` or zeros; none if it overwrites `x` in place."""
    kind, count = moved(node.size * node.dtype.itemsize)
    if is_zero(x):
        sizes = Sizes(general, count=count)
        text = f"""extern "C" __global__ void wg_fill({kind} *y{sizes.parameters})
{{
    WG_EACH(i, count) y[i] = {_zero(kind)};
}}
"""
        return (sizes.launch(text, "wg_fill", count, device, [named(node)]),)
    return () if named(x) == named(node) else copy(named(x), named(node), node, device, general).launches


def cleared(nodes: Sequence[Node], named: Named, device: DeviceProperties) -> LaunchList:
    """Launches that zero some values."""
    launches = []
    for node in nodes:
        kind, count = moved(max(node.size * node.dtype.itemsize, 1))
        text = f"""extern "C" __global__ void wg_fill({kind} *y)
{{
    WG_EACH(i, count) y[i] = {_zero(kind)};
}}
"""
        if node.size:
            launches.append(Sizes(False, count=count).launch(text, "wg_fill", count, device, [named(node)]))
    return LaunchList(tuple(launches))


def _zero(kind: str) -> str:
    return "make_uint4(0, 0, 0, 0)" if kind == "uint4" else "0"


def concat(node: Node, named: Named, device: DeviceProperties) -> LaunchList | None:
    """Values joined along an axis: a launch for each."""
    axis = node.attrs["axis"]
    outer = math.prod(node.shape[:axis])
    launches, start = [], 0
    inner = node.size // max(outer, 1)
    for source in node.sources:
        width = source.size // max(outer, 1)
        size = node.dtype.itemsize
        common = math.gcd(width * size, inner * size, start * size, 16)
        kind = MOVED[common]
        if source.size:
            wide, apart, first = (n * size // common for n in (width, inner, start))
            sizes = Sizes(False, total=outer * wide, wide=wide, apart=apart, first=first)
            text = f"""extern "C" __global__ void wg_join(const {kind} *x, {kind} *y)
{{
    WG_EACH(at, total) y[at / wide * apart + first + at % wide] = x[at];
}}
"""
            launches.append(sizes.launch(text, "wg_join", outer * wide, device, [named(source), named(node)]))
        start += width
    return LaunchList(tuple(launches))


def put_slice(node: Node, named: Named, device: DeviceProperties) -> LaunchList | None:
    """A value with a slice of it replaced: copied unless it takes the place of the old one, then written over."""
    x, values = node.sources
    if not node.size:
        return LaunchList(())
    start = filled(x, node, named, device, general=False)
    if not values.size:
        return LaunchList(start)
    starts, steps = node.attrs["starts"], node.attrs["steps"]
    terms, below, step_to = [], 1, 1
    for axis in reversed(range(node.ndim)):
        extent = values.shape[axis]
        terms.append(f"({starts[axis]}LL + at / {below}LL % {extent}LL * {steps[axis]}LL) * {step_to}LL")
        below, step_to = below * extent, step_to * node.shape[axis]
    kind = MOVED[node.dtype.itemsize]
    text = f"""extern "C" __global__ void wg_put_slice(const {kind} *values, {kind} *y)
{{
    WG_EACH(at, {values.size}LL) y[{" + ".join(terms) or "0"}] = values[at];
}}
"""
    put = Sizes(False).launch(text, "wg_put_slice", values.size, device, [named(values), named(node)])
    return LaunchList((*start, put))
