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
from wengert.kernels.launch import H200, RTX_2080, DeviceProperties
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
