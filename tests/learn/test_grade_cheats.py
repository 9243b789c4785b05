"""What a submission tries against the grader gets no marks: the only thing that comes out of its process is answers."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from wengert.learn.exercises.exercise import Case, Check, Exercise
from wengert.learn.grading import report, sandbox
from wengert.learn.grading.marking import Exam, Graded, mark
from wengert.learn.grading.sandbox import Limits

PROBES = """
def twice(x):
    import work

    return work.twice(x)


def total(x):
    import work

    return work.total(x)
"""
RIGHT = "import numpy as np\n\n\ndef twice(x):\n    return 2 * x\n\n\ndef total(x):\n    return np.sum(x)\n"
QUICK = Limits(answer=10.0, seconds=60.0)


def drawn(function):
    def cases(rng):
        for shape in ((3,), (2, 2)):
            x = rng.normal(size=shape)
            yield Case((x,), function(x))

    return cases


EXERCISE = Exercise(
    name="work",
    title="Two functions",
    minutes=1,
    marks=10,
    allowed_imports=("numpy",),
    files={"work.py": 'def twice(x):\n    raise NotImplementedError("TODO")\n'},
    submission=("work.py",),
    probes=PROBES,
    checks=(Check("twice", "twice", drawn(lambda x: 2 * x), 4), Check("total", "total", drawn(np.sum), 6)),
)

LAX = replace(
    EXERCISE, checks=EXERCISE.checks[:1], allowed_imports=(*sys.stdlib_module_names, "numpy", "wengert", "wire")
)
"""The same with every import allowed, as a submission has it that found a way around the list."""

needs_jail = pytest.mark.skipif(
    sandbox.best_kind() not in ("namespaces", "landlock"),
    reason="this kernel allows neither namespaces nor Landlock: files are not kept from submissions",
)


def graded(
    tmp_path: Path, text: str, limits: Limits = QUICK, kind: str | None = None, exercise: Exercise = EXERCISE
) -> Graded:
    folder = tmp_path / "submission"
    folder.mkdir(exist_ok=True)
    (folder / "work.py").write_text(text)
    return mark(Exam(exercise, seed=int(time.time())), folder, limits=limits, kind=kind)


def problems(result: Graded) -> str:
    return "\n".join(check.problem for check in result.results)


def test_right_answers_get_all_marks(tmp_path):
    assert graded(tmp_path, RIGHT).marks == 10


def test_a_part_gets_its_marks(tmp_path):
    result = graded(tmp_path, RIGHT.replace("np.sum(x)", "np.sum(x) + 1"))
    assert result.marks == 4
    assert "and should be" in problems(result)


CHEATS = {
    "prints full marks and leaves": 'import os\nprint("10 of 10 marks", flush=True)\nos._exit(0)',
    "prints at exit": 'import atexit\natexit.register(print, \'{"scores": {"work": 10}}\')',
    "exits when asked": "def twice(x):\n    raise SystemExit(0)\n\n\ntotal = twice",
    "patches numpy": "import numpy as np\nnp.allclose = np.array_equal = lambda *a, **k: True\n"
    "def twice(x):\n    return 0 * x\n\n\ndef total(x):\n    return 0.0",
    "an array that equals everything": "import numpy as np\n\n\nclass Yes(np.ndarray):\n"
    "    __eq__ = lambda a, b: np.ones(a.shape, bool)\n    __array_function__ = lambda *a: True\n\n\n"
    "def twice(x):\n    return np.zeros(x.shape).view(Yes)\n\n\ndef total(x):\n    return np.zeros(()).view(Yes)",
    "imports the grader": "from wengert.learn.grading import judge\njudge.complaint = lambda *a: ''",
    "imports wengert by another way": "import importlib\nimportlib.import_module('wengert')",
    "looks for wengert on the disk": "import glob, sys\nsys.path += [p.rsplit('/', 1)[0] for p in "
    "glob.glob('/**/wengert', recursive=True)]\nimport wengert\n\n\n"
    "def twice(x):\n    return (wengert.tensor(x) * 2).numpy()",
    "writes answers into the pipe": "import os, sys\nsys.path.append('/grader')\nimport wire\n"
    "for number in range(1, 9):\n    for pipe in range(3, 12):\n        try:\n"
    "            wire.send(pipe, {'number': number, 'value': 1.0}, 0.1)\n        except Exception:\n            pass",
    "writes nonsense into the pipe": "import os\nfor pipe in range(3, 12):\n    try:\n"
    "        os.write(pipe, b'\\xff' * 64)\n    except OSError:\n        pass",
    "announces a message without end": "import os, struct\nfor pipe in range(3, 12):\n    try:\n"
    "        os.write(pipe, struct.pack('<Q', 2**60))\n    except OSError:\n        pass",
    "sends a pickle bomb": "import pickle\n\n\nclass Bomb:\n    def __reduce__(self):\n"
    "        return (open, ('/tmp/wengert-bomb', 'w'))\n\n\n"
    "def twice(x):\n    return pickle.dumps(Bomb())\n\n\ntotal = twice",
    "sends deeply nested lists": "def twice(x):\n    a = []\n    for _ in range(100000):\n        a = [a]\n"
    "    return a\n\n\ntotal = twice",
    "returns a list that contains itself": "a = []\na.append(a)\n\n\ndef twice(x):\n    return a\n\n\ntotal = twice",
    "searches the frames for the answer": "import sys\n\n\ndef twice(x):\n"
    "    frame = sys._getframe()\n    while frame:\n"
    "        for name, value in frame.f_locals.items():\n            if name in ('expected', 'case'):\n"
    "                return value\n        frame = frame.f_back\n\n\ntotal = twice",
    "searches the garbage collector": "import gc\n\n\ndef twice(x):\n    for thing in gc.get_objects():\n"
    "        if type(thing).__name__ == 'Case':\n            return thing.expected\n\n\ntotal = twice",
    "replaces the probes": "import sys\nfor module in list(sys.modules.values()):\n"
    "    if getattr(module, 'twice', None):\n        module.twice = module.total = lambda x: x",
    "never ends": "while True:\n    pass",
    "ignores signals and sleeps": "import signal, time\nfor number in range(1, 64):\n    try:\n"
    "        signal.signal(number, signal.SIG_IGN)\n    except (OSError, ValueError):\n        pass\ntime.sleep(3600)",
    "takes all memory": "kept = [bytearray(2**28) for _ in range(64)]",
    "raises an error whose text raises": "class Odd(Exception):\n    def __str__(self):\n        raise Odd()\n\n\n"
    "def twice(x):\n    raise Odd()\n\n\ntotal = twice",
    "breaks the interpreter": "import ctypes\nctypes.string_at(0)",
    "closes all files": "import os\nos.closerange(0, 64)",
    "prints without end": "import os\nfor _ in range(4096):\n    print('x' * 65536)",
}


@pytest.mark.parametrize("text", CHEATS.values(), ids=CHEATS)
def test_cheats_get_nothing(tmp_path, text):
    # Each hands in no answer of its own, so that a mark would be one it did not earn.
    result = graded(tmp_path, f"{text}\n", Limits(answer=1.0, seconds=2.0), exercise=LAX)
    assert "this exercise does not allow" not in problems(result)
    assert result.marks == 0, result.results


def test_an_escape_sequence_does_not_reach_the_terminal(tmp_path):
    result = graded(
        tmp_path, "def twice(x):\n    raise ValueError('\\x1b[2J\\x1b[1;1H10 of 10 marks')\n\n\ntotal = twice\n"
    )
    assert result.marks == 0
    assert "\x1b" not in problems(result)


def test_the_outer_files_are_those_of_the_handout(tmp_path):
    (tmp_path / "submission").mkdir()
    for name in ("numpy.py", "wire.py", "probes.py", "sitecustomize.py"):
        (tmp_path / "submission" / name).write_text("raise SystemExit(0)\n")
    assert graded(tmp_path, RIGHT).marks == 10


def test_a_link_to_another_file_is_not_followed(tmp_path):
    (tmp_path / "neighbour.py").write_text(RIGHT)
    (tmp_path / "submission").mkdir()
    (tmp_path / "submission" / "work.py").symlink_to(tmp_path / "neighbour.py")
    result = mark(Exam(EXERCISE, 1), tmp_path / "submission", limits=QUICK)
    assert result.marks == 0
    assert result.missing == ("work.py",)


def test_imports_are_told(tmp_path):
    text = (
        "import os, numpy.linalg\nimport numpy as np\nnp.sum = max\nfrom subprocess import run\n__import__('socket')\n"
    )
    assert sorted(graded(tmp_path, text).suspicions) == [
        "work.py, line 1: `import os` is not allowed",
        "work.py, line 3: `np.sum` is replaced",
        "work.py, line 4: `from subprocess import ...` is not allowed",
        "work.py, line 5: `__import__` is not needed here",
    ]


# --- what the jail keeps away: probes may import what they like, as the submission may not --------------------------


def answer(tmp_path: Path, body: str, limits: Limits = QUICK, kind: str | None = None) -> dict:
    """What a probe returns that does what a submission may try."""
    (tmp_path / "empty").mkdir(exist_ok=True)
    probe = "def attempt():\n" + "".join(f"    {line}\n" for line in body.splitlines())
    with sandbox.Session(tmp_path / "empty", probe, limits=limits, kind=kind, allowed=(MARKER,)) as session:
        return session.ask("attempt", ())


MARKER = f"these-tests-{os.getpid()}-{time.time_ns()}"
"""A word in the command line of every process of these tests' submissions, and of no other."""


