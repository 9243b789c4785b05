"""Starts a submission's process in the strongest isolation that this machine allows, and talks to it.

`Session` is one such process: `ask` sends inputs to a probe and returns the answer. `best_kind` says which isolation
there is, from the strongest: `namespaces` (own files, processes and network), `landlock` (own files), `uid` (a user who
owns nothing, when the grader runs as root), `limits` (time, memory, sizes and the number of processes only).
"""

from __future__ import annotations

import functools
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from glob import glob
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any

from wengert.learn.grading import wire

HERE = Path(__file__).parent
KINDS = ("namespaces", "landlock", "uid", "limits")
BESIDE = ("wire.py", "worker.py")  # what of this package the submission's process has
LIBRARIES = ("/lib", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib")
ARRAYS = {"numpy": ("numpy", "numpy.libs"), "wengert": ("wengert", "ml_dtypes")}


@dataclass(frozen=True)
class Limits:
    """What a submission's process may take: seconds for one answer and in all, bytes of memory and of files."""

    answer: float = 10.0
    seconds: float = 120.0
    memory: int = 2 * 2**30
    files: int = 32 * 2**20
    processes: int = 0  # that it may start; a thread counts as one


class NoIsolation(RuntimeError):
    """The kernel refuses a kind of isolation."""


class Session:
    """A submission's process. Use it in a `with` statement: nothing of it is left afterwards."""

    def __init__(
        self,
        folder: Path,
        probes: str,
        *,
        allowed: tuple[str, ...] = ("numpy",),
        needs: tuple[str, ...] = ("numpy",),
        limits: Limits | None = None,
        kind: str | None = None,
        python: str = sys.executable,
    ) -> None:
        self.limits = limits or Limits()
        self.kind = kind or best_kind(python)
        self._number = 0
        self._temporary = tempfile.TemporaryDirectory(prefix="wengert-grade-", ignore_cleanup_errors=True)
        place = Path(self._temporary.name)
        place.chmod(0o755)
        _copy_submission(folder, place / "submission")
        (place / "grader").mkdir()
        for name in BESIDE:
            shutil.copy(HERE / name, place / "grader" / name)
        (place / "grader" / "probes.py").write_text(probes, encoding="utf-8")
        requests, self._requests = os.pipe()
        self._answers, answers = os.pipe()
        config = _config(self.kind, place, (requests, answers), allowed, needs, self.limits, python)
        self._process = subprocess.Popen(
            [config["python"], "-I", "-S", str(HERE / "jail.py"), json.dumps(config)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(requests, answers),
            env=config["environment"],
            cwd="/",
            start_new_session=True,
        )
        os.close(requests)
        os.close(answers)
        self._await_start()

    def _await_start(self) -> None:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().decode(errors="replace").strip()
        try:
            if line != "started" or wire.receive(self._answers, 60.0) != {"ready": True}:
                raise wire.Closed("the process did not start")
        except (EOFError, TimeoutError, ValueError):
            problem = self.close() or line
            raise NoIsolation(f"{self.kind}: {line.removeprefix('refused: ')} {problem[-500:]}".strip()) from None

    def ask(self, probe: str, inputs: tuple[Any, ...]) -> dict[str, Any]:
        """What a probe answers: a dict with `value` or `error`. Closed, TooLate, BadMessage if it does not."""
        self._number += 1
        wire.send(self._requests, {"number": self._number, "probe": probe, "inputs": inputs}, self.limits.answer)
        answer = wire.receive(self._answers, self.limits.answer)
        if not isinstance(answer, dict) or answer.get("number") != self._number or len(answer) != 2:
            raise wire.BadMessage("the answer does not belong to the request")
        return answer

    def close(self) -> str:
        """End the process, all that it started, and its files; what it wrote to its error stream before it ran."""
        if self._temporary is None:
            return ""
        for descriptor in (self._requests, self._answers):
            os.close(descriptor)
        try:
            _, errors = self._process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            _, errors = self._process.communicate()
        self._temporary.cleanup()
        self._temporary = None  # type: ignore[assignment]
        return errors.decode(errors="replace")

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@functools.cache
def best_kind(python: str = sys.executable) -> str:
    """The strongest isolation that works here, found by trying."""
    refusals = why_not(python)
    return next(kind for kind in KINDS if kind not in refusals)


@functools.cache
def why_not(python: str = sys.executable) -> dict[str, str]:
    """The kinds that do not work here before the first that does, each with its reason."""
    refusals: dict[str, str] = {}
    with tempfile.TemporaryDirectory() as empty:
        for kind in KINDS:
            try:
                with Session(Path(empty), "def nothing():\n    return 1\n", kind=kind, python=python) as session:
                    session.ask("nothing", ())
                return refusals
            except (NoIsolation, EOFError, TimeoutError, ValueError) as error:
                refusals[kind] = str(error)
    raise NoIsolation(f"a submission's process cannot be started on this machine: {refusals}")


def _copy_submission(source: Path, target: Path) -> None:
    """Copy the plain files of a submission: no links, no devices, no more than 20 MB."""
    target.mkdir()
    total = 0
    for folder, folders, names in os.walk(source, followlinks=False):
        folders[:] = sorted(name for name in folders if not name.startswith(".") and name != "__pycache__")
        inside = target / Path(folder).relative_to(source)
        inside.mkdir(exist_ok=True)
        for name in sorted(names):
            path = Path(folder) / name
            if path.is_symlink() or not path.is_file():
                continue
            total += path.stat().st_size
            if total > 20 * 2**20:
                raise ValueError(f"the submission in {source} has more than 20 MB")
            (inside / name).write_bytes(path.read_bytes())
            (inside / name).chmod(0o644)


def _config(
    kind: str,
    place: Path,
    keep: tuple[int, int],
    allowed: tuple[str, ...],
    needs: tuple[str, ...],
    limits: Limits,
    python: str,
) -> dict[str, Any]:
    """All that `jail` has to know."""
    is_root = hasattr(os, "getuid") and os.getuid() == 0
    if kind == "uid" and not is_root:
        raise NoIsolation("uid: only root can run a submission as another user")
    layout = _interpreter(python)
    packages = place / "packages"
    _gather_packages(packages, needs, layout, kind)
    is_rooted = kind == "namespaces"
    home = "" if is_rooted else str(place)
    user = _free_user() if kind != "limits" and is_root else None
    writable = place / "tmp"
    writable.mkdir(mode=0o700)
    if user is not None:
        os.chown(writable, user, user)
    worker = {
        "paths": [f"{home}/grader", f"{home}/packages"],
        "submission": f"{home}/submission",
        "probes": f"{home}/grader/probes.py",
        "allowed": [*allowed],
    }
    (place / "root").mkdir()
    return {
        "kind": kind,
        "uid": user,
        "python": layout["executable"],
        "place": str(place),
        "root": str(place / "root"),
        "folder": f"{home}/tmp",
        "binds": _binds(place, layout) if is_rooted else [],
        "links": [[path, os.readlink(path)] for path in LIBRARIES if os.path.islink(path)],
        "masks": _masks(layout),
        "readable": _readable(place, layout),
        "listable": [layout["stdlib"], layout["platstdlib"], *map(os.path.realpath, packages.iterdir())],
        "writable": [str(writable), "/dev/null"],
        "keep": [*keep],
        "limits": asdict(limits),
        "environment": {
            **{"HOME": f"{home}/tmp", "TMPDIR": f"{home}/tmp", "PATH": "", "LANG": "C.UTF-8"},
            **{f"{name}_NUM_THREADS": "1" for name in ("OPENBLAS", "OMP", "MKL")},
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        "command": [
            *(layout["executable"], "-I", "-S", "-B", f"{home}/grader/worker.py"),
            *(str(keep[0]), str(keep[1]), json.dumps(worker)),
        ],
    }


@functools.cache
def _interpreter(python: str) -> dict[str, Any]:
    """Where an interpreter, its standard library and its packages are."""
    program = (
        "import json, sys, sysconfig, os, numpy;"
        "p = sysconfig.get_paths(vars={'platbase': sys.base_exec_prefix, 'base': sys.base_prefix});"
        "print(json.dumps({'executable': os.path.realpath(sys.executable), 'stdlib': p['stdlib'],"
        "'platstdlib': p['platstdlib'], 'libraries': sysconfig.get_config_var('LIBDIR'),"
        "'packages': os.path.dirname(os.path.dirname(numpy.__file__))}))"
    )
    try:
        done = subprocess.run([python, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    except (subprocess.CalledProcessError, OSError) as error:
        told = getattr(error, "stderr", "") or str(error)
        raise NoIsolation(f"{python} cannot run submissions: {told.strip().splitlines()[-1]}") from None
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _gather_packages(place: Path, needs: tuple[str, ...], layout: dict[str, Any], kind: str) -> None:
    """A folder of links to the packages that an exercise needs, and to nothing else."""
    place.mkdir()
    names = [name for need in ("numpy", *needs) for name in ARRAYS.get(need, (need,))]
    for name in dict.fromkeys(names):
        source = _package_folder(name, layout)
        if source is not None:
            (place / name).symlink_to(source)


def _package_folder(name: str, layout: dict[str, Any]) -> Path | None:
    beside = Path(layout["packages"]) / name
    if beside.is_dir():
        return beside
    spec = None if "." in name else find_spec(name)
    return Path(spec.origin).parent if spec is not None and spec.origin else None


def _binds(place: Path, layout: dict[str, Any]) -> list[list[str]]:
    """What the jail's own file system shows, and where."""
    same = [path for path in LIBRARIES if os.path.isdir(path) and not os.path.islink(path)]
    same += ["/etc/ld.so.cache", layout["executable"], layout["stdlib"], layout["platstdlib"]]
    same += glob(os.path.join(layout["libraries"] or "/nowhere", "libpython*.so*"))
    same += ["/dev/null", "/dev/zero", "/dev/urandom", "/dev/random"]
    binds: list[list[str]] = []
    for path in dict.fromkeys(same):
        if os.path.exists(path) and not any(path.startswith(shown + "/") for shown, _ in binds):
            binds.append([path, path])
    binds += [[str(place / name), f"/{name}"] for name in ("grader", "submission")]
    return binds + [
        [os.path.realpath(link), f"/packages/{link.name}"] for link in sorted((place / "packages").iterdir())
    ]


def _masks(layout: dict[str, Any]) -> list[str]:
    """Folders that the jail shows empty: other packages, the solutions among them."""
    hidden = [f"{layout[name]}/{kind}-packages" for name in ("stdlib", "platstdlib") for kind in ("site", "dist")]
    hidden += [path for base in LIBRARIES for path in glob(f"{base}/python3*/*-packages")]
    hidden.append("/packages/wengert/learn")
    return list(dict.fromkeys(path for path in hidden if not os.path.islink(os.path.dirname(path))))


def _readable(place: Path, layout: dict[str, Any]) -> list[str]:
    """What Landlock allows to be read. It knows no exceptions, so that a folder with packages goes entry by entry."""
    paths = [layout["executable"], "/etc/ld.so.cache", "/dev/urandom", "/dev/random", "/dev/null", "/dev/zero"]
    paths += [str(place / name) for name in ("grader", "submission", "packages")]
    for folder in dict.fromkeys((layout["stdlib"], layout["platstdlib"])):
        paths += [path for path in glob(f"{folder}/*") if not path.endswith("-packages")]
    paths += [
        path for base in LIBRARIES for path in glob(f"{base}/*") if not os.path.basename(path).startswith("python")
    ]
    paths += glob(os.path.join(layout["libraries"] or "/nowhere", "libpython*.so*"))
    for link in (place / "packages").iterdir():
        paths += [path for path in glob(f"{os.path.realpath(link)}/*") if not path.endswith("wengert/learn")]
    return list(dict.fromkeys(os.path.realpath(path) for path in paths))


def _free_user() -> int:
    """The number of a user who runs nothing and owns nothing: of systemd's range for such users."""
    taken = {os.stat(f"/proc/{name}").st_uid for name in os.listdir("/proc") if name.isdigit() and _exists(name)}
    return random.SystemRandom().choice([number for number in range(61184, 65520) if number not in taken])


def _exists(number: str) -> bool:
    return os.path.isdir(f"/proc/{number}")
