"""Work before and after a library factorises large matrices: transposing copies, triangles, and checks.

A library is column-major. A row-major matrix is its transpose to it, so operands whose transpose serves as well are
passed unchanged; the others are copied through 32 by 32 tiles in shared memory, read along rows and written along rows:
every byte moves once each way.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from wengert.core.dtypes import real_of
from wengert.core.graph import Shape
from wengert.kernels.launch import ERROR_FLAG, FAILING_OP, Argument, Launch, LaunchList
from wengert.kernels.linalg.text import is_plain, scalar, steps_of
from wengert.kernels.space import Access, space

TILE, ROWS = 32, 8  # of a block: its tile's side, and rows of threads
LAYERS = 1 << 15  # blocks along the batch, at most
THREADS = 256


class Matrices(NamedTuple):
    """The layout of matrices: elements between rows, and between matrices."""

    row: int
    each: int


def arranged(
    source: str,
    target: str,
    dtype: np.dtype[Any],
    batch: Shape,
    sizes: tuple[int, int],
    given: Matrices,
    made: Matrices,
    transposed: bool = False,
    conjugated: bool = False,
    keep: str = "true",
    lead: Shape | None = None,
) -> LaunchList:
    """Matrices of these sizes from others, which are transposed first: where `keep`, of row i and column j, holds, and
    zeros elsewhere. `lead` is the batch of the source, which broadcasts.
    """
    rows, columns = sizes
    count = math.prod(batch)
    if not rows * columns * count:
        return LaunchList(())
    at, read = "x[(long long)i * {0} + j]", "tile[threadIdx.x][threadIdx.y + k]"
    value = "wg_conj(value)" if conjugated else "value"
    body = f"""        for (int k = 0; k < {TILE}; k += {ROWS}) {{
            const int i = blockIdx.y * {TILE} + threadIdx.y + k, j = blockIdx.x * {TILE} + threadIdx.x;
            if (i >= {rows} || j >= {columns}) continue;
            const T value = {read if transposed else at.format(given.row)};
            to[(long long)i * {made.row} + j] = ({keep}) ? {value} : wg_from_real<T>::of(0);
        }}
"""
    if transposed:
        body = f"""        __syncthreads();
        for (int k = 0; k < {TILE}; k += {ROWS}) {{
            const int i = blockIdx.x * {TILE} + threadIdx.y + k, j = blockIdx.y * {TILE} + threadIdx.x;
            if (i < {columns} && j < {rows}) tile[threadIdx.y + k][threadIdx.x] = {at.format(given.row)};
        }}
        __syncthreads();
{body}"""
    text = f"""#include "complex.cuh"

typedef {scalar(dtype)} T;

extern "C" __global__ void __launch_bounds__({TILE * ROWS})
wg_arrange(const T *__restrict__ from, T *__restrict__ target, long long count)
{{
    __shared__ T tile[{TILE}][{TILE + 1}];
    for (long long matrix = blockIdx.z; matrix < count; matrix += gridDim.z) {{
        const T *x = from + {_place(lead if lead is not None else batch, batch)} * {given.each}LL;
        T *to = target + matrix * {made.each}LL;
{body}    }}
}}
"""
    grid = (-(-columns // TILE), -(-rows // TILE), min(count, LAYERS))
    why = f"{count} matrices of {rows} x {columns}{', transposed' if transposed else ''}"
    return LaunchList((Launch(text, "wg_arrange", grid, (TILE, ROWS, 1), (source, target, np.int64(count)), why=why),))


def _place(lead: Shape, batch: Shape) -> str:
    """The number of the source's matrix that the `matrix`-th of the batch is made of."""
    steps = steps_of(lead, batch)
    if is_plain(steps, batch):
        return "matrix"
    where = space(batch, [Access(tuple(steps))])
    terms, below = [], 1
    for extent, step in reversed(list(zip(where.extents, where.accesses[0].steps))):
        terms.append(f"matrix / {below} % {extent} * {step}")
        below *= extent
    return f"({' + '.join(terms)})"


