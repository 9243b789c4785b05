"""NVRTC: from CUDA C++ text to the machine code of one GPU, cached on disk by text, headers, architecture and version.

Texts that are new are compiled side by side in processes: NVRTC does one at a time within a process.
"""

from __future__ import annotations

import functools
import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from wengert.backends.toolchain import KERNELS, cache_folder
from wengert.errors import CompilerError, DeviceError

TOGETHER = 3  # texts that a process should have to compile before it is worth starting


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
    """What NVRTC is told besides the architecture: where the toolkit's own headers are."""
    from cuda.pathfinder import find_nvidia_header_directory

    found = find_nvidia_header_directory("cudart")
    folders = [found] if found else []
    return (*(f"-I{folder}".encode() for folder in folders), b"-default-device", b"--std=c++17")


@functools.cache
def _fingerprint() -> str:
    version = bindings().nvrtcVersion()[1:]
    return "\0".join([str(version), *(name + text for name, text in headers().items())])


def _target(text: str, arch: str) -> Path:
    key = hashlib.sha256("\0".join([_fingerprint(), arch, text]).encode()).hexdigest()[:32]
    return cache_folder() / f"{key}.cubin"


def compiled(texts: Iterable[str], arch: str) -> dict[str, bytes]:
    """The machine code of each text, from the cache where it was compiled before."""
    targets = {text: _target(text, arch) for text in dict.fromkeys(texts)}
    missing = [text for text, target in targets.items() if not target.exists()]
    workers = min(os.cpu_count() or 1, -(-len(missing) // TOGETHER))
    if workers > 1:
        _compile_in_processes(missing, arch, workers)
    else:
        compile_into_cache(missing, arch)
    return {text: target.read_bytes() for text, target in targets.items()}


def compile_into_cache(texts: Sequence[str], arch: str) -> None:
    """Compile texts one after the other. A file appears under its name only when it is whole."""
    for text in texts:
        target = _target(text, arch)
        handle, name = tempfile.mkstemp(dir=target.parent)
        with os.fdopen(handle, "wb") as file:
            file.write(cubin(text, arch))
        os.replace(name, target)


def _compile_in_processes(texts: Sequence[str], arch: str, workers: int) -> None:
    """Share texts out to processes. What one cannot do is done here, where the error can be seen."""
    command = [sys.executable, "-m", "wengert.backends.cuda.compile", arch]
    parts = [texts[i::workers] for i in range(workers)]
    running = [subprocess.Popen(command, stdin=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) for _ in parts]
    for process, part in zip(running, parts):
        assert process.stdin is not None
        process.stdin.write("\0".join(part))
        process.stdin.close()
    for process in running:
        process.wait()
    compile_into_cache([text for text in texts if not _target(text, arch).exists()], arch)


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
    code = b" " * size
    nvrtc.nvrtcGetCUBIN(program, code)
    nvrtc.nvrtcDestroyProgram(program)
    return code


def _log(nvrtc: Any, program: Any) -> str:
    size = nvrtc.nvrtcGetProgramLogSize(program)[1]
    log = b" " * size
    nvrtc.nvrtcGetProgramLog(program, log)
    return log.decode(errors="replace").rstrip("\0")


if __name__ == "__main__":
    compile_into_cache(sys.stdin.read().split("\0"), sys.argv[1])
