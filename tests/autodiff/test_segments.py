"""`scan(memory=)`: the same values and derivatives, with fewer carries kept."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.autodiff.scan import SCAN
from wengert.autodiff.segments import lengths
from wengert.compiler.passes import optimize
from wengert.core.graph import Graph, Node

RNG = np.random.default_rng(0)
H = 3
CARRY = 8 * H


def problem(steps: int, memory: Any = None, reverse: bool = False) -> Any:
    def loss(w: Any, h: Any, xs: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            h = wg.tanh(h @ w + x)
            return h, h * 2.0

        h, ys = wg.scan(step, h, xs, reverse=reverse, memory=memory)
        return (h * h).sum() + (ys**3).sum() + (ys[1:] * ys[:-1]).sum()

    return loss


def arguments(steps: int) -> list[wg.Tensor]:
    return [wg.tensor(RNG.normal(size=shape) * 0.5) for shape in ((H, H), (H,), (steps, H))]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(("steps", "kept"), [(16, 8), (17, 9), (30, 12), (31, 7), (7, 100)])
def test_values_and_derivatives_do_not_depend_on_what_is_kept(steps: int, kept: int, reverse: bool) -> None:
    args, memory = arguments(steps), kept * CARRY
    one, all_kept = problem(steps, memory, reverse), problem(steps, None, reverse)
    for transform in (
        lambda f: wg.value_and_grad(f, (0, 1, 2))(*args),
        lambda f: wg.jvp(f, tuple(args), tuple(args)),
        lambda f: wg.hessian(f, 0)(*args),
        lambda f: wg.vmap(wg.grad(f, 2), (None, 0, None))(args[0], wg.stack([args[1], args[1] * 2]), args[2]),
        lambda f: wg.compile(wg.value_and_grad(f, (0, 1, 2)))(*args),
    ):
        found, expected = (wg.tree.flatten(transform(f))[0] for f in (one, all_kept))
        for a, b in zip(found, expected, strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-10, atol=1e-12)


def scans(nodes: Any) -> list[Node]:
    found = [node for node in nodes if node.op is SCAN]
    return found + [inner for node in found for inner in scans(node.attrs["body"].nodes)]


@pytest.mark.parametrize(("steps", "kept", "levels"), [(100, 100, 1), (100, 20, 2), (1000, 64, 2), (1000, 30, 3)])
def test_so_many_carries_are_kept(steps: int, kept: int, levels: int) -> None:
    nested = lengths(steps, CARRY, kept * CARRY)
    assert len(nested) == levels and sum(nested) <= kept and np.prod(nested) >= steps
    args = arguments(steps)
    graph = Graph([], [wg.grad(problem(steps, kept * CARRY))(*args).node], 0)
    inputs = {x.shape[0] for x in args}
    most = max(node.attrs["steps"] for node in scans(graph.nodes) if node.attrs["saved"])
    assert most <= max(nested) and most not in inputs - {H} - set(nested)


def test_the_compiler_leaves_segments_as_they_are() -> None:
    steps, width, batch = 64, 40, 4

    def loss(w: Any, xs: Any) -> Any:
        h, _ = wg.scan(lambda h, x: (wg.tanh(x @ w + h @ w), None), xs[0] * 0.0, xs, memory=16 * batch * width * 8)
        return (h * h).sum()

    gradient = wg.compile(wg.grad(loss))
    args = [wg.tensor(RNG.normal(size=shape) * 0.1) for shape in ((width, width), (steps, batch, width))]
    np.testing.assert_allclose(gradient(*args).numpy(), wg.grad(loss)(*args).numpy(), rtol=1e-10)
    graph, _ = optimize(gradient.graph())
    found = scans(graph.nodes)
    for node in [*graph.nodes, *[node for scan in found for node in scan.attrs["body"].nodes]]:
        for shape in node.shape if isinstance(node.dtype, tuple) else [node.shape]:
            assert np.prod(shape) <= 8 * batch * width or shape in (
                (width, width),
                (steps, batch, width),
                (8, 8, batch, width),
            )
    assert sum(scan.attrs["steps"] == 8 for scan in found) >= 4
    stacked = [n for n in graph.nodes if n.op is not SCAN and n.shape in ((steps, batch, width), (8, 8, batch, width))]
    assert {node.op.name for node in stacked} <= {"reshape"}  # xs, in segments


def test_what_is_not_differentiated_is_one_scan() -> None:
    args = arguments(16)
    with wg.no_grad():
        value = problem(16, 8 * CARRY)(*args)
    assert len(scans(Graph([], [value.node], 0).nodes)) <= 1


def test_slots_are_carried_through_segments() -> None:
    wg.manual_seed(0)

    def noisy(h: Any) -> Any:
        return wg.scan(lambda h, _: (wg.sin(h) + wg.random.uniform(()), h), h, length=10, memory=50)

    found = wg.value_and_grad(lambda h: noisy(h)[0])(0.3)
    wg.manual_seed(0)
    h, slope = 0.3, 1.0
    for _ in range(10):
        h, slope = np.sin(h) + wg.random.uniform(()).item(), slope * np.cos(h)
    np.testing.assert_allclose([each.item() for each in found], [h, slope], rtol=1e-5)


def test_memory_is_a_size() -> None:
    with pytest.raises(wg.errors.ArgumentError, match="scan: memory must be a number of bytes"):
        problem(4, "much")(*arguments(4))
