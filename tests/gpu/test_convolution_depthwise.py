"""Depthwise convolutions on a GPU against the references."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.gpu.harness import prepare, run, this_device
from tests.kernels.test_convolution_cuda import channels_last, nodes
from tests.kernels.test_convolution_depthwise import FORMS, ONE
from wengert.core.dtypes import bfloat16, float16, float32, float64
from wengert.kernels.convolution.cuda import convolution, tiles, work

LARGER = [  # batch, channels, outs, groups, sizes, kernel, stride, padding, dilation
    (3, 96, 96, 96, (30, 29), (3, 3), (1, 1), ONE, (1, 1)),
    (3, 160, 160, 160, (30, 29), (3, 3), (2, 2), ONE, (1, 1)),
    (2, 72, 72, 72, (28, 28), (7, 7), (1, 1), ((3, 3), (3, 3)), (1, 1)),
    (4, 64, 64, 64, (3000,), (2,), (1,), ((512, 0),), (512,)),
    (2, 40, 80, 40, (6, 14, 14), (3, 3, 3), (2, 2, 2), (ONE[0],) * 3, (1, 1, 1)),
]
DTYPES = (float32, bfloat16, float16, float64)


@pytest.mark.parametrize("form", (*FORMS, *LARGER), ids=str)
def test_depthwise_convolutions_equal_their_references(form: Any) -> None:
    """Small integers: sums are exact, results are rounded once; the same bits in two runs."""
    cases = []
    for dtype in DTYPES:
        for node in map(channels_last, nodes(form, dtype)):
            found = convolution(node)
            assert found is not None
            cases += [(node, work(found, "a", "b", "c", this_device(), tile)) for tile in tiles(found, this_device())]
    prepare(made for _, made in cases)
    for node, made in cases:
        exact = node.op.numpy(*[source.buffer.astype(float) for source in node.sources], **node.attrs)
        first, second = (np.asarray(source.buffer) for source in node.sources)
        for _ in range(2):
            got = run(made, {"a": first, "b": second, "c": np.full(node.shape, 99, node.dtype)})["c"]
            why = f"{node.op.name} {node.dtype} {node.attrs} {made.launches[0].why}"
            np.testing.assert_array_equal(got, exact.astype(node.dtype), err_msg=why)
