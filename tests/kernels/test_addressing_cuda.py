"""The kernels for elements named by integers, run by the emulator, against the references."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

import wengert as wg
from tests.kernels.emulator import Emulator, compiler
from wengert.core.graph import Node
from wengert.kernels.gather_scatter import cuda as addressing_cuda
from wengert.kernels.gather_scatter.cuda import ERROR as ERROR_FLAG
from wengert.kernels.launch import H200, LaunchList, work_of
from wengert.ops.addressing import ADD_ALONG, GATHER, PUT_ALONG, SCATTER, SCATTER_ADD, TAKE_ALONG
from wengert.ops.core import data
from wengert.ops.movement import CONCAT
from wengert.ops.running import CUMSUM
from wengert.ops.sorting import ARGSORT, TOPK

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C++ compiler to emulate kernels with")

RNG = np.random.default_rng(0)
WORK = partial(work_of, device=H200, results={})


def numbers(*shape: int, dtype: str = "float32") -> Node:
    return data(RNG.normal(size=shape).astype(dtype))


def indices(size: int, *shape: int, dtype: str = "int64") -> Node:
    return data(RNG.integers(-size, size, shape).astype(dtype))


CASES: dict[str, Callable[[], Node]] = {
    "rows": lambda: GATHER(numbers(7, 5), indices(7, 11), axis=0),
    "rows of 16 bytes": lambda: GATHER(numbers(7, 8), indices(7, 4, 3, dtype="int32"), axis=0),
    "in the middle": lambda: GATHER(numbers(3, 7, 2), indices(7, 5), axis=1),
    "two indices that broadcast": lambda: GATHER(numbers(4, 6, 3), indices(4, 5, 1), indices(6, 1, 2), axis=0),
    "bytes": lambda: GATHER(data(RNG.integers(0, 2, (9, 3)).astype(bool)), indices(9, 4), axis=0),
    "scatter": lambda: SCATTER(numbers(6, 3), numbers(9, 3), indices(6, 9), axis=0),
    "scatter of one": lambda: SCATTER(numbers(2, 6, 3), numbers(2, 1, 3), indices(6, 1), axis=1),
    "scatter into zeros": lambda: SCATTER(wg.ops.creation.zeros((6, 3)), numbers(4, 3), indices(6, 4), axis=0),
    "add": lambda: SCATTER_ADD(numbers(6, 3), numbers(40, 3), indices(6, 40), axis=0),
    "add into zeros": lambda: SCATTER_ADD(wg.ops.creation.zeros((300, 2)), numbers(700, 2), indices(300, 700), axis=0),
    "add in the middle": lambda: SCATTER_ADD(numbers(2, 6, 3), numbers(2, 8, 3), indices(6, 8), axis=1),
    "add rows of 16 bytes": lambda: SCATTER_ADD(wg.ops.creation.zeros((9, 8)), numbers(99, 8), indices(9, 99), axis=0),
    "add halves": lambda: SCATTER_ADD(
        numbers(2, 5, 16, dtype="float16"), numbers(2, 40, 16, dtype="float16"), indices(5, 40), axis=1
    ),
    "take along": lambda: TAKE_ALONG(numbers(4, 6, 3), indices(6, 4, 2, 3), axis=1),
    "put along": lambda: PUT_ALONG(numbers(4, 6), numbers(4, 3), indices(6, 4, 3), axis=1),
    "add along": lambda: ADD_ALONG(wg.ops.creation.zeros((4, 6)), numbers(4, 9), indices(6, 4, 9), axis=1),
    "running sum": lambda: CUMSUM(numbers(3, 5, 4), axis=1, backwards=False),
    "running sum from the end": lambda: CUMSUM(numbers(3, 5), axis=1, backwards=True),
    "joined": lambda: CONCAT(numbers(3, 2, 4), numbers(3, 5, 4), numbers(3, 1, 4), axis=1),
    "joined at odd places": lambda: CONCAT(numbers(3, 5), numbers(3, 1), axis=1),
}


def worked(node: Node, make: Callable[..., LaunchList | None] = WORK) -> tuple[LaunchList, dict[str, np.ndarray]]:
    """The work of a node, and its buffers: the result is not written yet."""
    arrays = {ERROR_FLAG: np.zeros(1, np.int32)}

    def named(x: Node) -> str:
        name = f"b{x.serial}"
        arrays[name] = np.empty(x.shape, x.dtype) if x is node else np.array(x.buffer)
        return name

    work = make(node, named)
    assert work is not None
    return work, arrays


def reference(node: Node) -> np.ndarray:
    return node.op.run([s.buffer if s.buffer is not None else np.zeros(s.shape, s.dtype) for s in node.sources], node)


def test_every_case_equals_its_reference() -> None:
    nodes = {name: make() for name, make in CASES.items()}
    works = {name: worked(node) for name, node in nodes.items()}
    emulator = Emulator([work for work, _ in works.values()])
    for name, (work, arrays) in works.items():
        for reverse in (False, True):
            emulator.run(work, arrays, reverse)
            node = nodes[name]
            rtol = 2e-3 if node.dtype == np.float16 else 1e-5
            np.testing.assert_allclose(
                arrays[f"b{node.serial}"], reference(node), rtol=rtol, atol=rtol / 10, err_msg=name
            )
            assert not arrays[ERROR_FLAG][0], name


def test_rows_whose_order_is_worked_out_in_parts_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addressing_cuda, "RANKED", 64)
    node = SCATTER_ADD(wg.ops.creation.zeros((9, 4)), numbers(150, 4), indices(9, 150), axis=0)
    work, arrays = worked(node)
    Emulator([work]).run(work, arrays)
    np.testing.assert_allclose(arrays[f"b{node.serial}"], reference(node), rtol=1e-5, atol=1e-6)


NAMED: dict[str, tuple[int, np.ndarray]] = {  # so many places, and indices into them
    **{f"{n} into a few": (7, RNG.integers(-7, 7, n)) for n in (1, 31, 32, 33, 127, 128, 129, 300)},
    "all equal": (7, np.full(300, 3)),
    "all different": (300, RNG.permutation(300)),
    "one place": (1, np.zeros(40, np.int64)),
    "two long lists": (2, np.arange(600) % 2),
    **{f"into {size}": (size, RNG.integers(0, size, 200)) for size in (255, 256, 257, 4095, 4096, 4097, 9000)},
}


@pytest.mark.parametrize("general", [False, True], ids=["of these sizes", "of all sizes"])
def test_rows_are_added_in_the_order_of_their_indices(general: bool) -> None:
    device = replace(H200, sms=1)  # 16 blocks, which have 4096 places or 128 indices at a time
    works = {}
    for name, (size, index) in NAMED.items():
        node = SCATTER_ADD(wg.ops.creation.zeros((size, 2)), numbers(len(index), 2), data(index), axis=0)
        works[name] = (node, *worked(node, partial(addressing_cuda.scatter, device=device, general=general)))
    emulator = Emulator([work for _, work, _ in works.values()])
    for name, (node, work, arrays) in works.items():
        expected = reference(node)
        for reverse in (False, True):
            emulator.run(work, arrays, reverse)
            np.testing.assert_array_equal(arrays[f"b{node.serial}"], expected, err_msg=name)


def permuted(*shape: int) -> Node:
    return ARGSORT(numbers(*shape), axis=len(shape) - 1, descending=False)


IN_PARALLEL: dict[str, Callable[[], Node]] = {
    "put along a long line": lambda: PUT_ALONG(numbers(500), numbers(300), indices(500, 300), axis=0),
    "put along lines of few places": lambda: PUT_ALONG(numbers(3, 7), numbers(3, 200), indices(7, 3, 200), axis=1),
    "put before the last axis": lambda: PUT_ALONG(numbers(40, 3), numbers(90, 3), indices(40, 90, 3), axis=0),
    "put bytes": lambda: PUT_ALONG(numbers(40, dtype="int8"), numbers(90, dtype="int8"), indices(40, 90), axis=0),
    "add along a long line": lambda: ADD_ALONG(numbers(500), numbers(900), indices(500, 900), axis=0),
    "add to few places": lambda: ADD_ALONG(wg.ops.creation.zeros((2, 5)), numbers(2, 900), indices(5, 2, 900), axis=1),
    "add before the last axis": lambda: ADD_ALONG(numbers(40, 3), numbers(90, 3), indices(40, 90, 3), axis=0),
    "add halves in parallel": lambda: ADD_ALONG(
        numbers(40, dtype="float16"), numbers(90, dtype="float16"), indices(40, 90), axis=0
    ),
    "add doubles": lambda: ADD_ALONG(
        numbers(40, dtype="float64"), numbers(90, dtype="float64"), indices(40, 90), axis=0
    ),
    "add bytes": lambda: ADD_ALONG(numbers(40, dtype="int8"), numbers(90, dtype="int8"), indices(40, 90), axis=0),
    "add integers": lambda: ADD_ALONG(numbers(40, dtype="int64"), numbers(90, dtype="int64"), indices(40, 90), axis=0),
    "add to sorted places": lambda: ADD_ALONG(numbers(3, 100), numbers(3, 100), permuted(3, 100), axis=1),
    "add to the first places": lambda: ADD_ALONG(
        wg.ops.creation.zeros((3, 100)), numbers(3, 70), TOPK(numbers(3, 100), k=70, axis=1, descending=True), axis=1
    ),
    "scatter and add numbers": lambda: SCATTER_ADD(
        numbers(2, 30, dtype="int32"), numbers(2, 99, dtype="int32"), indices(30, 99), axis=1
    ),
}


def test_many_elements_of_few_lines() -> None:
    nodes = {name: make() for name, make in IN_PARALLEL.items()}
    for node in nodes.values():
        for source in node.sources:
            if source.buffer is None and source.op in (ARGSORT, TOPK):
                source.buffer = reference(source)
    works = {name: worked(node) for name, node in nodes.items()}
    emulator = Emulator([work for work, _ in works.values()])
    for name, (work, arrays) in works.items():
        node = nodes[name]
        tolerance = {"float16": 3e-2, "float64": 1e-12}.get(node.dtype.name, 1e-4)
        for reverse in (False, True):
            emulator.run(work, arrays, reverse)
            found = arrays[f"b{node.serial}"].astype(np.float64)
            np.testing.assert_allclose(found, reference(node).astype(np.float64), tolerance, tolerance, err_msg=name)


def test_more_elements_than_are_ranked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addressing_cuda, "RANKED", 64)
    node = SCATTER_ADD(wg.ops.creation.zeros((3, 9)), numbers(3, 150), indices(9, 150), axis=1)
    work, arrays = worked(node)
    Emulator([work]).run(work, arrays)
    np.testing.assert_allclose(arrays[f"b{node.serial}"], reference(node), rtol=1e-5, atol=1e-5)


def test_an_index_out_of_range_is_noted() -> None:
    node = GATHER(numbers(7, 5), data(np.array([0, 7])), axis=0)
    work, arrays = worked(node)
    Emulator([work]).run(work, arrays)
    assert arrays[ERROR_FLAG][0] == 1
