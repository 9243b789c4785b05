"""Manifests: the contents of a checkpoint written by several ranks, and the location of each block of each tensor.

A checkpoint is a folder: a safetensors file of each rank with the blocks that it wrote, and `manifest.json`, which
names the files and is written last. In and out: a `Manifest` and its text. A manifest's text is checked when it is
read: no byte has changed, and the blocks of every tensor cover it exactly once.
"""

from __future__ import annotations

import json
import math
import re
import zlib
from itertools import pairwise, product
from typing import Any, NamedTuple

import numpy as np

from wengert.api.safetensors_format import DTYPES

NAME = "manifest.json"
FORMAT = "wengert checkpoint"
VERSION = 1
FILE_NAME = re.compile(r"rank-(\d{5,})\.([0-9a-f]{16})\.safetensors")

Shape = tuple[int, ...]


class ManifestError(Exception):
    """An inconsistent manifest; the reader adds the folder's name to the message."""


class ShardFile(NamedTuple):
    """The file of a rank: its name, its size, how long its header is, and the header's checksum."""

    name: str
    size: int
    header: int
    checksum: int


class StoredBlock(NamedTuple):
    """A block of a tensor in a file: its position in the whole tensor, the offset of its bytes, and their checksums."""

    file: int
    start: Shape
    shape: Shape
    offset: int
    checksums: tuple[int, ...]

    @property
    def ranges(self) -> tuple[range, ...]:
        """The block's index ranges in the whole tensor, by axis."""
        return tuple(range(start, start + size) for start, size in zip(self.start, self.shape))


class StoredTensor(NamedTuple):
    """A tensor: its shape and dtype as a whole, how it was placed when it was saved, and its blocks."""

    shape: Shape
    dtype: str
    mesh: dict[str, int]
    splits: dict[str, int]
    blocks: tuple[StoredBlock, ...]

    @property
    def nbytes(self) -> int:
        """The size of the whole tensor in bytes."""
        return math.prod(self.shape) * DTYPES[self.dtype].itemsize


class Manifest(NamedTuple):
    """Everything a checkpoint consists of."""

    step: int | None
    ranks: int
    wengert: str  # the version that wrote it
    nonce: str  # of this save; the names of its files have it
    chunk: int  # bytes that each checksum is of
    structure: Any
    files: tuple[ShardFile, ...]
    tensors: dict[str, StoredTensor]


# --- as text --------------------------------------------------------------------------------------------------------


def text_of(manifest: Manifest) -> str:
    """A manifest as the text of its file."""
    tensors = {
        name: {**stored._asdict(), "blocks": [block._asdict() for block in stored.blocks]}
        for name, stored in manifest.tensors.items()
    }
    files = [file._asdict() for file in manifest.files]
    return _sealed({"format": FORMAT, "version": VERSION, **manifest._asdict(), "files": files, "tensors": tensors})


def _sealed(content: dict[str, Any]) -> str:
    """The content with its checksum before it."""
    checksum = zlib.crc32(json.dumps(content).encode())
    return json.dumps({"checksum": checksum, "content": content}) + "\n"


def parsed(text: bytes) -> Manifest:
    """Parse a manifest; raises `ManifestError` for any text that `text_of` did not write."""
    try:
        content = json.loads(text.decode())["content"]
        is_as_written = _sealed(content).encode() == text  # also spaces, and names that stand twice
        version = content.get("version")
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise ManifestError("is corrupt: it is not a manifest") from None
    if not is_as_written:
        raise ManifestError("is corrupt: its checksum does not match")
    if version != VERSION:
        raise ManifestError(f"has version {version}; this Wengert reads version {VERSION}")
    try:
        manifest = _from_content(content)
        _check(manifest)
    except (ValueError, LookupError, TypeError, AttributeError, OverflowError) as error:
        raise ManifestError(f"was altered: {error}") from None
    return manifest


def _from_content(content: dict[str, Any]) -> Manifest:
    files = tuple(ShardFile(**file) for file in content["files"])
    tensors = {name: _stored(described) for name, described in content["tensors"].items()}
    rest = {name: content[name] for name in ("step", "ranks", "wengert", "nonce", "chunk", "structure")}
    return Manifest(files=files, tensors=tensors, **rest)


