"""The control plane alone: whatever becomes of a rank, the others hear of it, and nobody hangs."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from wengert.errors import CollectiveTimeout, DistributedError, ProgramMismatch, RankLost

import wengert as wg
from tests.distributed.forked import PATIENCE, Child, family, free_port
from tests.distributed.stopwatch import moment
from wengert.distributed import control, control_rank, reports
from wengert.distributed.control_rank import Control
from wengert.distributed.control_server import Server
from wengert.distributed.reports import Call, Loss, Report

QUICK = 4.0  # seconds in which all others have to have raised: 2, and what the stopwatch may be late
NONCE = "of this job"

Rank = Callable[[Control], object]


class Job:
    """A server in this process, and its ranks as children."""

    def __init__(self, start: Callable[[Callable[[], object]], Child], size: int, deadline: float = 60.0) -> None:
        self.server = Server(size, NONCE).start()
        self.size, self.deadline, self._start = size, deadline, start
        self.ranks: dict[int, Child] = {}

    def run(self, rank: int, function: Rank) -> Child:
        """Start a rank."""

        def script() -> None:
            wg.config.deadline = self.deadline
            joined = control.connect(self.server.address, NONCE, rank, self.size)
            print("joined")
            function(joined)
            joined.close()

        self.ranks[rank] = self._start(script)
        return self.ranks[rank]

    def heard(self, rank: int, number: int) -> None:
        """Wait until a rank's report says that it is done with the collective of this number."""
        until = time.monotonic() + PATIENCE
        while not any(
            report.rank == rank
            and report.state != "waiting"
            and report.call is not None
            and report.call.number == number
            for report in self.server.reports()
        ):
            assert self.ranks[rank].poll() is None and time.monotonic() < until, self.ranks[rank].text()
            time.sleep(0.005)

    def lost_by(self, action: Callable[[], object], among: list[int], kind: type[Exception] = RankLost) -> float:
        """Do something, after which some ranks have to raise; the seconds that it took."""
        start = moment()
        action()
        for rank in among:
            assert self.ranks[rank].wait() == 1, self.ranks[rank].text()
            assert f"{kind.__name__}: " in self.ranks[rank].text(), self.ranks[rank].text()
        return moment() - start


@pytest.fixture
def start() -> Iterator[Callable[[Callable[[], object]], Child]]:
    """Starts children that are gone behind the test."""
    with family() as starts:
        yield starts


@pytest.fixture
def job(start: Callable[[Callable[[], object]], Child]) -> Iterator[Callable[..., Job]]:
    """Makes jobs that are gone behind the test."""
    jobs: list[Job] = []

    def make(size: int, deadline: float = 60.0) -> Job:
        jobs.append(Job(start, size, deadline))
        return jobs[-1]

    yield make
    for each in jobs:
        each.server.close()


def collective(joined: Control, number: int, line: str = "train.py:31: loss.backward()", **more: Any) -> None:
    """Wait in a collective that never ends."""
    joined.entering(number, more.get("name", "all_reduce"), more.get("bytes", 12_600_000), line)
    print("waiting")
    while True:
        joined.check()
        time.sleep(0.005)


def sleeps(joined: Control) -> None:
    print("sleeping")
    time.sleep(60)


def waits(joined: Control) -> None:
    collective(joined, 41)


# --- a rank that is gone --------------------------------------------------------------------------------------------


def test_a_killed_rank_is_named_to_all_others(job: Callable[..., Job]) -> None:
    def dies(joined: Control) -> None:
        joined.step(812)
        joined.saved("runs/x/checkpoints/step-000800 (any number of ranks)")
        joined.entering(40, "all_reduce", 4, "train.py:30: x")
        joined.left()
        joined.state("computing")
        sleeps(joined)

    ranks = job(3)
    for rank in (0, 1):
        ranks.run(rank, waits).says("waiting")
    lost = ranks.run(2, dies)
    ranks.heard(2, 40)
    seconds = ranks.lost_by(lambda: lost.kill(signal.SIGKILL), [0, 1])
    assert seconds < QUICK
    for rank in (0, 1):
        text = ranks.ranks[rank].text()
        assert f"RankLost: rank 2 (host {socket.gethostname()}, pid {lost.pid}) died in step 812, " in text
        assert "the last one it entered was collective 40: all_reduce of 4 B, train.py:30: x" in text
        assert "You were waiting in collective 41: all_reduce of 12.6 MB, train.py:31: loss.backward()" in text
        assert "Last checkpoint: runs/x/checkpoints/step-000800" in text
    assert ranks.server.error().startswith(f"RankLost: rank 2 (host {socket.gethostname()}, pid {lost.pid}) died")


