"""Compiled steps that find everything in its place, on an emulated GPU: what they skip must not show."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import wengert as wg
from tests.backends.emulated import EmulatedDriver
from tests.descent import HOLDS, Descent
from tests.kernels.emulator import compiler
from wengert.runtime.static.fast_path import FastPath

pytestmark = [
    pytest.mark.counted,
    pytest.mark.skipif(compiler() is None, reason="there is no C++ compiler to emulate kernels with"),
    pytest.mark.usefixtures("gpu"),
]


@pytest.fixture
def descent() -> Descent:
    """One that repeats."""
    found = Descent("cuda")
    for _ in range(5):
        found()
    assert found.repeats
    return found


def test_a_repeat_takes_no_memory_from_the_driver(descent: Descent, gpu: EmulatedDriver) -> None:
    x = wg.tensor(np.full(3, 0.25, np.float32), device="cuda")
    losses = [descent.step(x) for _ in range(2)]
    blocks = set(gpu.blocks)
    for i in range(4):
        losses[i % 2] = descent.step(x)
    assert len(set(gpu.blocks) - blocks) <= 1  # two losses are held while a third is made


def test_what_is_checked_is_no_repeat(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wg.config, "check", True)
    checked = Descent("cuda")
    for _ in range(5):
        checked()
    assert not checked.repeats


def test_the_arguments_may_move(descent: Descent) -> None:
    held = [descent(scale) for scale in (0.5, 0.125, 0.25)]
    assert len({loss.item() for loss in held}) == 3


@pytest.mark.parametrize("hold", HOLDS.values(), ids=HOLDS)
def test_what_somebody_holds_is_not_overwritten(hold: Callable[[Descent], wg.Tensor], descent: Descent) -> None:
    before = hold(descent).detach().numpy().copy()
    held = hold(descent)
    descent()
    descent()
    assert (held.detach().numpy() == before).all()
    del held
    for _ in range(3):
        descent()
    assert descent.repeats


def test_memory_that_another_library_was_shown_is_not_overwritten(descent: Descent, gpu: EmulatedDriver) -> None:
    shown = np.zeros(3, np.float32)
    place, before = descent.w.__cuda_array_interface__["data"][0], descent.w.detach().numpy().copy()
    descent()
    descent()
    gpu.download(shown, place)
    assert (shown == before).all()


def test_a_gradient_on_another_device_is_no_place_for_the_next(descent: Descent) -> None:
    descent.w.grad = wg.tensor(np.zeros(3, np.float32), copy=False)
    for _ in range(3):
        descent()
        assert descent.w.grad.device == "cuda:0"


def test_indices_are_checked_in_every_repeat() -> None:
    table = wg.arange(4, device="cuda")
    taken = wg.compile(lambda i: table[i] * 2)
    for k in range(16):
        index = wg.tensor([k % 2 * 9], device="cuda")
        if k % 2 == 0:
            assert taken(index).item() == 0
            continue
        with pytest.raises(wg.errors.OutOfRangeError, match="out of range"):
            taken(index).item()
    assert taken._newest("a test").fast_path is not None


def test_a_slot_that_was_assigned_is_read_afresh(descent: Descent) -> None:
    with wg.no_grad():
        descent.w.assign(wg.tensor([5.0, 6.0, 7.0], device="cuda"))
    descent.expected = np.array([5, 6, 7], np.float32)
    descent.rate.assign(wg.tensor(0.25, device="cuda"))
    for _ in range(3):
        descent(rate=0.25)


def test_a_gradient_that_was_taken_away_comes_back(descent: Descent) -> None:
    descent.w.grad = None
    descent()
    descent.w.grad = wg.ones((3,), device="cuda")
    descent()


def test_a_slot_that_is_gone_is_noticed() -> None:
    slots = [wg.tensor(2.0, device="cuda")]

    @wg.compile
    def scaled(x: wg.Tensor) -> wg.Tensor:
        return x * slots[0]

    x = wg.ones((3,), device="cuda")
    for _ in range(5):
        assert scaled(x).tolist() == [2.0] * 3
    slots[0] = wg.tensor(3.0, device="cuda")
    assert scaled(x).tolist() == [3.0] * 3


def test_calls_with_other_arguments_are_no_repeats() -> None:
    w = wg.tensor([1.0, 2.0], device="cuda")
    x = wg.ones((2,), device="cuda")

    @wg.compile
    def scaled(*parts: wg.Tensor | list[wg.Tensor]) -> wg.Tensor:
        first = parts[0][0] if parts else w * 5.0
        return w * first

    for _ in range(5):
        assert scaled([x]).tolist() == [1.0, 2.0]
    assert scaled._newest("a test").fast_path is not None
    assert scaled().tolist() == [5.0, 20.0]


def _put_row(cache: wg.Tensor, row: wg.Tensor, place: wg.Tensor) -> None:
    cache[place] = row


def _add_row(cache: wg.Tensor, row: wg.Tensor, place: wg.Tensor) -> None:
    cache.assign(wg.index_add(cache, 0, place, row))


def _put_own_row(cache: wg.Tensor, row: wg.Tensor, place: wg.Tensor) -> None:
    cache[place] = cache[0:1] + row


def _put_slice(cache: wg.Tensor, row: wg.Tensor, place: wg.Tensor) -> None:
    cache[2:3] = row


@pytest.mark.parametrize("write", [_put_row, _add_row, _put_own_row, _put_slice])
def test_a_cache_is_written_where_it_is(write: Callable[[wg.Tensor, wg.Tensor, wg.Tensor], None]) -> None:
    def started(device: str) -> tuple[wg.Tensor, wg.Tensor]:
        return wg.ones((4, 3), device=device), wg.tensor([0], device=device)

    (cache, place), (expected, place_there) = started("cuda"), started("cpu")

    def step(row: wg.Tensor, cache: wg.Tensor = cache, place: wg.Tensor = place) -> wg.Tensor:
        write(cache, row, place)
        place.assign((place + 1) % 4)
        return cache.sum()

    compiled = wg.compile(lambda row: step(row))
    for i in range(9):
        row = np.full((1, 3), i + 2, np.float32)
        held = cache.detach() if i == 6 else None
        before = expected.numpy().copy()
        assert compiled(wg.tensor(row, device="cuda")).item() == step(wg.tensor(row), expected, place_there).item()
        np.testing.assert_array_equal(cache.numpy(), expected.numpy())
        assert held is None or (held.numpy() == before).all()
    replay = compiled._newest("a test")
    assert len(replay.program.plan.donated) == 2
    assert replay.fast_path is not None


def test_slots_are_looked_at_only_after_something_happened(descent: Descent, monkeypatch: pytest.MonkeyPatch) -> None:
    looks: list[bool] = []
    look = FastPath._keeps_slots
    monkeypatch.setattr(FastPath, "_keeps_slots", lambda path: looks.append(look(path)) or looks[-1])
    x = wg.tensor(np.full(3, 0.25, np.float32), device="cuda")
    x.numpy()
    descent.step(x)
    looks.clear()
    descent.step(x)
    assert looks == []
    y = x * 2.0
    descent.step(x)
    assert looks == [True]
    descent.w.grad
    descent.step(x)
    assert looks == [True, True]
    del y


def test_what_another_thread_takes_while_a_step_runs_is_not_overwritten(descent: Descent) -> None:
    replay = descent.step._newest("a test")
    x = wg.tensor(np.full(3, 0.25, np.float32), device="cuda")
    x.numpy()
    descent.step(x)
    repeat, held = replay.fast_path.replay, []
    run = repeat.run

    def interrupted(*arrays: list[object]) -> bool:
        is_done = run(*arrays)
        held.append(descent.w * 1.0)
        return is_done

    repeat.run = interrupted
    descent.step(x)
    del repeat.run
    [taken] = held
    expected = descent.w.detach().numpy().copy()
    descent.step(x)
    assert (taken.detach().numpy() == expected).all()


def test_parameters_with_one_gradient_are_steady_and_have_one_each() -> None:
    a, b = (wg.tensor([1.0, 2.0], device="cuda", requires_grad=True) for _ in range(2))

    @wg.compile
    def step(x: wg.Tensor) -> wg.Tensor:
        a.grad = b.grad = None
        loss = ((a + b) * (x * x)).sum()
        loss.backward()
        with wg.no_grad():
            a.assign(a - a.grad)
            b.assign(b - 2 * b.grad)
        return loss

    x = wg.tensor([0.5, 0.25], device="cuda")
    for _ in range(8):
        step(x)
    assert step._newest("a test").fast_path is not None
    a.grad.assign(wg.zeros(2, device="cuda"))
    assert b.grad.tolist() == [0.25, 0.0625] and a.tolist() == [-1.0, 1.5] and b.tolist() == [-3.0, 1.0]


def test_what_comes_before_a_pooling_is_updated_in_place() -> None:
    model = wg.nn.Sequential(wg.nn.BatchNorm2d(2), wg.nn.MaxPool2d(2), wg.nn.Flatten()).to("cuda")
    mean = model[0].running_mean

    @wg.compile
    def step(x: wg.Tensor) -> wg.Tensor:
        with wg.no_grad():
            return model(x).sum()

    x = wg.tensor(np.arange(32, dtype=np.float32).reshape(1, 2, 4, 4), device="cuda")
    for _ in range(6):
        step(x)
    replay = step._newest("a test")
    assert replay.fast_path is not None and len(replay.program.plan.donated) == len(replay.binding.pairs)
    expected = (1 - 0.9**6) * np.array([7.5, 23.5])
    np.testing.assert_allclose(mean.numpy(), expected, rtol=1e-5)


def test_a_bias_that_its_gradient_reads_again_is_updated_in_place() -> None:
    """The gradient of a gate's half reads the bias of the other half at every row, where that of the bias is summed."""
    rng = np.random.default_rng(0)
    rows, expected = rng.normal(size=(700, 4)).astype(np.float32), rng.normal(size=4)
    bias = wg.tensor(expected.astype(np.float32), device="cuda", requires_grad=True)

    @wg.compile
    def step(x: wg.Tensor) -> wg.Tensor:
        bias.grad = None
        y = x + bias
        loss = (wg.tanh(y[:, :2]) * wg.sigmoid(y[:, 2:])).sum()
        loss.backward()
        with wg.no_grad():
            bias.assign(bias - bias.grad / 512)
        bias.grad = None
        return loss

    x = wg.tensor(rows, device="cuda")
    for _ in range(6):
        step(x)
        y = rows + expected
        t, s = np.tanh(y[:, :2]), 1 / (1 + np.exp(-y[:, 2:]))
        expected = expected - np.hstack([(1 - t * t) * s, t * s * (1 - s)]).sum(0) / 512
    replay = step._newest("a test")
    assert replay.fast_path is not None and len(replay.program.plan.donated) == len(replay.binding.pairs) == 1
    np.testing.assert_allclose(bias.detach().numpy(), expected, rtol=1e-4)
