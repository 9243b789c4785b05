"""`wengert scale`: the programs of ranks that are not here, and the time they would take."""

from __future__ import annotations

import re
import threading
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.distributed.test_programs_of_ranks import Same
from wengert import distributed as dist
from wengert.backends.cpu import toolchain
from wengert.cli import main
from wengert.compiler.memory import storage
from wengert.core.communication import current
from wengert.core.errors import ArgumentError
from wengert.core.mesh import Mesh
from wengert.distributed.scale import rank_program
from wengert.distributed.scale.beside import beside
from wengert.distributed.scale.machines import CLUSTERS, Links, cluster, collective_seconds, nodes_of, this_machine
from wengert.distributed.scale.model import Prediction, RankTime, predict
from wengert.distributed.scale.pretend import pretended, share_of
from wengert.distributed.scale.rank_program import (
    RankProgram,
    RunPlan,
    bucket_copies,
    flight_of,
    put_in,
    rank_programs,
    seconds_of,
    started_early,
)
from wengert.kernels import threads
from wengert.plan.describe import described

pytestmark = pytest.mark.skipif(toolchain.compiler() is None, reason="compiled programs need a C compiler")
H200, CPU = CLUSTERS["h200"], CLUSTERS["cpu-hdr"]


@pytest.fixture(autouse=True)
def compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wg.config, "tier", "compile")


def training(mesh: Mesh | None, stage: int = 0, layers: int = 2, width: int = 16) -> tuple[Any, tuple[Any, ...]]:
    wg.manual_seed(0)
    model = wg.models.MLP(width, [width] * layers + [4])
    if stage == 3:
        dist.shard(model, mesh["data"])  # type: ignore[index]
    optimizer = wg.optim.Adam(model.parameters(), lr=0.1)

    @wg.compile(mesh=mesh)
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = wg.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    x = np.random.default_rng(0).normal(size=(64, width)).astype(np.float32)
    return step, (wg.tensor(x), wg.tensor(np.zeros(64, np.int64)))


def programs(ranks: int, on: Any = CPU, **how: Any) -> list[RankProgram]:
    with pretended(ranks, overlaps=on.overlaps) as world:
        step, args = training(world.mesh(data=-1), **how)
        return rank_programs(step, args, ranks, on)


# --- machines -------------------------------------------------------------------------------------------------------

MEASURED = [
    ("h200", 8, 4 << 30, 475e9, 1.15),  # NVIDIA/nccl-tests#272, 8 x H200
    ("h100", 8, 4 << 30, 476e9, 1.15),  # NVIDIA/nccl-tests#290, 8 x H100
    ("a100", 8, 1 << 30, 200e9, 1.2),  # NVIDIA/nccl-tests#149, 8 x A100
]


@pytest.mark.parametrize(("name", "ranks", "size", "busbw", "most"), MEASURED, ids=str)
def test_an_all_reduce_is_a_bound_of_nccl_tests(name: str, ranks: int, size: int, busbw: float, most: float) -> None:
    measured = size * 2 * (ranks - 1) / ranks / busbw
    found = collective_seconds(CLUSTERS[name], tuple(range(ranks)), size, "all_reduce")
    assert found <= measured <= most * found


def test_an_all_reduce_between_nodes_is_a_bound_of_nccl_tests() -> None:
    """NVIDIA/nccl-tests#119: 24 A100 on 3 nodes of 4 HDR links reach 96 GB/s with 128 MB, in a ring."""
    four_links = replace(CLUSTERS["a100"], between=Links(12.5e9, 46e-6))
    measured = (128 << 20) * 2 * 23 / 24 / 96e9
    found = collective_seconds(four_links, tuple(range(24)), 128 << 20, "all_reduce")
    assert found <= measured <= 1.6 * found


