"""What is installed: devices, the compiler, optional packages; what is missing and how to install it.

Each part has a `Diagnosis`. `wengert info` prints them; `wengert doctor` (in `doctor`) also tries what it can, and
gives a verdict.
"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from collections.abc import Iterator
from dataclasses import dataclass

import wengert
from wengert.backends.comm import nccl
from wengert.backends.cpu import toolchain
from wengert.backends.cuda import bindings, blas, compile, dnn, fft, solver_calls
from wengert.core import cache
from wengert.core.errors import CacheError, CompilerError, DeviceError
from wengert.distributed import mpiexec

OPTIONAL = {
    "rich": ("train", "live progress in a terminal"),
    "sympy": ("symbolic", "derivatives as formulas"),
}


@dataclass(frozen=True)
class Diagnosis:
    """One part of the installation: what was found, and what to do if it is missing or broken."""

    name: str
    text: str
    fix: str = ""
    works: bool = True
    is_needed: bool = False  # for computing on the CPU

    def line(self) -> str:
        """As `wengert info` prints it."""
        return f"{self.name:<12} {self.text}{f'; {self.fix}' if self.fix else ''}"


NO_COMPILER = Diagnosis(
    "compiler",
    "missing; programs run on slow NumPy references",
    "Install gcc or clang, or set WENGERT_CC",
    works=False,
    is_needed=True,
)


def text() -> str:
    """The report, one line for each part."""
    return "\n".join(finding.line() for finding in findings())


def findings() -> list[Diagnosis]:
    """All parts; each comes after those that it needs."""
    return [*_versions(), *_machine(), *_cuda(), *_many_processes(), *_optional()]


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _versions() -> Iterator[Diagnosis]:
    yield Diagnosis("wengert", f"{wengert.__version__}, {os.path.dirname(wengert.__file__)}")
    yield Diagnosis("python", f"{platform.python_version()}, {sys.executable}", is_needed=True)
    yield Diagnosis("numpy", f"{_version('numpy')}", is_needed=True)


def _machine() -> Iterator[Diagnosis]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    yield Diagnosis("system", f"{platform.system()} {platform.machine()}, {cores} cores")
    yield Diagnosis("devices", ", ".join(wengert.__array_namespace_info__().devices()))
    compiler = toolchain.compiler()
    if compiler is None:
        yield NO_COMPILER
    else:
        yield Diagnosis("compiler", f"{compiler}, {_compiler_version()}", is_needed=True)
    yield _cache()


def _cache() -> Diagnosis:
    try:
        return Diagnosis("cache", f"{cache.folder()}; see wengert cache", is_needed=True)
    except CacheError as error:
        return Diagnosis("cache", error.message, "set WENGERT_CACHE to your own folder", works=False, is_needed=True)


def _compiler_version() -> str:
    try:
        version = toolchain.version()
    except CompilerError:
        return "which does not respond"
    return version.splitlines()[0] if version else "which prints no version"


def _cuda() -> Iterator[Diagnosis]:
    try:
        bindings.bindings()
        version = compile.bindings().nvrtcVersion()
    except DeviceError as error:
        what, _, fix = error.message.partition("; ")
        yield Diagnosis("cuda", what, fix, works=False)
        return
    yield Diagnosis("cuda", f"NVRTC {'.'.join(map(str, version[1:]))}")
    for name, library, purpose in (
        ("cuBLASLt", blas.library(), "larger products"),
        ("cuDNN", dnn.library(), "convolutions and attention"),
        ("cuSOLVER", solver_calls.library(), "factorisations of matrices with more than 64 rows"),
        ("cuFFT", fft.library(), "Fourier transforms"),
    ):
        yield Diagnosis(name, "found") if library else _missing(name, "cuda-math", purpose)


def _many_processes() -> Iterator[Diagnosis]:
    """MPI for arrays on the host, NCCL for values on GPUs."""
    version, found = _version("mpi4py"), mpiexec.find()
    started = f"{found.kind}'s {found.path}" if found else "no mpiexec"
    if version is None or found is None:
        missing = [*([] if version else ["mpi4py"]), *([] if found else ["mpiexec"])]
        purpose = f"{' and '.join(missing)} missing; needed to compute with several processes"
        yield Diagnosis("MPI", purpose, "pip install 'wengert[mpi]'", works=False)
    else:
        yield Diagnosis("MPI", f"mpi4py {version}, {started}")
    yield _nccl()


def _nccl() -> Diagnosis:
    """NCCL, as a rank would find it."""
    lacks = nccl.missing()
    if not lacks:
        version = nccl.NcclFunctions().version
        shared = "" if version >= nccl.MANY_ON_ONE else "; one rank for each GPU (several ranks need 2.30)"
        return Diagnosis("NCCL", f"{nccl.version_text(version)}, by nccl4py {_version('nccl4py')}{shared}")
    what, _, fix = lacks.partition(": ")
    return Diagnosis("NCCL", f"{what}; needed by several ranks on GPUs", fix, works=False)


def _missing(name: str, extra: str, purpose: str) -> Diagnosis:
    return Diagnosis(name, f"missing; needed for {purpose}", f"pip install 'wengert[{extra}]'", works=False)


def _optional() -> Iterator[Diagnosis]:
    for package, (extra, purpose) in OPTIONAL.items():
        version = _version(package)
        yield Diagnosis(package, version) if version else _missing(package, extra, purpose)
