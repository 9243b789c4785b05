"""Meshes and groups, and the mesh that a world gives."""

from __future__ import annotations

from typing import Any

import pytest

import wengert as wg
from wengert.core.errors import ArgumentError, ComputationError
from wengert.core.mesh import Mesh
from wengert.distributed.world import World

MESH = Mesh(data=2, stage=3, tensor=4)


def test_ranks_and_coordinates_are_each_others_inverse() -> None:
    assert MESH.size == 24
    assert [MESH.rank_at(MESH.coordinates(rank)) for rank in range(24)] == list(range(24))
    assert MESH.coordinates(0) == {"data": 0, "stage": 0, "tensor": 0}
    assert MESH.coordinates(1) == {"data": 0, "stage": 0, "tensor": 1}  # the last axis counts fastest


@pytest.mark.parametrize(
    "axes", ["data", "stage", "tensor", ("data", "tensor"), ("stage", "tensor"), tuple(MESH.sizes)]
)
def test_groups_of_some_axes_divide_the_ranks(axes: Any) -> None:
    group = MESH[axes]
    for rank in range(MESH.size):
        members = group.members(rank)
        assert len(members) == group.size and members == tuple(sorted(members))
        assert members[group.rank_of(rank)] == rank
        assert all(group.members(other) == members for other in members)


def test_meshes_and_groups_are_values() -> None:
    assert Mesh(data=2, tensor=2) == Mesh(data=2, tensor=2) != Mesh(tensor=2, data=2)
    assert hash(MESH["data"]) == hash(Mesh(**MESH.sizes)["data"])
    assert MESH["tensor", "data"] == MESH["data", "tensor"]
    assert repr(MESH["data"]) == "Mesh(data=2, stage=3, tensor=4)['data']"
    assert "data" in MESH and "rows" not in MESH


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Mesh(data=0), "at least 1 rank, not 0"),
        (lambda: Mesh(data=2.0), "at least 1 rank, not 2.0"),  # type: ignore[arg-type]
        (lambda: MESH["rows"], "has no axis 'rows'; it has data, stage, tensor"),
        (lambda: MESH["data", "data"], "occurs twice"),
    ],
)
def test_wrong_meshes(make: Any, message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        make()


def test_a_world_of_eight_as_a_mesh() -> None:
    world = World(0, 8, 0)
    assert world.mesh() == Mesh(data=8)
    assert world.mesh(data=-1, tensor=4) == Mesh(data=2, tensor=4)
    assert world.mesh(tensor=8, data=-1) == Mesh(tensor=8, data=1)
    assert world.mesh(a=2, b=2, c=2) == Mesh(a=2, b=2, c=2)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ({"data": 3}, "8 ranks cannot be arranged as data=3"),
        ({"data": -1, "tensor": 3}, "8 ranks cannot be arranged as data=-1, tensor=3"),
        ({"data": 2, "tensor": 2}, "8 ranks cannot be arranged as data=2, tensor=2"),
        ({"data": -1, "tensor": -1}, "one axis may be -1, not data and tensor"),
        ({"data": 0}, "at least 1 rank, or -1 for the remaining ones, not 0"),
    ],
)
def test_meshes_that_the_world_cannot_be(sizes: dict[str, int], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        World(0, 8, 0).mesh(**sizes)


def test_a_group_that_needs_more_ranks_than_there_are() -> None:
    with pytest.raises(ComputationError, match="needs 2 ranks, but there is 1"):
        wg.distributed.all_reduce(wg.ones(3), Mesh(data=2)["data"]).numpy()
