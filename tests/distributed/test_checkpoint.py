"""Checkpoints of several ranks: saved by one world, loaded by any other, whole or refused."""

from __future__ import annotations

import itertools
import os
import random
import subprocess
import sys
import threading
from contextlib import nullcontext

import ml_dtypes
import numpy as np
import pytest

import wengert as wg
from tests.distributed.rank_states import in_threads, placed, same, save_by, state_of
from wengert.api import manifest as manifests
from wengert.api.sharded_files import ShardReader, is_complete, read_manifest, whole
from wengert.core import communication
from wengert.core.errors import ArgumentError, FileError, ShapeError
from wengert.core.mesh import Mesh
from wengert.core.placement import Placement, ShardedArray
from wengert.distributed import background, shards
from wengert.distributed.checkpoint import Saver, read_checkpoint

RNG = np.random.default_rng(0)
WHOLES = {
    "rows": RNG.normal(size=(24, 5)).astype(np.float32),
    "columns": RNG.normal(size=(3, 12, 2)).astype(ml_dtypes.bfloat16),
    "mask": RNG.random((12, 12)) < 0.5,
    "wave": RNG.normal(size=(12, 3)) + 1j * RNG.normal(size=(12, 3)),
    "counts": RNG.integers(0, 99, (12,)),
    "replicated": RNG.normal(size=(7,)),
    "scalar": np.array(2.5),
    "empty": np.zeros((12, 0, 3), np.float32),
}
SPLITS = {"rows": 0, "columns": 1, "mask": 0, "wave": 0, "counts": 0, "empty": 0}
OTHERS = {"step": 7, "order": {"epoch": 1, "batch": 2}, "loss": float("nan"), "names": ("a", None)}


def one_axis(ranks, name="data"):
    mesh = Mesh(**{name: ranks})
    return {tensor: Placement(mesh, {name: axis}) for tensor, axis in SPLITS.items()}


def states(placements, ranks, wholes=WHOLES):
    return [state_of(wholes, placements, rank, **OTHERS) for rank in range(ranks)]


def check_loaded(folder, placements, ranks):
    """Every rank of a world finds its blocks."""
    zeros = {name: np.zeros_like(array) for name, array in WHOLES.items()}
    for rank in range(ranks):
        loaded = read_checkpoint(folder, state_of(zeros, placements, rank), rank)
        assert {k: v for k, v in loaded.items() if k != "model"} | {"loss": 0} == OTHERS | {"loss": 0}
        assert loaded["model"].keys() == WHOLES.keys()
        for name, array in WHOLES.items():
            found = loaded["model"][name]
            if name not in placements or placements[name].is_replicated:
                assert same(found.numpy(), array), name
                continue
            buffer = found.node.buffer
            assert isinstance(buffer, ShardedArray) and buffer.placement == placements[name]
            assert found.shape == array.shape
            assert same(buffer.block, placements[name].block(array, rank)), name


@pytest.mark.parametrize("saved", [1, 2, 3, 4])
def test_any_world_loads_what_any_other_saved(tmp_path, saved):
    save_by(tmp_path / "c", states(one_axis(saved), saved), chunk=64)
    for ranks in (1, 2, 3, 4):
        check_loaded(tmp_path / "c", one_axis(ranks, "tensor"), ranks)
    loaded = wg.load(tmp_path / "c")
    assert all(same(loaded["model"][name].numpy(), array) for name, array in WHOLES.items())
    assert loaded["order"] == OTHERS["order"] and loaded["names"] == OTHERS["names"] and np.isnan(loaded["loss"])


TWO = Mesh(data=2, tensor=2)
SIX = Mesh(data=3, tensor=2)
MESHES = {
    "both axes of a matrix": (4, {"mask": Placement(TWO, {"data": 0, "tensor": 1})}),
    "runs of an axis": (
        4,
        {
            "rows": Placement(TWO, {"data": 0, "tensor": 0}, runs={"tensor": 3}),
            "mask": Placement(TWO, {"data": 0, "tensor": 1}, runs={"tensor": 3}),
            "wave": Placement(TWO, {"tensor": 0}, runs={"tensor": 2}),
            "columns": Placement(TWO, {"tensor": 1}, runs={"tensor": 6}),
        },
    ),
    "one axis twice": (4, {"rows": Placement(TWO, {"data": 0, "tensor": 0}), "counts": Placement(TWO, {"tensor": 0})}),
    "crosswise": (4, {"mask": Placement(TWO, {"data": 1, "tensor": 0}), "columns": Placement(TWO, {"data": 1})}),
    "six": (6, {"mask": Placement(SIX, {"data": 0, "tensor": 1}), "wave": Placement(SIX, {"tensor": 0})}),
    "replicated": (3, {}),
}


