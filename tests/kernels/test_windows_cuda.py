"""The kernels for windows side by side and their sums, run by the emulator, against the references."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest

from tests.kernels.emulator import Emulator, compiler
from tests.kernels.test_addressing_cuda import reference, worked
from wengert.core.dtypes import float16, float32, int8
from wengert.kernels.launch import H200, work_of
from wengert.ops.core import data
from wengert.ops.window import FOLD, UNFOLD

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C++ compiler to emulate kernels with")

WORK = partial(work_of, device=H200, results={})
RNG = np.random.default_rng(0)
FORMS = [
    ((2, 3, 7, 6), (2, 3), (1, 1), (1, 1)),
    ((2, 7, 9), (3, 2), (2, 3), (1, 2)),
    ((11,), (3,), (4,), (2,)),
    ((2, 5, 4, 6), (2, 2, 3), (1, 2, 2), (2, 1, 1)),
]


def test_windows_and_their_sums() -> None:
    nodes = []
    for shape, kernel, stride, dilation in FORMS:
        for dtype in (float32, float16, int8):
            attrs = {"kernel": kernel, "stride": stride, "dilation": dilation}
            x = data(RNG.integers(-9, 9, shape).astype(dtype))
            windows = UNFOLD(x, **attrs)
            given = data(RNG.integers(-3, 3, windows.shape).astype(dtype))
            nodes += [windows, FOLD(given, sizes=shape[len(shape) - len(kernel) :], **attrs)]
    works = [worked(node, WORK) for node in nodes]
    emulator = Emulator([work for work, _ in works])
    for node, (work, arrays) in zip(nodes, works):
        emulator.run(work, arrays)
        np.testing.assert_array_equal(
            arrays[f"b{node.serial}"], reference(node), err_msg=f"{node.op.name} {node.shape}"
        )
