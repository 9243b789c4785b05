"""What runs in a worker of a loader: it takes tasks, fetches what they ask for, and sends that back.

A worker is a process or a thread. In a process one thread reads tasks and one sends results, so that neither end waits
for the other, and a process whose loader has gone ends by itself. `workers` starts workers and collects results.
"""

from __future__ import annotations

import os
import pickle
import signal
import threading
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from multiprocessing.connection import Connection
from queue import SimpleQueue
from typing import Any, NamedTuple

from wengert.data.draws import Draws
from wengert.data.transport import send

Fetch = Callable[[Any], Any]
"""Gives what a task asks for; raises StopIteration where a stream has ended."""

CHECKED_EVERY = 2.0
"""Seconds after which a process looks whether its loader still lives."""


@dataclass(frozen=True)
class WorkerInfo:
    """What a worker of a loader knows of itself; `dataset` is its copy of the data set.

    >>> import wengert as wg
    >>> wg.data.get_worker_info() is None
    True
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any
    worker_method: str = "multiprocessing"


_here = threading.local()  # threads of one process are different workers
_of_process: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """Which worker of a loader this is: its `id` of `num_workers`, its `seed` and `dataset`. None outside of workers.

    >>> get_worker_info() is None
    True
    """
    info: WorkerInfo | None = getattr(_here, "info", None)
    return _of_process if info is None else info


class WorkerJob(NamedTuple):
    """What a worker does: `start` makes the fetch of an epoch from the data set; `init` is the user's function."""

    start: Callable[[Any], Fetch]
    init: Callable[[int], Any] | None
    draws: Draws
    base_seed: int


class Outcome(Enum):
    """What came of a task."""

    DATA = 0
    ENDED = 1
    FAILED = 2


class FetchTask(NamedTuple):
    """What is to be fetched, and in which epoch; a worker starts anew in each."""

    epoch: int
    wanted: Any


class Reply(NamedTuple):
    """What came of a task of an epoch: the data, None, or what was raised."""

    epoch: int
    outcome: Outcome
    value: Any


class WorkerFailure(NamedTuple):
    """An exception on its way to another process: its class, if that can be sent, and all it says."""

    kind: type[BaseException] | None
    text: str

    def exception(self, where: str) -> BaseException:
        """The exception to raise, of the same class if that takes a message alone."""
        message = f"Caught {self.kind.__name__ if self.kind else 'an exception'} in {where}.\nOriginal {self.text}"
        if self.kind is None:
            return RuntimeError(message)
        if issubclass(self.kind, KeyError):
            return self.kind(_Text(message))
        try:
            return self.kind(message)
        except Exception:
            return RuntimeError(message)


class _Text(str):
    """A message that a KeyError shows with its line breaks."""

    def __repr__(self) -> str:
        return str(self)


class Fetching:
    """Carries out tasks one by one, with a fetch made anew for each epoch."""

    def __init__(self, job: WorkerJob, info: WorkerInfo) -> None:
        self._job, self._info = job, info
        self._epoch = -1
        self._fetch: Fetch | None = None
        self._fault: BaseException | None = None
        try:
            if job.init is not None:
                job.init(info.id)
        except Exception as error:
            self._fault = error

    def reply(self, task: FetchTask) -> Reply:
        """What comes of a task."""
        try:
            if self._fault is not None:
                fault, self._fault = self._fault, None
                raise fault
            if task.epoch != self._epoch or self._fetch is None:
                self._fetch = self._job.start(self._info.dataset)
                self._epoch = task.epoch
            return Reply(task.epoch, Outcome.DATA, self._fetch(task.wanted))
        except StopIteration:
            return Reply(task.epoch, Outcome.ENDED, None)
        except Exception as error:
            return Reply(task.epoch, Outcome.FAILED, error)


# --- a thread -------------------------------------------------------------------------------------------------------


def thread_main(
    job: WorkerJob,
    info: WorkerInfo,
    tasks: SimpleQueue[FetchTask | None],
    replies: Callable[[Reply], None],
    is_wanted: Callable[[FetchTask], bool],
) -> None:
    """A worker that is a thread."""
    _here.info = info
    fetching = Fetching(job, info)
    while (task := tasks.get()) is not None:
        if not is_wanted(task):
            continue
        try:
            reply = fetching.reply(task)
        except BaseException as error:  # SystemExit of a thread ends nothing: it must not be waited for
            reply = Reply(task.epoch, Outcome.FAILED, error)
        replies(reply)


# --- a process ------------------------------------------------------------------------------------------------------


def process_main(job: WorkerJob, info: WorkerInfo, connection: Connection, parent: int | None) -> None:
    """A worker that is a process; `parent` is the process to end with, None where that cannot be seen by its number."""
    global _of_process
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that trains
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _of_process = info
    job.draws.seed_process(job.base_seed, info.id)
    inbox = _Inbox(connection, parent)
    outbox: SimpleQueue[Reply | None] = SimpleQueue()
    sender = threading.Thread(target=_send_all, args=(connection, outbox), daemon=True)
    sender.start()
    fetching = Fetching(job, info)
    while (task := inbox.next()) is not None:
        outbox.put(fetching.reply(task))
        task = None
    outbox.put(None)
    sender.join()


class _Inbox:
    """The tasks that have come; those of an epoch that was given up are passed over."""

    def __init__(self, connection: Connection, parent: int | None) -> None:
        self._connection, self._parent = connection, parent
        self._tasks: SimpleQueue[FetchTask | None] = SimpleQueue()
        self._newest = 0
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        try:
            while True:
                while not self._connection.poll(CHECKED_EVERY):
                    if self._parent is not None and os.getppid() != self._parent:
                        os._exit(1)
                task: FetchTask | None = self._connection.recv()
                if task is None:
                    self._newest = -1
                    self._tasks.put(None)
                    return
                self._newest = task.epoch
                self._tasks.put(task)
        except (EOFError, OSError):
            os._exit(1)  # the loader has gone, and whatever this process works on is for nobody

    def next(self) -> FetchTask | None:
        while True:
            task = self._tasks.get()
            if task is None or task.epoch == self._newest:
                return task


def _send_all(connection: Connection, outbox: SimpleQueue[Reply | None]) -> None:
    """Send results until there are no more; what cannot be sent is sent as the error that it is."""
    try:
        while (reply := outbox.get()) is not None:
            if reply.outcome is Outcome.FAILED:
                reply = _sendable(reply)
            try:
                send(connection, reply)
            except OSError:
                raise
            except Exception as error:  # a batch that cannot be pickled
                send(connection, _sendable(Reply(reply.epoch, Outcome.FAILED, error)))
            reply = None
    except OSError:
        os._exit(1)


def _sendable(reply: Reply) -> Reply:
    error = reply.value
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    try:
        pickle.loads(pickle.dumps(type(error)))
        kind: type[BaseException] | None = type(error)
    except Exception:
        kind = None
    return reply._replace(value=WorkerFailure(kind, text))
