"""Many short transpositions as one launch: emulated, they equal the references; what is something else stays alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.compiler.test_compiled_ops import _reference
from tests.kernels.cuda_graphs import CudaGraph, poison
from tests.kernels.emulator import Emulator, compiler
from wengert.backends.cuda.compile import cubin
from wengert.core.graph import Graph, Node, now
from wengert.kernels.cuda import transpose_signature, write_multi_transpose
from wengert.kernels.launch import H200
from wengert.ops.core import placeholder

SHAPES = [(3, 8, 3, 3), (40, 64, 3, 3), (1, 264, 3, 3), (7, 16, 1, 9)]


def channels_last(shapes: list[tuple[int, ...]], stored: Any, wanted: Any, device: str = "cpu") -> Graph:
    """Weights in one dtype, and with their channels last in another."""
    since = now()
    weights = [placeholder(shape, stored, device) for shape in shapes]
    transposed = [wg.permute_dims(wg.Tensor(node), (0, 2, 3, 1)).to(wanted).node for node in weights]
    return Graph(weights, transposed, since)


@pytest.mark.skipif(compiler() is None, reason="there is no C++ compiler to emulate CUDA with")
@pytest.mark.parametrize(
    "stored, wanted", [(wg.bfloat16, wg.bfloat16), (wg.float32, wg.bfloat16), (wg.float64, wg.float32)], ids=str
)
def test_weights_with_channels_last_are_one_launch(stored: Any, wanted: Any) -> None:
    graph = channels_last(SHAPES, stored, wanted)
    program = CudaGraph(graph)
    kinds = {transpose_signature(kernel) for kernel in program.kernels}
    assert len(kinds) == 1 and None not in kinds
    work = write_multi_transpose(program.kernels, H200)
    assert len(work.launches) == 1
    random = np.random.default_rng(0)
    values = {node: np.asarray(random.standard_normal(node.shape).astype(node.dtype)) for node in graph.inputs}
    nodes = {name: node for _, names in program.works.values() for name, node in names.items()}
    arrays = {name: values[node] if node in values else poison(node) for name, node in nodes.items()}
    Emulator([work]).run(work, arrays)
    expected: dict[Node, Any] = dict(zip(graph.outputs, _reference(graph, values, {})))
    found = {node: arrays[name] for name, node in nodes.items() if node in expected}
    assert len(found) == len(SHAPES)
    for node, array in found.items():
        np.testing.assert_array_equal(np.asarray(array, np.float32), np.asarray(expected[node], np.float32))


def test_what_is_no_short_transposition_stays_alone() -> None:
    x = placeholder((8, 16, 3, 3), wg.float32)
    y = placeholder((8, 16, 3, 3), wg.float32)
    transposed = wg.permute_dims(wg.Tensor(x), (0, 2, 3, 1))
    others = {
        "reversed": wg.flip(transposed, (1,)),
        "of two": transposed + wg.permute_dims(wg.Tensor(y), (0, 2, 3, 1)),
        "other axes": wg.permute_dims(wg.Tensor(x), (1, 2, 3, 0)),
        "a total": transposed.sum(axis=3),
        "a part": transposed[1:, :, :, 8:],
        "padded": wg.pad(transposed, (0, 8)),
        "uneven": wg.permute_dims(wg.Tensor(placeholder((8, 12, 3, 3), wg.float32)), (0, 2, 3, 1)),
        "long": wg.permute_dims(wg.Tensor(placeholder((8, 16, 4, 4), wg.float32)), (0, 2, 3, 1)),
    }
    for name, result in others.items():
        for kernel in CudaGraph(Graph([x, y], [result.node], 0)).kernels:
            assert transpose_signature(kernel) is None, name


def test_transpositions_of_different_texts_are_not_one_launch() -> None:
    graphs = [channels_last([(8, 16, side, side)], wg.float32, wg.float32) for side in (2, 3)]
    with pytest.raises(ValueError, match="different texts"):
        write_multi_transpose([CudaGraph(graph).kernels[0] for graph in graphs], H200)


def test_it_compiles() -> None:
    pytest.importorskip("cuda.bindings.nvrtc", reason="compiling CUDA needs the cuda extra")
    work = write_multi_transpose(CudaGraph(channels_last(SHAPES, wg.float32, wg.bfloat16)).kernels, H200)
    assert cubin(work.launches[0].source, "90a")
