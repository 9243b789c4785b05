"""Matrix products by cuBLASLt: a candidate beside our own kernels.

cuBLASLt thinks in columns: a matrix stored by rows is its transpose to it, so C = A B is asked for as C' = B' A'. The
heuristic names several algorithms, each a candidate of its own; sums in place, whose order is not fixed, are left out.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wengert.dtypes import bfloat16, float16, float32, float64
from wengert.kernels.opaque import Product

WORKSPACE = 32 << 20  # bytes that an algorithm may work in
SUGGESTED = 8  # algorithms that the heuristic is asked for
DTYPES = {float32: 0, float64: 1, float16: 2, bfloat16: 14}  # as CUDA numbers them
_COMPUTE_32F, _COMPUTE_64F, _COMPUTE_TF32 = 68, 70, 77
_DETERMINISTIC = 2 | 4  # partial sums go through memory


@functools.cache
def library() -> Any:
    """The bindings of cuBLASLt, or None where it is not installed."""
    try:
        from nvmath.bindings import cublasLt

        cublasLt.get_version()
    except Exception:
        return None
    return cublasLt


@functools.cache
def _handle(device: int) -> int:
    return int(library().create())


@dataclass(frozen=True)
class Shape:
    """What a product multiplies, without saying where it lies."""

    batch: int
    m: int
    n: int
    k: int
    turned_x: bool
    turned_y: bool
    step_x: int
    step_y: int
    dtype: np.dtype[Any]
    result: np.dtype[Any]
    tf32: bool = False


def shape_of(p: Product, result: np.dtype[Any], tf32: bool) -> Shape:
    """The shape of a product whose result has this dtype."""
    return Shape(p.batch, p.m, p.n, p.k, p.turned_x, p.turned_y, p.step_x, p.step_y, p.x.dtype, result, tf32)


class Matmul:
    """One algorithm of cuBLASLt for one shape."""

    works = True

    def __init__(self, shape: Shape, described: Described, algorithm: np.ndarray[Any, Any], number: int) -> None:
        self.shape, self.described, self.algorithm = shape, described, algorithm
        self.workspace = int(algorithm["workspace_size"].item())
        self.name = f"cuBLASLt #{number}"

    def enqueue(self, stream: int, pointers: Sequence[int], workspace: int) -> None:
        """Put the product of the first two on the stream, into the third."""
        x, y, result = pointers
        d = self.described
        library().matmul(
            d.handle,
            d.operation,
            d.one.ctypes.data,
            y,
            d.layouts[0],
            x,
            d.layouts[1],
            d.zero.ctypes.data,
            result,
            d.layouts[2],
            result,
            d.layouts[2],
            self.algorithm.ctypes.data,
            workspace,
            self.workspace,
            stream,
        )


class Described:
    """A product in cuBLASLt's own terms: an operation and the layouts of its matrices."""

    def __init__(self, shape: Shape, device: int) -> None:
        lt, s = library(), shape
        self.handle = _handle(device)
        double = s.dtype is float64
        compute = _COMPUTE_64F if double else _COMPUTE_TF32 if s.tf32 and s.dtype is float32 else _COMPUTE_32F
        scale = float64 if double else float32
        self.one, self.zero = np.ones(1, scale), np.zeros(1, scale)
        self.operation = lt.matmul_desc_create(compute, DTYPES[scale])
        attributes = lt.MatmulDescAttribute
        for attribute, turned in ((attributes.TRANSA, s.turned_y), (attributes.TRANSB, s.turned_x)):
            self._set(lt.matmul_desc_set_attribute, self.operation, attribute, np.int32(turned))
        self.layouts = [
            _layout(s.dtype, (s.k, s.n) if s.turned_y else (s.n, s.k)),
            _layout(s.dtype, (s.m, s.k) if s.turned_x else (s.k, s.m)),
            _layout(s.result, (s.n, s.m)),
        ]
        self.batch = s.batch
        if s.batch > 1:
            self._set_batch((s.step_y, s.step_x, s.m * s.n))

    def _set_batch(self, steps: Sequence[int]) -> None:
        """Say how far apart the matrices of the batches lie."""
        lt = library()
        attributes = lt.MatrixLayoutAttribute
        for layout, step in zip(self.layouts, steps):
            self._set(lt.matrix_layout_set_attribute, layout, attributes.BATCH_COUNT, np.int32(self.batch))
            self._set(lt.matrix_layout_set_attribute, layout, attributes.STRIDED_BATCH_OFFSET, np.int64(step))

    @staticmethod
    def _set(setter: Any, descriptor: int, attribute: int, value: np.generic) -> None:
        held = np.array([value])
        setter(descriptor, int(attribute), held.ctypes.data, held.nbytes)

    def algorithms(self, count: int) -> list[np.ndarray[Any, Any]]:
        """What the heuristic suggests, best first."""
        lt = library()
        preference = lt.matmul_preference_create()
        attributes = lt.MatmulPreferenceAttribute
        self._set(lt.matmul_preference_set_attribute, preference, attributes.MAX_WORKSPACE_BYTES, np.uint64(WORKSPACE))
        mask = np.uint32(_DETERMINISTIC)
        self._set(lt.matmul_preference_set_attribute, preference, attributes.REDUCTION_SCHEME_MASK, mask)
        results = np.zeros(count, lt.matmul_heuristic_result_dtype)
        found = np.zeros(1, np.int32)
        lt.matmul_algo_get_heuristic(
            self.handle,
            self.operation,
            *self.layouts,
            self.layouts[2],
            preference,
            count,
            results.ctypes.data,
            found.ctypes.data,
        )
        lt.matmul_preference_destroy(preference)
        return [results[i : i + 1].copy() for i in range(int(found[0])) if not results["state"][i]]


def _layout(dtype: np.dtype[Any], sizes: tuple[int, int]) -> int:
    """A matrix of so many rows and columns, stored by columns."""
    return int(library().matrix_layout_create(DTYPES[dtype], *sizes, sizes[0]))


@functools.lru_cache(maxsize=1024)
def candidates(shape: Shape, device: int) -> list[Matmul]:
    """The algorithms that cuBLASLt suggests for a product, best first; none where it cannot do it or is not there."""
    if library() is None or shape.dtype not in DTYPES or shape.result not in DTYPES or not shape.k:
        return []
    described = Described(shape, device)
    try:
        found = described.algorithms(SUGGESTED)
    except library().cuBLASLtError:
        return []
    return [Matmul(shape, described, algorithm, i) for i, algorithm in enumerate(found)]