def _each(
    text: str, entry: str, total: int, arguments: Sequence[Argument], dtype: np.dtype[Any], why: str
) -> LaunchList:
    source = f'#include "matrix.cuh"\n\ntypedef {scalar(dtype)} T;\ntypedef wg_real_of<T> R;\n\n{text}'
    grid = (max(1, -(-total // THREADS)), 1, 1)
    return LaunchList((Launch(source, entry, grid, (THREADS, 1, 1), (*arguments, np.int64(total)), why=why),))


_AT = "const long long at = (long long)blockIdx.x * blockDim.x + threadIdx.x;\n    if (at >= total) return;"


def identities(target: str, dtype: np.dtype[Any], count: int, n: int) -> LaunchList:
    """So many identity matrices."""
    text = f"""extern "C" __global__ void wg_identity(T *y, long long total)
{{
    {_AT}
    y[at] = wg_from_real<T>::of(at / {n} % {n} == at % {n} ? 1 : 0);
}}
"""
    return _each(text, "wg_identity", count * n * n, [target], dtype, f"{count} identities of {n}")


def checked(info: str, count: int, how: str, dtype: np.dtype[Any]) -> LaunchList:
    """A check of the status that a library returned for each matrix: a nonzero one fails."""
    text = f"""extern "C" __global__ void wg_check(const int *info, long long wg_op, int *wg_error, long long total)
{{
    {_AT}
    if (info[at] != 0) wg_fail(wg_error, (int)wg_op, {how});
}}
"""
    return _each(text, "wg_check", count, [info, FAILING_OP, ERROR_FLAG], dtype, f"{count} matrices")


def checked_diagonals(a: str, count: int, n: int, dtype: np.dtype[Any]) -> LaunchList:
    """Triangular matrices that are singular: those with a 0 on the diagonal."""
    text = f"""extern "C" __global__ void wg_diagonal(const T *a, long long wg_op, int *wg_error, long long total)
{{
    {_AT}
    if (wg_size1(a[at / {n} * {n * n}LL + at % {n} * {n + 1}LL]) == 0) wg_fail(wg_error, (int)wg_op, WG_SINGULAR);
}}
"""
    return _each(text, "wg_diagonal", count * n, [a, FAILING_OP, ERROR_FLAG], dtype, f"{count} diagonals of {n}")


def determinants(
    lu: str, pivots: str, results: dict[int, str], dtype: np.dtype[Any], count: int, n: int, logarithms: bool
) -> LaunchList:
    """From LU: the product of the diagonal, by a block for each matrix, or its sign and the logarithm of its size."""
    kinds = ("T", "R") if logarithms else ("T",)
    parameters = "".join(f", {kinds[k]} *y{k}" for k in results)
    stores = "".join(f" y{k}[blockIdx.x] = {('sign[0]', 'size[0]')[k]};" for k in results)
    step = (
        "const R far = wg_size(d); own = far == 0 ? wg_from_real<T>::of(0) : own * (d / far); sum += wg_logarithm(far);"
        if logarithms
        else "own = own * d;"
    )
    text = f"""extern "C" __global__ void
wg_determinant(const T *lu, const long long *pivots{parameters}, long long total)
{{
    __shared__ T sign[{THREADS}];
    __shared__ R size[{THREADS}];
    T own = wg_from_real<T>::of(1);
    R sum = 0;
    for (int k = threadIdx.x; k < {n}; k += {THREADS}) {{
        const T d = lu[blockIdx.x * {n * n}LL + k * {n + 1}LL];
        if (pivots[blockIdx.x * {n}LL + k] != k + 1) own = -own;
        {step}
    }}
    sign[threadIdx.x] = own, size[threadIdx.x] = sum;
    for (int half = {THREADS // 2}; half; half /= 2) {{
        __syncthreads();
        if (threadIdx.x < half) {{
            sign[threadIdx.x] = sign[threadIdx.x] * sign[threadIdx.x + half];
            size[threadIdx.x] += size[threadIdx.x + half];
        }}
    }}
    if (threadIdx.x == 0) {{{stores} }}
}}
"""
    return _each(text, "wg_determinant", count * THREADS, [lu, pivots, *results.values()], dtype, f"{count} of {n}")


def real_bytes(dtype: np.dtype[Any]) -> int:
    """The bytes of a number's real part."""
    return int(real_of(dtype).itemsize)
