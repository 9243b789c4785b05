"""What `wengert checkpoint show` and `merge` do with a folder that several ranks wrote. In: options. Out: a status."""

from __future__ import annotations

import os
from argparse import Namespace
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import wengert as wg
from wengert.api.files import rebuilt
from wengert.api.manifest import Manifest, StoredTensor
from wengert.api.safetensors_format import DTYPES
from wengert.api.sharded_files import ShardReader, is_checkpoint, read_manifest, whole
from wengert.core.errors import ArgumentError
from wengert.runtime.debug.explain import bytes_text
from wengert.train.checkpoint import located, part_of


def show(options: Namespace) -> int:
    """`wengert checkpoint show`: show what a checkpoint holds, and who wrote it."""
    folder = _folder(options.folder)
    print("\n".join(_described(folder, read_manifest(folder))))
    return 0


def merge(options: Namespace) -> int:
    """`wengert checkpoint merge`: write the whole tensors of a checkpoint, or of a part of it, to one file."""
    folder = _folder(options.folder)
    manifest = read_manifest(folder)
    structure = manifest.structure if options.part is None else part_of(manifest.structure, options.part)
    with ShardReader(folder, manifest) as reader:
        wg.save(options.file, rebuilt(structure, WholeTensors(reader), folder))
    print(f"{options.file}: {bytes_text(os.path.getsize(options.file))} from the files of {_ranks(manifest.ranks)}")
    return 0


def _folder(path: str) -> Path:
    found = located(path)
    if not is_checkpoint(found):
        raise ArgumentError(f"{str(found)!r} was written by one process, so it is whole already")
    return found


class WholeTensors(Mapping[str, Any]):
    """The tensors of a checkpoint by name, each read on demand."""

    def __init__(self, reader: ShardReader) -> None:
        self._reader = reader
        self._tensors = reader.manifest.tensors

    def __getitem__(self, name: str) -> Any:
        return self._reader.read(name, whole(self._tensors[name].shape))

    def __iter__(self) -> Iterator[str]:
        return iter(self._tensors)

    def __len__(self) -> int:
        return len(self._tensors)


# --- words ----------------------------------------------------------------------------------------------------------


def _described(folder: Path, manifest: Manifest) -> Iterator[str]:
    total = sum(stored.nbytes for stored in manifest.tensors.values())
    meshes = dict.fromkeys(_axes(stored.mesh) for stored in manifest.tensors.values() if stored.mesh)
    yield f"folder       {folder}"
    yield f"step         {'none' if manifest.step is None else manifest.step}"
    yield f"saved by     {_ranks(manifest.ranks)}, Wengert {manifest.wengert}"
    yield f"mesh         {'; '.join(meshes) or 'none: every rank held all'}"
    yield f"tensors      {len(manifest.tensors)}, {bytes_text(total)}"
    width = max((len(name) for name in manifest.tensors), default=0)
    for name, stored in manifest.tensors.items():
        yield f"  {name:<{width}}  {_type(stored):<24}  {_cut(stored)}".rstrip()


def _ranks(count: int) -> str:
    return "1 rank" if count == 1 else f"{count} ranks"


def _axes(sizes: dict[str, int]) -> str:
    return ", ".join(f"{name}={size}" for name, size in sizes.items())


def _type(stored: StoredTensor) -> str:
    return f"{DTYPES[stored.dtype].name}{list(stored.shape)}"


def _cut(stored: StoredTensor) -> str:
    cuts = ", ".join(f"axis {axis} along {name}" for name, axis in stored.splits.items())
    return f"{len(stored.blocks)} blocks: {cuts}" if cuts else ""
