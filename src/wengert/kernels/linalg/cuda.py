"""GPU kernels for small matrices: each op's text in terms of the functions of factor.cuh and jacobi.cuh.

A matrix has a team of threads: as many as it has columns, up to a warp, or a block of 128 if it has more than 32. It is
read into shared memory, processed there, and written back, so every byte moves once. Matrices that do not fit are left
to libraries, or to the host.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from wengert.core.graph import Node, Shape
from wengert.kernels.launch import Asked, CudaKernel, DeviceProperties, Launch, LaunchList, Named
from wengert.kernels.linalg.text import BLOCK, Text, bytes_of, element_of, load, odd, scalar, store, stored, team_of
from wengert.kernels.writer import narrowed
from wengert.ops.decompose import CHOLESKY, FACTOR_EIGH, FACTOR_QR, FACTOR_SVD
from wengert.ops.linalg import DET, INV, SLOGDET, SOLVE, TRIANGULAR_SOLVE

LARGEST = 64  # rows or columns: beyond, a block has too few threads
SHARED = 63 << 10  # bytes that every GPU has for a block
COLUMNS = 32  # right-hand sides that are in shared memory at a time


# --- systems --------------------------------------------------------------------------------------------------------


def _begin(name: str, node: Node, batch: Shape, size: int) -> Text:
    return Text(name, node.sources[0].dtype, team_of(size), batch)


def _solved(
    node: Node, named: Named, text: Text, factor: Sequence[str], triangles: Sequence[str], row: str = "i"
) -> None:
    """The right-hand sides, a few columns at a time: solved and written; the i-th of their rows is that of this
    number."""
    b = node.sources[-1] if len(node.sources) > 1 else None
    n, total = node.shape[-2:]
    columns = min(total, COLUMNS)
    step = odd(columns)
    text.shared("b", n * step)
    if b is not None:
        text.reads("right", named(b), b)
    text.writes("y", named(node), node, n * total)
    text.line(*factor)
    text.line(
        f"for (int first = 0; first < {total}; first += {columns}) {{",
        f"const int some = {columns};"
        if total % columns == 0
        else f"const int some = {total} - first < {columns} ? {total} - first : {columns};",
    )
    if b is not None:
        given = element_of(b, "right", f"{row} * {total} + first + j")
    else:
        given = f"wg_from_real<T>::of({row} == first + j ? 1 : 0)"
    text.line(
        f"for (int k = wg_team<TEAM>::rank(); k < {n} * some; k += TEAM) {{",
        f"    const int i = k / some, j = k % some; b[i * {step} + j] = {given};",
        "}",
        "wg_team<TEAM>::sync();",
        *triangles,
        f"for (int k = wg_team<TEAM>::rank(); k < {n} * some; k += TEAM) {{",
        f"    const int i = k / some, j = k % some; y[i * {total} + first + j] = "
        f"{narrowed(node.dtype, f'b[i * {step} + j]')};",
        "}",
        "wg_team<TEAM>::sync();",
        "}",
    )


def _solve(node: Node, named: Named, device: DeviceProperties, asked: Asked) -> LaunchList | None:
    """By LU: of `solve`, and of `inv`, whose right-hand sides are the identity."""
    a, n = node.sources[0], node.shape[-2]
    text = _begin(node.op.name, node, node.shape[:-2], n)
    step, columns = odd(n), odd(min(node.shape[-1], COLUMNS))
    text.shared("a", n * step)
    text.shared("pivots", 2 * n, "int", 4)
    text.reads("matrices", named(a), a)
    load(text, a, "matrices", "a", step)
    triangles = [
        f"wg_triangular<{n}, {step}, TEAM, false, true>(a, b, {columns}, some);",
        f"wg_triangular<{n}, {step}, TEAM, true, false>(a, b, {columns}, some);",
    ]
    factor = [f"const bool regular = wg_lu<{n}, {step}, TEAM>(a, pivots, pivots + {n});"]
    _solved(node, named, text, factor, triangles, f"pivots[{n} + i]")
    text.fails("!regular", "WG_SINGULAR")
    return text.launch(device)


def _triangular(node: Node, named: Named, device: DeviceProperties, asked: Asked) -> LaunchList | None:
    a, n = node.sources[0], node.shape[-2]
    upper, unit = node.attrs["upper"], node.attrs["unit_diagonal"]
    text = _begin(node.op.name, node, node.shape[:-2], n)
    step, columns = odd(n), odd(min(node.shape[-1], COLUMNS))
    text.shared("a", n * step)
    text.reads("matrices", named(a), a)
    load(text, a, "matrices", "a", step)
    flags = f"{str(upper).lower()}, {str(unit).lower()}"
    triangles = [f"regular = wg_triangular<{n}, {step}, TEAM, {flags}>(a, b, {columns}, some) && regular;"]
    _solved(node, named, text, ["bool regular = true;"], triangles)
    text.fails("!regular", "WG_SINGULAR")
    return text.launch(device)


def _determinant(node: Node, named: Named, device: DeviceProperties, asked: Asked) -> LaunchList | None:
    """The product of LU's diagonal, or its sign and the logarithm of its size."""
    a = node.sources[0]
    n, step = a.shape[-1], odd(a.shape[-1])
    text = _begin(node.op.name, node, a.shape[:-2], n)
    text.shared("a", n * step)
    text.shared("pivots", 2 * n, "int", 4)
    text.reads("matrices", named(a), a)
    results = asked.results if node.op is SLOGDET else {0: node}
    for number, result in results.items():
        text.writes(f"y{number}", named(result), result, 1)
    load(text, a, "matrices", "a", step)
    text.line(
        f"wg_lu<{n}, {step}, TEAM>(a, pivots, pivots + {n});",
        "if (wg_team<TEAM>::rank() == 0) {",
        "T sign = wg_from_real<T>::of(1); R logarithm = 0;",
        f"for (int k = 0; k < {n}; k++) {{",
        f"const T d = a[k * {step} + k]; if (pivots[k] != k) sign = -sign;",
    )
    if node.op is DET:
        text.line("sign = sign * d;", "}", f"y0[0] = {narrowed(node.dtype, 'sign')};", "}")
        return text.launch(device)
    text.line(
        "const R size = wg_size(d);",
        "sign = size == 0 ? wg_from_real<T>::of(0) : sign * (d / size);",
        "logarithm += wg_logarithm(size);",
        "}",
    )
    for number, result in results.items():
        text.line(f"y{number}[0] = {narrowed(result.dtype, ('sign', 'logarithm')[number])};")
    text.line("}")
    return text.launch(device)