def test_the_signal_is_told_where_somebody_saw_it(start: Callable[..., Child]) -> None:
    children: dict[int, Child] = {}
    server = Server(2, NONCE, exit_status=lambda rank: children[rank].wait()).start()
    for rank in (0, 1):
        children[rank] = start(lambda rank=rank: sleeps(control.connect(server.address, NONCE, rank, 2)))
        children[rank].says("sleeping")
    children[1].kill(signal.SIGTERM)
    assert children[0].wait() == 1
    assert "died of signal 15 (SIGTERM)" in children[0].text()
    server.close()


def test_only_those_who_know_name_another_culprit(job: Callable[..., Job]) -> None:
    """MPICH's mpiexec kills the other ranks so quickly that all are gone at once, and names any of them."""
    ranks = job(2)
    for rank in (0, 1):
        ranks.run(rank, sleeps).says("sleeping")
    ranks.lost_by(lambda: ranks.ranks[1].kill(signal.SIGKILL), [0])
    server = ranks.server
    server.blame(ranks.ranks[0].pid, -15, is_sure=True)
    assert "RankLost: rank 1 " in server.error()  # rank 0 was there when rank 1 was not any more
    server._suspects.add(0)
    server.blame(ranks.ranks[0].pid, -15, is_sure=False)
    assert "RankLost: rank 1 " in server.error() and "died," in server.error()
    server.blame(ranks.ranks[1].pid, -9, is_sure=False)
    assert "RankLost: rank 1 " in server.error() and "died of signal 9" in server.error()
    server.blame(ranks.ranks[0].pid, -15, is_sure=True)
    assert "RankLost: rank 0 " in server.error() and "died of signal 15" in server.error()


@pytest.mark.parametrize("doing", ["sleeping", "computing"])
def test_it_is_raised_outside_of_collectives_too(job: Callable[..., Job], doing: str) -> None:
    def computes(joined: Control) -> None:
        print("computing")
        while True:
            sum(range(1000))

    ranks = job(2)
    ranks.run(0, sleeps if doing == "sleeping" else computes).says(doing)
    ranks.run(1, sleeps).says("sleeping")
    assert ranks.lost_by(lambda: ranks.ranks[1].kill(signal.SIGKILL), [0]) < QUICK
    assert "at test_control.py:" in ranks.ranks[0].text()


def test_a_rank_that_saves_may_finish(job: Callable[..., Job]) -> None:
    def saves(joined: Control) -> None:
        with joined.during("saving"):
            print("saving")
            time.sleep(0.6)
            print("saved all of it")
        print("not reached")

    ranks = job(2)
    ranks.run(1, sleeps).says("sleeping")
    ranks.run(0, saves).says("saving")
    assert ranks.lost_by(lambda: ranks.ranks[1].kill(signal.SIGKILL), [0]) < QUICK
    assert "saved all of it" in ranks.ranks[0].text() and "not reached" not in ranks.ranks[0].text()


def test_a_rank_that_cannot_raise_ends(job: Callable[..., Job]) -> None:
    """As one that is stuck in a library."""

    def stuck(joined: Control) -> None:
        control_rank.GRACE = 0.5
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGURG})
        sleeps(joined)

    ranks = job(2)
    ranks.run(0, stuck).says("sleeping")
    ranks.run(1, sleeps).says("sleeping")
    assert ranks.lost_by(lambda: ranks.ranks[1].kill(signal.SIGKILL), [0]) < 0.5 + QUICK
    assert "wengert: RankLost: rank 1" in ranks.ranks[0].text()


