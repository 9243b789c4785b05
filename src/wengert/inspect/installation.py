"""`wengert info`: what is installed, which devices and which compiler there are, what is missing and how to get it."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from collections.abc import Iterator

import wengert
from wengert.backends.cpu import toolchain
from wengert.backends.cuda import bindings, blas, compile, dnn
from wengert.core import cache
from wengert.core.errors import CacheError, CompilerError, DeviceError

OPTIONAL = {
    "rich": ("train", "live progress in a terminal"),
    "sympy": ("symbolic", "derivatives as formulas"),
}


def text() -> str:
    """All of it, a line each."""
    return "\n".join([*_versions(), *_machine(), *_cuda(), *_optional()])


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _versions() -> Iterator[str]:
    yield f"wengert      {wengert.__version__}, {os.path.dirname(wengert.__file__)}"
    yield f"python       {platform.python_version()}, {sys.executable}"
    yield f"numpy        {_version('numpy')}"


def _machine() -> Iterator[str]:
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    yield f"system       {platform.system()} {platform.machine()}, {cores} cores"
    yield f"devices      {', '.join(wengert.__array_namespace_info__().devices())}"
    compiler = toolchain.compiler()
    if compiler is None:
        yield "compiler     missing: programs run on slow NumPy references. Install gcc or clang, or set WENGERT_CC"
    else:
        yield f"compiler     {compiler}, {_compiler_version()}"
    yield f"cache        {_cache()}"


def _cache() -> str:
    try:
        return f"{cache.folder()}; wengert cache tells more"
    except CacheError as error:
        return error.message


def _compiler_version() -> str:
    try:
        version = toolchain.version()
    except CompilerError:
        return "which does not answer"
    return version.splitlines()[0] if version else "which gives no version"


def _cuda() -> Iterator[str]:
    try:
        bindings.bindings()
        version = compile.bindings().nvrtcVersion()
    except DeviceError as error:
        yield f"cuda         {error.message}"
        return
    yield f"cuda         NVRTC {'.'.join(map(str, version[1:]))}"
    for name, library in {"cuBLASLt": blas.library(), "cuDNN": dnn.library()}.items():
        yield f"{name:<12} {'found' if library else _missing('cuda-math', 'larger products and convolutions')}"


def _missing(extra: str, purpose: str) -> str:
    return f"missing, for {purpose}: pip install 'wengert[{extra}]'"


def _optional() -> Iterator[str]:
    for package, (extra, purpose) in OPTIONAL.items():
        version = _version(package)
        yield f"{package:<12} {version or _missing(extra, purpose)}"
