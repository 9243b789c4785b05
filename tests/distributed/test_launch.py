"""`wengert launch`: ranks as processes of the launcher, and how mpiexec is called. With MPI: test_faults."""

from __future__ import annotations

import mmap
import os
import pty
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest
from wengert.errors import ArgumentError

from tests.distributed.launching import ALL_MAY_RAISE, PATIENCE, QUICK, ROOT, launched
from tests.distributed.stopwatch import moment
from wengert import cli
from wengert.distributed import launch, mpiexec, processes
from wengert.distributed.mpiexec import Mpiexec

OWN = ("--mpiexec", "none")


def _script(folder: Path, text: str) -> Path:
    path = folder / "script.py"
    path.write_text("import os, signal, sys, time\nrank = int(os.environ['WENGERT_RANK'])\n" + text)
    return path


# --- ranks as processes ---------------------------------------------------------------------------------------------


def test_ranks_are_told_who_they_are(tmp_path: Path) -> None:
    script = _script(
        tmp_path,
        "import wengert as wg\n"
        "from wengert.distributed import control\n"
        "place = [os.environ['WENGERT_' + name] for name in ('RANK', 'SIZE', 'LOCAL_RANK')]\n"
        "print(*place, control.current.rank, control.current.size, __name__, sys.argv[1:], sys.path[0])\n"
        "control.current.agree('program', 'same', list)\n",
    )
    with launched(tmp_path, "-n", 3, *OWN, script, "--lr", "0.1") as run:
        assert run.status() == 0, run.text()
    expected = [f"{k} 3 {k} {k} 3 __main__ ['--lr', '0.1'] {tmp_path}" for k in range(3)]
    assert sorted(run.text().splitlines()) == expected


def test_a_module_is_started_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__main__.py").write_text("import os, sys\nprint(__name__, sys.argv[1:], os.getcwd())")
    with launched(tmp_path, "-n", 1, *OWN, "-m", "package", "-x") as run:
        assert run.status() == 0, run.text()
    assert run.text() == f"__main__ ['-x'] {tmp_path}\n"


def test_when_a_rank_dies_all_end_and_it_is_named(tmp_path: Path) -> None:
    """The others are asleep, one in a fork as well; they raise."""
    script = _script(
        tmp_path,
        "if rank == 1 and os.fork() == 0: time.sleep(100)\n"
        "if rank: print('ready'); time.sleep(100)\n"
        "while not os.path.exists('now'): time.sleep(0.01)\n"
        "print(f'pid {os.getpid()}.')\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n",
    )
    with launched(tmp_path, "-n", 3, *OWN, *ALL_MAY_RAISE, script) as run:
        run.says("ready", 2)
        start = moment()
        (tmp_path / "now").touch()
        assert run.status() == 137, run.text()
        assert moment() - start < QUICK
        assert run.left() == []
        pid = run.text().split("pid ")[1].split(".")[0]
        lost = f"RankLost: rank 0 (host {os.uname().nodename}, pid {pid}) died of signal 9 (SIGKILL)"
        assert f"wengert: {lost}" in run.text()
        assert run.text().count(f"errors.{lost}") == 2  # raised by the others


def test_a_rank_that_would_rather_stay_is_ended(tmp_path: Path) -> None:
    """It blocks and ignores what can be."""
    script = _script(
        tmp_path,
        "if rank:\n"
        "    signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGURG})\n"
        "    print('ready'); time.sleep(100)\n"
        "while not os.path.exists('now'): time.sleep(0.01)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n",
    )
    with launched(tmp_path, "-n", 2, *OWN, script) as run:
        run.says("ready")
        start = moment()
        (tmp_path / "now").touch()
        assert run.status() == 137, run.text()
        assert moment() - start < QUICK and run.left() == []
        assert run.text().count("RankLost: rank 0") == 1  # the launcher's


