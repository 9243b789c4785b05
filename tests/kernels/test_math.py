"""Every elementwise op's C form against its NumPy reference, in every real dtype its table allows.

All the C of this module is one file, compiled once: a loop for each op and dtype, for each pair of dtypes a cast, and
for each awkward literal its bytes. Integers, comparisons and steps must agree exactly; the float functions within a few
units in the last place (ulp) of the reference computed in float64.
"""

from __future__ import annotations

import ctypes
import itertools
import math
import os
import platform
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wengert  # noqa: F401  every op registers itself
from wengert.core.dtypes import (
    ALL,
    COMPLEX,
    FLOATING,
    HALF,
    INTEGER,
    bfloat16,
    bool_,
    float16,
    float32,
    float64,
    int8,
    int64,
    uint64,
)
from wengert.kernels.writer import (
    HEADER,
    c_cast,
    c_expression,
    c_literal,
    narrowed,
    scalar_type,
    stored_type,
    suffix,
    widened,
)
from wengert.ops.core import CAST
from wengert.ops.op import Op, registry
from wengert.ops.random import RANDOM_BITS
from wengert.ops.recorders import Binary, Elementwise
from wengert.ops.special import POLYGAMMA

COMPILER = os.environ.get("WENGERT_CC") or shutil.which("cc") or shutil.which("gcc")
FLAGS = ["-O3", "-march=native", "-fno-math-errno", "-fno-trapping-math", "-std=gnu11", "-fPIC", "-shared"]
pytestmark = [
    pytest.mark.skipif(COMPILER is None, reason="there is no C compiler here"),
    pytest.mark.filterwarnings("ignore:(overflow|invalid value) encountered:RuntimeWarning"),
]
INCLUDES = f'#include "{HEADER}"\n#include "{HEADER.with_name("far.h")}"\n'

DTypes = np.dtype[Any]
REAL_DTYPES = [dtype for dtype in ALL if dtype not in COMPLEX]
OPS = {name: op for name, op in registry.items() if isinstance(op, Elementwise)}

# the sign of a zero is not promised: the larger of -0.0 and 0.0, nothing times infinity, from 0.0 towards -0.0
ANY_ZERO = {"maximum", "minimum", "safe_multiply", "nextafter"}


def computed(op: Op) -> list[DTypes]:
    """The real dtypes an op computes in."""
    if not isinstance(op, Elementwise):
        return list(FLOATING)
    return list(dict.fromkeys(compute for compute, _ in op.table.values() if compute not in COMPLEX))


def arity(op: Op) -> int:
    return 3 if op.name == "where" else 2 if isinstance(op, Binary) else 1


# --- the C of this module -------------------------------------------------------------------------------------------


def loop(name: str, inputs: list[DTypes], output: DTypes, scalar: str) -> str:
    """A C function that computes `scalar` of x0, x1, ... for every element."""
    parameters = [f"const {stored_type(dtype)} *restrict p{i}" for i, dtype in enumerate(inputs)]
    loads = [f"{scalar_type(dtype)} x{i} = {widened(dtype, f'p{i}[i]')};" for i, dtype in enumerate(inputs)]
    # of the other dtypes the loop is kept scalar, which halves the time compiling takes
    kept = "" if inputs[-1] in (float32, float64) else "volatile "
    return (
        f"void {name}({', '.join(parameters)}, {kept}{stored_type(output)} *restrict out, int64_t n) {{\n"
        f"    for (int64_t i = 0; i < n; i++) {{ {' '.join(loads)} {scalar_type(output)} y = {scalar}; "
        f"out[i] = {narrowed(output, 'y')}; }}\n}}\n"
    )


def op_loop(op: Op, dtype: DTypes) -> str:
    inputs = [dtype] * arity(op)
    if op.name == "where":
        inputs[0] = bool_
    scalar = c_expression(op, dtype, [f"x{i}" for i in range(len(inputs))], {"n": 2})
    assert scalar is not None
    return loop(f"{op.name}_{suffix(dtype)}", inputs, result_dtype(op, dtype), scalar)


def result_dtype(op: Op, dtype: DTypes) -> DTypes:
    if not isinstance(op, Elementwise):
        return dtype
    return next(result for compute, result in op.table.values() if compute is dtype)


