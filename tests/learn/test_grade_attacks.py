"""Attacks on the grader itself: forged answers, archives that lie, system calls that no limit counts.

`test_grade_cheats` has what submissions try in Python; this file has what goes past the worker.
"""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest

from tests.learn.test_grade_cheats import EXERCISE, LAX, RIGHT, answer, graded, left, problems, works
from wengert.learn import grade
from wengert.learn.exercises.exercise import REFUSED, Case, Check
from wengert.learn.grading import judge, sandbox, submissions, suspicions, wire
from wengert.learn.grading.marking import Exam, mark
from wengert.learn.grading.sandbox import Limits

ATTACKED = Limits(answer=1.0, seconds=3.0)

# --- answers that the worker would never send ------------------------------------------------------------------------

FORGED = {
    "an error that is no error": {"error": 1},
    "an error that is nothing": {"error": None},
    "an error without a text": {"error": {}},
    "an error of arrays": {"error": {"type": np.zeros(2), "text": np.zeros(2), "line": np.zeros(2)}},
    "neither value nor error": {"x": 1},
    "a value and an error": {"value": 1, "error": None},
    "an array as the number": {"number": np.array([1, 1]), "value": 1},
    "true as the number": {"number": True, "value": 1},
    "a float as the number": {"number": 1.0, "value": 1},
}


@pytest.mark.parametrize("parts", FORGED.values(), ids=FORGED)
def test_a_forged_answer_is_no_answer(parts):
    message = wire.decode(wire.encode({"number": 1, **parts}))
    with pytest.raises(wire.BadMessage):
        sandbox._checked(message, 1)


@pytest.mark.parametrize("value", [None, "x", (), {}, float("nan"), float("inf"), True, 10**400, np.zeros(0)], ids=repr)
def test_odd_values_are_wrong_and_break_nothing(value):
    found = wire.decode(wire.encode({"number": 1, "value": value}))
    for expected in (np.ones(3), 2.0, (1.0, 2.0), {"a": 1.0}, "y", REFUSED):
        assert judge.complaint(Check("c", "p", lambda rng: ()), Case((), expected), found)


FORGE = """import os, struct, sys
sys.path.append('/grader')
import wire
pipe = int(sys.argv[2])
for number in range(1, 9):
    text = {text}
    os.write(pipe, struct.pack('<Q', len(text)) + text)
import time
time.sleep(60)
"""


@pytest.mark.parametrize(
    "message",
    [{"number": 0, "error": 1}, {"number": 0, "x": 1}, {"number": np.zeros(2), "value": 1}],
    ids=["error", "neither", "array"],
)
def test_what_a_submission_writes_into_the_pipe_earns_nothing(tmp_path, message):
    text = wire.encode(message).replace(b'["number", 0]', b'["number", %d]')
    result = graded(
        tmp_path, FORGE.format(text=f"{text!r}" + (" % number" if b"%d" in text else "")), ATTACKED, None, LAX
    )
    assert result.marks == 0
    assert "cannot be read" in problems(result)


# --- what a submission's process may ask of the kernel ---------------------------------------------------------------

CALL = "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n"
REFUSED_CALLS = {
    "a user namespace, where it is root": CALL + "return libc.unshare(0x10000000)",
    "a file system in memory": CALL + "return libc.mount(b'tmpfs', b'/tmp', b'tmpfs', 0, b'size=8g')",
    "System V shared memory, which no limit counts": CALL + "return libc.shmget(0, 4096, 0o1600)",
    "System V semaphores": CALL + "return libc.semget(0, 1, 0o1600)",
    "a file in memory": "import os\nos.memfd_create('x')\nreturn 1",
    "a debugger": CALL + "return libc.ptrace(0, 0, 0, 0)",
    "a datagram socket": "import socket\nsocket.socket(socket.AF_INET, socket.SOCK_DGRAM)\nreturn 1",
    "an abstract socket": "import socket\nsocket.socket(socket.AF_UNIX).bind('\\0wengert')\nreturn 1",
    "a key ring": CALL
    + "return libc.syscall({'x86_64': 250, 'aarch64': 219}[__import__('os').uname().machine], 0, -3, 1)",
    "higher limits": "import resource\nresource.setrlimit(resource.RLIMIT_AS, (2**50, 2**50))\nreturn 1",
    "the limits of the grader": "import resource\n"
    f"resource.prlimit({os.getpid()}, resource.RLIMIT_NOFILE, (1, 1))\nreturn 1",
    "a signal to the grader": f"import os\nos.kill({os.getpid()}, 0)\nreturn 1",
    "a signal to everybody": "import os\nos.kill(-1, 0)\nreturn 1",
    "the priority of the grader": f"import os\nos.setpriority(os.PRIO_PROCESS, {os.getpid()}, 19)\nreturn 1",
    "a device": "import os, stat\nos.mknod(os.environ['TMPDIR'] + '/x', 0o600 | stat.S_IFBLK, 8)\nreturn 1",
    "a hard link": "import os, wire\nos.link(wire.__file__, os.environ['TMPDIR'] + '/x')\nreturn 1",
    "other permissions": "import os, wire\nos.chmod(os.path.dirname(wire.__file__), 0o777)\nreturn 1",
}


