"""Workers of a loader: processes or threads that prefetch batches, and the ordering of their results.

In: tasks, one after another. Out: what came of them, in the order of the tasks. Each process has a connection of its
own and no lock is shared, so that a worker can die at any moment without harm to the others: its loader gets an error
that names it. `worker` has what runs inside.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from multiprocessing.connection import Connection, wait
from queue import Empty, Queue, SimpleQueue
from typing import Any, Protocol

from wengert.core.errors import ArgumentError
from wengert.core.forking import in_child
from wengert.data.transport import receive
from wengert.data.worker import (
    FetchTask,
    Outcome,
    Reply,
    WorkerFailure,
    WorkerInfo,
    WorkerJob,
    process_main,
    thread_main,
)

THREAD = "thread"
"""In the place of a way to start processes: threads of this one."""

GRACE = 1.0
"""Seconds that a process has to end by itself."""


class Crew(Protocol):
    """A group of workers of one kind."""

    def submit(self, worker: int, task: FetchTask) -> None:
        """Submit a task to a worker."""
        ...

    def collect(self, seconds: float | None, busy: Iterable[int]) -> list[tuple[int, Reply]]:
        """The results received; if there are none, wait up to `timeout` for a busy worker (None: forever)."""
        ...

    def end(self) -> None:
        """Stop all workers."""
        ...


class Workers:
    """The workers that a loader has started, for one or many epochs; `run` gives them the tasks of an epoch."""

    def __init__(self, job: WorkerJob, dataset: Any, count: int, method: Any = None, timeout: float = 0) -> None:
        self.count, self.timeout = count, timeout
        infos = [
            WorkerInfo(i, count, job.base_seed + i, dataset, THREAD if method == THREAD else "multiprocessing")
            for i in range(count)
        ]
        self._crew: Crew = Threads(job, infos) if method == THREAD else Processes(job, infos, method)
        self._epoch = 0
        self.owner = os.getpid()
        self._finalizer = weakref.finalize(self, _end, self._crew, os.getpid())

    def run(self, tasks: Iterable[Any], ahead: int, in_order: bool = True) -> EpochResults:
        """Yield the results of tasks, `ahead` of which are submitted in advance.

        An earlier run yields nothing more.
        """
        self._epoch += 1
        return EpochResults(self, self._crew, self._epoch, iter(tasks), max(ahead, 1), in_order)

    def is_current(self, epoch: int) -> bool:
        """Whether no other run has begun since."""
        return epoch == self._epoch

    def close(self) -> None:
        """End the workers."""
        self._epoch += 1
        self._finalizer()


def _end(crew: Crew, owner: int) -> None:
    if os.getpid() == owner:  # a forked child has its parent's objects, but not its workers
        crew.end()


class EpochResults:
    """The results of one epoch's tasks, given to the workers in turn; a worker whose stream has ended gets no more."""

    def __init__(
        self, workers: Workers, crew: Crew, epoch: int, tasks: Iterator[Any], ahead: int, in_order: bool
    ) -> None:
        self._workers, self._crew, self._epoch = workers, crew, epoch
        self._tasks, self._ahead, self._in_order = tasks, ahead, in_order
        self._given: deque[int] = deque()  # whom tasks were given to, in their order, until their results are used
        self._arrived: dict[int, deque[Reply]] = {i: deque() for i in range(workers.count)}
        self._ended: set[int] = set()
        self._turn = 0
        self._is_begun = False

    def __iter__(self) -> EpochResults:
        return self

    def __next__(self) -> Any:
        if not self._workers.is_current(self._epoch):
            raise StopIteration
        try:
            while not self._is_begun and len(self._given) < self._ahead and self._give():
                pass
            self._is_begun = True
            worker, reply = self._next_reply()
        except _WorkerDied as died:
            self._workers.close()
            raise RuntimeError(str(died)) from None
        self._give_quietly()
        if reply.outcome is Outcome.DATA:
            return reply.value
        raise _raised(reply.value, worker)

    def _give(self) -> bool:
        """Give out one more task, if there is one and somebody to do it."""
        if len(self._ended) == self._workers.count:
            return False
        wanted = next(self._tasks, _NOTHING)
        if wanted is _NOTHING:
            return False
        while self._turn in self._ended:
            self._turn = (self._turn + 1) % self._workers.count
        worker, self._turn = self._turn, (self._turn + 1) % self._workers.count
        self._given.append(worker)
        self._crew.submit(worker, FetchTask(self._epoch, wanted))
        return True

    def _give_quietly(self) -> None:
        """Give out one more task. A worker that is found dead is reported when its result is requested."""
        with suppress(_WorkerDied):
            self._give()

    def _next_reply(self) -> tuple[int, Reply]:
        """The next result, after those of streams that have ended."""
        deadline = time.monotonic() + self._workers.timeout if self._workers.timeout else None
        while self._given:
            place = self._ready()
            if place is None:
                self._wait(deadline)
                continue
            worker = self._given[place]
            del self._given[place]
            reply = self._arrived[worker].popleft()
            if reply.outcome is not Outcome.ENDED:
                return worker, reply
            self._ended.add(worker)
            self._give()
        raise StopIteration

    def _ready(self) -> int | None:
        """The place, among the tasks given out, of one whose result can be used."""
        places = range(1 if self._in_order else len(self._given))
        return next((place for place in places if self._arrived[self._given[place]]), None)

    def _wait(self, deadline: float | None) -> None:
        seconds = None if deadline is None else max(deadline - time.monotonic(), 0)
        busy = {self._given[0]} if self._in_order else set(self._given)
        found = self._crew.collect(seconds, busy)
        if not found and deadline is not None and time.monotonic() >= deadline:
            names = ", ".join(map(str, sorted(busy)))
            raise RuntimeError(
                f"DataLoader timed out after {self._workers.timeout} seconds: got no batch from worker {names}"
            )
        for worker, reply in found:
            if reply.epoch == self._epoch:
                self._arrived[worker].append(reply)


