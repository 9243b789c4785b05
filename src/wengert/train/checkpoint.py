"""Checkpoints: the whole state of a training in one safetensors file, of which the last few and the best are kept.

A file is written beside its place and moved there, so there is at every moment the old one, the new one or both. What a
crash left unfinished is removed by the next save; what a live process is writing is left to it.
"""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path
from typing import Any

import wengert as wg
from wengert.core.errors import FileError
from wengert.core.file_locks import remove_if_abandoned

KIND = "wengert training"
VERSION = 1
BEST = "best.safetensors"
_STEP = re.compile(r"step-(\d+)\.safetensors")


class Checkpoints:
    """The checkpoints in a folder: `step-000120.safetensors`, ..., the last `keep` of them, and `best.safetensors`.

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
        """Write a state as that of a step, and let go of the oldest. The best so far gets a second name."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for unfinished in self.folder.glob(".*.tmp"):
            remove_if_abandoned(unfinished)
        path = self.folder / f"step-{step:06}.safetensors"
        wg.save(path, {"kind": KIND, "version": VERSION, "step": step, **state})
        if is_best:
            self._name_best(path)
        for old in self.steps()[self.keep :]:
            old.unlink(missing_ok=True)
        return path

    def steps(self) -> list[Path]:
        """The checkpoints by step, the latest first."""
        found = [(int(match[1]), path) for path in self.folder.glob("step-*") if (match := _STEP.fullmatch(path.name))]
        return [path for _, path in sorted(found, reverse=True)]

    def _name_best(self, path: Path) -> None:
        while not self._renamed_best(path):
            pass  # another process that saves here took the new name for an abandoned file

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


def located(path: str | os.PathLike[str]) -> Path:
    """The checkpoint that a path stands for: a file, or the latest in the folder of a run or of its checkpoints."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"there is no checkpoint {str(path)!r}")
    if path.is_file():
        return path
    found = [*Checkpoints(path / "checkpoints").steps(), *Checkpoints(path).steps()]
    if not found:
        raise FileNotFoundError(f"there is no checkpoint in {str(path)!r}")
    return found[0]


def load_checkpoint(path: str | os.PathLike[str]) -> dict[str, Any]:
    """The state in a checkpoint: of a file, or the latest in a folder."""
    file = located(path)
    try:
        state = wg.load(file)
    except FileError as error:
        raise FileError(f"{error.message}{_hint_at_others(file)}") from None
    if not isinstance(state, dict) or state.get("kind") != KIND:
        raise FileError(f"load: {str(file)!r} is not a checkpoint of a training, or was altered{_hint_at_others(file)}")
    if state.get("version") != VERSION:
        raise FileError(
            f"load: {str(file)!r} is a checkpoint of version {state.get('version')}; this Wengert reads {VERSION}"
        )
    return state


def _hint_at_others(file: Path) -> str:
    others = [other for other in Checkpoints(file.parent).steps() if other != file]
    return f". Another checkpoint is there: {others[0]}" if others else ""
