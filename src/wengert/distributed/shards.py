"""Shards: a rank's part of a checkpoint on its way to disk, and the manifest that turns the parts into a checkpoint.

Every function here takes the rank that it works for, and no rank waits for another; `checkpoint` combines them. A rank
writes its file under a temporary name, flushes it to disk and renames it. When the files of all ranks exist, rank 0
writes the manifest in the same way. A crash at any moment leaves the previous manifest, whose files are untouched
because file names contain the nonce of their save.
"""

from __future__ import annotations

import json
import os
import shutil
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from wengert.api import manifest as manifests
from wengert.api import safetensors_format
from wengert.api.files import NamedValue, described, storable
from wengert.api.manifest import FILE_NAME, Manifest, ManifestError, ShardFile, StoredBlock, StoredTensor
from wengert.api.safetensors_format import NAMES, bytes_of, flush_to_disk
from wengert.api.sharded_files import SHARD, is_complete
from wengert.core.devices import on_host
from wengert.core.dtypes import as_dtype, complex128, float64
from wengert.core.errors import ArgumentError, FileError
from wengert.core.file_locks import locked_new_file, remove_if_abandoned, try_lock
from wengert.core.graph import now
from wengert.core.placement import Placement, ShardedArray
from wengert.tensor import Tensor, engine

CHUNK = 1 << 20
"""The bytes that a checksum is of: what a reader reads at least."""
LOCK = "saving.lock"

Array = np.ndarray[Any, Any]


# --- what is saved --------------------------------------------------------------------------------------------------


class SavedTensor(NamedTuple):
    """A saved tensor: its full shape, its dtype, and its placement (None: replicated on every rank)."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    placement: Placement | None


class Held(NamedTuple):
    """The array that a rank holds of a tensor, on some device."""

    array: Any
    tensor: SavedTensor
    path: tuple[Any, ...]


def held(found: NamedValue) -> Held:
    """The part of a value that this rank holds; computes it if necessary."""
    array = array_of(found.value)
    if isinstance(array, ShardedArray):
        placement = None if array.placement.is_replicated else array.placement
        return Held(array.block, SavedTensor(array.shape, as_dtype(array.dtype), placement), found.path)
    return Held(array, SavedTensor(tuple(array.shape), as_dtype(array.dtype), None), found.path)


def array_of(value: Any) -> Any:
    """The array of a tensor on its device: a ShardedArray if this rank holds a block."""
    if not isinstance(value, Tensor):
        return np.asarray(value)
    now()
    node = value.node
    while node.buffer is None and node.op.kind == "identity" and node.device == node.sources[0].device:
        node = node.sources[0]
    return node.buffer if isinstance(node.buffer, ShardedArray) else engine.array(value.node)


NamedBlock = tuple[str, StoredBlock]


class Blocks(NamedTuple):
    """The blocks that a rank writes: copies on the host, the tensor of each, and its position in the tensor."""

    arrays: dict[str, Array]
    starts: dict[str, list[int]]
    tensors: dict[str, str]

    def add(self, name: str, tensor: SavedTensor, array: Array, rank: int) -> None:
        """Add a rank's block of a tensor: in one piece, or run by run."""
        shape = tensor.shape
        more = [0] * (array.ndim - len(shape))  # the axis of a complex number's two parts
        whole = tuple(slice(0, size) for size in shape)
        pieces = [(whole, whole)] if tensor.placement is None else tensor.placement.pieces(shape, rank)
        for number, (place, part) in enumerate(pieces):
            key = name if len(pieces) == 1 else f"{name} (run {number})"
            while key in self.arrays:  # a tensor's own name, perhaps
                key += "'"
            self.arrays[key] = array if len(pieces) == 1 else np.ascontiguousarray(array[part])
            self.starts[key] = [cut.start for cut in place] + more
            self.tensors[key] = name


class Snapshot(NamedTuple):
    """A state at one moment: its description, its tensors by name, and copies of the blocks that a rank writes."""

    structure: Any
    tensors: dict[str, SavedTensor]
    blocks: Blocks

    def digest(self, step: int | None) -> int:
        """A number that is equal on two ranks if they save the same tensors with the same placements at the same
        step."""
        named = [(name, x.shape, x.dtype.name, str(x.placement)) for name, x in self.tensors.items()]
        return zlib.crc32(repr((step, named)).encode())


def snapshot(state: Any, rank: int, ranks: int) -> Snapshot:
    """A snapshot of a rank's state: later changes to a tensor do not affect it."""
    structure, values = described(state)
    found = {name: held(value) for name, value in values.items()}
    blocks = copied_blocks(found, rank, ranks)
    return Snapshot(structure, {name: each.tensor for name, each in found.items()}, blocks)