def left() -> list[int]:
    """The processes of these tests' submissions, and their guards, which have all ended."""
    return [number for number in tasks() if MARKER in command_of(number)]


@needs_jail
def test_files_outside_cannot_be_read(tmp_path):
    secret = tmp_path / "expected.txt"
    secret.write_text("42")
    tmp_path.chmod(0o755)
    found = answer(tmp_path, f"return open({str(secret)!r}).read()")
    assert found["error"]["type"] in ("FileNotFoundError", "PermissionError")


@needs_jail
@pytest.mark.parametrize("path", ["/submission/x", "/grader/x", "/x", "/etc/x", "/var/tmp/x", "/dev/shm/x"])
def test_files_outside_cannot_be_written(tmp_path, path):
    found = answer(tmp_path, f"open({path!r}, 'w').write('x')")
    assert found["error"]["type"] in ("FileNotFoundError", "PermissionError", "OSError")


@needs_jail
def test_files_cannot_be_deleted(tmp_path):
    for path in ("/grader/wire.py", "/submission", os.path.realpath(sys.executable), np.__file__):
        found = answer(
            tmp_path, f"import os, shutil\n(shutil.rmtree if os.path.isdir({path!r}) else os.remove)({path!r})"
        )
        assert "error" in found, path
    assert Path(np.__file__).is_file() and Path(sys.executable).exists()


