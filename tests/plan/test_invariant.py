"""Plans for a GPU under `config.invariant`: what an example goes through is the same in batches of any size.

No GPU is needed: the launches are compared. Sizes that grow with the batch are taken out of the kernels' texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.replay.adapt import record
from tests.runtime.invariant_cases import CASES, Case
from wengert.core.dtypes import bfloat16, float32
from wengert.kernels.ir.loops import Accumulate
from wengert.kernels.ir.transforms import statements_of
from wengert.kernels.launch import EXACT, H200, RTX_2080, DeviceProperties
from wengert.plan.plan import Plan, Step
from wengert.runtime.memory.elsewhere import plan_elsewhere

FEW, MANY = 67, 1009  # primes: a number in a text that they divide is one of the batch


@pytest.fixture(autouse=True)
def _invariant() -> Iterator[None]:
    wg.config.tier = "compile"
    wg.config.invariant = True
    yield
    wg.config.invariant = False


def plan(function: Any, arrays: tuple[Any, ...], properties: DeviceProperties = H200) -> Plan:
    """The plan of a function on a GPU that is not here."""
    compiled = wg.compile(function)
    recorded = record(lambda: compiled(*map(wg.tensor, arrays)))
    return plan_elsewhere(recorded.graph, recorded.pairs, "cuda:0", properties)


def way(plan: Plan, batch: int) -> list[tuple[Any, ...]]:
    """What a plan launches, without the sizes that are the batch's."""

    def without(number: re.Match[str]) -> str:
        value = int(number[0])
        for end in (0, 1):  # a count, or the last of so many
            if value and (value + end) % batch == 0:
                return f"{(value + end) // batch} * batch - {end}"
        return number[0]

    found: list[tuple[Any, ...]] = []
    for step in plan.steps:
        for launch in step.launches:
            entry = re.sub(r"_[0-9a-f]{10}$", "", launch.entry)
            if is_elementwise(step):  # an element is computed in one way, whichever thread does it
                found.append((entry, None, None, ""))
                continue
            text = re.sub(r"//.*", "", launch.source).replace(launch.entry, entry)
            found.append((entry, launch.block, launch.shared, re.sub(r"\d+", without, text)))
    return found


def is_elementwise(step: Step) -> bool:
    return step.kernel is not None and not any(isinstance(s, Accumulate) for s in statements_of(step.kernel))


def forward(case: Case, batch: int) -> Plan:
    return plan(case.make(), case.draw(np.random.default_rng(0), batch))


@pytest.mark.parametrize("name", CASES)
def test_the_launches_of_an_example_do_not_depend_on_its_batch(name: str) -> None:
    few, many = (way(forward(CASES[name], batch), batch) for batch in (FEW, MANY))
    assert [one[:3] for one in few] == [one[:3] for one in many]
    for a, b in zip(few, many):
        assert a[3] == b[3]


@pytest.mark.parametrize("dtype", [float32, bfloat16])
@pytest.mark.parametrize("properties", [H200, RTX_2080])
def test_a_product_has_one_tile_and_no_parts(dtype: Any, properties: DeviceProperties) -> None:
    tiles = set()
    for rows in (1, 7, 64, 4096):
        x, w = np.zeros((rows, 768), np.float32), np.zeros((768, 3072), np.float32)
        made = plan(lambda x, w: x.to(dtype) @ w.to(dtype), (x, w), properties)
        products = [launch for step in made.steps for launch in step.launches if "gemm" in launch.source]
        tiles.add(tuple((one.entry, one.block, one.shared, one.why.partition(" by ")[2]) for one in products))
    assert len(tiles) == 1
    assert "parts" not in str(tiles)


def test_without_the_setting_it_does_depend() -> None:
    wg.config.invariant = False
    few, many = (way(forward(CASES["wide linear"], batch), batch) for batch in (FEW, MANY))
    assert [one[:3] for one in few] != [one[:3] for one in many]


def test_kernels_are_compiled_without_contraction() -> None:
    """In the plan itself, so that what is compiled is what is launched; results in the place of operands, too."""
    x = np.zeros((64, 64), np.float32)
    made = plan(lambda x, y: (x @ y, wg.exp(x) * y + 1, wg.softmax(x)), (x, x))
    texts = [launch.source for step in made.steps for launch in step.launches]
    assert texts and all(text.startswith(EXACT) for text in texts)
    wg.config.invariant = False
    assert not any(launch.source.startswith(EXACT) for step in plan(wg.exp, (x,)).steps for launch in step.launches)


def orders(plan: Plan) -> set[str]:
    """How the reductions of a plan are shared among threads, without how many rows or columns there are."""
    whys = [launch.why for step in plan.steps for launch in step.launches]
    own = [why for why in whys if "threads a row" in why or "columns of" in why]
    return {re.sub(r"^\d+ |, \d+ KB of it in shared memory", "", why) for why in own}


@pytest.mark.parametrize("dtype", [float32, bfloat16])
@pytest.mark.parametrize("properties", [H200, RTX_2080])
@pytest.mark.parametrize("length", [10, 256, 768, 3000, 50257])
def test_what_else_a_kernel_computes_does_not_show(length: int, properties: DeviceProperties, dtype: Any) -> None:
    """Two parts of a batch may be in one kernel here, and in two on two ranks."""

    def norm(x: Any) -> Any:
        wide = x.to(dtype).to(float32)
        wide = wide - wide.mean(-1, keepdims=True)
        return (wide / wg.sqrt((wide * wide).mean(-1, keepdims=True) + 1e-5)).to(dtype)

    def sums(x: Any) -> Any:
        return (x.to(dtype) * 2).sum(0), (x.to(dtype).to(float32) + 1).sum(0)

    x = np.zeros((64, length), np.float32)
    for alone, both in (
        (norm, lambda x, y: norm(x) + norm(y) * norm(x)),
        (sums, lambda x, y: (*sums(x), *sums(x * y))),
    ):
        one, two = orders(plan(alone, (x,), properties)), orders(plan(both, (x, x), properties))
        assert one and sorted(one) == sorted(two)
