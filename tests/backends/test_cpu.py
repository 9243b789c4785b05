"""What the CPU's programs read of arrays."""

from __future__ import annotations

import numpy as np

from wengert.backends.recycle import address


def test_addresses_are_those_that_numpy_tells() -> None:
    whole = np.arange(24.0).reshape(4, 6)
    for array in (whole, whole[1:], whole.T, np.zeros(()), np.zeros((0, 3)), whole.view(np.int64)):
        assert address(array) == array.ctypes.data
