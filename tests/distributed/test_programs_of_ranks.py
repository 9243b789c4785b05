"""A rank's program carries out each collective once: ranks that repeat one, or leave one out, lose each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert import distributed as dist
from wengert.backends.cpu import toolchain
from wengert.core.communication import current
from wengert.core.errors import WengertError
from wengert.core.mesh import Mesh

pytestmark = pytest.mark.skipif(toolchain.compiler() is None, reason="compiled programs need a C compiler")
GROUP = Mesh(ranks=2).whole


class Doubles:
    """A group of two ranks that hold the same: this one, and one that is not there. It counts."""

    rank, size = 0, 2

    def __init__(self) -> None:
        self.calls = 0

    def all_reduce(self, x: np.ndarray[Any, Any], out: Any = None) -> np.ndarray[Any, Any]:
        """Twice the value."""
        self.calls += 1
        return np.add(x, x, out=out)


@pytest.fixture
def doubles(monkeypatch: pytest.MonkeyPatch) -> Iterator[Doubles]:
    made = Doubles()
    monkeypatch.setattr(wg.config, "tier", "compile")
    current.size, current.find = 2, lambda group: made  # type: ignore[assignment,return-value]
    yield made
    current.size, current.find = 1, None


def test_an_index_out_of_range_repeats_no_collective(doubles: Doubles) -> None:
    """The program says what failed by computing its graph again, on one rank alone."""

    @wg.compile
    def rows(x: Any, index: Any) -> Any:
        return wg.take(dist.all_reduce(x, GROUP), index, axis=0) * 2

    assert rows(wg.ones(4), wg.tensor([1, 2])).tolist() == [4.0, 4.0]
    with pytest.raises(WengertError, match="index 9 is out of bounds for axis 0 with size 4"):
        rows(wg.ones(4), wg.tensor([1, 9]))
    assert doubles.calls == 2


def test_no_collective_runs_while_a_program_is_compiled(doubles: Doubles) -> None:
    """Not even that of a constant: another rank may have compiled the program before."""

    @wg.compile
    def shifted(x: Any) -> Any:
        return x + dist.all_reduce(wg.ones(3), GROUP)

    for call in range(1, 4):
        assert shifted(wg.ones(3) * call).tolist() == [2.0 + call] * 3
        assert doubles.calls == call


# --- the fast path ------------------------------------------------------------------------------------------------


class Same(Doubles):
    """The other rank holds what this one holds, of every array and block."""

    def all_reduce_many(self, xs: Any, out: Any = None) -> Any:
        """Twice the values."""
        self.calls += 1
        return [np.add(x, x, out=o) for x, o in zip(xs, out or [None] * len(xs))]

    def all_gather(self, x: Any, axis: int, out: Any = None) -> Any:
        """The block twice."""
        self.calls += 1
        return np.concatenate([x, x], axis, out=out)

    def reduce_scatter(self, x: Any, axis: int, out: Any = None) -> Any:
        """Twice this rank's block."""
        self.calls += 1
        own = np.split(x, 2, axis)[0]
        return np.add(own, own, out=out)


@pytest.fixture
def same(doubles: Doubles) -> Same:
    made = Same()
    current.find = lambda group: made  # type: ignore[assignment,return-value]
    return made


def _training(stage: int) -> tuple[Any, Any, Any]:
    wg.manual_seed(0)
    mesh = Mesh(data=2)
    model = wg.nn.Sequential(wg.nn.Linear(6, 8), wg.nn.Tanh(), wg.nn.Linear(8, 4))
    if stage == 3:
        dist.shard(model, mesh["data"])
    optimizer = wg.optim.Adam(model.parameters(), lr=0.1)
    if stage == 1:
        dist.shard(optimizer.state, mesh["data"])

    @wg.compile(mesh=mesh)
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = wg.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step, model, optimizer


def _is_fast(step: Any) -> bool:
    return step._newest("this test").fast_path is not None


@pytest.mark.parametrize("stage", [0, 1, 3])
def test_steps_of_ranks_take_the_fast_path(same: Same, stage: int) -> None:
    """The same numbers as calls that look up everything, with values whole or in blocks."""
    rng = np.random.default_rng(0)
    batches = [(rng.normal(size=(4, 6)).astype(np.float32), rng.integers(0, 4, 4)) for _ in range(12)]
    found = []
    for slow in (True, False):
        step, model, optimizer = _training(stage)
        losses, fast = [], 0
        for x, y in batches:
            losses.append(step(wg.tensor(x), wg.tensor(y)).item())
            if slow:
                step._newest("this test").fast_path = None
            fast += _is_fast(step)
        assert fast == 0 if slow else fast >= 6
        state = [*model.parameters(), *(p.grad for p in model.parameters()), *dist.sharding.tensors_of(optimizer.state)]
        held = [tensor.node.buffer for tensor in state]
        found.append([losses, *[np.asarray(getattr(array, "block", array)).tolist() for array in held]])
    assert found[0] == found[1]


def test_sharded_results_of_the_fast_path(same: Same) -> None:
    total = wg.tensor(np.zeros(3))

    @wg.compile(mesh=Mesh(data=2))
    def step(x: Any) -> Any:
        total.assign(total + x.sum(0))
        return x * 2

    for call in range(8):
        found = step(wg.tensor(np.full((4, 3), float(call)))).node.buffer
        assert found.shape == (4, 3) and found.block.tolist() == [[2.0 * call] * 3] * 2
    assert _is_fast(step) and total.tolist() == [4.0 * sum(range(8))] * 3


def test_an_index_out_of_range_on_the_fast_path_repeats_no_collective(doubles: Doubles) -> None:
    count = wg.tensor(0.0)

    @wg.compile
    def rows(x: Any, index: Any) -> Any:
        count.assign(count + 1)
        return wg.take(dist.all_reduce(x, GROUP), index, axis=0) * 2

    for _ in range(6):
        assert rows(wg.ones(4), wg.tensor([1, 2])).tolist() == [4.0, 4.0]
    assert _is_fast(rows) and doubles.calls == 6
    with pytest.raises(WengertError, match="index 9 is out of bounds for axis 0 with size 4"):
        rows(wg.ones(4), wg.tensor([1, 9]))
    assert doubles.calls == 7 and count.item() == 6
    assert rows(wg.ones(4), wg.tensor([3, 3])).tolist() == [4.0, 4.0]
