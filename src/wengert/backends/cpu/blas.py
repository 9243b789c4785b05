"""The BLAS inside NumPy: its matrix products as addresses for C, and its number of threads."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from wengert.core.forking import in_child, new_lock


class Blas(NamedTuple):
    """Addresses of the matrix products by letter, and functions that set and get the number of threads."""

    products: Mapping[str, int]
    set_threads: Callable[[int], Any]
    threads: Callable[[], int]


@functools.cache
def blas() -> Blas | None:
    """NumPy's own OpenBLAS, if it can be found and has 64-bit integers."""
    folder = Path(np.__file__).parent.parent / "numpy.libs"
    for path in folder.glob("*openblas*"):
        library = ctypes.CDLL(str(path))
        for prefix, ending in (("scipy_", "64_"), ("", "64_")):
            try:
                products = {x: _address(getattr(library, f"{prefix}cblas_{x}gemm{ending}")) for x in "sdcz"}
                set_threads = getattr(library, f"{prefix}openblas_set_num_threads{ending}")
                threads = getattr(library, f"{prefix}openblas_get_num_threads{ending}")
            except AttributeError:
                continue
            return Blas(products, set_threads, threads)
    return None


def addresses() -> list[ctypes.c_void_p]:
    """The products of float32, float64, complex64 and complex128 for a C library; NULL where missing."""
    found = blas()
    return [ctypes.c_void_p(found.products[letter] if found else None) for letter in "sdcz"]


def _address(function: Any) -> int:
    return ctypes.cast(function, ctypes.c_void_p).value or 0


class _SingleThreaded:
    """A context with BLAS on one thread, because our threads share the work. Reentrant; the last exit restores it."""

    def __init__(self) -> None:
        self._inside = 0
        self._before = 1
        self._lock = new_lock()

    def __enter__(self) -> None:
        found = blas()
        with self._lock:
            if found is not None and not self._inside:
                self._before = found.threads()
                found.set_threads(1)
            self._inside += 1

    def __exit__(self, *error: object) -> None:
        found = blas()
        with self._lock:
            self._inside -= 1
            if found is not None and not self._inside:
                found.set_threads(self._before)

    def stay(self) -> None:
        """Keep BLAS on one thread from now on, regardless of contexts."""
        self._inside = 0
        if blas.cache_info().currsize and (found := blas()) is not None:
            found.set_threads(1)


single_threaded = _SingleThreaded()
in_child(single_threaded.stay)