@pytest.mark.skipif(not processes.SharedMemory.FOLDER.is_dir(), reason="shared memory is elsewhere here")
def test_what_killed_ranks_had_in_shared_memory_is_removed() -> None:
    """If its name says that MPI or multiprocessing made it."""
    folder, own = processes.SharedMemory.FOLDER, f"{os.getpid()}_{os.urandom(4).hex()}"
    paths = [folder / f"{name}{own}" for name in ("mpich_shm_", "sem.mp-", "somebody's_")]
    shared = processes.SharedMemory()
    try:
        for path in paths:
            with open(path, "wb+") as file:
                file.truncate(4096)
                mapped = mmap.mmap(file.fileno(), 4096)
            shared.look([os.getpid(), 0])
            mapped.close()
        shared.remove()
        assert [path.exists() for path in paths] == [False, False, True]
    finally:
        for path in paths:
            path.unlink(missing_ok=True)


SEMAPHORE = """
import os, sys
from multiprocessing import get_context
from multiprocessing.resource_tracker import unregister
semaphore = get_context("spawn").Semaphore()
unregister(semaphore._semlock.name, "semaphore")  # as if its tracker had been killed
print(semaphore._semlock.name, flush=True)
sys.stdin.read()
os._exit(0)
"""


@pytest.mark.skipif(not processes.SharedMemory.FOLDER.is_dir(), reason="shared memory is elsewhere here")
def test_semaphores_are_removed_which_are_mapped_under_another_name() -> None:
    command = [sys.executable, "-c", SEMAPHORE]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        path = processes.SharedMemory.FOLDER / f"sem.{process.stdout.readline().strip().removeprefix('/')}"
        shared = processes.SharedMemory()
        shared.look([process.pid])
        process.stdin.close()
    assert path.exists()
    shared.remove()
    assert not path.exists()


def test_a_rank_that_fails_before_its_first_line_counts(tmp_path: Path) -> None:
    """And the others hear its own words."""
    script = _script(tmp_path, "if rank == 1: import no_such_module\ntime.sleep(100)\n")
    with launched(tmp_path, "-n", 2, *OWN, *ALL_MAY_RAISE, script) as run:
        assert run.status() == 1
        assert run.left() == []
    text = run.text()
    assert text.count("ended with ModuleNotFoundError: No module named 'no_such_module'") == 2
    assert "runpy" not in text and "begin.py" not in text  # tracebacks are of the script


def test_an_exit_status_is_passed_on(tmp_path: Path) -> None:
    script = _script(tmp_path, "if rank == 1: sys.exit(7)\ntime.sleep(100)\n")
    with launched(tmp_path, "-n", 2, *OWN, script) as run:
        assert run.status() == 7
        assert "RankLost: rank 1" in run.text() and "ended with exit status 7" in run.text()


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_signals_are_passed_on(tmp_path: Path, number: int, status: int) -> None:
    script = _script(
        tmp_path,
        "def told(number, frame): print('told', number)\n"
        "def ends(number, frame): print('ends', number); sys.exit(1)\n"
        "signal.signal(signal.SIGUSR1, told)\n"
        "signal.signal(signal.SIGINT, ends); signal.signal(signal.SIGTERM, ends)\n"
        "print('ready')\n"
        "while True: time.sleep(0.05)\n",
    )
    with launched(tmp_path, "-n", 2, *OWN, *ALL_MAY_RAISE, script) as run:
        run.says("ready", 2)
        run.process.send_signal(signal.SIGUSR1)
        run.says(f"told {int(signal.SIGUSR1)}", 2)
        run.process.send_signal(number)
        assert run.status() == status
        assert run.text().count(f"ends {int(number)}") == 2 and run.left() == []


