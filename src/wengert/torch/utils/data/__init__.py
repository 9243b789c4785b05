"""`torch.utils.data`: Wengert's samples in batches, as tensors of this package, in the order that PyTorch draws."""

from __future__ import annotations

import random as _random
from collections.abc import Sequence
from typing import Any

import numpy as _np

import wengert as _wg
from wengert import data as _data
from wengert.data import draws as _draws
from wengert.torch.missing import missing_attribute as _missing_attribute
from wengert.torch.tensor import Tensor as _Tensor
from wengert.torch.tensor import of as _of


class _TorchDraws(_draws.Draws):
    """Random numbers of `torch`, drawn in PyTorch's order."""

    def seed(self, generator: Any = None) -> int:
        import wengert.torch as torch

        return int(torch.empty((), dtype=torch.int64).random_(generator=generator).item())

    def generator(self, seed: int) -> Any:
        import wengert.torch as torch

        return torch.Generator().manual_seed(seed)

    def permutation(self, count: int, generator: Any = None) -> list[int]:
        import wengert.torch as torch

        found: list[int] = torch.randperm(count, generator=generator).tolist()
        return found

    def integers(self, high: int, size: int, generator: Any = None) -> list[int]:
        import wengert.torch as torch

        found: list[int] = torch.randint(high, (size,), generator=generator).tolist()
        return found

    def weighted(self, weights: Sequence[float], count: int, replacement: bool, generator: Any = None) -> list[int]:
        import wengert.torch as torch

        chances = torch.as_tensor(weights, dtype=torch.double)
        found: list[int] = torch.multinomial(chances, count, replacement, generator=generator).tolist()
        return found

    def seed_process(self, base: int, worker: int) -> None:
        import wengert.torch as torch

        _random.seed(base + worker)
        entropy = [worker, base & 0xFFFFFFFF, base >> 32, 0]
        _np.random.seed(_np.random.SeedSequence(entropy).generate_state(4))
        torch.manual_seed(base + worker)


_torch_draws = _TorchDraws()


def _convert(array: Any) -> _Tensor:
    """An array that a batch consists of as a tensor."""
    return _of(_wg.tensor(array, copy=False) if isinstance(array, _np.ndarray) else array)


Sampler, SequentialSampler, BatchSampler = _data.Sampler, _data.SequentialSampler, _data.BatchSampler


class RandomSampler(_data.RandomSampler):
    """Indices in random order."""

    draws = _torch_draws


class SubsetRandomSampler(_data.SubsetRandomSampler):
    """Some indices in random order."""

    draws = _torch_draws


class WeightedRandomSampler(_data.WeightedRandomSampler):
    """Indices drawn by weights."""

    draws = _torch_draws


class DataLoader(_data.SampleLoader):
    """The batches of a data set, with PyTorch's options."""

    convert = staticmethod(_convert)  # type: ignore[assignment]  # no method, whatever mypy takes a callable for
    draws = _torch_draws
    random_sampler = RandomSampler


def default_collate(batch: Any) -> Any:
    """Samples as one batch."""
    return _data.default_collate(batch, convert=_convert)


def default_convert(data: Any) -> Any:
    """Arrays within containers as tensors."""
    return _data.default_convert(data, convert=_convert)


def random_split(dataset: Any, lengths: Any, generator: Any = None) -> Any:
    """The data set in parts of these lengths, or shares, drawn at random."""
    return _data.random_split(dataset, lengths, generator, draws=_torch_draws)


Dataset, IterableDataset, TensorDataset = _data.Dataset, _data.IterableDataset, _data.TensorDataset
ConcatDataset, ChainDataset, StackDataset = _data.ConcatDataset, _data.ChainDataset, _data.StackDataset
Subset, get_worker_info = _data.Subset, _data.get_worker_info


def __getattr__(name: str) -> Any:
    if name == "distributed":
        from wengert.torch.utils.data import distributed

        return distributed
    return _missing_attribute("torch.utils.data", name)
