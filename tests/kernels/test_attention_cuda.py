"""The CUDA attention without a GPU: its kernels run by the emulator against the op's reference."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.kernels.cores import emulated
from tests.kernels.emulator import Emulator, compiler
from tests.kernels.headers import pasted
from wengert.backends.cuda import dnn_attention
from wengert.backends.cuda.libraries import CudaLibraries
from wengert.core.dtypes import bfloat16, float32, float64
from wengert.core.graph import Node
from wengert.kernels.attention.cuda import backward, forward, outdoes_libraries, parts_of_totals
from wengert.kernels.attention.form import View, place_for_logarithms, view
from wengert.kernels.launch import H200, RTX_2080
from wengert.ops.attention import ATTENTION, ATTENTION_BACKWARD
from wengert.ops.core import as_node
from wengert.ops.movement import matrix_transpose, reshape, swapaxes, take_slice
from wengert.ops.op import picks

needs_compiler = pytest.mark.skipif(compiler() is None, reason="the emulator needs g++")

CASES: list[tuple[tuple[Any, ...], Any, dict[str, Any]]] = [  # shapes of query, key, value; mask; attributes
    (((2, 37, 8), (2, 37, 8), (2, 37, 8)), None, {"causal": True, "scale": 0.5}),
    (((2, 2, 18, 5), (2, 1, 21, 5), (1, 2, 21, 3)), "bool", {"causal": False, "scale": 0.4}),
    (((3, 17), (40, 17), (40, 20)), "added", {"causal": True, "scale": -0.3}),
]


def node_of(case: tuple[Any, ...], dtype: Any) -> tuple[Node, Node]:
    """The forward and the backward node of a case, on random numbers."""
    shapes, kind, attrs = case
    rng = np.random.default_rng(3)
    sources = [as_node(rng.standard_normal(shape).astype(dtype)) for shape in shapes]
    mask = []
    if kind == "bool":
        seen = rng.random((shapes[0][-2], shapes[1][-2])) < 0.7
        seen[1] = False
        mask = [as_node(seen)]
    elif kind == "added":
        mask = [as_node(rng.standard_normal((1, shapes[1][-2])).astype(dtype))]
    y = ATTENTION(*sources, *mask, **attrs)
    g = as_node(rng.standard_normal(y.shape).astype(dtype))
    return y, ATTENTION_BACKWARD(g, *sources, *mask, **attrs)


def reference(node: Node) -> Any:
    return node.op.run([source.buffer for source in node.sources], node)


def names_of(node: Node, arrays: dict[str, Any]) -> Any:
    """What names a node's buffer, and puts the array of a source beside it."""

    def named(x: Node) -> str:
        if isinstance(x.buffer, np.ndarray):
            arrays[f"n{x.serial}"] = np.array(x.buffer)
        return f"n{x.serial}"

    return named


@needs_compiler
@pytest.mark.parametrize("dtype", [float32, pytest.param(float64, marks=pytest.mark.slow)], ids=lambda d: d.name)
def test_attention_equals_its_reference(dtype: Any) -> None:
    """Backward alone in the first case; in the others it takes what forward keeps."""
    runs = []
    for number, case in enumerate(CASES):
        y, back = node_of(case, dtype)
        place = place_for_logarithms(y)
        arrays: dict[str, Any] = {f"n{place.serial}": np.full(place.shape, np.nan, dtype)}
        named = names_of(y, arrays)
        results = picks(back)
        kept = [(place,), (y, place)] if number else [(), ()]
        works = (
            forward(y, named, RTX_2080, kept[0]),
            backward(back, named, RTX_2080, dict(enumerate(results)), kept[1]),
        )
        runs.append((y, back, results, arrays, [pasted(work) for work in works if work is not None]))
    emulator = Emulator([work for *_, works in runs for work in works])
    for y, back, results, arrays, works in runs:
        arrays |= {f"n{x.serial}": np.full(x.shape, 99, dtype) for x in (y, *results)}
        for work in works:
            emulator.run(work, arrays)
        rounding = 1e-12 if dtype is float64 else 2e-5
        for node, want in zip((y, *results), (reference(y), *reference(back))):
            np.testing.assert_allclose(arrays[f"n{node.serial}"], want, rtol=rounding, atol=rounding)


AMPERE = replace(H200, arch="80")
slow = pytest.mark.slow


@needs_compiler
@pytest.mark.parametrize(
    ("device", "shapes", "mask", "causal"),
    [
        (H200, ((1, 100, 64),) * 3, None, True),
        pytest.param(H200, ((1, 70, 128), (1, 90, 128), (1, 90, 72)), "bool", False, marks=slow),
        pytest.param(H200, ((2, 150, 128),) * 3, None, True, marks=slow),
        pytest.param(AMPERE, ((1, 70, 24), (1, 90, 24), (1, 90, 40)), "bool", False, marks=slow),
        pytest.param(AMPERE, ((2, 70, 128),) * 3, None, True, marks=slow),
    ],
)
def test_tensor_cores_equal_the_reference(device: Any, shapes: Any, mask: Any, causal: bool) -> None:
    """By wgmma and by mma, as the emulator knows them; backward takes what forward keeps."""
    y, back = node_of((shapes, mask, {"causal": causal, "scale": 0.1}), bfloat16)
    place, results, arrays = place_for_logarithms(y), picks(back), dict[str, Any]()
    named = names_of(y, arrays)
    found = forward(y, named, device, (place,)), backward(back, named, device, dict(enumerate(results)), (y, place))
    works = [emulated(work) for work in found if work is not None]
    arrays[f"n{place.serial}"] = np.full(place.shape, np.nan, float32)
    arrays |= {f"n{x.serial}": np.full(x.shape, 99, bfloat16) for x in (y, *results)}
    emulator = Emulator(works)
    for work in works:
        emulator.run(work, arrays)
    for node, want in zip((y, *results), (exact(y), *exact(back))):
        got = np.asarray(arrays[f"n{node.serial}"], float)
        assert np.linalg.norm(got - want) < 5e-3 * np.linalg.norm(want), node


