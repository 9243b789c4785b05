"""Matrix products by cuBLASLt: a candidate beside our own kernels.

cuBLASLt is column-major, so a row-major matrix is its transpose, and C = A B is computed as C' = B' A'. The heuristic
suggests several algorithms, and each is a separate candidate, except for in-place split-K sums, whose order is not
fixed, and partial sums in half precision. The library is called directly: importing the package with its bindings takes
half a second.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from wengert.core.dtypes import COMPLEX, bfloat16, complex64, complex128, float16, float32, float64
from wengert.core.errors import CudaError
from wengert.plan.epilogues import ARGUMENT, BIAS, GELU, SLOPE

WORKSPACE = 32 << 20  # bytes that an algorithm may work in
SUGGESTED = 8  # algorithms to request from the heuristic
DTYPES = {float32: 0, float64: 1, float16: 2, bfloat16: 14, complex64: 4, complex128: 5}  # as CUDA numbers them
_COMPUTE_32F, _COMPUTE_64F, _COMPUTE_TF32 = 68, 70, 77
_TRANSPOSED_A, _TRANSPOSED_B, _EPILOGUE, _BIAS_AT, _BESIDE_AT, _BESIDE_STEP = 3, 4, 7, 8, 11, 12  # of an operation
_EPILOGUES = {BIAS: 4, GELU: 32, ARGUMENT: 128, SLOPE: 64 | 128}  # what a product is finished by, added up
_BATCH_COUNT, _BATCH_STEP = 5, 6  # of a layout
_WORKSPACE_LIMIT, _REDUCTIONS = 1, 3  # of a preference
SHORT = 1024  # terms of a sum up to which storing the results takes a good part of the time
LEAST = 0.4  # of the first algorithm's tile: smaller ones read too much
_WIDE_PARTS = 2  # partial sums go through memory, in a fixed order and in the dtype that is computed in
_RESULT = np.dtype([("algorithm", "u8", 8), ("workspace", "u8"), ("state", "i4"), ("waves", "f4"), ("unused", "i4", 4)])


class Library:
    """cuBLASLt: its functions by their names without the prefix `cublasLt`."""

    def __init__(self) -> None:
        from cuda.pathfinder import load_nvidia_dynamic_lib

        self.functions = ctypes.CDLL(load_nvidia_dynamic_lib("cublasLt").abs_path)
        self.functions.cublasLtGetVersion.restype = ctypes.c_size_t
        pointer, number, size = ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t
        types = {
            "Create": [pointer],
            "MatmulDescCreate": [pointer, number, number],
            "MatmulDescSetAttribute": [pointer, number, pointer, size],
            "MatrixLayoutCreate": [pointer, number, ctypes.c_uint64, ctypes.c_uint64, ctypes.c_int64],
            "MatrixLayoutSetAttribute": [pointer, number, pointer, size],
            "MatmulPreferenceCreate": [pointer],
            "MatmulPreferenceSetAttribute": [pointer, number, pointer, size],
            "MatmulPreferenceDestroy": [pointer],
            "MatmulAlgoGetHeuristic": [pointer] * 7 + [number, pointer, pointer],
            "Matmul": [pointer] * 14 + [size, pointer],
        }
        for name, given in types.items():
            getattr(self.functions, f"cublasLt{name}").argtypes = given

    @property
    def version(self) -> int:
        """The version number, such as 130102 for 13.1.2."""
        return int(self.functions.cublasLtGetVersion())

    def call(self, name: str, *arguments: int) -> None:
        """Call a function; raises on failure."""
        status = getattr(self.functions, f"cublasLt{name}")(*arguments)
        if status:
            raise CudaError(f"cublasLt{name} returned status {status}")

    def create(self, name: str, *arguments: int) -> int:
        """The object that a function creates through its first argument."""
        made = ctypes.c_void_p()
        self.call(f"{name}Create", ctypes.addressof(made), *arguments)
        return made.value or 0

    def set(self, name: str, descriptor: int, attribute: int, value: np.generic) -> None:
        """Set an attribute of a descriptor."""
        held = np.array([value])
        self.call(f"{name}SetAttribute", descriptor, attribute, held.ctypes.data, held.nbytes)


@functools.cache
def library() -> Library | None:
    """cuBLASLt, or None if it is not installed."""
    try:
        return Library()
    except Exception:
        return None


@functools.cache
def _handle(device: int) -> int:
    return _there().create("")


def _there() -> Library:
    """The library, known to be installed."""
    found = library()
    assert found is not None
    return found


@dataclass(frozen=True)
class ProductShape:
    """The shape of a product, without addresses."""

    batch: int
    m: int
    n: int
    k: int
    transposed_x: bool
    transposed_y: bool
    step_x: int
    step_y: int
    dtype: np.dtype[Any]
    result: np.dtype[Any]
    tf32: bool = False
    epilogue: tuple[str, ...] = ()  # the epilogue

    @property
    def beside(self) -> bool:
        """Whether another matrix of the result's size is read or written."""
        return ARGUMENT in self.epilogue or SLOPE in self.epilogue


