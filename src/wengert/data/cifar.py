"""CIFAR-10, from the original binary files: a byte of label and 3072 of pixels an image, six files of 10,000."""

from __future__ import annotations

import os
import tarfile
from pathlib import Path

import numpy as np

from wengert.core.errors import ArgumentError, FileError
from wengert.data.dataset import Array
from wengert.data.files import download, find, folder_of, verified

URL = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz"
INSIDE = "cifar-10-batches-bin"
CHECKSUMS = {
    "data_batch_1.bin": "cee916563c9f80d84e3cc88e17fdc0941787f1244f00a67874d45b261883ada5",
    "data_batch_2.bin": "a591ca11fa1708a91ee40f54b3da4784ccd871ecf2137de63f51ada8b3fa57ed",
    "data_batch_3.bin": "bbe8596564c0f86427f876058170b84dac6670ddf06d79402899d93ceea26f67",
    "data_batch_4.bin": "014e562d6e23c72197cc727519169a60359f5eccd8945ad5a09d710285ff4e48",
    "data_batch_5.bin": "755304fc0b379caeae8c14f0dac912fbc7d6cd469eb67a1029a08a39453a9add",
    "test_batch.bin": "8e2eb146ae340b09e24670f29cabc6326dba54da8789dab6768acf480273f65b",
}


def load_cifar10(
    folder: str | os.PathLike[str] | None = None, *, batches: int = 5
) -> tuple[Array, Array, Array, Array]:
    """Return `(train_images, train_labels, test_images, test_labels)`: 50,000 and 10,000 photographs of ten things.

    Images are uint8 (N, 3, 32, 32), labels int64. The files (`data_batch_1.bin`, ...) are read from `folder`, and
    downloaded to it where they are missing; with fewer `batches` that many of the five to train on, 10,000 images each.

    >>> import wengert as wg
    >>> images, labels, test_images, test_labels = wg.data.load_cifar10()  # doctest: +SKIP
    """
    if not 1 <= batches <= 5:
        raise ArgumentError(f"load_cifar10: there are 5 batches to train on, not {batches}")
    place = folder_of("cifar10", folder)
    names = [*list(CHECKSUMS)[:batches], "test_batch.bin"]
    *train, (test_images, test_labels) = [
        read_batch(verified(_path(place, name), CHECKSUMS[name]), name) for name in names
    ]
    images = np.concatenate([images for images, _ in train])
    return images, np.concatenate([labels for _, labels in train]), test_images, test_labels


def _path(folder: Path, name: str) -> Path:
    found = find(folder, name, f"{INSIDE}/{name}")
    if found is None:
        archive = folder / URL.rsplit("/", 1)[1]
        if not archive.is_file():
            download("CIFAR-10", [URL], archive)
        try:
            _unpack(archive, folder)
        except (tarfile.TarError, KeyError, EOFError) as error:
            raise FileError(f"{str(archive)!r} is damaged: {error}. Remove it, and it is downloaded again") from None
        found = folder / INSIDE / name
    return found


def _unpack(archive: Path, folder: Path) -> None:
    """Write the files out of the archive, and nothing but their bytes (`extractall` has no filters before 3.11.4)."""
    (folder / INSIDE).mkdir(exist_ok=True)
    with tarfile.open(archive) as tar:
        for name in CHECKSUMS:
            file = tar.extractfile(f"{INSIDE}/{name}")
            if file is None:
                raise tarfile.TarError(f"{name} is not a file in it")
            (folder / INSIDE / name).write_bytes(file.read())


def read_batch(content: bytes, name: str = "the file") -> tuple[Array, Array]:
    """The images and labels of a file."""
    if len(content) % 3073:
        raise FileError(f"{name} is truncated: {len(content)} bytes are not images of 3073 bytes each")
    rows = np.frombuffer(content, np.uint8).reshape(-1, 3073)
    return rows[:, 1:].reshape(-1, 3, 32, 32), rows[:, 0].astype(np.int64)