@needs_jail
def test_a_submission_has_a_folder_of_its_own(tmp_path):
    body = "import tempfile\nwith tempfile.TemporaryFile() as file:\n    return file.write(b'12345')"
    assert answer(tmp_path, body)["value"] == 5


@needs_jail
def test_files_have_a_limit(tmp_path):
    body = "import os\nwith open(os.environ['TMPDIR'] + '/x', 'wb') as file:\n    file.write(bytes(2**26))"
    assert "error" in answer(tmp_path, body)


@needs_jail
def test_the_grader_is_out_of_sight(tmp_path):
    here = os.getpid()
    assert "error" in answer(tmp_path, f"return open('/proc/{here}/mem', 'rb').read(1).hex()")
    assert "error" in answer(tmp_path, f"import os\nos.kill({here}, 0)")
    assert "error" in answer(tmp_path, f"import os\nos.kill({os.getppid()}, 0)")


@needs_jail
def test_there_is_no_network(tmp_path):
    import socket

    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        found = answer(tmp_path, f"import socket\nsocket.create_connection(('127.0.0.1', {port}), 2)")
    assert found["error"]["type"] in ("PermissionError", "OSError", "ConnectionRefusedError")


@needs_jail
def test_it_cannot_become_root(tmp_path):
    assert "error" in answer(tmp_path, "import os\nos.setuid(0)\nreturn open('/etc/shadow').read()")


@pytest.mark.skipif(os.getuid() != 0, reason="only root runs submissions as another user")
def test_root_runs_submissions_as_nobody(tmp_path):
    assert answer(tmp_path, "import os\nreturn os.getuid()")["value"] >= 61184


