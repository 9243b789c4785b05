"""Fused groups: how many kernels the usual building blocks become; one-hot comparisons are what they replace."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.autodiff.reverse import reverse
from wengert.backends.cpu import program as cpu
from wengert.backends.cpu.toolchain import compiler
from wengert.compiler.memory import stored_values
from wengert.compiler.passes import optimize
from wengert.core.graph import Graph, now
from wengert.kernels import c_ops
from wengert.kernels.c import write
from wengert.kernels.ir.index import ZERO, Loop
from wengert.kernels.ir.loops import LoopKernel, Position, Stage
from wengert.ops.core import cast, placeholder, recompute_barrier
from wengert.ops.reduce import SUM
from wengert.plan.fuse import grouped
from wengert.plan.groups import FusionGroup
from wengert.plan.launches import regions
from wengert.plan.lowering import inlines
from wengert.plan.plan import CCode, Step

ROWS = (64, 256)
IMAGES = (8, 16, 10, 10)
needs_compiler = pytest.mark.skipif(compiler() is None, reason="there is no C compiler to build kernels with")


def graph_of(function: Callable[..., Any], *shapes: Any) -> Graph:
    """The optimised graph of a function of float32 values (and int64 ones, for shapes given as lists)."""
    since = now()
    inputs = [placeholder(tuple(s), wg.int64 if isinstance(s, list) else wg.float32) for s in shapes]
    results = function(*map(wg.Tensor, inputs))
    outputs = [one.node for one in (results if isinstance(results, (list, tuple)) else [results])]
    return optimize(Graph(inputs, outputs, since))[0]


def groups(function: Callable[..., Any], *shapes: Any) -> list[FusionGroup]:
    """The groups that a function is fused into."""
    return grouped(graph_of(function, *shapes), inlines, c_ops.operands).groups


def backward(function: Callable[..., Any]) -> Callable[..., Any]:
    """The gradients of a function by its arguments, from those and a cotangent."""

    def pulled(*values: Any) -> list[Any]:
        *xs, g = values
        found = reverse([function(*xs).node], [g.node], [x.node for x in xs])
        return [wg.Tensor(node) for node in found if node is not None]

    return pulled


def softmax(x: Any) -> Any:
    return wg.softmax(x, axis=-1)


def layernorm(x: Any, scale: Any, shift: Any) -> Any:
    return wg.layer_norm(x, (256,), scale, shift)


def batchnorm(x: Any, scale: Any, shift: Any) -> Any:
    return wg.batch_norm(x, None, None, scale, shift, training=True)


def cross_entropy(x: Any, targets: Any, **settings: Any) -> Any:
    loss = wg.cross_entropy(x, targets, **settings)
    return [loss, *[wg.Tensor(node) for node in reverse([loss.node], [wg.ones(()).node], [x.node])]]


def test_softmax_is_one_kernel_and_one_back() -> None:
    assert len(groups(softmax, ROWS)) == 1
    assert len(groups(backward(softmax), ROWS, ROWS)) == 1


def test_layernorm_is_one_kernel_and_two_back() -> None:
    """The second: the gradients of scale and shift are sums down the columns."""
    assert len(groups(layernorm, ROWS, (256,), (256,))) == 1
    assert len(groups(backward(layernorm), ROWS, (256,), (256,), ROWS)) == 2


def test_batchnorm_is_one_kernel_and_one_back() -> None:
    assert len(groups(batchnorm, IMAGES, (16,), (16,))) == 1
    assert len(groups(backward(batchnorm), IMAGES, (16,), (16,), IMAGES)) == 1


@needs_compiler
def test_sums_over_images_work_along_memory() -> None:
    """Not across channels, which lie apart: what is read once a channel has no say in it."""

    def standardized(x: Any, *per_channel: Any) -> Any:
        for one in per_channel:
            x = x * one
        return x - x.mean((0, 2, 3), keepdims=True)

    source = cpu.build(graph_of(standardized, IMAGES, *[(16, 1, 1)] * 5)).source
    assert "for (long i1 = 0; i1 < 16; i1++)" in source and "_lanes" not in source


@pytest.mark.parametrize("settings", [{}, {"label_smoothing": 0.1}])
def test_cross_entropy_with_gradient_is_two_kernels(settings: dict[str, Any]) -> None:
    """How many rows count; then row by row both ways, and the sum over the rows."""
    count, rows = groups(partial(cross_entropy, **settings), ROWS, [64])
    assert (count.space, rows.space) == ((64,), ROWS)
    assert rows.final_reduction is not None and rows.final_reduction.space == (64,)


@needs_compiler
def test_a_total_may_read_a_number_a_row_again() -> None:
    """`checkpoint` has the backward pass read it behind a barrier: it is stored, by the step that reads it."""

    def function(x: Any, y: Any, z: Any) -> Any:
        row = wg.min(x, axis=1) + y
        again = wg.Tensor(recompute_barrier(row.node))
        return wg.tanh(again) + y / wg.sqrt(z.sum(axis=0, keepdims=True))

    shapes = ((16, 16), (16,), (16,))
    rows = next(group for group in groups(function, *shapes) if group.final_reduction is not None)
    assert "add" in [root.op.name for root in rows.stored]
    graph = graph_of(function, *shapes)
    arrays = [np.random.default_rng(0).random(shape, "float32") + 0.1 for shape in shapes]
    np.testing.assert_allclose(cpu.build(graph)(arrays)[0], graph(*arrays)[0], rtol=1e-5)


@pytest.mark.parametrize("settings", [{"ignore_index": None}, {"reduction": "sum"}])
def test_cross_entropy_that_does_not_count_rows_is_one_kernel(settings: dict[str, Any]) -> None:
    assert [group.space for group in groups(partial(cross_entropy, **settings), ROWS, [64])] == [ROWS]


def test_cross_entropy_with_class_weights_passes_over_the_scores_once() -> None:
    """The weights of the targets are gathered and added up before."""

    def weighted(x: Any, targets: Any, weight: Any) -> Any:
        return cross_entropy(x, targets, weight=weight)

    *before, rows = groups(weighted, ROWS, [64], (256,))
    assert rows.space == ROWS and ROWS not in [group.space for group in before]


@needs_compiler
def test_sums_across_one_hot_rows_are_sums() -> None:
    """Along them they are the one value of each; the shape does not tell the two apart."""

    def sums(x: Any, index: Any, g: Any) -> Any:
        logs = wg.log_softmax(x, axis=1)
        picked = wg.take_along_axis(logs, index, axis=1)
        (laid,) = map(wg.Tensor, reverse([picked.node], [g.node], [logs.node]))
        return [picked, laid.sum(axis=0), laid.sum(axis=1)]

    graph = graph_of(sums, (3, 3), [3, 1], (3, 1))
    x, index, g = np.zeros((3, 3), np.float32), np.array([[2], [2], [0]]), np.array([[1], [2], [4]], np.float32)
    _, across, along = cpu.build(graph)([x, index, g])
    assert across.tolist() == [4, 0, 3] and along.tolist() == [1, 2, 4]


@needs_compiler
def test_adam_over_sixty_parameters_is_one_parallel_region() -> None:
    """Large updates are shared among the threads, small ones left to one each; what all need is computed before."""
    rng = np.random.default_rng(0)
    shapes = [(200 + i, 300) if i % 2 else (50 + i,) for i in range(60)]
    start = [rng.normal(size=shape).astype(np.float32) for shape in shapes]
    gradients = [rng.normal(size=shape).astype(np.float32) for shape in shapes]

    def trained(compiled: bool) -> tuple[list[np.ndarray], Any]:
        parameters = [wg.nn.Parameter(array.copy()) for array in start]
        optimizer = wg.optim.Adam(parameters, lr=0.01)

        def step(*gradients: wg.Tensor) -> None:
            for parameter, gradient in zip(parameters, gradients):
                parameter.grad = gradient
            optimizer.step()
            optimizer.zero_grad()

        run = wg.compile(step) if compiled else step
        for _ in range(3):
            run(*map(wg.tensor, gradients))
        return [parameter.detach().numpy() for parameter in parameters], run

    found, run = trained(compiled=True)
    program = run._latest[1].program
    assert sorted(map(len, program.regions)) == [1, 60]  # the one is of 0-d values: the step's size
    for array, expected in zip(found, trained(compiled=False)[0]):
        np.testing.assert_allclose(array, expected, rtol=1e-5, atol=1e-6)


def test_loops_that_depend_on_each_other_are_no_region() -> None:
    loops = write(LoopKernel("", [Loop("i", 1 << 20)], [], [Stage([], [Position("v", wg.int64, ZERO)])], [], {}))
    a, b, c, d = (placeholder((2,), wg.float32) for _ in range(4))

    def step(reads: list[Any], writes: list[Any]) -> Step:
        return Step((CCode("kernel0();", loops),), reads, writes)

    def sizes(steps: list[Step], taken: Any = ()) -> list[int]:
        return [len(region) for region in regions(steps, dict(taken), dict(taken))]

    assert sizes([step([a], [b]), step([a], [c])]) == [2]
    assert sizes([step([a], [b]), step([b], [c])]) == [1, 1]
    assert sizes([step([a], [b]), step([c], [b])]) == [1, 1]
    assert sizes([step([a], [b]), step([c], [d])], {d: a}.items()) == [1, 1]  # d is written over a
    assert sizes([step([a], [d]), step([d], [c])], {d: a}.items()) == [1, 1]


@needs_compiler
def test_who_reads_the_new_value_of_a_slot_waits_for_it() -> None:
    old, g = (np.random.default_rng(seed).normal(size=(1000, 1000)).astype(np.float32) for seed in (0, 1))
    slot = wg.tensor(old)

    @wg.compile
    def step(g: wg.Tensor) -> wg.Tensor:
        slot.assign(wg.tanh(slot) * wg.sin(g) + slot)
        return wg.flip(slot, axis=0)[:, ::2] * 2.0

    for _ in range(3):
        result = step(wg.tensor(g)).numpy()
        np.testing.assert_array_equal(result, slot.numpy()[::-1, ::2] * 2)


# --- what is stored -------------------------------------------------------------------------------------------------


def test_normalised_values_are_computed_again_rather_than_stored() -> None:
    """Between the passes only the input and numbers for each channel live: a root of the variance is cheap, a row."""

    def gradients(*values: Any) -> list[Any]:
        *normalised, weight = values
        y = wg.conv2d(wg.relu(batchnorm(*normalised)), weight, padding=1).node
        return list(map(wg.Tensor, reverse([y], [y], [value.node for value in values])))

    images = (8, 16, 8, 8)
    plan = groups(gradients, images, (16,), (16,), (16, 16, 3, 3))
    large = [node.op.name for group in plan for node in group.stored if node.shape == images]
    assert large == ["where", "convolve", "convolve_input", "add"]  # the first is what the convolution reads


@needs_compiler
def test_a_sum_over_rows_runs_along_memory_whatever_is_read_once_a_row() -> None:
    graph = graph_of(lambda x, row: wg.sum(x * row, axis=0), (64, 256), (64, 1))
    assert "lanes" in cpu.build(graph).source


# --- one-hot comparisons --------------------------------------------------------------------------------------------


def test_a_row_that_nobody_else_reads_is_gathered_from() -> None:
    (only,) = groups(lambda x, i: wg.take_along_axis(x, i, axis=1), ROWS, [64, 1])
    assert only.opaque and only.roots[0].op.name == "take_along"


@needs_compiler
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_comparisons_pick_what_the_gather_did(axis: int) -> None:
    shape = (5, 129, 3)
    index_shape = [1 if i == axis else n for i, n in enumerate(shape)]
    rng = np.random.default_rng(axis)
    x = rng.normal(size=shape).astype(np.float32)
    index = rng.integers(-shape[axis], shape[axis], index_shape)
    weights = rng.normal(size=index_shape).astype(np.float32)

    def function(x: Any, index: Any, weights: Any) -> Any:
        picked = wg.take_along_axis(wg.log_softmax(x, axis=axis), index, axis=axis)
        found = reverse([picked.node], [weights.node], [x.node])
        return [picked, *map(wg.Tensor, found)]

    graph = graph_of(function, shape, index_shape, tuple(index_shape))
    names = {node.op.name for node in graph.nodes}
    assert "checked_index" in names and not names & {"take_along", "add_along"}
    found = cpu.build(graph)([x, index, weights])
    shifted = x - x.max(axis, keepdims=True)
    expected = shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))
    np.testing.assert_allclose(found[0], np.take_along_axis(expected, index, axis), rtol=1e-5, atol=1e-6)
    ones = np.zeros(shape, np.float32)
    np.put_along_axis(ones, index, weights, axis)
    np.testing.assert_allclose(found[1], ones - np.exp(expected) * weights, rtol=1e-4, atol=1e-6)


@needs_compiler
@pytest.mark.parametrize("wrong", [9, -10])
def test_an_index_out_of_range_still_raises(wrong: int) -> None:
    @wg.compile
    def picked(x: Any, index: Any) -> Any:
        return wg.take_along_axis(wg.log_softmax(x, axis=1), index, axis=1)

    x = wg.ones((4, 9))
    np.testing.assert_allclose(picked(x, wg.tensor([[8], [0], [-9], [3]])).numpy(), -np.log(9), rtol=1e-5)
    with pytest.raises(wg.errors.ComputationError, match=f"index {wrong} is out of range for an axis of size 9"):
        picked(x, wg.tensor([[1], [wrong], [2], [3]]))


@needs_compiler
def test_a_step_that_fails_at_a_wrong_class_changes_no_parameter() -> None:
    weight = wg.nn.Parameter(np.ones((3, 4), np.float32))
    optimizer = wg.optim.SGD([weight], lr=0.1)

    @wg.compile
    def step(x: Any, targets: Any) -> Any:
        loss = wg.cross_entropy(x @ weight, targets)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    x = wg.tensor(np.random.default_rng(0).normal(size=(2, 3)).astype(np.float32))
    for _ in range(3):
        step(x, wg.tensor([1, 3]))
    before = weight.detach().numpy().copy()
    with pytest.raises(wg.errors.ComputationError):
        step(x, wg.tensor([1, 4]))
    assert (weight.detach().numpy() == before).all()
    step(x, wg.tensor([1, 3]))
    assert (weight.detach().numpy() != before).any()


@pytest.mark.parametrize(("device", "stored"), [("cuda:0", 3), ("cpu", 0)])
def test_what_reads_more_than_it_is_large_is_stored_on_a_gpu(device: str, stored: int) -> None:
    """A residual stream: each sum is read by two products and by the next sum."""
    shape = (512, 512)
    x, *parts = (placeholder(shape, wg.float32, device) for _ in range(4))
    sums, stream, products = [], x, []
    for part in parts:
        stream = stream + part
        sums.append(stream)
        products += [SUM(stream * k, axes=(0,), keepdims=False) for k in (2.0, 3.0, 4.0)]
    graph = Graph([x, *parts], products)
    inlined = {node for node in graph.nodes if node.op is not SUM}
    found = stored_values(graph, inlined, lambda node: node.sources)
    assert len(found.intersection(sums)) == stored


@pytest.mark.parametrize(("dtype", "stored"), [(wg.bfloat16, True), (wg.float32, False)])
def test_a_stream_to_which_halves_are_added_is_stored_where_reading_them_again_is_as_long(
    dtype: Any, stored: bool
) -> None:
    x, part = placeholder((512, 512), wg.float32, "cuda:0"), placeholder((512, 512), dtype, "cuda:0")
    stream = x + cast(part, wg.float32)
    uses = 3 if dtype is wg.bfloat16 else 2  # reading both again is then as long as storing the sum
    graph = Graph([x, part], [SUM(stream * k, axes=(0,), keepdims=False) for k in range(2, 2 + uses)])
    inlined = {node for node in graph.nodes if node.op is not SUM}
    assert (stream in stored_values(graph, inlined, lambda node: node.sources)) == stored


def test_what_is_no_larger_than_what_it_is_read_from_is_computed_again_on_a_gpu() -> None:
    """An activation in float32 of a product in bfloat16 takes twice its memory."""
    product = placeholder((512, 512), wg.bfloat16, "cuda:0")
    wide = cast(product, wg.float32) + 1.0
    graph = Graph([product], [SUM(wide * k, axes=(0,), keepdims=False) for k in (2.0, 3.0, 4.0)])
    inlined = {node for node in graph.nodes if node.op is not SUM}
    assert wide not in stored_values(graph, inlined, lambda node: node.sources)


@pytest.mark.parametrize(("device", "stored"), [("cuda:0", True), ("cpu", False)])
def test_what_a_matrix_of_weights_is_multiplied_by_is_computed_once(device: str, stored: bool) -> None:
    weights, x, shift = (placeholder(shape, wg.float32, device) for shape in ((768, 768), (768, 1), (768, 1)))
    row = (x + shift) * 2.0
    graph = Graph([weights, x, shift], [SUM(weights * row, axes=(0,), keepdims=True)])
    inlined = {node for node in graph.nodes if node.op is not SUM}
    assert (row in stored_values(graph, inlined, lambda node: node.sources)) == stored


@pytest.mark.parametrize("rows", [1 << 14, 3 * 5000])  # a mean by a multiplication, and by a division
def test_statistics_of_columns_are_finished_once_and_what_is_normalized_is_not_stored(rows: int) -> None:
    x = placeholder((rows, 64), wg.bfloat16, device="cuda:0")
    wide = wg.Tensor(x).astype(wg.float32)
    centred = wide - wide.mean(axis=0, keepdims=True)
    scale = 1 / wg.sqrt((centred * centred).mean(axis=0, keepdims=True) + 1e-5)
    normalized = (centred * scale).astype(wg.bfloat16)
    graph = optimize(Graph([x], [wg.where(normalized <= 0, 0, normalized).node, (normalized <= 0).node]))[0]
    inlined = {node for node in graph.nodes if node.op is not SUM}
    found = stored_values(graph, inlined, lambda node: node.sources)
    large = [node for node in found if node.size == x.size]
    assert {node.op.name for node in large} == {"where", "less_equal"}  # the outputs
    assert {node.shape for node in found if node.op is not SUM} == {(rows, 64), (1, 64)}
