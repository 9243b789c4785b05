"""Factorisations of large matrices by cuSOLVER and cuBLAS; small ones have kernels of ours.

Both libraries are column-major: a row-major matrix A is A.T to them. Where the mathematics allows, this is used instead
of copying: a system is solved with the transpose of what they factorised, an inverse is the inverse of the transpose,
and a triangular system is solved from the right. Cholesky factors, QR, right-hand sides and vectors need a transpose,
in one pass over memory. The gradient of a system reuses the LU of that system.
"""

from __future__ import annotations

import ctypes
import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from wengert.backends.cuda.solver_calls import (
    Routine,
    blas,
    blas_handle,
    c_pointers,
    for_each,
    handle_of,
    library,
    on_stream,
    there,
)
from wengert.backends.cuda.vendor import Named, PartsList, VendorRecipe
from wengert.core.dtypes import COMPLEX, complex64, complex128, float32, float64, real_of
from wengert.core.graph import Node, Shape
from wengert.kernels.linalg.around import (
    Matrices,
    arranged,
    checked,
    checked_diagonals,
    determinants,
    identities,
)
from wengert.ops.decompose import CHOLESKY, FACTOR_EIGH, FACTOR_QR, FACTOR_SVD
from wengert.ops.linalg import DET, INV, SLOGDET, SOLVE, TRIANGULAR_SOLVE

DTYPES = {float32: 0, float64: 1, complex64: 4, complex128: 5}  # as CUDA numbers them
LETTERS = {float32: "S", float64: "D", complex64: "C", complex128: "Z"}
_LOWER, _UPPER = 0, 1
_AS_IT_IS, _TRANSPOSED = 0, 1
_RIGHT, _VECTORS = 1, 1


def _batch(node: Node) -> tuple[Shape, int]:
    shape = node.shape[0] if isinstance(node.dtype, tuple) else node.shape
    lead: Shape = node.sources[0].shape[:-2] if isinstance(node.dtype, tuple) or node.op is DET else shape[:-2]
    return lead, math.prod(lead)


# --- systems --------------------------------------------------------------------------------------------------------


def _copied(made: PartsList, source: str, target: str, a: Node, batch: Shape) -> None:
    """Plain copies of the matrices, one per batch entry."""
    m, n = a.shape[-2:]
    lies = Matrices(n, m * n)
    made.launch(arranged(source, target, a.dtype, batch, (m, n), lies, lies, lead=a.shape[:-2]))


Places = tuple[str, str]  # of LU, and of its exchanges


def _factorised(
    made: PartsList, a: Node, source: str, batch: Shape, device: int, failure: str, places: Places | None = None
) -> Places:
    """The LU of the transposes; its address, in the step's own temporaries unless shared ones exist."""
    n, count, kind = a.shape[-1], math.prod(batch), DTYPES[a.dtype]
    size = n * n * a.dtype.itemsize
    if places is None:
        places = made.temporary("lu", count * size), made.temporary("pivots", 8 * n * count)
    lu, pivots = places
    _copied(made, source, lu, a, batch)
    for_each(made, _Getrf(n, kind, device), {"a": (lu, size), "pivots": (pivots, 8 * n)}, count, failure, a.dtype)
    return places


class _Getrf(Routine):
    """LU, whose workspace query omits the pivots."""

    def __init__(self, n: int, kind: int, device: int) -> None:
        super().__init__("Xgetrf", [n, n, kind, "a", n, kind], device)
        self.arguments = [n, n, kind, "a", n, "pivots", kind]


def _substituted(
    made: PartsList, a: Node, factors: Places, target: str, columns: int, count: int, how: int, device: int
) -> None:
    """Column-major right-hand sides, replaced by their solutions with an LU."""
    n, kind, size = a.shape[-1], DTYPES[a.dtype], a.dtype.itemsize
    made.temporary("info", 4 * count)

    def run(stream: int, pointers: Sequence[int]) -> None:
        lu, pivots, right, info = pointers
        solver, handle, parameters = on_stream(stream, device)
        for k in range(count):
            matrix, exchanges, b, flag = c_pointers(
                lu + k * n * n * size, pivots + 8 * n * k, right + k * n * columns * size, info + 4 * k
            )
            given = how, n, columns, kind, matrix, n, exchanges, kind, b, n, flag
            solver.call("Xgetrs", *c_pointers(handle, parameters), *given)

    made.call("cuSOLVER Xgetrs", [*factors, target, "info"], run)


