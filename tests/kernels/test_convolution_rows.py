"""The convolutions in tf32 that keep rows of images in shared memory, run by the emulator."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.kernels.cores import emulated
from tests.kernels.emulator import Emulator, compiler
from tests.kernels.test_convolution_cuda import channels_last, nodes, reference
from wengert.core.dtypes import float32
from wengert.kernels.convolution.cuda import ConvolutionForm, Form, convolution, outdoes_libraries, tiles, work
from wengert.kernels.launch import H200
from wengert.ops import registry

pytestmark = pytest.mark.skipif(compiler() is None, reason="the emulator needs g++")

ONE, TWO = ((1, 1), (1, 1)), ((2, 1), (2, 1))
STEM = (2, 12, 64, 1, (3, 16), (4, 4), (1, 1), TWO, (1, 1))  # batch, channels, outs, groups, sizes, kernel, stride, ...
FEW = (2, 16, 64, 1, (4, 8), (3, 3), (1, 1), ONE, (1, 1))
SQUARE = (2, 64, 64, 1, (4, 7), (3, 3), (1, 1), ONE, (1, 1))
CASES = [
    (STEM, 0, "chain"),  # one link
    ((2, 64, 64, *FEW[3:]), 1, "chain"),  # three
    (FEW, 2, "slide"),
    (SQUARE, 2, "sweep"),
]
FORMS = [
    SQUARE,
    (2, 128, 64, 1, (6, 28), (3, 3), (2, 2), ONE, (1, 1)),
    (2, 64, 128, 1, (5, 14), (3, 3), (1, 1), ((2, 0), (0, 2)), (1, 1)),  # other zeros before than after
    (1, 64, 64, 1, (5, 58), (3, 3), (1, 1), ((0, 0), (0, 0)), (1, 1)),
    (1, 64, 64, 1, (5, 30), (3, 3), (1, 1), ONE, (1, 1)),  # rows that are filled up
]
LARGER = [
    *((form, 2, rung) for form in FORMS for rung in ("slide", "sweep")),
    ((3, 12, 64, 1, (5, 112), (4, 4), (1, 1), TWO, (1, 1)), 2, "slide"),  # two parts of a row
    ((3, 64, 64, 1, (4, 16), (3, 3), (1, 1), ONE, (1, 1)), 0, "chain"),
    ((3, 64, 16, *FEW[3:]), 1, "chain"),
]


def check(form: Any, which: int, rung: str) -> None:
    """Small integers, so that sums are exact; the same bits whichever thread comes first."""
    node = channels_last(nodes(form, float32)[which])
    found = convolution(node, tf32=True)
    assert found is not None
    tile = next(tile for tile in tiles(found, H200) if tile is not None and tile.rung == rung)
    made = emulated(work(found, "a", "b", "c", H200, tile))
    emulator = Emulator([made])
    for reverse in (False, True):
        result = np.full(node.shape, 99, node.dtype)
        first, second = (np.array(source.buffer) for source in node.sources)
        emulator.run(made, {"a": first, "b": second, "c": result}, reverse)
        np.testing.assert_array_equal(result, reference(node))


@pytest.mark.parametrize(("form", "which", "rung"), CASES)
def test_rows_in_shared_memory_give_the_reference(form: Any, which: int, rung: str) -> None:
    check(form, which, rung)


@pytest.mark.slow
@pytest.mark.parametrize(("form", "which", "rung"), LARGER)
def test_larger_ones_give_the_reference(form: Any, which: int, rung: str) -> None:
    check(form, which, rung)


@pytest.mark.parametrize(
    ("name", "batch", "size", "channels", "ours"),
    [
        ("convolve_weight", 256, 56, 64, "sweep"),
        ("convolve_weight", 256, 7, 512, "sweep"),
        ("convolve_weight", 512, 4, 512, None),  # as many zeros between rows and images
        ("convolve_weight", 2, 14, 64, None),
        ("convolve_input", 256, 56, 64, "chain"),
        ("convolve", 256, 28, 128, None),
    ],
)
def test_our_kernels_go_first_where_they_are_faster(
    name: str, batch: int, size: int, channels: int, ours: str | None
) -> None:
    sizes = (1, size, size)
    form = Form(batch, 1, channels, channels, sizes, (1, 3, 3), sizes, (1, 1, 1), (0, 1, 1), (1, 1, 1))
    found = ConvolutionForm(registry[name], form, float32, float32, last=True, tf32=True)
    first = tiles(found, H200)[0]
    assert outdoes_libraries(found, H200) is (ours is not None)
    assert ours is None or (first is not None and first.rung == ours)
    assert not outdoes_libraries(found, replace(H200, arch="80"))
    assert not outdoes_libraries(replace(found, tf32=False), H200)


@pytest.mark.parametrize("which", [0, 1, 2])
@pytest.mark.parametrize(("channels", "outs", "padding", "gap"), [(8, 12, 0, 3), (8, 132, 4, 4)])
def test_lines_in_float32_by_every_shape_of_tile(channels: int, outs: int, padding: int, gap: int, which: int) -> None:
    form = (2, channels, outs, 1, (75,), (2,), (1,), ((padding, 0),), (gap,))
    node = channels_last(nodes(form, float32)[which])
    found = convolution(node)
    assert found is not None
    chosen = {(tile.high, tile.wide): tile for tile in reversed(tiles(found, H200)) if tile is not None}
    first, second = (np.array(source.buffer) for source in node.sources)
    for tile in chosen.values():
        made = emulated(work(found, "a", "b", "c", H200, tile))
        result = np.full(node.shape, 99, node.dtype)
        Emulator([made]).run(made, {"a": first, "b": second, "c": result})
        np.testing.assert_array_equal(result, reference(node))