LITERALS = {
    dtype: [0.0, -0.0, 1.0, -1.5, 0.1, 1 / 3, 1e-7, 2.0**-24, 65504.0, math.pi, math.inf, -math.inf, math.nan]
    for dtype in FLOATING
}
LITERALS[float32] += [1e38, 1e-45, 16777217.0, 3.4028235e38]
LITERALS[float64] += [1e308, 5e-324, 2.0**53 + 2, 1.7976931348623157e308]
LITERALS |= {
    dtype: [0, 1, np.iinfo(dtype).min, np.iinfo(dtype).min + 1, np.iinfo(dtype).max, np.iinfo(dtype).max - 1]
    for dtype in INTEGER
}
LITERALS[bool_] = [False, True]


def literal_table(dtype: DTypes) -> str:
    entries = ", ".join(narrowed(dtype, str(c_literal(value, dtype))) for value in LITERALS[dtype])
    count = len(LITERALS[dtype])
    return (
        f"void literals_{suffix(dtype)}({stored_type(dtype)} *out) {{\n"
        f"    {stored_type(dtype)} values[] = {{{entries}}};\n"
        f"    for (int i = 0; i < {count}; i++) out[i] = values[i];\n}}\n"
    )


PHILOX = """
void philox(const uint32_t *key, uint64_t counter, uint64_t stream, uint32_t *out, int64_t n) {
    for (int64_t i = 0; i < n; i++) out[i] = wg_philox(key[0], key[1], counter, stream, (uint64_t)i);
}
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    folder = tmp_path_factory.mktemp("math")
    pieces = [INCLUDES, PHILOX]
    pieces += [op_loop(op, dtype) for op in [*OPS.values(), POLYGAMMA] for dtype in computed(op)]
    pieces += [literal_table(dtype) for dtype in REAL_DTYPES]
    for source, target in itertools.product(REAL_DTYPES, repeat=2):
        scalar = c_cast(source, target, "x0")
        assert scalar is not None
        pieces.append(loop(f"cast_{suffix(source)}_{suffix(target)}", [source], target, scalar))
    (folder / "all.c").write_text("".join(pieces))
    build(folder / "all.c", ["-o", str(folder / "all.so"), "-lm"])
    return ctypes.CDLL(str(folder / "all.so"))


def build(file: Path, more: list[str]) -> str:
    """What the compiler says; it must have no warning to give."""
    command = [str(COMPILER), *FLAGS, "-Wall", "-Werror", "-Wno-unused-variable", str(file), *more]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:4000]
    return done.stderr


def pointer(array: np.ndarray[Any, Any]) -> ctypes.c_void_p:
    return ctypes.c_void_p(array.ctypes.data)


def call(library: ctypes.CDLL, name: str, arrays: list[Any], dtype: DTypes) -> np.ndarray[Any, Any]:
    arrays = [np.ascontiguousarray(array) for array in arrays]
    out = np.empty(arrays[0].shape, dtype)
    getattr(library, name)(*map(pointer, arrays), pointer(out), ctypes.c_int64(out.size))
    return out


# --- inputs ---------------------------------------------------------------------------------------------------------

SPECIAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, 2.5, -2.5, 3.0, -3.0, 10.0, math.inf, -math.inf, math.nan]
# where exponentials overflow and vanish in each dtype, gamma functions turn, and sines are reduced otherwise
TURNS = [88.72284, 103.97208, 709.78271, 745.13322, 128.0, 1024.0, 4.0, 8.0, 28.0, 2.0**45, 2.0**50, 2.0**77, 2.0**103]


def edges(dtype: DTypes) -> np.ndarray[Any, Any]:
    """The ends of a dtype's numbers and of its subnormal ones, and the neighbours of what is special otherwise."""
    with np.errstate(all="ignore"):
        ends = [SMALLEST[dtype], SMALLEST[dtype] * 2 ** (DIGITS[dtype] - 1), LARGEST[dtype], math.pi, math.pi / 2]
        values = np.array([*SPECIAL[2:12], *TURNS, *ends], float64).astype(dtype)
        values = np.concatenate([values, -values])
        steps = (
            [np.nextafter(values, np.asarray(to, dtype)) for to in (-math.inf, math.inf)] if dtype not in HALF else []
        )
        return np.concatenate([np.array(SPECIAL, dtype), values, *steps])


