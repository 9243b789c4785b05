"""Which of cuBLASLt's algorithms goes first."""

from __future__ import annotations

import numpy as np
import pytest

from wengert.backends.cuda.blas import ProductShape, preferred
from wengert.core.dtypes import bfloat16, float32

WAVES = [11.6, 10.4, 15.5, 46.5, 18.7, 15.6]


@pytest.mark.parametrize(
    ("m", "n", "k", "dtype", "first"),
    [
        (16384, 3072, 768, bfloat16, 4),  # short sums: smaller tiles, but not much smaller
        (16384, 768, 3072, bfloat16, 0),  # long ones: as the heuristic says
        (16384, 3072, 64, bfloat16, 0),
        (512, 512, 768, bfloat16, 0),  # too few tiles to have two in hand
        (16384, 3072, 768, float32, 0),
    ],
)
def test_short_sums_take_smaller_tiles(m: int, n: int, k: int, dtype: np.dtype, first: int) -> None:
    shape = ProductShape(1, m, n, k, False, False, 0, 0, dtype, dtype)
    assert preferred(shape, WAVES) == first
    assert preferred(shape, WAVES[:1]) == preferred(shape, []) == 0
