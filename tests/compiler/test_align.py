"""Large products on a GPU are computed on aligned rows: the same values, and no value is stored twice."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import wengert as wg
from tests.backends.emulated import IdleDriver, install
from wengert.compiler import align as module
from wengert.compiler.align import align
from wengert.compiler.cleanup import dce
from wengert.compiler.passes import optimize, verify
from wengert.core.graph import Graph, Node
from wengert.ops.core import placeholder

GPU = "cuda:0"
Function = Callable[..., wg.Tensor]


@pytest.fixture(autouse=True)
def everything_pays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small products are padded too; nothing runs on the GPU that values are said to be on."""
    install(monkeypatch, IdleDriver(), GPU)
    monkeypatch.setattr(module, "WORTH", 0)
    monkeypatch.setattr(module, "SHORTEST", 1)


def graph_of(function: Function, *shapes: tuple[int, ...], device: str = GPU) -> Graph:
    """What a function records for bfloat16 operands of these shapes."""
    inputs = [placeholder(shape, wg.bfloat16, device) for shape in shapes]
    return Graph(inputs, [function(*map(wg.Tensor, inputs)).node])


def same(graph: Graph) -> Graph:
    """The aligned graph, which computes the same."""
    rng = np.random.default_rng(0)
    arrays = [np.abs(rng.normal(size=node.shape)).astype(node.dtype) for node in graph.inputs]
    aligned = dce(align(graph))
    verify(aligned, "align", graph)
    for want, found in zip(graph(*arrays), aligned(*arrays)):
        np.testing.assert_allclose(found.astype(np.float64), want.astype(np.float64), rtol=0.02, atol=1e-6)
    return aligned


def products(graph: Graph) -> list[Node]:
    return [node for node in graph.nodes if node.op.name == "matmul"]


def is_aligned(product: Node) -> bool:
    return all(n % 8 == 0 for node in (*product.sources, product) for n in node.shape[-2:])


@pytest.mark.parametrize(
    ("function", "shapes"),
    [
        (lambda x, w: x @ w, ((16, 8), (8, 13))),
        (lambda x, w: x @ w.mT, ((16, 8), (13, 8))),
        (lambda x, w: x @ w, ((16, 13), (13, 8))),
        (lambda x, w: x.mT @ w, ((8, 13), (8, 16))),
        (lambda x, w: x.mT @ w.mT, ((9, 13), (11, 9))),
        (lambda x, w: x @ w, ((2, 3, 16, 9), (9, 13))),
        (lambda x, w: x @ w, ((5, 16, 9), (5, 9, 13))),
        (lambda x, w, b: wg.relu(x @ w + b), ((16, 8), (8, 13), (13,))),
        (lambda x, w: wg.max(x @ w, axis=1), ((16, 8), (8, 13))),
        (lambda x, w: wg.min(x @ w, axis=0), ((16, 8), (8, 13))),
        (lambda x, w: wg.exp(x @ w).sum(axis=1, keepdims=True) * wg.log(wg.abs(x @ w)), ((16, 8), (8, 13))),
        (lambda x, w: wg.softmax((x @ w).astype(wg.float32)), ((16, 8), (8, 13))),
        (lambda x, w, v: wg.exp(x @ w) @ v, ((16, 8), (8, 13), (13, 8))),
        (lambda x, w, v: ((x @ w).reshape((2, 8, 13)) * 2).mT @ v, ((16, 8), (8, 13), (8, 8))),
        (lambda x, w, y: (x @ w) * y, ((16, 8), (8, 13), (16, 13))),
        (lambda x, w: (x @ w).reshape((13, 16)) + 1, ((16, 8), (8, 13))),
        (lambda x, w: (x @ w)[:, 2:9], ((16, 8), (8, 13))),
        (lambda x, w, v: wg.exp(x @ w).sum() + wg.exp(x @ v).sum(), ((16, 8), (8, 13), (8, 21))),
        (lambda x, w: wg.max((x @ w > 1.0).astype(wg.int32), axis=1), ((16, 8), (8, 13))),
        (lambda x, w: wg.exp(x.reshape((16, 64))[:, :13]) @ w, ((8, 128), (13, 8))),
    ],
)
def test_padded_products_compute_the_same(function: Function, shapes: tuple[tuple[int, ...], ...]) -> None:
    found = products(same(graph_of(function, *shapes)))
    assert found and all(map(is_aligned, found))


def test_nothing_is_padded_off_a_gpu_or_where_all_is_aligned() -> None:
    for graph in (
        graph_of(lambda x, w: x @ w, (16, 8), (8, 13), device="cpu"),
        graph_of(lambda x, w: x @ w, (7, 8), (8, 16)),
    ):
        assert align(graph) is graph


def test_small_products_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = graph_of(lambda x, w: x @ w, (256, 256), (256, 1001))
    monkeypatch.setattr(module, "WORTH", 1 << 30)
    assert align(graph) is graph


def test_a_gradient_is_stored_once_with_its_zeros() -> None:
    """Cross-entropy of a vocabulary that is not aligned: one padded copy of the weight, one of the gradient."""
    x, w = (placeholder(shape, wg.bfloat16, GPU) for shape in ((16, 8), (13, 8)))
    targets = placeholder((16,), wg.int64, GPU)

    def loss(x: wg.Tensor, w: wg.Tensor) -> wg.Tensor:
        return wg.cross_entropy((x @ w.mT).astype(wg.float32), wg.Tensor(targets))

    value, gradients = wg.value_and_grad(loss, argnums=(0, 1))(wg.Tensor(x), wg.Tensor(w))
    graph = Graph([x, w, targets], [value.node, *[gradient.node for gradient in gradients]])
    aligned = same(optimize(graph, off=("align", "remat"))[0])
    found = products(aligned)
    assert len(found) == 3 and all(map(is_aligned, found))
    stored = {base(source) for product in found for source in product.sources}
    assert len([node for node in stored if 64 in node.shape]) == 2
    assert not [node for node in aligned.nodes if node.shape == (16, 13)]


def base(node: Node) -> Node:
    while node.op.name in ("permute_dims", "reshape"):
        node = node.sources[0]
    return node
