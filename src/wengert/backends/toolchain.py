"""The system's C compiler: from C text to a loaded library, cached on disk by text, flags, compiler and processor.

Several processes may build the same text at once: each writes a file of its own and renames it into place. `WENGERT_CC`
chooses the compiler, `WENGERT_CACHE` the folder.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from pathlib import Path

from wengert.errors import WengertError

KERNELS = Path(__file__).parent.parent / "kernels"
FLAGS = [
    *("-O3", "-march=native", "-std=gnu11", "-fopenmp", "-fPIC", "-shared", "-w"),
    *("-fno-math-errno", "-fno-trapping-math"),  # without which few loops vectorise; the results are the same
    *(("-mprefer-vector-width=512",) if platform.machine() in ("x86_64", "AMD64") else ()),
]


class CompilerError(WengertError, RuntimeError):
    """The C compiler refused what Wengert wrote."""


@functools.cache
def compiler() -> str | None:
    """The C compiler to use, or None if there is none."""
    chosen = os.environ.get("WENGERT_CC")
    return shutil.which(chosen) if chosen else next(filter(None, map(shutil.which, ("cc", "gcc", "clang"))), None)


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


def load(source: str) -> ctypes.CDLL:
    """The library built from C text; from the cache if it was built before."""
    key = hashlib.sha256((_fingerprint() + source).encode()).hexdigest()[:32]
    target = cache_folder() / f"{key}.so"
    if not target.exists():
        build(source, target)
    return ctypes.CDLL(str(target))


def build(source: str, target: Path) -> None:
    """Compile C text into a shared library."""
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        text, library = Path(folder) / "program.c", Path(folder) / "program.so"
        text.write_text(source)
        command = [compiler() or "cc", *FLAGS, f"-iquote{KERNELS}", str(text), "-o", str(library), "-lm"]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            raise CompilerError(f"{command[0]} could not build a kernel:\n{result.stderr[:2000]}")
        os.replace(library, target)