@pytest.mark.parametrize(("first", "second"), list(itertools.product(MESHES, MESHES)))
def test_any_mesh_loads_what_any_other_saved(tmp_path, first, second):
    save_by(tmp_path / "c", states(MESHES[first][1], MESHES[first][0]), chunk=32)
    check_loaded(tmp_path / "c", MESHES[second][1], MESHES[second][0])


def test_a_block_is_written_once_by_the_lowest_that_holds_it(tmp_path):
    placements = {"rows": Placement(TWO, {"tensor": 0}), "mask": Placement(TWO, {"data": 0})}
    wholes = {name: WHOLES[name] for name in ("rows", "mask", "replicated")}
    save_by(tmp_path / "c", states(placements, 4, wholes))
    found = {name: [b.file for b in t.blocks] for name, t in read_manifest(tmp_path / "c").tensors.items()}
    assert found == {"model.rows": [0, 1], "model.mask": [0, 2], "model.replicated": [0]}


def test_the_stage_that_has_a_value_writes_it():
    mesh = Mesh(data=2, stage=2)
    at_end = Placement(mesh, {}, at={"stage": 1})
    assert [rank for rank in range(4) if shards.writes(at_end, rank)] == [1]
    cut = Placement(mesh, {"data": 0}, at={"stage": 1})
    assert [rank for rank in range(4) if shards.writes(cut, rank)] == [1, 3]


def test_a_rank_reads_the_bytes_of_its_block_alone(tmp_path):
    array = np.arange(4096, dtype=np.float32).reshape(64, 64)
    save_by(
        tmp_path / "c", [{"x": placed(array, Placement(Mesh(d=2), {"d": 0}), rank)} for rank in range(2)], chunk=256
    )
    manifest = read_manifest(tmp_path / "c")
    with ShardReader(tmp_path / "c", manifest) as reader:
        assert same(reader.read("x", (slice(16, 48), slice(0, 64))), array[16:48])
        assert reader.bytes_read == 32 * 256
    with ShardReader(tmp_path / "c", manifest) as reader:
        assert same(reader.read("x", (slice(3, 5), slice(8, 16))), array[3:5, 8:16])
        assert reader.bytes_read == 2 * 256
    with ShardReader(tmp_path / "c", manifest) as reader:
        assert same(reader.read("x", whole((64, 64))), array)
        assert reader.bytes_read == array.nbytes


def test_shapes_that_differ_are_told(tmp_path):
    save_by(tmp_path / "c", states(one_axis(2), 2))
    like = {"model": {"rows": placed(np.zeros((4, 5), np.float32), Placement(Mesh(d=2), {"d": 0}), 0)}}
    with pytest.raises(ShapeError, match=r"'model.rows' has shape \(24, 5\) in the checkpoint, but \(4, 5\) here"):
        read_checkpoint(tmp_path / "c", like, 0)


def test_a_mesh_of_another_size_is_refused():
    with pytest.raises(ArgumentError, match=r"'x' is placed on Mesh\(d=2\) of 2 ranks, but 3 ranks save it"):
        shards.snapshot({"x": placed(np.zeros(4), Placement(Mesh(d=2), {"d": 0}), 0)}, 0, 3)


def test_state_dicts_hold_blocks_and_give_them_back():
    """What a state dict names is not gathered, which without a world would raise; and loading it keeps the blocks."""
    placement = Placement(Mesh(d=2), {"d": 0})
    array = np.arange(24, dtype=np.float32).reshape(6, 4)
    model, other = wg.nn.Linear(4, 6), wg.nn.Linear(4, 6)
    blocks = {"weight": placed(array, placement, 1), "bias": placed(array[:, 0], placement, 1)}
    model.load_state_dict(blocks)
    other.load_state_dict(model.state_dict())
    wg.zeros(1).numpy()  # computes what is pending
    for slot in (model.weight, other.weight, other.state_dict()["weight"]):
        found = shards.array_of(slot)
        assert isinstance(found, ShardedArray) and same(found.block, array[3:])
    snapshot = shards.snapshot({"model": other.state_dict()}, 1, 2)
    assert same(snapshot.blocks.arrays["model.weight"], array[3:])
    assert snapshot.blocks.starts["model.weight"] == [3, 0]


