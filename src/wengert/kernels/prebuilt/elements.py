"""Elementwise ops, ramps, random bits and copies, with sizes as arguments.

A text has a function for one element and two kernels that apply it over a space: one with vector accesses, and one for
arbitrary strides. A scalar operand on the host is passed as an argument.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from wengert.core.dtypes import uint8, uint16, uint32, uint64
from wengert.kernels.launch import Argument, DeviceProperties, Launch, LaunchList, Number
from wengert.kernels.space import Access, Space, space
from wengert.kernels.writer import ERROR, narrowed, scalar_type, stored_type, widened

STEPS = 2  # accesses of each operand that a thread has on their way at once
_UNITS = {1: uint8, 2: uint16, 4: uint32, 8: uint64}

DType = np.dtype[Any]


class PrebuiltFunction(NamedTuple):
    """The computation of one element, from an element of each operand and the element's number."""

    name: str  # of the kernels, with what they are for
    operands: tuple[str, ...]  # the C types of memory
    sizes: tuple[int, ...]  # and their bytes
    result: str
    width: int  # elements of an access
    body: str  # the lines that return the result, over x0, x1, ... and i
    checks: bool = False  # whether it notes an index that is out of range


def function(
    name: str, operands: Sequence[DType], result: DType, expression: str, checks: bool = False
) -> PrebuiltFunction:
    """A function of scalars a0, a1, ... for an op; those of half precision are floats inside."""
    scalars = [f"const {scalar_type(d)} a{k} = {widened(d, f'x{k}')};" for k, d in enumerate(operands)]
    lines = [*scalars, f"return {narrowed(result, expression)};"]
    sizes = tuple(dtype.itemsize for dtype in operands)
    all_sizes = (*sizes, result.itemsize)
    width = min(16 // min(all_sizes), max(16 // max(all_sizes), 8))
    kinds = tuple(map(stored_type, operands))
    name = "_".join(["wg", name, *(dtype.name for dtype in (*operands, result))])
    return PrebuiltFunction(name, kinds, sizes, stored_type(result), width, "\n    ".join(lines), checks)


def over(
    f: PrebuiltFunction, where: Space, operands: Sequence[Argument], result: str, device: DeviceProperties
) -> LaunchList:
    """A function over a space; its last access is the result's, the others those of the operands.

    An operand is the name of a buffer, which may turn out to be a number, or a number.
    """
    if not where.count:
        return LaunchList(())
    vectors = f.width > 1 and where.in_vectors(f.width)
    width = f.width if vectors else 1
    units = -(-where.count // width)
    threads = 256 if units >= 512 * device.sms else 128
    grid = -(-units // (threads * STEPS))
    arguments: list[Argument] = []
    for operand, size in zip(operands, f.sizes):
        arguments += [operand, Number(operand, size)] if isinstance(operand, str) else [np.uint64(0), operand]
    arguments += [result, where.packed(), *([ERROR] if f.checks else [])]
    entry = f"{f.name}_vectors" if vectors else f"{f.name}_singles"
    why = f"{where.count} elements over {len(where.extents)} axes, {width} an access"
    return LaunchList((Launch(text(f), entry, (grid, 1, 1), (threads, 1, 1), tuple(arguments), why=why),))


@functools.cache
def text(f: PrebuiltFunction) -> str:
    """The CUDA C++ of a function over spaces."""
    error = ["int *wg_error"] if f.checks else []
    parameters = ", ".join([*(f"{kind} x{k}" for k, kind in enumerate(f.operands)), "unsigned i", *error])
    vectors = _kernel(f, f"{f.name}_vectors", f.width) if f.width > 1 else ""
    return f"""#include "prebuilt.cuh"

WG {f.result} wg_apply({parameters})
{{
    {f.body}
}}
{_kernel(f, f"{f.name}_singles", 1)}{vectors}"""


def _kernel(f: PrebuiltFunction, entry: str, width: int) -> str:
    count = len(f.operands)
    operands = [f"const {kind} *__restrict__ x{k}, {kind} n{k}" for k, kind in enumerate(f.operands)]
    result = [f"{f.result} *__restrict__ y", f"const __grid_constant__ wg_space<{count + 1}> space"]
    error = ["int *wg_error"] if f.checks else []
    held = [f"    wg_vector<{kind}, {width}> v{k}[{STEPS}];" for k, kind in enumerate(f.operands)]
    loads = [
        f"            v{k}[u] = wg_several<{width}>(x{k} + space.offset[{k}], n{k}, space.step[{k}][0], p[u].at[{k}]);"
        for k in range(count)
    ]
    applied = ", ".join([*(f"v{k}[u].at[j]" for k in range(count)), "i + j", *(["wg_error"] if f.checks else [])])
    lines = "\n".join
    return f"""
extern "C" __global__ void __launch_bounds__(256)
{entry}({", ".join([*operands, *result, *error])})
{{
    wg_places<{count + 1}> p[{STEPS}];
{lines(held)}
#pragma unroll
    for (int u = 0; u < {STEPS}; u++) {{
        const unsigned i = wg_first<{width}, {STEPS}>(u);
        if (i < space.count) {{
            p[u] = wg_find(space, i);
{lines(loads)}
        }}
    }}
#pragma unroll
    for (int u = 0; u < {STEPS}; u++) {{
        const unsigned i = wg_first<{width}, {STEPS}>(u);
        if (i >= space.count) return;
        wg_vector<{f.result}, {width}> out;
#pragma unroll
        for (int j = 0; j < {width}; j++) out.at[j] = wg_apply({applied});
        wg_store(y + space.offset[{count}] + p[u].at[{count}], out);
    }}
}}
"""


# --- copies ---------------------------------------------------------------------------------------------------------


@functools.cache
def _copy(size: int) -> PrebuiltFunction:
    kind = stored_type(_UNITS[size]) if size < 16 else "uint4"
    return PrebuiltFunction(f"wg_copy{size}", (kind,), (size,), kind, 16 // size, "return x0;")


def filled(size: int, result: str, device: DeviceProperties) -> LaunchList | None:
    """So many bytes of zeros."""
    unit = next(n for n in (8, 4, 2, 1) if size % n == 0)
    where = space((size // unit,), [Access((0,)), Access((1,))])
    return over(_copy(unit), where, [_UNITS[unit].type(0)], result, device) if where.fits else None


TILED = 16  # elements from which an axis is worth a tile
_MOST_BLOCKS = 65_535  # along the second and third axis of a grid


def moved(where: Space, size: int, source: str, result: str, device: DeviceProperties) -> LaunchList:
    """Elements of this many bytes from one place to another."""
    transposed = _transposed(where)
    if transposed is None or size == 16 or not where.count:
        return over(_copy(size), where, [source], result, device)
    width = max(1, 4 // size)
    even = all(n % width == 0 for n in transposed.extents[-2:])
    strides = [n for a in transposed.accesses for n in (a.offset, *(s for s in a.steps if s != 1))]
    even = even and all(n % width == 0 for n in strides)
    width = width if even else 1
    others = transposed.count // (transposed.extents[-1] * transposed.extents[-2])
    across, down = (-(-n // (32 * width)) for n in transposed.extents[:-3:-1])
    grid = (across, down, others)
    if max(grid[1:]) > _MOST_BLOCKS:
        return over(_copy(size), where, [source], result, device)
    entry = "wg_transposed_vectors" if width > 1 else "wg_transposed"
    why = f"read along one axis, written along another: tiles of {32 * width} x {32 * width}"
    launch = Launch(_transpose_source(size), entry, grid, (256, 1, 1), (source, result, transposed.packed()), why=why)
    return LaunchList((launch,))


@functools.cache
def _transpose_source(size: int) -> str:
    """The CUDA C++ that transposes arrays through shared memory."""
    kind, width = stored_type(_UNITS[size]), max(1, 4 // size)
    entries = {"wg_transposed": 1, "wg_transposed_vectors": width} if width > 1 else {"wg_transposed": 1}
    kernels = [
        f"""
extern "C" __global__ void __launch_bounds__(256)
{entry}(const {kind} *__restrict__ x, {kind} *__restrict__ y, const __grid_constant__ wg_space<2> space)
{{
    wg_transpose<{vector}>(x + space.offset[0], y + space.offset[1], space);
}}
"""
        for entry, vector in entries.items()
    ]
    return '#include "prebuilt.cuh"\n' + "".join(kernels)


def _transposed(where: Space) -> Space | None:
    """The space with the axis along which the source lies as the last but one, if the result lies along the last."""
    source, result = where.accesses
    along = [k for k, step in enumerate(source.steps[:-1]) if step == 1 and where.extents[k] >= TILED]
    if result.steps[-1] != 1 or source.steps[-1] in (0, 1) or where.extents[-1] < TILED or not along:
        return None
    order = [k for k in range(len(where.extents)) if k != along[0]]
    order.insert(-1, along[0])
    arrays = [access._replace(steps=tuple(access.steps[k] for k in order)) for access in where.accesses]
    return Space(tuple(where.extents[k] for k in order), tuple(arrays))
