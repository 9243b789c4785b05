"""Reading checkpoints that several ranks wrote: any part of any tensor, in whatever blocks it was saved.

In: the folder, and for each tensor which part is wanted. Out: NumPy arrays of those parts. Of each block that a part
intersects the bytes that it needs are read, in the chunks that have a checksum each; nothing else of the files is but
their headers. `manifest` tells where blocks lie; `wengert.distributed` writes such folders.
"""

from __future__ import annotations

import math
import zlib
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from wengert.api import manifest as manifests
from wengert.api.manifest import FILE_NAME, Manifest, ManifestError, ShardFile, StoredBlock, StoredTensor
from wengert.api.safetensors_format import DTYPES, Arrays, elements
from wengert.core.errors import FileError

SHARD = "shard"
"""What the metadata of a rank's file has beside its blocks."""

Part = tuple[slice, ...]


def is_checkpoint(path: Path) -> bool:
    """Whether a path is a folder with a checkpoint written by several ranks, complete or not."""
    return path.is_dir() and ((path / manifests.NAME).exists() or bool(_ranks_there(path)))


def is_complete(path: Path) -> bool:
    """Whether the manifest, which is written last, exists."""
    return (path / manifests.NAME).is_file()


def _ranks_there(folder: Path) -> list[int]:
    found = [FILE_NAME.fullmatch(path.name) for path in folder.glob("rank-*")]
    return sorted({int(match[1]) for match in found if match})


def read_manifest(folder: Path) -> Manifest:
    """Read the manifest of a complete checkpoint, and check that all its files exist."""
    path = folder / manifests.NAME
    if not path.exists():
        ranks = ", ".join(map(str, _ranks_there(folder)))
        raise FileError(
            f"load: {str(folder)!r} is incomplete: it has files of the ranks {ranks} but no {manifests.NAME}, which "
            "is written last. The save was interrupted; load an earlier checkpoint"
        )
    try:
        manifest = manifests.parsed(path.read_bytes())
    except ManifestError as error:
        raise FileError(f"load: {str(path)!r} {error}") from None
    for rank, file in enumerate(manifest.files):
        _check_size(folder / file.name, file, rank, manifest.ranks)
    return manifest


def _check_size(path: Path, file: ShardFile, rank: int, ranks: int) -> None:
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        raise FileError(f"load: {str(path)!r} is missing: the file of rank {rank} of {ranks}") from None
    if size != file.size:
        what = "is truncated" if size < file.size else "was altered"
        raise FileError(f"load: {str(path)!r} {what}: it has {size} bytes of {file.size}")


# --- tensors --------------------------------------------------------------------------------------------------------


def read_whole(folder: Path) -> tuple[Manifest, Arrays]:
    """Read the manifest, and all tensors by name."""
    manifest = read_manifest(folder)
    with ShardReader(folder, manifest) as reader:
        reader.check_headers()
        return manifest, {name: reader.read(name, whole(stored.shape)) for name, stored in manifest.tensors.items()}


def whole(shape: tuple[int, ...]) -> Part:
    """The block that covers a whole tensor."""
    return tuple(slice(0, size) for size in shape)


