"""Loops and branches on a GPU whose bodies are plans, over the emulated driver: unrolled, repeated, stepped."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.backends.emulated import EmulatedDriver
from tests.backends.loop_programs import PROGRAMS, XS, W, agree, as_plans, explained, results
from wengert.core import tree
from wengert.core.errors import ComputationError
from wengert.plan import device_scans


@pytest.fixture(autouse=True)
def plans(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bodies of these sizes would be kernels."""
    as_plans(monkeypatch)


LENGTHS = {"unrolled": (1024, 64), "repeated": (0, 8)}


@pytest.fixture(params=LENGTHS)
def length(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Whether scans are written out, or repeated in trips of two to eight steps."""
    unrolled, trip = LENGTHS[request.param]
    monkeypatch.setattr(device_scans, "UNROLLED", unrolled)
    monkeypatch.setattr(device_scans, "TRIP", trip)
    return str(request.param)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_loop_on_a_gpu_is_the_loop_on_the_host(gpu: EmulatedDriver, length: str, name: str) -> None:
    program = PROGRAMS[name]
    agree(results(program, "cuda"), results(program, "cpu", 1, compiled=False))


@pytest.mark.parametrize("name", [name for name in PROGRAMS if name.startswith(("while", "true", "nested"))])
def test_a_loop_that_is_not_compiled(gpu: EmulatedDriver, name: str) -> None:
    program = PROGRAMS[name]
    agree(results(program, "cuda", 1, compiled=False), results(program, "cpu", 1, compiled=False))


@pytest.mark.parametrize("name", PROGRAMS)
def test_nothing_of_a_loop_is_left_to_the_host(gpu: EmulatedDriver, name: str) -> None:
    assert "on the host, by its reference" not in explained(PROGRAMS[name], "cuda")


def test_a_loop_that_exceeds_its_steps_raises_when_somebody_looks(gpu: EmulatedDriver) -> None:
    def doubled(x: Any) -> Any:
        return wg.while_loop(lambda h: wg.sum(h @ h) > 0, lambda h: h @ h + 1, x, max_steps=3)

    x = wg.ones((2, 2), device="cuda")
    for function in (wg.compile(doubled), doubled):
        for _ in range(3):
            found = function(x)
            with pytest.raises(ComputationError, match="still holds after 3 steps"):
                found.numpy()
        assert np.isfinite(x.numpy()).all()  # the next look finds nothing


def test_a_loop_with_an_op_of_the_host_goes_step_by_step(gpu: EmulatedDriver) -> None:
    def solved(xs: Any, w: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            return wg.tanh(wg.linalg.inv(w + 8 * wg.eye(8, device=w.device)) @ h.mT).mT + x, wg.sum(h)

        return wg.scan(step, xs[0], xs)

    function = wg.compile(solved)
    arrays = [wg.tensor(array, device="cuda") for array in (XS, W)]
    for _ in range(3):
        last, sums = function(*arrays)
    expected = solved(wg.tensor(XS), wg.tensor(W))
    agree([last.numpy(), sums.numpy()], [one.numpy() for one in expected])


def test_values_that_change_between_calls_are_read_anew(gpu: EmulatedDriver, length: str) -> None:
    """A graph keeps the addresses that a loop had, so what lies elsewhere is brought there."""
    function = wg.compile(PROGRAMS["rnn"].function)
    rng = np.random.default_rng(1)
    held = []
    for _ in range(6):
        arrays = [rng.normal(size=array.shape).astype(np.float32) * 0.3 for array in PROGRAMS["rnn"].arrays]
        given = [wg.tensor(array, device="cuda") for array in arrays]
        held.append((given, function(*given), PROGRAMS["rnn"].function(*map(wg.tensor, arrays))))
    for _, found, expected in held:
        agree([x.numpy() for x in found], [x.numpy() for x in expected])


def test_slots_that_a_step_assigns(gpu: EmulatedDriver, length: str) -> None:
    totals = {device: wg.zeros((8,), device=device) for device in ("cpu", "cuda")}

    def run(xs: Any, w: Any, device: str) -> Any:
        def step(h: Any, x: Any) -> Any:
            h = wg.tanh(h @ w + x)
            totals[device].assign(totals[device] + wg.sum(h, axis=0))
            return h, None

        return wg.scan(step, xs[0], xs)[0]

    function = wg.compile(run)
    for _ in range(3):
        for device in totals:
            function(wg.tensor(XS, device=device), wg.tensor(W, device=device), device)
    agree([totals["cuda"].numpy()], [totals["cpu"].numpy()])


def test_a_generator_s_counter_stays_on_the_host(gpu: EmulatedDriver) -> None:
    """It is known without the loop where it ends, so no value comes down for it."""
    xs, w = wg.tensor(XS, device="cuda"), wg.tensor(W, device="cuda")

    @wg.compile
    def noisy(xs: Any) -> Any:
        return wg.scan(lambda h, x: (wg.tanh(h @ w) + wg.random.normal((4, 8), device="cuda"), None), xs[0], xs)[0]

    noisy(xs)
    before = wg.cuda.transfers()["downloads"]
    results = [noisy(xs) for _ in range(3)]
    assert wg.cuda.transfers()["downloads"] == before
    assert (results[0].numpy() != results[1].numpy()).any()


def test_checked_profiled_and_described(gpu: EmulatedDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    """What looks into programs knows loops: every mode of running, and every report."""
    program = PROGRAMS["nested"]
    arrays = [wg.tensor(array, device="cuda") for array in program.arrays]
    expected = results(program, "cpu", 1, compiled=False)
    function = wg.compile(program.function)
    for _ in range(3):
        function(*arrays)
    assert "scan of 7 steps: 7 steps, one after the other" in function.explain()
    assert "cond: a graph runs one of its branches" in function.explain()
    assert "while_loop: a graph repeats its step and its condition" in function.explain()
    assert "scan" in function.explain("arena")
    with wg.profile() as profile:
        found = function(*arrays)
    assert any("scan" in name for name in profile.rows())
    agree([x.numpy() for x in tree.flatten(found)[0]], expected)
    assert function.memory() is not None
    monkeypatch.setattr(wg.config, "check", True)
    checked = wg.compile(program.function)
    for _ in range(3):
        found = checked(*arrays)
    agree([x.numpy() for x in tree.flatten(found)[0]], expected)


def test_a_body_s_kernels_are_part_of_a_certificate(gpu: EmulatedDriver) -> None:
    program = PROGRAMS["true"]
    function = wg.compile(program.function)
    function(*[wg.tensor(array, device="cuda") for array in program.arrays])
    assert "cond" in str(function.certificate())
