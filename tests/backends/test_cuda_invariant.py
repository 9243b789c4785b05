"""Sums of invariant programs on an emulated GPU: their bits follow from their terms, whatever else a kernel does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.backends.emulated import EmulatedDriver, install
from tests.kernels.emulator import compiler
from wengert.kernels.launch import H200, RTX_2080

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C++ compiler to emulate kernels with")


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> EmulatedDriver:
    driver = EmulatedDriver()
    driver.contracts = True
    install(monkeypatch, driver)
    monkeypatch.setattr(wg.config, "tier", "auto")
    monkeypatch.setattr(wg.config, "invariant", True)
    return driver


def bits(function: Callable[..., Any], *arrays: np.ndarray) -> list[np.ndarray]:
    """What a compiled function gives on the GPU."""
    results = wg.compile(function)(*[wg.tensor(array, device="cuda") for array in arrays])
    return [result.numpy() for result in (results if isinstance(results, tuple) else (results,))]


@pytest.mark.parametrize("length", [3, 8, 33, 64, 100, 1000, 4100])
def test_rows_along_memory_and_across_it_have_the_same_sums(gpu: EmulatedDriver, length: int) -> None:
    x = np.random.default_rng(length).normal(size=(12, length)).astype(np.float32)
    (along,) = bits(lambda x: x.sum(axis=1), x)
    (across,) = bits(lambda x: x.sum(axis=0), np.ascontiguousarray(x.T))
    np.testing.assert_array_equal(along, across)
    np.testing.assert_allclose(along, x.astype(np.float64).sum(axis=1), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(12, 96), (5, 1000), (3, 8200)])
def test_what_is_beside_a_sum_does_not_show(gpu: EmulatedDriver, shape: tuple[int, int]) -> None:
    """Many sums in one kernel take other registers, other vectors and other passes."""
    rng = np.random.default_rng(0)
    x, w = rng.normal(size=shape).astype(np.float32), rng.normal(size=shape[1:]).astype(np.float32)

    def normal(x: Any) -> Any:
        return (x - x.mean(axis=1, keepdims=True)) / (x.var(axis=1, keepdims=True) + 1e-5) ** 0.5 * w_here

    w_here: Any = wg.tensor(w, device="cuda")
    scaled = [np.float32(k) * x for k in (1, 3, 5)]
    alone = [bits(normal, one)[0] for one in scaled]
    together = bits(lambda *many: tuple(map(normal, many)), *scaled)
    for one, other in zip(alone, together):
        np.testing.assert_array_equal(one, other)
    (mean,) = bits(lambda x: x.mean(axis=1), x)
    mixed = bits(lambda x: (x.mean(axis=1), x.to(wg.float64).sum(axis=1), (x > 0).sum(axis=1), wg.softmax(x, 1)), x)
    np.testing.assert_array_equal(mean, mixed[0])


def test_the_figures_of_the_device_do_not_show(gpu: EmulatedDriver) -> None:
    x = np.random.default_rng(0).normal(size=(64, 300)).astype(np.float32)
    found = []
    for properties in (RTX_2080, H200, replace(H200, sms=8)):
        gpu.properties = replace(properties, arch="75")
        found.append(bits(lambda x: (wg.softmax(x, 1), x.sum(axis=0), x.var(axis=1)), x))
    for others in found[1:]:
        for one, other in zip(found[0], others):
            np.testing.assert_array_equal(one, other)


def test_sums_that_shared_memory_has_no_room_for_are_put_together_in_turn(gpu: EmulatedDriver) -> None:
    """Those of 16 parts, in one kernel with what adds them up: 64 KB."""
    x = np.random.default_rng(0).normal(size=(16, 4096, 8)).astype(np.float32)

    def total(x: Any) -> Any:
        sums = [part[0].sum(axis=0) for part in wg.chunk(x, 16)]
        return sum(sums[1:], start=sums[0])

    (found,) = bits(total, x)
    texts = [source for source, _ in gpu.functions if "_parts[" in source]
    assert len(texts) == 1 and texts[0].count("wg_sum()") > 16 and texts[0].count("__shared__") == 8
    alone = [bits(lambda x: x.sum(axis=0), part)[0] for part in x]
    np.testing.assert_array_equal(found, sum(alone[1:], start=alone[0]))