def test_a_script_may_catch_it(job: Callable[..., Job]) -> None:
    def catches(joined: Control) -> None:
        try:
            collective(joined, 1)
        except RankLost as error:
            facts = (error.rank, error.ranks, error.host == socket.gethostname(), error.pid, error.signal, error.step)
            print("caught", *facts)
        with pytest.raises(RankLost):  # and every collective from now on
            joined.entering(2, "all_reduce", 4, None)
        print("end")

    ranks = job(2)
    ranks.run(0, catches).says("waiting")
    ranks.run(1, sleeps).says("sleeping")
    pid = ranks.ranks[1].pid
    ranks.ranks[1].kill(signal.SIGKILL)
    assert ranks.ranks[0].wait() == 0, ranks.ranks[0].text()
    assert f"caught 1 (1,) True {pid} None None\nend" in ranks.ranks[0].text()


def test_an_exception_is_told_in_its_own_words(job: Callable[..., Job]) -> None:
    def fails(joined: Control) -> None:
        raise ValueError("no such file\nand more")

    ranks = job(3)
    for rank in (0, 1):
        ranks.run(rank, waits).says("waiting")
    ranks.lost_by(lambda: ranks.run(2, fails), [0, 1])
    assert "ended with ValueError: no such file, " in ranks.ranks[0].text()
    assert ranks.ranks[2].wait() == 1 and "RankLost" not in ranks.ranks[2].text()


def test_a_rank_that_ends_early_is_missed_where_it_is_needed(job: Callable[..., Job]) -> None:
    def ends(joined: Control) -> None:
        joined.entering(41, "all_reduce", 4, None)
        joined.left()

    def goes_on(joined: Control) -> None:
        joined.entering(41, "all_reduce", 4, None)
        time.sleep(0.5)  # long enough to be told that the other one is gone: it came to this one
        joined.left()
        print("passed")
        collective(joined, 42)

    ranks = job(2)
    ranks.run(1, ends).says("joined")
    ranks.lost_by(lambda: ranks.run(0, goes_on), [0])
    assert "passed" in ranks.ranks[0].text()
    assert "ended its program before it came to collective 42" in ranks.ranks[0].text()


def test_what_a_rank_forked_does_not_keep_it_alive(job: Callable[..., Job]) -> None:
    """As the workers of a loader."""

    def with_worker(joined: Control) -> None:
        worker = os.fork()
        if worker == 0:
            time.sleep(60)
            os._exit(0)
        print(f"worker {worker};")
        sleeps(joined)

    ranks = job(2)
    ranks.run(0, waits).says("waiting")
    ranks.run(1, with_worker).says("sleeping")
    worker = int(ranks.ranks[1].text().split("worker ")[1].split(";")[0])
    try:
        assert ranks.lost_by(lambda: ranks.ranks[1].kill(signal.SIGKILL), [0]) < QUICK
    finally:
        os.kill(worker, signal.SIGKILL)


def test_a_lost_launcher_is_named(start: Callable[..., Child]) -> None:
    port = free_port()

    def listens() -> None:
        Server(2, NONCE, port=port).start()
        print("listening")
        time.sleep(60)

    launcher = start(listens)
    launcher.says("listening")
    others = [start(lambda k=k: waits(control.connect(f"127.0.0.1:{port}", NONCE, k, 2))) for k in range(2)]
    for other in others:
        other.says("waiting")
    launcher.kill(signal.SIGKILL)
    for other in others:
        assert other.wait() == 1
        assert f"RankLost: the launcher (host {socket.gethostname()}, pid {launcher.pid}) died" in other.text()


