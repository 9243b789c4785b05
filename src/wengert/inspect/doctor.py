"""`wengert doctor`: checks that the installation works, one line for each part, with advice for what fails.

`installation` finds what is installed. This module tries it: it compiles a small program, loads it and runs it on
several threads, writes a file to the cache, and asks the GPUs for their names.
"""

from __future__ import annotations

import ctypes
import os
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from wengert.backends.cpu import toolchain
from wengert.backends.cuda import bindings
from wengert.core import cache
from wengert.core.errors import CacheError, CompilerError, WengertError
from wengert.inspect.installation import Diagnosis, findings

_THREADS = """
#include <omp.h>
int wg_threads(void) {
    int threads = 0;
    #pragma omp parallel num_threads(2) reduction(+: threads)
    threads += 1;
    return threads;
}
"""


def examined() -> tuple[str, int]:
    """The report, and the exit status: 0 if everything needed on the CPU works."""
    found = [tried for finding in findings() for tried in _TRIED.get(finding.name, _as_it_is)(finding)]
    lines = [f"{_mark(finding)} {finding.line()}" for finding in found]
    broken = [finding.name for finding in found if finding.is_needed and not finding.works]
    verdict = f"needed on the CPU, and broken: {', '.join(broken)}" if broken else "everything needed on the CPU works"
    return "\n".join([*lines, "", verdict]), int(bool(broken))


def _mark(finding: Diagnosis) -> str:
    if finding.works:
        return "ok     "
    return "BROKEN " if finding.is_needed else "missing"


def _as_it_is(finding: Diagnosis) -> list[Diagnosis]:
    return [finding]


def _numpy(finding: Diagnosis) -> list[Diagnosis]:
    if float(np.ones(3).sum()) == 3.0 and tuple(map(int, np.__version__.split(".")[:2])) >= (2, 1):
        return [finding]
    return [replace(finding, works=False, fix="pip install 'numpy>=2.1'")]


def _compiler(finding: Diagnosis) -> list[Diagnosis]:
    """The compiler, and OpenMP, which may be missing."""
    if not finding.works:
        return [finding]
    threads = Diagnosis("OpenMP", "", is_needed=True)
    try:
        return [finding, replace(threads, text=f"{_threads()} threads ran")]
    except (CompilerError, OSError) as error:
        said = str(error).partition("The command:")[0]  # where -fopenmp is always named
        if any(word in said for word in ("omp.h", "fopenmp", "gomp", "libomp")):
            fix = "install it beside the compiler: libgomp for gcc (which brings it), libomp for clang"
            return [finding, replace(threads, text="missing", fix=fix, works=False)]
        what = str(getattr(error, "message", error)).splitlines()[0]
        return [replace(finding, text=f"{finding.text}: {what}", fix="set WENGERT_CC to another compiler", works=False)]


def _threads() -> int:
    """How many of two threads ran in a newly compiled program."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "threads.so"
        path.write_bytes(toolchain.build([_THREADS], Path(folder)))
        return int(ctypes.CDLL(str(path)).wg_threads())


def _cache(finding: Diagnosis) -> list[Diagnosis]:
    """Whether the cache is writable, and nobody else could replace its files."""
    if not finding.works:
        return [finding]
    fix = "set WENGERT_CACHE to your own folder"
    try:
        folder = cache.folder()
        cache.make_private(folder)
        refusal = cache.refusal(folder)
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(os.urandom(1024))
    except (OSError, CacheError) as error:
        return [replace(finding, text=f"{finding.text} ({error})", fix=fix, works=False)]
    return [replace(finding, text=refusal, fix=fix, works=False)] if refusal else [finding]


def _cuda(finding: Diagnosis) -> list[Diagnosis]:
    """The bindings, NVRTC, the driver, and the GPUs that it reports."""
    if not finding.works:
        return [finding, Diagnosis("GPU", "none found", works=False)]
    try:
        cu, check = bindings.bindings(), bindings.check
        names = [_gpu(cu, check(cu.cuDeviceGet(index))) for index in range(bindings.count())]
    except WengertError as error:
        return [finding, Diagnosis("GPU", error.message, "see what nvidia-smi prints", works=False)]
    return [finding, Diagnosis("GPU", ", ".join(names))]


def _gpu(cu: Any, device: Any) -> str:
    name = bindings.check(cu.cuDeviceGetName(64, device)).split(b"\0")[0].decode()
    return f"{name}, {bindings.check(cu.cuDeviceTotalMem(device)) / 2**30:.0f} GiB"


_TRIED: dict[str, Callable[[Diagnosis], list[Diagnosis]]] = {
    "numpy": _numpy,
    "compiler": _compiler,
    "cache": _cache,
    "cuda": _cuda,
}
