"""Checkpoints: the complete state of a training run, of which the last few and the best are kept.

One process writes a safetensors file; several ranks write a folder together (`wengert.distributed.checkpoint`), in the
background. Any number of processes can resume from either. A file is written under a temporary name and renamed, so at
every moment there is the old one, the new one or both. The next save removes what a crash left unfinished, but not what
a live process is writing.
"""

from __future__ import annotations

import os
import re
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import wengert as wg
from wengert.api.files import rebuilt
from wengert.api.sharded_files import is_checkpoint, is_complete, read_manifest
from wengert.core.communication import current
from wengert.core.errors import ArgumentError, FileError
from wengert.core.file_locks import remove_if_abandoned
from wengert.distributed import shards
from wengert.distributed.checkpoint import load_checkpoint as read_like
from wengert.distributed.checkpoint import save_checkpoint, wait_for_checkpoint

KIND = "wengert training"
VERSION = 1
SETTINGS = ("kind", "version", "step", "recipe", "tokenizer")
"""What is read of a state before the tensors."""
BEST = "best.safetensors"
BEST_FOLDER = "best"
_STEP = re.compile(r"step-(\d+)(\.safetensors)?")


class Checkpoints:
    """The checkpoints in a folder: `step-000120.safetensors`, ..., of which the last `keep` are kept, and
    `best.safetensors`.

    With several ranks they are folders: `step-000120`, `best`. They are complete once the next one is saved, or after
    `wait`.

    >>> import tempfile, wengert as wg
    >>> checkpoints = wg.train.Checkpoints(tempfile.mkdtemp(), keep=2)
    >>> for step in (10, 20, 30):
    ...     path = checkpoints.save(step, {"w": wg.tensor([1.0 * step])}, is_best=step == 10)
    >>> [path.name for path in checkpoints.steps()]
    ['step-000030.safetensors', 'step-000020.safetensors']
    >>> wg.train.load_checkpoint(checkpoints.folder)["w"].tolist()
    [30.0]
    >>> wg.train.load_checkpoint(checkpoints.folder / "best.safetensors")["w"].tolist()
    [10.0]
    """

    def __init__(self, folder: str | os.PathLike[str], keep: int = 2) -> None:
        self.folder = Path(folder)
        self.keep = keep

    def save(self, step: int, state: dict[str, Any], is_best: bool = False) -> Path:
        """Save the state of a step, and delete the oldest checkpoint. The best so far gets a second name."""
        self.folder.mkdir(parents=True, exist_ok=True)
        whole = {"kind": KIND, "version": VERSION, "step": step, **state}
        path = self.folder / f"step-{step:06}"
        if current.size > 1:
            resume = f"wengert train --resume {self.folder.parent} --ranks {current.size}"
            return save_checkpoint(path, whole, step=step, then=partial(self._keep, is_best=is_best), resume=resume)
        for unfinished in self.folder.glob(".*.tmp"):
            remove_if_abandoned(unfinished)
        shards.clear_beside(path)
        file = path.with_suffix(".safetensors")
        wg.save(file, whole)
        self._keep(file, is_best)
        return file

    def wait(self) -> None:
        """Wait until the last checkpoint is complete; every rank calls it."""
        wait_for_checkpoint()

    def _keep(self, path: Path, is_best: bool) -> None:
        """Give a checkpoint its second name if it is the best, and remove the oldest and whatever it replaces."""
        if is_best:
            self._name_best(path)
        _remove(path.with_suffix("" if path.suffix else ".safetensors"))  # of the same step, by more or fewer ranks
        for old in self.steps()[self.keep :]:
            _remove(old)

    def steps(self) -> list[Path]:
        """The checkpoints by step, latest first; incomplete ones are left out."""
        found = [(int(match[1]), path) for path in self.folder.glob("step-*") if (match := _STEP.fullmatch(path.name))]
        return [path for _, path in sorted(found, reverse=True) if path.is_file() or is_complete(path)]

    def _name_best(self, path: Path) -> None:
        if path.is_dir():
            shards.name_also(path, self.folder / BEST_FOLDER)
            _remove(self.folder / BEST)
            return
        while not self._renamed_best(path):
            pass  # another process that saves here took the new name for an abandoned file
        _remove(self.folder / BEST_FOLDER)

    def _renamed_best(self, path: Path) -> bool:
        temporary = self.folder / f".{BEST}.{os.urandom(4).hex()}.tmp"
        try:
            try:
                os.link(path, temporary)
            except OSError:  # a file system without hard links
                shutil.copy(path, temporary)
            os.replace(temporary, self.folder / BEST)
        except FileNotFoundError:
            if not path.exists():
                raise
            return False
        finally:
            temporary.unlink(missing_ok=True)
        return True


