"""Results in the place of operands: programs in which all steps that can write over operands give the same bits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import wengert as wg
from tests.plan.stages import with_stage
from wengert.backends.cuda.memory import download
from wengert.backends.cuda.program import build
from wengert.compiler.passes import optimize
from wengert.core.graph import Graph, now
from wengert.ops.core import placeholder
from wengert.plan import memory
from wengert.plan.plan import Plan

FUNCTIONS = {
    "chain": lambda x, y: wg.sin(x) * y + x,
    "total": lambda x, y: x + y.sum(axis=1, keepdims=True),
    "softmax": lambda x, y: wg.softmax(x, axis=-1) + y,
    "column softmax": lambda x, y: wg.softmax(x, axis=0) - y,
    "norm": lambda x, y: wg.layer_norm(x * y, x.shape[1:]),
    "column norm": lambda x, y: wg.layer_norm(x.T, x.shape[1:]).T + y,
    "transpose": lambda x, y: x.T + y,
    "neighbour": lambda x, y: x + wg.roll(x, 1, 1) * y,
    "first row": lambda x, y: x * x[:1] - y,
}


def chain_of(seed: int, side: int, length: int = 12) -> Graph:
    """Functions of two values each, most of which nothing needs afterwards, with scans in between that end kernels."""
    rng = np.random.default_rng(seed)
    since = now()
    inputs = [placeholder((side, side), wg.float32, device="cuda:0") for _ in range(2)]
    values = [wg.Tensor(node) for node in inputs]
    for _ in range(length):
        x, y = (wg.cumulative_sum(values[-int(k)], axis=1) / side for k in rng.integers(1, 3, 2))
        values.append(FUNCTIONS[str(rng.choice(list(FUNCTIONS)))](x, y))
    return Graph(inputs, [values[-1].node], since)


def everywhere(plan: Plan) -> Plan:
    """All steps write over operands that can, not only where most memory is needed."""
    assert plan.target.properties is not None
    found = memory.InPlace(list(plan.steps), dict(plan.lives), {})
    for number in range(len(plan.steps)):
        while memory._improve(found, number, plan.target.properties):
            pass
    return replace(plan, steps=tuple(found.steps), lives=found.alive, aliases=found.aliases)


def nowhere(plan: Plan) -> Plan:
    """No step writes over an operand."""
    return plan


@pytest.mark.parametrize("seed", range(8))
def test_over_operands_the_bits_are_the_same(monkeypatch: pytest.MonkeyPatch, seed: int, side: int = 96) -> None:
    monkeypatch.setattr(memory, "APART", -1)
    graph, _ = optimize(chain_of(seed, side))
    arrays = [np.random.default_rng(0).standard_normal((side, side)).astype(np.float32) for _ in range(2)]
    programs = []
    for way in (nowhere, everywhere):
        with_stage(monkeypatch, "in_place", way)
        programs.append(build(graph))
    results = [download(there(arrays)[0]) for there in programs for _ in range(2)]
    assert np.isfinite(results[0]).all() and len({array.tobytes() for array in results}) == 1
    assert programs[1].plan.aliases and not programs[0].plan.aliases
