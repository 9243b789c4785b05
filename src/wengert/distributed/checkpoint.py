"""Checkpoints independent of the world's size: saved by any number of ranks, loaded by any other.

Each rank writes the blocks that it holds to its own file; rank 0 writes the manifest when all files exist. A loading
rank reads what its blocks need, whichever rank wrote it. Neighbours: `shards` and `background` write,
`api.sharded_files` reads, `wg.load` gives whole tensors of the same folders in one process.
"""

from __future__ import annotations

import atexit
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from wengert.api.files import described, path_of, rebuilt
from wengert.api.manifest import StoredTensor
from wengert.api.sharded_files import ShardReader, is_checkpoint, read_manifest, whole
from wengert.core import communication, devices
from wengert.core.communication import Communicator, communicator, current, during
from wengert.core.dtypes import complex128
from wengert.core.errors import FileError, ShapeError, WengertError
from wengert.core.forking import in_child
from wengert.core.placement import ShardedArray
from wengert.distributed import shards
from wengert.distributed.background import SaveOrder, Saving
from wengert.distributed.sharded import sharded_tensor
from wengert.distributed.shards import Snapshot
from wengert.tensor import Tensor


class Saver:
    """Saves the checkpoints of a rank, one after another, in the background."""

    def __init__(self) -> None:
        self.saving: Saving | None = None

    def save(
        self,
        folder: Path,
        state: Any,
        step: int | None,
        group: Communicator,
        then: Callable[[Path], None] | None = None,
        resume: str = "",
    ) -> None:
        """Copy this rank's part of a state and begin to write it, after waiting for the previous save."""
        self.wait(group)
        with during("saving"):
            snapshot = _begun(folder, state, group)
        nonce = _agreed_nonce(folder, snapshot.digest(step), group)
        self.saving = Saving(SaveOrder(folder, step, group.rank, group.size, nonce, then, resume), snapshot)
        self.saving.start()

    def wait(self, group: Communicator) -> None:
        """Wait for the save in progress. If it failed on any rank, every rank raises an error."""
        saving, self.saving = self.saving, None
        if saving is None:
            return
        with during("saving"):
            own = saving.written()
        failed = np.flatnonzero(_gathered(int(own is not None), group))
        if failed.size:
            saving.abandon()
            saving.finished()
            _raise_unsaved(saving, own, f"rank {failed[0]} could not write its part")
        with during("saving"):
            own = saving.finished()
        if _gathered(int(own is not None), group).any():
            _raise_unsaved(saving, own, "rank 0 could not complete it")
        if communication.watcher is not None:
            communication.watcher.saved(saving.order.advice)

    def abandon(self) -> None:
        """Stop waiting for other ranks: the world has ended."""
        if self.saving is not None:
            self.saving.abandon()


def _gathered(number: int, group: Communicator) -> np.ndarray[Any, Any]:
    """The numbers that all ranks give, in order."""
    return group.all_gather(np.array([number], np.int64), 0)


def _raise_unsaved(saving: Saving, error: BaseException | None, otherwise: str) -> None:
    reason = otherwise if error is None else error.message if isinstance(error, WengertError) else str(error)
    raise FileError(f"the checkpoint {saving.order.name!r} was not saved: {reason}") from error


def _begun(folder: Path, state: Any, group: Communicator) -> Snapshot:
    """What this rank saves, with the folder prepared by rank 0. Where one rank fails the others raise too, and wait for
    nothing.
    """
    found, error = None, None
    try:
        if group.rank == 0:
            shards.prepare(folder)
        found = shards.snapshot(state, group.rank, group.size)
    except Exception as raised:
        error = raised
    failed = np.flatnonzero(_gathered(int(error is not None), group))
    if isinstance(error, OSError) and not isinstance(error, WengertError):
        raise FileError(f"save_checkpoint: {str(folder)!r} cannot be written: {error}") from error
    if error is not None:
        raise error
    if failed.size:
        raise FileError(f"save_checkpoint: rank {failed[0]} could not begin to save to {str(folder)!r}")
    assert found is not None
    return found


def _agreed_nonce(folder: Path, digest: int, group: Communicator) -> str:
    """The nonce of a save, chosen by rank 0; raises on all ranks if they are not saving the same thing."""
    nonce = shards.new_nonce()
    digests = _gathered(digest, group)
    different = np.flatnonzero(digests != digests[0])
    if different.size:
        raise FileError(
            f"save_checkpoint: rank {different[0]} saves different tensors, or another step, than rank 0 to "
            f"{str(folder)!r}; every rank must save the same state"
        )
    halves = [int(_gathered(int(nonce[at : at + 8], 16), group)[0]) for at in (0, 8)]
    lacking = np.flatnonzero(_gathered(int(not folder.is_dir()), group))
    if lacking.size:
        raise FileError(
            f"save_checkpoint: rank {lacking[0]} cannot see {str(folder)!r}: is the folder on another machine's local "
            "disk?"
        )
    return "".join(f"{half:08x}" for half in halves)


# --- the world's ----------------------------------------------------------------------------------------------------

_saver = Saver()


