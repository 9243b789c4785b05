"""Layout of convolutions over one to three axes, in groups, dilated, strided, transposed, and with padded inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.compiler.test_layout import assert_means_the_same, gradients, laid_out, names, recorded
from wengert.compiler.cleanup import dce
from wengert.compiler.layout import layout
from wengert.compiler.passes import optimize, verify
from wengert.core.graph import Graph

CONVOLUTIONS = {1: wg.conv1d, 2: wg.conv2d, 3: wg.conv3d}
TRANSPOSED = {1: wg.conv_transpose1d, 2: wg.conv_transpose2d, 3: wg.conv_transpose3d}


def in_float32(graph: Graph) -> Graph:
    """The graph after the pass, without what nobody reads; float32 is float32."""
    return dce(verify(layout(graph), "layout", graph))


def drawn(seed: int) -> tuple[Callable[..., Any], tuple[tuple[int, ...], ...]]:
    """A stack of random convolutions with what stands between them, and the shapes of what it takes."""
    rng = np.random.default_rng(seed)
    axes = int(rng.integers(1, 4))
    groups, ins, outs = [(1, 8, 12), (1, 3, 8), (8, 8, 8), (8, 8, 16), (2, 8, 8), (2, 8, 16), (4, 8, 12)][
        int(rng.integers(7))
    ]
    kernel = tuple(int(n) for n in rng.integers(1, 4, axes))
    stride, dilation = (tuple(int(n) for n in rng.integers(1, 3, axes)) for _ in range(2))
    sizes = tuple(int(n) for n in rng.integers(7, 11, axes))
    padding = tuple(int(n) for n in rng.integers(0, 2, axes))
    ahead = [int(n) for n in rng.integers(0, 4, 2 * axes)]
    transposed, padded = bool(rng.integers(2)), bool(rng.integers(2))

    def function(x: Any, w: Any, u: Any, gain: Any) -> Any:
        if padded:
            x = wg.pad(x, ahead)
        y = CONVOLUTIONS[axes](x, w, None, stride, padding, dilation, groups)
        y = wg.relu(y * gain.reshape(1, -1, *(1,) * axes)) + y
        y = TRANSPOSED[axes](y, u, None, 2, 1, 1, groups) if transposed else CONVOLUTIONS[axes](y, u, None, 1, 1)
        return (wg.tanh(y) ** 2).mean()

    more = (outs, ins // groups) if transposed else (5, outs)
    shapes = ((2, ins, *sizes), (outs, ins // groups, *kernel), (*more, *(3,) * axes), (outs,))
    return function, shapes


@pytest.mark.parametrize("seed", range(40))
def test_random_stacks_and_their_gradients(seed: int) -> None:
    function, shapes = drawn(seed)
    graph, _ = optimize(recorded(gradients(function), *shapes))
    for after in (laid_out(graph), in_float32(graph)):
        assert_means_the_same(graph, after)


def causal(x: Any, w: Any) -> Any:
    """Two dilated convolutions of padded values; what is added goes around them."""
    for gap in (2, 4):
        x = x + wg.conv1d(wg.pad(x, (gap, 0)), w, dilation=gap)
    return (wg.tanh(x) ** 2).sum()


def test_zeros_around_the_input_of_a_causal_convolution_are_its_padding() -> None:
    graph, _ = optimize(recorded(gradients(causal), (2, 8, 16), (8, 8, 2)))
    after = in_float32(graph)
    assert_means_the_same(graph, after)
    assert not {"place", "slice"} & set(names(after)) and not any(name == "convolve" for name in names(after))
    made = [node.attrs["padding"] for node in after.nodes if node.op.name.startswith("convolve")]
    assert sorted(made) == [((2, 0),)] * 3 + [((4, 0),)] * 3


def test_a_gradient_that_is_read_whole_stays_whole() -> None:
    def function(y: Any, w: Any) -> Any:
        whole = wg.conv_transpose1d(y, w)
        return [whole[:, :, 1:-1] * 2, whole * 3]

    graph, _ = optimize(recorded(function, (2, 8, 9), (8, 8, 3)))
    after = in_float32(graph)
    assert_means_the_same(graph, after)
    assert [node.attrs["sizes"] for node in after.nodes if node.op.name == "convolve_input_last"] == [(11,)]


def test_depthwise_convolutions_and_products_between_them_in_plain_float32() -> None:
    def function(x: Any, whole: Any, apart: Any, mixed: Any) -> Any:
        x = wg.conv2d(x, whole, padding=1)
        x = wg.conv2d(wg.relu(wg.conv2d(x, apart, padding=1, groups=8)), mixed)
        return (wg.conv2d(wg.relu(x), apart, groups=8) ** 2).sum()

    graph, _ = optimize(recorded(gradients(function), (2, 4, 6, 7), (8, 4, 3, 3), (8, 1, 3, 3), (8, 8, 1, 1)))
    after = in_float32(graph)
    assert_means_the_same(graph, after)
    assert names(after).count("convolve") == 1 and names(after).count("convolve_last") == 2
    turned = [node for node in after.nodes if node.op.name == "permute_dims" and node.ndim == 4 and node.shape[0] == 2]
    assert len(turned) == 2  # what the first convolution makes, and its cotangent
