"""Reductions with sizes as arguments: threads share contiguous rows, or have separate neighbouring rows.

A row is what is reduced to one number. If there are few long rows, several blocks share each, and a second launch
combines their parts in an order that depends on the sizes alone.
"""

from __future__ import annotations

import functools
from typing import NamedTuple

import numpy as np

from wengert.core.graph import Node
from wengert.kernels.cuda.source import start, state_bytes, state_type
from wengert.kernels.ir.index import Loop, strides, variable
from wengert.kernels.ir.loops import Accumulate, DType
from wengert.kernels.launch import DeviceProperties, Launch, LaunchList, Struct
from wengert.kernels.space import LARGEST, Access, Space, space
from wengert.kernels.writer import narrowed, stored_type, widened
from wengert.ops.reduce import reduced_axes

THREADS = 256
EACH = 8  # accesses that a thread has at least, before blocks share a row


def total(node: Node, device: DeviceProperties) -> LaunchList | None:
    """The work of a reduction; None where a kernel for its shape is needed."""
    (x,) = node.sources
    axes = reduced_axes(node)
    outer, inner = (_along(x, [k for k in range(x.ndim) if (k in axes) == is_inner]) for is_inner in (False, True))
    if not (outer.fits and inner.fits) or x.size >= LARGEST:
        return None
    if not outer.count:
        return LaunchList(())
    shape = _shape(outer, inner, 16 // x.dtype.itemsize, device)
    source, name = text(node.op.name, x.dtype, node.dtype), entry(node.op.name, x.dtype)
    why = f"{outer.count} rows of {inner.count}: {shape.lanes} threads a row, {shape.splits} blocks share a row"
    team = Struct(np.array([shape.lanes, shape.across, shape.share], np.uint32).tobytes())
    parts = "parts" if shape.splits > 1 else np.uint64(0)
    arguments = ("x0", "y", parts, outer.packed(), inner.packed(), team)
    grid = (shape.blocks, shape.splits, 1)
    first = Launch(source, f"{name}_{shape.entry}", grid, (THREADS, 1, 1), arguments, why=why)
    if shape.splits == 1:
        return LaunchList((first,))
    state = state_bytes(_state(node.op.name, x.dtype, node.dtype))
    then = _of_parts(source, f"{name}_parts", outer.count, shape.splits)
    return LaunchList((first, then), {"parts": shape.splits * outer.count * state})


def _along(x: Node, axes: list[int]) -> Space:
    steps = strides(x.shape)
    return space([x.shape[k] for k in axes], [Access(tuple(steps[k] for k in axes))])


def _of_parts(source: str, entry: str, rows: int, splits: int) -> Launch:
    """The launch that puts the parts of rows together."""
    lanes = min(1 << (splits - 1).bit_length(), 64)
    numbers = tuple(map(np.uint32, (rows, splits, lanes)))
    grid = (-(-rows // (THREADS // lanes)), 1, 1)
    why = f"{splits} parts of each of {rows} rows, in order"
    return Launch(source, entry, grid, (THREADS, 1, 1), ("parts", "y", *numbers), why=why)


# --- launch shapes --------------------------------------------------------------------------------------------------


class _ReductionShape(NamedTuple):
    """How rows are shared: `across`: neighbouring threads have neighbouring rows."""

    entry: str  # an element at an access, or several of one row (long), or one of several rows (wide)
    across: bool
    lanes: int  # threads to a row
    blocks: int
    splits: int  # blocks to a row
    share: int  # elements of it that each has


def _shape(outer: Space, inner: Space, width: int, device: DeviceProperties) -> _ReductionShape:
    across = inner.accesses[0].steps[-1] != 1 and outer.accesses[0].steps[-1] == 1
    along, beside = (outer, inner) if across else (inner, outer)  # the space whose last axis is contiguous
    vectors = width > 1 and along.in_vectors(width) and all(step % width == 0 for step in beside.accesses[0].steps)
    width = width if vectors else 1
    rows, length = (outer.count // width, inner.count) if across else (outer.count, inner.count // width)
    lanes = _lanes(rows, length, across, device)
    blocks = -(-rows // (THREADS // lanes))
    resident = device.threads // THREADS
    share = -(-length // max(1, min(resident // blocks, length // (EACH * lanes)))) * (1 if across else width)
    splits = -(-inner.count // share) if inner.count else 1
    return _ReductionShape(
        "ones" if not vectors else "wide" if across else "long", across, lanes, blocks, splits, share
    )


def _lanes(rows: int, length: int, across: bool, device: DeviceProperties) -> int:
    """Threads to a row, a power of two: few with some elements each, more where there are few rows."""
    if across:
        lanes = max(8, THREADS >> max(rows - 1, 0).bit_length())
        return min(lanes, 1 << max(length - 1, 0).bit_length(), THREADS)
    lanes = min(THREADS, 1 << max(-(-length // 8) - 1, 0).bit_length())
    while lanes < min(THREADS, length) and rows * lanes < device.threads // 2:
        lanes *= 2
    return lanes


# --- text -----------------------------------------------------------------------------------------------------------


def _state(name: str, x: DType, dtype: DType) -> Accumulate:
    if name in ("argmax", "argmin"):
        return Accumulate("", name, x, "x", variable(Loop("i", 2)))
    return Accumulate("", name, dtype, "x", None)


def entry(name: str, x: DType) -> str:
    """The base name of its kernels."""
    return f"wg_{name}_{x.name}"


@functools.cache
def text(name: str, x: DType, dtype: DType) -> str:
    """The CUDA C++ of a reduction."""
    state = _state(name, x, dtype)
    kind, element, result = state_type(state), stored_type(x), stored_type(dtype)
    value = widened(x, "x")
    made = f"{value} != 0" if name in ("all", "any") else f"{kind}{{{value}, (int)i}}" if state.position else value
    done = "s.at" if state.position else narrowed(dtype, "s")
    width = 16 // x.itemsize
    shapes = [("ones", 1, False), *([("long", width, False), ("wide", width, True)] if width > 1 else [])]
    kernels = "".join(
        f"""
extern "C" __global__ void __launch_bounds__({THREADS})
{entry(name, x)}_{shape}(const {element} *__restrict__ x, {result} *__restrict__ y, {kind} *__restrict__ parts,
    const __grid_constant__ wg_space<1> outer, const __grid_constant__ wg_space<1> inner, wg_team team)
{{
    wg_total_rows<{vector}, {"true" if wide else "false"}, wg_total>(x, y, parts, outer, inner, team);
}}
"""
        for shape, vector, wide in shapes
    )
    return f"""#include "prebuilt.cuh"

struct wg_total {{
    typedef {kind} state;
    WG_MEMBER static state start() {{ return {start(state)}; }}
    WG_MEMBER static state of({element} x, unsigned i) {{ return {made}; }}
    WG_MEMBER static state both(state a, state b) {{ return wg_{name}()(a, b); }}
    WG_MEMBER static {result} done(state s) {{ return {done}; }}
}};
{kernels}
extern "C" __global__ void __launch_bounds__({THREADS})
{entry(name, x)}_parts(const {kind} *__restrict__ parts, {result} *__restrict__ y, unsigned count, unsigned splits,
    unsigned lanes)
{{
    wg_total_parts<wg_total>(parts, y, count, splits, lanes);
}}
"""
