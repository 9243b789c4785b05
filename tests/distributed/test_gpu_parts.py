"""Parts on GPUs: N ranks have the bits of one rank that computes all parts, over a fake NCCL and emulated GPUs.

The emulated kernels are compiled as NVRTC compiles them, with multiply-adds where the texts allow it.
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.distributed.fake_nccl import RankDriver, on_gpu
from tests.distributed.test_nccl import Ranks
from tests.kernels.cores import emulated
from tests.kernels.emulator import compiler
from wengert.core.mesh import Mesh
from wengert.distributed.scale.machines import CLUSTERS
from wengert.distributed.scale.pretend import pretended
from wengert.distributed.scale.rank_program import rank_programs
from wengert.kernels.launch import H200, LaunchList
from wengert.plan.plan import Plan

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C++ compiler to emulate kernels with")


def prepared(self: RankDriver, work: LaunchList) -> LaunchList:
    """Tensor cores are replaced."""
    source = work.launches[0].source
    by_cores = "attention_mma" in source or "gemm_mma" in source
    return emulated(work) if by_cores else super(RankDriver, self).prepared(work)


@pytest.fixture
def two(monkeypatch: pytest.MonkeyPatch) -> Ranks:
    """Two ranks with GPUs that have the tensor cores of sm_80, and the figures of an H200 otherwise."""
    monkeypatch.setattr(RankDriver, "prepared", prepared)
    monkeypatch.setattr(RankDriver, "compiled", {})
    found = Ranks(2, monkeypatch)
    for driver in found.drivers:
        driver.properties = replace(H200, arch="80")
    return found


BEGINNING = threading.Lock()


class Training:
    """A model, its loss and a batch."""

    def __init__(self, make: Callable[[], Any], loss: Callable[..., Any], x: np.ndarray, y: np.ndarray) -> None:
        self.make, self.loss, self.batch = make, loss, (x, y)

    def begin(self, mesh: Mesh, half: bool, device: str) -> tuple[Any, Any]:
        """The model on a device, and a step of AdamW."""
        with BEGINNING:  # the ranks here are threads, which share the process's generator: so there is no dropout, too
            wg.manual_seed(0)
            model = self.make().to(device)
        optimizer = wg.optim.AdamW(model.parameters(), lr=1e-2)

        @wg.compile(mesh=mesh)
        def step(x: Any, y: Any) -> Any:
            optimizer.zero_grad()
            with wg.autocast(enabled=half):
                loss = self.loss(model, x, y)
            loss.backward()
            optimizer.step()
            return loss

        return model, step


def mlp() -> Training:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(64, 32)).astype(np.float32), rng.normal(size=(64, 8)).astype(np.float32)
    layers = lambda: wg.nn.Sequential(wg.nn.Linear(32, 64), wg.nn.Tanh(), wg.nn.Linear(64, 8))
    return Training(layers, lambda model, x, y: ((model(x) - y) ** 2).mean(), x, y)


def convnet() -> Training:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(16, 3, 8, 8)).astype(np.float32), rng.integers(0, 5, 16)

    def make() -> Any:
        first = (wg.nn.Conv2d(3, 8, 3, padding=1), wg.nn.BatchNorm2d(8), wg.nn.ReLU(), wg.nn.MaxPool2d(2))
        return wg.nn.Sequential(*first, wg.nn.Conv2d(8, 8, 3), wg.nn.Flatten(), wg.nn.Linear(32, 5))

    return Training(make, lambda model, x, y: wg.cross_entropy(model(x), y), x, y)


def gpt(width: int = 64, length: int = 32, layers: int = 1) -> Training:
    tokens = np.random.default_rng(0).integers(0, 96, size=(4, length + 1))
    sizes = {"n_positions": length, "n_layer": layers, "vocab_size": 96, "n_embd": width, "n_head": width // 32}
    make = lambda: wg.models.GPT(wg.models.GPTConfig(**sizes))
    return Training(make, lambda model, x, y: model(x, targets=y)[1], tokens[:, :-1], tokens[:, 1:])


CASES = [(mlp, False, 2), (mlp, False, 8), (mlp, True, 4), (convnet, False, 4), (gpt, False, 4)]
SLOW = [pytest.param(gpt, True, 2, marks=pytest.mark.slow)]  # tensor cores are emulated an element at a time


@pytest.mark.parametrize(("make", "half", "parts"), [*CASES, *SLOW])
@pytest.mark.slow
def test_two_ranks_have_the_bits_of_one_with_all_parts(
    two: Ranks, monkeypatch: pytest.MonkeyPatch, make: Callable[[], Training], half: bool, parts: int
) -> None:
    monkeypatch.setattr(wg.config, "parts", parts)

    def train(rank: int, mesh: Mesh) -> list[np.ndarray]:
        training = make()
        model, step = training.begin(mesh, half, f"cuda:{rank}")
        losses = [step(*(on_gpu(array, rank) for array in training.batch)).numpy() for _ in range(3)]
        return [*losses, *(value.numpy() for value in model.state_dict().values())]

    alone = train(0, Mesh(data=1))
    for found in two.run(lambda rank: train(rank, two.mesh)):
        for value, wanted in zip(found, alone):
            np.testing.assert_array_equal(value, wanted)


# --- plans ------------------------------------------------------------------------------------------------------------


def plan_of(ranks: int, training: Training, half: bool) -> Plan:
    """The plan of a rank among so many on H200s."""
    with pretended(ranks, overlaps=True):
        _, step = training.begin(Mesh(data=ranks), half, "cpu")
        (found,) = rank_programs(step, tuple(map(wg.tensor, training.batch)), ranks, CLUSTERS["h200"])
    (plan,) = found.plans
    return plan


def launches(plan: Plan) -> tuple[Counter[Any], set[str]]:
    """Those of single ops, with all that they are, and the orders of generated sums."""
    ops: Counter[Any] = Counter()
    orders: set[str] = set()
    for step in plan.steps:
        for launch in step.launches:
            if "in a fixed order" in launch.why:
                numbers = re.findall(r"\d+", launch.why.partition(" threads")[0])  # rows, terms, across, threads
                orders.add(f"{numbers[1]} terms: {numbers[-1]} threads")
            elif step.kernel is None and "kernels of one text" not in launch.why:
                ops[launch.source, launch.grid, launch.block, launch.shared] += 1
    return ops, orders


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("make", [mlp, convnet, lambda: gpt(256, 64, 2)], ids=["mlp", "convnet", "gpt"])
def test_a_part_goes_through_the_same_launches(
    monkeypatch: pytest.MonkeyPatch, make: Callable[[], Training], half: bool
) -> None:
    """Of products, convolutions, attentions; a gather of positions, which is no part's, stands once."""
    monkeypatch.setattr(wg.config, "parts", 2)
    monkeypatch.setattr(wg.config, "tier", "compile")
    (one, orders), (two, others) = (launches(plan_of(ranks, make(), half)) for ranks in (1, 2))
    shared = [launch for launch in two if one[launch] != 2 * two[launch]]
    assert one.keys() == two.keys() and sum(two.values()) >= 5
    assert all("wg_gather" in launch[0] and one[launch] == two[launch] == 1 for launch in shared)
    assert orders == others and orders