class Matmul:
    """One algorithm of cuBLASLt for one shape."""

    works = True

    def __init__(self, shape: ProductShape, described: Described, algorithm: np.ndarray[Any, Any], number: int) -> None:
        self.shape, self.described, self.algorithm = shape, described, algorithm
        self.workspace = int(algorithm["workspace"].item())
        self.name = f"cuBLASLt #{number}" + (f" with {', '.join(shape.epilogue)}" if shape.epilogue else "")

    def enqueue(self, stream: int, pointers: Sequence[int], workspace: int) -> None:
        """Enqueue the product of the first two operands into the last; the epilogue's operands lie between."""
        x, y, *others, result = pointers
        d = self.described
        d.set_others(others)
        _there().call(
            "Matmul",
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
    """A product as cuBLASLt descriptors: an operation and the layouts of its matrices."""

    def __init__(self, shape: ProductShape, device: int) -> None:
        lt, s = _there(), shape
        self.handle = _handle(device)
        double = s.dtype in (float64, complex128)
        compute = _COMPUTE_64F if double else _COMPUTE_TF32 if s.tf32 and s.dtype is float32 else _COMPUTE_32F
        scale = s.dtype if s.dtype in COMPLEX else float64 if double else float32
        self.one, self.zero = np.ones(1, scale), np.zeros(1, scale)
        self.operation = lt.create("MatmulDesc", compute, DTYPES[scale])
        for attribute, transposed in ((_TRANSPOSED_A, s.transposed_y), (_TRANSPOSED_B, s.transposed_x)):
            lt.set("MatmulDesc", self.operation, attribute, np.int32(transposed))
        self.others = [*([_BIAS_AT] if BIAS in s.epilogue else []), *([_BESIDE_AT] if s.beside else [])]
        if s.epilogue:
            lt.set("MatmulDesc", self.operation, _EPILOGUE, np.int32(sum(_EPILOGUES[word] for word in s.epilogue)))
            self.set_others([1 << 12] * len(self.others))  # the heuristic considers their alignment
        if s.beside:
            lt.set("MatmulDesc", self.operation, _BESIDE_STEP, np.int64(s.n))
        self.layouts = [
            _layout(s.dtype, (s.k, s.n) if s.transposed_y else (s.n, s.k)),
            _layout(s.dtype, (s.m, s.k) if s.transposed_x else (s.k, s.m)),
            _layout(s.result, (s.n, s.m)),
        ]
        if s.batch > 1:
            for layout, step in zip(self.layouts, (s.step_y, s.step_x, s.m * s.n)):
                lt.set("MatrixLayout", layout, _BATCH_COUNT, np.int32(s.batch))
                lt.set("MatrixLayout", layout, _BATCH_STEP, np.int64(step))

    def set_others(self, pointers: Sequence[int]) -> None:
        """Set the addresses of the bias, if any, and of the matrix beside the result."""
        for attribute, pointer in zip(self.others, pointers):
            _there().set("MatmulDesc", self.operation, attribute, np.uint64(pointer))

    def algorithms(self, count: int) -> list[np.ndarray[Any, Any]]:
        """The heuristic's suggestions, best first."""
        lt = _there()
        preference = lt.create("MatmulPreference")
        lt.set("MatmulPreference", preference, _WORKSPACE_LIMIT, np.uint64(WORKSPACE))
        lt.set("MatmulPreference", preference, _REDUCTIONS, np.uint32(_WIDE_PARTS))
        results, found = np.zeros(count, _RESULT), np.zeros(1, np.int32)
        layouts = (*self.layouts, self.layouts[2])
        arrays = results.ctypes.data, found.ctypes.data
        lt.call("MatmulAlgoGetHeuristic", self.handle, self.operation, *layouts, preference, count, *arrays)
        lt.call("MatmulPreferenceDestroy", preference)
        return [results[i : i + 1].copy() for i in range(int(found[0])) if not results["state"][i]]


def _layout(dtype: np.dtype[Any], sizes: tuple[int, int]) -> int:
    """A column-major matrix of this many rows and columns."""
    return _there().create("MatrixLayout", DTYPES[dtype], *sizes, sizes[0])


@functools.lru_cache(maxsize=1024)
def candidates(shape: ProductShape, device: int) -> list[Matmul]:
    """The algorithms that cuBLASLt suggests for a product, best first; empty if unsupported or not installed."""
    if library() is None or shape.dtype not in DTYPES or shape.result not in DTYPES or not shape.k:
        return []
    if shape.beside and shape.batch > 1:
        return []
    described = Described(shape, device)
    try:
        found = described.algorithms(SUGGESTED)
    except CudaError:
        return []
    made = [Matmul(shape, described, algorithm, i) for i, algorithm in enumerate(found)]
    first = preferred(shape, [algorithm["waves"].item() for algorithm in found])
    return [made[first], *made[:first], *made[first + 1 :]] if made else []


def preferred(shape: ProductShape, waves: Sequence[float]) -> int:
    """The algorithms ordered by how often each fills the device: more often means smaller tiles.

    The heuristic likes large tiles. For short sums smaller ones are faster, because a block computes one tile while it
    stores another: by 7 to 13% in GPT-2's products over 768 features on an H200. This does not hold for products that
    store two matrices.
    """
    is_short = SHORT // 4 <= shape.k <= SHORT and shape.m * shape.n >= 1 << 23
    if shape.dtype not in (float16, bfloat16) or not is_short or ARGUMENT in shape.epilogue:
        return 0
    return max((i for i, count in enumerate(waves) if count * LEAST <= waves[0]), key=lambda i: waves[i], default=0)
