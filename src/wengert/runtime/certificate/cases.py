"""Cases: small graphs, with input arrays, on which rules are tested.

An elementwise case has every combination of the values of a dtype (see `values`); a movement case has distinct elements
in small shapes; a case of sums and products has random numbers.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from wengert.core.dtypes import bfloat16, bool_, float16, float32, float64, int8, int32, int64, uint8
from wengert.core.graph import Graph, Node, Shape, now
from wengert.ops.core import placeholder
from wengert.runtime.certificate.values import Array, Dtype, numbered, tried

FLOATS: tuple[Dtype, ...] = (float16, bfloat16, float32, float64)
WHOLE: tuple[Dtype, ...] = (int8, uint8, int32, int64)
NUMBERS: tuple[Dtype, ...] = (*FLOATS, *WHOLE)
ANY: tuple[Dtype, ...] = (*NUMBERS, bool_)


class Case(NamedTuple):
    """A graph and arrays for its inputs."""

    graph: Graph
    arrays: list[Array]


Cases = Callable[[str], Iterator[Case]]
"""The cases of a rule, on a device."""


def recorded(record: Callable[..., Any], kinds: Sequence[tuple[Shape, Dtype]], device: str) -> Graph:
    """The graph that a function records over inputs."""
    since = now()
    inputs = [placeholder(shape, dtype, device) for shape, dtype in kinds]
    outputs = record(*inputs)
    return Graph(inputs, list(outputs) if isinstance(outputs, list | tuple) else [outputs], since)


def elements(record: Callable[..., Any], count: int = 1, dtypes: Iterable[Dtype] = NUMBERS) -> Cases:
    """Elementwise ops on every combination of values of each dtype."""

    def cases(device: str) -> Iterator[Case]:
        for dtype in dtypes:
            arrays = tried(dtype, count)
            yield Case(recorded(record, [(array.shape, dtype) for array in arrays], device), arrays)

    return cases


def chosen(record: Callable[..., Any], count: int, dtypes: Iterable[Dtype] = NUMBERS) -> Cases:
    """Elementwise ops with a condition before the values."""

    def cases(device: str) -> Iterator[Case]:
        for dtype in dtypes:
            values = tried(dtype, count)
            arrays = [np.tile([False, True], len(values[0])), *[np.repeat(array, 2) for array in values]]
            kinds = [(arrays[0].shape, bool_), *[(array.shape, dtype) for array in arrays[1:]]]
            yield Case(recorded(record, kinds, device), arrays)

    return cases


def shapes(rank: int, extents: Sequence[int] = (1, 2, 3)) -> list[Shape]:
    """All shapes of a rank with these extents."""
    return list(itertools.product(extents, repeat=rank))


def moved(records: Callable[[Shape], Iterable[Callable[[Node], Any]]], ranks: Sequence[int] = (1, 2, 3)) -> Cases:
    """Movement of values of all small shapes; `records` returns what to record for a shape."""

    def cases(device: str) -> Iterator[Case]:
        for shape in (shape for rank in ranks for shape in shapes(rank)):
            for record in records(shape):
                yield Case(recorded(record, [(shape, float32)], device), [numbered(shape, float32)])

    return cases


def drawn(record: Callable[..., Any], *kinds: Sequence[Shape], dtypes: Sequence[Dtype] = (float32, float64)) -> Cases:
    """Random numbers; each of `kinds` has the shapes of the inputs."""

    def cases(device: str) -> Iterator[Case]:
        for number, (given, dtype) in enumerate(itertools.product(kinds, dtypes)):
            rng = np.random.default_rng(number)
            arrays = [np.asarray(rng.normal(size=shape)).astype(dtype) for shape in given]
            yield Case(recorded(record, [(array.shape, dtype) for array in arrays], device), arrays)

    return cases


def indexed(record: Callable[..., Any], *given: tuple[Shape, Shape, int]) -> Cases:
    """Random rows and valid indices into them, negative ones too: the shapes of both, and the size of the axis."""

    def cases(device: str) -> Iterator[Case]:
        for number, (shape, index, size) in enumerate(given):
            rng = np.random.default_rng(number)
            for dtype, kind in itertools.product((float32, float64), (int32, int64)):
                arrays = [rng.normal(size=shape).astype(dtype), rng.integers(-size, size, index).astype(kind)]
                yield Case(recorded(record, [(shape, dtype), (index, kind)], device), arrays)

    return cases
