"""Data to train on: data sets, loaders that give them out in batches, augmentation, text as tokens.

Everything here works on NumPy arrays; a loader can hand out tensors on a device.
"""

from wengert.api.spelling_hints import module_attribute as _module_attribute
from wengert.data.augment import Crop, Cutout, Flip, Mixup, Normalize
from wengert.data.cifar import load_cifar10
from wengert.data.dataset import ArrayDataset, Dataset
from wengert.data.digits import load_digits
from wengert.data.loader import DataLoader
from wengert.data.mnist import load_fashion_mnist, load_mnist
from wengert.data.sequences import Sequences, Windows
from wengert.data.tokens import BytePairTokenizer, ByteTokenizer, CharacterTokenizer

__all__ = [
    "ArrayDataset",
    "BytePairTokenizer",
    "ByteTokenizer",
    "CharacterTokenizer",
    "Crop",
    "Cutout",
    "DataLoader",
    "Dataset",
    "Flip",
    "Mixup",
    "Normalize",
    "Sequences",
    "Windows",
    "load_cifar10",
    "load_digits",
    "load_fashion_mnist",
    "load_mnist",
]


def __getattr__(name: str) -> object:
    return _module_attribute(name, __all__, __name__)
