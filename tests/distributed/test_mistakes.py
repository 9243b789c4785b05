"""What users get wrong about ranks is told in one line, on their line, with the values and what to do."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert import distributed as dist
from wengert.core.errors import ArgumentError, FileError, WengertError
from wengert.core.mesh import Mesh
from wengert.distributed import Split

MESH = Mesh(data=2)
MODEL = wg.models.MLP(8, [15, 4])
DATASET = wg.data.ArrayDataset(np.ones((10, 8), np.float32), np.zeros(10, np.int64))


def placed(plan: Any, model: Any = MODEL, mesh: Any = MESH) -> None:
    dist.place(model, plan, mesh)


MISTAKES: dict[str, Callable[[], Any]] = {
    "place: mesh must be a Mesh, such as wg.distributed.start().mesh(data=-1), not 2": lambda: placed({}, mesh=2),
    "place: mesh must be a Mesh, such as wg.distributed.start().mesh(data=-1), not Mesh(data=2)['data']": lambda: (
        placed({}, mesh=MESH["data"])
    ),
    "DataLoader: mesh must be a Mesh, such as wg.distributed.start().mesh(data=-1), not 2": lambda: wg.data.DataLoader(
        DATASET,
        batch_size=2,
        mesh=2,  # type: ignore[arg-type]
    ),
    "compile: mesh must be a Mesh, such as wg.distributed.start().mesh(data=-1), not 'data'": lambda: wg.compile(
        len,
        mesh="data",  # type: ignore[call-overload]
    ),
    "place takes a model, whose parameters have names, not int": lambda: placed({}, model=3),
    "place: a plan maps parameter names to splits, as in {'*.weight': Split(0, 'tensor')}, not [1]": (
        lambda: placed([1])
    ),
    "place: '*weight' needs a Split, several of which the first that divides applies, or None for no split, not 0": (
        lambda: placed({"*weight": 0})
    ),
    "place: layers.0.weight has shape (15, 8), which has no axis 5 to split along 'data'": lambda: placed(
        {"*weight": Split(5, "data")}
    ),
    "place: layers.0.weight: axis 0 of shape (15, 8) does not divide into blocks for 2 ranks of 'data'": (
        lambda: placed({"*weight": Split(0, "data")})
    ),
    "place: none of [Split(axis=0, along='data', runs=1)] divides layers.0.weight of shape (15, 8) over Mesh(data=2)": (
        lambda: placed({"*weight": [Split(0, "data")]})
    ),
    "Mesh(data=2) has no axis 'tensor'; it has data": lambda: placed({"*weight": Split(0, "tensor")}),
    "place: no parameter name matches '*.nothing'": lambda: placed({"*.nothing": Split(0, "data")}),
    "compile: microbatches is a number from 1 on, or None, not 0": lambda: wg.compile(len, microbatches=0),
    "compile: microbatches is a number from 1 on, or None, not 2.5": lambda: wg.compile(
        len,
        microbatches=2.5,  # type: ignore[call-overload]
    ),
    "compile: the 2 ranks of 'data' cannot share 3 parts of a batch equally; take a multiple of 2": lambda: wg.compile(
        len, mesh=MESH, microbatches=3
    ),
    "stage takes a non-negative integer, not -1": lambda: dist.stage(-1),
    "ppermute: shift must be a whole number, not 'a'": lambda: dist.ppermute(wg.ones(2), "a", MESH["data"]),
}


@pytest.mark.parametrize("message", MISTAKES)
def test_a_mistake_is_told_in_one_line(message: str) -> None:
    with pytest.raises(WengertError) as raised:
        MISTAKES[message]()
    assert raised.value.message == message
    assert f"at {__name__.rpartition('.')[2]}.py:" in str(raised.value)


@pytest.mark.parametrize("value", [3, 0, -2, 2.0, "4", True])
def test_parts_are_a_power_of_two(value: Any) -> None:
    with pytest.raises(ArgumentError, match=r"config\.parts must be a power of two, such as 4, or None, not "):
        wg.config.parts = value


def test_micro_batches_and_parts_are_one_number(monkeypatch: pytest.MonkeyPatch) -> None:
    step = wg.compile(lambda x: x.sum(), microbatches=4)
    monkeypatch.setattr(wg.config, "parts", 8)
    with pytest.raises(ArgumentError, match=r"microbatches is 4 and wg\.config\.parts is 8.*leave one of them out"):
        step(wg.ones((8, 2)))


def test_a_batch_that_has_no_micro_batches_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """It would be computed whole, and take the memory that was to be saved."""
    monkeypatch.setattr(wg.config, "tier", "compile")
    step = wg.compile(lambda x, y: (x * y).sum(), microbatches=4)
    line = inspect.currentframe().f_lineno + 2  # type: ignore[union-attr]
    with pytest.raises(ArgumentError) as raised:
        step(wg.ones((6, 2)), wg.ones((6, 2)))
    told = "compile: no argument has a first axis that divides into microbatches=4: shapes (6, 2), (6, 2)"
    assert raised.value.message == told and f"test_mistakes.py:{line}" in str(raised.value)
    assert step(wg.ones((8, 2)), wg.ones((8, 2))).item() == 16.0


def test_a_checkpoint_that_is_not_there() -> None:
    with pytest.raises(FileError, match="load_checkpoint: there is no folder 'no/such'"):
        dist.load_checkpoint("no/such")
