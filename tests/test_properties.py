"""Random expressions: reverse mode, forward mode and differences of values agree; vmap is a loop.

An expression is drawn as nested tuples over a small grammar, each rule a function of matrices of one shape that is
smooth, or has kinks only where random numbers do not fall, and keeps values moderate. Matrices are drawn by a seed, not
element by element: what is tested is how rules combine, and special values have tests of their own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import wengert as wg
from wengert.autodiff import numeric

SHAPE = (2, 3)
LEAVES = ("a", "b")

UNARY = {
    "sin": wg.sin,
    "tanh": wg.tanh,
    "sigmoid": wg.sigmoid,
    "bounded exp": lambda x: wg.exp(wg.cos(x)),
    "log": lambda x: wg.log(1.5 + x * x),
    "sqrt": lambda x: wg.sqrt(1 + wg.square(x)),
    "power": lambda x: (1 + wg.abs(x)) ** 0.7,
    "scaled": lambda x: 0.5 - x * 2,
    "softmax": lambda x: wg.exp(x - wg.logsumexp(x, axis=1, keepdims=True)),
    "centred": lambda x: x - wg.mean(x, axis=0),
    "row sums": lambda x: wg.sum(x, axis=1, keepdims=True) + wg.tensor(np.zeros(SHAPE)),
    "largest": lambda x: x / (1 + wg.max(wg.abs(x))),
    "spread": lambda x: x * wg.std(x, axis=0),
    "transposed": lambda x: wg.reshape(wg.permute_dims(x, (1, 0)), SHAPE),
    "flipped": lambda x: wg.flip(x, axis=1),
    "part": lambda x: x[0] + x[:, ::-1],
    "gathered": lambda x: x[[1, 0]][:, [2, 0, 2]],
    "joined": lambda x: wg.concat([x[:, 1:], x[:, :1]], axis=1),
}
BINARY = {
    "add": lambda x, y: x + y,
    "multiply": lambda x, y: x * y,
    "subtract": lambda x, y: x - y,
    "divide": lambda x, y: x / (1 + y * y),
    "maximum": wg.maximum,
    "minimum": wg.minimum,
    "atan2": lambda x, y: wg.atan2(x, 2 + y * y),
    "matmul": lambda x, y: 0.3 * (x @ wg.matrix_transpose(y) @ y),
    "outer": lambda x, y: x[:, :1] * y[1],
    "where": lambda x, y: wg.where(x > 0.1, x * y, wg.sin(y)),
    "stacked": lambda x, y: wg.sum(wg.stack([x, y * y, x]), axis=0),
}

expressions = st.recursive(
    st.sampled_from(LEAVES),
    lambda inner: (
        st.tuples(st.sampled_from(sorted(UNARY)), inner) | st.tuples(st.sampled_from(sorted(BINARY)), inner, inner)
    ),
    max_leaves=6,
)
seeds = st.integers(0, 2**16)
checked = settings(max_examples=100, deadline=None, derandomize=True)


def evaluate(expression: Any, leaves: dict[str, wg.Tensor]) -> wg.Tensor:
    if isinstance(expression, str):
        return leaves[expression]
    name, *operands = expression
    return (UNARY | BINARY)[name](*[evaluate(operand, leaves) for operand in operands])


def matrices(seed: int, *lanes: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [rng.uniform(-1.5, 1.5, (*lanes, *SHAPE)) for _ in LEAVES]


def assert_close(found: Any, expected: Any, tolerance: float) -> None:
    """Equal relative to the size of the whole: where a sum cancels, its rounding does not."""
    a, b = found.numpy(), expected.numpy()
    assert a.shape == b.shape
    np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * (1 + np.max(np.abs(b))))


@checked
@given(expressions, seeds)
def test_reverse_forward_and_numeric_agree(expression: Any, seed: int) -> None:
    def f(a: wg.Tensor, b: wg.Tensor) -> wg.Tensor:
        return wg.sum(evaluate(expression, {"a": a, "b": b}) * wg.tensor(weights))

    weights = np.random.default_rng(seed + 1).uniform(0.5, 1.5, SHAPE)
    points = [wg.tensor(m) for m in matrices(seed)]
    by_reverse = wg.grad(f, (0, 1))(*points)
    by_forward = wg.jacobian(f, (0, 1), mode="forward")(*points)
    by_values = numeric.grad(f, (0, 1))(*points)
    for reverse, forward, values in zip(by_reverse, by_forward, by_values):
        assert_close(reverse, forward, 1e-11)
        assert_close(reverse, values, 1e-6)


@checked
@given(expressions, seeds)
def test_second_derivatives_agree(expression: Any, seed: int) -> None:
    a, b = (wg.tensor(m) for m in matrices(seed))
    f = lambda a: wg.sum(wg.sin(evaluate(expression, {"a": a, "b": b})))
    direction = wg.tensor(matrices(seed + 1)[0])
    forward_over_reverse = wg.hvp(f, (a,), (direction,))
    reverse_over_forward = wg.grad(lambda a: wg.jvp(f, (a,), (direction,))[1])(a)
    assert_close(forward_over_reverse, reverse_over_forward, 1e-9)


@checked
@given(expressions, seeds)
def test_vmap_is_a_loop(expression: Any, seed: int) -> None:
    f = lambda a, b: evaluate(expression, {"a": a, "b": b})
    stacks = [wg.tensor(m) for m in matrices(seed, 4)]
    assert_close(wg.vmap(f)(*stacks), wg.stack([f(*(s[k] for s in stacks)) for k in range(4)]), 1e-12)
    shared = wg.vmap(f, in_axes=(0, None))(stacks[0], stacks[1][0])
    assert_close(shared, wg.stack([f(stacks[0][k], stacks[1][0]) for k in range(4)]), 1e-12)


@checked
@given(expressions, seeds)
def test_the_gradient_of_a_batch_is_a_batch_of_gradients(expression: Any, seed: int) -> None:
    f = lambda a, b: wg.sum(evaluate(expression, {"a": a, "b": b}))
    stacks = [wg.tensor(m) for m in matrices(seed, 3)]
    by_lane = wg.vmap(wg.grad(f))(*stacks)
    at_once = wg.grad(lambda a: wg.sum(wg.vmap(f)(a, stacks[1])))(stacks[0])
    assert_close(by_lane, at_once, 1e-11)