def _stored(described: dict[str, Any]) -> StoredTensor:
    blocks = tuple(
        StoredBlock(
            _count(block["file"]),
            tuple(map(_count, block["start"])),
            tuple(map(_count, block["shape"])),
            _count(block["offset"]),
            tuple(map(_count, block["checksums"])),
        )
        for block in described["blocks"]
    )
    shape = tuple(map(_count, described["shape"]))
    return StoredTensor(shape, str(described["dtype"]), described["mesh"], described["splits"], blocks)


def _count(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise TypeError(f"{value!r} is not a count")
    return value


# --- whether it fits together ---------------------------------------------------------------------------------------


def _check(manifest: Manifest) -> None:
    """Raise an error unless a manifest has a file for each rank and blocks that make up every tensor."""
    if _count(manifest.ranks) != len(manifest.files):
        raise ManifestError(f"names the files of {len(manifest.files)} ranks of {manifest.ranks}")
    if _count(manifest.chunk) == 0:
        raise TypeError("checksums cover zero bytes")
    for rank, file in enumerate(manifest.files):
        found = FILE_NAME.fullmatch(file.name)
        if found is None or int(found[1]) != rank or found[2] != manifest.nonce:
            raise ManifestError(f"is corrupt: {file.name!r} is not a file of rank {rank}")
        if _count(file.header) > _count(file.size):
            raise ManifestError(f"is corrupt: the header of {file.name!r} is longer than the file")
    for name, stored in manifest.tensors.items():
        _check_tensor(name, stored, manifest)


def _check_tensor(name: str, stored: StoredTensor, manifest: Manifest) -> None:
    if stored.dtype not in DTYPES:
        raise ManifestError(f"is corrupt: the tensor {name!r} has the dtype {stored.dtype!r}")
    for block in stored.blocks:
        if len(block.start) != len(stored.shape) or len(block.shape) != len(stored.shape):
            raise ManifestError(f"is corrupt: a block of the tensor {name!r} has a different number of axes")
        size = math.prod(block.shape) * DTYPES[stored.dtype].itemsize
        file = manifest.files[block.file]
        if block.offset < file.header or block.offset + size > file.size:
            raise ManifestError(f"is corrupt: a block of the tensor {name!r} lies outside {file.name!r}")
        if len(block.checksums) != -(-size // manifest.chunk):
            raise ManifestError(f"is corrupt: a block of the tensor {name!r} has too few or too many checksums")
    if 0 in stored.shape:
        np.empty(stored.shape)  # raises where the other sizes are beyond NumPy's
    else:
        _check_cover(name, stored)


def _check_cover(name: str, stored: StoredTensor) -> None:
    """Raise an error unless every element of a tensor is in one block.

    The blocks' edges cut the whole into cells. Blocks of a placement lie in a grid, so each is one cell; one that has
    several overlaps another, and a cell that no block is was not saved. This takes time linear in the blocks.
    """
    cuts = []
    for axis, size in enumerate(stored.shape):
        edges = {0, size}
        for block in stored.blocks:
            edges |= {block.start[axis], block.start[axis] + block.shape[axis]}
        cuts.append(sorted(edges))
        if cuts[-1][-1] > size:
            raise ManifestError(f"is corrupt: a block of the tensor {name!r} extends beyond it")
    following = [dict(pairwise(edges)) for edges in cuts]
    seen: set[Shape] = set()
    for block in stored.blocks:
        ends = [start + size for start, size in zip(block.start, block.shape)]
        if [after.get(start) for after, start in zip(following, block.start)] != ends or block.start in seen:
            raise ManifestError(f"is corrupt: the block of the tensor {name!r} at {list(block.start)} overlaps another")
        seen.add(block.start)
    for start in product(*(edges[:-1] for edges in cuts)):
        if start not in seen:
            raise ManifestError(f"is corrupt: the block of the tensor {name!r} at {list(start)} is missing")