def test_shared_tensors_stay_shared(tmp_path):
    tensor = wg.ones(3)
    save_by(tmp_path / "c", [{"a": tensor, "b": [tensor]}])
    loaded = wg.load(tmp_path / "c")
    assert loaded["a"] is loaded["b"][0]


# --- damage ---------------------------------------------------------------------------------------------------------


def small(tmp_path):
    folder = tmp_path / "c"
    save_by(folder, states(one_axis(3), 3), step=5, chunk=64)
    return folder


def rewritten(folder, change):
    """Change a manifest, with a checksum that fits."""
    path = folder / manifests.NAME
    path.write_text(manifests.text_of(change(manifests.parsed(path.read_bytes()))))


def with_blocks(manifest, name, change):
    stored = manifest.tensors[name]
    changed = stored._replace(blocks=tuple(change(list(stored.blocks))))
    return manifest._replace(tensors={**manifest.tensors, name: changed})


def test_a_missing_file_is_refused_by_name(tmp_path):
    folder = small(tmp_path)
    next(folder.glob("rank-00001.*")).unlink()
    with pytest.raises(FileError, match=r"rank-00001.*is missing: the file of rank 1 of 3"):
        wg.load(folder)


def test_an_incomplete_checkpoint_is_told(tmp_path):
    folder = small(tmp_path)
    (folder / manifests.NAME).unlink()
    with pytest.raises(FileError, match=r"is incomplete: it has files of the ranks 0, 1, 2 but no manifest.json"):
        wg.load(folder)


def test_the_file_of_a_rank_alone_is_refused(tmp_path):
    with pytest.raises(FileError, match="holds the part of one rank only; load the folder"):
        wg.load(next(small(tmp_path).glob("rank-00001.*")))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m: m._replace(files=m.files[:2]), "names the files of 2 ranks of 3"),
        (lambda m: with_blocks(m, "model.rows", lambda b: b[:1] + b[2:]), r"'model.rows' at \[8, 0\] is missing"),
        (lambda m: with_blocks(m, "model.rows", lambda b: [*b, b[0]]), r"'model.rows' at \[0, 0\] overlaps another"),
        (
            lambda m: with_blocks(m, "model.rows", lambda b: [b[0], b[1]._replace(start=(7, 0)), b[2]]),
            r"'model.rows' at .* overlaps another",
        ),
        (
            lambda m: with_blocks(m, "model.rows", lambda b: [*b[:2], b[2]._replace(start=(17, 0))]),
            "'model.rows' extends beyond it",
        ),
        (lambda m: with_blocks(m, "model.rows", lambda b: []), r"'model.rows' at \[0, 0\] is missing"),
        (lambda m: with_blocks(m, "model.rows", lambda b: [b[0]._replace(offset=10**6), *b[1:]]), "lies outside"),
        (
            lambda m: with_blocks(m, "model.rows", lambda b: [b[0]._replace(checksums=()), *b[1:]]),
            "too few or too many",
        ),
        (lambda m: m._replace(files=(m.files[0]._replace(name="../x"), *m.files[1:])), "is not a file of rank 0"),
        (lambda m: m._replace(files=(m.files[1], m.files[0], m.files[2])), "is not a file of rank 0"),
        (lambda m: m._replace(structure={"tensor": "model.nothing"}), "does not match its tensors"),
    ],
)
def test_manifests_that_do_not_fit_together_are_refused(tmp_path, change, message):
    folder = small(tmp_path)
    rewritten(folder, change)
    with pytest.raises(FileError, match=message):
        wg.load(folder)


def mutated(content, draw):
    """The content with a random change: a bit, a byte, a piece removed, doubled, zeroed, or cut off."""
    data = bytearray(content)
    place, length, kind = draw.randrange(len(data)), draw.choice([1, 2, 8, 64]), draw.randrange(6)
    if kind == 0:
        data[place] ^= 1 << draw.randrange(8)
    elif kind == 1:
        data[place] = draw.randrange(256)
    elif kind == 2:
        del data[place : place + length]
    elif kind == 3:
        data[place:place] = data[place : place + length]
    elif kind == 4:
        data[place : place + length] = bytes(len(data[place : place + length]))
    else:
        del data[place:]
    return bytes(data)


