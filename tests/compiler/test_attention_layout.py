"""Attention on a GPU reads and writes heads where they lie: the same values, without the copies."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import wengert as wg
from tests.backends.emulated import IdleDriver, install
from wengert.compiler.attention_layout import attention_layout
from wengert.compiler.cleanup import dce
from wengert.compiler.passes import optimize, verify
from wengert.core.graph import Graph
from wengert.ops.core import placeholder

GPU = "cuda:0"


@pytest.fixture(autouse=True)
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values are said to be on a GPU; nothing runs there."""
    install(monkeypatch, IdleDriver(), GPU)


def by_head(x: wg.Tensor) -> wg.Tensor:
    return wg.swapaxes(x.reshape((2, 6, 3, 4)), 1, 2)


def attend(qkv: wg.Tensor) -> wg.Tensor:
    """What a model does: one value for all heads in, and out."""
    with wg.autocast(wg.bfloat16):
        q, k, v = (by_head(part) for part in wg.chunk(qkv, 3, axis=-1))
        y = wg.scaled_dot_product_attention(q, k, v, is_causal=True)
    return wg.swapaxes(y, 1, 2).reshape((2, 6, 12))


def step(qkv: wg.Tensor, g: wg.Tensor) -> tuple[wg.Tensor, ...]:
    y, pullback = wg.vjp(attend, qkv)
    (gradient,) = pullback(g)
    return y, gradient, gradient.sum((0, 1))


def optimized(function: Callable[..., tuple[wg.Tensor, ...]], device: str) -> tuple[Graph, Graph]:
    """The graph without and with the pass."""
    inputs = [
        placeholder(shape, dtype, device) for shape, dtype in (((2, 6, 36), wg.float32), ((2, 6, 12), wg.bfloat16))
    ]
    graph = Graph(inputs, [y.node for y in function(*map(wg.Tensor, inputs))])
    return optimize(graph, off={"attention_layout"})[0], optimize(graph)[0]


def names(graph: Graph) -> list[str]:
    return [node.op.name for node in graph.nodes]


def check_same(before: Graph, after: Graph) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=node.shape).astype(node.dtype) for node in before.inputs]
    for want, found in zip(before(*arrays), after(*arrays)):
        np.testing.assert_allclose(found.astype(np.float64), want.astype(np.float64), rtol=0.02, atol=0.02)


def test_heads_are_read_and_written_in_place() -> None:
    before, after = optimized(step, GPU)
    check_same(before, after)
    attentions = [node for node in after.nodes if node.op.name.startswith("attention")]
    assert all("joined" in node.attrs for node in attentions) and len(attentions) == 2
    assert "place" not in names(after) and names(before).count("place") == 3
    casts = [node for node in after.nodes if node.op.name == "cast" and node.shape == (2, 6, 36)]
    assert len([node for node in casts if node.dtype == wg.bfloat16]) == 1


def test_a_result_that_is_read_by_head_stays_so() -> None:
    def function(qkv: wg.Tensor, g: wg.Tensor) -> tuple[wg.Tensor, ...]:
        q, k, v = (by_head(part) for part in wg.chunk(qkv, 3, axis=-1))
        y = wg.scaled_dot_product_attention(q, k, v)
        return wg.swapaxes(y, 1, 2), y * 2

    before, after = optimized(function, GPU)
    check_same(before, after)
    assert not any("joined" in node.attrs for node in after.nodes)


def test_cotangents_that_are_read_one_by_one_stay_so() -> None:
    def function(qkv: wg.Tensor, g: wg.Tensor) -> tuple[wg.Tensor, ...]:
        parts = [by_head(part) for part in wg.chunk(qkv.astype(wg.bfloat16), 3, axis=-1)]
        _, pullback = wg.vjp(wg.scaled_dot_product_attention, *parts)
        return pullback(wg.swapaxes(g.reshape((2, 6, 3, 4)), 1, 2))

    before, after = optimized(function, GPU)
    check_same(before, after)
    assert not any("joined" in node.attrs for node in after.nodes)


def test_heads_that_share_keys_and_values() -> None:
    """The cotangents of queries, keys and values differ in shape, so they are not joined."""

    def shared(qkv: wg.Tensor) -> wg.Tensor:
        q, k, v = qkv[:, :, :24], qkv[:, :, 24:30], qkv[:, :, 30:]
        q, k, v = (wg.swapaxes(x.reshape((2, 6, -1, 6)), 1, 2) for x in (q, k, v))
        y = wg.scaled_dot_product_attention(q, k, v, enable_gqa=True)
        return wg.swapaxes(y, 1, 2).reshape((2, 6, 24))

    def function(qkv: wg.Tensor, g: wg.Tensor) -> tuple[wg.Tensor, ...]:
        y, pullback = wg.vjp(shared, qkv)
        return y, *pullback(wg.concat([g, g], axis=-1).astype(wg.float32))

    check_same(*optimized(function, GPU))


def test_off_a_gpu_nothing_changes() -> None:
    inputs = [placeholder((2, 6, 36), wg.float32), placeholder((2, 6, 12), wg.bfloat16)]
    graph = Graph(inputs, [y.node for y in step(*map(wg.Tensor, inputs))])
    assert attention_layout(graph) is graph


def test_with_fuel_for_some_of_it_the_graph_is_right() -> None:
    inputs = [placeholder((2, 6, 36), wg.float32, GPU), placeholder((2, 6, 12), wg.bfloat16, GPU)]
    graph = dce(Graph(inputs, [y.node for y in step(*map(wg.Tensor, inputs))]))
    for fuel in range(5):
        after, _ = optimize(graph, [attention_layout], fuel=fuel)
        verify(after, "attention_layout", graph)
        check_same(graph, after)
