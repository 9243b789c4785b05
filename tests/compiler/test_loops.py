"""Passes over loops: what leaves a scan or while_loop, what stays, and that the values are the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.autodiff.cond import WHILE
from wengert.autodiff.scan import SCAN
from wengert.compiler import loop_kept
from wengert.compiler.cleanup import cse, dce, inline
from wengert.compiler.loop_motion import loop_dce, loop_inputs, loop_invariants, loop_outputs
from wengert.compiler.loop_sums import loop_sums
from wengert.compiler.passes import optimize, verify
from wengert.compiler.simplify import simplify
from wengert.core.graph import Graph, Node, now
from wengert.ops.core import placeholder
from wengert.ops.linalg import MATMUL

T, B, K, H = 6, 4, 40, 32
STEPS = (inline, simplify, cse, loop_dce, loop_invariants, loop_inputs, loop_sums, loop_outputs, loop_dce)


def recorded(function: Callable[..., Any], *shapes: tuple[int, ...]) -> Graph:
    since = now()
    inputs = [placeholder(shape, wg.float64) for shape in shapes]
    found, _ = wg.tree.flatten(function(*map(wg.Tensor, inputs)))
    return Graph(inputs, [each.node for each in found], since)


def after(graph: Graph, passes: Any = STEPS) -> Graph:
    """The graph after passes, which gives the same values."""
    result, _ = optimize(graph, passes)
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=node.shape) * 0.4 for node in graph.inputs]
    for a, b in zip(graph(*arrays), result(*arrays), strict=True):
        np.testing.assert_allclose(b, a, rtol=1e-12, atol=1e-12)
    return result


def loops_in(graph: Graph) -> list[Node]:
    return [node for node in graph.nodes if node.op in (SCAN, WHILE)]


def inside(loop: Node, op: Any = MATMUL) -> int:
    return sum(node.op is op for node in loop.attrs["body"].nodes)


def outside(graph: Graph, op: Any = MATMUL) -> int:
    return sum(node.op is op for node in graph.nodes)


# --- what is not needed ---------------------------------------------------------------------------------------------


def test_dead_carries_and_operands_go_and_those_that_lead_somewhere_stay() -> None:
    def function(x: Any, w: Any) -> Any:
        def step(carry: Any, item: Any) -> Any:
            a, b, dead, counter = carry
            return (a + b, b * item[0], dead + item[1] @ w, counter + 1), item[0] * 2

        return wg.scan(step, (x[0], x[1], x[2], wg.tensor(0)), (x, x))[0][0]

    (loop,) = loops_in(after(recorded(function, (T, H), (H, H))))
    assert loop.attrs["carries"] == 2 and len(loop.sources) == 3 and len(loop.shape) == 2


def test_a_carry_that_no_step_changes_is_a_constant_and_known_results_are_not_stacked() -> None:
    def function(x: Any, w: Any) -> Any:
        (last, same), ys = wg.scan(lambda c, x: ((c[0] * x + c[1], c[1]), (x, c[1], c[0], c[0])), (w, w * 2), x)
        return last, same, ys

    graph = after(recorded(function, (T, H), (H,)))
    (loop,) = loops_in(graph)
    assert (loop.attrs["carries"], loop.attrs["constants"], len(loop.shape)) == (1, 1, 2)


def test_a_scan_none_of_whose_steps_has_to_be_computed_is_none() -> None:
    graph = after(recorded(lambda x, w: wg.scan(lambda c, x: (c, (x @ w, c)), w, x), (T, B, K), (K, K)))
    assert not loops_in(graph) and outside(graph) == 1


@pytest.mark.parametrize("reverse", [False, True])
def test_no_steps_at_all(reverse: bool) -> None:
    def function(x: Any, w: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            h = wg.tanh(x @ wg.exp(w) + h)
            return h, (h @ w, x)

        return wg.scan(step, wg.zeros((B, K), dtype=wg.float64) + w[0], x, reverse=reverse)

    after(recorded(function, (0, B, K), (K, K)))


# --- the same in every step -----------------------------------------------------------------------------------------


def test_what_is_the_same_in_every_step_is_computed_once() -> None:
    def function(x: Any, w: Any) -> Any:
        return wg.scan(lambda c, _: (wg.tanh(c @ wg.exp(w).T) / wg.sum(w * w), None), x, length=5)[0]

    graph = after(recorded(function, (B, H), (H, H)))
    (loop,) = loops_in(graph)
    names = [node.op.name for node in loop.attrs["body"].nodes]
    assert names == ["permute_dims", "matmul", "tanh", "divide"]  # a transpose costs nothing where it is read


def test_a_nested_scan_is_left_by_both_loops() -> None:
    def function(x: Any, w: Any) -> Any:
        def outer(c: Any, _: Any) -> Any:
            return wg.scan(lambda d, _: (d * wg.exp(w) + wg.sin(c), None), c, length=3)[0], None

        return wg.scan(outer, x, length=2)[0]

    graph = after(recorded(function, (H,), (H,)))
    (loop,) = loops_in(graph)
    (inner,) = [node for node in loop.attrs["body"].nodes if node.op is SCAN]
    assert next(node.op.name for node in graph.nodes if node.sources) == "exp"
    assert loop.attrs["body"].nodes[0].op.name == "sin"
    assert [node.op.name for node in inner.attrs["body"].nodes] == ["multiply", "add"]


def test_a_while_loop_reads_what_neither_test_nor_step_changes() -> None:
    def function(x: Any, w: Any) -> Any:
        start = (wg.tensor(0), x)
        return wg.while_loop(
            lambda s: (s[0] < 3) & (wg.sum(wg.cos(w)) < 1e9), lambda s: (s[0] + 1, s[1] * wg.exp(w)), start
        )

    (loop,) = loops_in(graph := after(recorded(function, (H,), (H,))))
    assert {"exp", "cos", "sum"} <= {node.op.name for node in graph.nodes}
    assert "exp" not in {node.op.name for node in loop.attrs["step"].nodes}
    assert "cos" not in {node.op.name for node in loop.attrs["test"].nodes}


def test_what_could_fail_stays_in_a_loop_that_may_have_no_step() -> None:
    def function(a: Any, b: Any) -> Any:
        return wg.while_loop(lambda x: wg.sum(x) > 1e9, lambda x: wg.linalg.solve(a, x), b)

    (loop,) = loops_in(after(recorded(function, (3, 3), (3, 2))))
    assert "solve" in {node.op.name for node in loop.attrs["step"].nodes}


# --- before, after, and sums ----------------------------------------------------------------------------------------


def lstm(x: Any, wi: Any, wh: Any, b: Any, wo: Any) -> Any:
    def step(carry: Any, x: Any) -> Any:
        h, c = carry
        i, f, g, o = wg.chunk(x @ wi + h @ wh + b, 4, axis=-1)
        c = wg.sigmoid(f) * c + wg.sigmoid(i) * wg.tanh(g)
        h = wg.sigmoid(o) * wg.tanh(c)
        return (h, c), h @ wo

    return wg.scan(step, (wg.zeros((B, H), dtype=wg.float64), wg.zeros((B, H), dtype=wg.float64)), x)


LSTM = ((T, B, K), (K, 4 * H), (H, 4 * H), (4 * H,), (H, H))


def test_an_lstm_keeps_one_product_a_step() -> None:
    graph = after(recorded(lstm, *LSTM))
    (loop,) = loops_in(graph)
    assert inside(loop) == 1 and outside(graph) == 2


def test_the_gradients_of_an_lstm_keep_one_product_a_step() -> None:
    def loss(*args: Any) -> Any:
        (h, _), ys = lstm(*args)
        return (ys**2).sum() + h.sum()

    graph = after(recorded(lambda *args: wg.grad(loss, (0, 1, 2, 3, 4))(*args), *LSTM))
    forward, backward = loops_in(graph)
    assert inside(forward) == inside(backward) == 1
    assert backward.attrs["carries"] == 2  # the cotangents of h and c; no sum of a weight's
    weights = [node for node in graph.nodes if node.op is MATMUL and node.sources[0].shape[-1] == T * B]
    assert [node.shape for node in weights] == [(K, 4 * H), (H, 4 * H), (H, H)]


def test_the_gradient_of_a_convolution_in_a_loop_is_one_convolution_over_all_steps() -> None:
    def loss(x: Any, w: Any) -> Any:
        h, _ = wg.scan(lambda h, x: (wg.tanh(wg.conv2d(h, w, padding=1) + x), None), x[0], x)
        return (h * h).sum()

    graph = after(recorded(lambda x, w: wg.grad(loss, 1)(x, w), (T, 2, 4, 5, 5), (4, 4, 3, 3)))
    _, backward = loops_in(graph)
    (of_weight,) = [node for node in graph.nodes if node.op.name == "convolve_weight"]
    assert of_weight.sources[0].shape[0] == 2 * T and inside(backward, of_weight.op) == 0


def test_a_sum_that_is_not_worth_its_memory_stays() -> None:
    def function(x: Any, w: Any) -> Any:
        def loss(x: Any, w: Any) -> Any:
            return wg.scan(lambda h, x: (wg.sin(h * w + x), None), x[0], x)[0].sum()

        return wg.grad(loss, 1)(x, w)

    _, backward = loops_in(after(recorded(function, (T, B, K), (K,))))
    assert backward.attrs["carries"] == 2


def test_a_carry_that_is_read_is_no_sum() -> None:
    def function(x: Any, w: Any) -> Any:
        def step(c: Any, x: Any) -> Any:
            total, h = c
            return (total + x.T @ h, h + wg.sum(total)), None

        return wg.scan(step, (wg.zeros((K, H), dtype=wg.float64), w), x)[0]

    (loop,) = loops_in(after(recorded(function, (T, B, K), (B, H))))
    assert loop.attrs["carries"] == 2


@pytest.mark.parametrize("reverse", [False, True])
def test_sums_begin_with_their_initial_value_through_casts_and_movement(reverse: bool) -> None:
    def function(x: Any, y: Any, start: Any) -> Any:
        def step(c: Any, xy: Any) -> Any:
            x, y = xy
            return c + (x.T @ y).T.reshape(2, -1) - (x @ y.T).sum() * 0, None

        return wg.scan(step, start, (x, y), reverse=reverse)[0]

    after(recorded(function, (T, B, K), (T, B, K), (2, K * K // 2)))

    def plain(x: Any, y: Any, start: Any) -> Any:
        return wg.scan(lambda c, xy: (c + -(xy[0].T @ xy[1]).T, None), start, (x, y), reverse=reverse)[0]

    assert not loops_in(after(recorded(plain, (T, B, K), (T, B, K), (K, K))))


def test_a_small_product_stays_in_its_loop() -> None:
    def function(x: Any, w: Any) -> Any:
        return wg.scan(lambda h, x: (wg.tanh(x @ w + h), (h @ w).sum()), x[0], x)

    graph = after(recorded(function, (T, B, 3), (3, 3)))
    assert outside(graph) == 0


def test_products_of_an_ensemble() -> None:
    """A batch of weights: what moves out of the loop has both the lanes' axis and the steps'."""
    rng = np.random.default_rng(1)
    x, *weights = (wg.tensor(rng.normal(size=shape) * 0.3) for shape in LSTM)
    many = [wg.stack([w, w * 0.5]) for w in weights]

    def loss(*weights: Any) -> Any:
        return (lstm(x, *weights)[1] ** 2).sum()

    gradients = wg.vmap(wg.grad(loss, (0, 1, 2, 3)))
    for found, expected in zip(wg.compile(gradients)(*many), gradients(*many)):
        np.testing.assert_allclose(found.numpy(), expected.numpy(), rtol=1e-10, atol=1e-12)
    second = wg.compile(
        lambda w: wg.grad(lambda w: (wg.grad(lambda w: loss(*weights[:1], w, *weights[2:]))(w) ** 2).sum())(w)
    )
    plain = wg.grad(lambda w: (wg.grad(lambda w: loss(*weights[:1], w, *weights[2:]))(w) ** 2).sum())
    np.testing.assert_allclose(second(weights[1]).numpy(), plain(weights[1]).numpy(), rtol=1e-9, atol=1e-12)


def test_random_numbers_stay_with_their_steps() -> None:
    def noisy(x: Any) -> Any:
        wg.manual_seed(3)
        return wg.scan(lambda h, x: (wg.tanh(h + wg.random.normal((H,)) * 0.1), h), x[0], x)

    x = wg.tensor(np.random.default_rng(0).normal(size=(T, H)))
    for a, b in zip(wg.tree.flatten(wg.compile(noisy)(x))[0], wg.tree.flatten(noisy(x))[0]):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-7)


# --- verification ---------------------------------------------------------------------------------------------------


def test_a_loop_whose_body_is_given_something_else_is_noticed() -> None:
    graph = recorded(lambda x: wg.scan(lambda c, x: (c + x, c), x[0], x), (T, H))
    (loop,) = loops_in(graph)
    for attrs, message in (({"steps": T + 1}, "shape|steps"), ({"carries": 0, "constants": 1}, "infer|shape|body")):
        bad = Node(SCAN, loop.sources, {**loop.attrs, **attrs}, loop.shape, loop.dtype, "cpu", True, loop.location)
        with pytest.raises(wg.errors.CompilerError, match=message):
            verify(Graph(graph.inputs, [bad], nodes=[*[n for n in graph.nodes if n.serial < loop.serial], bad]))


# --- what another scan has computed ---------------------------------------------------------------------------------


def test_a_backward_pass_finds_the_products_of_its_forward_pass() -> None:
    """Forwards one product of inputs and one a step; backwards one a step, and two gradients: none is made again."""

    def gradient(x: Any, w: Any, u: Any) -> Any:
        def loss(w: Any, u: Any) -> Any:
            return wg.sum(
                wg.scan(lambda h, x: ((h := wg.tanh(x @ w + h @ u)), h), wg.zeros((B, H), dtype=wg.float64), x)[1] ** 2
            )

        return wg.grad(loss, argnums=(0, 1))(w, u)

    graph = after(recorded(gradient, (T, B, K), (K, H), (H, H)))
    assert [inside(loop) for loop in loops_in(graph)] == [1, 1] and outside(graph) == 3


def test_products_are_kept_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    def gradient(x: Any, u: Any) -> Any:
        return wg.grad(
            lambda x: wg.sum(
                wg.scan(lambda h, x: (wg.tanh(x + h @ u), h), wg.zeros((B, H), dtype=wg.float64), x)[1] ** 2
            )
        )(x)

    recording = recorded(gradient, (T, B, H), (H, H))
    kept = outside(after(recording))
    monkeypatch.setattr(loop_kept, "KEPT", T * B * H * 8 - 1)
    assert outside(after(recording)) == kept + 1


def test_a_loop_that_another_contains_is_that_one():
    """Forward mode computes a loop's values again beside their tangents: once is enough, also for what reads both."""

    def steps(x):
        t, y = wg.while_loop(
            lambda s: s[0] < 1.0, lambda s: (s[0] + 0.1 * wg.cos(s[1]) ** 2, wg.sin(s[1] * x)), (x * 0, x)
        )
        return t * y

    def both(x):
        value, tangent = wg.jvp(steps, (x,), (wg.ones_like(x),))
        return value + wg.vmap(lambda v: wg.jvp(steps, (x,), (v,))[1])(wg.ones(3, dtype=x.dtype)).sum(), tangent

    x = wg.tensor(0.7, dtype=wg.float64)
    np.testing.assert_allclose([r.item() for r in wg.compile(both)(x)], [r.item() for r in both(x)], rtol=1e-12)
    graph = recorded(lambda x: wg.jvp(steps, (x,), (x * 0 + 1,)), ())
    found = after(graph, (cse, dce))
    assert [sum(node.op is WHILE for node in g.nodes) for g in (graph, found)] == [2, 1]
