"""Convolutions on a GPU, by tensor cores too, channels first and last, against the references in float64."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.gpu.harness import prepare, run, this_device
from tests.kernels.test_convolution_cuda import DOUBLED, FORMS, ONE_IMAGE, channels_last, nodes
from wengert.core.dtypes import bfloat16, float16, float32, float64
from wengert.kernels.convolution.cuda import candidates, convolution, tiles, work

LARGER = [
    (3, 64, 72, 1, (14, 14), (3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1)),
    (2, 128, 64, 1, (12, 12), (3, 3), (1, 1), ((2, 2), (2, 2)), (2, 2)),
    (2, 64, 128, 1, (8, 8), (1, 1), (2, 2), ((0, 0), (0, 0)), (1, 1)),
    (2, 32, 64, 4, (8, 9), (3, 3), (1, 2), ((1, 1), (1, 1)), (1, 1)),
    (3, 16, 64, 1, (12, 13), (4, 4), (1, 1), ((2, 1), (2, 1)), (1, 1)),  # a folded stem
    (3, 12, 64, 1, (12, 112), (4, 4), (1, 1), ((2, 1), (2, 1)), (1, 1)),  # the same in tf32
    (3, 64, 64, 1, (9, 56), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1)),
    (3, 64, 128, 1, (9, 28), (3, 3), (2, 2), ((1, 1), (1, 1)), (1, 1)),
    (5, 128, 64, 1, (7, 7), (3, 3), (1, 1), ((1, 1), (1, 1)), (1, 1)),
    (3, 64, 128, 1, (700,), (2,), (1,), ((64, 0),), (64,)),  # a line, dilated
]


@pytest.mark.parametrize("form", (*FORMS, *LARGER), ids=str)
@pytest.mark.parametrize("kind", ["float32", "tf32", "bfloat16", "float16", "float64"])
def test_convolutions_equal_their_references(kind: str, form: Any) -> None:
    """Small integers: every dtype holds the operands and the sums exactly, results are rounded once."""
    dtype = {"bfloat16": bfloat16, "float16": float16, "float64": float64}.get(kind, float32)
    cases = []
    made = nodes(form, dtype)
    for node in [*made, *map(channels_last, made)] if form[3] == 1 and dtype is not float64 else made:
        found = convolution(node, tf32=kind == "tf32")
        assert found is not None
        ways = candidates(found, "a", "b", "c", this_device())
        cases += [(node, way) for way in ways[: 8 if dtype is bfloat16 else 3]]
    prepare(way for _, way in cases)
    for node, way in cases:
        exact = node.op.numpy(*[source.buffer.astype(float) for source in node.sources], **node.attrs)
        first, second = (np.asarray(source.buffer) for source in node.sources)
        got = run(way, {"a": first, "b": second, "c": np.full(node.shape, 99, dtype)})["c"]
        why = f"{node.op.name} {node.attrs} {[launch.why for launch in way.launches]}"
        np.testing.assert_array_equal(got, exact.astype(dtype), err_msg=why)


@pytest.mark.parametrize("split", [1, 2, 4, 8])
def test_an_epilogue_takes_the_sums_of_one_image(split: int) -> None:
    """The blocks of a cluster add up what each of them has of the depth."""
    if this_device().arch != "90a":
        pytest.skip("kernels with clusters are for Hopper")
    node = channels_last(nodes(ONE_IMAGE, bfloat16)[0])
    found = convolution(node)
    assert found is not None
    first, second = (np.asarray(source.buffer) for source in node.sources)
    exact = node.op.numpy(first.astype(float), second.astype(float), **node.attrs)
    for tile in tiles(found, this_device())[:2]:
        assert tile is not None
        part = replace(tile, split=split, joined=split > 1)
        taken = work(found, "a", "b", "c", this_device(), part, DOUBLED)
        got = run(taken, {"a": first, "b": second, "c": np.full(node.shape, 99, float32)})["c"]
        np.testing.assert_array_equal(got, 2 * exact, err_msg=f"{part}")
