"""Functions of complex numbers in C, and as CUDA C++ compiled for the CPU: NumPy's values within units of rounding.

At special points (zeros of both signs, infinities, NaN, the ends of the range, the cuts) and at random ones. The text
is one for both, over real functions of their own.
"""

from __future__ import annotations

import ctypes
import subprocess
from typing import Any

import numpy as np
import pytest

import wengert  # noqa: F401  every op registers itself
from tests.kernels.emulator import FLAGS as EMULATED_FLAGS
from tests.kernels.emulator import _header as emulator_header
from tests.kernels.emulator import compiler as emulating
from wengert.backends.cpu.toolchain import FLAGS, compiler
from wengert.core.dtypes import COMPLEX, bool_, complex64, complex128, float32, float64, int64, real_of
from wengert.kernels.headers import folders
from wengert.kernels.writer import CUDA, C, c_cast, c_expression, c_literal, scalar_type, stored_type, suffix
from wengert.ops.core import CAST
from wengert.ops.op import Op, registry
from wengert.ops.recorders import Binary, Elementwise

Array = np.ndarray[Any, Any]
OPS = {n: op for n, op in registry.items() if isinstance(op, Elementwise) and set(op.table) & set(COMPLEX)}

ARITHMETIC = ("multiply", "square", "safe_multiply", "divide", "reciprocal")  # differences of products may overflow
DIFFERENCES = (*ARITHMETIC, "expm1", "log1p", "pow")  # of which a part may cancel: errors are relative to the size
UNITS = 8  # of rounding; of powers for each unit of the exponent's size
CASTS = [(a, b) for a in (bool_, int64, float32, float64, *COMPLEX) for b in (*COMPLEX, bool_) if {a, b} & set(COMPLEX)]


def arity(op: Op) -> int:
    return 3 if op.name == "where" else 2 if isinstance(op, Binary) else 1


def result_dtype(op: Any, dtype: Any) -> Any:
    return next(result for computed, result in op.table.values() if computed is dtype)


def loop(name: str, inputs: list[Any], output: Any, scalar: str) -> str:
    """A function that computes `scalar` of x0, x1, ... for every element."""
    parameters = ", ".join(f"const {stored_type(dtype)} *p{i}" for i, dtype in enumerate(inputs))
    loads = " ".join(f"{scalar_type(dtype)} x{i} = p{i}[i];" for i, dtype in enumerate(inputs))
    return (
        f"EXTERN void {name}({parameters}, {stored_type(output)} *out, int64_t n) {{\n"
        f"    for (int64_t i = 0; i < n; i++) {{ {loads} out[i] = {scalar}; }}\n}}\n"
    )


def text(dialect: Any) -> str:
    """A loop for each op and dtype, and for each cast."""
    pieces = []
    for name, op in OPS.items():
        for dtype in COMPLEX:
            inputs = [dtype] * arity(op)
            inputs[0] = bool_ if name == "where" else dtype
            scalar = c_expression(op, dtype, [f"x{i}" for i in range(len(inputs))], {}, dialect)
            assert scalar is not None, f"{name} of complex numbers has no C form"
            pieces.append(loop(f"{name}_{suffix(dtype)}", inputs, result_dtype(op, dtype), scalar))
    for source, target in CASTS:
        scalar = c_cast(source, target, "x0")
        assert scalar is not None
        pieces.append(loop(f"cast_{suffix(source)}_{suffix(target)}", [source], target, scalar))
    return "".join(pieces)


