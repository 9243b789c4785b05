"""`wg.config.check` and `bisect`: nothing right is accused, and what is wrong is named with its line."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import wengert as wg
from tests.compiler.fuzz import joined
from tests.compiler.wide_graphs import wide_graph
from wengert.backends.checked import CheckedCpuProgram, difference, references_of
from wengert.backends.cpu.toolchain import compiler
from wengert.compiler import simplify
from wengert.compiler.passes import optimize
from wengert.core.devices import HOST_TARGET
from wengert.core.errors import CompilerError
from wengert.core.graph import Graph, now
from wengert.kernels import c
from wengert.ops import elementwise as e
from wengert.ops.core import placeholder
from wengert.plan.c_codegen import CCodegen
from wengert.plan.pipeline import planned
from wengert.runtime.debug import bisect

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C compiler to build kernels with")


@pytest.fixture
def checking() -> Iterator[None]:
    wg.config.check = True
    try:
        yield
    finally:
        wg.config.check = False


@pytest.mark.parametrize("block", range(4))
def test_right_kernels_are_not_accused(block: int) -> None:
    whole = joined([wide_graph(seed) for seed in range(5000 + 10 * block, 5010 + 10 * block)])
    graph, _ = optimize(whole.graph)
    plan = planned(graph, HOST_TARGET, CCodegen, off={"parallel_regions"})
    results = CheckedCpuProgram(plan)(whole.arrays)
    assert len(results) == len(whole.expected)


def test_a_checked_training_step_is_the_same_step(checking: None) -> None:
    model = wg.nn.Sequential(wg.nn.Linear(6, 5), wg.nn.GELU(), wg.nn.LayerNorm(5), wg.nn.Linear(5, 3))
    optimizer = wg.optim.Adam(model.parameters(), lr=0.01)
    x = wg.tensor(np.random.default_rng(0).normal(size=(4, 6)).astype(np.float32))

    @wg.compile
    def step(x: wg.Tensor) -> wg.Tensor:
        loss = wg.cross_entropy(model(x), wg.tensor([0, 1, 2, 1]))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss

    losses = [step(x).item() for _ in range(12)]
    assert losses[-1] < losses[0]


def test_a_wrong_kernel_is_named_with_its_line(checking: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(c.source.START, "sum", "1")
    with pytest.raises(CompilerError, match=r"kernel0 .*stores sum float32\[2\].*largest difference is 1 ") as caught:
        wg.compile(lambda x: wg.sum(x, axis=1))(wg.ones((2, 3)))
    assert "test_check.py" in str(caught.value) and "wg.sum(x, axis=1)" in str(caught.value)


def test_a_wrong_kernel_is_named_in_dynamic_execution(checking: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(c.source.START, "sum", "1")
    wg.config.tier = "compile"
    try:
        with pytest.raises(CompilerError, match="differs from its reference"):
            wg.sum(wg.tensor([[1.0, 2.0], [3.0, 4.0]]) * 2, axis=1).numpy()
    finally:
        wg.config.tier = "auto"


def test_a_wrong_rewrite_is_named_with_its_line(checking: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def forget_minus(node):  # type: ignore[no-untyped-def]
        return node.sources[0]

    monkeypatch.setitem(simplify._table, e.negative, (forget_minus,))
    with pytest.raises(CompilerError, match=r"in simplify by the rule forget_minus: negative") as caught:
        wg.compile(lambda x: wg.exp(-(x * 1.0 + 0.0)))(wg.ones(3))
    assert "test_check.py" in str(caught.value)


def test_bisect_finds_the_rewrite_among_many(monkeypatch: pytest.MonkeyPatch) -> None:
    def forget_minus(node):  # type: ignore[no-untyped-def]
        return node.sources[0]

    def function(x: wg.Tensor) -> wg.Tensor:
        for _ in range(10):
            x = wg.sin(x * 1.0 + 0.0)
        return -wg.exp(x)

    assert bisect.find(function, wg.ones(3)) is None
    monkeypatch.setitem(simplify._table, e.negative, (forget_minus,))
    fault = bisect.find(function, wg.ones(3))
    assert fault is not None and fault.rewrite is not None and fault.number > 10
    assert fault.rewrite.rule == "forget_minus" and "return -wg.exp(x)" in str(fault)


def test_bisect_says_when_it_is_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(c.source.START, "sum", "1")
    fault = bisect.find(lambda x: wg.sum(x), wg.ones(3))
    assert fault is not None and fault.number == 0 and "a kernel is at fault" in str(fault)


def test_a_function_that_is_off_by_its_last_bits_is_not_accused_of_what_comes_of_it() -> None:
    """An error of 4 units in the last place is multiplied by what follows, whatever the check draws."""
    for number in np.linspace(40, 50, 100):
        since, array = now(), np.array([number])
        x = placeholder((1,), wg.float64)
        (reference,) = references_of(Graph([x], [e.cos(e.multiply(e.square(x), 0.7))], since), [array])
        squared = 0.7 * (array * array)
        assert difference(np.cos(squared + 4 * np.spacing(squared)), reference) is None
        assert difference(np.cos(squared + 4000 * np.spacing(squared)), reference)