def test_every_damaged_byte_is_refused(tmp_path):
    folder = small(tmp_path)
    files = [path for path in folder.iterdir() if path.name != shards.LOCK]
    assert len(files) == 4
    contents = {path: path.read_bytes() for path in files}
    draw = random.Random(0)
    for number in range(4000):
        path = draw.choice(files)
        damaged = mutated(contents[path], draw)
        if damaged == contents[path]:
            continue
        path.unlink()  # some file systems take their time to write over a file
        path.write_bytes(damaged)
        with pytest.raises(FileError):
            pytest.fail(f"mutation {number} of {path.name} was read: {wg.load(folder)}")
        path.unlink()
        path.write_bytes(contents[path])
    assert wg.load(folder)["step"] == 7


def test_a_changed_byte_is_refused_by_the_name_of_its_tensor(tmp_path):
    folder = small(tmp_path)
    manifest = read_manifest(folder)
    block = manifest.tensors["model.rows"].blocks[1]
    path = folder / manifest.files[block.file].name
    content = bytearray(path.read_bytes())
    content[block.offset + 3] ^= 1
    path.write_bytes(content)
    with pytest.raises(
        FileError, match=r"rank-00001.*is corrupt: the checksum of the tensor 'model.rows' does not match"
    ):
        wg.load(folder)
    check_other = read_checkpoint(folder, states(one_axis(3), 3)[0], 0)  # whose blocks are as they were
    assert same(check_other["model"]["rows"].node.buffer.block, WHOLES["rows"][:8])


# --- in the background ----------------------------------------------------------------------------------------------


def save_in_threads(folder, ranks, value=1.0, savers=None, step=None):
    """Save on all ranks at once and wait; what each rank returns or raises."""
    savers = savers or [Saver() for _ in range(ranks)]
    placement = Placement(Mesh(d=ranks), {"d": 0})

    def one(group):
        saver = savers[group.rank]
        x = np.full((12, 4), value, np.float32)
        saver.save(folder, {"x": placed(x, placement, group.rank), "value": value}, step, group)
        saver.wait(group)

    return in_threads(ranks, one)


def test_ranks_save_together(tmp_path):
    assert save_in_threads(tmp_path / "c", 3) == [None] * 3
    assert wg.load(tmp_path / "c")["x"].tolist() == np.ones((12, 4)).tolist()
    assert save_in_threads(tmp_path / "c", 4, 2.0) == [None] * 4  # over the other
    assert wg.load(tmp_path / "c")["x"].tolist() == np.full((12, 4), 2.0).tolist()
    assert sorted(path.name[:10] for path in (tmp_path / "c").iterdir()) == [
        "manifest.j",
        *(f"rank-0000{rank}" for rank in range(4)),
    ]


def test_what_is_saved_is_the_state_at_the_call(tmp_path, monkeypatch):
    begin = threading.Event()
    write = shards.write_shard
    monkeypatch.setattr(shards, "write_shard", lambda *args: begin.wait(30) and write(*args))
    x = wg.zeros(4)
    saver, group = Saver(), wg.distributed.checkpoint.communicator(Mesh(d=1).whole)
    saver.save(tmp_path / "c", {"x": x}, None, group)  # comes back while the file is not written
    assert not (tmp_path / "c" / manifests.NAME).exists()
    x += 1
    assert x.tolist() == [1.0] * 4
    begin.set()
    saver.wait(group)
    assert wg.load(tmp_path / "c")["x"].tolist() == [0.0] * 4


def test_a_rank_that_cannot_write_is_named_on_all(tmp_path, monkeypatch):
    assert save_in_threads(tmp_path / "c", 3) == [None] * 3
    write = shards.write_shard

    def failing(folder, blocks, rank, *rest):
        if rank == 1:
            raise OSError(28, "No space left on device")
        return write(folder, blocks, rank, *rest)

    monkeypatch.setattr(shards, "write_shard", failing)
    savers = [Saver() for _ in range(3)]
    errors = save_in_threads(tmp_path / "c", 3, 2.0, savers)
    assert [type(error) for error in errors] == [FileError] * 3
    assert "rank 1" in str(errors[0]) and "No space left" in str(errors[1]) and "rank 1 could not" in str(errors[2])
    assert wg.load(tmp_path / "c")["value"] == 1.0  # the one before
    monkeypatch.setattr(shards, "write_shard", write)
    assert save_in_threads(tmp_path / "c", 3, 3.0, savers) == [None] * 3
    assert wg.load(tmp_path / "c")["value"] == 3.0 and len(list((tmp_path / "c").iterdir())) == 4