@pytest.mark.parametrize("kind", ["namespaces", "landlock"])
def test_what_the_kernel_refuses(tmp_path, kind):
    if not works(kind):
        pytest.skip(f"this machine does not allow the isolation {kind}")
    body = "found = {}\n"
    for name, text in REFUSED_CALLS.items():
        body += "def attempt():\n" + "".join(f"    {line}\n" for line in text.splitlines())
        body += f"try:\n    found[{name!r}] = int(attempt() == -1)\n"
        body += f"except (OSError, ValueError):\n    found[{name!r}] = 1\n"
    assert answer(tmp_path, body + "return found", kind=kind)["value"] == dict.fromkeys(REFUSED_CALLS, 1)


@pytest.mark.skipif(not works("limits"), reason="this machine does not allow the isolation limits")
def test_limits_alone_keep_a_submission_from_the_grader(tmp_path):
    for body in (f"os.kill({os.getpid()}, 0)", f"resource.prlimit({os.getpid()}, resource.RLIMIT_NOFILE, (1, 1))"):
        found = answer(tmp_path, f"import os, resource\n{body}\nreturn 1", kind="limits")
        assert found["error"]["type"] == "PermissionError", body


def test_root_never_grades_by_limits_alone(tmp_path, monkeypatch):
    def refuse(*arguments, kind, **options):
        raise sandbox.NoIsolation(kind)

    monkeypatch.setattr(sandbox, "Session", refuse)
    monkeypatch.setattr(sandbox, "is_root", lambda: True)
    with pytest.raises(sandbox.NoIsolation, match="the grader is root, and so would the submission be"):
        sandbox.why_not.__wrapped__("python")
    (tmp_path / "homework").mkdir()
    (tmp_path / "homework/dual.py").write_text("")
    with pytest.raises(SystemExit, match="grade as another user"):
        grade.main([str(tmp_path), "--isolation", "limits"])


STOPPED = {
    "stops itself": "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)",
    "kills itself": "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)",
    "kills everything": "import os\nos.kill(-1, 9)\nos.kill(0, 9)",
    "executes another program": "import os, sys\nos.execv(sys.executable, [sys.executable, '-c', 'while True: pass'])",
    "keeps the pipe open and does not answer": "import threading\nthreading.Event().wait()",
}


@pytest.mark.parametrize("text", STOPPED.values(), ids=STOPPED)
def test_a_process_that_stops_is_ended(tmp_path, text):
    result = graded(tmp_path, text + "\n", ATTACKED, None, LAX)
    assert result.marks == 0
    assert left() == []
    assert graded(tmp_path, RIGHT).marks == 10  # the next one is graded as ever


# --- archives and texts, which the grader itself reads ---------------------------------------------------------------


def marks_of(path: Path) -> float:
    with submissions.opened(path, EXERCISE) as folder:
        return mark(Exam(EXERCISE, 1), folder, limits=ATTACKED).marks


def test_an_encrypted_zip_has_no_files(tmp_path):
    path = tmp_path / "locked.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("work.py", RIGHT)
    data = bytearray(path.read_bytes())
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(signature) + offset] |= 1
    path.write_bytes(data)
    assert submissions._read(path, "work.py") is None
    assert marks_of(path) == 0


