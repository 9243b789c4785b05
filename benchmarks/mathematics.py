"""Nanoseconds an element of the header's math functions, beside the C library's and NumPy's, on one core.

    python benchmarks/mathematics.py [--all]

4,096 elements, which stay in the cache; best of several rounds, the contenders taken in turn. `libm` is the same loop
around the C library's function, compiled with the same flags. Without --all: the functions that matter most, float32.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from wengert.core.dtypes import float32, float64
from wengert.kernels.writer import HEADER, c_expression, stored_type, suffix
from wengert.ops.op import registry

COUNT, ROUNDS, REPEATS = 4096, 30, 20
FLAGS = ["-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-fPIC", "-shared"]
MAIN = ["exp", "log", "tanh", "erf", "sin", "pow", "sigmoid"]
MORE = [
    "expm1", "log1p", "log2", "log10", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "asinh", "acosh",
    "atanh", "erfc", "erfinv", "hypot", "logaddexp", "lgamma", "digamma",
]  # fmt: skip
BINARY = {"pow", "atan2", "hypot", "logaddexp"}
# the C library has no name of its own for these
LIBM = {
    "sigmoid": "1 / (1 + exp{f}(-a[i]))",
    "logaddexp": "fmax{f}(a[i], b[i]) + log1p{f}(exp{f}(-fabs{f}(a[i] - b[i])))",
    "erfinv": None,
    "digamma": None,
}


def loop(name: str, dtype: np.dtype[Any], expression: str) -> str:
    kind = stored_type(dtype)
    return (
        f"void {name}_{suffix(dtype)}(const {kind} *restrict a, const {kind} *restrict b, {kind} *restrict out) {{\n"
        f"    for (long i = 0; i < {COUNT}; i++) out[i] = {expression};\n}}\n"
    )


def source(names: list[str], dtypes: list[np.dtype[Any]]) -> str:
    pieces = [f'#include "{HEADER}"\n#include "{HEADER.with_name("far.h")}"\n']
    for name in names:
        for dtype in dtypes:
            operands = ["a[i]", "b[i]"] if name in BINARY else ["a[i]"]
            pieces.append(loop(f"ours_{name}", dtype, str(c_expression(registry[name], dtype, operands))))
            end = "f" if dtype is float32 else ""
            libm = LIBM.get(name, f"{name}{end}({', '.join(operands)})")
            if libm is not None:
                pieces.append(loop(f"libm_{name}", dtype, libm.replace("{f}", end)))
    return "".join(pieces)


def built(text: str) -> ctypes.CDLL:
    compiler = os.environ.get("WENGERT_CC") or shutil.which("cc")
    if compiler is None:
        sys.exit("there is no C compiler here")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "math.c"
        file.write_text(text)
        subprocess.run([compiler, *FLAGS, str(file), "-o", f"{folder}/math.so", "-lm"], check=True)
        return ctypes.CDLL(f"{folder}/math.so")


def best(contenders: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Nanoseconds an element of each, the best of all rounds."""
    times = dict.fromkeys(contenders, float("inf"))
    for _ in range(ROUNDS):
        for name, run in contenders.items():
            start = time.perf_counter_ns()
            for _ in range(REPEATS):
                run()
            times[name] = min(times[name], (time.perf_counter_ns() - start) / REPEATS / COUNT)
    return times


def measured(library: ctypes.CDLL, name: str, dtype: np.dtype[Any]) -> dict[str, float]:
    random = np.random.default_rng(0)
    low, high = {"asin": (-1, 1), "acos": (-1, 1), "atanh": (-1, 1), "erfinv": (-1, 1), "acosh": (1, 9)}.get(
        name, (0, 8)
    )
    a, b = (random.uniform(low, high, COUNT).astype(dtype) for _ in range(2))
    out = np.empty_like(a)
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (a, b, out)]
    contenders: dict[str, Callable[[], Any]] = {}
    for who in ("ours", "libm"):
        function = getattr(library, f"{who}_{name}_{suffix(dtype)}", None)
        if function is not None:
            contenders[who] = partial(function, *pointers)
    reference, operands = registry[name].numpy, [a, b] if name in BINARY else [a]
    contenders["numpy"] = partial(reference, *operands)
    with np.errstate(all="ignore"):
        return best(contenders)


def main() -> None:
    everything = "--all" in sys.argv
    names, dtypes = (MAIN + MORE, [float32, float64]) if everything else (MAIN, [float32])
    library = built(source(names, dtypes))
    print(f"{'ns an element':14}{'ours':>8}{'libm':>8}{'numpy':>8}")
    for dtype in dtypes:
        for name in names:
            times = measured(library, name, dtype)
            cells = [f"{times[who]:8.2f}" if who in times else f"{'-':>8}" for who in ("ours", "libm", "numpy")]
            print(f"{name + ' ' + suffix(dtype):14}{''.join(cells)}", flush=True)


if __name__ == "__main__":
    main()