def test_ranks_that_are_far_apart_use_the_network() -> None:
    assert nodes_of((0, 8, 16), 8) == (3, 1)
    size = 64 << 20
    near, far = (collective_seconds(H200, members, size, "all_gather") for members in ((0, 1), (0, 8)))
    assert near == pytest.approx(12e-6 + size / 370e9) and far == pytest.approx(46e-6 + size / 48e9)
    assert collective_seconds(H200, (3,), size, "all_reduce") == 0.0
    with pytest.raises(ArgumentError, match="no machine is named 'h300'; there are h200, h100, a100, cpu-hdr and here"):
        cluster("h300")


# --- programs -------------------------------------------------------------------------------------------------------


def test_a_pretended_world_ends_with_its_block() -> None:
    with pretended(6, overlaps=True):
        world = dist.start()
        assert (world.size, world.mesh(data=-1, tensor=3), world.engine) == (6, Mesh(data=2, tensor=3), "pretended")
        gathered = dist.all_gather(wg.ones((2, 3)), axis=1, group=Mesh(ranks=6).whole)
        assert gathered.numpy().shape == (2, 18)
    assert (current.size, current.find) == (1, None)


def test_the_program_is_the_one_that_ranks_run(monkeypatch: pytest.MonkeyPatch) -> None:
    (found,) = programs(2, replace(CPU, overlaps=False))
    monkeypatch.setattr(current, "size", 2)
    monkeypatch.setattr(current, "find", lambda group: Same())
    step, args = training(Mesh(data=2))
    step(*args)
    (plan,) = found.plans
    assert described(plan) == described(step._newest("this test").program.program.plan)


def test_a_step_without_a_mesh_is_spread_along_data() -> None:
    with pretended(8, overlaps=True):
        step, args = training(None)
        (found,) = rank_programs(step, args, 8, CPU)
    assert found.mesh == Mesh(data=8) and found.batch == 64
    assert [n.shape for n in found.plans[0].graph.inputs[:2]] == [(8, 16), (8,)]


def test_memory_of_zero_3_falls_with_the_ranks() -> None:
    whole, apart = (programs(8, stage=stage, width=512)[0].memory for stage in (0, 3))
    assert apart < 0.6 * whole


