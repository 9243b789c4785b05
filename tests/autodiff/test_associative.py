"""`associative_scan`: the partial results of a plain loop, in every mode."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.core.graph import Graph

RNG = np.random.default_rng(0)


def linear(left: Any, right: Any) -> Any:
    """Two steps of `h = a * h + b` as one."""
    return {"a": left["a"] * right["a"], "b": right["a"] * left["b"] + right["b"]}


def looped(xs: Any, axis: int, reverse: bool) -> Any:
    """The same from step to step."""
    a, b = (wg.moveaxis(xs[name], axis, 0) for name in "ab")
    _, ys = wg.scan(lambda h, ab: ((h := ab[0] * h + ab[1]), h), b[0] * 0.0, (a, b), reverse=reverse)
    return wg.moveaxis(ys, 0, axis)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("shape", "axis"), [((n, 2), 0) for n in (1, 2, 3, 4, 7, 16, 33)] + [((2, 5, 3), 1), ((3, 6), -1)]
)
def test_a_linear_recurrence_in_every_mode(shape: Any, axis: int, reverse: bool) -> None:
    a, b, t = (wg.tensor(RNG.normal(size=shape)) for _ in range(3))

    def scanned(a: Any, b: Any) -> Any:
        return wg.associative_scan(linear, {"a": a, "b": b}, axis=axis, reverse=reverse)["b"]

    def plain(a: Any, b: Any) -> Any:
        return looped({"a": a, "b": b}, axis, reverse)

    for transform in (
        lambda f: f(a, b),
        lambda f: wg.grad(lambda a, b: (f(a, b) ** 2).sum(), (0, 1))(a, b),
        lambda f: wg.jvp(f, (a, b), (t, t)),
        lambda f: wg.grad(lambda a: (wg.grad(lambda a: (f(a, b) ** 3).sum())(a) * t).sum())(a),
        lambda f: wg.vmap(f, (0, None))(wg.stack([a, t]), b),
        lambda f: wg.compile(f)(a, b),
    ):
        found, expected = (wg.tree.flatten(transform(f))[0] for f in (scanned, plain))
        for x, y in zip(found, expected, strict=True):
            np.testing.assert_allclose(x.numpy(), y.numpy(), rtol=1e-9, atol=1e-11)


def test_matrices_in_their_order() -> None:
    xs = RNG.normal(size=(6, 2, 2))
    found = wg.associative_scan(lambda a, b: a @ b, wg.tensor(xs)).numpy()
    backwards = wg.associative_scan(lambda a, b: a @ b, wg.tensor(xs), reverse=True).numpy()
    product = np.eye(2)
    for i in range(6):
        product = product @ xs[i]
        np.testing.assert_allclose(found[i], product, rtol=1e-10)
    for i in range(6):
        np.testing.assert_allclose(backwards[i], np.linalg.multi_dot([np.eye(2), *xs[i:][::-1]]), rtol=1e-10)


def test_it_is_as_deep_as_the_logarithm() -> None:
    def calls(n: int) -> int:
        graph = Graph([], [wg.associative_scan(lambda a, b: a * b, wg.ones(n) * 2.0).node], 0)
        depth: dict[Any, int] = {}
        for node in graph.nodes:
            depth[node] = (node.op.name == "multiply") + max((depth.get(s, 0) for s in node.sources), default=0)
        return max(depth.values())

    assert calls(1024) <= 2 * 10 + 1 and calls(1 << 14) <= 2 * 14 + 1


def test_no_elements_and_integers() -> None:
    assert wg.associative_scan(wg.maximum, wg.tensor([3, 1, 4, 1, 5])).tolist() == [3, 3, 4, 4, 5]
    assert wg.associative_scan(lambda a, b: a + b, wg.zeros((0, 3))).shape == (0, 3)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: wg.associative_scan(linear, {"a": wg.ones(3), "b": wg.ones(4)}), wg.errors.ShapeError, r"\[3, 4\]"),
        (lambda: wg.associative_scan(lambda a, b: (a, b), wg.ones(3)), wg.errors.ArgumentError, "is given"),
        (
            lambda: wg.associative_scan(lambda a, b: (a + b).sum(), wg.ones(3)),
            wg.errors.ShapeError,
            r"float32\[1\] twice but returns float32\[\]",
        ),
        (lambda: wg.associative_scan(lambda a, b: a, ()), wg.errors.ArgumentError, "no values"),
    ],
)
def test_errors(call: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        call()