def save_checkpoint(
    folder: str | os.PathLike[str],
    state: Any,
    *,
    step: int | None = None,
    then: Callable[[Path], None] | None = None,
    resume: str = "",
) -> Path:
    """Save a nested container of tensors, numbers and strings to a folder; every rank must call it with its part.

    Each rank writes the blocks that it holds, in the background; rank 0 writes replicated tensors and everything that
    is not a tensor. The call returns once the blocks are copied. The next call, or `wait_for_checkpoint`, waits for the
    files and raises an error if writing failed. `then` is called on rank 0 when the checkpoint is complete; `resume` is
    the command that resumes from it, which is shown when ranks are lost.

    >>> import tempfile, wengert as wg
    >>> folder = wg.distributed.save_checkpoint(tempfile.mkdtemp() + "/step-10", {"w": wg.ones(3)}, step=10)
    >>> wg.distributed.wait_for_checkpoint()
    >>> wg.load(folder)["w"].tolist()
    [1.0, 1.0, 1.0]
    """
    place = path_of(folder, "save_checkpoint")
    if place.exists() and not place.is_dir():
        raise FileError(f"save_checkpoint: {str(place)!r} is a file, but a checkpoint is a folder")
    _saver.save(place, state, step, communicator(current.group()), then, resume)
    return place


def wait_for_checkpoint() -> None:
    """Wait until the last checkpoint is saved on all ranks; raises an error if saving failed.

    >>> import wengert as wg
    >>> import os, tempfile
    >>> folder = wg.distributed.save_checkpoint(tempfile.mkdtemp() + "/step-1", {"w": wg.ones(3)}, step=1)
    >>> wg.distributed.wait_for_checkpoint()
    >>> os.path.exists(os.path.join(folder, "manifest.json"))
    True
    """
    _saver.wait(communicator(current.group()))


def abandon_checkpoint() -> None:
    """Abandon the save in progress after other ranks are lost; the checkpoint stays incomplete."""
    _saver.abandon()


def load_checkpoint(folder: str | os.PathLike[str], like: Any = None) -> Any:
    """Load what `save_checkpoint` wrote, on any number of ranks; tensors of which `like` has blocks are loaded as those
    blocks.

    `like` is the state on this rank: for a tensor that is sharded there, this rank's block is read according to its
    placement. All other tensors are loaded whole, as by `wg.load`.

    >>> import wengert as wg
    >>> import tempfile
    >>> state = {"w": wg.ones(3)}
    >>> folder = wg.distributed.save_checkpoint(tempfile.mkdtemp() + "/step-1", state, step=1)
    >>> wg.distributed.wait_for_checkpoint()
    >>> wg.distributed.load_checkpoint(folder, like=state)["w"].tolist()
    [1.0, 1.0, 1.0]
    """
    place = path_of(folder, "load_checkpoint")
    if not place.exists():
        raise FileError(f"load_checkpoint: there is no folder {str(place)!r}")
    if not is_checkpoint(place):
        raise FileError(f"load_checkpoint: {str(place)!r} is not a checkpoint folder; wg.load reads files")
    return read_checkpoint(place, like, current.rank)


def read_checkpoint(folder: Path, like: Any, rank: int) -> Any:
    """Read the state in a checkpoint for one rank."""
    manifest = read_manifest(folder)
    placed = {name: array for name, array in _arrays(like).items() if isinstance(array, ShardedArray)}
    arrays, made = {}, {}
    with ShardReader(folder, manifest) as reader:
        for name, stored in manifest.tensors.items():
            if name in placed:
                made[name] = _read_block(reader, name, stored, placed[name], rank)
            else:
                arrays[name] = reader.read(name, whole(stored.shape))
    return rebuilt(manifest.structure, arrays, folder, made)


def _arrays(like: Any) -> dict[str, Any]:
    return {name: shards.array_of(found.value) for name, found in described(like)[1].items()}


def _read_block(reader: ShardReader, name: str, stored: StoredTensor, like: ShardedArray, rank: int) -> Tensor:
    """A rank's block of a stored tensor, placed like another."""
    is_pairs = like.dtype == complex128  # stored with an axis of real and imaginary parts behind the others
    shape = stored.shape[:-1] if is_pairs else stored.shape
    if shape != like.shape:
        raise ShapeError(f"load_checkpoint: {name!r} has shape {shape} in the checkpoint, but {like.shape} here")
    parts = (slice(0, 2),) if is_pairs else ()
    pieces = [(reader.read(name, (*place, *parts)), inside) for place, inside in like.placement.pieces(shape, rank)]
    found = pieces[0][0]
    if len(pieces) > 1:
        found = np.empty((*like.placement.block_shape(shape), *[2] * is_pairs), found.dtype)
        for piece, inside in pieces:
            found[inside] = piece
    found = found.view(complex128)[..., 0] if is_pairs else found
    return sharded_tensor(devices.of(like.device).upload(found), shape, like.placement)


def _tell_at_exit() -> None:
    """Report the failure of the last save, if it was never asked for."""
    saving = _saver.saving
    if saving is not None and saving.finished() is not None:
        print(f"wengert: the checkpoint {saving.order.name!r} was not saved: {saving.error}", file=sys.stderr)


atexit.register(_tell_at_exit)


def _forget_in_child() -> None:
    _saver.saving = None


in_child(_forget_in_child)