def test_buckets_are_not_copied_and_start_early(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("wengert.compiler.collectives.BUCKET_BYTES", 1 << 12)
    (found,) = programs(4, layers=12, width=32)
    (plan,) = found.plans
    assert bucket_copies(plan) == 0
    early, total = started_early(plan)
    sums = {node for step in plan.steps if (node := flight_of(step)) is not None}
    assert total == sum(map(put_in, sums)) and len(sums) > 10
    assert early >= 0.9 * total


def tied(overlaps: bool) -> Any:
    """The plan of a GPT whose embedding is its last layer, too, on one of 4 ranks."""
    with pretended(4, overlaps=overlaps) as world:
        wg.manual_seed(0)
        model = wg.models.GPT(wg.models.GPTConfig(vocab_size=512, n_positions=8, n_embd=32, n_layer=8, n_head=2))
        optimizer = wg.optim.Adam(model.parameters(), lr=0.1)

        @wg.compile(mesh=world.mesh(data=-1))
        def step(x: Any, y: Any) -> Any:
            optimizer.zero_grad()
            loss = model(x, targets=y)[1]
            loss.backward()
            optimizer.step()
            return loss

        tokens = wg.zeros((8, 8), dtype=wg.int64)
        return rank_programs(step, (tokens, tokens), 4, replace(CPU, overlaps=overlaps))[0].plans[0]


@pytest.mark.slow
def test_the_sum_of_a_tied_embedding_goes_on_beside_the_last_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its gradient ends the backward pass; a bucket's worth of other gradients is made behind it."""
    monkeypatch.setattr("wengert.compiler.collectives.BUCKET_BYTES", 1 << 15)
    plan = tied(overlaps=True)
    early, total = started_early(plan)
    assert early >= 0.9 * total
    sums = list(dict.fromkeys(node for step in plan.steps if (node := flight_of(step)) is not None))
    assert [node.attrs["number"] for node in sums] == sorted(node.attrs["number"] for node in sums)
    late = [node for node in sums if node.attrs.get("late")]
    assert sums[-len(late) - 1] is max(sums, key=put_in) and sums[-len(late) :] == late
    assert 0 < sum(map(put_in, late)) <= 1 << 15
    places = {node: k for k, step in enumerate(plan.steps) for node in step.writes}
    start = next(k for k, step in enumerate(plan.steps) if flight_of(step) is sums[-len(late) - 1])
    assert any(places[storage(source)] > start for node in late for source in node.sources)
    apart = [node for step in tied(overlaps=False).steps if (node := flight_of(step)) is not None]
    assert list(map(put_in, apart)) == list(map(put_in, sums))  # in one order, whoever overlaps


# --- time -----------------------------------------------------------------------------------------------------------


def test_what_is_exposed_is_what_the_lanes_say() -> None:
    (found,) = programs(4, layers=3)
    (plan,) = found.plans
    seconds = [0.0 if flight_of(step) is not None else 1e-3 for step in plan.steps]
    slow = replace(CPU, between=Links(1e12, 5e-3))  # every collective takes 5 ms
    one = predict([found], lambda _: seconds, slow).lanes[0]
    assert one.compute == pytest.approx(sum(seconds))
    assert one.communication == pytest.approx(5e-3 * one.collectives, rel=1e-3)
    assert one.now == pytest.approx(one.compute + one.exposed) and 0 < one.exposed < one.communication
    hidden = predict([found], lambda _: seconds, replace(CPU, between=Links(1e12, 1e-9))).lanes[0]
    assert hidden.exposed < 1e-6


def test_without_overlap_all_communication_is_exposed() -> None:
    on = replace(CPU, overlaps=False)
    (found,) = programs(4, on)
    one = predict([found], lambda plan: [1e-3] * len(plan.steps), on).lanes[0]
    assert one.collectives == 2 and one.communication > 0
    assert one.exposed == pytest.approx(one.communication)


def test_steps_are_timed_here_or_counted() -> None:
    (found,) = programs(2)
    with pretended(2, overlaps=True):
        assert all(0 <= each < 1 for each in seconds_of(found.plans[0], CPU))
    (there,) = programs(2, H200)
    times = seconds_of(there.plans[0], H200)
    assert 0 < sum(times) < 1e-3


def test_ranks_of_this_machine_share_its_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rank with one core has one thread and is timed while others compute; with less than one it takes turns."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    monkeypatch.setattr("os.sched_getaffinity", lambda pid: range(4))
    threads.thread_count.cache_clear()
    asked = [this_machine(ranks, Links(1e9, 1e-6)).cores for ranks in (1, 2, 4, 8)]
    assert asked == [4.0, 2.0, 1.0, 0.5]
    found = []
    for cores in asked:
        with share_of(cores):
            found.append(threads.thread_count())
    threads.thread_count.cache_clear()
    assert found == [4, 2, 1, 1] and threads.chosen_threads() is None
    others: list[int] = []
    monkeypatch.setattr(rank_program, "beside", lambda count, work: others.append(count) or nullcontext())
    monkeypatch.setattr(rank_program, "step_seconds", lambda program, call, repeats: [1.0] * len(program.steps))
    (one,) = programs(2)
    times = [sum(seconds_of(one.plans[0], replace(CPU, cores=cores))) for cores in asked]
    assert others == [0, 0, 3, 3] and times == [times[0]] * 3 + [2 * times[0]]


def test_who_computes_meanwhile_is_gone_behind_it() -> None:
    children = Path(f"/proc/self/task/{threading.get_native_id()}/children")
    before = set(children.read_text().split())  # other tests may have some, such as a browser
    made = set[str]()
    with pytest.raises(ValueError, match="stop"), beside(2, lambda: time.sleep(0.01)):
        made = set(children.read_text().split()) - before
        assert len(made) == 2
        raise ValueError("stop")
    assert not any(Path(f"/proc/{pid}").exists() for pid in made)


def test_a_pipeline_waits_as_its_schedule_says() -> None:
    """4 stages of equal layers and 8 micro-batches: 3 of 11 ticks are a bubble, more or less what ends cost."""
    with pretended(4, overlaps=False) as world:
        mesh = world.mesh(data=1, stage=4)
        wg.manual_seed(0)
        model = wg.models.MLP(16, [16] * 7 + [16])
        optimizer = wg.optim.SGD(model.parameters(), lr=0.1)

        @wg.compile(mesh=mesh, microbatches=8)
        def step(x: Any) -> Any:
            optimizer.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            optimizer.step()
            return loss

        found = rank_programs(step, (wg.ones((64, 16)),), 4, CPU)
    assert len(found) == 4

    def work(plan: Any) -> list[float]:
        return [1.0 if step.parts and _is_product(step) else 0.0 for step in plan.steps]

    one = predict(found, work, replace(CPU, between=Links(1e15, 0.0)))
    assert 0.2 < one.bubble / one.step < 0.36


def _is_product(step: Any) -> bool:
    return any(node.op.name == "matmul" for node in step.writes)


# --- the command ----------------------------------------------------------------------------------------------------

SCRIPT = """
import numpy as np
import wengert as wg

world = wg.distributed.start()
model = wg.nn.Linear(8, 4)
optimizer = wg.optim.SGD(model.parameters(), lr=0.1)

@wg.compile(mesh=world.mesh(data=-1))
def train(x):
    optimizer.zero_grad()
    loss = model(x).square().mean()
    loss.backward()
    optimizer.step()
    return loss

def example():
    return wg.ones((16 * world.size, 8))
"""


@pytest.fixture
def script(tmp_path: Path) -> str:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return str(path)


def test_the_command_prints_a_row_a_number_of_ranks(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scale", f"{script}:train", "--ranks", "8,64", "--machine", "h200"]) == 0
    text = capsys.readouterr().out
    assert re.findall(r"^ +(\d+) ", text, re.M)[:3] == ["1", "8", "64"]
    assert "a lower bound" in text and "NVIDIA/nccl-tests#290" in text and "Mesh(data=64): " in text
    assert main(["scale", f"{script}:train", "wg.ones((32, 8))", "--ranks", "2", "--machine", "cpu-hdr"]) == 0
    assert "kernels: timed here" in capsys.readouterr().out


def test_a_measured_step_sets_the_scale(script: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scale", f"{script}:train", "--ranks", "8", "--machine", "h100", "--step-ms", "2"]) == 0
    text = capsys.readouterr().out
    assert re.search(r"^ +1 +2 ms +2 ms", text, re.M) and "times as long, as measured" in text
    assert main(["scale", f"{script}:train", "--machine", "h100", "--step-ms", "1e-9"]) == 1
    assert "takes at least" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["train", "--machine", "abacus"], "no machine is named 'abacus'"),
        (["example", "--machine", "h100"], "example is not a compiled function"),
        (["train", "--machine", "h100", "--ranks", "0"], "numbers of ranks start at 1"),
        (["train", "--machine", "h100", "--ranks", "many"], "numbers with commas"),
    ],
)
def test_what_is_wrong_is_said(script: str, arguments: list[str], said: str, capsys: Any) -> None:
    assert main(["scale", f"{script}:{arguments[0]}", *arguments[1:]]) == 1
    assert said in capsys.readouterr().err


def test_the_busiest_rank_is_what_is_shown() -> None:
    program = RankProgram(0, Mesh(stage=2), [RunPlan(None)], 10, 4)  # type: ignore[arg-type]
    idle, busy = RankTime(program, now=3.0, compute=1.0), RankTime(replace(program, memory=20), now=2.5, compute=2.0)
    found = Prediction([idle, busy])
    assert (found.step, found.bubble, found.memory, found.rate) == (3.0, 1.0, 20, 4 / 3.0)
