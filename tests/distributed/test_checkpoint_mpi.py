"""Checkpoints of real ranks: saved on one mesh, gone on from on another, to the bit."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import wengert as wg
from tests.distributed.ranks import command, launch, needs_mpi, on_ranks
from tests.distributed.stopwatch import moment
from wengert.api.sharded_files import is_complete

pytestmark = needs_mpi
PROGRAMS = "tests.distributed.checkpoint_programs"


def whole(results, key):
    """The tensors that ranks hold blocks of, put together; every element must be held, by all alike."""
    found = {}
    for name, (shape, _, first) in results[0][key].items():
        array, seen = np.zeros(shape, first.dtype), np.zeros(shape, bool)
        for result in results:
            _, part, block = result[key][name]
            assert not seen[part].any() or (array[part].tobytes() == block.tobytes())
            array[part], seen[part] = block, True
        assert seen.all()
        found[name] = array.dtype.name, array.tobytes()
    return found


def size(sizes):
    return int(np.prod(list(sizes.values())))


@pytest.mark.parametrize(
    ("saved", "others"),
    [({"data": 4}, [{"data": 1}, {"data": 2}]), ({"data": 2, "tensor": 2}, [{"data": 1, "tensor": 3}])],
)
def test_any_mesh_goes_on_where_another_was(tmp_path, saved, others):
    before = on_ranks(size(saved), f"{PROGRAMS}:save", saved, tmp_path / "c")
    state = wg.load(tmp_path / "c")
    expected = whole(before, "saved")
    assert all(state["model"][name].numpy().tobytes() == expected[f"model.{name}"][1] for name in state["model"])
    for sizes in others:
        after = on_ranks(size(sizes), f"{PROGRAMS}:go_on", sizes, tmp_path / "c")
        assert whole(after, "loaded") == expected
        if "tensor" not in {**saved, **sizes}:
            assert whole(after, "end") == whole(before, "end")  # with parts: as if it had never stopped


def test_a_rank_killed_while_saving_leaves_the_checkpoint_before(tmp_path):
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "arguments").write_bytes(pickle.dumps((tmp_path,)))
    start = moment()
    done = launch(2, command(f"{PROGRAMS}:die_while_saving", str(tmp_path / "results")))
    assert done.status != 0 and not done.results
    assert moment() - start < 15  # and not the minute that rank 0 would wait for a file
    assert wg.load(tmp_path / "1")["x"].tolist() == [1.0] * 3
    assert not is_complete(tmp_path / "2")