def _solve(made: PartsList, node: Node, named: Named, results: Mapping[int, Node], device: int) -> None:
    a, b = node.sources
    batch, count = node.shape[:-2], math.prod(node.shape[:-2])
    n, columns = node.shape[-2:]
    shared, how = made.factors, _TRANSPOSED
    factors = None if shared is None else (named(shared.lu), named(shared.pivots))
    if shared is not None and shared.transposed:
        how = _AS_IT_IS
    if factors is None or (shared is not None and shared.is_made):
        factors = _factorised(made, a, named(a), batch, device, "WG_SINGULAR", factors)
    y, by_rows, by_columns = named(node), Matrices(columns, n * columns), Matrices(n, n * columns)
    place = y if columns == 1 else made.temporary("right", count * n * columns * a.dtype.itemsize)
    turned = {"transposed": columns > 1}
    sizes = (columns, n) if columns > 1 else (n, columns)
    made.launch(
        arranged(
            named(b), place, a.dtype, batch, sizes, by_rows, by_columns if columns > 1 else by_rows,
            lead=b.shape[:-2], **turned,
        )
    )  # fmt: skip
    _substituted(made, a, factors, place, columns, count, how, device)
    if columns > 1:
        made.launch(arranged(place, y, a.dtype, batch, (n, columns), by_columns, by_rows, transposed=True))


def _inv(made: PartsList, node: Node, named: Named, results: Mapping[int, Node], device: int) -> None:
    """The column-major inverse of the transpose is the row-major inverse."""
    a, n = node.sources[0], node.shape[-1]
    batch, count = node.shape[:-2], math.prod(node.shape[:-2])
    factors = _factorised(made, a, named(a), batch, device, "WG_SINGULAR")
    made.launch(identities(named(node), a.dtype, count, n))
    _substituted(made, a, factors, named(node), n, count, _AS_IT_IS, device)


def _determinant(made: PartsList, node: Node, named: Named, results: Mapping[int, Node], device: int) -> None:
    a = node.sources[0]
    batch, n = a.shape[:-2], a.shape[-1]
    lu, pivots = _factorised(made, a, named(a), batch, device, "")
    wanted = {k: named(result) for k, result in results.items()} if node.op is SLOGDET else {0: named(node)}
    made.launch(determinants(lu, pivots, wanted, a.dtype, math.prod(batch), n, node.op is SLOGDET))


def _triangular(made: PartsList, node: Node, named: Named, results: Mapping[int, Node], device: int) -> None:
    """X T = B for the transposes: from the right, in place, with the other triangle."""
    a, b = node.sources
    batch, (n, columns) = node.shape[:-2], node.shape[-2:]
    size, letter = a.dtype.itemsize, LETTERS[a.dtype]
    upper, unit = node.attrs["upper"], node.attrs["unit_diagonal"]
    y, lies = named(node), Matrices(columns, n * columns)
    made.launch(arranged(named(b), y, a.dtype, batch, (n, columns), lies, lies, lead=b.shape[:-2]))
    numbers = np.arange(math.prod(a.shape[:-2])) if a.shape[:-2] else np.zeros(1, int)
    which = np.broadcast_to(numbers.reshape(a.shape[:-2]), batch).reshape(-1).tolist()
    one = np.ones(1, a.dtype)

    def run(stream: int, pointers: Sequence[int]) -> None:
        triangles, right = pointers
        library, handle = there(blas()), ctypes.c_void_p(blas_handle(device))
        library.call("SetStream_v2", handle, ctypes.c_void_p(stream))
        for k, number in enumerate(which):
            alpha, t, x = c_pointers(one.ctypes.data, triangles + number * n * n * size, right + k * n * columns * size)
            how = _RIGHT, _LOWER if upper else _UPPER, _AS_IT_IS, int(unit)
            library.call(f"{letter}trsm_v2", handle, *how, columns, n, alpha, t, n, x, columns)

    made.call("cuBLAS trsm", [named(a), y], run)
    if not unit:
        made.launch(checked_diagonals(named(a), math.prod(a.shape[:-2]), n, a.dtype))


# --- factorisations -------------------------------------------------------------------------------------------------