def writes(placement: Placement | None, rank: int) -> bool:
    """Whether a rank is the lowest of those that hold its block, which makes it the one that writes it.

    Along the stages of a pipeline it is the stage that holds the value.
    """
    if placement is None:
        return rank == 0
    place = placement.mesh.coordinates(rank)
    return all(place[axis] == placement.at.get(axis, 0) for axis in place if axis not in placement.splits)


def copied_blocks(tensors: dict[str, Held], rank: int, ranks: int) -> Blocks:
    """Copies of the blocks that a rank writes."""
    blocks = Blocks({}, {}, {})
    for name, found in tensors.items():
        tensor = found.tensor
        if tensor.placement is not None and tensor.placement.mesh.size != ranks:
            raise ArgumentError(
                f"save_checkpoint: {name!r} is placed on {tensor.placement.mesh} of {tensor.placement.mesh.size} "
                f"ranks, but {ranks} ranks save it"
            )
        if writes(tensor.placement, rank):
            blocks.add(name, tensor, _copy_of(found), rank)
    return blocks


def _copy_of(found: Held) -> Array:
    block = found.array
    host = storable(on_host(block), found.path)
    return host.copy() if isinstance(block, np.ndarray) and np.may_share_memory(host, block) else host


# --- files ----------------------------------------------------------------------------------------------------------


def new_nonce() -> str:
    """A number that distinguishes the files of one save from those of another."""
    return os.urandom(8).hex()


def file_name(rank: int, nonce: str) -> str:
    """The name of a rank's file."""
    return f"rank-{rank:05}.{nonce}.safetensors"


def failure_name(rank: int, nonce: str) -> str:
    """The name of the file in which a rank reports that it could not write its own."""
    return f"rank-{rank:05}.{nonce}.failed"


def write_shard(folder: Path, blocks: Blocks, rank: int, ranks: int, nonce: str, chunk: int = CHUNK) -> Path:
    """Write the file of a rank. It gets its final name when the rank is done."""
    path = folder / file_name(rank, nonce)
    described = {
        "rank": rank,
        "ranks": ranks,
        "nonce": nonce,
        "chunk": chunk,
        "starts": blocks.starts,
        "tensors": blocks.tensors,
        "checksums": {name: _checksums(array, chunk) for name, array in blocks.arrays.items()},
    }
    safetensors_format.write(path, blocks.arrays, {"format": "wengert shard", SHARD: json.dumps(described)})
    return path


def _checksums(array: Array, chunk: int) -> list[int]:
    raw = bytes_of(array)
    return [zlib.crc32(raw[at : at + chunk]) for at in range(0, len(raw), chunk)]


def commit(folder: Path, snapshot: Snapshot, ranks: int, nonce: str, step: int | None) -> None:
    """Complete a checkpoint from the files of all ranks: write the manifest, and remove files that are not part of
    it."""
    files: list[ShardFile] = []
    blocks: dict[str, list[StoredBlock]] = {name: [] for name in snapshot.tensors}
    chunk = CHUNK
    for rank in range(ranks):
        file, found, chunk = _read_shard(folder, rank, ranks, nonce)
        files.append(file)
        for name, block in found:
            blocks[name].append(block)
    stored = {name: _stored(tensor, blocks[name]) for name, tensor in snapshot.tensors.items()}
    manifest = Manifest(step, ranks, _version(), nonce, chunk, snapshot.structure, tuple(files), stored)
    text = manifests.text_of(manifest).encode()
    manifests.parsed(text)  # a checkpoint that could not be loaded does not take the place of one that can
    _write(folder / manifests.NAME, text)
    clear(folder, {file.name for file in files})


def _version() -> str:
    from wengert import __version__  # known once the package is imported

    return __version__


def _read_shard(
    folder: Path, rank: int, ranks: int, nonce: str
) -> tuple[ShardFile, list[tuple[str, StoredBlock]], int]:
    """The header of a rank's file: the rank, its blocks, and the chunk length."""
    path = folder / file_name(rank, nonce)
    entries, metadata, begin = safetensors_format.read_header(path)
    described = json.loads(metadata[SHARD])
    if (described["rank"], described["ranks"], described["nonce"]) != (rank, ranks, nonce):
        raise FileError(f"save: {str(path)!r} is not the file that rank {rank} of {ranks} wrote")
    with path.open("rb") as file:
        checksum = zlib.crc32(file.read(begin))
    blocks = [
        (
            described["tensors"][entry.name],
            StoredBlock(
                rank,
                tuple(described["starts"][entry.name]),
                entry.shape,
                begin + entry.start,
                tuple(described["checksums"][entry.name]),
            ),
        )
        for entry in entries
    ]
    return ShardFile(path.name, path.stat().st_size, begin, checksum), blocks, described["chunk"]