def test_a_second_signal_ends_at_once(tmp_path: Path) -> None:
    script = _script(
        tmp_path,
        "signal.signal(signal.SIGTERM, lambda *_: print('told'))\nprint('ready')\nwhile True: time.sleep(100)\n",
    )
    with launched(tmp_path, "-n", 2, *OWN, script) as run:
        run.says("ready", 2)
        run.process.send_signal(signal.SIGTERM)
        run.says("told", 2)
        start = moment()
        run.process.send_signal(signal.SIGTERM)
        assert run.status() == 143 and run.left() == []
        assert moment() - start < QUICK  # and not what ranks have to end by themselves


def test_ranks_do_not_outlive_the_launcher(tmp_path: Path) -> None:
    script = _script(tmp_path, "signal.signal(signal.SIGTERM, signal.SIG_IGN)\nprint('ready')\ntime.sleep(100)\n")
    with launched(tmp_path, "-n", 2, *OWN, script) as run:
        run.says("ready", 2)
        run.process.kill()
        until = time.monotonic() + PATIENCE
        while run.left():
            assert time.monotonic() < until
            time.sleep(0.05)


def test_a_job_is_started_again(tmp_path: Path) -> None:
    script = _script(
        tmp_path,
        "count = len(os.listdir('tries'))\n"
        "from wengert.distributed import control\n"
        "control.current.agree('count', str(count), list)\n"
        "if rank == 0: open(f'tries/{count}', 'w')\n"
        "if count < 2: sys.exit(1) if rank == 0 else time.sleep(100)\n"
        "print('went on from', count)\n",
    )
    (tmp_path / "tries").mkdir()
    with launched(tmp_path, "-n", 2, "--restarts", 3, *OWN, script) as run:
        assert run.status() == 0, run.text()
        assert run.text().count("went on from 2") == 2
        assert "wengert: starting again, 1 of 3" in run.text() and "again, 2 of 3" in run.text()
        assert "again, 3 of 3" not in run.text()


def test_lines_have_a_coloured_number_on_a_terminal(tmp_path: Path) -> None:
    script = _script(tmp_path, "print('hello', rank)\n")
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "wengert.cli", "launch", "-n", "2", *OWN, str(script)]
    process = subprocess.Popen(
        command, stdout=theirs, stderr=theirs, env={**os.environ, "PYTHONPATH": str(ROOT / "src")}, cwd=tmp_path
    )
    os.close(theirs)
    text = b""
    while True:
        try:
            piece = os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
        if not piece:
            break
        text += piece
    os.close(ours)
    assert process.wait(PATIENCE) == 0
    assert sorted(text.split(b"\r\n")[:2]) == [b"\x1b[33m1\x1b[0m hello 1", b"\x1b[36m0\x1b[0m hello 0"]


# --- what is asked --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((None, None, False, __file__, []), "the number of ranks is missing"),
        ((0, None, False, __file__, []), "0 ranks are not possible"),
        ((9, "a:4,b:4", False, __file__, []), "9 ranks on 8 slots of --hosts are not possible"),
        ((2, "a:x", False, __file__, []), "such as a:8,b:8, not 'a:x'"),
        ((2, None, False, __file__, [], -1.0), "--grace must be a number of seconds, such as 1.2, not -1.0"),
        ((2, None, False, "train.py", []), "there is no file train.py; to start a module use -m train"),
        ((2, None, False, "/no/train.py", []), r"there is no file /no/train\.py(?!;)"),
        ((2, None, True, "no.such", []), "there is no module no here or among the installed packages"),
    ],
)
def test_mistakes_are_told(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(ArgumentError, match=message):
        launch.job(*arguments)  # type: ignore[arg-type]


def test_mistakes_are_told_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["launch", "-n", "2", "no_such.py"]) == 1
    assert capsys.readouterr().err.startswith("wengert: launch: there is no file no_such.py")
    assert cli.main(["launch", "-n", "2", "--restarts", "-1", *OWN, __file__]) == 1
    assert capsys.readouterr().err == "wengert: launch: --restarts must be at least 0, not -1\n"
    assert cli.main(["launch", "--hosts", "a:2", *OWN, __file__]) == 1
    assert "--hosts needs mpiexec" in capsys.readouterr().err


