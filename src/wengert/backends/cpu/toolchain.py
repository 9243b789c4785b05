"""The system's C compiler: from C text to a loaded library, cached by text, flags, compiler and processor.

`WENGERT_CC` chooses the compiler, `WENGERT_CC_TIMEOUT` its time limit in seconds. A compiler that fails, hangs or
writes nothing raises a CompilerError with its output.
"""

from __future__ import annotations

import ctypes
import errno
import functools
import hashlib
import os
import platform
import shlex
import shutil
import signal
import subprocess
import warnings
import weakref
from _ctypes import dlclose
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic

from wengert.core import cache
from wengert.core.errors import CompilerError
from wengert.core.forking import in_child
from wengert.kernels.headers import folders, headers

FLAGS = [
    *("-O3", "-march=native", "-std=gnu11", "-fopenmp", "-fPIC", "-w"),
    *("-fno-math-errno", "-fno-trapping-math"),  # without which few loops vectorise; the results are the same
    "-fno-thread-jumps",  # it turns two selections into several masked comparisons instead of a blend each
    # Neighbouring scalars in vectors: gcc 12 keeps some of them alone as well, and makes an FMA of one copy's last
    # product but not of the other's. A carry of a loop then had two values, which moved apart.
    "-fno-tree-slp-vectorize",
    *(("-mprefer-vector-width=512",) if platform.machine() in ("x86_64", "AMD64") else ()),
    *os.environ.get("WENGERT_CC_FLAGS", "").split(),  # the user's own, such as a sanitizer's
]

EXACT_FLAGS = ("-ffp-contract=off", "-DWG_INVARIANT")
"""For programs under `config.invariant`: no multiplication and addition become one where the compiler likes, which may
be in one kernel and not in another; and the headers' sums along a row are in lanes that they say.
"""


@functools.cache
def compiler() -> str | None:
    """The C compiler to use, or None if there is none."""
    chosen = os.environ.get("WENGERT_CC")
    return shutil.which(chosen) if chosen else next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)


@functools.cache
def has_compiler() -> bool:
    """Whether there is a C compiler; warns once if there is none."""
    if compiler() is None:
        warnings.warn(
            "no C compiler was found, so programs run on the slower NumPy references. Install gcc or clang, or name "
            "one in WENGERT_CC",
            RuntimeWarning,
            stacklevel=2,
        )
        return False
    return True


@functools.cache
def version() -> str:
    """The compiler's version text."""
    process = _started([compiler() or "cc", "--version"])
    return _words(process, monotonic() + timeout())


@functools.cache
def _fingerprint() -> str:
    """What a built library depends on besides its text: compiler, processor, flags and our headers."""
    content = "".join(path.read_text() for path in headers("h").values())
    return "\n".join([version(), _processor(), *FLAGS, content])


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next((line for line in lines if line.startswith("flags")), platform.processor())
    except OSError:
        return platform.machine() + platform.processor()


def load(units: Sequence[str], more: Sequence[str] = ()) -> ctypes.CDLL:
    """The library built from units of C text with `more` flags, or taken from the cache."""
    key = hashlib.sha256("\0".join([_fingerprint(), *more, *units]).encode()).hexdigest()[:32]
    name = f"{key}.so"
    library = _opened(cache.find(name))
    if library is None:
        library = _opened_first(cache.build(name, functools.partial(build, units, more=more)))
        cache.trim(keep=name)
    if not _pinned and hasattr(library, "omp_get_max_threads"):  # also searched in linked libraries
        _pinned.append(ctypes.CDLL(library._name))
    return library


def _opened(path: Path | None) -> ctypes.CDLL | None:
    """A library from the cache; None if there is none, or another process has just removed it."""
    with suppress(OSError):
        return ctypes.CDLL(str(path)) if path is not None else None
    return None


def _opened_first(path: Path) -> ctypes.CDLL:
    """A library that was just built."""
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        cache.remove(path)
        raise CompilerError(f"{compiler()} built a library that cannot be loaded: {error}") from None


def _use_one_thread() -> None:
    """Run a forked child's parallel regions on its only thread.

    OpenMP would wait for threads that the child does not have. Threads that it starts itself get new ones.
    """
    for library in _pinned:
        library.omp_set_max_active_levels(0)


in_child(_use_one_thread)
_pinned: list[ctypes.CDLL] = []
"""The first library with OpenMP, opened once more and never closed: with it stays OpenMP's, whose threads live on."""