def test_damaged_archives_have_no_files(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("work.py", RIGHT * 20)
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as bundle:
        member = tarfile.TarInfo("work.py")
        member.size = len(RIGHT)
        bundle.addfile(member, io.BytesIO(RIGHT.encode()))
    for name in ("a.zip", "a.tar.gz"):
        good = (tmp_path / name).read_bytes()
        assert submissions._read(tmp_path / name, "work.py"), name
        for k in range(0, len(good), 7):
            (tmp_path / name).write_bytes(good[:k] + bytes([good[k] ^ 0xFF]) + good[k + 1 :])
            submissions._read(tmp_path / name, "work.py")  # None or bytes, and no error
            (tmp_path / name).write_bytes(good[:k])
            submissions._read(tmp_path / name, "work.py")


def test_an_archive_that_grows_is_not_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(submissions, "LARGEST_ARCHIVE", 2**20)
    with gzip.open(tmp_path / "bomb.tar.gz", "wb") as file:
        member = tarfile.TarInfo("work.py")
        member.size = 2**22
        file.write(member.tobuf() + bytes(2**22 + 1024))
    assert submissions._members(tmp_path / "bomb.tar.gz") == []


@pytest.mark.parametrize("heading", ["²", "9" * 5000, "-1", "1e3", "٣٣٣٣٣"])
def test_headings_of_answers_are_small_numbers(tmp_path, heading):
    from wengert.learn.grading.marking import _answers

    (tmp_path / "answers.md").write_text(f"## 1. One\nfirst\n## {heading}. Odd\nsecond\n")
    assert _answers(tmp_path, 2)[0].startswith("first")


TEXTS = {
    "brackets": "(" * 100000,
    "minus signs": "-" * 100000 + "1",
    "attributes": "a" + ".a" * 100000,
    "sums": "1" + "+1" * 100000,
    "lambdas": "lambda:" * 10000 + "1",
    "zeros": "x = 1\0",
    "surrogates": "x = '\udcff'",
    "odd escapes": "x = '\\d'",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_hostile_texts_are_read_without_an_error(text, recwarn):
    from wengert.learn.grading import similarity

    assert isinstance(suspicions.problems({"work.py": text}, ("numpy",), ()), list)
    similarity.runs_of({"work.py": text})
    assert not recwarn.list


# --- what is counted beside a submission -----------------------------------------------------------------------------

UNCOUNTED = {
    "matmul": (
        "homework/matmul.py",
        "T = 4\n\n\ndef kernel(thread, block, n, a, b, c, tile_a, tile_b):\n"
        "    def array_of(x):\n        return next(v for v in vars(x).values() if hasattr(v, 'shape'))\n\n"
        "    array_of(c)[:] = array_of(a) @ array_of(b)\n    a.loads = 2 * n * n * -(-n // T)\n"
        "    b.loads = c.loads = 0\n    c.stores = n * n\n    yield\n",
    ),
    "checkpoints": (
        "homework/checkpoints.py",
        "def gradient(layers, x, g):\n    xs = [x]\n"
        "    for layer in layers:\n        xs.append(layer.forward(xs[-1]))\n"
        "    for layer, x in zip(layers[::-1], xs[-2::-1]):\n        g = layer.backward(x, g)\n"
        "    layers[0].network.calls = layers[0].network.most = 0\n    return g\n\n\n"
        "def checkpointed_gradient(layers, x, g, every):\n    return gradient(layers, x, g)\n",
    ),
}


@pytest.mark.parametrize("name", UNCOUNTED)
def test_what_is_counted_is_out_of_reach(tmp_path, name):
    from wengert.learn import exercises

    path, text = UNCOUNTED[name]
    (tmp_path / "homework").mkdir()
    (tmp_path / path).write_text(text)
    assert mark(Exam(exercises.find(name), 3), tmp_path, limits=Limits(answer=5.0, seconds=30.0)).marks == 0


def test_looking_into_objects_is_told():
    text = "a = f.__closure__[0].cell_contents\nb = g.gi_frame.f_back\n"
    found = suspicions.problems({"work.py": text}, ("numpy",), ())
    told = {line.partition("`")[2].partition("`")[0] for line in found}
    assert told == {"__closure__", "cell_contents", "gi_frame", "f_back"}
