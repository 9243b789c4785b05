"""On the emulated GPU as on the host: bad values raise, casts have one meaning, float arguments their precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.backends.emulated import EmulatedDriver
from tests.ops.casts import TARGETS, expected, numbers
from tests.ops.errors import GPU_WAYS, on_the_gpu, outcomes, replayed, there


@pytest.fixture(autouse=True)
def default_device(gpu: EmulatedDriver) -> Any:
    yield
    wg.set_default_device("cpu")


@pytest.mark.parametrize("name", ["one_hot int64", "pow int64", "quantile"])
def test_bad_values_raise_in_every_way(name: str) -> None:
    case = on_the_gpu(name)
    assert outcomes(case, case.good, GPU_WAYS) == dict.fromkeys(GPU_WAYS, "")
    for args in case.bad[:1]:
        found = outcomes(case, args, GPU_WAYS)
        assert all(found.values()), f"{case.name} of {args} raised {found}"
        assert replayed(case, args, there), f"{case.name} of {args} by the fast path"


@pytest.mark.parametrize("source", [wg.float32, wg.float64], ids=lambda d: d.name)
def test_a_float_becomes_the_nearest_integer_that_there_is(source: Any) -> None:
    array = numbers(source)
    x = wg.tensor(array, device="cuda")
    results = wg.compile(lambda x: [x.astype(target) for target in TARGETS])(x)
    for target, result in zip(TARGETS, results):
        np.testing.assert_array_equal(result.numpy(), expected(array, target))
        np.testing.assert_array_equal(x.astype(target).numpy(), expected(array, target))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_a_float_argument_meets_tensors_on_the_gpu() -> None:
    w64 = wg.tensor(np.array([1.0, 2.0]), device="cuda")
    w32 = wg.tensor([1.0, 2.0], device="cuda")
    compiled = wg.compile(lambda k: (w64 * k, w32 * k, w64 - (k * 2 + 1)))
    for k in (0.1, 16777217.0, 1e-300, 0.1, 0.3, 0.7, 1e300):
        with np.errstate(over="ignore"):
            wanted = (
                np.array([1, 2.0]) * k,
                np.array([1, 2], np.float32) * np.float32(k),
                np.array([1, 2.0]) - (k * 2 + 1),
            )
        for found, value in zip(compiled(k), wanted):
            assert found.device == "cuda:0"
            np.testing.assert_array_equal(found.numpy(), value)
    assert len(compiled.why()) == 1


@pytest.mark.parametrize("compiled", [False, True])
def test_arrays_from_outside_go_along_to_the_gpu(gpu: EmulatedDriver, compiled: bool) -> None:
    rows, more = np.array([0, 2, 0]), np.ones(3, np.float32)
    function = lambda x: x[rows] + more
    function = wg.compile(function) if compiled else function
    x = wg.tensor(np.arange(3.0, dtype=np.float32), device="cuda")
    for _ in range(3):
        np.testing.assert_array_equal(function(x).numpy(), x.numpy()[rows] + more)
        rows[1], more[0] = 1 - rows[1] // 2, more[0] + 1  # both are read anew