def test_rank_0_listens_where_nobody_else_does(start: Callable[..., Child], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", str(free_port()))
    ranks = [start(lambda k=k: waits(control.join(k, 3))) for k in range(3)]
    for rank in ranks:
        rank.says("waiting")
    ranks[0].kill(signal.SIGKILL)
    for rank in ranks[1:]:
        assert rank.wait() == 1
        assert f"RankLost: rank 0 (host {socket.gethostname()}, pid {ranks[0].pid}) died" in rank.text()


def test_rank_0_is_the_last_to_go(start: Callable[..., Child], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    monkeypatch.setenv("MASTER_PORT", str(free_port()))

    def script(rank: int) -> None:
        joined = control.join(rank, 2)
        joined.agree("program", "same", list)
        assert control.join(rank, 2) is joined
        if rank:
            time.sleep(0.3)
        joined.close()
        print("closed")

    ranks = [start(lambda k=k: script(k)) for k in range(2)]
    assert [rank.wait() for rank in ranks] == [0, 0], [rank.text() for rank in ranks]
    assert "closed" in ranks[0].text() and ranks[0].ended - ranks[1].ended < QUICK


def test_an_address_is_shared_by_what_ranks_have(start: Callable[..., Child]) -> None:
    """As MPI's broadcast."""
    read, write = os.pipe()

    def share(text: str) -> str:
        if text:
            os.write(write, text.encode())
        return text or os.read(read, 1000).decode()

    def script(rank: int) -> None:
        joined = control.join(rank, 2, share=share)
        joined.agree("program", "same", list)
        joined.close()

    ranks = [start(lambda k=k: script(k)) for k in range(2)]
    assert [rank.wait() for rank in ranks] == [0, 0], [rank.text() for rank in ranks]


# --- the deadline ---------------------------------------------------------------------------------------------------


def test_a_stopped_rank_is_named_at_the_deadline(job: Callable[..., Job]) -> None:
    def computes(joined: Control) -> None:
        joined.entering(40, "all_reduce", 4, "train.py:30: y")
        joined.left()
        sleeps(joined)

    def waits_behind(joined: Control) -> None:
        joined.agree("all are there", "", list)
        wg.config.deadline = 1.0
        print("there")
        waits(joined)

    ranks = job(3)
    ranks.run(2, lambda joined: (joined.agree("all are there", "", list), computes(joined)))
    for rank in (0, 1):
        ranks.run(rank, waits_behind)
    for rank in (0, 1):
        ranks.ranks[rank].says("there")
    ranks.heard(2, 40)
    stop = lambda: ranks.ranks[2].kill(signal.SIGSTOP)
    assert ranks.lost_by(stop, [0, 1], CollectiveTimeout) < 1.0 + QUICK
    text = ranks.ranks[0].text() + ranks.ranks[1].text()
    assert "collective 41 has waited 1 s for rank 2: all_reduce, train.py:31: loss.backward()" in text
    assert "rank 2: has not entered it: computing for" in text
    assert "last in collective 40: all_reduce of 4 B, train.py:30: y" in text
    assert "ranks 0 and 1: in collective 41" in text or "rank 0: in collective 41" in text
    assert ranks.server.error().startswith("CollectiveTimeout: collective 41 has waited")


@pytest.mark.parametrize("state", ["compiling", "loading data", "saving"])
def test_what_takes_long_is_waited_for(job: Callable[..., Job], state: str) -> None:
    def long(joined: Control) -> None:
        with joined.during(state):
            print("begun")
            time.sleep(2.0)
        joined.agree("program", "same", list)

    ranks = job(2, deadline=1.0)
    ranks.run(1, long).says("begun")
    ranks.run(0, lambda joined: joined.agree("program", "same", list))
    assert [ranks.ranks[k].wait() for k in (0, 1)] == [0, 0], ranks.ranks[0].text()


def test_a_rank_stopped_while_compiling_is_not_waited_for(job: Callable[..., Job]) -> None:
    def compiles(joined: Control) -> None:
        with joined.during("compiling"):
            time.sleep(0.2)
            sleeps(joined)

    def short(joined: Control) -> None:
        reports.SILENT = 0.5  # read where tables are
        collective(joined, 3)

    ranks = job(2, deadline=0.5)
    ranks.run(1, compiles).says("sleeping")
    ranks.ranks[1].kill(signal.SIGSTOP)
    ranks.lost_by(lambda: ranks.run(0, short), [0], CollectiveTimeout)
    assert "rank 1: has not entered it: compiling for" in ranks.ranks[0].text()
    assert "stopped, or disconnected" in ranks.ranks[0].text()


def test_a_rank_that_never_joins_is_named(job: Callable[..., Job]) -> None:
    ranks = job(2, deadline=0.5)
    ranks.lost_by(lambda: ranks.run(0, waits), [0], CollectiveTimeout)
    assert "rank 1: has not joined" in ranks.ranks[0].text()


def test_a_late_joiner_is_welcome(job: Callable[..., Job]) -> None:
    def agrees(joined: Control) -> None:
        joined.agree("program", "same", list)

    ranks = job(2)
    ranks.run(0, agrees).says("joined")
    time.sleep(0.3)
    ranks.run(1, agrees)
    assert [ranks.ranks[k].wait() for k in (0, 1)] == [0, 0]


def test_one_who_joins_a_job_that_is_over_hears_so(job: Callable[..., Job]) -> None:
    ranks = job(3)
    ranks.run(0, sleeps).says("sleeping")
    ranks.run(1, sleeps).says("sleeping")
    ranks.lost_by(lambda: ranks.ranks[1].kill(signal.SIGKILL), [0])
    ranks.lost_by(lambda: ranks.run(2, sleeps), [2])
    assert "RankLost: rank 1" in ranks.ranks[2].text()


@pytest.mark.slow
def test_ranks_are_not_left_alone_by_a_server_that_stands_still(start: Callable[..., Child]) -> None:
    port = free_port()

    def listens() -> None:
        Server(1, NONCE, port=port).start()
        print("listening")
        time.sleep(60)

    launcher = start(listens)
    launcher.says("listening")

    def script() -> None:
        wg.config.deadline = 4.0
        control_rank._BEAT = 0.1  # so that an answer is old after two seconds
        waits(control.connect(f"127.0.0.1:{port}", NONCE, 0, 1))

    rank = start(script)
    rank.says("waiting")
    launcher.kill(signal.SIGSTOP)
    assert rank.wait() == 1
    assert "CollectiveTimeout: collective 41 has waited 4 s" in rank.text()
    assert "The control plane does not answer" in rank.text()


@pytest.mark.parametrize("value", [0, -1.0, "60", None, True, float("nan"), float("inf")])
def test_a_deadline_is_a_number_of_seconds(value: Any) -> None:
    with pytest.raises(wg.errors.ArgumentError, match=r"config\.deadline must be a number of seconds above 0"):
        wg.config.deadline = value


def test_setting_the_deadline_records_nothing_again() -> None:
    before, version = wg.config.deadline, wg.config.version
    assert before == 60.0
    wg.config.deadline = before
    assert wg.config.version == version


# --- what ranks agree on --------------------------------------------------------------------------------------------

PROGRAM = ["add float32[4], train.py:3: y = x + 1", "all_reduce float32[4], train.py:4: y.sum()"]
OTHER = [PROGRAM[0], "all_reduce float32[8], train.py:5: z.sum()"]


def _agrees(program: list[str], key: str = "train", before: Callable[[], None] = lambda: None) -> Rank:
    def script(joined: Control) -> None:
        before()
        joined.agree(key, "/".join(program), lambda: program)
        print("sent something")

    return script


def test_different_programs_are_shown_before_anything_is_sent(job: Callable[..., Job]) -> None:
    ranks = job(3)
    for rank, program in enumerate([PROGRAM, PROGRAM, OTHER]):
        ranks.run(rank, _agrees(program))
    ranks.lost_by(lambda: None, [0, 1, 2], ProgramMismatch)
    for rank in range(3):
        text = ranks.ranks[rank].text()
        assert "ranks 0 and 1 and rank 2 would run different programs (train)" in text
        assert f"rank 0: {PROGRAM[1]}" in text and f"rank 2: {OTHER[1]}" in text
        assert "sent something" not in text


def test_versions_are_part_of_the_program(job: Callable[..., Job]) -> None:
    def older() -> None:
        control_rank._versions = lambda: ["wengert 0.0.9"]

    ranks = job(2)
    ranks.run(0, _agrees(PROGRAM))
    ranks.run(1, _agrees(PROGRAM, before=older))
    ranks.lost_by(lambda: None, [0, 1], ProgramMismatch)
    assert f"rank 0: wengert {wg.__version__}" in ranks.ranks[0].text()
    assert "rank 1: wengert 0.0.9" in ranks.ranks[0].text()


def test_agreements_are_compared_in_order_whatever_they_are_about(job: Callable[..., Job]) -> None:
    ranks = job(2)
    ranks.run(0, _agrees(PROGRAM, "train"))
    ranks.run(1, _agrees(OTHER, "evaluate"))
    ranks.lost_by(lambda: None, [0, 1], ProgramMismatch)
    assert "(train; evaluate)" in ranks.ranks[0].text()


def test_many_agreements_of_equal_ranks(job: Callable[..., Job]) -> None:
    def script(joined: Control) -> None:
        for number in range(50):
            joined.agree(f"program {number}", str(number), list)

    ranks = job(3)
    for rank in range(3):
        ranks.run(rank, script)
    assert [ranks.ranks[rank].wait() for rank in range(3)] == [0, 0, 0], ranks.ranks[0].text()


def test_different_collectives_of_one_number_are_shown(job: Callable[..., Job]) -> None:
    """As a print on one rank starts one."""
    ranks = job(2)
    ranks.run(0, lambda joined: collective(joined, 7, "train.py:9: print(loss)", bytes=4))
    ranks.run(1, lambda joined: collective(joined, 7, "train.py:12: loss.backward()"))
    ranks.lost_by(lambda: None, [0, 1], ProgramMismatch)
    text = ranks.ranks[0].text()
    assert "rank 0: collective 7: all_reduce of 4 B, train.py:9: print(loss)" in text
    assert "rank 1: collective 7: all_reduce of 12.6 MB, train.py:12: loss.backward()" in text


def test_a_collective_of_some_ranks_waits_for_those(job: Callable[..., Job]) -> None:
    def in_group(joined: Control) -> None:
        joined.entering(1, "all_reduce", 4, "train.py:1: x", ranks=(0, 1))
        while True:
            joined.check()
            time.sleep(0.005)

    ranks = job(3, deadline=0.5)
    ranks.run(2, sleeps).says("sleeping")
    ranks.run(1, sleeps).says("sleeping")
    ranks.lost_by(lambda: ranks.run(0, in_group), [0], CollectiveTimeout)
    assert "s for rank 1: all_reduce, train.py:1: x" in ranks.ranks[0].text()
    assert "rank 2" not in ranks.ranks[0].text()


def test_texts_are_published_and_fetched(job: Callable[..., Job]) -> None:
    def publishes(joined: Control) -> None:
        time.sleep(0.2)
        joined.publish("nccl all", "an id")
        print(joined.fetch("nccl all"))

    ranks = job(2)
    ranks.run(1, lambda joined: print("got", joined.fetch("nccl all"))).says("joined")
    ranks.run(0, publishes)
    assert [ranks.ranks[k].wait() for k in (0, 1)] == [0, 0], ranks.ranks[1].text()
    assert "got an id" in ranks.ranks[1].text()


def test_a_text_that_nobody_publishes_is_named(job: Callable[..., Job]) -> None:
    ranks = job(2, deadline=0.5)
    ranks.lost_by(lambda: ranks.run(0, lambda joined: joined.fetch("nccl all")), [0], CollectiveTimeout)
    assert "fetching 'nccl all', which no rank has published" in ranks.ranks[0].text()


# --- who may join ---------------------------------------------------------------------------------------------------


def test_those_of_other_jobs_are_refused(job: Callable[..., Job]) -> None:
    ranks = job(2)
    address = ranks.server.address
    ranks.run(0, sleeps).says("sleeping")
    for nonce, rank, size, why in (
        ("of another job", 1, 2, r"its nonce \(WENGERT_NONCE\) belongs to another job"),
        (NONCE, 1, 4, "it was started as one of 4 ranks, but this job has 2"),
        (NONCE, 5, 2, "there is no rank 5 among 2"),
        (NONCE, 0, 2, f"there is already a rank 0: host {socket.gethostname()}, pid {ranks.ranks[0].pid}"),
    ):
        with pytest.raises(DistributedError, match=why):
            control.connect(address, nonce, rank, size)
    assert ranks.ranks[0].poll() is None and not ranks.server.over.is_set()


def test_strangers_disturb_nobody(job: Callable[..., Job]) -> None:
    ranks = job(1)
    ranks.run(0, sleeps).says("sleeping")
    for noise in (b"GET / HTTP/1.1\r\n\r\n", b"[1]\n", b"{}\n", b"\xff\xfe\n", b"x" * 100_000, b""):
        with socket.create_connection(("127.0.0.1", ranks.server.port), timeout=10) as stranger:
            stranger.sendall(noise)
    ranks.run(0, sleeps)  # refused, by a server that still answers
    assert ranks.ranks[0].wait() == 1 and "there is already a rank 0" in ranks.ranks[0].text()
    assert not ranks.server.over.is_set()


def test_a_port_in_use_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(DistributedError, match=rf"port {port} of 127.0.0.1 cannot .* set MASTER_PORT to a free"):
            Server(2, NONCE, port=port)


def test_an_address_where_nobody_listens_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wg.config, "deadline", 0.2)
    port = free_port()
    with pytest.raises(DistributedError, match=rf"no server listens at 127.0.0.1:{port}"):
        control.connect(f"127.0.0.1:{port}", NONCE, 0, 2)
    with pytest.raises(wg.errors.ArgumentError, match="'here' is not an address"):
        control.connect("here", NONCE, 0, 2)


def test_ranks_without_a_place_to_meet_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    with pytest.raises(DistributedError, match="wengert launch -n 4"):
        control.join(1, 2)


def test_jobs_of_others_bring_an_address_and_a_nonce(monkeypatch: pytest.MonkeyPatch) -> None:
    """torchrun itself listens at its port, and every restart of it is another job."""
    for name in ("TORCHELASTIC_RUN_ID", "TORCHELASTIC_RESTART_COUNT", "SLURM_JOB_ID", "SLURM_STEP_ID", "WENGERT_NONCE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MASTER_ADDR", "node-3")
    monkeypatch.setenv("MASTER_PORT", "29500")
    assert control._master()[0] == "node-3:29500"
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "7")
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "0")
    address, nonce = control._master()
    assert address == "node-3:29501"
    monkeypatch.setenv("TORCHELASTIC_RESTART_COUNT", "1")
    assert control._master() != (address, nonce)
    monkeypatch.setenv("WENGERT_NONCE", "mine")
    assert control._master()[1] == "mine"


# --- words ----------------------------------------------------------------------------------------------------------


def test_reports_travel_whole() -> None:
    call = Call(3, "all_gather", 8, "a.py:1: x", "0,2", (0, 2))
    report = Report(1, "b", 5, 7, "waiting", 1.5, call, {"0,2": 3}, "there")
    assert Report.read(report.wire()) == report
    assert Loss.read(Loss(report, signal=9).wire()) == Loss(report, signal=9)


def test_ranks_in_words() -> None:
    assert reports.listed(list(range(64))) == "ranks 0 to 63"
    assert reports.listed([0, 1]) == "ranks 0 and 1"


def test_many_missing_ranks_are_counted() -> None:
    absent = [Report(rank, "a", 100 + rank) for rank in range(1, 21)]
    text = reports.late(Call(1, "all_reduce", 4, ""), 60.0, [0], absent)
    assert "for ranks 1 to 20" in text and text.endswith("and 12 more")


def test_an_exit_status_is_told() -> None:
    assert "ended with exit status 3" in reports.lost(Loss(Report(1, "a", 2)).ended_by(3))
