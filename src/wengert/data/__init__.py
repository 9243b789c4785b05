"""Training data: data sets, loaders that batch them, augmentation, text as tokens.

Everything here works on NumPy arrays; a loader can hand out tensors on a device.
"""

from wengert.api.spelling_hints import module_attribute as _module_attribute
from wengert.data.augment import Crop, Cutout, Flip, Mixup, Normalize
from wengert.data.cifar import load_cifar10
from wengert.data.collate import default_collate, default_convert
from wengert.data.combined import (
    ChainDataset,
    ConcatDataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from wengert.data.dataset import ArrayDataset, Dataset
from wengert.data.digits import load_digits
from wengert.data.loader import DataLoader
from wengert.data.mnist import load_fashion_mnist, load_mnist
from wengert.data.sample_loader import SampleLoader
from wengert.data.samplers import (
    BatchSampler,
    DistributedSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from wengert.data.sequences import Sequences, Windows
from wengert.data.tokens import BytePairTokenizer, ByteTokenizer, CharacterTokenizer
from wengert.data.worker import WorkerInfo, get_worker_info

__all__ = [
    "ArrayDataset",
    "BatchSampler",
    "BytePairTokenizer",
    "ByteTokenizer",
    "ChainDataset",
    "CharacterTokenizer",
    "ConcatDataset",
    "Crop",
    "Cutout",
    "DataLoader",
    "Dataset",
    "DistributedSampler",
    "Flip",
    "IterableDataset",
    "Mixup",
    "Normalize",
    "RandomSampler",
    "SampleLoader",
    "Sampler",
    "Sequences",
    "SequentialSampler",
    "StackDataset",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "Windows",
    "WorkerInfo",
    "default_collate",
    "default_convert",
    "get_worker_info",
    "load_cifar10",
    "load_digits",
    "load_fashion_mnist",
    "load_mnist",
    "random_split",
]


def __getattr__(name: str) -> object:
    return _module_attribute(name, __all__, __name__)