def samples(dtype: DTypes, count: int, seed: int) -> np.ndarray[Any, Any]:
    """Numbers of all sizes, most of them ordinary ones."""
    random = np.random.default_rng(seed)
    if dtype is bool_:
        return random.random(count) < 0.5
    if dtype in INTEGER:
        limits = np.iinfo(dtype)
        anywhere = random.integers(limits.min, limits.max, count, dtype, endpoint=True)
        small = random.integers(max(limits.min, -9), 10, count).astype(dtype)
        ends = np.array([limits.min, limits.min + 1, 0, 1, limits.max], dtype)
        return np.concatenate([ends, np.where(random.random(count) < 0.5, anywhere, small)])
    bits = random.integers(0, 1 << (8 * dtype.itemsize - 1), count, np.uint64, endpoint=True) * 2
    anywhere = (bits + random.integers(0, 2, count).astype(np.uint64)).astype(f"u{dtype.itemsize}").view(dtype)
    ordinary = (random.normal(size=count) * 10.0 ** random.integers(-3, 3, count)).astype(dtype)
    return np.concatenate([edges(dtype), np.where(random.random(count) < 0.3, anywhere, ordinary)])


def operands_for(op: Op, dtype: DTypes) -> list[np.ndarray[Any, Any]]:
    count = 20_000 if dtype in (float32, float64) else 3_000
    arrays = [samples(dtype, count, seed) for seed in range(arity(op))]
    if op.name == "where":
        arrays[0] = samples(bool_, arrays[1].size, 7)
    if len(arrays) == 2:  # the special values against each other
        some = len(edges(dtype)) if dtype in FLOATING else 5
        edge = arrays[0][:some]
        pairs = [np.repeat(edge, len(edge)), np.tile(arrays[1][:some], len(edge))]
        arrays = [np.concatenate([pair, array]) for pair, array in zip(pairs, arrays)]
    if op.name == "pow" and dtype in INTEGER:
        arrays[1] = np.abs(arrays[1] % 70)  # NumPy raises for negative ones
    if op.name in ("lgamma", "digamma", "polygamma"):
        arrays[0] = arrays[0][~(arrays[0] < -1e4)]  # so far out a pole is at every number
    return arrays


# --- comparing ------------------------------------------------------------------------------------------------------

DIGITS = {float16: 11, bfloat16: 8, float32: 24, float64: 53}
SMALLEST = {float16: 2.0**-24, bfloat16: 2.0**-133, float32: 2.0**-149, float64: 2.0**-1074}
LARGEST = {
    float16: 65504.0,
    bfloat16: 2.0**128 - 2.0**119,
    float32: 2.0**128 - 2.0**104,
    float64: 1.7976931348623157e308,
}


def in_ulp(value: Any, reference: Any, dtype: DTypes, terms: Any = 0.0) -> Any:
    """How far values are from a float64 reference, in units of the last place of the reference (or of its terms)."""
    value, rounded = value.astype(float64), reference.astype(dtype).astype(float64)
    same = (value == rounded) & (np.signbit(value) == np.signbit(rounded)) | (np.isnan(value) & np.isnan(rounded))
    top = LARGEST[dtype]
    value, reference = np.clip(value, -top, top), np.clip(reference, -top, top)
    _, exponent = np.frexp(np.maximum(np.abs(reference), terms))
    unit = np.maximum(np.ldexp(1.0, np.maximum(exponent - DIGITS[dtype], -1074)), SMALLEST[dtype])
    distance = np.abs(value - reference) / unit
    return np.where(same, 0.0, np.where(np.isnan(distance), np.inf, distance))


def reference_of(op: Op, arrays: list[Any], wide: DTypes | None) -> Any:
    """The op's NumPy reference, with floats widened to `wide`."""
    arrays = [a.astype(wide) if wide is not None and a.dtype in FLOATING else a for a in arrays]
    with np.errstate(all="ignore"):
        return np.asarray(op.numpy(*arrays, **({"n": 2} if op is POLYGAMMA else {})))


CASES = [(name, dtype) for name, op in [*OPS.items(), ("polygamma", POLYGAMMA)] for dtype in computed(op)]