def _remove(path: Path) -> None:
    """Remove a checkpoint, a file or a folder, if it is there."""
    if path.is_dir():
        shards.remove(path)
    else:
        path.unlink(missing_ok=True)


def located(path: str | os.PathLike[str]) -> Path:
    """The checkpoint that a path refers to: the path itself, or the latest one in a run's folder or its checkpoints."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"there is no checkpoint {str(path)!r}")
    if path.is_file() or is_checkpoint(path):
        return path
    found = [*Checkpoints(path / "checkpoints").steps(), *Checkpoints(path).steps()]
    if not found:
        raise FileNotFoundError(f"there is no checkpoint in {str(path)!r}")
    return found[0]


def load_checkpoint(path: str | os.PathLike[str], like: Any = None) -> dict[str, Any]:
    """Load the state from a checkpoint: a file, a folder written by several ranks, or the latest one in a run's folder.

    Tensors are loaded whole, except those of which `like` (the state on this rank) holds a block: for these only that
    block is read.

    >>> import wengert as wg
    >>> import tempfile
    >>> run = wg.train.Run(wg.train.Recipe(data="digits", model="mlp", options={"hidden": [8]}), tempfile.mkdtemp())
    >>> wg.train.load_checkpoint(run.save())["step"]
    0
    """
    file = located(path)
    try:
        state = read_like(file, like) if is_checkpoint(file) else wg.load(file)
    except FileError as error:
        raise FileError(f"{error.message}{_hint_at_others(file)}") from None
    _check_kind(state, file)
    return state


def _check_kind(state: Any, file: Path) -> None:
    if not isinstance(state, dict) or state.get("kind") != KIND:
        raise FileError(
            f"load: {str(file)!r} is not a checkpoint of a training run, or is corrupt{_hint_at_others(file)}"
        )
    if state.get("version") != VERSION:
        raise FileError(
            f"load: {str(file)!r} is a checkpoint of version {state.get('version')}; this Wengert reads {VERSION}"
        )


def load_settings(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Load a checkpoint's settings: recipe, tokenizer, step. For a checkpoint of several ranks, tensors are not
    read."""
    file = located(path)
    if not is_checkpoint(file):
        return load_checkpoint(file)
    structure = read_manifest(file).structure
    found = {name: rebuilt(part_of(structure, name), {}, file) for name in SETTINGS}
    _check_kind(found, file)
    return found


def part_of(structure: Any, path: str) -> Any:
    """The description of a part of a state, by its keys: "model", "optimizer.state"."""
    for key in path.split("."):
        items = structure.get("dict", []) if isinstance(structure, dict) else []
        found = {str(name): item for name, item in items}
        if key not in found:
            raise ArgumentError(
                f"the checkpoint has no part {path!r}; at {key!r} there are {', '.join(found) or 'none'}"
            )
        structure = found[key]
    return structure


def _hint_at_others(file: Path) -> str:
    others = [other for other in Checkpoints(file.parent).steps() if other != file]
    return f". There is another checkpoint: {others[0]}" if others else ""