def _cholesky(made: PartsList, node: Node, named: Named, results: Mapping[int, Node], device: int) -> None:
    """The column-major lower factor, fastest in the library, then transposed in one more pass over memory."""
    a, n, kind = node.sources[0], node.shape[-1], DTYPES[node.dtype]
    batch, count = node.shape[:-2], math.prod(node.shape[:-2])
    size, lies = n * n * a.dtype.itemsize, Matrices(n, n * n)
    _copied(made, named(a), made.temporary("factor", count * size), a, batch)
    routine = Routine("Xpotrf", [_LOWER, n, kind, "a", n, kind], device)
    for_each(made, routine, {"a": ("factor", size)}, count, "WG_INDEFINITE", a.dtype)
    conjugated = a.dtype in COMPLEX
    made.launch(arranged("factor", named(node), a.dtype, batch, (n, n), lies, lies, True, conjugated, keep="j <= i"))


def _qr(made: PartsList, node: Node, named: Named, results: Mapping[int, Node], device: int) -> None:
    a = node.sources[0]
    (m, n), dtype, kind = a.shape[-2:], a.dtype, DTYPES[a.dtype]
    batch, inner = a.shape[:-2], node.shape[0][-1]
    count, size, steps = math.prod(batch), dtype.itemsize, min(m, n)
    each = m * max(n, inner)
    made.temporary("factors", count * each * size)
    made.launch(arranged(named(a), "factors", dtype, batch, (n, m), Matrices(n, m * n), Matrices(m, each), True))
    made.temporary("taus", count * steps * size)
    routine = Routine("Xgeqrf", [m, n, kind, "a", m, kind, "tau", kind], device)
    places = {"a": ("factors", each * size), "tau": ("taus", steps * size)}
    for_each(made, routine, places, count, "", dtype)
    if 1 in results:
        upper = arranged(
            "factors", named(results[1]), dtype, batch, (inner, n), Matrices(m, each), Matrices(n, inner * n), True,
            keep="i <= j",
        )  # fmt: skip
        made.launch(upper)
    if 0 in results:
        _orthogonal(made, (m, inner, steps), dtype, count, each, device)
        q = named(results[0])
        made.launch(
            arranged("factors", q, dtype, batch, (m, inner), Matrices(m, each), Matrices(inner, m * inner), True)
        )


def _orthogonal(
    made: PartsList, sizes: tuple[int, int, int], dtype: np.dtype[Any], count: int, each: int, device: int
) -> None:
    """The orthogonal factor from its reflections."""
    (m, inner, steps), size = sizes, dtype.itemsize
    name = f"{LETTERS[dtype]}{'ungqr' if dtype in COMPLEX else 'orgqr'}"
    length = ctypes.c_int()
    null = ctypes.c_void_p(0)
    handle = ctypes.c_void_p(handle_of(device))
    there(library()).call(f"{name}_bufferSize", handle, m, inner, steps, null, m, null, ctypes.byref(length))
    made.temporary("columns", length.value * size)

    def run(stream: int, pointers: Sequence[int]) -> None:
        factors, taus, work, info = pointers
        solver, handle, _ = on_stream(stream, device)
        for k in range(count):
            own, q, tau = c_pointers(handle, factors + k * each * size, taus + k * steps * size)
            flag = ctypes.c_void_p(info + 4 * k)
            solver.call(name, own, m, inner, steps, q, m, tau, ctypes.c_void_p(work), length.value, flag)

    made.call(f"cuSOLVER {name}", ["factors", "taus", "columns", "info"], run)


def _eigh(made: PartsList, node: Node, named: Named, results: Mapping[int, Node], device: int) -> None:
    """The column-major lower triangle is the upper one of the conjugate, whose eigenvectors are the conjugates."""
    a, kind = node.sources[0], DTYPES[node.sources[0].dtype]
    n, batch, count = a.shape[-1], a.shape[:-2], math.prod(a.shape[:-2])
    real, lies = real_of(a.dtype), Matrices(n, n * n)
    size = n * n * a.dtype.itemsize
    made.temporary("vectors", count * size)
    made.launch(arranged(named(a), "vectors", a.dtype, batch, (n, n), lies, lies))
    values = named(results[0]) if 0 in results else made.temporary("values", count * n * real.itemsize)
    arguments: list[int | str] = [
        _VECTORS if 1 in results else 0, _UPPER, n, kind, "a", n, DTYPES[real], "w", kind,
    ]  # fmt: skip
    routine = Routine("Xsyevd", arguments, device)
    places = {"a": ("vectors", size), "w": (values, n * real.itemsize)}
    for_each(made, routine, places, count, "WG_NO_CONVERGENCE", a.dtype, captured=False)
    if 1 in results:
        made.launch(
            arranged("vectors", named(results[1]), a.dtype, batch, (n, n), lies, lies, True, a.dtype in COMPLEX)
        )


