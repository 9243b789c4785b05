"""What each pass leaves of a graph; fuel, switches, how time grows."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import wengert as wg
from wengert.autodiff.reverse import reverse
from wengert.compiler.cleanup import cse, dce
from wengert.compiler.matmul import batch_matmul, transpose_matmul
from wengert.compiler.passes import PASSES, optimize, verify
from wengert.compiler.reductions import factor
from wengert.compiler.rewrite import rewrite
from wengert.core.canonical import frozen
from wengert.core.errors import CompilerError
from wengert.core.graph import Graph, Node, now
from wengert.ops import elementwise as e
from wengert.ops import movement as m
from wengert.ops import reduce as r
from wengert.ops.core import data, literal, placeholder
from wengert.ops.linalg import MATMUL

F32 = wg.float32


def names(graph: Graph) -> list[str]:
    return [node.op.name for node in graph.nodes if node.op.name != "literal"]


def assert_same_bits(after: Graph, before: Graph, *arrays: np.ndarray) -> None:
    with np.errstate(all="ignore"):
        found, expected = after(*arrays), before(*arrays)
    assert [a.tobytes() for a in found] == [a.tobytes() for a in expected]


X = np.random.default_rng(0).uniform(-2, 2, (4, 3)).astype("f")

# --- cse ------------------------------------------------------------------------------------------------------------


def cse_of(function):
    since = now()
    x = placeholder((4, 3), F32)
    graph = Graph([x], list(function(x)), since)
    after = cse(graph)
    verify(after, "cse", graph)
    assert_same_bits(after, graph, X)
    return after


def test_cse_computes_equal_chains_once():
    after = cse_of(lambda x: (e.exp(x * 2.0) + 1.0, e.exp(x * 2.0) - 1.0))
    assert names(after) == ["multiply", "exp", "add", "subtract"]


def test_cse_tells_axes_apart_whose_hashes_are_equal():
    shifted = [m.FLIP(placeholder((2,), F32), axes=axes) for axes in ((-1,), (-2,))]
    x = placeholder((2,), F32)
    nodes = [Node(s.op, (x,), s.attrs, s.shape, s.dtype, s.device, False, None) for s in shifted]
    assert hash(-1) == hash(-2)
    assert len(cse(Graph([x], nodes, nodes=nodes)).nodes) == 2


@pytest.mark.parametrize(("a", "b"), [(1, 1.0), (1, True), (1.0, True), (0.0, -0.0), ((1,), (True,)), ((1, 2), [1, 2])])
def test_cse_tells_types_and_signs_apart(a, b):
    assert frozen(a) != frozen(b)
    assert frozen(a) == frozen(type(a)(a)) and frozen(b) == frozen(type(b)(b))


def test_cse_makes_reductions_that_differ_in_kept_axes_one():
    after = cse_of(lambda x: (r.SUM(x, axes=(1,), keepdims=False), r.SUM(x, axes=(1,), keepdims=True)))
    assert names(after) == ["sum", "reshape"]
    assert names(cse_of(lambda x: [r.SUM(x, axes=axes, keepdims=False) for axes in ((0,), (1,))])) == ["sum", "sum"]


def test_cse_literals_of_two_dtypes_and_of_zero_with_two_signs_stay():
    after = cse_of(lambda x: (x / 0.0, x / -0.0, x / 0.0))
    assert names(after) == ["divide", "divide"] and after.outputs[0] is after.outputs[2]


def test_cse_nan_is_nan():
    assert frozen(float("nan")) == frozen(float("nan"))


def test_cse_of_attributes_that_are_graphs_is_by_what_they_compute():
    one, two, other = (recorded(f, X) for f in (lambda x: [x + 1.0], lambda x: [x + 1.0], lambda x: [x + 2.0]))
    assert frozen(one) == frozen(two) and frozen(one) != frozen(other)


def test_cse_knows_that_sums_commute_and_differences_do_not():
    after = cse_of(lambda x: (x + e.exp(x), e.exp(x) + x, x - e.exp(x), e.exp(x) - x))
    assert names(after) == ["exp", "add", "subtract", "subtract"]


def test_cse_of_maximum_minds_the_order_for_the_sign_of_zero():
    since = now()
    x, y = placeholder((1,), F32), placeholder((1,), F32)
    graph = Graph([x, y], [e.maximum(x, y), e.maximum(y, x)], since)
    assert_same_bits(cse(graph), graph, np.float32([0.0]), np.float32([-0.0]))


def test_cse_compares_constants_by_bytes():
    after = cse_of(lambda x: [x * data(np.arange(3, dtype="f")) for _ in range(2)] + [x * data(np.zeros(3, "f"))])
    assert names(after) == ["multiply", "multiply"]
    signs = cse_of(lambda x: [x * data(np.float32([zero] * 3)) for zero in (0.0, -0.0)])
    assert names(signs) == ["multiply", "multiply"]


def test_cse_leaves_inputs_with_equal_values_alone():
    a, b = data(np.ones(3, "f")), data(np.ones(3, "f"))
    since = now()
    assert len(cse(Graph([a, b], [e.exp(a), e.exp(b)], since)).nodes) == 2


def test_cse_random_bits_of_one_counter_are_one_draw():
    from wengert.ops.random import RANDOM_BITS

    since = now()
    key, counter = placeholder((2,), wg.uint32), placeholder((), wg.uint64)
    draws = [RANDOM_BITS(key, counter + step, shape=(4,), stream=0) for step in (0, 1, 0)]
    after = cse(Graph([key, counter], draws, since))
    assert names(after).count("random_bits") == 2 and after.outputs[0] is after.outputs[2]


# --- dce ------------------------------------------------------------------------------------------------------------


def test_dce_removes_what_no_output_needs():
    since = now()
    x = placeholder((4, 3), F32)
    kept, unused = e.exp(x), e.tanh(e.exp(x))
    whole = Graph([x], [kept, unused], since)
    assert names(dce(Graph([x], [kept], nodes=whole.nodes))) == ["exp"]


def test_dce_keeps_unused_inputs():
    x, y = placeholder((), F32), placeholder((), F32)
    assert dce(Graph([x, y], [e.exp(x)])).inputs == (x, y)


def results_of(graph: Graph) -> int:
    """How many results the one op with several of them has."""
    [node] = [node for node in graph.nodes if isinstance(node.dtype, tuple)]
    return len(node.shape)


def recorded(function, *arrays):
    since = now()
    inputs = [placeholder(a.shape, a.dtype) for a in arrays]
    outputs = [t.node for t in function(*map(wg.Tensor, inputs))]
    return Graph(inputs, outputs, since)


@pytest.mark.parametrize("kind", ["cond", "scan", "checkpoint"])
def test_dce_drops_results_of_bodies_that_nobody_picks(kind):
    def function(x):
        if kind == "cond":
            return wg.cond(x.sum() > 0, lambda x: (x + 1, x.exp(), x * 2), lambda x: (x - 1, x.sin(), x * 3), x)[1:2]
        if kind == "scan":
            return wg.scan(lambda c, row: (c + row, (row.exp(), row.sin(), c)), x[0], x)[1][1:2]
        return wg.checkpoint(lambda x: (x + 1, x.exp(), x * 2))(x)[1:2]

    graph = recorded(function, X)
    after = dce(graph)
    verify(after, "dce", graph)
    assert_same_bits(after, graph, X)
    assert results_of(graph) == (5 if kind == "scan" else 3)  # a scan that is tracked also gives its carries
    assert results_of(after) == (2 if kind == "scan" else 1)  # and needs them from step to step
    optimized, _ = optimize(graph)
    assert_same_bits(optimized, graph, X)


def test_dce_keeps_all_results_of_what_is_an_output_as_a_whole():
    graph = recorded(lambda x: wg.checkpoint(lambda x: (x + 1, x.exp()))(x)[:1], X)
    whole = graph.outputs[0].sources[0]
    after = dce(Graph(graph.inputs, [whole, graph.outputs[0]], nodes=graph.nodes))
    assert results_of(after) == 2


def test_dce_a_dead_draw_leaves_its_counter_moving():
    generator = wg.random.Generator(0)
    start, key = generator.counter.node, generator.key.node
    since = now()
    wg.random.uniform((3,), generator=generator)
    used = wg.random.uniform((3,), generator=generator)
    graph = Graph([start, key], [used.node, generator.counter.node], since)
    after, _ = optimize(graph)
    assert names(after).count("random_bits") == 1
    assert_same_bits(after, graph, start.buffer, key.buffer)
    assert after(start.buffer, key.buffer)[1] == generator.counter.numpy() == 2


# --- batch_matmul ---------------------------------------------------------------------------------------------------


def merged(function, *arrays, steps=(batch_matmul,)):
    graph = recorded(function, *arrays)
    after, _ = optimize(graph, passes=[*steps, dce])
    for found, expected in zip(after(*arrays), graph(*arrays), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    return after


W = np.random.default_rng(1).uniform(-1, 1, (3, 3)).astype("f")


def test_merge_makes_a_loop_over_heads_one_product():
    x, w = (np.random.default_rng(s).uniform(-1, 1, shape).astype("f") for s, shape in [(0, (5, 4, 3)), (1, (5, 3, 2))])
    after = merged(lambda x, w: [x[i] @ w[i] for i in range(5)], x, w, steps=PASSES)
    assert names(after)[0] == "matmul" and names(after).count("matmul") == 1
    assert "concat" not in names(after)  # the slices, joined again, are what they were taken from


def test_merge_shares_a_common_operand():
    after = merged(lambda x, w: [x @ w, x @ (w * 2), x @ (w * 3)], X, W, steps=PASSES)
    [product] = [node for node in after.nodes if node.op is MATMUL]
    assert product.sources[0].shape == (4, 3) and product.sources[1].shape == (3, 3, 3)


def test_merge_keeps_products_apart_that_depend_on_each_other():
    after = merged(lambda x, w: [x @ w @ w @ w], X, W)
    assert names(after).count("matmul") == 3


def test_merge_of_two_chains_goes_level_by_level():
    after = merged(lambda x, w: [x @ w @ w, wg.tanh((x + 1) @ w) @ w], X, W)
    assert names(after).count("matmul") == 2


def test_merge_leaves_large_products_and_other_shapes_apart():
    large = np.ones((64, 64), "f")
    assert names(merged(lambda a: [a @ (a + 1), a @ (a + 2)], large)).count("matmul") == 2
    assert names(merged(lambda x, w: [x @ w, x[:2] @ w], X, W)).count("matmul") == 2


def test_merge_leaves_batches_that_broadcast_apart():
    batch = np.ones((2, 4, 3), "f")
    assert names(merged(lambda b, w: [b @ w, (b + 1) @ (w + 1)], batch, W)).count("matmul") == 2


def test_merge_of_equal_products_is_one():
    assert names(merged(lambda x, w: [x @ w, x @ w], X, W)).count("matmul") == 1


# --- transpose_matmul -----------------------------------------------------------------------------------------------


def test_turn_gives_the_gradient_of_a_weight_as_it_lies():
    def weight_gradient(x, w, g):
        y = x @ w.mT
        return map(wg.Tensor, reverse([y.node], [g.node], [w.node]))

    arrays = [
        np.random.default_rng(i).uniform(-1, 1, shape).astype("f") for i, shape in enumerate([(5, 3), (4, 3), (5, 4)])
    ]
    after = merged(weight_gradient, *arrays, steps=PASSES)
    assert names(after) == ["permute_dims", "matmul"]
    assert after.nodes[-1].op is MATMUL and after.nodes[-1].shape == (4, 3)


def test_turn_takes_batches_and_broadcast_operands():
    batch = np.random.default_rng(0).uniform(-1, 1, (2, 4, 3)).astype("f")
    after = merged(lambda x, w: [(x @ w).mT], batch, W, steps=[transpose_matmul])
    assert names(after) == ["permute_dims", "permute_dims", "matmul"]


def test_turn_leaves_a_product_that_is_read_as_it_is():
    after = merged(lambda x, w: [(x @ w).mT, wg.exp(x @ w)], X, W, steps=[cse, transpose_matmul])
    assert names(after).count("matmul") == 1 and names(after)[0] == "matmul"
    assert names(merged(lambda x, w: [(p := x @ w), p.mT], X, W, steps=[transpose_matmul]))[0] == "matmul"


# --- factor ---------------------------------------------------------------------------------------------------------


def factored(function):
    """What `factor` leaves of the sums of a function of x[4, 3]; the values are compared on the way."""
    graph = recorded(function, X)
    after = dce(verify(factor(graph), "factor", graph))
    for found, expected in zip(after(X), graph(X), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5)
    return names(after)


def test_factor_takes_one_number_a_row_out_of_a_sum():
    def total(x):
        return wg.sum(x, axis=1, keepdims=True)

    assert factored(lambda x: [total(wg.exp(x) * total(x))]) == ["exp", "sum", "sum", "multiply"]
    assert factored(lambda x: [total(total(x) * wg.exp(x))]) == ["sum", "exp", "sum", "multiply"]
    assert factored(lambda x: [total(wg.exp(x) / wg.exp(total(x)))]) == ["exp", "sum", "exp", "sum", "divide"]
    once = factored(lambda x: [wg.sum(wg.exp(x) * total(x), axis=1)])
    assert once == ["exp", "sum", "sum", "multiply", "reshape"]


def test_sums_that_differ_in_a_number_a_row_are_one():
    """As those of a normalization's gradient: by what is normalized, and by the weight."""

    def function(x):
        weight, scale = (wg.tensor(row.reshape(4, 1)) for row in (X[:, 0], X[:, 1]))
        g, centred = wg.abs(x), x - 1.0
        return [wg.sum((g * weight) * centred, axis=1), wg.sum(g * (centred * scale), axis=1)]

    graph = recorded(function, X)
    after = dce(cse(factor(graph)))
    assert names(after).count("sum") == 1
    for found, expected in zip(after(X), graph(X), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: [wg.sum(wg.exp(x) * 3.0, axis=1)],  # a number for all rows
        lambda x: [wg.sum(x * (wg.exp(x) * wg.sum(x, axis=1, keepdims=True)), axis=1)],  # would compute exp again
        lambda x: [wg.sum(wg.exp(x) * wg.sum(x, axis=0), axis=1)],  # not the same in the whole row
        lambda x: [wg.sum(wg.sum(x, axis=1, keepdims=True) / wg.exp(x), axis=1)],  # a divisor is no factor
        lambda x: [wg.max(wg.exp(x) * wg.sum(x, axis=1, keepdims=True), axis=1)],  # no sum
    ],
)
def test_factor_leaves_other_factors(function):
    assert factored(function) == names(dce(recorded(function, X)))