@pytest.mark.skipif(
    os.getuid() != 0 and sandbox.best_kind() != "namespaces",
    reason="the kernel counts this user's other processes as well, which come and go",
)
def test_no_process_can_be_started(tmp_path):
    assert answer(tmp_path, "import os\nreturn os.fork()")["error"]["type"] == "BlockingIOError"
    thread = "import threading\nthreading.Thread(target=print).start()"
    assert answer(tmp_path, thread)["error"]["type"] == "RuntimeError"


def test_a_fork_bomb_ends(tmp_path):
    limits = Limits(answer=1.0, seconds=5.0, processes=6)
    with pytest.raises((EOFError, TimeoutError, ValueError)):
        found = answer(tmp_path, "import os\nwhile True:\n    os.fork()", limits)
        raise EOFError(found["error"]["type"])  # the limit was reached, by one of the processes
    assert left() == []


SURVIVOR = """import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setsid()
        time.sleep(3600)
    os._exit(0)
time.sleep(0.3)
return 1"""


@pytest.mark.parametrize("kind", sandbox.KINDS)
def test_nothing_survives(tmp_path, kind):
    if kind != sandbox.best_kind() and not works(kind):
        pytest.skip(f"this machine does not allow the isolation {kind}")
    answer(tmp_path, SURVIVOR, Limits(answer=10.0, seconds=20.0, processes=8), kind)
    assert left() == []


GRADER = """
import os, signal, sys
from pathlib import Path
from wengert.learn.grading.sandbox import Session
session = Session(Path(sys.argv[1]), "def nothing():\\n    return 1\\n")
session.ask("nothing", ())
print(session._process.pid, session._temporary.name, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_nothing_survives_the_grader(tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    call = [sys.executable, "-c", GRADER, str(tmp_path)]
    told = subprocess.run(call, env=environment, capture_output=True, text=True, timeout=60).stdout.split()
    guard, place = int(told[0]), Path(told[1])
    deadline = time.monotonic() + 20
    while "jail.py" in command_of(guard) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert "jail.py" not in command_of(guard)  # which ends what it guards before it ends
    assert not place.exists()


def works(kind: str) -> bool:
    try:
        with sandbox.Session(Path(__file__).parent / "nowhere", "def nothing():\n    pass\n", kind=kind):
            return True
    except sandbox.NoIsolation:
        return False


def tasks() -> set[int]:
    return {int(name) for name in os.listdir("/proc") if name.isdigit()} if os.path.isdir("/proc/self") else set()


def command_of(number: int) -> str:
    try:
        return Path(f"/proc/{number}/cmdline").read_text()
    except OSError:
        return ""


@pytest.mark.parametrize("kind", ["landlock", "limits"])
def test_weaker_isolation_grades_too(tmp_path, kind):
    if not works(kind):
        pytest.skip(f"this machine does not allow the isolation {kind}")
    result = graded(tmp_path, RIGHT, kind=kind)
    assert (result.marks, result.isolation) == (10, kind)


def test_a_process_that_cannot_be_started_is_told(tmp_path, monkeypatch):
    def refuse(*arguments, **options):
        raise sandbox.NoIsolation("no memory")

    monkeypatch.setattr("wengert.learn.grading.marking.Session", refuse)
    result = graded(tmp_path, RIGHT)
    assert result.marks == 0
    assert report.remarks(result) == ["not run: the grader could not start a process: no memory"]


def test_messages_are_checked_before_they_are_believed():
    from wengert.learn.grading import wire

    tree = {"a": (np.arange(6.0).reshape(2, 3), None, "x"), "b": np.array(True)}
    back = wire.decode(wire.encode(tree))
    assert back["a"][1:] == (None, "x") and back["b"].dtype == bool
    np.testing.assert_array_equal(back["a"][0], tree["a"][0])
    for text in (
        b"\xff",
        b'{"array": "", "dtype": "object", "shape": [1]}',
        b'{"array": "", "dtype": "float64", "shape": [1000000000]}',
        b'{"array": "", "dtype": "float64", "shape": [-1]}',
        b"[" * 100000,
        b'{"a": 1}',
    ):
        with pytest.raises(wire.BadMessage):
            wire.decode(text)
