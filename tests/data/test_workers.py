"""Workers: they may fail, hang or die in any way, and the loader says which one did; none is left behind."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import wengert as wg
from wengert.data import Dataset, IterableDataset, SampleLoader, get_worker_info

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
SPAWN = pytest.param("spawn", marks=pytest.mark.slow)  # each process imports everything
PROCESSES = ["fork", SPAWN]
ALL = [*PROCESSES, "thread"]


class Examples(Dataset):
    """Does something odd at one of its examples; at module level, so that spawned processes can have it."""

    def __init__(self, size=8, at=3, fault=""):
        self.size, self.at, self.fault = size, at, fault

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        if index == self.at and self.fault:
            getattr(self, self.fault)()
        return index

    def raises(self):
        raise ValueError("no such picture")

    def misses(self):
        return {}["a key"]

    def leaves(self):
        os._exit(7)

    def exits(self):
        sys.exit(4)

    def kills(self):
        os.kill(os.getpid(), signal.SIGKILL)

    def sleeps(self):
        time.sleep(60)

    def closes(self):
        os.closerange(3, 256)

    def raises_its_own(self):
        class LocalError(Exception):
            pass

        raise LocalError("nobody else knows me")

    def raises_with_two(self):
        raise UnicodeDecodeError("utf-8", b"abc", 0, 1, "odd")


def processes_of(loader):
    return [process.pid for process in loader._workers._crew._processes]


def is_alive(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rsplit(")", 1)[1].split()[0] != "Z"


def wait_until(condition, seconds=15):
    end = time.monotonic() + seconds
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    assert condition()


# --- death ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "how"),
    [("leaves", "exit status 7"), ("exits", "exit status 4"), ("kills", r"killed by signal 9 \(SIGKILL\)")],
)
@pytest.mark.parametrize("method", PROCESSES)
def test_a_worker_that_dies_is_named_with_its_process(fault, how, method):
    loader = SampleLoader(
        Examples(fault=fault), 1, num_workers=2, multiprocessing_context=method, persistent_workers=True
    )
    batches = iter(loader)
    pids = processes_of(loader)
    found = []
    with pytest.raises(RuntimeError, match=rf"worker 1 \(pid\(s\) {pids[1]}\) exited unexpectedly: {how}"):
        found.extend(int(batch[0]) for batch in batches)
    assert found == list(range(len(found))) and len(found) < 4
    wait_until(lambda: not any(map(is_alive, pids)))
    assert next(batches, "nothing more") == "nothing more"


def test_a_worker_killed_from_outside_while_idle_or_at_work():
    loader = SampleLoader(Examples(size=40), 1, num_workers=2, persistent_workers=True)
    batches = iter(loader)
    next(batches)
    victim = processes_of(loader)[0]
    os.kill(victim, signal.SIGKILL)
    with pytest.raises(RuntimeError, match=rf"worker 0 \(pid\(s\) {victim}\) exited unexpectedly"):
        list(batches)
    loader = SampleLoader(Examples(at=0, fault="sleeps"), 1, num_workers=1, persistent_workers=True)
    batches = iter(loader)
    (victim,) = processes_of(loader)
    threading.Timer(0.3, os.kill, (victim, signal.SIGKILL)).start()
    with pytest.raises(RuntimeError, match=rf"worker 0 \(pid\(s\) {victim}\) .* Was memory short"):
        next(batches)


def test_a_worker_that_closes_its_connection_is_no_hang():
    with pytest.raises(RuntimeError, match=r"worker 0 .* exited unexpectedly"):
        list(SampleLoader(Examples(fault="closes"), 1, num_workers=1))


def test_a_worker_that_takes_too_long():
    loader = SampleLoader(Examples(fault="sleeps"), 1, num_workers=2, timeout=0.5)
    batches = iter(loader)
    assert [int(next(batches)[0]) for _ in range(3)] == [0, 1, 2]
    begun = time.monotonic()
    with pytest.raises(RuntimeError, match=r"DataLoader timed out after 0\.5 seconds: got no batch from worker 1"):
        next(batches)
    assert time.monotonic() - begun < 5


# --- errors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ALL)
def test_an_exception_comes_with_its_traceback_and_the_epoch_goes_on(method):
    batches = iter(SampleLoader(Examples(fault="raises"), 1, num_workers=2, multiprocessing_context=method))
    found = []
    while True:
        try:
            found.append(int(next(batches)[0]))
        except ValueError as error:
            found.append("error")
            if method != "thread":
                assert "Caught ValueError in DataLoader worker process 1" in str(error)
                assert "in raises" in str(error) and "no such picture" in str(error)
        except StopIteration:
            break
    assert found == [0, 1, 2, "error", 4, 5, 6, 7]


@pytest.mark.parametrize(
    ("fault", "error", "message"),
    [
        ("misses", KeyError, "a key"),
        ("raises_its_own", RuntimeError, "nobody else knows me"),
        ("raises_with_two", RuntimeError, "can't decode byte"),
    ],
)
def test_any_exception_comes_through(fault, error, message):
    with pytest.raises(error, match=message):
        list(SampleLoader(Examples(fault=fault), 1, num_workers=1))


def test_an_exit_in_a_thread_is_no_hang():
    with pytest.raises(SystemExit):
        list(SampleLoader(Examples(fault="exits"), 1, num_workers=1, multiprocessing_context="thread"))


def test_a_batch_that_cannot_be_sent_is_an_error():
    loader = SampleLoader([1, 2], 1, num_workers=1, collate_fn=lambda rows: lambda: rows)
    with pytest.raises((AttributeError, RuntimeError, TypeError), match=r"[Cc]an't pickle|Caught"):
        next(iter(loader))


def test_what_a_spawned_worker_cannot_get_is_an_error():
    with pytest.raises((AttributeError, TypeError), match="pickle"):
        iter(SampleLoader([1], collate_fn=lambda rows: rows, num_workers=1, multiprocessing_context="spawn"))


def broken_init(worker):
    raise ValueError("cannot begin")


def test_an_error_of_the_init_function_comes_through():
    with pytest.raises(ValueError, match="cannot begin"):
        next(iter(SampleLoader([1], num_workers=1, worker_init_fn=broken_init)))


# --- what a worker knows --------------------------------------------------------------------------------------------


class Self(Dataset):
    """What each worker knows of itself."""

    def __init__(self):
        self.mark = None

    def __len__(self):
        return 4

    def __getitem__(self, index):
        info = get_worker_info()
        same = info.dataset is self
        numbers = (random.random(), float(np.random.random()), wg.random.uniform((1,)).item())
        return info.id, info.num_workers, info.seed, same, self.mark, numbers


def mark(worker):
    get_worker_info().dataset.mark = f"worker {worker}"


def first(rows):
    return rows[0]


@pytest.mark.parametrize("method", ALL)
def test_a_worker_knows_which_it_is(method):
    def run():
        generator = wg.random.Generator(5)
        return list(
            SampleLoader(
                Self(), 1, num_workers=2, collate_fn=first, worker_init_fn=mark, generator=generator,
                multiprocessing_context=method,
            )
        )  # fmt: skip

    found = run()
    assert [row[:2] for row in found] == [(0, 2), (1, 2), (0, 2), (1, 2)] and all(row[3] for row in found)
    assert found[1][2] == found[0][2] + 1 and found[3][2] == found[1][2]
    assert get_worker_info() is None
    if method != "thread":  # threads share the data set and the generators
        assert [row[4] for row in found] == ["worker 0", "worker 1"] * 2
        drawn = [row[5] for row in found]
        assert all(len({row[kind] for row in drawn}) == 4 for kind in range(3)) and [row[5] for row in run()] == drawn


class Endless(IterableDataset):
    def __iter__(self):
        begin = get_worker_info().id * 1000
        return iter(range(begin, begin + 1000))


@pytest.mark.parametrize("method", ["fork", "thread"])
def test_persistent_workers_begin_each_epoch_anew(method):
    options = {"num_workers": 2, "persistent_workers": True, "multiprocessing_context": method}
    loader = SampleLoader(Endless(), 2, **options)
    first_epoch = iter(loader)
    if method == "fork":
        pids = processes_of(loader)
    assert [next(first_epoch).tolist() for _ in range(2)] == [[0, 1], [1000, 1001]]
    second = iter(loader)
    assert [next(second).tolist() for _ in range(3)] == [[0, 1], [1000, 1001], [2, 3]]
    assert next(first_epoch, None) is None
    if method == "fork":
        assert processes_of(loader) == pids and all(map(is_alive, pids))
        loader.close()
        wait_until(lambda: not any(map(is_alive, pids)))
    loader = SampleLoader(Examples(), 3, **options)
    assert [[batch.tolist() for batch in loader] for _ in range(3)] == [[[0, 1, 2], [3, 4, 5], [6, 7]]] * 3


class Slow(Dataset):
    def __len__(self):
        return 6

    def __getitem__(self, index):
        time.sleep(0.5 if index == 0 else 0)
        return index


def test_batches_may_come_as_they_are_ready():
    found = [int(batch[0]) for batch in SampleLoader(Slow(), 1, num_workers=2, in_order=False)]
    assert sorted(found) == list(range(6)) and found[0] != 0
    assert [int(batch[0]) for batch in SampleLoader(Slow(), 1, num_workers=2)] == list(range(6))


def large(rows):
    return {"x": np.full((300, 1000), rows[0]), "empty": np.zeros((0, 3)), "small": np.ones(3), "t": wg.ones(40_000)}


def test_large_batches_arrive_whole_and_writable(monkeypatch):
    from wengert.data import transport

    for can_share in (True, False):
        monkeypatch.setattr(transport, "CAN_SHARE", can_share and transport.CAN_SHARE)
        batches = list(SampleLoader(Examples(5), 1, num_workers=2, collate_fn=large))
        for number, batch in enumerate(batches):
            assert (batch["x"] == number).all() and batch["empty"].shape == (0, 3)
            assert batch["t"].sum().item() == 40_000
            batch["x"] += 1
            batch["small"] += 1


# --- nothing stays --------------------------------------------------------------------------------------------------


def test_an_iterator_that_is_dropped_takes_its_processes_along():
    batches = iter(SampleLoader(Examples(1000), 1, num_workers=2))
    next(batches)
    pids = [process.pid for process in batches._batches._crew._processes]
    begun = time.monotonic()
    del batches
    wait_until(lambda: not any(map(is_alive, pids)))
    assert time.monotonic() - begun < 5


def test_workers_end_with_the_epoch():
    batches = iter(SampleLoader(Examples(), 4, num_workers=2))
    pids = [process.pid for process in batches._batches._crew._processes]
    assert len(list(batches)) == 2 and next(batches, None) is None
    assert not any(map(is_alive, pids))


PROGRAM = """
import os, sys, time
import wengert as wg
class Examples(wg.data.Dataset):
    def __len__(self):
        return 100000
    def __getitem__(self, index):
        if index > 20:
            time.sleep(%s)
        return index
