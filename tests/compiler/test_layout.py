"""Layout: convolutions on a GPU have their channels last, and the graph still means what it meant."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.compiler.cleanup import dce
from wengert.compiler.layout import layout
from wengert.compiler.passes import optimize, verify
from wengert.compiler.rewrite import limited
from wengert.core.devices import Target
from wengert.core.graph import Graph, now
from wengert.ops.core import placeholder

GPU = "cuda:0"


def recorded(function: Callable[..., Any], *shapes: tuple[int, ...], dtype: Any = wg.float32) -> Graph:
    """What a function records over values on a GPU that is not needed for it."""
    since = now()
    inputs = [placeholder(shape, dtype, GPU) for shape in shapes]
    outputs = function(*map(wg.Tensor, inputs))
    nodes = [out.node for out in (outputs if isinstance(outputs, (list, tuple)) else [outputs])]
    return Graph(inputs, nodes, since)


def laid_out(graph: Graph) -> Graph:
    """The graph after the pass, float32 by tensor cores, without what nobody reads."""
    return dce(verify(layout(graph, Target(tf32=True)), "layout", graph))


def names(graph: Graph) -> list[str]:
    return [node.op.name for node in graph.nodes]


def assert_means_the_same(graph: Graph, after: Graph) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=node.shape).astype(node.dtype) for node in graph.inputs]
    for want, got in zip(graph(*arrays), after(*arrays)):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def gradients(function: Callable[..., Any]) -> Callable[..., Any]:
    """The value of a function and its gradients with respect to all inputs."""
    return lambda *xs: (lambda y, g: [y, *g])(*wg.value_and_grad(function, argnums=tuple(range(len(xs))))(*xs))


def block(x: Any, stem: Any, first: Any, second: Any, gain: Any, bias: Any) -> Any:
    """A stem with a pool, and a residual block with normalisation."""
    x = wg.relu(wg.batch_norm(wg.conv2d(x, stem, stride=2, padding=3), None, None, gain, bias, training=True))
    x = wg.max_pool2d(x, 3, 2, 1)
    y = wg.relu(wg.batch_norm(wg.conv2d(x, first, padding=1), None, None, gain, bias, training=True))
    y = wg.batch_norm(wg.conv2d(y, second, padding=1), None, None, gain, bias, training=True)
    return (wg.relu(x + y).mean((2, 3)) ** 2).sum()


SHAPES = ((8, 3, 7, 7), (8, 8, 3, 3), (8, 8, 3, 3), (8,), (8,))


@pytest.mark.parametrize("sizes", [(18, 16), (17, 16)])  # folded by twos, and not
def test_a_residual_block_and_its_gradients(sizes: tuple[int, int]) -> None:
    weights = gradients(lambda x, *weights: block(wg.stop_gradient(x), *weights))
    graph, _ = optimize(recorded(weights, (2, 3, *sizes), *SHAPES))
    after = laid_out(graph)
    assert_means_the_same(graph, after)
    assert not {"convolve", "convolve_input", "convolve_weight", "max_pool", "add_along"} & set(names(after))
    turns = [node for node in after.nodes if node.op.name == "permute_dims" and node.ndim == 4]
    between = [node for node in turns if node.sources[0] not in graph.inputs and node not in after.outputs]
    assert not between, "values are permuted between convolutions"
    stem = next(node for node in after.nodes if node.op.name == "convolve_last")
    assert stem.sources[1].shape == ((8, 4, 4, 12) if sizes == (18, 16) else (8, 7, 7, 4))


@pytest.mark.parametrize(
    "function",
    [
        lambda x, w: wg.conv2d(x, w).sum(3),  # axes left in another order
        lambda x, w: wg.conv2d(x, w).max((1,), keepdims=True),
        lambda x, w: wg.conv2d(x, w) * x[0, 0, 0, :5],  # broadcasts along the last axis
        lambda x, w: wg.conv2d(x, w) + x[:, :, :4, :5],  # a value that comes channels first
        lambda x, w: wg.pad(wg.conv2d(x, w), (0, 3, 2, 0, 1, 0)),
        lambda x, w: wg.concat([wg.conv2d(x, w), x[:, :, :4, :5]], axis=1),
        lambda x, w: wg.flip(wg.conv2d(x, w)[:, ::2, 1:], axis=(1, 3)),
        lambda x, w: wg.broadcast_to(wg.conv2d(x, w).sum(1, keepdims=True), (2, 7, 4, 5)) * 2,
        lambda x, w: wg.broadcast_to(wg.conv2d(x, w), (3, 2, 4, 4, 5)) * 2,
        lambda x, w: wg.avg_pool2d(wg.conv2d(x, w), 2, padding=1),
        lambda x, w: wg.max_pool2d(wg.conv2d(x, w), 2, return_indices=True),
        lambda x, w: wg.conv2d(x, w).reshape(2, -1) @ x.reshape(84, 4)[:80],
        lambda x, w: wg.conv_transpose2d(wg.conv2d(x, w), w),
        lambda x, w: wg.conv2d(wg.relu(wg.conv2d(x, w, padding=1)), w),
        lambda x, w: wg.conv2d(x, w[:, :2], groups=2) * 2,  # stays
        lambda x, w: wg.conv2d(x[:, :1], w[:, :1], padding=1),  # folded
        lambda x, w: wg.conv2d(x[:, :3, :, 1:], w[:, :3], stride=2),
        lambda x, w: wg.conv2d(x[:, :1, :, 1:], w[:, :1], stride=(3, 2), padding=(1, 2)),
        lambda x, w: wg.conv2d(x[:, :3], w[:, :3], dilation=2),
        lambda x, w: wg.conv2d(x[:, :3, :, 1:], w[:, :3], stride=3),  # patches
    ],
)
def test_ops_on_what_convolutions_make(function: Callable[..., Any]) -> None:
    graph, _ = optimize(recorded(function, (2, 4, 6, 7), (4, 4, 3, 3)))
    assert_means_the_same(graph, laid_out(graph))


def test_a_pool_of_windows_apart_is_computed_with_its_value() -> None:
    """The first of equals has the derivative; what is not a number counts as larger."""
    pool = lambda x, w: wg.max_pool2d(wg.relu(wg.conv2d(x, w, padding=1)), 2)
    graph, _ = optimize(recorded(gradients(lambda x, w: (pool(x, w) ** 2).sum()), (2, 4, 7, 6), (4, 4, 3, 3)))
    after = laid_out(graph)
    assert_means_the_same(graph, after)
    assert "max_pool_last" not in names(after) and "max_pool_back_last" in names(after)
    graph, _ = optimize(recorded(pool, (1, 4, 7, 6), (4, 4, 3, 3)))
    x = np.random.default_rng(0).normal(size=(1, 4, 7, 6)).astype(np.float32)
    x[0, 0, 2, 3] = np.nan
    weight = np.ones((4, 4, 3, 3), np.float32)
    np.testing.assert_allclose(laid_out(graph)(x, weight)[0], graph(x, weight)[0], rtol=1e-5)


@pytest.mark.parametrize("stride", [1, 2])
def test_a_kernel_of_one_element_is_a_product(stride: int) -> None:
    function = gradients(lambda x, w: (wg.conv2d(x, w, stride=stride) ** 2).sum())
    graph, _ = optimize(recorded(function, (2, 8, 6, 7), (4, 8, 1, 1)))
    after = laid_out(graph)
    assert_means_the_same(graph, after)
    assert names(after).count("matmul") == 3 and not any("convolve" in name for name in names(after))
    assert names(after).count("slice") == stride - 1  # for the value and for the gradient of the weight


@pytest.mark.parametrize("padding", [0, 1, (2, 1)])
def test_the_gradient_by_a_narrow_input_is_a_convolution_of_the_cotangent(padding: Any) -> None:
    def function(x: Any, w: Any) -> Any:
        return wg.grad(lambda x: (wg.conv2d(x, w, padding=padding) * 2).sum())(x)

    graph, _ = optimize(recorded(function, (2, 8, 6, 7), (16, 8, 3, 3), dtype=wg.bfloat16))
    after = laid_out(graph)
    assert "convolve_last" in names(after) and "convolve_input_last" not in names(after)
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-2, 3, node.shape).astype(node.dtype) for node in graph.inputs]  # sums are exact
    np.testing.assert_array_equal(after(*arrays)[0].astype("f"), graph(*arrays)[0].astype("f"))


def test_three_axes_of_space() -> None:
    function = gradients(lambda x, w: (wg.relu(wg.conv3d(x, w, padding=1)) ** 2).mean())
    graph, _ = optimize(recorded(function, (2, 3, 4, 5, 6), (4, 3, 3, 3, 3)))
    after = laid_out(graph)
    assert "convolve_last" in names(after) and "convolve_weight_last" in names(after)
    assert_means_the_same(graph, after)


def test_what_tensor_cores_do_not_take_stays() -> None:
    def function(x: Any, w: Any) -> Any:
        return wg.conv2d(x, w)

    graph = recorded(function, (2, 4, 6, 7), (4, 4, 3, 3))
    assert layout(graph) is graph  # float32 is float32
    assert layout(recorded(function, (2, 4, 6, 7), (4, 4, 3, 3), dtype=wg.float64)).nodes[-1].op.name == "convolve"
    halves = recorded(function, (2, 4, 6, 7), (4, 4, 3, 3), dtype=wg.bfloat16)
    assert "convolve_last" in names(layout(halves))
    on_cpu = wg.compile(function)
    on_cpu(wg.zeros((2, 4, 6, 7), dtype=wg.bfloat16), wg.zeros((4, 4, 3, 3), dtype=wg.bfloat16))
    assert "convolve_last" not in on_cpu.explain("layout")


def test_fuel_limits_how_many_convolutions_are_turned() -> None:
    graph = recorded(lambda x, w: wg.conv2d(wg.conv2d(x, w), w), (2, 4, 6, 7), (4, 4, 3, 3), dtype=wg.bfloat16)
    with limited(1):
        assert names(layout(graph)).count("convolve_last") == 1