def _stored(tensor: SavedTensor, blocks: list[StoredBlock]) -> StoredTensor:
    is_pairs = tensor.dtype == complex128
    shape = (*tensor.shape, 2) if is_pairs else tensor.shape
    placement = tensor.placement
    mesh, splits = ({}, {}) if placement is None else (placement.mesh.sizes, placement.splits)
    return StoredTensor(shape, NAMES[float64 if is_pairs else tensor.dtype], dict(mesh), dict(splits), tuple(blocks))


def _write(path: Path, text: bytes) -> None:
    """Write a small file under a temporary name, flush it to disk and rename it."""
    with locked_new_file(path) as (temporary, file):
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
        if os.name != "posix":
            file.close()  # an open file cannot be moved there
        os.replace(temporary, path)
    flush_to_disk(path.parent)


# --- folders --------------------------------------------------------------------------------------------------------


def prepare(folder: Path) -> None:
    """Create the folder of a checkpoint, and remove leftovers of interrupted saves from it and the folders beside
    it."""
    folder.mkdir(parents=True, exist_ok=True)
    flush_to_disk(folder.parent)
    with suppress(ManifestError):  # of a damaged checkpoint nothing is removed; the new manifest takes its place
        text = (folder / manifests.NAME).read_bytes() if is_complete(folder) else None
        clear(folder, set() if text is None else {file.name for file in manifests.parsed(text).files})
    clear_beside(folder)


def clear_beside(folder: Path) -> None:
    """Remove the folders beside this one that interrupted saves left; empty ones if they are named like it."""
    for beside in folder.parent.iterdir():
        if beside != folder and is_abandoned(beside, _without_digits(beside.name) == _without_digits(folder.name)):
            remove(beside)


def _without_digits(name: str) -> str:
    return "".join(letter for letter in name if not letter.isdigit())


def is_abandoned(folder: Path, even_empty: bool = False) -> bool:
    """Whether a folder has only leftovers of an interrupted save, and no process is saving there."""
    if not folder.is_dir() or folder.is_symlink():
        return False
    names = [path.name for path in folder.iterdir()]
    if not (names or even_empty) or not all(_is_ours(name) for name in names) or manifests.NAME in names:
        return False
    try:
        with saving(folder):
            return True
    except FileError:
        return False


def _is_ours(name: str) -> bool:
    """Whether a file has a name that a save would give it."""
    final = name.startswith("rank-") and (FILE_NAME.fullmatch(name) is not None or name.endswith(".failed"))
    temporary = name.startswith((".rank-", f".{manifests.NAME}.")) and name.endswith(".tmp")
    return final or temporary or name in (LOCK, manifests.NAME)


def clear(folder: Path, kept: set[str]) -> None:
    """Remove the files of all saves except the given one."""
    for path in folder.iterdir():
        if path.name.endswith(".tmp"):
            remove_if_abandoned(path)
        elif _is_ours(path.name) and path.name not in {*kept, LOCK, manifests.NAME}:
            path.unlink(missing_ok=True)


def remove(folder: Path) -> None:
    """Remove a checkpoint, its manifest first, so that after a crash the rest is recognised as incomplete."""
    (folder / manifests.NAME).unlink(missing_ok=True)
    flush_to_disk(folder)
    for path in folder.iterdir():
        if _is_ours(path.name):
            path.unlink(missing_ok=True)
    if not any(folder.iterdir()):
        folder.rmdir()


def name_also(folder: Path, other: Path) -> None:
    """Give a checkpoint a second name, by hard links if possible; its manifest comes last and replaces an older one."""
    text = (folder / manifests.NAME).read_bytes()
    names = {file.name for file in manifests.parsed(text).files}
    other.mkdir(exist_ok=True)
    for name in names:
        _link(folder / name, other / name)
    flush_to_disk(other)
    _write(other / manifests.NAME, text)
    clear(other, names)


def _link(path: Path, other: Path) -> None:
    if other.exists():
        return  # it has the nonce of its save in its name: it is the same
    try:
        os.link(path, other)
    except OSError:  # a file system without hard links
        with path.open("rb") as source, locked_new_file(other) as (temporary, target):
            shutil.copyfileobj(source, target, 1 << 24)
            target.flush()
            os.fsync(target.fileno())
            os.replace(temporary, other)


def _is_at(path: Path, descriptor: int) -> bool:
    """Whether an open file is the one that has this name now."""
    try:
        return path.stat().st_ino == os.fstat(descriptor).st_ino
    except FileNotFoundError:
        return False


@contextmanager
def saving(folder: Path) -> Iterator[None]:
    """A context that locks a folder for saving; raises an error if another process is already saving to it."""
    path = folder / LOCK
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        if not try_lock(descriptor):
            os.close(descriptor)
            raise FileError(f"save: another process is saving to {str(folder)!r}")
        if _is_at(path, descriptor):
            break
        os.close(descriptor)  # its holder has removed it meanwhile
    try:
        yield
    finally:
        path.unlink(missing_ok=True)
        os.close(descriptor)