@pytest.fixture(scope="module", params=["c", "cuda"])
def library(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    """All loops, compiled once for each writer."""
    folder = tmp_path_factory.mktemp("complex")
    built = folder / "all.so"
    if request.param == "c":
        command = [compiler(), *FLAGS, "-Wall", "-Werror", "-Wno-unused-variable", "-shared"]
        command += [f"-iquote{place}" for place in folders("h")]
        head, source, dialect = '#include "math.h"\n#include "complex.h"\n#define EXTERN\n', folder / "all.c", C
    else:
        command = [emulating(), *EMULATED_FLAGS, f"-I{emulator_header()}", *[f"-I{place}" for place in folders("cuh")]]
        head = '#include "emulator.h"\n#include "complex.cuh"\n#define EXTERN extern "C"\n'
        source, dialect = folder / "all.cpp", CUDA
    if command[0] is None:
        pytest.skip("there is no compiler")
    source.write_text(head + text(dialect))
    done = subprocess.run([*command, str(source), "-o", str(built), "-lm"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:4000]
    return ctypes.CDLL(str(built))


def call(library: ctypes.CDLL, name: str, arrays: list[Array], dtype: Any) -> Array:
    arrays = [np.ascontiguousarray(array) for array in arrays]
    out = np.empty(arrays[0].shape, dtype)
    pointers = [ctypes.c_void_p(array.ctypes.data) for array in (*arrays, out)]
    getattr(library, name)(*pointers, ctypes.c_int64(out.size))
    return out


# --- points ---------------------------------------------------------------------------------------------------------


def together(x: Array, y: Array, dtype: Any) -> Array:
    z = np.empty(np.broadcast(x, y).shape, dtype)
    z.real, z.imag = x, y
    return z


def special(dtype: Any, ends: bool = True) -> Array:
    """Pairs of what is special about one part."""
    real = np.finfo(real_of(dtype))
    sides = [0.0, 1.0, 0.5, 2.0, 1e-3, 1e-7, 1e5, 20.0, 88.5, 709.5, np.pi / 2, 1 + 1e-7, 1 - 1e-7, np.inf]
    large = [real.max, real.max / 4, real.tiny, real.smallest_subnormal, 1e-20, 1e10, 720.0] if ends else []
    parts = np.array([*sides, *[-side for side in sides], 0.6, 0.8, 3.0, np.nan, *large], float64).astype(
        real_of(dtype)
    )
    return together(parts[:, None], parts, dtype).ravel()


def random(dtype: Any, seed: int) -> Array:
    drawn = np.random.default_rng(seed)
    x, y = drawn.standard_normal((2, 20_000)) * 10.0 ** drawn.integers(-3, 2, (2, 20_000))
    return together(x, y, dtype)


def operands(op: Op, dtype: Any) -> list[Array]:
    points = np.concatenate([special(dtype, op.name not in (*ARITHMETIC, "pow")), random(dtype, 1)])
    if op.name == "pow":  # what huge and infinite powers are, nothing says
        points = points[np.isfinite(points) & (np.abs(points) < 100)]
    other = np.random.default_rng(2).permutation(points)
    return [points.real > 0, points, other] if arity(op) == 3 else [points, other][: arity(op)]


# --- comparing ------------------------------------------------------------------------------------------------------


def distance(found: Array, expected: Array, unit: Array) -> Array:
    """How far parts are from each other, in units; infinite where one is NaN or infinite and the other is not."""
    same = (found == expected) | (np.isnan(found) & np.isnan(expected))
    limit = np.finfo(found.dtype).max
    apart = np.abs(np.clip(found, -limit, limit) / 2 - np.clip(expected, -limit, limit) / 2) / unit * 2
    return np.where(same, 0, np.where(np.isnan(apart), np.inf, apart))


def allowed(op: Op, arrays: list[Array], expected: Array) -> Array:
    """A unit of rounding of each part: of the part itself, or of the larger one where it may be a difference."""
    real = np.finfo(expected.real.dtype)
    parts = np.abs(np.stack([expected.real, expected.imag]).astype(float64))
    size = np.where(np.isfinite(parts), parts, float(real.max))
    if op.name in DIFFERENCES:
        size = np.broadcast_to(size.max(0), size.shape)
    if op.name in ("multiply", "square", "safe_multiply"):
        size = size + np.prod([np.abs(a.astype(complex128)) for a in (arrays * 2)[:2]], axis=0)
    if op.name == "log1p":  # NumPy's, which rounds 1 + z
        size = np.maximum(size, 1)
    if op.name == "pow":
        with np.errstate(all="ignore"):
            angle = np.abs(arrays[1].astype(complex128) * np.log(arrays[0].astype(complex128)))
        size = size * (1 + np.where(np.isfinite(angle), angle, 0))
    with np.errstate(over="ignore"):
        return size * float(real.eps) + float(real.smallest_subnormal)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("dtype", COMPLEX, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("name", OPS)
def test_a_function_is_numpys(library: ctypes.CDLL, name: str, dtype: Any) -> None:
    op = OPS[name]
    arrays = operands(op, dtype)
    found = call(library, f"{name}_{suffix(dtype)}", arrays, result_dtype(op, dtype))
    expected = np.asarray(op.numpy(*arrays))
    if found.dtype.kind not in "fc":
        np.testing.assert_array_equal(found, expected)
        return
    unit = allowed(op, arrays, expected)
    for k, (got, want) in enumerate(((found.real, expected.real), (found.imag, expected.imag))):
        if name in ("sin", "sinh"):  # of an infinite part beside one that is infinite or NaN nothing says the sign
            got, want = (np.where(np.isinf(part) & ~np.isfinite(arrays[0]), np.abs(part), part) for part in (got, want))
        if name in ("sign", "log1p"):  # NumPy's size of a finite number may be infinite
            want = np.where(np.isinf(np.abs(arrays[0])) & np.isfinite(arrays[0]), got, want)
        if name == "pow":
            want = np.where(np.isfinite(expected), want, got)
        apart = distance(got, want, unit[k])
        worst = int(np.argmax(apart))
        at = [array[worst] for array in arrays]
        assert apart[worst] <= UNITS, f"{apart[worst]:.1f} units at {at}: {found[worst]}, not {expected[worst]}"


CUTS = ["sqrt", "log", "asin", "acos", "atan", "asinh", "acosh", "atanh"]


@pytest.mark.parametrize("dtype", COMPLEX, ids=lambda dtype: dtype.name)
@pytest.mark.parametrize("name", CUTS)
def test_a_cut_has_two_sides(library: ctypes.CDLL, name: str, dtype: Any) -> None:
    sides = np.array([-3, -2, -1, -0.5, -0.0, 0.0, 0.5, 1, 2, 3], real_of(dtype))
    zeros = np.array([[0.0], [-0.0]], real_of(dtype))
    points = np.concatenate([together(sides, zeros, dtype).ravel(), together(zeros, sides, dtype).ravel()])
    found = call(library, f"{name}_{suffix(dtype)}", [points], dtype)
    with np.errstate(all="ignore"):
        expected = np.asarray(OPS[name].numpy(points))
    np.testing.assert_array_equal(np.signbit(found.real), np.signbit(expected.real))
    np.testing.assert_array_equal(np.signbit(found.imag), np.signbit(expected.imag))


def test_logarithms_are_exact_near_one(library: ctypes.CDLL) -> None:
    """Where the squares of the parts all but add up to 1, and where 1 + z would lose what z has."""
    angle = np.linspace(0.1, 3, 1000)
    points = np.exp(1j * angle)
    wide = points.astype(np.clongdouble)
    size = (wide.real**2 + wide.imag**2 - 1) / 2  # to first order, which is all there is
    found = call(library, "log_c128", [points], complex128)
    np.testing.assert_allclose(found.real, size.astype(float64), rtol=1e-2, atol=1e-19)
    small = call(library, "log1p_c128", [np.array([1e-20 + 1e-30j, -1e-18 + 0j])], complex128)
    np.testing.assert_allclose(small, [1e-20 + 1e-30j, -1e-18 + 0j], rtol=1e-15)


@pytest.mark.parametrize(("source", "target"), CASTS, ids=lambda dtype: dtype.name)
def test_casts(library: ctypes.CDLL, source: Any, target: Any) -> None:
    values = special(source) if source in COMPLEX else np.array([0, 1, 2, 3, 7]).astype(source)
    found = call(library, f"cast_{suffix(source)}_{suffix(target)}", [values], target)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(found, values.astype(target))


def test_literals_and_casts_as_text() -> None:
    assert c_literal(1 - 0.0j, complex64) == "wg_of_parts_c64(1.0f, 0.0f)"
    assert c_cast(complex128, float64, "x") is None  # `real` says what is meant
    assert c_expression(CAST, complex64, ["x"], {"dtype": complex128}) == (
        "wg_of_parts_c128((double)wg_real_c64(x), (double)wg_imag_c64(x))"
    )


def test_nvrtc_compiles_them() -> None:
    pytest.importorskip("cuda.bindings.nvrtc", reason="compiling CUDA needs the cuda extra")
    from wengert.backends.cuda.compile import cubin

    head = '#include "block.cuh"\n#include "complex.cuh"\n#define EXTERN extern "C" __global__\n'
    assert cubin(head + text(CUDA), "90").startswith(b"\x7fELF")
