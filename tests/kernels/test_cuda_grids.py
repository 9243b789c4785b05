"""Large sizes: places of 64 bits, and grids whose first axis holds 2^31 - 1 blocks, the others 65535 each."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.kernels.cuda_graphs import CudaGraph
from wengert.core.dtypes import bfloat16, float32, float64, uint8
from wengert.core.graph import Graph, Node, now
from wengert.kernels import prebuilt
from wengert.kernels.launch import H200, Launch, work_of
from wengert.ops import movement as m
from wengert.ops import reduce as r
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
    works = [prebuilt.work(node, H200), work_of(node, lambda value: f"n{value.serial}", H200, {0: node})]
    return [launch for work in works if work is not None for launch in work.launches]


@pytest.mark.parametrize("dtype", [float32, bfloat16, float64], ids=str)
def test_large_sizes_have_grids_that_there_are(dtype: Any) -> None:
    for node in (*products(dtype), *convolutions(dtype), *pools(dtype)):
        found = launches(node)
        assert found, node
        for x, y, z in (launch.grid for launch in found):
            assert 0 < x < 1 << 31 and 0 < y <= 65_535 and 0 < z <= 65_535, (node, x, y, z)


LOOPS: dict[str, Callable[[Node], Node]] = {
    "elements": lambda x: x + 1,
    "transposed": lambda x: m.matrix_transpose(x) + 1,
    "transposed about": lambda x: m.permute_dims(m.reshape(x, (4, -1, x.shape[1])), (0, 2, 1)) + 1,
    "flipped": lambda x: m.flip(x, axis=1) + 1,
    "rows": lambda x: r.MAX(x, axes=(1,), keepdims=False),
    "columns": lambda x: r.MAX(x, axes=(0,), keepdims=False),
    "all": lambda x: r.MAX(x, axes=(0, 1), keepdims=False),
    "softmax": lambda x: x - r.MAX(x, axes=(1,), keepdims=True),
}


@pytest.mark.parametrize("shape", [(32_768, 65_540), (1 << 22, 520)], ids=str)
@pytest.mark.parametrize("make", LOOPS.values(), ids=LOOPS)
def test_places_in_large_arrays_are_not_worked_out_in_32_bits(
    make: Callable[[Node], Node], shape: tuple[int, int]
) -> None:
    since = now()
    x = placeholder(shape, uint8)
    for work, _ in CudaGraph(Graph([x], [make(x)], since)).works.values():
        for text in (launch.source for launch in work.launches):
            short = "|".join(re.findall(r"\bint (\w+) = ", text))
            strides = rf"\b(?:{max(shape)}|{min(shape)})(?:LL)? \* (?:{short})\b"
            assert "long long" in text and not re.search(strides, text), text
