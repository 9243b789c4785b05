"""Grids that a GPU takes, whatever the sizes: the first axis of one holds 2^31 - 1 blocks, the others 65535 each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from wengert.dtypes import bfloat16, float32, float64
from wengert.graph import Node
from wengert.kernels import device_ops, prebuilt
from wengert.kernels.launch import H200, Launch
from wengert.ops.convolve import CONVOLVE, CONVOLVE_INPUT, CONVOLVE_WEIGHT
from wengert.ops.core import placeholder
from wengert.ops.linalg import matmul
from wengert.ops.window import MAX_POOL, SUM_POOL

MANY, LONG = 70_000, 4_000_000


def products(dtype: Any) -> Iterator[Node]:
    """Of many rows, of many columns, and many of them."""
    for x, y in (((LONG, 4), (4, 8)), ((4, 8), (8, LONG)), ((MANY, 4, 8), (MANY, 8, 4))):
        yield matmul(placeholder(x, dtype), placeholder(y, dtype))


def convolutions(dtype: Any) -> Iterator[Node]:
    """Of many images and of a long one, with few channels and more; and their derivatives."""
    for images, channels, size in ((MANY, 4, 16), (MANY, 64, 16), (1, 4, LONG), (1, 64, LONG)):
        x, y = (placeholder((images, channels, size), dtype) for _ in range(2))
        weight = placeholder((channels, channels, 3), dtype)
        common: dict[str, Any] = {"stride": (1,), "padding": ((1, 1),), "dilation": (1,), "groups": 1}
        yield CONVOLVE(x, weight, **common)
        yield CONVOLVE_INPUT(y, weight, sizes=(size,), **common)
        yield CONVOLVE_WEIGHT(x, y, kernel=(3,), **common)


def pools(dtype: Any) -> Iterator[Node]:
    x = placeholder((MANY, 4, 16), dtype)
    yield MAX_POOL(x, kernel=(2,), stride=(2,), padding=((0, 0),), dilation=(1,))
    yield SUM_POOL(x, kernel=(2,), stride=(2,))


def launches(node: Node) -> list[Launch]:
    """By kernels for all sizes and by those for these."""
    works = [prebuilt.work(node, H200), device_ops.work(node, lambda value: f"n{value.serial}", H200, {0: node})]
    return [launch for work in works if work is not None for launch in work.launches]


@pytest.mark.parametrize("dtype", [float32, bfloat16, float64], ids=str)
def test_large_sizes_have_grids_that_there_are(dtype: Any) -> None:
    for node in (*products(dtype), *convolutions(dtype), *pools(dtype)):
        found = launches(node)
        assert found, node
        for x, y, z in (launch.grid for launch in found):
            assert 0 < x < 1 << 31 and 0 < y <= 65_535 and 0 < z <= 65_535, (node, x, y, z)
