"""A save in the background: a thread writes this rank's file, and on rank 0 then the manifest, while training
continues.

No collective runs here: the program's collectives continue meanwhile, in an order that all ranks share. Rank 0 learns
that another rank is done from its file, which gets its final name once it is complete. In: a snapshot. Out: a
checkpoint, or an error that is raised on request.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from wengert.core.errors import FileError
from wengert.distributed import shards
from wengert.distributed.shards import Snapshot

DEADLINE = 60.0
"""The seconds that rank 0 waits for the others' files while nothing in the folder changes."""
DEADLINE_AT_EXIT = 10.0
"""The same once the program has ended: a rank that is not writing by then will not."""
PAUSE = 0.02


class SaveOrder(NamedTuple):
    """What to save, and where."""

    folder: Path
    step: int | None
    rank: int
    ranks: int
    nonce: str
    then: Callable[[Path], None] | None  # called by rank 0 when the checkpoint is complete
    resume: str = ""  # the command that resumes from it, shown when ranks are lost

    @property
    def name(self) -> str:
        """The checkpoint, in messages."""
        return str(self.folder)

    @property
    def advice(self) -> str:
        """The advice about the checkpoint that is shown when ranks are lost, once it is complete."""
        return f"{self.folder} (any number of ranks): {self.resume}" if self.resume else str(self.folder)


class Saving:
    """A save in progress on this rank."""

    def __init__(self, order: SaveOrder, snapshot: Snapshot) -> None:
        self.order = order
        self.error: BaseException | None = None
        self._snapshot: Snapshot | None = snapshot
        self._written = threading.Event()
        self._has_written = False
        self._abandoned = threading.Event()
        self._thread = threading.Thread(target=self._run, name="wengert-checkpoint")  # no daemon: exit waits for it

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def written(self) -> BaseException | None:
        """Wait until this rank's file is written; returns the error, if there was one."""
        self._written.wait()
        return None if self._has_written else self.error

    def finished(self) -> BaseException | None:
        """Wait until this rank's work is done; returns the error, if there was one."""
        self._thread.join()
        return self.error

    def abandon(self) -> None:
        """Stop waiting for other ranks."""
        self._abandoned.set()

    @property
    def is_over(self) -> bool:
        """Whether this rank has nothing left to do."""
        return not self._thread.is_alive()

    def _run(self) -> None:
        order = self.order
        try:
            if order.rank:
                self._write()
                return
            with shards.saving(order.folder):
                self._write()
                self._await_others()
                snapshot, self._snapshot = self._snapshot, None
                assert snapshot is not None
                shards.commit(order.folder, snapshot, order.ranks, order.nonce, order.step)
            if order.then is not None:
                order.then(order.folder)
        except BaseException as error:
            self.error = error
        finally:
            self._snapshot = None
            self._written.set()

    def _write(self) -> None:
        order = self.order
        assert self._snapshot is not None
        try:
            shards.write_shard(order.folder, self._snapshot.blocks, order.rank, order.ranks, order.nonce)
        except BaseException as error:
            with suppress(OSError):
                (order.folder / shards.failure_name(order.rank, order.nonce)).write_text(str(error))
            raise
        self._snapshot = self._snapshot._replace(blocks=shards.Blocks({}, {}, {}))  # the copies have done their work
        self._has_written = True
        self._written.set()

    def _await_others(self) -> None:
        """Wait for the files of all ranks; raises if one failed, or if nothing changes for too long."""
        order = self.order
        missing = list(range(order.ranks))
        before, since = -1, time.monotonic()
        while missing := [
            rank for rank in missing if not (order.folder / shards.file_name(rank, order.nonce)).exists()
        ]:
            self._raise_if_failed(missing)
            size = _total_size(order.folder)
            if size != before:
                before, since = size, time.monotonic()
            limit = DEADLINE if threading.main_thread().is_alive() else DEADLINE_AT_EXIT
            if self._abandoned.is_set() or time.monotonic() - since > limit:
                ranks = ", ".join(map(str, missing))
                raise FileError(f"save: {order.name!r} has no files from the ranks {ranks}, and no more are coming")
            self._abandoned.wait(PAUSE)

    def _raise_if_failed(self, ranks: list[int]) -> None:
        for rank in ranks:
            note = self.order.folder / shards.failure_name(rank, self.order.nonce)
            if note.exists():
                raise FileError(
                    f"save: rank {rank} could not write its part of {self.order.name!r}: {note.read_text()}"
                )


def _total_size(folder: Path) -> int:
    """Grows while some rank writes."""
    total = 0
    for path in folder.iterdir():
        with suppress(OSError):
            total += path.stat().st_size + 1
    return total