@needs_compiler
@pytest.mark.parametrize("device", [H200, pytest.param(AMPERE, marks=slow)], ids=lambda device: device.arch)
def test_blocks_leave_the_totals_of_columns(device: Any) -> None:
    """Two batches of 128 rows, each with the cotangents of query, key and value side by side."""
    rng = np.random.default_rng(0)
    g, *operands = (as_node(rng.normal(size=(2, 1, 128, 64)).astype(bfloat16)) for _ in range(4))
    back = ATTENTION_BACKWARD(g, *operands, causal=True, scale=0.1, joined=True)
    (result,), arrays = picks(back), dict[str, Any]()
    work = backward(back, names_of(back, arrays), device, {0: result}, parts="parts")
    assert work is not None and parts_of_totals(back, device) == (4, 192)
    work = emulated(replace(work, workspace={name: n for name, n in work.workspace.items() if name != "parts"}))
    arrays[f"n{result.serial}"] = np.full(result.shape, 99, bfloat16)
    arrays["parts"] = np.full((4, 192), np.nan, np.float32)
    Emulator([work]).run(work, arrays)
    (want,) = exact(back)
    got = arrays["parts"].sum(0)
    assert np.abs(got - want.sum((0, 1)).reshape(-1)).max() < 2e-2 * np.abs(want).max()
    assert np.linalg.norm(np.asarray(arrays[f"n{result.serial}"], float) - want) < 5e-3 * np.linalg.norm(want)


def test_only_whole_tiles_of_joined_cotangents_have_totals() -> None:
    def left(length: int, joined: bool, device: Any = H200) -> Any:
        g, *operands = (as_node(np.zeros((2, 3, length, 64), bfloat16)) for _ in range(4))
        attributes = {"joined": True} if joined else {}
        return parts_of_totals(ATTENTION_BACKWARD(g, *operands, causal=True, scale=0.1, **attributes), device)

    assert left(256, joined=True) == (2 * 256 // 64, 3 * 3 * 64)
    assert left(200, joined=True) is left(256, joined=False) is left(256, True, RTX_2080) is None


def exact(node: Node) -> Any:
    """The reference in float64."""
    arrays = [s.buffer if s.dtype == np.bool_ else np.asarray(s.buffer, float) for s in node.sources]
    return node.op.numpy(*arrays, **node.attrs)


def test_operands_are_read_where_they_lie() -> None:
    """Queries as a model makes them: a third of a product's columns, cut into heads."""
    whole = as_node(np.zeros((2, 5, 24), float32))
    heads = swapaxes(reshape(take_slice(whole, (0, 0, 8), (1, 1, 1), (2, 5, 8)), (2, 5, 2, 4)), 1, 2)
    assert view(heads) == View(whole, 8, (120, 4), 24)
    transposed = matrix_transpose(heads)
    assert view(transposed) == View(transposed, 0, (40, 20), 5)


def test_ours_outdo_cudnn_where_they_were_measured_to() -> None:
    for features, device, expected in ((64, H200, True), (40, H200, True), (128, H200, False), (64, AMPERE, False)):
        for node in node_of((((2, 70, features),) * 3, None, {"causal": True, "scale": 0.1}), bfloat16):
            assert outdoes_libraries(node, device) is expected


def test_tensor_cores_take_half_precision() -> None:
    """Hopper's own instruction where heads have more than 32 features."""
    wide = (((2, 70, 64),) * 3, None, {"causal": True, "scale": 0.1})
    for case, dtype, device, expected in (
        (CASES[0], bfloat16, H200, "mma"),
        (wide, bfloat16, H200, "wgmma"),
        (wide, bfloat16, AMPERE, "mma"),
        (wide, bfloat16, RTX_2080, "fma"),
        (wide, float32, H200, "fma"),
    ):
        y, back = node_of(case, dtype)
        works = forward(y, str, device), backward(back, str, device, dict(enumerate(picks(back))))
        for work in works:
            assert work is not None and {launch.why.split()[0] for launch in work.launches} <= {expected, "fma"}
            assert work.launches[0].why.startswith(expected)


def test_a_library_s_choice_is_kept_by_what_the_attention_is() -> None:
    """Choices on disk have this for a key: where it changes, they are found no more."""
    first, second = node_of((((3, 16, 8), (3, 24, 8), (3, 24, 8)), None, {"causal": False, "scale": 0.5}), bfloat16)
    about = "lead=(1,3) queries=16 keys=24 features=8 values=8 causal=False scale=0.5 dtype=bfloat16 "
    libraries = CudaLibraries("cuda:0", tf32=False)
    q, kv = "(8,128,8,1)", "(8,192,8,1)"
    assert libraries.about(first) == (
        f"{about}strides=({q},{kv},{kv}) offsets=(0,0,0) results=({q},) result_offsets=(0,) kept=()"
    )
    assert libraries.about(second) == (
        f"{about}strides=({q},{kv},{kv},{q}) offsets=(0,0,0,0) results=({q},{kv},{kv}) result_offsets=(0,0,0) kept=()"
    )
    shapes = {dnn_attention.shape_of(node, keeper) for node in (first, second) for keeper in (None, first)}
    assert len(shapes) == 4  # each with a plan of its own
