"""The interpreting tier on a GPU: what it compiles and uploads. The GPU does nothing; kernels are tested apart."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

import numpy as np
import pytest

import wengert as wg
from tests.backends.emulated import IdleDriver, install
from tests.compiler.three_steps import tier
from wengert.backends.cuda import interpret
from wengert.backends.cuda.memory import transfers


@pytest.fixture(autouse=True)
def idle(monkeypatch: pytest.MonkeyPatch) -> Iterator[IdleDriver]:
    """A GPU that does nothing, and every node alone."""
    found = IdleDriver()
    install(monkeypatch, found)
    monkeypatch.setattr(interpret, "_carriers", OrderedDict())
    with tier("interpret"):
        yield found
    wg.synchronize()


def texts(gpu: IdleDriver) -> set[str]:
    return {source for source, _ in gpu.functions}


def train(rows: int, wide: int) -> None:
    """A step of a classifier of these sizes."""
    layers = [wg.nn.Linear(wide, 2 * wide), wg.nn.LayerNorm(2 * wide), wg.nn.GELU(), wg.nn.Linear(2 * wide, 8)]
    model = wg.nn.Sequential(*layers)
    model.to("cuda")
    optimizer = wg.optim.AdamW(model.parameters())
    x, targets = wg.ones((rows, wide), device="cuda"), wg.zeros((rows,), dtype=wg.int64, device="cuda")
    wg.cross_entropy(model(x), targets).backward()
    optimizer.step()
    model[0].weight.detach().numpy()


def test_another_size_of_a_network_compiles_nothing(idle: IdleDriver) -> None:
    train(16, 12)
    known = texts(idle)
    assert known
    for rows, wide in ((20, 16), (32, 64), (100, 40)):
        train(rows, wide)
        assert texts(idle) == known


def test_another_expression_of_known_ops_compiles_nothing(idle: IdleDriver) -> None:
    x, row = wg.ones((5, 7), device="cuda"), wg.ones((7,), device="cuda")
    (wg.exp(x) * x + row).sum(axis=0).numpy(), x.T.numpy()
    known = texts(idle)
    wide = wg.ones((3, 4, 64), device="cuda")
    (wg.exp(wide.sum(axis=(0, 2)) * 0.5) + 3).numpy()
    (1.5 + wg.exp(row)[:, None] * x.T + x.T[::2].sum()).numpy()
    assert texts(idle) == known


def test_numbers_go_along_with_launches() -> None:
    x = wg.ones((4, 4), device="cuda")
    x.numpy()
    before = transfers.uploads
    for rate in (0.1, 0.2, 0.3):
        x = x - rate * (x * 2)
    x.numpy()
    assert transfers.uploads == before


def test_arrays_that_the_host_has_go_up() -> None:
    x = wg.ones((3,), device="cuda")
    before = transfers.uploads
    assert (x + np.ones(3, np.float32)).numpy().shape == (3,)
    assert transfers.uploads == before + 1
