"""What a library's calls read and write may move between calls, on an emulated GPU with a library that is none."""

from __future__ import annotations

import ctypes
import math
from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.backends.test_cuda_program import FakeLibrary
from tests.kernels.emulator import compiler
from wengert.backends.cuda import blas
from wengert.backends.cuda.biases import biases, with_biases_first
from wengert.backends.plan import inlines
from wengert.dtypes import bfloat16
from wengert.graph import Graph
from wengert.kernels import device_ops
from wengert.ops.contract import matmul
from wengert.ops.core import placeholder

pytestmark = [
    pytest.mark.skipif(compiler() is None, reason="there is no C++ compiler to emulate kernels with"),
    pytest.mark.usefixtures("gpu"),
]

N = 8


@pytest.fixture(autouse=True)
def library(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that carries out all matrix products."""
    monkeypatch.setattr(blas, "candidates", lambda s, device: [FakeLibrary((s.m, s.n, s.k))])
    monkeypatch.setattr(device_ops, "is_small", lambda node: False)


class Step:
    """y = x @ w, and w is halved; `expected` is w in NumPy. Whatever moves stays alive, so that addresses differ."""

    def __init__(self) -> None:
        self.expected = np.random.default_rng(0).normal(size=(N, N)).astype(np.float32)
        self.w = wg.tensor(self.expected, device="cuda")
        self.held: list[Any] = []
        self.step = wg.compile(self._step)

    def _step(self, x: wg.Tensor) -> wg.Tensor:
        y = x @ self.w
        self.w.assign(self.w * 0.5)
        return y

    def __call__(self, x: wg.Tensor) -> None:
        """A step, checked."""
        y = self.step(x)
        self.held.append(y)
        np.testing.assert_allclose(y.numpy(), x.numpy() @ self.expected, rtol=1e-5, atol=1e-5)
        self.expected = self.expected * np.float32(0.5)
        np.testing.assert_array_equal(self.w.numpy(), self.expected)

    def move(self) -> None:
        """Give w other memory."""
        self.held.append(self.w.detach())
        self.held[-1].numpy()
        self.expected = self.expected + 1
        self.w.assign(wg.tensor(self.expected, device="cuda"))

    @property
    def program(self) -> Any:
        """What is run."""
        return self.step._newest("a test").program


def data(seed: int) -> wg.Tensor:
    """Random numbers on the GPU."""
    x = wg.tensor(np.random.default_rng(seed).normal(size=(N, N)).astype(np.float32), device="cuda")
    x.numpy()
    return x


@pytest.mark.parametrize("moves", [1, 5])
def test_what_it_reads_and_is_overwritten_may_move(moves: int) -> None:
    step, x = Step(), data(1)
    for _ in range(3):
        step(x)
    for _ in range(moves):
        step.move()
        step(x)
        step(x)
    slots = step.program.slots[step.program.graph.inputs[1]]
    assert (slots in step.program.fixed) is (moves > 2)


def test_arguments_and_results_may_move_at_every_call() -> None:
    step = Step()
    for seed in range(9):
        step(data(seed))
    assert step.program.fixed
    assert step.step._newest("a test").repetition is not None


class HalfLibrary(FakeLibrary):
    """One for bfloat16 that adds biases."""

    def __init__(self, shape: blas.Shape) -> None:
        super().__init__((shape.m, shape.n, shape.k))
        self.bias = shape.bias

    def multiply(self, pointers: list[int]) -> None:
        m, n, k = self.shape
        shapes = [(m, k), (k, n), *([(n,)] if self.bias else []), (m, n)]
        memory = [(ctypes.c_char * (2 * math.prod(s))).from_address(p) for p, s in zip(pointers, shapes)]
        x, y, *bias, z = (np.frombuffer(held, bfloat16).reshape(s) for held, s in zip(memory, shapes))
        z[...] = x.astype(np.float32) @ y.astype(np.float32) + (bias[0].astype(np.float32) if bias else 0)


@pytest.mark.parametrize(
    ("then", "count"),
    [
        (lambda product, sum, w: sum @ w, 1),
        (lambda product, sum, w: (sum @ w, sum * 2), 0),  # one loop makes both
        (lambda product, sum, w: wg.relu(sum) @ w, 0),  # a loop reads the sum, and adds on its way
        (lambda product, sum, w: (sum @ w, product), 0),  # the product is wanted, too
        (lambda product, sum, w: (w[:1, :1] @ w[:1, :1] + w[1:2, :1] @ w[:1, :1]) @ w[:1], 0),  # two products
    ],
)
def test_it_adds_the_bias_to_a_product_that_is_stored(then: Any, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blas, "candidates", lambda s, device: [HalfLibrary(s)])
    rng = np.random.default_rng(0)
    x, w, b = (rng.normal(size=shape).astype(np.float32) for shape in ((6, N), (N, N), (N,)))

    def function(x: wg.Tensor, w: wg.Tensor, b: wg.Tensor) -> Any:
        with wg.autocast():
            product = x @ w
            return then(product, product + b.to(wg.bfloat16), w)

    on_gpu = wg.compile(function)
    for _ in range(3):
        found = on_gpu(*(wg.tensor(a, device="cuda") for a in (x, w, b)))
    want = function(*map(wg.tensor, (x, w, b)))
    for one, other in zip(wg.tree.flatten(found)[0], wg.tree.flatten(want)[0]):
        np.testing.assert_allclose(one.to(wg.float32).numpy(), other.to(wg.float32).numpy(), rtol=0.02, atol=0.1)
    program = on_gpu._newest("a test").program
    assert sum(step.vendor is not None and step.vendor.bias for step in program.steps) == count


def test_a_bias_that_is_made_after_its_product_comes_first() -> None:
    x, w, given = (placeholder(shape, bfloat16, "cuda:0") for shape in ((6, N), (N, N), (N,)))
    product = matmul(x, w)
    bias = given * 2
    total = product + bias
    graph = Graph([x, w, given], [matmul(total, w)])
    found = biases(graph, inlines, lambda node: node.sources)
    assert found == {product: bias}
    nodes = with_biases_first(graph, found).nodes
    assert sorted(nodes, key=graph.nodes.index) == graph.nodes
    assert nodes.index(bias) < nodes.index(product) < nodes.index(total)