_NOTHING = object()


class _WorkerDied(Exception):
    """A worker process ended though there was work for it."""


def _raised(value: Any, worker: int) -> BaseException:
    return value.exception(f"DataLoader worker process {worker}") if isinstance(value, WorkerFailure) else value


# --- threads --------------------------------------------------------------------------------------------------------


class Threads:
    """Workers that are threads of this process, and share its data set."""

    def __init__(self, job: WorkerJob, infos: list[WorkerInfo]) -> None:
        self._replies: Queue[tuple[int, Reply]] = Queue()
        self._tasks: list[SimpleQueue[FetchTask | None]] = []
        newest = self._newest = [0]  # the epoch of the latest task; the threads must not hold `self`
        for info in infos:
            tasks: SimpleQueue[FetchTask | None] = SimpleQueue()
            args = (job, info, tasks, _replying(self._replies, info.id), lambda task: task.epoch == newest[0])
            threading.Thread(target=thread_main, args=args, name=f"wengert-loader-{info.id}", daemon=True).start()
            self._tasks.append(tasks)

    def submit(self, worker: int, task: FetchTask) -> None:
        """Submit a task to a worker."""
        self._newest[0] = task.epoch
        self._tasks[worker].put(task)

    def collect(self, seconds: float | None, busy: Iterable[int]) -> list[tuple[int, Reply]]:
        """Wait for a result, and return those received."""
        try:
            return [self._replies.get(timeout=seconds)]
        except Empty:
            return []

    def end(self) -> None:
        """Stop all threads, each after its current task."""
        self._newest[0] = -1
        for tasks in self._tasks:
            tasks.put(None)


def _replying(replies: Queue[tuple[int, Reply]], worker: int) -> Callable[[Reply], None]:
    return lambda reply: replies.put((worker, reply))


# --- processes ------------------------------------------------------------------------------------------------------

