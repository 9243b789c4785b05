"""Loaders: every example once an epoch, the same batches whoever prepares them, and going on where another was."""

from __future__ import annotations

import os

import numpy as np
import pytest

import wengert as wg
from wengert.core.errors import ArgumentError, DTypeError, ShapeError
from wengert.data import ArrayDataset, DataLoader, Dataset


class Noisy(Dataset):
    """Numbers with noise from the loader's generator; at module level, so that worker processes can have it."""

    def __init__(self, size=23, fault=""):
        self.size = size
        self.fault = fault

    def __len__(self):
        return self.size

    def batch(self, indices, rng):
        if self.fault == "error":
            raise ValueError("no such picture")
        if self.fault == "death":
            os._exit(3)
        return indices, rng.random(len(indices))


def listed(batches):
    return [[part.tolist() for part in batch] for batch in batches]


def test_an_epoch_has_every_example_once_and_the_next_another_order():
    loader = DataLoader(ArrayDataset(np.arange(10)), 3, shuffle=True, seed=4)
    epochs = [np.concatenate([batch[0] for batch in loader]).tolist() for _ in range(3)]
    assert all(sorted(epoch) == list(range(10)) for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 3
    again = DataLoader(ArrayDataset(np.arange(10)), 3, shuffle=True, seed=4)
    assert np.concatenate([batch[0] for batch in again]).tolist() == epochs[0]
    other = DataLoader(ArrayDataset(np.arange(10)), 3, shuffle=True, seed=5)
    assert np.concatenate([batch[0] for batch in other]).tolist() != epochs[0]


def test_the_last_batch_is_kept_dropped_or_padded():
    data = ArrayDataset(np.arange(1, 8))
    assert [len(batch[0]) for batch in DataLoader(data, 3)] == [3, 3, 1]
    dropped = DataLoader(data, 3, drop_last=True)
    assert [len(batch[0]) for batch in dropped] == [3, 3] and len(dropped) == 2 and dropped.examples == 6
    padded = listed(DataLoader(data, 3, pad_last=True))
    assert padded[-1] == [[7, 7, 7], [1, 0, 0]] and padded[0][1] == [1, 1, 1]


def test_padding_goes_no_further_than_the_data():
    (batch,) = listed(DataLoader(ArrayDataset(np.arange(4)), 10**9, pad_last=True))
    assert batch == [[0, 1, 2, 3], [1, 1, 1, 1]]
    sequences = wg.data.Sequences([np.arange(n) for n in (3, 3, 3, 7, 7)], [4, 8])  # buckets of three and of two
    shapes = [batch[0].shape for batch in DataLoader(sequences, 2, pad_last=True)]
    assert sorted(shapes) == [(2, 4), (2, 4), (2, 8)]
    shapes = [batch[0].shape for batch in DataLoader(sequences, 100, pad_last=True)]
    assert sorted(shapes) == [(2, 8), (3, 4)]


@pytest.mark.parametrize("options", [{"prefetch": 0}, {"prefetch": 5}, {"workers": 2}], ids=str)
def test_whoever_prepares_them_batches_are_the_same(options):
    expected = [listed(loader) for loader in [DataLoader(Noisy(), 4, shuffle=True, seed=1)] for _ in range(2)]
    loader = DataLoader(Noisy(), 4, shuffle=True, seed=1, **options)
    assert [listed(loader) for _ in range(2)] == expected
    loader.close()


@pytest.mark.parametrize("stop", [0, 1, 5, 6, 8])
def test_a_loader_goes_on_where_another_was(stop):
    def take(loader, count):
        taken = []
        while len(taken) < count:
            for batch in loader:
                taken.append(batch)
                if len(taken) == count:
                    break
        return taken

    whole = take(DataLoader(Noisy(), 4, shuffle=True, seed=2), 14)
    first = DataLoader(Noisy(), 4, shuffle=True, seed=2)
    begun = take(first, stop) if stop else []
    second = DataLoader(Noisy(), 4, shuffle=True, seed=2, prefetch=0)
    second.load_state_dict(first.state_dict())
    assert listed([*begun, *take(second, 14 - stop)]) == listed(whole)


def test_tensors_come_where_a_device_is_named():
    (x, y) = next(iter(DataLoader(ArrayDataset(np.eye(2), np.arange(2)), 2, device="cpu")))
    assert isinstance(x, wg.Tensor) and y.tolist() == [0, 1]
    with pytest.raises(wg.errors.DeviceError, match="nowhere"):
        next(iter(DataLoader(ArrayDataset(np.eye(2)), 2, device="nowhere")))


def test_errors_of_workers_come_through():
    loader = DataLoader(Noisy(fault="error"), 4, workers=1)
    with pytest.raises(ValueError, match="no such picture"):
        next(iter(loader))
    loader.close()
    with pytest.raises(RuntimeError, match=r"worker 0 \(pid\(s\) \d+\) exited unexpectedly: exit status 3"):
        next(iter(DataLoader(Noisy(fault="death"), 4, workers=1)))


def test_groups_do_not_share_batches():
    data = ArrayDataset(np.arange(20))
    data.groups = np.arange(20) % 3
    loader = DataLoader(data, 4, shuffle=True)
    batches = [batch[0] for batch in loader]
    assert len(batches) == len(loader) == 6
    assert all(len(set(batch % 3)) == 1 for batch in batches)
    assert sorted(np.concatenate(batches)) == list(range(20))


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: DataLoader(ArrayDataset(np.eye(2)), 0), ArgumentError, "batch_size is 0; it is an integer from 1 on"),
        (lambda: DataLoader(np.eye(2), 1), DTypeError, "takes a wg.data.Dataset, not ndarray"),
        (lambda: DataLoader(ArrayDataset(np.eye(0)), 1), ArgumentError, "the data set is empty"),
        (
            lambda: DataLoader(ArrayDataset(np.eye(2)), 3, drop_last=True),
            ArgumentError,
            "2 examples do not fill",
        ),
        (lambda: ArrayDataset(np.eye(2), np.arange(3)), ShapeError, r"not \(2, 2\), \(3,\)"),
        (lambda: DataLoader(ArrayDataset(np.eye(2)), 1, drop_last=True, pad_last=True), ArgumentError, "not both"),
    ],
)
def test_what_makes_no_sense_is_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()


def test_examples_that_do_not_stack_are_named():
    class Ragged(Dataset):
        def __len__(self):
            return 2

        def __getitem__(self, index):
            return np.zeros(index)

    with pytest.raises(ShapeError, match="Ragged: the examples of a batch do not stack"):
        next(iter(DataLoader(Ragged(), 2)))


class Named(Dataset):
    def __len__(self):
        return 5

    def __getitem__(self, index):
        return {"x": np.full(2, index), "y": float(index), "name": f"n{index}"}


@pytest.mark.parametrize("device", [None, "cpu"])
def test_dicts_are_collated(device):
    first, last = DataLoader(Named(), 3, device=device)
    assert list(first) == ["x", "y", "name"] and first["name"] == ["n0", "n1", "n2"]
    assert first["x"].tolist() == [[0, 0], [1, 1], [2, 2]] and last["y"].tolist() == [3, 4]
    assert isinstance(first["x"], np.ndarray if device is None else wg.Tensor)
    with pytest.raises(DTypeError, match="pad_last adds an array of weights to a batch, which must be a tuple"):
        list(DataLoader(Named(), 3, pad_last=True))