@pytest.mark.parametrize(("name", "dtype"), CASES, ids=[f"{name}-{dtype.name}" for name, dtype in CASES])
def test_an_op_in_c_is_its_reference(library: ctypes.CDLL, name: str, dtype: DTypes, record_property: Any) -> None:
    op = registry[name]
    arrays = operands_for(op, dtype)
    result = call(library, f"{name}_{suffix(dtype)}", arrays, result_dtype(op, dtype))
    if dtype in FLOATING and op.ulp:
        reference = reference_of(op, arrays, float64)
        with np.errstate(all="ignore"):
            terms = op.terms(*[a.astype(float64) for a in arrays]) if op.terms is not None else 0.0
            distance = in_ulp(result, reference, dtype, terms)
        allowed = op.ulp if dtype not in HALF else 1
        worst = int(np.argmax(distance))
        record_property("ulp", (name, dtype.name, float(distance[worst])))
        found = f"{[a[worst] for a in arrays]}: {result[worst]!r}, not {reference[worst]!r}"
        assert distance[worst] <= allowed, f"{distance[worst]:.1f} ulp at {found}"
        return
    reference = reference_of(op, arrays, float32 if dtype in HALF and not op.moves else None)
    reference = reference.astype(result.dtype)
    agree = (result == reference) | ((result != result) & (reference != reference))
    if result.dtype in FLOATING and name not in ANY_ZERO:
        agree &= (np.signbit(result) == np.signbit(reference)) | (result != result)
    where = np.flatnonzero(~agree)[:5]
    assert agree.all(), [([a[i] for a in arrays], result[i], reference[i]) for i in where]


def test_every_real_elementwise_op_has_a_c_form() -> None:
    missing = [
        (name, dtype.name)
        for name, op in [*OPS.items(), ("polygamma", POLYGAMMA)]
        for dtype in computed(op)
        if c_expression(op, dtype, ["a", "b", "c"][: arity(op)], {"n": 1}) is None
    ]
    assert not missing
    assert len(OPS) > 70


# --- casts, literals, halves, random bits ---------------------------------------------------------------------------


def fitting(values: Any, target: DTypes) -> Any:
    """The values a cast to `target` is defined for."""
    if target in INTEGER and values.dtype in FLOATING:
        limits = np.iinfo(target)
        wide = values.astype(float64)
        return values[(wide > limits.min - 1.0) & (wide >= float(limits.min)) & (wide < limits.max + 1.0)]
    return values


@pytest.mark.parametrize("source", REAL_DTYPES, ids=lambda dtype: dtype.name)
def test_casts_are_numpys(library: ctypes.CDLL, source: DTypes) -> None:
    for target in REAL_DTYPES:
        values = fitting(samples(source, 5_000, 3), target)
        result = call(library, f"cast_{suffix(source)}_{suffix(target)}", [values], target)
        with np.errstate(all="ignore"):
            expected = values.astype(target)
        agree = (result == expected) | ((result != result) & (expected != expected))
        where = np.flatnonzero(~agree)[:5]
        assert agree.all(), (target.name, values[where], result[where], expected[where])


def test_casts_of_what_does_not_fit_do_not_stop_the_program(library: ctypes.CDLL) -> None:
    values = np.array([math.inf, -math.inf, math.nan, 1e300, -1e300, 2.0**63, -(2.0**64)])
    for target in INTEGER:
        call(library, f"cast_f64_{suffix(target)}", [values], target)


def test_c_casts_agree_with_the_op() -> None:
    assert c_expression(CAST, float64, ["x"], {"dtype": int8}) == "wg_f64_to_i8(x)"
    assert c_expression(CAST, int64, ["x"], {"dtype": uint64}) == "((uint64_t)x)"


@pytest.mark.parametrize("dtype", REAL_DTYPES, ids=lambda dtype: dtype.name)
def test_literals_are_exact(library: ctypes.CDLL, dtype: DTypes) -> None:
    expected = np.array([np.asarray(value, dtype) for value in LITERALS[dtype]], dtype)
    out = np.empty_like(expected)
    getattr(library, f"literals_{suffix(dtype)}")(pointer(out))
    np.testing.assert_array_equal(out.astype(float64), expected.astype(float64))
    assert (out.tobytes() == expected.tobytes()) or np.isnan(expected.astype(float64)).any()
    if dtype in FLOATING:
        np.testing.assert_array_equal(np.signbit(out[:-1][:12]), np.signbit(expected[:-1][:12]))


