"""The system's C compiler: from C text to a loaded library, cached on disk by text, flags, compiler and processor.

Several processes may build the same text at once: each writes a file of its own and renames it into place. `WENGERT_CC`
chooses the compiler, `WENGERT_CACHE` the folder, `WENGERT_CACHE_MB` how much it holds: what was used longest ago goes.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import os
import platform
import shutil
import signal
import subprocess
import tempfile
import warnings
import weakref
from _ctypes import dlclose
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from wengert.core.errors import CompilerError
from wengert.core.forking import in_child

KERNELS = Path(__file__).parents[2] / "kernels"
FLAGS = [
    *("-O3", "-march=native", "-std=gnu11", "-fopenmp", "-fPIC", "-w"),
    *("-fno-math-errno", "-fno-trapping-math"),  # without which few loops vectorise; the results are the same
    "-fno-thread-jumps",  # which makes several masked comparisons of two choices where a blend each would do
    *(("-mprefer-vector-width=512",) if platform.machine() in ("x86_64", "AMD64") else ()),
]


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


def cache_folder() -> Path:
    """Where built libraries are kept."""
    base = os.environ.get("WENGERT_CACHE") or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    folder = Path(base) / "wengert"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@functools.cache
def _fingerprint() -> str:
    """What a built library depends on besides its text: compiler, processor, flags and our headers."""
    command = compiler() or ""
    version = subprocess.run([command, "--version"], capture_output=True, text=True, check=False).stdout
    headers = "".join(path.read_text() for path in sorted(KERNELS.glob("*.h")))
    return "\n".join([version, _processor(), *FLAGS, headers])


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next((line for line in lines if line.startswith("flags")), platform.processor())
    except OSError:
        return platform.machine() + platform.processor()


def load(units: Sequence[str]) -> ctypes.CDLL:
    """The library built from some units of C text; from the cache if it was built before."""
    key = hashlib.sha256("\0".join([_fingerprint(), *units]).encode()).hexdigest()[:32]
    target = cache_folder() / f"{key}.so"
    library = _opened(target)
    if library is None:
        build(units, target)
        library = ctypes.CDLL(str(target))
        trim(target.parent, keep=target)
    if not _pinned and hasattr(library, "omp_get_max_threads"):  # found in what it is linked with, too
        _pinned.append(ctypes.CDLL(str(target)))
    return library


def _opened(target: Path) -> ctypes.CDLL | None:
    """A library from the cache, now used last; None if it is not there, or was let go by another process just now."""
    try:
        os.utime(target)
        return ctypes.CDLL(str(target))
    except OSError:
        if target.exists():
            raise
        return None


def cache_limit() -> int:
    """How many bytes of built libraries and machine code are kept: `WENGERT_CACHE_MB`, or 2 GB."""
    given = os.environ.get("WENGERT_CACHE_MB", "2000")
    if not given.isdecimal():
        raise CompilerError(f"WENGERT_CACHE_MB is the size of the cache in megabytes, such as 2000, not {given!r}")
    return int(given) * 1_000_000


def trim(folder: Path, keep: Path) -> None:
    """Remove the files used longest ago where there are more bytes than the limit, but never `keep`.

    Several processes may do so at once; one that has a library open keeps its pages.
    """
    excess = sum(size for _, size, _ in _files(folder)) - cache_limit()
    for _, size, path in sorted(_files(folder)) if excess > 0 else ():
        if excess <= 0:
            return
        if path != str(keep):
            Path(path).unlink(missing_ok=True)
            excess -= size


def _files(folder: Path) -> Iterator[tuple[int, int, str]]:
    """Of every library, and of the machine code for GPUs: when it was used last, its size, and its path."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.endswith((".so", ".cubin", ".plan")):
                with contextlib.suppress(FileNotFoundError):
                    status = entry.stat()
                    yield status.st_mtime_ns, status.st_size, entry.path


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


def build(units: Sequence[str], target: Path) -> None:
    """Compile units of C text, side by side, and link them into a shared library."""
    with tempfile.TemporaryDirectory(dir=target.parent) as name:
        folder = Path(name)
        running = [_start_compiling(folder / f"unit{i}.c", text) for i, text in enumerate(units)]
        for process in running:
            _, errors = process.communicate()
            if process.returncode:
                raise CompilerError(f"{compiler()} could not build a kernel:\n{errors[:2000]}")
        objects = [str(folder / f"unit{i}.o") for i in range(len(units))]
        library = folder / "program.so"
        command = [compiler() or "cc", *FLAGS, "-shared", *objects, "-o", str(library), "-lm"]
        with _unreached_by_interrupts():
            subprocess.run(command, capture_output=True, check=True)
        os.replace(library, target)


def _start_compiling(path: Path, text: str) -> subprocess.Popen[str]:
    path.write_text(text)
    command = [compiler() or "cc", *FLAGS, f"-iquote{KERNELS}", "-c", str(path), "-o", str(path.with_suffix(".o"))]
    with _unreached_by_interrupts():
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


@contextmanager
def _unreached_by_interrupts() -> Iterator[None]:
    """Processes started inside are not ended by Ctrl-C: that is for the program, which may want to finish its step."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