if __name__ == "__main__":
    loader = wg.data.SampleLoader(Examples(), 1, num_workers=2, persistent_workers=True, multiprocessing_context="%s")
    batches = iter(loader)
    next(batches)
    print(*[process.pid for process in loader._workers._crew._processes], flush=True)
    for batch in batches:
        pass
"""


@pytest.mark.parametrize("method", PROCESSES)
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=str)
def test_ctrl_c_and_a_killed_program_leave_no_process(tmp_path, method, how):
    path = tmp_path / "program.py"
    path.write_text(PROGRAM % (1000, method))
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, path], stdout=-1, stderr=-1, text=True, env=environment) as program:
        pids = [int(pid) for pid in program.stdout.readline().split()]
        assert len(pids) == 2
        time.sleep(0.3)
        program.send_signal(how)
        _, errors = program.communicate(timeout=30)
    wait_until(lambda: not any(map(is_alive, pids)))
    if how == signal.SIGINT:
        assert "KeyboardInterrupt" in errors and errors.count("Traceback") == 1


def test_a_forked_child_has_workers_of_its_own():
    loader = SampleLoader(Examples(), 4, num_workers=1, persistent_workers=True)
    assert [batch.tolist() for batch in loader] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    child = os.fork()
    if child == 0:
        good = [batch.tolist() for batch in loader] == [[0, 1, 2, 3], [4, 5, 6, 7]]
        loader.close()
        os._exit(0 if good else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert [batch.tolist() for batch in loader] == [[0, 1, 2, 3], [4, 5, 6, 7]]
    loader.close()
