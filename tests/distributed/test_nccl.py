"""Collectives on GPUs: NCCL's calls in programs of two and three ranks, over a fake NCCL and emulated GPUs."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.backends.emulated import install
from tests.distributed.cases import COLLECTIVES
from tests.distributed.fake_nccl import ByRank, FakeBoard, Net, RankDriver, engines, on_gpu
from tests.distributed.threaded import run_ranks
from tests.kernels.emulator import compiler
from wengert import distributed as dist
from wengert.backends.comm.launches import LOOK, Launches
from wengert.backends.cuda import blas, dnn, dnn_attention, interpret
from wengert.core import communication, devices
from wengert.core.communication import current, tree_sum
from wengert.core.graph import ancestors
from wengert.core.mesh import Mesh
from wengert.plan.plan import Start, Wait

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C++ compiler to emulate kernels with")


class Ranks:
    """So many ranks, each with an emulated GPU."""

    def __init__(self, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
        for module in (blas, dnn, dnn_attention):
            monkeypatch.setattr(module, "library", lambda: None)
        blas.candidates.cache_clear()
        self.size, self.mesh = size, Mesh(data=size)
        self.group = self.mesh["data"]
        self.drivers = [RankDriver(rank) for rank in range(size)]
        for rank, driver in enumerate(self.drivers):
            install(monkeypatch, driver, f"cuda:{rank}")
        self.engines = engines(self.drivers)
        monkeypatch.setattr(current, "on_device", ByRank(self.engines))
        monkeypatch.setattr(communication, "watcher", None)
        monkeypatch.setattr(wg.config, "tier", "auto")

    def run(self, function: Any) -> list[Any]:
        """What each rank's function gives."""
        return run_ranks(self.mesh, function)[0]

    def inputs(self, shape: tuple[int, ...], dtype: Any = np.float32) -> list[np.ndarray]:
        rng = np.random.default_rng(0)
        return [rng.normal(size=shape).astype(dtype) for _ in range(self.size)]


@pytest.fixture(params=[2, 3])
def ranks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Ranks:
    return Ranks(request.param, monkeypatch)


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> Ranks:
    return Ranks(2, monkeypatch)


