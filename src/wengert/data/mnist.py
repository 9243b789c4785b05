"""MNIST and Fashion-MNIST, from their original files (the IDX format, compressed or not)."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import NamedTuple

import numpy as np

from wengert.core.errors import FileError
from wengert.data.dataset import Array
from wengert.data.files import download, find, folder_of, verified


class Published(NamedTuple):
    """A data set as it was published: where, and the checksums of its decompressed files."""

    title: str
    name: str
    urls: tuple[str, ...]
    checksums: dict[str, str]


MNIST = Published(
    "MNIST",
    "mnist",
    ("https://ossci-datasets.s3.amazonaws.com/mnist/", "https://storage.googleapis.com/cvdf-datasets/mnist/"),
    {
        "train-images-idx3-ubyte": "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
        "train-labels-idx1-ubyte": "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
        "t10k-images-idx3-ubyte": "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
        "t10k-labels-idx1-ubyte": "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2",
    },
)
FASHION_MNIST = Published(
    "Fashion-MNIST",
    "fashion-mnist",
    (
        "https://fashion-mnist.s3.eu-central-1.amazonaws.com/",
        "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
    ),
    {
        "train-images-idx3-ubyte": "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
        "train-labels-idx1-ubyte": "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9",
        "t10k-images-idx3-ubyte": "5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
        "t10k-labels-idx1-ubyte": "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
    },
)


def load_mnist(folder: str | os.PathLike[str] | None = None) -> tuple[Array, Array, Array, Array]:
    """Return `(train_images, train_labels, test_images, test_labels)`: 60,000 and 10,000 handwritten digits.

    Images are uint8 (N, 1, 28, 28), from 0 (paper) to 255 (ink), labels int64. The files (as published, .gz or not) are
    read from `folder`, and downloaded to it where they are missing.

    >>> import wengert as wg
    >>> images, labels, test_images, test_labels = wg.data.load_mnist()  # doctest: +SKIP
    """
    return _load(MNIST, folder)


def load_fashion_mnist(folder: str | os.PathLike[str] | None = None) -> tuple[Array, Array, Array, Array]:
    """Return `(train_images, train_labels, test_images, test_labels)`: pictures of clothes, in MNIST's sizes.

    >>> import wengert as wg
    >>> images, labels, test_images, test_labels = wg.data.load_fashion_mnist()  # doctest: +SKIP
    """
    return _load(FASHION_MNIST, folder)


def _load(published: Published, folder: str | os.PathLike[str] | None) -> tuple[Array, Array, Array, Array]:
    place = folder_of(published.name, folder)
    files = [read_idx(_content(published, place, name), name) for name in published.checksums]
    train_images, train_labels, test_images, test_labels = files
    return (
        train_images[:, None],
        train_labels.astype(np.int64),
        test_images[:, None],
        test_labels.astype(np.int64),
    )


def _content(published: Published, folder: Path, name: str) -> bytes:
    path = find(folder, name, f"{name}.gz", name.replace("-idx", ".idx"))
    if path is None:
        path = folder / f"{name}.gz"
        download(published.title, [f"{url}{name}.gz" for url in published.urls], path)
    return verified(path, published.checksums[name])


def read_idx(content: bytes, name: str = "the file") -> Array:
    """The uint8 array of a file in the IDX format: 0, 0, type 8, number of axes, sizes as big-endian uint32, bytes.

    >>> read_idx(bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 8, 9])).tolist()
    [7, 8, 9]
    """
    if len(content) < 4 or content[:3] != b"\x00\x00\x08":
        raise FileError(f"{name} is not in the IDX format of unsigned bytes: it starts with {content[:4].hex(' ')}")
    start = 4 + 4 * content[3]
    if len(content) < start:
        raise FileError(f"{name} is truncated: it breaks off in its header")
    shape = struct.unpack(f">{content[3]}I", content[4:start])
    if len(content) - start != int(np.prod(shape)):
        raise FileError(f"{name} is truncated or altered: {len(content) - start} bytes for an array of shape {shape}")
    return np.frombuffer(content, np.uint8, offset=start).reshape(shape)
