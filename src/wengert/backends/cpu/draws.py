"""Large draws in C: the same bits as the reference of `random_bits`, in a tenth of the time.

The bits are integers, so they are identical. NumPy still converts them to numbers, with its own logarithm and cosine.
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import numpy as np

from wengert.backends.cpu import toolchain
from wengert.core.errors import CompilerError

_TEXT = """#include "math.h"

void wg_draw(uint32_t *words, int64_t blocks, uint32_t key0, uint32_t key1, uint64_t counter, uint64_t stream) {
#pragma omp simd
    for (int64_t i = 0; i < blocks; i++) wg_philox_block(key0, key1, counter + i, stream, words + 4 * i);
}
"""


def fill(words: np.ndarray[Any, Any], key: Any, counter: Any, stream: int) -> bool:
    """Fill a contiguous array (blocks, 4) with the words of a draw; False if there is no compiler."""
    draw = _function()
    if draw is not None:
        draw(words.ctypes.data, len(words), int(key[0]), int(key[1]), int(counter), stream)
    return draw is not None


@functools.cache
def _function() -> Any:
    """The C function; None if it cannot be built."""
    if toolchain.compiler() is None:
        return None
    try:
        draw = toolchain.load([_TEXT]).wg_draw
    except (CompilerError, OSError):
        return None
    word, number = ctypes.c_uint32, ctypes.c_uint64
    draw.argtypes = [ctypes.c_void_p, ctypes.c_int64, word, word, number, number]
    draw.restype = None
    return draw
