"""The system's C compiler: from C text to a loaded library, kept in the cache by text, flags, compiler and processor.

`WENGERT_CC` chooses the compiler, `WENGERT_CC_TIMEOUT` the seconds that it may take. One that fails, hangs or writes
nothing is a CompilerError with its own words.
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
    "-fno-thread-jumps",  # which makes several masked comparisons of two choices where a blend each would do
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
    """Whether there is a C compiler; says once if there is none."""
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
    """What the compiler says of itself."""
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
    """The library built from some units of C text with `more` flags; from the cache if it was built before."""
    key = hashlib.sha256("\0".join([_fingerprint(), *more, *units]).encode()).hexdigest()[:32]
    name = f"{key}.so"
    library = _opened(cache.find(name))
    if library is None:
        library = _opened_first(cache.build(name, functools.partial(build, units, more=more)))
        cache.trim(keep=name)
    if not _pinned and hasattr(library, "omp_get_max_threads"):  # found in what it is linked with, too
        _pinned.append(ctypes.CDLL(library._name))
    return library


def _opened(path: Path | None) -> ctypes.CDLL | None:
    """A library from the cache; None if there is none, or another process let it go just now."""
    with suppress(OSError):
        return ctypes.CDLL(str(path)) if path is not None else None
    return None


def _opened_first(path: Path) -> ctypes.CDLL:
    """A library that was built just now."""
    try:
        return ctypes.CDLL(str(path))
    except OSError as error:
        cache.remove(path)
        raise CompilerError(f"{compiler()} built a library that cannot be loaded: {error}") from None


def _use_one_thread() -> None:
    """Have a forked child's parallel regions run on its one thread: OpenMP would wait for those that the child has not
    got. Its own threads, if it starts any, have new ones.
    """
    for library in _pinned:
        library.omp_set_max_active_levels(0)


in_child(_use_one_thread)
_pinned: list[ctypes.CDLL] = []
"""The first library with OpenMP, opened once more and never closed: with it stays OpenMP's, whose threads live on."""


def close_with(owner: object, library: ctypes.CDLL) -> None:
    """Close a library when its owner, which alone calls it, is gone."""
    weakref.finalize(owner, dlclose, library._handle).atexit = False


# --- the compiler's processes ---------------------------------------------------------------------------------------


def timeout() -> int:
    """The seconds that the compiler may take for one library."""
    return cache.setting("WENGERT_CC_TIMEOUT", 300, "the time limit of the C compiler in seconds")


def build(units: Sequence[str], folder: Path, more: Sequence[str] = ()) -> bytes:
    """The shared library of units of C text, which are compiled side by side in a folder and linked."""
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
    """Run commands side by side, each of which writes a file, up to a point in time."""
    running: dict[Path, subprocess.Popen[str]] = {}
    try:
        for path, command in commands.items():
            running[path] = _started(command, path.parent)
        for path, process in running.items():
            words = _words(process, until)
            problem = _problem(process.returncode, path)
            if problem:
                _try_to_write(path.with_name("room"))  # a full disk is not the compiler's fault, and is told otherwise
                raise _failed(process, problem, words)
    finally:
        for process in running.values():
            _end(process)
            if process.stdout is not None:
                process.stdout.close()


def _problem(status: int, path: Path) -> str | None:
    """What is wrong with how a command ended that should have written a file."""
    if status:
        return f"it ended with exit status {status}" if status > 0 else f"it was ended by signal {-status}"
    if not path.is_file() or not path.stat().st_size:
        return f"it exited without an error, but did not write {path.name}"
    return None


def _try_to_write(path: Path) -> None:
    """Write a megabyte, which raises where the disk is full."""
    with path.open("wb") as file:
        file.write(bytes(1_000_000))
        file.flush()
        os.fsync(file.fileno())


def _started(command: list[str], folder: Path | None = None) -> subprocess.Popen[str]:
    """A process in a group of its own, so that what it starts ends with it; its temporary files are in the folder."""
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
    """Processes started inside are not ended by Ctrl-C: that is for the program, which may want to finish its step.

    Its group alone does not protect a process, which is in ours for a moment.
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
    """What a process writes until it ends. One that takes too long is ended, with all that it started."""
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
    """End a process and all of its group."""
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL)  # its number is taken as long as nobody has waited for it
        else:
            process.kill()
    process.wait()


def _failed(process: subprocess.Popen[str], problem: str, words: str) -> CompilerError:
    said = words.strip()[:2000] or "(it wrote no message)"
    command: list[str] = list(process.args)  # type: ignore[arg-type]
    return CompilerError(
        f"{command[0]} could not build a kernel: {problem}\n{said}\nThe command: {shlex.join(command)}"
    )
