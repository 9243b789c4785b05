"""Depthwise convolutions over values with their channels last, run by the emulator, against the references."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.kernels.cores import emulated
from tests.kernels.emulator import Emulator, compiler
from tests.kernels.headers import pasted
from tests.kernels.test_convolution_cuda import channels_last, nodes, reference
from wengert.core.dtypes import bfloat16, float32, float64
from wengert.kernels.convolution import depthwise
from wengert.kernels.convolution.cuda import convolution, tiles, work
from wengert.kernels.launch import H200

pytestmark = pytest.mark.skipif(compiler() is None, reason="the emulator needs g++")

ONE = ((1, 1), (1, 1))
FORMS = [  # batch, channels, outs, groups, sizes, kernel, stride, padding, dilation
    (2, 8, 8, 8, (9, 7), (3, 3), (1, 1), ONE, (1, 1)),
    (2, 12, 12, 12, (7, 10), (3, 3), (2, 2), ONE, (1, 1)),
    (1, 6, 6, 6, (8, 6), (3, 2), (2, 3), ((0, 2), (1, 0)), (2, 1)),  # two channels a thread
    (2, 5, 5, 5, (6, 5), (2, 3), (1, 2), ((1, 0), (-1, 1)), (1, 2)),  # one, and a crop
    (1, 4, 8, 4, (6, 6), (3, 3), (1, 1), ONE, (1, 1)),  # two kernels a channel
    (1, 6, 18, 6, (5, 6), (3, 3), (2, 1), ONE, (1, 1)),
    (2, 36, 36, 36, (5, 5), (5, 5), (1, 1), ((2, 2), (2, 2)), (1, 1)),
    (1, 4, 4, 4, (12, 12), (9, 9), (1, 1), ((4, 4), (4, 4)), (2, 2)),  # taps in groups
    (2, 8, 8, 8, (40,), (3,), (1,), ((32, 0),), (16,)),  # causal
    (2, 8, 8, 8, (70,), (5,), (3,), ((30, 20),), (8,)),
    (1, 8, 8, 8, (50,), (31,), (1,), ((15, 15),), (1,)),
    (1, 4, 4, 4, (3, 4, 5), (2, 2, 3), (1, 2, 1), ((1, 0), (0, 1), (1, 1)), (1, 1, 1)),
    (2, 8, 16, 8, (5, 4, 6), (3, 3, 3), (2, 1, 2), (ONE[0],) * 3, (1, 2, 1)),
    (2, 4, 8, 2, (6, 7), (3, 3), (1, 2), ONE, (1, 1)),  # groups of several channels
    (1, 6, 9, 3, (5, 6), (3, 3), (2, 1), ONE, (1, 1)),
    (1, 12, 6, 2, (9,), (3,), (1,), ((2, 0),), (2,)),
]
FIRST = (0, 3, 5, 9, 14)  # those whose kernels are compiled in every run


def check(form: Any, dtype: Any) -> None:
    """Small integers, so that sums are exact; the same bits whichever thread comes first."""
    cases = []
    for node in map(channels_last, nodes(form, dtype)):
        found = convolution(node)
        assert found is not None and depthwise.is_narrow(found)
        for tile in tiles(found, H200):
            cases.append((node, emulated(work(found, "a", "b", "c", H200, tile))))
    emulator = Emulator([made for _, made in cases])
    for node, made in cases:
        for reverse in (False, True):
            result = np.full(node.shape, 99, node.dtype)
            first, second = (np.array(source.buffer) for source in node.sources)
            emulator.run(made, {"a": first, "b": second, "c": result}, reverse)
            np.testing.assert_array_equal(result, reference(node), err_msg=f"{node.op.name} {node.attrs}")


@pytest.mark.parametrize("form", [FORMS[i] for i in FIRST], ids=str)
def test_depthwise_convolutions_give_the_reference(form: Any) -> None:
    check(form, float32)


@pytest.mark.slow
@pytest.mark.parametrize("form", [form for i, form in enumerate(FORMS) if i not in FIRST], ids=str)
def test_other_depthwise_convolutions_give_the_reference(form: Any) -> None:
    check(form, float32)


def test_what_reaches_too_far_goes_directly() -> None:
    """Between swaps of its values: a stride of 11 leaves tiles that are too large."""
    cases = []
    for node in map(channels_last, nodes((1, 4, 4, 4, (30, 25), (3, 3), (11, 11), ONE, (1, 1)), float32)):
        found = convolution(node)
        assert found is not None
        cases.append((node, pasted(work(found, "a", "b", "c", H200, None))))
    emulator = Emulator([made for _, made in cases])
    for node, made in cases:
        result = np.full(node.shape, 99, node.dtype)
        first, second = (np.array(source.buffer) for source in node.sources)
        emulator.run(made, {"a": first, "b": second, "c": result})
        np.testing.assert_array_equal(result, reference(node))


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [bfloat16, float64], ids=str)
def test_other_dtypes(dtype: Any) -> None:
    check(FORMS[0], dtype)