def test_factor_keeps_zeros_that_weigh_nothing():
    """0 times infinity is 0 in `safe_multiply`, and in the sum of it."""
    x = np.array([[0.0, 0.0, 0.0], [1.0, 0.0, 2.0]], "f")
    node = placeholder((2, 3), F32)
    total = r.SUM(node, axes=(1,), keepdims=True)
    weighed = r.SUM(e.safe_multiply(node, e.reciprocal(total)), axes=(1,), keepdims=True)
    with np.errstate(all="ignore"):
        (found,) = factor(Graph([node], [weighed]))(x)
    np.testing.assert_array_equal(found, [[0.0], [1.0]])


# --- the list -------------------------------------------------------------------------------------------------------


def test_passes_are_switched_off_by_name_and_report():
    graph = recorded(lambda x: [x * 1.0 + x * 1.0], X)
    after, reports = optimize(graph, off={"simplify"})
    assert names(after) == ["multiply", "add"]
    ran = [one.__name__ for one in PASSES if one.__name__ != "simplify"]
    assert [report.name for report in reports] == ran
    cse = next(report for report in reports if report.name == "cse")
    assert cse.before > cse.after and cse.rewrites > 0 and "cse" in str(cse)
    assert names(optimize(graph, off=["cse"])[0]) == ["add"]
    assert names(optimize(graph, off=["simplify", "cse", "dce"])[0]) == ["multiply", "multiply", "add"]


