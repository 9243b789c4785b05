"""NVRTC: from CUDA C++ text to the machine code of one GPU.

Machine code is cached by text, headers, architecture and version. New texts are compiled in parallel in threads.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from wengert.core import cache
from wengert.core.errors import CompilerError, DeviceError
from wengert.kernels import headers as kernel_headers
from wengert.kernels.launch import EXACT

THREADS = os.cpu_count() or 1
SHARED = ("math.h", "complex.h", "complex_functions.h")  # the headers that are one text for C and CUDA C++


@functools.cache
def bindings() -> Any:
    """NVRTC's bindings; raises with instructions if it is not installed."""
    try:
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()
    except (ImportError, RuntimeError) as error:
        raise DeviceError(f"NVRTC is missing ({error}); install it with: pip install 'wengert[cuda]'") from None
    return nvrtc


@functools.cache
def headers() -> dict[str, str]:
    """Our device headers, by the name used to include them."""
    shared = {name: kernel_headers.headers("h")[name] for name in SHARED}
    found = {**kernel_headers.headers("cuh"), **shared}
    return {name: path.read_text() for name, path in found.items()}


@functools.cache
def _options() -> tuple[bytes, ...]:
    """NVRTC's options besides the architecture: the include path of the toolkit."""
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


def _entry(text: str, arch: str) -> str:
    """The cache key of a text's machine code."""
    key = hashlib.sha256("\0".join([_fingerprint(), arch, text]).encode()).hexdigest()[:32]
    return f"{key}.cubin"


def compiled(texts: Iterable[str], arch: str) -> dict[str, bytes]:
    """The machine code of each text, from the cache if possible."""
    names = {text: _entry(text, arch) for text in texts}
    kept = cache.read_all(names.values())
    found = {text: kept[name] for text, name in names.items() if name in kept}
    missing = sorted((text for text in names if text not in found), key=_length, reverse=True)
    if missing:
        with ThreadPoolExecutor(min(THREADS, len(missing))) as threads:
            found.update(zip(missing, threads.map(functools.partial(_compiled, arch=arch), missing)))
        cache.trim(keep=_entry(missing[-1], arch))
    return {text: found[text] for text in names}


def _length(text: str) -> int:
    """The length of a text with its headers, so that slow compilations start first."""
    return len(text) + sum(len(header) for name, header in headers().items() if f'"{name}"' in text)


def _compiled(text: str, arch: str) -> bytes:
    """The machine code of a text, stored in the cache."""
    return cache.keep(_entry(text, arch), cubin(text, arch))


def cubin(text: str, arch: str) -> bytes:
    """The machine code of a text."""
    nvrtc = bindings()
    names, contents = zip(*((name.encode(), body.encode()) for name, body in headers().items())) or ((), ())
    program = nvrtc.nvrtcCreateProgram(text.encode(), b"kernel.cu", len(names), list(contents), list(names))[1]
    options = [f"--gpu-architecture=sm_{arch}".encode(), *_options()]
    options += [b"--fmad=false"] if text.startswith(EXACT) else []
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
