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
from wengert.core.dtypes import bfloat16
from wengert.core.graph import Graph, Node
from wengert.kernels.matmul import cuda as matmul_cuda
from wengert.ops.activation import gelu
from wengert.ops.contract import matmul
from wengert.ops.core import placeholder
from wengert.plan import memory
from wengert.plan.cuda_codegen import Candidate, Candidates, CudaCodegen
from wengert.plan.epilogues import ARGUMENT, BIAS, GELU, SLOPE, matmul_epilogues, with_operands_first
from wengert.plan.lowering import inlines
from wengert.plan.memory import PRIVATE

pytestmark = [
    pytest.mark.skipif(compiler() is None, reason="there is no C++ compiler to emulate kernels with"),
    pytest.mark.usefixtures("gpu"),
]

N = 8


@pytest.fixture(autouse=True)
def library(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that carries out all matrix products."""
    monkeypatch.setattr(blas, "candidates", lambda s, device: [FakeLibrary((s.m, s.n, s.k))])
    monkeypatch.setattr(matmul_cuda, "is_small", lambda node: False)


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
        np.testing.assert_array_equal(self.w.detach().numpy(), self.expected)

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
    assert (slots in step.program.fixed) is (moves > 4)


def test_arguments_and_results_may_move_at_every_call() -> None:
    step = Step()
    for seed in range(9):
        step(data(seed))
    assert step.program.fixed
    assert step.step._newest("a test").fast_path is not None


def test_results_that_take_turns_have_a_graph_each() -> None:
    step, x = wg.compile(lambda x: x @ x), data(1)
    for _ in range(14):
        result = step(x)  # while the one before is held
        np.testing.assert_allclose(result.numpy(), x.numpy() @ x.numpy(), rtol=1e-5, atol=1e-5)
    assert not step._newest("a test").program.fixed
    assert len({id(graphs[0]) for graphs in step._newest("a test").fast_path.replay.graphs.values()}) == 2


class WorkingLibrary(FakeLibrary):
    """One that works in memory besides: much of it for square matrices."""

    def __init__(self, shape: tuple[int, int, int]) -> None:
        super().__init__(shape)
        self.workspace = 2 * PRIVATE if shape[0] == shape[1] else 300

    def enqueue(self, stream: int, pointers: list[int], workspace: int) -> None:
        """As the other's, and leave something there."""
        super().enqueue(stream, [*pointers, workspace], workspace)

    def multiply(self, pointers: list[int]) -> None:
        *operands, workspace = pointers
        super().multiply(operands)
        ctypes.memset(workspace, 0xFF, self.workspace)


@pytest.mark.parametrize("apart", [-1, memory.APART])
def test_nothing_else_ever_lies_in_a_small_workspace(monkeypatch: pytest.MonkeyPatch, apart: int) -> None:
    monkeypatch.setattr(memory, "APART", apart)
    monkeypatch.setattr(blas, "candidates", lambda s, device: [WorkingLibrary((s.m, s.n, s.k))])

    def chain(x: wg.Tensor, narrow: wg.Tensor, wide: wg.Tensor) -> wg.Tensor:
        for _ in range(3):
            x = wg.sin(wg.sin(x @ x) @ narrow @ wide)
        return x

    arrays = _arrays((N, N), (N, N // 2), (N // 2, N))
    compiled = wg.compile(chain)
    for _ in range(3):
        found = compiled(*(wg.tensor(a, device="cuda") for a in arrays))
    np.testing.assert_allclose(found.numpy(), chain(*map(wg.tensor, arrays)).numpy(), rtol=1e-2, atol=1e-2)
    made = compiled._newest("a test").program
    sizes = {(k, "workspace"): s.library.candidate.workspace for k, s in enumerate(made.steps) if s.library is not None}
    small = {key for key, size in sizes.items() if size <= PRIVATE}
    assert len(sizes) == 9 and len(small) == 3
    assert made.plan.private == (small if apart < 0 else set(sizes))
    sizes |= {node: node.size * node.dtype.itemsize for node in made.plan.arena.offsets if isinstance(node, Node)}
    for key in made.plan.private:
        start, end = made.plan.arena.offsets[key], made.plan.arena.offsets[key] + sizes[key]
        others = [(at, at + sizes[other]) for other, at in made.plan.arena.offsets.items() if other != key]
        assert all(last <= start or end <= first for first, last in others)
    (piece,) = made.pieces
    begin = made.driver.arena(0)
    assert {*piece.graph.own} == {(begin + made.plan.arena.offsets[key], sizes[key]) for key in made.plan.private}


class HalfLibrary(FakeLibrary):
    """One for bfloat16 that finishes products."""

    def __init__(self, shape: blas.ProductShape) -> None:
        super().__init__((shape.m, shape.n, shape.k))
        self.name = ", ".join(["fake", *shape.epilogue])
        self.epilogue, self.beside, self.is_transposed = (
            shape.epilogue,
            shape.beside,
            (shape.transposed_x, shape.transposed_y),
        )

    def multiply(self, pointers: list[int]) -> None:
        m, n, k = self.shape
        first, second = ((k, m) if self.is_transposed[0] else (m, k)), ((n, k) if self.is_transposed[1] else (k, n))
        shapes = [first, second, *([(n,)] if BIAS in self.epilogue else []), *([(m, n)] if self.beside else []), (m, n)]
        memory = [(ctypes.c_char * (2 * math.prod(s))).from_address(p) for p, s in zip(pointers, shapes)]
        x, y, *others, z = (np.frombuffer(held, bfloat16).reshape(s) for held, s in zip(memory, shapes))
        total = _wide(x.T if self.is_transposed[0] else x) @ _wide(y.T if self.is_transposed[1] else y)
        if BIAS in self.epilogue:
            total += _wide(others[0])
        if ARGUMENT in self.epilogue:
            others[-1][...] = total
        if GELU in self.epilogue:
            total = _gelu(total)
        if SLOPE in self.epilogue:
            at = _wide(others[-1]).astype(np.float64)
            total *= (_gelu(at + 1e-4) - _gelu(at - 1e-4)) / 2e-4
        z[...] = total


def _wide(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float32)


def _gelu(x: np.ndarray) -> np.ndarray:
    return x / (1 + np.exp(-math.sqrt(8 / math.pi) * (x + 0.044715 * x**3)))


def _tanh_gelu(x: wg.Tensor) -> wg.Tensor:
    return wg.gelu(x, approximate="tanh")


def _compare(function: Any, *arrays: np.ndarray) -> list[tuple[str, ...]]:
    """Run a function in mixed precision on the GPU and on the host; how products were finished, in their order."""

    def mixed(*values: wg.Tensor) -> Any:
        with wg.autocast():
            return function(*values)

    on_gpu = wg.compile(mixed)
    for _ in range(3):
        found = on_gpu(*(wg.tensor(a, device="cuda") for a in arrays))
    want = mixed(*map(wg.tensor, arrays))
    for one, other in zip(wg.tree.flatten(found)[0], wg.tree.flatten(want)[0]):
        np.testing.assert_allclose(one.to(wg.float32).numpy(), other.to(wg.float32).numpy(), rtol=0.03, atol=0.1)
    steps = on_gpu._newest("a test").program.steps
    return [
        step.library.candidate.epilogue
        for step in steps
        if step.library is not None and step.library.candidate.epilogue
    ]


@pytest.fixture
def finishing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A library that finishes products, and was timed."""
    monkeypatch.setattr(blas, "candidates", lambda s, device: [HalfLibrary(s)])
    monkeypatch.setattr(CudaCodegen, "_was_timed", lambda *_: True)


def _arrays(*shapes: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.normal(size=shape).astype(np.float32) for shape in shapes]


@pytest.mark.usefixtures("finishing")
@pytest.mark.parametrize(
    ("then", "finished"),
    [
        (lambda product, sum, w: sum @ w, [(BIAS,)]),
        (lambda product, sum, w: (sum @ w, sum * 2), []),  # one loop makes both
        (lambda product, sum, w: (sum @ w, product), []),  # the product is wanted, too
        (lambda product, sum, w: (w[:1, :1] @ w[:1, :1] + w[1:2, :1] @ w[:1, :1]) @ w[:1], []),  # two products
        (lambda product, sum, w: wg.relu(sum) @ w, []),  # NaN must stay what it is
        (lambda product, sum, w: (_tanh_gelu(sum) @ w, sum.sum()), []),  # a loop reads the sum
        (lambda product, sum, w: _tanh_gelu(sum) * 2, []),  # a loop reads the result
        (lambda product, sum, w: _tanh_gelu(sum) @ w, [(BIAS, GELU)]),
        (lambda product, sum, w: _tanh_gelu(product) @ w, [(GELU,)]),
        (lambda product, sum, w: (_tanh_gelu(sum) @ w, sum @ w), [(BIAS, GELU, ARGUMENT)]),
        (lambda product, sum, w: (_tanh_gelu(product) @ w, product @ w), [(GELU, ARGUMENT)]),
        (lambda product, sum, w: wg.gelu(sum) @ w, []),  # the exact one
        (lambda product, sum, w: (_tanh_gelu(sum) @ w, wg.exp(sum)), []),
    ],
)
def test_it_finishes_a_product_that_is_stored(then: Any, finished: list[tuple[str, ...]]) -> None:
    def function(x: wg.Tensor, w: wg.Tensor, b: wg.Tensor) -> Any:
        product = x @ w
        return then(product, product + b.to(wg.bfloat16), w)

    assert _compare(function, *_arrays((6, N), (N, N), (N,))) == finished


@pytest.mark.usefixtures("finishing")
@pytest.mark.parametrize("shape", [(6, N), (2, 3, N)])
@pytest.mark.parametrize(
    ("activation", "finished"),
    [
        (_tanh_gelu, [(BIAS, GELU, ARGUMENT), (SLOPE,)]),
        (wg.relu, []),
        (wg.gelu, []),
        (lambda x: _tanh_gelu(x * 2), []),
    ],
)
def test_it_finishes_the_products_of_a_training_step(
    activation: Any, finished: list[tuple[str, ...]], shape: tuple[int, ...]
) -> None:
    def step(x: wg.Tensor, w: wg.Tensor, b: wg.Tensor, v: wg.Tensor, weight: wg.Tensor) -> Any:
        def loss(w: wg.Tensor, b: wg.Tensor, v: wg.Tensor) -> wg.Tensor:
            return (wg.linear(activation(wg.linear(x, w, b)), v).to(wg.float32) * weight).sum()

        return wg.value_and_grad(loss, argnums=(0, 1, 2))(w, b, v)

    arrays = _arrays(shape, (2 * N, N), (2 * N,), (3 * N, 2 * N), (3 * N,))
    assert _compare(step, *(array * 0.5 for array in arrays)) == finished


def _mlp(x: wg.Tensor, w: wg.Tensor, b: wg.Tensor, v: wg.Tensor) -> Any:
    def loss(w: wg.Tensor) -> wg.Tensor:
        return wg.linear(_tanh_gelu(wg.linear(x, w, b)), v).to(wg.float32).sum()

    return wg.value_and_grad(loss)(w)


def test_what_may_not_pay_is_done_where_it_was_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blas, "candidates", lambda s, device: [HalfLibrary(s)])
    arrays = [array * 0.5 for array in _arrays((6, N), (2 * N, N), (2 * N,), (3 * N, 2 * N))]
    assert _compare(_mlp, *arrays) == []
    asked: list[Any] = []
    monkeypatch.setattr(CudaCodegen, "_was_timed", lambda self, node: not asked.append(node))
    assert _compare(_mlp, *arrays) == [(BIAS, GELU, ARGUMENT), (SLOPE,)]
    assert asked


@pytest.mark.usefixtures("finishing")
def test_a_bias_may_be_added_and_gelu_left_to_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    of, name = Candidates.of, f"fake, {BIAS}, then loops"

    def wanted_first(self: Candidates, group: Any) -> list[Candidate]:
        return sorted(of(self, group), key=lambda candidate: candidate.name != name)

    monkeypatch.setattr(Candidates, "of", wanted_first)
    arrays = [array * 0.5 for array in _arrays((6, N), (2 * N, N), (2 * N,), (3 * N, 2 * N))]
    assert _compare(_mlp, *arrays) == [(BIAS,), (SLOPE,)]  # and without: that with gelu and its argument


def test_what_finishes_a_product_comes_before_it() -> None:
    x, w, given = (placeholder(shape, bfloat16, "cuda:0") for shape in ((6, N), (N, N), (N,)))
    product = matmul(x, w)
    bias = given * 2
    total = product + bias
    graph = Graph([x, w, given], [matmul(total, w)])
    found = matmul_epilogues(graph, inlines, lambda node: node.sources, lambda node, how: True)
    assert [(p, finish.how, finish.result, finish.operands) for p, finish in found.items()] == [
        (product, (BIAS,), total, (bias,))
    ]
    nodes = with_operands_first(graph, found).nodes
    assert sorted(nodes, key=graph.nodes.index) == graph.nodes
    assert nodes.index(bias) < nodes.index(product) < nodes.index(total)


def test_what_a_library_cannot_do_is_left() -> None:
    x, w, bias = (placeholder(shape, bfloat16, "cuda:0") for shape in ((6, N), (N, N), (N,)))
    total = matmul(x, w) + bias
    graph = Graph([x, w, bias], [matmul(gelu(total, "tanh"), w), matmul(total, w)])
    asked: list[tuple[str, ...]] = []

    def can(node: Any, how: tuple[str, ...]) -> bool:
        asked.append(how)
        return how == (BIAS,)

    found = matmul_epilogues(graph, inlines, lambda node: node.sources, can)
    assert [finish.how for finish in found.values()] == [(BIAS,)]
    assert asked == [(BIAS, GELU, ARGUMENT), (BIAS,)]
