"""Models in several files with an index, as Hugging Face lays them out: `model.safetensors.index.json` in a folder.

In: a path, of the folder or the index. Out: which file has which tensor. An index names files of its own folder, and
nothing outside it; a folder without an index may have the one file that a small model is in.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import NamedTuple

from wengert.core.errors import FileError

INDEX = ".index.json"
NAMES = ("model.safetensors", "pytorch_model.bin")
"""What a model's file is called, the preferred one first; its index has this name with `INDEX` behind."""

LONGEST_INDEX = 100_000_000


class ModelFiles(NamedTuple):
    """The files of a model, and the tensors to read from each, in the index's order; None means all of them."""

    source: Path
    names: list[str] | None
    files: dict[Path, list[str]]


def parts_of(path: Path) -> ModelFiles | None:
    """The files that a folder or an index stands for; None for any other path."""
    if path.name.endswith(INDEX) and path.is_file():
        return _indexed(path)
    if not path.is_dir():
        return None
    for name in NAMES:
        if (path / f"{name}{INDEX}").is_file():
            return _indexed(path / f"{name}{INDEX}")
        if (path / name).is_file():
            return ModelFiles(path / name, None, {path / name: []})
    return None


def _indexed(index: Path) -> ModelFiles:
    if index.stat().st_size > LONGEST_INDEX:
        raise FileError(f"load: {str(index)!r} is too long for an index")
    try:
        places = json.loads(index.read_bytes().decode("utf-8"))["weight_map"]
        pairs = list(places.items())
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise FileError(f"load: {str(index)!r} is not an index: it has no weight_map from names to files") from None
    files: dict[Path, list[str]] = {}
    for name, file in pairs:
        if not isinstance(file, str) or Path(file).name != file or file in ("", ".", "..") or "\\" in file:
            raise FileError(f"load: {str(index)!r} has {name!r} in {file!r}, which is not a file in its folder")
        files.setdefault(index.parent / file, []).append(name)
    for file in files:
        if not file.is_file():
            raise FileError(f"load: {str(file)!r} is missing, although {index.name!r} names it")
    return ModelFiles(index, [name for name, _ in pairs], files)