class ShardReader:
    """Reads parts of tensors from the files of a checkpoint; inside a `with` it keeps them open."""

    def __init__(self, folder: Path, manifest: Manifest) -> None:
        self.folder, self.manifest = folder, manifest
        self.bytes_read = 0  # of blocks
        self._stack = ExitStack()
        self._files: dict[int, BinaryIO] = {}

    def __enter__(self) -> ShardReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def check_headers(self) -> None:
        """Raise an error unless the headers of all files are as they were written, including files that no block is
        read from."""
        for number in range(len(self.manifest.files)):
            self._opened(number)

    def read(self, name: str, part: Part) -> np.ndarray[Any, Any]:
        """Read a block of a tensor."""
        stored = self.manifest.tensors[name]
        dtype = DTYPES[stored.dtype]
        shape = tuple(cut.stop - cut.start for cut in part)
        if 0 in shape:
            return np.empty(shape, dtype)
        found: np.ndarray[Any, Any] | None = None
        for block in stored.blocks:
            cuts = _meeting(part, block)
            if cuts is None:
                continue
            inside, there = cuts
            read = self._block(name, stored, block, inside)[inside]
            if read.shape == shape:
                return read if shape == block.shape else read.copy()  # which lets go of the rest of the block
            found = np.empty(shape, dtype) if found is None else found
            found[there] = read
        assert found is not None, "the blocks of a manifest cover every tensor"
        return found

    def _block(self, name: str, stored: StoredTensor, block: StoredBlock, inside: Part) -> np.ndarray[Any, Any]:
        """An array of a block in which the elements of a part are those of the file, and others are anything."""
        dtype = DTYPES[stored.dtype]
        chunk = self.manifest.chunk
        raw = np.empty(math.prod(block.shape) * dtype.itemsize, np.uint8)  # pages not written to take no memory
        needed = _chunks(block.shape, inside, dtype.itemsize, chunk)
        if needed.all():
            self._fill(name, block, raw, range(len(block.checksums)))
        else:
            edges = np.flatnonzero(np.diff(needed, prepend=False, append=False))
            for first, last in edges.reshape(-1, 2):
                self._fill(name, block, raw, range(first, last))
        return elements(raw, dtype).reshape(block.shape)

    def _fill(self, name: str, block: StoredBlock, raw: np.ndarray[Any, Any], chunks: range) -> None:
        """Read neighbouring chunks of a block into their place, and compare their checksums."""
        chunk = self.manifest.chunk
        file = self._opened(block.file)
        target = raw[chunks.start * chunk : chunks.stop * chunk]
        file.seek(block.offset + chunks.start * chunk)
        count = file.readinto(target.data)  # type: ignore[attr-defined]
        self.bytes_read += count
        where = f"load: {str(self.folder / self.manifest.files[block.file].name)!r}"
        if count != target.size:
            raise FileError(f"{where} is truncated: it became shorter while it was read")
        for number in chunks:
            if zlib.crc32(raw[number * chunk : (number + 1) * chunk].data) != block.checksums[number]:
                raise FileError(f"{where} is corrupt: the checksum of the tensor {name!r} does not match")

    def _opened(self, number: int) -> BinaryIO:
        """A file of a rank, whose header is as it was written."""
        if number not in self._files:
            described = self.manifest.files[number]
            path = self.folder / described.name
            file = self._stack.enter_context(path.open("rb", buffering=0))
            if zlib.crc32(file.read(described.header)) != described.checksum:
                raise FileError(f"load: {str(path)!r} is corrupt: the checksum of its header does not match")
            self._files[number] = file
        return self._files[number]


def _meeting(part: Part, block: StoredBlock) -> tuple[Part, Part] | None:
    """Where the intersection of a part and a block lies in the block and in the part; None if there is none."""
    inside, there = [], []
    for cut, indices in zip(part, block.ranges):
        start, stop = max(cut.start, indices.start), min(cut.stop, indices.stop)
        if start >= stop:
            return None
        inside.append(slice(start - indices.start, stop - indices.start))
        there.append(slice(start - cut.start, stop - cut.start))
    return tuple(inside), tuple(there)


def _chunks(shape: tuple[int, ...], inside: Part, itemsize: int, chunk: int) -> np.ndarray[Any, Any]:
    """Which chunks of a block's bytes hold an element of a part of it."""
    size = math.prod(shape) * itemsize
    axes = len(shape)
    while axes and (inside[axes - 1].start, inside[axes - 1].stop) == (0, shape[axes - 1]):
        axes -= 1
    if not axes:
        return np.ones(-(-size // chunk), bool)
    inner = math.prod(shape[axes:]) * itemsize  # from the last axis that is cut on, elements lie side by side
    starts = np.array([inside[axes - 1].start * inner])
    stride = inner * shape[axes - 1]
    for axis in reversed(range(axes - 1)):
        starts = (np.arange(inside[axis].start, inside[axis].stop)[:, None] * stride + starts).reshape(-1)
        stride *= shape[axis]
    length = (inside[axes - 1].stop - inside[axes - 1].start) * inner
    counts = np.zeros(-(-size // chunk) + 1, np.int64)
    np.add.at(counts, starts // chunk, 1)
    np.add.at(counts, (starts + length - 1) // chunk + 1, -1)
    return np.cumsum(counts)[:-1] > 0