@pytest.mark.parametrize("dtype", sorted(HALF, key=str), ids=lambda dtype: dtype.name)
def test_half_precision_is_read_and_rounded(library: ctypes.CDLL, dtype: DTypes) -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    wide = call(library, f"cast_{suffix(dtype)}_f32", [every], float32)
    np.testing.assert_array_equal(wide, every.astype(float32))
    # halfway between neighbours, and just beside: where rounding is decided
    finite = np.sort(wide[np.isfinite(wide)])
    between = ((finite[1:].astype(float64) + finite[:-1]) / 2).astype(float32)
    for values in (wide, between, np.nextafter(between, np.float32(0)), np.nextafter(between, np.float32(math.inf))):
        result = call(library, f"cast_f32_{suffix(dtype)}", [values], dtype)
        with np.errstate(all="ignore"):
            np.testing.assert_array_equal(result.astype(float32), values.astype(dtype).astype(float32))


def test_float64_becomes_float16_in_one_rounding(library: ctypes.CDLL) -> None:
    """A hair off the middle between two neighbours: rounded to float32 it would be the middle, and a tie."""
    finite = np.arange(0x7C00, dtype=np.uint16).view(float16).astype(float64)
    between = (finite[1:] + finite[:-1]) / 2
    for values in (between * (1 + 2.0**-40), between * (1 - 2.0**-40), -between * (1 + 2.0**-40)):
        result = call(library, "cast_f64_f16", [values], float16)
        np.testing.assert_array_equal(result, values.astype(float16))


def test_random_bits_are_the_references(library: ctypes.CDLL) -> None:
    key = np.array([0x12345678, 0x9ABCDEF0], np.uint32)
    for counter, stream in ((0, 0), (2**40 + 5, 1), (2**64 - 3, 2**33 + 7)):
        out = np.empty(1003, np.uint32)
        library.philox(
            pointer(key), ctypes.c_uint64(counter), ctypes.c_uint64(stream), pointer(out), ctypes.c_int64(1003)
        )
        expected = RANDOM_BITS.numpy(key, np.array(counter, np.uint64), shape=(1003,), stream=stream)
        np.testing.assert_array_equal(out, expected)


# --- speed: the loops are really vectorised -------------------------------------------------------------------------

VECTORISED = {
    float32: [
        "exp",
        "expm1",
        "log",
        "log1p",
        "log2",
        "tanh",
        "sigmoid",
        "erf",
        "erfc",
        "sin",
        "cos",
        "pow",
        "atan",
        "sqrt",
        "maximum",
        "where",
        "round",
    ],
    float64: ["exp", "log", "tanh", "sigmoid", "erf", "sin", "cos", "tan", "pow"],
}


def _is_gcc() -> bool:
    version = subprocess.run([str(COMPILER), "--version"], capture_output=True, text=True).stdout
    return "Free Software Foundation" in version


@pytest.mark.skipif(platform.machine() != "x86_64", reason="asks for AVX2 by name")
def test_loops_vectorise(tmp_path: Path) -> None:
    """gcc says of each function's loop, at its line, that it was vectorised."""
    if not _is_gcc():
        pytest.skip("the report read here is gcc's")
    loops = [
        (f"{name}-{dtype.name}", op_loop(OPS[name], dtype)) for dtype, names in VECTORISED.items() for name in names
    ]
    file = tmp_path / "vectorised.c"
    file.write_text(INCLUDES + "".join(text for _, text in loops))
    said = build(file, ["-march=x86-64-v3", "-fopt-info-vec-optimized", "-o", str(tmp_path / "out.so")])
    lines = set(_vectorised_lines(said))
    # a function takes three lines, and its loop starts on the second
    first = INCLUDES.count("\n") + 2
    scalar = [name for i, (name, _) in enumerate(loops) if first + 3 * i not in lines]
    assert not scalar


def _vectorised_lines(report: str) -> Iterator[int]:
    for line in report.splitlines():
        if "vectorized" in line and "vectorised.c:" in line:
            yield int(line.split("vectorised.c:")[1].split(":")[0])
