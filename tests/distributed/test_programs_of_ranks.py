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

    def all_reduce(self, x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Twice the value."""
        self.calls += 1
        return x + x


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