# --- factorisations -------------------------------------------------------------------------------------------------


def _cholesky(node: Node, named: Named, device: DeviceProperties, asked: Asked) -> LaunchList | None:
    a = node.sources[0]
    n, step = a.shape[-1], odd(a.shape[-1])
    text = _begin(node.op.name, node, a.shape[:-2], n)
    text.shared("a", n * step)
    text.reads("matrices", named(a), a)
    text.writes("y", named(node), node, n * n)
    load(text, a, "matrices", "a", step)
    text.line(f"const bool definite = wg_cholesky<{n}, {step}, TEAM>(a);", "wg_team<TEAM>::sync();")
    store(text, node, "y", n, n, f"j <= i ? a[i * {step} + j] : wg_from_real<T>::of(0)")
    text.fails("!definite", "WG_INDEFINITE")
    return text.launch(device)


def _qr(node: Node, named: Named, device: DeviceProperties, asked: Asked) -> LaunchList | None:
    a = node.sources[0]
    (rows, columns), step = a.shape[-2:], odd(a.shape[-1])
    inner = node.shape[0][-1]
    text = _begin(node.op.name, node, a.shape[:-2], max(columns, inner))
    text.shared("a", rows * step)
    text.shared("taus", min(rows, columns))
    text.shared("parts", text.team // 32 or 1)
    text.reads("matrices", named(a), a)
    for number, result in asked.results.items():
        text.writes(f"y{number}", named(result), result, math.prod(result.shape[-2:]))
    load(text, a, "matrices", "a", step)
    text.line(f"wg_qr<{rows}, {columns}, {step}, TEAM>(a, taus, parts);")
    if 1 in asked.results:
        store(text, asked.results[1], "y1", inner, columns, f"i <= j ? a[i * {step} + j] : wg_from_real<T>::of(0)")
    if 0 in asked.results:
        text.shared("q", rows * odd(inner))
        sizes = f"{rows}, {columns}, {step}, TEAM"
        text.line(f"wg_orthogonal<{sizes}>(a, taus, q, {odd(inner)}, {inner});")
        store(text, asked.results[0], "y0", rows, inner, f"q[i * {odd(inner)} + j]")
    return text.launch(device)


def _eigh(node: Node, named: Named, device: DeviceProperties, asked: Asked) -> LaunchList | None:
    """Of the lower triangle, as NumPy's."""
    a = node.sources[0]
    n, step, wants = a.shape[-1], odd(a.shape[-1]), 1 in asked.results
    text = _begin(node.op.name, node, a.shape[:-2], n)
    text.shared("a", n * step)
    text.shared("v", n * step if wants else 1)
    text.shared("rotations", (n + 1) // 2, "wg_rotation<T>", 5 * 16)
    text.shared("parts", text.team // 32 or 1)
    text.shared("values", n, "R")
    text.shared("places", n, "int", 4)
    text.reads("matrices", named(a), a)
    for number, result in asked.results.items():
        text.writes(f"y{number}", named(result), result, n if number == 0 else n * n)
    real = "wg_from_real<T>::of(wg_re(x))"
    text.line(
        f"for (int k = wg_team<TEAM>::rank(); k < {n * n}; k += TEAM) {{",
        f"    const int i = k / {n}, j = k % {n}; if (j > i) continue;",
        f"    const T x = {element_of(a, 'matrices', 'k')};",
        f"    a[j * {step} + i] = i == j ? {real} : wg_conj(x); a[i * {step} + j] = i == j ? {real} : x;",
        "}",
        "wg_team<TEAM>::sync();",
        f"const bool converged = wg_eigen<{n}, {step}, TEAM, {str(wants).lower()}>(a, v, rotations, parts);",
        f"for (int k = wg_team<TEAM>::rank(); k < {n}; k += TEAM) values[k] = wg_re(a[k * {step} + k]);",
        "wg_team<TEAM>::sync();",
        f"wg_order<{n}, TEAM, false>(values, places);",
    )
    if 0 in asked.results:
        stored = narrowed(asked.results[0].dtype, "values[k]")
        text.line(f"for (int k = wg_team<TEAM>::rank(); k < {n}; k += TEAM) y0[places[k]] = {stored};")
    if wants:
        stored = narrowed(asked.results[1].dtype, f"v[i * {step} + j]")
        text.line(
            f"for (int k = wg_team<TEAM>::rank(); k < {n * n}; k += TEAM) {{",
            f"    const int i = k / {n}, j = k % {n}; y1[i * {n} + places[j]] = {stored};",
            "}",
        )
    text.fails("!converged", "WG_NO_CONVERGENCE")
    return text.launch(device)


def _svd(node: Node, named: Named, device: DeviceProperties, asked: Asked) -> LaunchList | None:
    """Of matrices that are not wide; a wide one's is that of its adjoint, left and right exchanged."""
    a = node.sources[0]
    is_wide = a.shape[-2] < a.shape[-1]
    m, n = sorted(a.shape[-2:], reverse=True)
    basis = m if node.attrs["full_matrices"] else n
    left, right = (2, 0) if is_wide else (0, 2)  # the results that hold the longer vectors and the shorter ones
    with_left, with_right = left in asked.results, right in asked.results
    text = _begin(node.op.name, node, a.shape[:-2], n if not with_left else max(n, min(m, LARGEST)))
    step, vstep = odd(basis if with_left else n), odd(n)
    text.shared("w", m * step)
    text.shared("v", n * vstep if with_right else 1)
    text.shared("parts", (text.team // 32 or 1) + basis)
    text.shared("values", n, "R")
    text.shared("places", n, "int", 4)
    text.shared("order", basis, "int", 4)
    text.shared("found", 1, "int", 4)
    text.reads("matrices", named(a), a)
    for number, result in asked.results.items():
        text.writes(f"y{number}", named(result), result, math.prod(result.shape[len(a.shape) - 2 :]))
    load(text, a, "matrices", "w", step, is_wide)
    sizes = f"{m}, {n}, {step}, {vstep}, TEAM, {str(with_right).lower()}"
    rank = "wg_team<TEAM>::rank()"
    text.line(
        "R top = 0;",
        f"for (int k = {rank}; k < {m * n}; k += TEAM) {{",
        f"    const R size = wg_size1(w[k / {n} * {step} + k % {n}]); top = size > top ? size : top;",
        "}",
        "top = wg_team_largest<TEAM>(top, (R *)parts);",
        "const R scale = top > 0 ? top : (R)1;",
        f"for (int k = {rank}; k < {m * n}; k += TEAM) w[k / {n} * {step} + k % {n}] = "
        f"w[k / {n} * {step} + k % {n}] / scale;",
        f"const bool converged = wg_orthogonalize<{sizes}>(w, v, parts);",
        f"for (int j = {rank}; j < {n}; j += TEAM) {{",
        f"    R square = 0; for (int i = 0; i < {m}; i++) square += wg_norm2(w[i * {step} + j]);",
        "    values[j] = wg_root(square);",
        "}",
        "wg_team<TEAM>::sync();",
        f"wg_order<{n}, TEAM, true>(values, places);",
        f"for (int j = {rank}; j < {basis}; j += TEAM) order[j < {n} ? places[j] : j] = j;",
    )
    if 1 in asked.results:
        stored = narrowed(asked.results[1].dtype, "values[k] * scale")
        text.line(f"for (int k = {rank}; k < {n}; k += TEAM) y1[places[k]] = {stored};")
    if with_left:
        text.line(
            "wg_team<TEAM>::sync();",
            f"int whole = 0; while (whole < {n} && wg_norm2(values[order[whole]]) >= wg_limits<R>::tiny) whole++;",
            f"for (int k = {rank}; k < {m * n}; k += TEAM) {{",
            f"    const int i = k / {n}, j = k % {n};",
            f"    if (places[j] < whole) w[i * {step} + j] = w[i * {step} + j] / values[j];",
            "}",
            "wg_team<TEAM>::sync();",
            f"wg_complete<{m}, {basis}, {step}, TEAM>(w, order, whole, parts, found);",
        )
        rows, columns = asked.results[left].shape[-2:]
        element = f"wg_conj(w[j * {step} + order[i]])" if is_wide else f"w[i * {step} + order[j]]"
        store(text, asked.results[left], f"y{left}", rows, columns, element)
    if with_right:
        element = f"v[i * {vstep} + order[j]]" if is_wide else f"wg_conj(v[j * {vstep} + order[i]])"
        text.line("wg_team<TEAM>::sync();")
        store(text, asked.results[right], f"y{right}", n, n, element)
    text.fails("!converged", "WG_NO_CONVERGENCE")
    return text.launch(device)


# --- which matrices -------------------------------------------------------------------------------------------------


Write = Callable[[Node, Named, DeviceProperties, Asked], LaunchList | None]


class MatrixSizes(NamedTuple):
    """The sizes of an op on a matrix: its larger side, and elements of shared memory."""

    side: int
    elements: int


def _sizes(node: Node) -> MatrixSizes:
    rows, columns = node.sources[0].shape[-2:]
    square = rows * odd(columns)
    if node.op is FACTOR_QR:
        inner = node.shape[0][-1]
        return MatrixSizes(max(rows, columns), square + rows * odd(inner) + columns + 4)
    if node.op is FACTOR_SVD:
        m, n = max(rows, columns), min(rows, columns)
        basis = m if node.attrs["full_matrices"] else n
        return MatrixSizes(m, m * odd(basis) + n * odd(n) + basis + 3 * n + 64)
    if node.op is FACTOR_EIGH:
        return MatrixSizes(rows, 2 * square + 16 * rows + 64)
    right = rows * odd(min(node.shape[-1], COLUMNS)) if node.op in (SOLVE, TRIANGULAR_SOLVE, INV) else 0
    return MatrixSizes(rows, square + right + 2 * rows + 64)


def fits(node: Node) -> bool:
    """Whether a team of threads can process a matrix of this op."""
    sizes, dtype = _sizes(node), node.sources[0].dtype
    return sizes.side <= LARGEST and sizes.elements * bytes_of(dtype) <= SHARED


def _values(node: Node) -> int:
    """How many elements an op makes."""
    shapes: tuple[Shape, ...] = node.shape if isinstance(node.dtype, tuple) else (node.shape,)
    return max(math.prod(shape) for shape in shapes)


def _kernel(write: Write) -> CudaKernel:
    def work(node: Node, named: Named, device: DeviceProperties, asked: Asked) -> LaunchList | None:
        if not fits(node):
            return None
        if not _values(node) or 0 in node.sources[0].shape:
            return _empty(node, named, device, asked)
        return write(node, named, device, asked)

    return CudaKernel(work, has_work=fits, outdoes_libraries=lambda node, device: fits(node))


def _empty(node: Node, named: Named, device: DeviceProperties, asked: Asked) -> LaunchList:
    """Of matrices without elements: determinants are 1, bases the identity."""
    results: Mapping[int, Node] = asked.results if isinstance(node.dtype, tuple) else {0: node}
    launches = []
    for number, result in results.items():
        if not result.size:
            continue
        square = result.shape[-1] if len(result.shape) >= 2 and node.op in (FACTOR_QR, FACTOR_SVD) else 0
        value = "wg_from_real<T>::of({})".format(
            f"k / {square} % {square} == k % {square} ? 1 : 0" if square else int(node.op is DET or number == 0)
        )
        text = f"""#include "complex.cuh"

typedef {scalar(result.dtype)} T;

extern "C" __global__ void wg_empty({stored(result.dtype)} *y, long long count)
{{
    const long long k = (long long)blockIdx.x * blockDim.x + threadIdx.x;
    if (k < count) y[k] = {narrowed(result.dtype, value)};
}}
"""
        grid = (-(-result.size // BLOCK), 1, 1)
        launches.append(
            Launch(text, "wg_empty", grid, (BLOCK, 1, 1), (named(result), np.int64(result.size)), why="empty")
        )
    return LaunchList(tuple(launches))


def kernels() -> dict[Any, CudaKernel]:
    """The ops that small matrices have kernels for."""
    return {
        SOLVE: _kernel(_solve),
        INV: _kernel(_solve),
        TRIANGULAR_SOLVE: _kernel(_triangular),
        DET: _kernel(_determinant),
        SLOGDET: _kernel(_determinant),
        CHOLESKY: _kernel(_cholesky),
        FACTOR_QR: _kernel(_qr),
        FACTOR_EIGH: _kernel(_eigh),
        FACTOR_SVD: _kernel(_svd),
    }