def test_an_error_of_the_thread_is_raised_at_the_next_call_on_the_users_line(tmp_path, monkeypatch):
    monkeypatch.setattr(shards, "write_shard", lambda *args: (_ for _ in ()).throw(OSError("the disk is gone")))
    wg.distributed.save_checkpoint(tmp_path / "a", {"x": wg.ones(2)})
    with pytest.raises(FileError, match=r"a' was not saved: the disk is gone\n  at test_checkpoint.py:\d+:  wg.distr"):
        wg.distributed.save_checkpoint(tmp_path / "b", {"x": wg.ones(2)})
    monkeypatch.undo()
    wg.distributed.save_checkpoint(tmp_path / "b", {"x": wg.ones(2)})
    wg.distributed.wait_for_checkpoint()
    assert not (tmp_path / "a").exists()  # what the failed save left is cleared by the next


@pytest.mark.parametrize("resume", ["", "python train.py --resume a"])
def test_a_watcher_is_told_how_to_go_on(tmp_path, monkeypatch, resume):
    """Once for each checkpoint, when it is complete: what is told in two parts may be cut between them."""
    told = []

    class Notes:
        def during(self, name):
            return nullcontext()

        def saved(self, text):
            assert is_complete(tmp_path / "a")
            told.append(text)

    monkeypatch.setattr(communication, "watcher", Notes())
    wg.distributed.save_checkpoint(tmp_path / "a", {"x": wg.ones(2)}, resume=resume)
    assert told == []
    wg.distributed.wait_for_checkpoint()
    assert told == [f"{tmp_path / 'a'}{f' (any number of ranks): {resume}' if resume else ''}"]


def test_a_rank_that_never_writes_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(background, "DEADLINE", 0.1)
    order = background.SaveOrder(tmp_path / "c", None, 0, 2, shards.new_nonce(), None)
    shards.prepare(tmp_path / "c")
    saving = background.Saving(order, shards.snapshot({"x": wg.ones(2)}, 0, 2))
    saving.start()
    assert "has no files from the ranks 1, and no more are coming" in str(saving.finished())
    assert not (tmp_path / "c" / manifests.NAME).exists()


def test_ranks_that_save_other_things_are_named(tmp_path):
    def one(group):
        Saver().save(tmp_path / "c", {"x": wg.ones(2 + (group.rank == 2))}, 3, group)

    errors = in_threads(4, one)
    assert all("rank 2 saves different tensors" in str(error) for error in errors)


def test_a_rank_that_cannot_begin_is_named_on_all(tmp_path):
    def one(group):
        Saver().save(tmp_path / "c", {"x": object() if group.rank == 1 else 3}, None, group)

    errors = in_threads(3, one)
    assert "the value at 'x' is a object" in str(errors[1])
    assert all("rank 1 could not begin to save" in str(errors[rank]) for rank in (0, 2))


def test_a_folder_below_a_file_is_told_on_all(tmp_path):
    (tmp_path / "file").write_text("")
    errors = save_in_threads(tmp_path / "file" / "c", 2)
    assert "cannot be written" in str(errors[0]) and "rank 0 could not begin" in str(errors[1])


def test_a_file_in_the_way_is_told(tmp_path):
    (tmp_path / "c").write_text("")
    with pytest.raises(FileError, match="is a file, but a checkpoint is a folder"):
        wg.distributed.save_checkpoint(tmp_path / "c", {})
    with pytest.raises(FileError, match=r"is not a checkpoint folder; wg\.load reads files"):
        wg.distributed.load_checkpoint(tmp_path / "c")


def test_what_went_wrong_at_the_end_of_a_program_is_told(tmp_path):
    script = """
import sys, wengert as wg
from wengert.distributed import shards
def fail(*args): raise OSError("the disk is gone")
shards.write_shard = fail
wg.distributed.save_checkpoint(sys.argv[1], {"x": wg.ones(2)})
"""
    done = subprocess.run([sys.executable, "-c", script, tmp_path / "c"], capture_output=True, text=True, check=False)
    assert f"the checkpoint '{tmp_path / 'c'}' was not saved: the disk is gone" in done.stderr


def test_a_second_name_outlives_the_first(tmp_path):
    save_by(tmp_path / "a", states(one_axis(2), 2))
    shards.name_also(tmp_path / "a", tmp_path / "best")
    save_by(tmp_path / "b", states({}, 3))
    shards.name_also(tmp_path / "b", tmp_path / "best")
    shards.name_also(tmp_path / "b", tmp_path / "best")
    for folder in (tmp_path / "a", tmp_path / "b"):
        shards.remove(folder)
    assert os.listdir(tmp_path) == ["best"] and len(os.listdir(tmp_path / "best")) == 4
    assert wg.load(tmp_path / "best")["step"] == 7