def test_fuel_stops_rewriting():
    graph = recorded(lambda x: [wg.exp(wg.exp(x * 1) * 1) * 1], X)
    counts = [names(optimize(graph, fuel=fuel, off=["cse"])[0]).count("multiply") for fuel in range(4)]
    assert counts == [3, 2, 1, 0]


def test_bodies_are_optimised_and_spend_the_same_fuel():
    def function(x):
        return [wg.scan(lambda c, row: (c * 1 + row * 1, c), x[0], x)[0]]

    graph = recorded(function, X)
    after, _ = optimize(graph)
    [scan] = [node for node in after.nodes if node.op.name == "scan"]
    assert names(scan.attrs["body"]) == ["add"]
    assert_same_bits(after, graph, X)
    counts = []
    for fuel in range(10):
        [scan] = [node for node in optimize(graph, fuel=fuel)[0].nodes if node.op.name == "scan"]
        counts.append(names(scan.attrs["body"]).count("multiply"))
    assert counts[0] == 2 and counts[-1] == 0 and 1 in counts and counts == sorted(counts, reverse=True)


def test_a_checkpoint_is_not_undone():
    def loss(x):
        return wg.checkpoint(lambda x: wg.tanh(wg.tanh(x)))(x).sum()

    def function(x):
        value, gradient = wg.value_and_grad(loss)(x)
        return [value, gradient]

    after, _ = optimize(recorded(function, X))
    assert "checkpoint" not in names(after) and names(after).count("tanh") == 4