_open_ends: weakref.WeakSet[Connection] = weakref.WeakSet()
"""This process's ends of the connections to workers. A child that held one would keep a worker from seeing us end."""


def _close_ends() -> None:
    for connection in list(_open_ends):
        connection.close()
    _open_ends.clear()


in_child(_close_ends)


class Processes:
    """Workers that are processes."""

    def __init__(self, job: WorkerJob, infos: list[WorkerInfo], method: Any) -> None:
        context: Any = method if hasattr(method, "Process") else multiprocessing.get_context(_known(method))
        parent = None if context.get_start_method() == "forkserver" or os.name != "posix" else os.getpid()
        self._processes: list[Any] = []
        self._connections: list[Connection] = []
        self._gone: set[int] = set()  # whose connection has ended
        try:
            for info in infos:
                here, there = context.Pipe(duplex=True)
                _open_ends.add(here)
                self._connections.append(here)
                name = f"wengert-loader-{info.id}"
                process = context.Process(target=process_main, args=(job, info, there, parent), name=name, daemon=True)
                process.start()
                there.close()
                self._processes.append(process)
        except BaseException:
            self.end()
            raise

    def submit(self, worker: int, task: FetchTask) -> None:
        """Send a worker a task."""
        try:
            self._connections[worker].send(task)
        except OSError:
            raise self._death(worker) from None

    def collect(self, seconds: float | None, busy: Iterable[int]) -> list[tuple[int, Reply]]:
        """The results received; raises an error if a busy worker has died."""
        for worker in self._gone.intersection(busy):
            raise self._death(worker)
        connections = {self._connections[i]: i for i in range(len(self._connections)) if i not in self._gone}
        sentinels = {self._processes[i].sentinel: i for i in busy}
        ready: list[Any] = wait([*connections, *sentinels], seconds)
        found = []
        for connection in connections.keys() & set(ready):
            worker = connections[connection]
            try:
                found.append((worker, receive(connection)))
            except (EOFError, OSError):
                self._gone.add(worker)  # which is an error as soon as something is asked of it
        if not found:
            self._gone.update(
                sentinels[thing] for thing in ready if thing in sentinels and not self._has_more(sentinels[thing])
            )
        return found

    def _has_more(self, worker: int) -> bool:
        """Whether something that a worker sent has not been read yet."""
        return worker not in self._gone and self._connections[worker].poll()

    def _death(self, worker: int) -> _WorkerDied:
        process = self._processes[worker]
        process.join(5 * GRACE)
        code = process.exitcode
        if code is None:
            how = "it has closed its connection"
        elif code < 0:
            try:
                how = f"killed by signal {-code} ({signal.Signals(-code).name})"
            except ValueError:
                how = f"killed by signal {-code}"
        else:
            how = f"exit status {code}"
        hint = " Was memory short?" if code == -9 else ""
        return _WorkerDied(
            f"DataLoader worker {worker} (pid(s) {process.pid}) exited unexpectedly: {how}.{hint} With num_workers=0, "
            "an error in the data set is raised where it happens"
        )

    def end(self) -> None:
        """Stop all processes: they are asked to exit, and those that do not are killed."""
        for connection in self._connections:
            with suppress(OSError):
                connection.send(None)
            with suppress(OSError):
                connection.close()  # a process that waits to send a result sees this
        deadline = time.monotonic() + GRACE
        for stop in (None, "terminate", "kill"):
            for process in self._processes:
                if stop is not None and process.is_alive():
                    getattr(process, stop)()
            for process in self._processes:
                process.join(max(deadline - time.monotonic(), 0.01))
            deadline += GRACE


def _known(method: Any) -> str | None:
    """The name of a way to start processes; None stands for the system's own."""
    names = [*multiprocessing.get_all_start_methods(), THREAD]
    if method is None or method in names:
        found: str | None = method
        return found
    raise ArgumentError(
        f"multiprocessing_context option should specify a valid start method in {names}, but got "
        f"multiprocessing_context={method!r}"
    )
