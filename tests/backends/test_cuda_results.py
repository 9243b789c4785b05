"""Results of compiled functions on an emulated GPU: their memory serves again when nobody sees them, never before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.backends.emulated import EmulatedDriver, EmulatedGraph
from tests.kernels.emulator import compiler
from wengert.backends.cuda.recycle import MANY_LARGE, SMALL

pytestmark = [
    pytest.mark.skipif(compiler() is None, reason="there is no C++ compiler to emulate kernels with"),
    pytest.mark.usefixtures("gpu"),
]

SIZE = SMALL // 4 + 256  # of float32: a large result


@wg.compile
def added(x: wg.Tensor) -> wg.Tensor:
    """A large result."""
    return x + wg.arange(SIZE, dtype=wg.float32, device="cuda")


def call(k: int) -> wg.Tensor:
    """A result in which each element is larger by k than its place."""
    return added(wg.tensor(np.float32(k), device="cuda"))


@pytest.fixture
def repeating(gpu: EmulatedDriver) -> None:
    """Have the function repeat, with nothing of its results kept."""
    added._specializations.clear()
    for k in range(8):  # at the 8th and the 16th call it is recorded again
        call(k)
    repetition = added._newest("a test").fast_path
    assert repetition is not None
    for keeper in (repetition.results, *repetition.replay.program.kept.values()):
        keeper.let_go()


def address(tensor: wg.Tensor) -> int:
    return tensor.node.buffer.pointer


@pytest.mark.usefixtures("repeating")
@pytest.mark.counted
def test_a_result_that_nobody_holds_is_written_over() -> None:
    assert len({address(call(k)) for k in range(3)}) == 1
    places, last = set(), None
    for k in range(9):  # one of them records again
        last = call(k)
        places.add(address(last))
    assert len(places) == MANY_LARGE


@pytest.fixture
def changes(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The nodes of graphs that are given other arguments from here on."""
    found: list[Any] = []
    change = EmulatedGraph.change

    def noted(recording: EmulatedGraph, node: int, *launch: Any) -> None:
        found.append(node)
        change(recording, node, *launch)

    monkeypatch.setattr(EmulatedGraph, "change", noted)
    return found


@pytest.mark.usefixtures("repeating")
def test_addresses_that_come_back_have_graphs_of_their_own(changes: list[Any]) -> None:
    given = [wg.tensor(np.float32(k), device="cuda") for k in range(2)]
    for tensor in given:
        tensor.numpy()
    result, counts = None, []
    for k in range(7):
        result = added(given[k % 2])  # while the last result is held
        np.testing.assert_array_equal(result.numpy(), np.arange(SIZE, dtype=np.float32) + k % 2)
        counts.append(len(changes))
    assert 0 < counts[1] == counts[-1]


@pytest.mark.usefixtures("repeating")
def test_addresses_that_do_not_come_back_change_the_graph_that_there_is() -> None:
    given = [wg.tensor(np.float32(k), device="cuda") for k in range(7)]
    results = [added(tensor) for tensor in given]
    for k, result in enumerate(results):
        np.testing.assert_array_equal(result.numpy(), np.arange(SIZE, dtype=np.float32) + k)
    assert len(added._newest("a test").fast_path.replay.graphs) == 1


HOLDS: dict[str, Callable[[wg.Tensor], Any]] = {
    "the tensor": lambda t: t,
    "its node": lambda t: _Held(t.node),
    "the same value under another name": lambda t: t.detach(),
    "a view of its memory": lambda t: _reshaped(t),
    "another's array by DLPack": lambda t: wg.from_dlpack(t),
    "a slot": lambda t: wg.zeros(SIZE, device="cuda").assign(t),
    "a value to come": lambda t: t + 0.0,
}


class _Held:
    """Holds a node and nothing else."""

    def __init__(self, node: Any) -> None:
        self.node = node

    def numpy(self) -> np.ndarray[Any, Any]:
        return wg.Tensor(self.node).numpy()


def _reshaped(t: wg.Tensor) -> wg.Tensor:
    """The same memory in another shape."""
    reshaped = t.reshape(-1, 2)
    reshaped.numpy()
    return reshaped


@pytest.mark.usefixtures("repeating")
@pytest.mark.parametrize("hold", HOLDS.values(), ids=HOLDS)
def test_what_somebody_holds_is_never_overwritten(hold: Callable[[wg.Tensor], Any]) -> None:
    held = []
    for k in range(7):
        result = call(k)
        if k % 3 == 0:
            held.append((k, hold(result)))
        del result
    for k, thing in held:
        np.testing.assert_array_equal(thing.numpy().ravel(), np.arange(SIZE, dtype=np.float32) + k)


@pytest.mark.usefixtures("repeating")
def test_what_a_later_backward_pass_reads_is_not_overwritten() -> None:
    w = wg.ones(SIZE, device="cuda", requires_grad=True)
    products = [(w * call(k)).sum() for k in range(3)]
    for k in range(3, 6):
        call(k)
    for k, product in enumerate(products):
        w.grad = None
        product.backward()
        np.testing.assert_array_equal(w.grad.numpy(), np.arange(SIZE, dtype=np.float32) + k)


@pytest.mark.usefixtures("repeating")
def test_results_that_are_kept_are_let_go_where_memory_is_short(
    gpu: EmulatedDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = [call(k) for k in range(MANY_LARGE)]
    del results
    monkeypatch.setattr(gpu, "memory", gpu.reserved() + SMALL)  # less than what is asked for next
    more = wg.ones(SIZE, device="cuda") * 2.0
    assert (more.numpy() == 2).all()