def simulated(ranks: Ranks, function: Any, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """What ranks as lanes of one process give, stacked: by result."""
    whole = dist.simulate(lambda x: function(x, ranks.group), ranks=ranks.mesh)
    return [value.numpy() for value in whole(wg.tensor(np.stack(inputs)))]


def everything(x: Any, group: Any) -> tuple[Any, ...]:
    """All collectives of one value."""
    return tuple(function(x, group) for name, function in COLLECTIVES.items() if name != "rank")


def one_by_one(tensors: Any, device: str) -> list[np.ndarray]:
    """Values in dynamic mode, computed here: the process would compute for one thread at a time, and ranks wait."""
    nodes = [tensor.node for tensor in tensors]
    order = [node for node in ancestors(nodes) if node.buffer is None]
    interpret.run(order, {*nodes}, lambda error, node: error, interpret.Settings(device, False, False))
    return [devices.on_host(node.buffer) for node in nodes]


def test_every_collective_is_that_of_simulate(ranks: Ranks) -> None:
    inputs = [np.round(8 * x) / 8 for x in ranks.inputs((6, 6))]  # sums of such numbers are exact
    expected = simulated(ranks, everything, inputs)

    def run(rank: int) -> Any:
        compiled = wg.compile(lambda x: everything(x, ranks.group))
        x = on_gpu(inputs[rank], rank)
        rounds = [[value.numpy() for value in compiled(x)] for _ in range(3)]  # one by one, captured, replayed
        program = compiled._latest[1].program
        assert not [step.host_op for step in program.steps if step.host_op is not None]
        assert len(program.pieces) == 1 and ranks.drivers[rank].replays >= 2
        return [*rounds, one_by_one(everything(x, ranks.group), f"cuda:{rank}")]

    for rank, rounds in enumerate(ranks.run(run)):
        for found in rounds:
            for value, wanted in zip(found, expected):
                np.testing.assert_array_equal(value, wanted[rank])


@pytest.mark.parametrize("size", [5, 70_000])
def test_sums_of_invariant_programs_are_added_in_order(
    ranks: Ranks, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wg.config, "invariant", True)
    inputs = ranks.inputs((size,))

    def sums(x: Any, group: Any) -> tuple[Any, ...]:
        return dist.all_reduce(x, group), dist.reduce_scatter(wg.stack([x] * group.size), 0, group)

    expected = simulated(ranks, sums, inputs)
    found = ranks.run(
        lambda rank: [value.numpy() for value in wg.compile(sums)(on_gpu(inputs[rank], rank), ranks.group)]
    )
    for rank, values in enumerate(found):
        for value, wanted in zip(values, expected):
            np.testing.assert_array_equal(value, wanted[rank])


def test_collectives_go_beside_kernels_in_one_order(two: Ranks) -> None:
    inputs = two.inputs((64, 64))

    def step(x: Any) -> tuple[Any, ...]:
        first = dist.all_reduce(wg.exp(x), two.group)
        beside = wg.tanh(x[:16])
        second = dist.all_gather(beside, 0, two.group)
        return first.sum(), second

    def run(rank: int) -> Any:
        compiled = wg.compile(step)
        for _ in range(3):
            values = [value.numpy() for value in compiled(on_gpu(inputs[rank], rank))]
        return compiled._latest[1].program, values

    (program, values), (_, others) = two.run(run)
    parts = [step.parts[0] if step.parts else None for step in program.steps]
    starts = [k for k, part in enumerate(parts) if isinstance(part, Start)]
    ends = [k for k, part in enumerate(parts) if isinstance(part, Wait)]
    assert len(starts) == len(ends) == 2
    waits = program.plan.waits
    assert starts[0] in waits[starts[1]]  # the second collective waits for the first one
    (tanh,) = [k for k, step in enumerate(program.steps) if any(node.op.name == "tanh" for node in step.writes)]
    assert starts[0] not in waits[tanh]  # and a kernel that needs nothing of it does not
    segment = program.pieces[0]
    place = next(k for k, call in enumerate(segment.calls) if call.step == starts[1])
    behind = {segment.calls[k].step for k in segment.graph.waits[place]}
    assert starts[0] in behind  # in the captured graph, too
    logs = [engine.nccl.log for engine in two.engines]
    assert logs[0] == logs[1] == ["all_reduce", "all_gather"] * 3
    total = sum(np.exp(x, dtype=np.float64) for x in inputs)
    np.testing.assert_allclose(values[0], total.sum(), rtol=1e-5)
    np.testing.assert_array_equal(values[1], others[1])


def test_buckets_are_one_launch_and_no_copies(two: Ranks) -> None:
    rng = np.random.default_rng(0)
    weights = [rng.normal(size=(4, 4)).astype(np.float32) for _ in range(3)]
    x = rng.normal(size=(8, 4)).astype(np.float32)

    def run(rank: int) -> Any:
        parameters = [wg.tensor(w, requires_grad=True, device=f"cuda:{rank}") for w in weights]

        @wg.compile(mesh=two.mesh)
        def step(x: Any) -> Any:
            for w in parameters:
                w.grad = None
            y = x
            for w in parameters:
                y = wg.tanh(y @ w)
            loss = y.sum()
            loss.backward()
            return loss.detach(), *[w.grad for w in parameters]

        for _ in range(3):
            values = [value.numpy() for value in step(on_gpu(x, rank))]
        return step._latest[1].program.program, values

    (program, values), (_, others) = two.run(run)
    for value, other in zip(values, others):
        np.testing.assert_array_equal(value, other)
    names = [step.library.candidate.name for step in program.steps if step.library is not None]
    assert "NCCL all_reduce_many" in names
    assert not any(step.host_op is not None for step in program.steps)
    assert not any(launch.entry.startswith("copy") for step in program.steps for launch in step.launches)

    parameters = [wg.tensor(w, requires_grad=True) for w in weights]
    y = wg.tensor(x)
    for w in parameters:
        y = wg.tanh(y @ w)
    y.sum().backward()
    np.testing.assert_allclose(values[0], y.detach().sum().numpy(), rtol=1e-5)
    for value, w in zip(values[1:], parameters):
        np.testing.assert_allclose(value, w.grad.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("half", [False, True])
def test_two_ranks_are_one_rank_with_two_parts(two: Ranks, half: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wg.config, "parts", 2)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(8, 6)).astype(np.float32), rng.normal(size=(8, 3)).astype(np.float32)
    start = [rng.normal(size=shape).astype(np.float32) for shape in ((6, 5), (5, 3))]

    def train(rank: int, mesh: Mesh) -> list[np.ndarray]:
        first, second = [wg.tensor(w, requires_grad=True, device=f"cuda:{rank}") for w in start]
        optimizer = wg.optim.Adam([first, second], lr=1e-2)

        @wg.compile(mesh=mesh)
        def step(x: Any, y: Any) -> Any:
            optimizer.zero_grad()
            with wg.autocast(enabled=half):
                loss = ((wg.tanh(x @ first) @ second - y) ** 2).mean()
            loss.backward()
            optimizer.step()
            return loss

        losses = [step(on_gpu(x, rank), on_gpu(y, rank)).numpy() for _ in range(4)]
        return [*losses, first.detach().numpy(), second.detach().numpy()]

    alone = train(0, Mesh(data=1))
    for found in two.run(lambda rank: train(rank, two.mesh)):
        for value, wanted in zip(found, alone):
            np.testing.assert_array_equal(value, wanted)


def test_nothing_is_launched_behind_the_end(two: Ranks) -> None:
    inputs = two.inputs((4,))

    def run(rank: int) -> str:
        compiled = wg.compile(lambda x: dist.all_reduce(x, two.group))
        compiled(on_gpu(inputs[rank], rank)).numpy()
        two.engines[rank].end("the world is over")
        with pytest.raises(wg.errors.WengertError, match="the world is over") as caught:
            compiled(on_gpu(inputs[rank], rank)).numpy()
        return str(caught.value)

    two.run(run)


def test_an_engine_carries_arrays_of_the_host_too(ranks: Ranks) -> None:
    inputs = ranks.inputs((5, 2 * ranks.size))

    def run(rank: int) -> Any:
        end = ranks.engines[rank].communicator("everyone", range(ranks.size))
        return [
            end.all_reduce(inputs[rank]),
            end.all_gather(inputs[rank], 1),
            end.reduce_scatter(inputs[rank], 1),
            end.ppermute(inputs[rank], 1),
            ranks.engines[rank].gather([rank, "host"]),
        ]

    for rank, (total, gathered, block, shifted, told) in enumerate(ranks.run(run)):
        np.testing.assert_array_equal(total, tree_sum(inputs))
        np.testing.assert_array_equal(gathered, np.concatenate(inputs, axis=1))
        np.testing.assert_array_equal(block, tree_sum(inputs)[:, 2 * rank : 2 * rank + 2])
        np.testing.assert_array_equal(shifted, inputs[(rank - 1) % ranks.size])
        assert told == [[k, "host"] for k in range(ranks.size)]


class Late:
    """A driver whose events are done when somebody says so."""

    def __init__(self) -> None:
        self.done = False

    def make_current(self) -> None:
        """There is only one."""

    def event(self) -> Late:
        """A point in time."""
        return self

    def is_done(self) -> bool:
        """Whether somebody said so."""
        return self.done


def test_a_launch_that_is_late_is_told_like_a_collective() -> None:
    board, driver = FakeBoard(Net()), Late()
    launches = Launches(board)  # type: ignore[arg-type]
    launches.add(driver, "a step", 3, 100, None)
    until = time.monotonic() + 10
    while not board.told and time.monotonic() < until:
        time.sleep(0.01)
    ((_, name, size, _, ranks),) = board.told
    assert (name, size, ranks) == ("a step", 100, ())
    driver.done = True
    launches.drain()
    while board.told[-1] and time.monotonic() < until:
        time.sleep(0.01)
    assert board.told[-1] == ()


def test_behind_a_drain_nothing_more_is_told() -> None:
    """A collective of arrays on the host comes next, and the control plane knows of one at a time."""
    board, driver = FakeBoard(Net()), Late()
    launches = Launches(board)  # type: ignore[arg-type]
    launches.add(driver, "a step", 3, 100, None)
    driver.done = True
    launches.drain()
    told = list(board.told)
    assert told[-1] == () and told[-2][1] == "a step"  # other ranks may wait for one that came this far
    time.sleep(3 * LOOK)
    assert board.told == told