def test_constants_may_fold_inside_a_body():
    def function(x):
        table = wg.tensor(np.arange(3, dtype="f"))
        return [wg.scan(lambda c, row: (c + row * (wg.tensor([1.0, 2.0, 3.0]) + 1.0) + table, c), x[0], x)[0]]

    graph = recorded(function, X)
    assert_same_bits(optimize(graph)[0], graph, X)


def test_rules_in_circles_are_stopped():
    x = placeholder((3,), F32)

    def flips(node):
        other = {e.sin: e.cos, e.cos: e.sin}.get(node.op)
        return None if other is None else other(node.sources[0])

    with pytest.raises(CompilerError, match="circles"):
        rewrite(Graph([x], [e.sin(x)]), flips)


def test_a_rule_that_changes_a_type_is_named():
    x = placeholder((3,), F32)
    with pytest.raises(CompilerError, match="a rule replaces"):
        rewrite(Graph([x], [e.sin(x)]), lambda node: r.SUM(node.sources[0], axes=(0,), keepdims=False))


# --- time -----------------------------------------------------------------------------------------------------------


def training_step(layers: int) -> Graph:
    """A step of a network of some depth: layer norm, linear, gelu, residual; gradients; a momentum update."""
    since = now()
    x = placeholder((8, 64), F32)
    weights = [placeholder((64, 64), F32) for _ in range(layers)]
    moments = [placeholder((64, 64), F32, tracked=False) for _ in range(layers)]
    h = x
    for w in weights:
        centred = h - r.mean(h, axis=1, keepdims=True)
        normal = centred / e.sqrt(r.mean(centred * centred, axis=1, keepdims=True) + 1e-5)
        y = MATMUL(normal, w)
        h = h + 0.5 * y * (1.0 + e.tanh(0.8 * (y + 0.04 * y * y * y)))
    loss = r.mean(h * h)
    gradients = reverse([loss], [literal(1.0, F32)], weights)
    moved = [0.9 * v + g for v, g in zip(moments, gradients)]
    updated = [w - 0.01 * v for w, v in zip(weights, moved)]
    return Graph([x, *weights, *moments], [loss, *moved, *updated], since)


def calls_for(graph: Graph) -> int:
    """The calls of Python functions that the passes make: what they do, however busy the machine is."""
    count = 0

    def counted(_frame, event, _argument):
        nonlocal count
        count += event == "call"

    sys.setprofile(counted)
    try:
        optimize(graph)
    finally:
        sys.setprofile(None)
    return count


def test_what_the_passes_do_grows_with_the_nodes():
    rows = []
    for layers in (14, 140):
        graph = training_step(layers)
        rows.append((len(graph.nodes), calls_for(graph)))
    (small, few), (large, many) = rows
    assert small >= 1000 and large >= 10_000
    assert few < 200 * small
    assert many / few < 1.1 * large / small


def test_a_long_chain_needs_no_recursion():
    x = placeholder((3,), F32)
    y = x
    for _ in range(20_000):
        y = e.negative(e.negative(e.sin(y * 1.0)))
    after, _ = optimize(Graph([x], [y]))
    assert names(after) == ["sin"] * 20_000