def _svd(made: PartsList, node: Node, named: Named, results: Mapping[int, Node], device: int) -> None:
    """SVD of the transpose: its left vectors are, by rows, Vh; its right ones are the conjugate of U."""
    a, dtype = node.sources[0], node.sources[0].dtype
    (m, n), batch = a.shape[-2:], a.shape[:-2]
    count, real, size = math.prod(batch), real_of(dtype), dtype.itemsize
    full, k = node.attrs["full_matrices"], min(m, n)
    left, right = (n, m) if full else (k, k)
    vectors = int(0 in results or 2 in results)
    _copied(made, named(a), made.temporary("matrices", count * m * n * size), a, batch)
    values = named(results[1]) if 1 in results else made.temporary("values", count * k * real.itemsize)
    vh = named(results[2]) if 2 in results else made.temporary("left", count * n * left * size)
    made.temporary("right", count * m * right * size)
    name, information = f"{LETTERS[dtype]}gesvdj", _jacobi(device)
    length = ctypes.c_int()
    handle = ctypes.c_void_p(handle_of(device))
    how = vectors, int(not full), n, m
    null = ctypes.c_void_p(0)
    there(library()).call(
        f"{name}_bufferSize", handle, *how, null, n, null, null, n, null, m, ctypes.byref(length),
        ctypes.c_void_p(information),
    )  # fmt: skip
    made.temporary("work", length.value * size)
    made.temporary("info", 4 * count)

    def run(stream: int, pointers: Sequence[int]) -> None:
        matrices, s, u, v, work, info = pointers
        solver, own, _ = on_stream(stream, device)
        for i in range(count):
            x, sigma, first, second = c_pointers(
                matrices + i * m * n * size,
                s + i * k * real.itemsize,
                u + i * n * left * size,
                v + i * m * right * size,
            )
            rest = ctypes.c_void_p(work), length.value, *c_pointers(info + 4 * i, information)
            solver.call(name, ctypes.c_void_p(own), *how, x, n, sigma, first, n, second, m, *rest)

    made.call(f"cuSOLVER {name}", ["matrices", values, vh, "right", "work", "info"], run, captured=False)
    made.launch(checked("info", count, "WG_NO_CONVERGENCE", dtype))
    if 0 in results:
        lies = Matrices(m, m * right), Matrices(right, m * right)
        made.launch(arranged("right", named(results[0]), dtype, batch, (m, right), *lies, True, dtype in COMPLEX))


@functools.cache
def _jacobi(device: int) -> int:
    return there(library()).created("CreateGesvdjInfo")


# --- recipes --------------------------------------------------------------------------------------------------------


_RECIPES: dict[Any, tuple[str, Callable[[PartsList, Node, Named, Mapping[int, Node], int], None]]] = {
    SOLVE: ("cuSOLVER getrf, getrs", _solve),
    INV: ("cuSOLVER getrf, getrs", _inv),
    DET: ("cuSOLVER getrf", _determinant),
    SLOGDET: ("cuSOLVER getrf", _determinant),
    TRIANGULAR_SOLVE: ("cuBLAS trsm", _triangular),
    CHOLESKY: ("cuSOLVER potrf", _cholesky),
    FACTOR_QR: ("cuSOLVER geqrf", _qr),
    FACTOR_EIGH: ("cuSOLVER syevd", _eigh),
    FACTOR_SVD: ("cuSOLVER gesvdj", _svd),
}


OPS = frozenset(_RECIPES)


def recipes(node: Node, device: int) -> list[VendorRecipe]:
    """cuSOLVER's implementation of an op; empty if unsupported or not installed."""
    a = node.sources[0]
    if library() is None or a.dtype not in DTYPES:
        return []
    if 0 in a.shape or 0 in node.sources[-1].shape:
        return []
    return [VendorRecipe(*_RECIPES[node.op], device)]
