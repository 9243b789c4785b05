"""Kernels that are there when the one before them ends: they read nothing before that has written it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import wengert as wg
from wengert.backends.cuda.kernel import DependentLaunch
from wengert.plan import launches

ROWS, COLUMNS = 2048, 8192  # 64 MB: more than a cache holds
STEPS = 200

FUNCTIONS: dict[str, Callable[[wg.Tensor], wg.Tensor]] = {
    "elements": lambda x: wg.sin(x * 1.5) + 0.25,
    "rows": lambda x: wg.layer_norm(x, (COLUMNS,)) * 0.5,
    "softmax": lambda x: wg.softmax(x * 3.0, axis=1),
    "overturned": lambda x: wg.flip(x, axis=0) * 0.999,  # the first rows are those that were written last
}


@pytest.fixture
def long(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every kernel that is all of a program follows."""
    monkeypatch.setattr(launches, "LONG", 1)


def start(rows: int = ROWS) -> wg.Tensor:
    numbers = np.random.default_rng(0).standard_normal((rows, COLUMNS)).astype(np.float32)
    return wg.tensor(numbers, device="cuda")


def chain(function: Callable[[wg.Tensor], wg.Tensor], rows: int = ROWS) -> tuple[np.ndarray, bool]:
    """What is left after many steps, each of which reads what the one before it wrote; and whether they followed."""
    compiled, x = wg.compile(function), start(rows)
    for _ in range(STEPS):
        x = compiled(x)
    graphs = [r for found in compiled._newest("a test").fast_path.replay.graphs.values() for r in found]
    return x.numpy(), all(isinstance(r, DependentLaunch) for r in graphs)


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=FUNCTIONS)
@pytest.mark.parametrize("rows", [4, 64, ROWS])
@pytest.mark.usefixtures("long")
def test_a_chain_gives_what_graphs_give(
    function: Callable[[wg.Tensor], wg.Tensor], rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, followed = chain(function, rows)
    monkeypatch.setattr(launches, "LONG", 1 << 62)
    expected, not_so = chain(function, rows)
    assert followed and not not_so
    np.testing.assert_array_equal(found, expected)


@pytest.mark.usefixtures("long")
def test_other_work_between_them_is_waited_for() -> None:
    """Dynamic ops, copies from and to the host, graphs, and memory that is used again."""
    halved = wg.compile(lambda x: x * 0.5)
    graph = wg.compile(lambda x: (x + 1.0, x.sum()))
    x = start(512)
    expected = x.numpy().astype(np.float64)
    for k in range(40):
        x = halved(x)
        expected = expected * 0.5
        if k % 2:
            x = x + float(k)
            expected = expected + k
        if k % 3 == 0:
            x, total = graph(x)
            if k % 9 == 0:
                assert total.item() == pytest.approx(expected.sum(), rel=1e-3, abs=10)
            expected = expected + 1
        if k % 5 == 0:
            more = np.full((512, COLUMNS), k, np.float32)
            x = halved(wg.tensor(more, device="cuda")) + x
            expected = expected + k / 2
    np.testing.assert_allclose(x.numpy(), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.usefixtures("long")
def test_what_torch_does_on_its_own_stream_is_waited_for() -> None:
    torch = pytest.importorskip("torch", reason="compares with torch's stream")
    doubled = wg.compile(lambda x: x * 2.0)
    x = start(256)
    for _ in range(4):
        doubled(x)
    y = torch.from_dlpack(doubled(x))
    for _ in range(20):
        y = y * 0.5
        y = torch.from_dlpack(doubled(wg.from_dlpack(y)))
    np.testing.assert_array_equal(y.cpu().numpy(), 2 * x.numpy())