def test_hosts_say_how_many_ranks() -> None:
    asked = launch.job(None, "a:8,b:4", False, __file__, ["x"])
    assert asked.ranks == 12 and asked.a_machine() == 8 and asked.program == (__file__, "x")


# --- mpiexec --------------------------------------------------------------------------------------------------------


def _mpiexec(folder: Path, says: str, info: str | None = None) -> str:
    for name, text in (("mpiexec", says), ("ompi_info", info)):
        if text is not None:
            path = folder / name
            path.write_text(f"#!/bin/sh\necho '{text}'\n")
            path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(folder / "mpiexec")


@pytest.mark.parametrize(
    ("says", "info", "kind", "survives"),
    [
        ("mpiexec (Open MPI) 5.0.11", "Fault Tolerance support: yes", "Open MPI", True),
        ("mpiexec (OpenRTE) 4.1.4", None, "Open MPI", False),
        ("HYDRA build details:", None, "MPICH", False),
        ("Intel(R) MPI Library for Linux* OS", None, "MPICH", False),
    ],
)
def test_an_mpiexec_is_known_by_its_words(
    tmp_path: Path, says: str, info: str | None, kind: str, survives: bool
) -> None:
    path = _mpiexec(tmp_path, says, info)
    assert mpiexec.find(path) == Mpiexec(path, kind, survives)


def test_an_unknown_mpiexec_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=r"neither Open MPI's mpiexec nor MPICH's; it says: 'prun 1.0\\n'"):
        mpiexec.find(_mpiexec(tmp_path, "prun 1.0"))
    with pytest.raises(ArgumentError, match="there is no /no/mpiexec"):
        mpiexec.find("/no/mpiexec")


def test_the_commands() -> None:
    environment = {"WENGERT_NONCE": "n", "OMP_NUM_THREADS": "2", "PYTHONPATH": "src", "HOME": "/root"}
    program = ["python", "script.py"]
    ours = Mpiexec("mpiexec", "Open MPI", True).command(4, "", environment, program, tags=True)
    local = "mpiexec -n 4 --oversubscribe --bind-to none --with-ft ulfm --output tag python script.py"
    assert ours == local.split()
    there = Mpiexec("mpiexec", "Open MPI").command(16, "a:8,b:8", environment, program, tags=False)
    passed = "--host a:8,b:8 -x OMP_NUM_THREADS -x PYTHONPATH -x WENGERT_NONCE"
    assert there == f"mpiexec -n 16 --oversubscribe --bind-to none {passed} python script.py".split()
    mpich = Mpiexec("mpiexec", "MPICH").command(16, "a:8,b:8", environment, program, tags=True)
    assert mpich == ["mpiexec", "-n", "16", "-prepend-pattern", "[%r] ", "-hosts", "a:8,b:8", *program]


def test_tags_are_taken_off_lines() -> None:
    assert Mpiexec("", "Open MPI").untagged(b"[1,13]<stderr>: hello\n") == (13, b"hello\n")
    assert Mpiexec("", "MPICH").untagged(b"[13] hello\n") == (13, b"hello\n")
    assert Mpiexec("", "MPICH").untagged(b"= BAD TERMINATION\n") == (None, b"= BAD TERMINATION\n")


def test_the_last_words_of_mpiexec_are_understood() -> None:
    hydra = "=   PID 3773 RUNNING AT vm\n=   EXIT CODE: 9\nTERMINATED WITH THE EXIT STRING: Killed (signal 9)\n"
    assert mpiexec.culprit(hydra) == (3773, 9)
    prrte = "process rank 1 with PID 3906 on node vm exited on\nsignal 11 (Segmentation fault)."
    assert mpiexec.culprit(prrte) == (3906, 11)
    assert mpiexec.culprit("hello") is None
