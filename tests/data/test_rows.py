"""Batches of several ranks: the parts that they hold are those of the batches of one process, on any mesh."""

from __future__ import annotations

import numpy as np
import pytest

import wengert as wg
from wengert.core.communication import current
from wengert.core.errors import ArgumentError
from wengert.core.mesh import Mesh
from wengert.core.placement import ShardedArray
from wengert.data import ArrayDataset, Crop, Cutout, DataLoader, Dataset, Flip, Mixup, Sequences, Windows

IMAGES = np.random.default_rng(0).normal(size=(50, 1, 6, 6)).astype(np.float32)
LABELS = np.arange(50)


class Counting(Dataset):
    """Examples that count how often they are made."""

    def __init__(self):
        self.made = []

    def __len__(self):
        return 24

    def __getitem__(self, index):
        self.made.append(index)
        return np.array([index, 2 * index]), index


class Drawing(Dataset):
    """Draws that are not a row each, in a `batch` of its own."""

    def __len__(self):
        return 24

    def batch(self, indices, rng):
        return (indices[rng.permutation(len(indices))],)


def images(*transforms):
    return ArrayDataset(IMAGES, LABELS, transforms=transforms)


DATA = {
    "plain": lambda: images(),
    "augmented": lambda: images(Crop(2), Flip(), Cutout(3)),
    "mixed": lambda: images(Flip(), Mixup(0.4, 50)),
    "windows": lambda: Windows(np.arange(500), 8, shift=True),
    "examples": Counting,
    "drawing": Drawing,
    "sequences": lambda: Sequences([list(range(2 + k % 9)) for k in range(60)], buckets=(4, 8)),
}
OPTIONS = [{"drop_last": True}, {"pad_last": True}, {"drop_last": True, "workers": 0, "prefetch": 0}]


def as_rank(monkeypatch, mesh, rank):
    monkeypatch.setattr(current, "size", mesh.size)
    monkeypatch.setattr(current, "rank", rank)


def check_parts(monkeypatch, make, mesh, split=None, **options):
    """Two epochs on each rank have the parts of those in one process."""
    options = {"batch_size": 12, "shuffle": True, "seed": 3, **options}
    with DataLoaderOf(make(), **options) as loader:
        expected = [*loader, *loader]
    for rank in range(mesh.size):
        as_rank(monkeypatch, mesh, rank)
        with DataLoaderOf(make(), mesh=mesh, split=split, **options) as loader:
            found = [*loader, *loader]
            assert loader.state_dict() == {"epoch": 2, "batch": 0, "seed": 3}
        assert len(found) == len(expected)
        for batch, wholes in zip(found, expected):
            assert len(batch) == len(wholes)
            for tensor, array in zip(batch, wholes):
                assert tensor.shape == array.shape
                check_block(tensor, array, mesh, split, rank)


def check_block(tensor, array, mesh, split, rank):
    buffer = tensor.node.buffer
    if not isinstance(buffer, ShardedArray):
        assert tensor.numpy().tobytes() == array.tobytes()
        return
    names = {0: "data", **(split or {})}
    assert buffer.placement.splits == {
        name: axis for axis, name in names.items() if axis < array.ndim and name in mesh.sizes
    }
    part = array[buffer.placement.slices(array.shape, rank)]
    assert buffer.block.dtype == part.dtype and buffer.block.tobytes() == part.tobytes()


class DataLoaderOf:
    """A loader that is closed at the end."""

    def __init__(self, *args, **kwargs):
        self.loader = DataLoader(*args, **kwargs)

    def __enter__(self):
        return self.loader

    def __exit__(self, *_):
        self.loader.close()


@pytest.mark.parametrize("name", DATA)
@pytest.mark.parametrize("ranks", [1, 2, 3, 4])
@pytest.mark.parametrize("options", OPTIONS)
def test_ranks_have_the_rows_of_one_process(monkeypatch, name, ranks, options):
    check_parts(monkeypatch, DATA[name], Mesh(data=ranks), **options)


