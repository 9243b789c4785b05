"""NVRTC: from CUDA C++ text to the machine code of one GPU, cached on disk by text, headers, architecture and version.

Texts that are new are compiled side by side in threads. A file of the cache begins with a digest of the rest: one that
was cut short, or that something else has written to, is compiled again.
"""

from __future__ import annotations

import functools
import hashlib
import os
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from wengert.backends.cpu.toolchain import KERNELS, cache_folder, trim
from wengert.core.errors import CompilerError, DeviceError

THREADS = os.cpu_count() or 1
_DIGEST = 32  # bytes


@functools.cache
def bindings() -> Any:
    """NVRTC's bindings; raises with what to install where it is not there."""
    try:
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError) as error:
        raise DeviceError(f"NVRTC is missing ({error}); install it with: pip install 'wengert[cuda]'") from None
    return nvrtc


@functools.cache
def headers() -> dict[str, str]:
    """Our headers for the device, by the name they are included with."""
    return {path.name: path.read_text() for path in (*sorted(KERNELS.glob("*.cuh")), KERNELS / "math.h")}


@functools.cache
def _options() -> tuple[bytes, ...]:
    """NVRTC's options besides the architecture: where the toolkit's own headers are."""
    from cuda.pathfinder import find_nvidia_header_directory

    found = find_nvidia_header_directory("cudart")
    folders = [found] if found else []
    return (*(f"-I{folder}".encode() for folder in folders), b"-default-device", b"--std=c++17")


@functools.cache
def _fingerprint() -> str:
    """What machine code depends on besides its text and the GPU: the compiler's version and our headers."""
    version = bindings().nvrtcVersion()[1:]
    content = "\0".join([str(version), *(name + text for name, text in headers().items())])
    return hashlib.sha256(content.encode()).hexdigest()


def _target(text: str, arch: str) -> Path:
    key = hashlib.sha256("\0".join([_fingerprint(), arch, text]).encode()).hexdigest()[:32]
    return cache_folder() / f"{key}.cubin"


def compiled(texts: Iterable[str], arch: str) -> dict[str, bytes]:
    """The machine code of each text, from the cache where it was compiled before."""
    found = {text: kept(_target(text, arch)) for text in dict.fromkeys(texts)}
    missing = sorted((text for text, code in found.items() if code is None), key=_length, reverse=True)
    if missing:
        with ThreadPoolExecutor(min(THREADS, len(missing))) as threads:
            found.update(zip(missing, threads.map(functools.partial(_compiled, arch=arch), missing)))
        latest = _target(missing[-1], arch)
        trim(latest.parent, keep=latest)
    return {text: code for text, code in found.items() if code is not None}


def _length(text: str) -> int:
    """How long a text is with the headers it includes, so that what takes longest to compile comes first."""
    return len(text) + sum(len(header) for name, header in headers().items() if f'"{name}"' in text)


def _compiled(text: str, arch: str) -> bytes:
    """The machine code of a text, which goes into the cache."""
    return keep(_target(text, arch), cubin(text, arch))


def keep(target: Path, code: bytes) -> bytes:
    """Put machine code into a file of the cache, which appears under its name only when it is whole; gives the code."""
    handle, name = tempfile.mkstemp(dir=target.parent)
    with os.fdopen(handle, "wb") as file:
        file.write(hashlib.sha256(code).digest() + code)
    os.replace(name, target)
    return code


def kept(target: Path) -> bytes | None:
    """The machine code in a file of the cache, now used last; None where there is none, or not what was written."""
    try:
        content = target.read_bytes()
    except FileNotFoundError:
        return None
    with suppress(OSError):  # of a cache that one may only read
        os.utime(target)
    digest, code = content[:_DIGEST], content[_DIGEST:]
    return code if hashlib.sha256(code).digest() == digest else None


def cubin(text: str, arch: str) -> bytes:
    """The machine code of a text."""
    nvrtc = bindings()
    names, contents = zip(*((name.encode(), body.encode()) for name, body in headers().items())) or ((), ())
    program = nvrtc.nvrtcCreateProgram(text.encode(), b"kernel.cu", len(names), list(contents), list(names))[1]
    options = [f"--gpu-architecture=sm_{arch}".encode(), *_options()]
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
    if int(status):
        raise CompilerError(f"NVRTC could not build a kernel for sm_{arch}:\n{_log(nvrtc, program)[:2000]}")
    size = nvrtc.nvrtcGetCUBINSize(program)[1]
    code: bytes = b" " * size
    nvrtc.nvrtcGetCUBIN(program, code)
    nvrtc.nvrtcDestroyProgram(program)
    return code


def _log(nvrtc: Any, program: Any) -> str:
    size = nvrtc.nvrtcGetProgramLogSize(program)[1]
    log: bytes = b" " * size
    nvrtc.nvrtcGetProgramLog(program, log)
    return log.decode(errors="replace").rstrip("\0")