def close_with(owner: object, library: ctypes.CDLL) -> None:
    """Close a library when its owner, its only caller, is gone."""
    weakref.finalize(owner, dlclose, library._handle).atexit = False


# --- the compiler's processes ---------------------------------------------------------------------------------------


def timeout() -> int:
    """The compiler's time limit for one library, in seconds."""
    return cache.setting("WENGERT_CC_TIMEOUT", 300, "the time limit of the C compiler in seconds")


def build(units: Sequence[str], folder: Path, more: Sequence[str] = ()) -> bytes:
    """The shared library of units of C text, which are compiled in parallel in a folder and linked."""
    if hasattr(os, "ST_NOEXEC") and os.statvfs(folder).f_flag & os.ST_NOEXEC:
        raise OSError(errno.EACCES, "libraries cannot be loaded from a file system mounted noexec", str(folder.parent))
    until = monotonic() + timeout()
    command = [compiler() or "cc", *FLAGS, *more]
    objects = [folder / f"unit{i}.o" for i in range(len(units))]
    for path, text in zip(objects, units):
        path.with_suffix(".c").write_text(text)
    quoted = [f"-iquote{place}" for place in folders("h")]
    sources = [[*quoted, "-c", str(path.with_suffix(".c")), "-o", str(path)] for path in objects]
    _run({path: [*command, *source] for path, source in zip(objects, sources)}, until)
    library = folder / "program.so"
    _run({library: [*command, "-shared", *map(str, objects), "-o", str(library), "-lm"]}, until)
    return library.read_bytes()


def _run(commands: dict[Path, list[str]], until: float) -> None:
    """Run commands in parallel, each of which writes a file, until a deadline."""
    running: dict[Path, subprocess.Popen[str]] = {}
    try:
        for path, command in commands.items():
            running[path] = _started(command, path.parent)
        for path, process in running.items():
            words = _words(process, until)
            problem = _problem(process.returncode, path)
            if problem:
                _try_to_write(path.with_name("room"))  # a full disk is not the compiler's fault and has its own message
                raise _failed(process, problem, words)
    finally:
        for process in running.values():
            _end(process)
            if process.stdout is not None:
                process.stdout.close()


def _problem(status: int, path: Path) -> str | None:
    """Why a finished command did not write its file."""
    if status:
        return f"it ended with exit status {status}" if status > 0 else f"it was ended by signal {-status}"
    if not path.is_file() or not path.stat().st_size:
        return f"it exited without an error, but did not write {path.name}"
    return None


def _try_to_write(path: Path) -> None:
    """Write a megabyte, which raises if the disk is full."""
    with path.open("wb") as file:
        file.write(bytes(1_000_000))
        file.flush()
        os.fsync(file.fileno())


def _started(command: list[str], folder: Path | None = None) -> subprocess.Popen[str]:
    """A process in its own process group, so that its children end with it; its temporary files go to the folder."""
    try:
        with _unreached_by_interrupts():
            return subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                errors="replace",
                process_group=0 if os.name == "posix" else None,
                env={**os.environ, "TMPDIR": str(folder)} if folder else None,
            )
    except OSError as error:
        raise CompilerError(f"the C compiler {command[0]} cannot be started: {error.strerror}") from None


@contextmanager
def _unreached_by_interrupts() -> Iterator[None]:
    """A context in which Ctrl-C does not end new processes; the program may want to finish its step.

    A process group alone is not enough, because a new process is in ours for a moment.
    """
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _words(process: subprocess.Popen[str], until: float) -> str:
    """The output of a process. One that exceeds the time limit is killed with its children."""
    try:
        return process.communicate(timeout=max(until - monotonic(), 0))[0]
    except subprocess.TimeoutExpired:
        _end(process)
        words = ""
        with suppress(subprocess.TimeoutExpired):  # of what has left the group and still holds the pipe
            words = process.communicate(timeout=1)[0]
        problem = f"it did not finish within {timeout()} seconds (WENGERT_CC_TIMEOUT), and was stopped"
        raise _failed(process, problem, words) from None


def _end(process: subprocess.Popen[str]) -> None:
    """Kill a process and its group."""
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL)  # its pid is not reused before it has been waited for
        else:
            process.kill()
    process.wait()


def _failed(process: subprocess.Popen[str], problem: str, words: str) -> CompilerError:
    said = words.strip()[:2000] or "(it wrote no message)"
    command: list[str] = list(process.args)  # type: ignore[arg-type]
    return CompilerError(
        f"{command[0]} could not build a kernel: {problem}\n{said}\nThe command: {shlex.join(command)}"
    )