@pytest.mark.parametrize("mesh", [Mesh(data=2, sequence=2), Mesh(sequence=4), Mesh(data=2, tensor=3), Mesh(tensor=2)])
def test_other_axes_are_cut_or_shared(monkeypatch, mesh):
    split = {1: "sequence"} if "sequence" in mesh else None
    check_parts(monkeypatch, DATA["windows"], mesh, split, drop_last=True)


def test_a_rank_prepares_its_rows_alone(monkeypatch):
    mesh = Mesh(data=4)
    as_rank(monkeypatch, mesh, 2)
    data = Counting()
    with DataLoaderOf(data, 8, mesh=mesh, prefetch=0) as loader:
        list(loader)
    assert data.made == [4, 5, 12, 13, 20, 21]


@pytest.mark.parametrize("ranks", [1, 2, 4])
def test_a_state_goes_on_in_a_world_of_another_size(monkeypatch, ranks):
    with DataLoaderOf(images(Crop(1)), 8, shuffle=True, seed=5, drop_last=True) as loader:
        batches = iter(loader)
        for _ in range(2):
            next(batches)
        state = loader.state_dict()
        rest = list(batches)
    mesh = Mesh(data=ranks)
    as_rank(monkeypatch, mesh, ranks - 1)
    with DataLoaderOf(images(Crop(1)), 8, shuffle=True, drop_last=True, mesh=mesh) as loader:
        loader.load_state_dict(state)
        found = list(loader)
    assert len(found) == len(rest) == 4
    for batch, wholes in zip(found, rest):
        check_block(batch[0], wholes[0], mesh, None, ranks - 1)


@pytest.mark.parametrize(
    ("size", "options", "message"),
    [
        (10, {"drop_last": True}, r"a batch of 10 examples does not divide into rows for the 4 ranks of 'data'"),
        (8, {}, r"the last batch, of 2 examples, does not divide into rows for 4 ranks; drop_last=True drops it"),
        (8, {"drop_last": True, "split": {1: "sequence"}}, "has no axis 'sequence'"),
        (8, {"drop_last": True, "split": {"rows": "data"}}, "split has the axis 'rows'"),
        (8, {"drop_last": True, "mesh": Mesh(data=3)}, r"Mesh\(data=3\) has 3 ranks, but this world has 4"),
        (8, {"mesh": None, "split": {1: "sequence"}}, "pass mesh=..."),
    ],
)
def test_batches_that_do_not_divide_are_refused(monkeypatch, size, options, message):
    as_rank(monkeypatch, Mesh(data=4), 0)
    with pytest.raises(ArgumentError, match=message):
        DataLoader(images(), size, **{"mesh": Mesh(data=4), **options})


@pytest.mark.parametrize(("parts", "size"), [(None, 52), (8, 56)])
def test_a_small_last_batch_is_filled_up_to_what_divides(monkeypatch, parts, size):
    """50 examples in batches of 64: every rank has as many rows, and what fills up weighs nothing."""
    monkeypatch.setattr(wg.config, "parts", parts)
    weights = []
    for rank in range(4):
        as_rank(monkeypatch, Mesh(data=4), rank)
        with DataLoaderOf(images(), 64, pad_last=True, mesh=Mesh(data=4)) as loader:
            (batch,) = loader
        assert batch[0].shape[0] == size
        weights += batch[-1].node.buffer.block.tolist()
    assert weights == [1.0] * 50 + [0.0] * (size - 50)


def test_a_promise_that_is_not_kept_is_told(monkeypatch):
    def shifted(batch, rng):
        return batch[0] + rng.random(3), batch[1]

    shifted.by_row = True
    as_rank(monkeypatch, Mesh(data=2), 1)
    loader = DataLoader(images(shifted), 8, drop_last=True, mesh=Mesh(data=2), prefetch=0)
    with pytest.raises(ArgumentError, match=r"a by_row transform or data set drew random of shape \(3,\) for 4 rows"):
        next(iter(loader))


def test_a_mesh_of_one_rank_gives_plain_tensors():
    loader = DataLoader(images(), 8, drop_last=True, mesh=Mesh(data=1), prefetch=0)
    batch = next(iter(loader))
    assert isinstance(batch[0], wg.Tensor) and isinstance(batch[0].node.buffer, np.ndarray)
