"""Convolutions with what follows them by cuDNN, each of its plans, against the references."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import wengert as wg
from tests.backends.test_convolution_epilogues import FITTING, Made, computed, silu
from tests.gpu.harness import gpu, placed
from wengert.backends.cuda import dnn, libraries
from wengert.backends.cuda.libraries import FUSED
from wengert.core.dtypes import bfloat16, float16, float32
from wengert.core.graph import Graph, Node
from wengert.ops.activation import relu
from wengert.plan.plan import LibraryEpilogue

pytestmark = pytest.mark.skipif(dnn.library() is None, reason="cuDNN is not installed")


class Case(NamedTuple):
    """A convolution of 64 channels, what follows it, and the arrays of what it reads."""

    node: Node
    finish: LibraryEpilogue
    arrays: dict[Node, np.ndarray[Any, Any]]

    def exact(self) -> np.ndarray[Any, Any]:
        """The result in float64."""
        first, second = (self.arrays[x].astype(float) for x in self.node.sources)
        sums = self.node.op.numpy(first, second, **self.node.attrs)
        return computed(self.node, self.finish, {**self.arrays, self.node: sums})

    def by_each_plan(self, tf32: bool = False) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
        """The result by the first plans that work, with their names."""
        shape = dnn.shape_of(self.node, tf32, self.finish.how)
        assert shape is not None
        got = np.full(self.finish.result.shape, 99, self.finish.result.dtype)
        values = [*(self.arrays[x] for x in (*self.node.sources, *self.finish.operands)), got]
        named = {str(number): value for number, value in enumerate(values)}
        for plan in islice((plan for plan in dnn.candidates(shape, "cuda:0") if plan.works), FUSED):
            with placed(named, {"workspace": plan.workspace}) as at:
                plan.enqueue(0, [at[name] for name in named], at["workspace"])
                gpu().synchronize()
                gpu().download(got, [*at.values()][len(values) - 1])
            yield plan.name, got.copy()


def case(build: Callable[[Made], Node], dtype: Any, value: Callable[..., Any]) -> Case:
    network = Made(dtype, ins=64, outs=64)
    ((node, finish),) = network.finishes(build(network)).items()
    arrays = [value(node.shape).astype(dtype) for node in network.inputs]
    wanted = [*node.sources, *finish.operands]
    return Case(node, finish, dict(zip(wanted, Graph(network.inputs, wanted)(*arrays))))


CASES = [("bfloat16", name) for name in FITTING if name != "two convolutions"]


@pytest.mark.parametrize("kind, name", [*CASES, *((kind, "a residual") for kind in ("float16", "tf32", "float32"))])
def test_every_plan_rounds_once(kind: str, name: str) -> None:
    """Small integers: the convolution's sums are exact in float32."""
    dtype = {"bfloat16": bfloat16, "float16": float16}.get(kind, float32)
    rng = np.random.default_rng(2)
    found = case(FITTING[name][0], dtype, lambda shape: rng.choice([-3, -2, -1, 1, 2, 3], shape))
    want = found.exact()
    bound = {bfloat16: 2**-8, float16: 2**-11, float32: 2**-20}[dtype]
    tried = 0
    for plan, got in found.by_each_plan(kind == "tf32"):
        tried += 1
        error = np.abs(got.astype(float) - want) / np.maximum(np.abs(want), np.abs(want).max() * 2**-6)
        assert error.max() <= bound, f"{plan}: {error.max()}"
    assert tried


@pytest.mark.parametrize("dtype", [bfloat16, float16])
def test_silu(dtype: Any) -> None:
    rng = np.random.default_rng(3)
    found = case(silu, dtype, lambda shape: rng.normal(size=shape) / 8)
    for plan, got in found.by_each_plan():
        np.testing.assert_allclose(got.astype(float), found.exact(), rtol=1e-2, atol=1e-2, err_msg=plan)


def test_what_is_not_a_number_stays_so() -> None:
    found = case(lambda m: relu(m.y), bfloat16, np.ones)
    found.arrays[found.node.sources[0]][0, 2, 2, 5] = np.nan
    want = found.exact()
    assert np.isnan(want).any() and not np.isnan(want).all()
    for plan, got in found.by_each_plan():
        np.testing.assert_array_equal(np.isnan(got.astype(float)), np.isnan(want), err_msg=plan)


def test_a_compiled_plan_is_found_by_later_processes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def refuse(graph: Any, index: int) -> None:
        raise AssertionError("it is built again")

    monkeypatch.setenv("WENGERT_CACHE", str(tmp_path))
    dnn.candidates.cache_clear()
    rng = np.random.default_rng(4)
    found = case(lambda m: relu(m.y), bfloat16, lambda shape: rng.integers(-3, 4, shape))
    first = dict(found.by_each_plan())
    dnn.candidates.cache_clear()
    monkeypatch.setattr(dnn.library().pygraph, "build_plan_at_index", refuse)
    again = dict(found.by_each_plan())
    assert first.keys() == again.keys() != set()
    for plan, got in again.items():
        np.testing.assert_array_equal(got, first[plan], err_msg=plan)
    dnn.candidates.cache_clear()


def test_a_tuned_block_computes_the_same(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WENGERT_CACHE", str(tmp_path))
    monkeypatch.setattr(libraries, "_loaded", {})
    wg.manual_seed(0)
    model = wg.nn.Sequential(
        *(wg.nn.Conv2d(64, 64, 3, padding=1, bias=False), wg.nn.BatchNorm2d(64), wg.nn.ReLU()),
        wg.nn.Conv2d(64, 64, 3, padding=1),
    ).eval()
    x = np.random.default_rng(0).standard_normal((32, 64, 28, 28), np.float32)
    with wg.no_grad():
        want = model(wg.tensor(x)).detach().numpy()
        model.to("cuda").to(wg.bfloat16)
        tensor = wg.tensor(x, device="cuda").to(wg.bfloat16)
        tuned = wg.compile(lambda x: model(x), tune=15)
        first = tuned(tensor).to(wg.float32).detach().numpy()
        np.testing.assert_allclose(first, want, rtol=0, atol=3e-2 * np.abs(want).max())
        known = libraries.choices_of(gpu())
        (key,) = (key for key in known.found if " then " in key)
        for winner in ("cuDNN #0, fused", "cuDNN #1, fused", "cuDNN #0, then loops"):
            known.replace({**known.winners(), key: winner})
            later = wg.compile(lambda x: model(x) * 1.0)
            got = later(tensor).to(wg.float32).detach().numpy()
            np.testing.assert_allclose(got, want, rtol=0, atol=3e-2 * np.abs(want).max(), err_msg=winner)
            assert winner.removesuffix(", then loops") in later.explain()
