"""Samplers: which numbers they give, and how that compares with PyTorch's where nothing is random."""

from __future__ import annotations

import numpy as np
import pytest

import wengert as wg
from wengert.data import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from wengert.data.draws import Draws


def test_random_orders_follow_their_generator():
    generator = wg.random.Generator(3)
    first, second = (
        list(RandomSampler(range(9), generator=generator)),
        list(RandomSampler(range(9), generator=generator)),
    )
    assert sorted(first) == sorted(second) == list(range(9)) and first != second
    assert first == list(RandomSampler(range(9), generator=wg.random.Generator(3)))
    wg.manual_seed(5)
    first = list(RandomSampler(range(9)))
    wg.manual_seed(5)
    assert first == list(RandomSampler(range(9)))


def test_more_numbers_than_examples_and_replacement():
    found = list(RandomSampler(range(4), num_samples=10))
    assert len(found) == 10 and sorted(found[:4]) == sorted(found[4:8]) == list(range(4))
    found = list(RandomSampler(range(4), replacement=True, num_samples=100, generator=np.random.default_rng(0)))
    assert len(found) == 100 and set(found) == set(range(4))
    assert sorted(SubsetRandomSampler([5, 2, 9])) == [2, 5, 9]


def test_weights_are_kept():
    found = list(WeightedRandomSampler([0, 1, 3], 4000, generator=np.random.default_rng(0)))
    assert found.count(0) == 0 and abs(found.count(2) / 4000 - 0.75) < 0.03
    assert sorted(WeightedRandomSampler([1, 2, 3], 3, replacement=False)) == [0, 1, 2]
    with pytest.raises(ValueError, match="3 of 2 indices"):
        list(WeightedRandomSampler([1, 0, 3], 3, replacement=False))
    with pytest.raises(ValueError, match="non-negative"):
        list(WeightedRandomSampler([-1, 2], 3))
    with pytest.raises(ValueError, match=r"given weights have shape \(1, 1\)"):
        WeightedRandomSampler([[1]], 3)


@pytest.mark.parametrize("count", [0, 1, 5, 12])
@pytest.mark.parametrize("drop_last", [False, True])
def test_those_without_chance_are_pytorchs(count, drop_last):
    torch = pytest.importorskip("torch.utils.data")
    for ranks in (1, 2, 7):
        for rank in range(ranks):
            options = {"num_replicas": ranks, "rank": rank, "shuffle": False, "drop_last": drop_last}
            ours = DistributedSampler(range(count), **options)
            theirs = torch.DistributedSampler(range(count), **options)
            assert len(ours) == len(theirs)
            if count:
                assert list(ours) == list(theirs)
    ours = BatchSampler(SequentialSampler(range(count)), 5, drop_last)
    theirs = torch.BatchSampler(torch.SequentialSampler(range(count)), 5, drop_last)
    assert list(ours) == list(theirs) and len(ours) == len(theirs)


def test_ranks_share_an_order_that_changes_with_the_epoch():
    parts = [DistributedSampler(range(12), 3, rank, seed=4) for rank in range(3)]
    assert sorted(number for part in parts for number in part) == list(range(12))
    first = list(parts[0])
    parts[0].set_epoch(1)
    assert list(parts[0]) != first
    with pytest.raises(ValueError, match=r"Invalid rank 3, rank should be in the interval \[0, 2\]"):
        DistributedSampler(range(12), 3, 3)


def test_draws_can_be_another_librarys():
    class Backwards(Draws):
        def seed(self, generator=None):
            return 1

        def permutation(self, count, generator=None):
            return list(range(count))[::-1]

    class Theirs(RandomSampler):
        draws = Backwards()

    assert list(Theirs(range(4))) == [3, 2, 1, 0]


def test_workers_numpy_is_seeded_as_by_pytorch():
    worker = pytest.importorskip("torch.utils.data._utils.worker")
    for base in (3, 2**40 + 17, 2**63 - 1):
        state = np.random.get_state()
        try:
            Draws().seed_process(base, 5)
            found = np.random.random(3)
            np.random.seed(worker._generate_state(base, 5))
            assert found.tolist() == np.random.random(3).tolist()
        finally:
            np.random.set_state(state)
    with pytest.raises(TypeError, match=r"generator must be a wg\.random\.Generator or a NumPy Generator, not int"):
        Draws().seed(3)


def test_with_pytorchs_numbers_the_orders_are_pytorchs():
    """What a package on top sets: `draws`, and a random sampler with them."""
    torch = pytest.importorskip("torch")
    import torch.utils.data as theirs

    class TorchDraws(Draws):
        def seed(self, generator=None):
            return int(torch.empty((), dtype=torch.int64).random_(generator=generator).item())

        def generator(self, seed):
            return torch.Generator().manual_seed(seed)

        def permutation(self, count, generator=None):
            return torch.randperm(count, generator=generator).tolist()

        def integers(self, high, size, generator=None):
            return torch.randint(high, (size,), generator=generator).tolist()

        def weighted(self, weights, count, replacement, generator=None):
            return torch.multinomial(torch.as_tensor(weights), count, replacement, generator=generator).tolist()

    def with_draws(kind):
        return type(kind.__name__, (kind,), {"draws": TorchDraws()})

    class Loader(wg.data.SampleLoader):
        draws = TorchDraws()
        random_sampler = with_draws(RandomSampler)

    def epochs(loader):
        torch.manual_seed(3)
        return [[list(map(int, batch)) for batch in loader] for _ in range(2)] + [torch.rand(1).item()]

    weights = [0.1, 2.0, 1.0, 0.5]
    pairs = [
        (Loader(range(50), 8, True), theirs.DataLoader(range(50), 8, True)),
        (Loader(range(50), 8, True, num_workers=2), theirs.DataLoader(range(50), 8, True, num_workers=2)),
        *[
            (
                Loader(range(4), 3, sampler=with_draws(getattr(wg.data, name))(*args)),
                theirs.DataLoader(range(4), 3, sampler=getattr(theirs, name)(*args)),
            )
            for name, args in (
                ("RandomSampler", (range(4), True, 70)),
                ("RandomSampler", (range(4), False, 70)),
                ("SubsetRandomSampler", ([3, 1, 2],)),
                ("WeightedRandomSampler", (weights, 9)),
                ("WeightedRandomSampler", (weights, 3, False)),
                ("DistributedSampler", (range(4), 2, 1)),
            )
        ],
    ]
    for ours, expected in pairs:
        assert epochs(ours) == epochs(expected)
    seeds = [torch.Generator().manual_seed(1) for _ in range(2)]
    for lengths in ([3, 7], [0.31, 0.69]):
        found = wg.data.random_split(range(10), lengths, seeds[0], draws=TorchDraws())
        assert [list(part) for part in found] == [list(p) for p in theirs.random_split(range(10), lengths, seeds[1])]
