"""A GPU for lessons: runs small CUDA kernels on the CPU, and counts what they move.

In: the text of a kernel, a grid and a block, arrays and numbers. Out: the arrays changed in place, and the Traffic:
loads and stores of global memory and their bytes, which on a GPU only a profiler shows. It finds accesses out of bounds
and barriers that some threads never reach; running the threads in reverse order as well finds races. It says nothing
of time. `wg.cuda.kernel` takes the same text where there is a GPU.
"""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from wengert.core.errors import ArgumentError, WengertError

_HEADER = Path(__file__).with_name("device.h")
_TYPES = {"float": np.float32, "double": np.float64, "int": np.int32, "unsigned": np.uint32, "float4": np.float32}


class Traffic(NamedTuple):
    """What a launch moved between global memory and threads, and how many threads came to a barrier how often."""

    loads: int
    bytes_loaded: int
    stores: int
    bytes_stored: int
    barriers: int


class Parameter(NamedTuple):
    """A parameter of a kernel: `const float *a` or `int n`."""

    type: str
    pointer: bool
    constant: bool
    name: str


class EmulatedKernel:
    """A kernel of a CUDA C++ text, compiled for the CPU.

    >>> import numpy as np
    >>> double = EmulatedKernel('''
    ... extern "C" __global__ void doubled(const float *x, float *y, int n)
    ... {
    ...     int i = blockIdx.x * blockDim.x + threadIdx.x;
    ...     if (i < n) y[i] = 2 * x[i];
    ... }''', "doubled")
    >>> x, y = np.arange(5, dtype=np.float32), np.zeros(5, np.float32)
    >>> double(2, 4, x, y, 5)
    Traffic(loads=5, bytes_loaded=20, stores=5, bytes_stored=20, barriers=0)
    >>> y.tolist()
    [0.0, 2.0, 4.0, 6.0, 8.0]
    """

    def __init__(self, source: str, name: str) -> None:
        self.name = name
        self.parameters = _parameters(source, name)
        self._library = _compiled(_unit(source, name, self.parameters))

    def __call__(
        self, grid: int | Sequence[int], block: int | Sequence[int], *args: Any, reverse: bool = False
    ) -> Traffic:
        """Launch it. `reverse` runs blocks and threads from the last to the first."""
        if len(args) != len(self.parameters):
            raise ArgumentError(f"{self.name}: {len(self.parameters)} arguments are needed, {len(args)} were given")
        pairs = [self._argument(parameter, value) for parameter, value in zip(self.parameters, args)]
        pointers = (ctypes.c_void_p * len(pairs))(*(array.ctypes.data for array, _ in pairs))
        sizes = (ctypes.c_longlong * len(pairs))(*(size for _, size in pairs))
        shape = (ctypes.c_uint * 6)(*_extent(grid), *_extent(block))
        counts = (ctypes.c_longlong * 5)()
        self._library.launch.restype = ctypes.c_char_p
        trouble = self._library.launch(pointers, sizes, shape, ctypes.c_bool(reverse), counts)
        if trouble:
            raise WengertError(f"{self.name}: {trouble.decode()}")
        return Traffic(*counts)

    def _argument(self, parameter: Parameter, value: Any) -> tuple[Any, int]:
        """The array behind an argument, and how many elements of the parameter's type it has."""
        dtype = np.dtype(_TYPES[parameter.type])
        if not parameter.pointer:
            return np.array([value], dtype), 1
        if not isinstance(value, np.ndarray) or value.dtype != dtype or not value.flags.c_contiguous:
            raise ArgumentError(f"{self.name}: {parameter.name} is a contiguous NumPy array of {dtype}")
        return value, value.size // (4 if parameter.type == "float4" else 1)


def _parameters(source: str, name: str) -> list[Parameter]:
    match = re.search(rf"__global__\s+void\s+(?:__launch_bounds__\(.*?\)\s*)?{name}\s*\((.*?)\)", source, re.S)
    if match is None:
        raise ArgumentError(f"emulated_gpu: the text has no kernel `__global__ void {name}(...)`")
    found = []
    for text in match[1].split(","):
        parts = re.fullmatch(r"\s*(const\s+)?(\w+)\s*(\*?)\s*(?:__restrict__\s+)?(\w+)\s*", text)
        if parts is None or parts[2] not in _TYPES:
            raise ArgumentError(
                f"emulated_gpu: {name} has the parameter {text.strip()!r}; it takes {', '.join(_TYPES)}"
            )
        found.append(Parameter(parts[2], bool(parts[3]), bool(parts[1]), parts[4]))
    return found


def _unit(source: str, name: str, parameters: Sequence[Parameter]) -> str:
    """The C++ program: the kernel with pointers that count, and a function that launches it."""

    def held(p: Parameter) -> str:
        if not p.pointer:
            return p.type
        return f"{'GlobalIn' if p.constant else 'Global'}<{p.type}>"

    taken = ", ".join(f"{held(p)} {p.name}" for p in parameters)
    head = rf"(__global__\s+void\s+(?:__launch_bounds__\(.*?\)\s*)?{name}\s*)\(.*?\)"
    text = re.sub(head, rf"\1({taken})", source, flags=re.S)
    text = text.replace('extern "C"', "")
    values = [
        f"Global<{p.type}>{{({p.type} *) pointers[{i}], sizes[{i}], 0}}"
        if p.pointer
        else f"*({p.type} *) pointers[{i}]"
        for i, p in enumerate(parameters)
    ]
    return (
        f'#include "{_HEADER}"\n{text}\n'
        "static void **pointers;\nstatic long long *sizes;\n"
        f"static void begin() {{ {name}({', '.join(values)}); }}\n"
        'extern "C" const char *launch(void **p, long long *s, const unsigned *shape, bool reverse, long long *counts) '
        "\n{ pointers = p; sizes = s; return run_grid(begin, shape, reverse, counts); }\n"
    )


def _compiled(text: str) -> Any:
    compiler = shutil.which("g++") or shutil.which("clang++") or shutil.which("c++")
    if compiler is None:
        raise WengertError("emulated_gpu: a C++ compiler is needed (g++ or clang++), and none was found")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cpp"
        path.write_text(text)
        command = [
            compiler,
            "-O1",
            "-w",
            "-std=c++17",
            "-shared",
            "-fPIC",
            str(path),
            "-o",
            str(path.with_suffix(".so")),
        ]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        if result.returncode:
            first = next((line for line in result.stderr.splitlines() if "error:" in line), result.stderr[:200])
            raise WengertError(f"emulated_gpu: the kernel does not compile: {first.partition('error:')[2].strip()}")
        return ctypes.CDLL(str(path.with_suffix(".so")))


def _extent(extent: int | Sequence[int]) -> tuple[int, int, int]:
    sizes = (extent,) if isinstance(extent, int) else tuple(extent)
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z
