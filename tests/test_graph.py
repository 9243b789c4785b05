"""Graphs: walking, printing as Python that runs, locations; and what errors tell."""

from __future__ import annotations

import numpy as np
import pytest

import wengert as wg
from wengert.core.code import describe, source_line
from wengert.core.graph import Graph, ancestors
from wengert.ops import registry


def test_serials_are_a_topological_order():
    x = wg.tensor(np.ones((2, 2)), requires_grad=True)
    y = wg.exp(x @ x) * x.sum()
    order = ancestors([y.node])
    position = {node: i for i, node in enumerate(order)}
    assert all(position[s] < position[node] for node in order for s in node.sources)


def test_a_graph_prints_as_python_that_runs():
    w = wg.tensor(np.arange(6.0).reshape(2, 3))
    x = wg.tensor(np.ones((4, 2)))
    y = (wg.tanh(x @ w) * 2.0).sum(axis=1)
    graph = Graph([x.node, w.node], [y.node], since=0)
    text = str(graph)
    assert "test_graph.py" in text and "wg.tanh(x @ w)" in text and "float64[4, 3]" in text
    scope = {"ops": registry, "wg": wg}
    exec(text, scope)
    again = scope["graph"](x.node, w.node, *graph.captured())
    np.testing.assert_array_equal(wg.Tensor(again).numpy(), y.numpy())


def test_nodes_know_the_users_line():
    y = wg.exp(wg.tensor(1.0))  # the line
    assert describe(y.node.location).startswith("test_graph.py:")
    assert source_line(y.node.location).endswith("# the line")


def test_gradient_nodes_know_the_forward_line():
    g = wg.grad(lambda x: wg.exp(x) * 2.0)(1.0)
    described = {describe(node.location) for node in ancestors([g.node])}
    assert any(text.startswith("backward of exp at test_graph.py:") for text in described)


def boom(call):
    with pytest.raises(wg.errors.WengertError) as caught:
        call()
    return str(caught.value)


A, B = wg.ones((2, 3)), wg.ones((4, 5))


@pytest.mark.parametrize(
    ("call", "parts"),
    [
        (lambda: A + B, ["add", "(2, 3)", "(4, 5)", "expand_dims"]),
        (lambda: A @ B, ["matmul", "(2, 3)", "(4, 5)"]),
        (lambda: A @ wg.ones((4, 3)), ["b.mT would fit"]),
        (lambda: A.sum(axis=2), ["sum", "axis 2", "-2 to 1"]),
        (lambda: A.reshape(4, 2), ["reshape", "6 elements", "8"]),
        (lambda: A.permute_dims(0, 0), ["permute_dims", "once"]),
        (lambda: wg.concat([A, B]), ["concat", "(2, 3)", "(4, 5)"]),
        (lambda: wg.stack([A, B]), ["stack", "concat joins"]),
        (lambda: wg.broadcast_to(A, (3, 2)), ["broadcast_to", "(3, 2)"]),
        (lambda: wg.squeeze(A, axis=0), ["squeeze", "2 elements"]),
        (lambda: wg.ones((0, 3)).max(axis=0), ["max", "no elements"]),
        (lambda: A.sum(axis="x"), ["an axis must be an integer", "'x'"]),
        (lambda: A & A, ["bitwise_and", "float32"]),
        (lambda: wg.tensor([1], dtype=wg.uint64) + wg.tensor([1]), ["uint64", "int64", "astype"]),
        (lambda: wg.tensor([1], dtype=wg.uint8) + 300, ["300", "uint8"]),
        (lambda: A.sum(axis=(0, 0)), ["twice"]),
    ],
)
def test_errors_name_the_op_the_values_and_the_users_line(call, parts):
    message = boom(call)
    for part in [*parts, "test_graph.py:"]:
        assert part in message
