"""GPU kernels for running sums, products and extremes, using those of running.cuh.

A text fixes the operation and the dtype; sizes are arguments, so it serves all shapes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from wengert.core.dtypes import COMPLEX, bool_, complex64
from wengert.core.graph import Node
from wengert.kernels.launch import Argument, DeviceProperties, Launch, LaunchList, Named
from wengert.kernels.sort.rows import AxisRows, rows_of
from wengert.kernels.writer import narrowed, scalar_type, stored_type, widened
from wengert.ops.op import Op
from wengert.ops.running import CUMARGMAX, CUMARGMIN, CUMPROD, CUMSUM, LOGCUMSUMEXP

THREADS = 256
GROUP = 128  # tiles; as running.cuh has it
TINY = 16  # elements of a row that one thread joins
_FEW_INDICES = 1 << 31

DType = np.dtype[Any]


@dataclass(frozen=True)
class Running:
    """The operation of a text: lines of the struct RUN of running.cuh, and the bytes of a state."""

    lines: str
    size: int  # bytes of a state
    parameters: str  # of the kernels, beside what all have
    fields: str  # of the struct, as the parameters fill them

    @property
    def chunks(self) -> int:
        """Chunks of 128 elements that a warp holds in its registers."""
        return {4: 8, 8: 4}.get(self.size, 2)

    @property
    def tile(self) -> int:
        """Elements of a block."""
        return THREADS * 4 * self.chunks


def running(node: Node, named: Named, device: DeviceProperties) -> LaunchList | None:
    """A running op along an axis."""
    (x,) = node.sources
    rows = rows_of(x, node.attrs["axis"])
    joined = _JOINED.get(node.op)
    if joined is None or (x.dtype in COMPLEX and node.op not in (CUMSUM, CUMPROD)):
        return None
    if not node.size:
        return LaunchList(())
    state = joined(x.dtype, rows.size)
    run = values(state, x.dtype, node.dtype, bool(node.attrs.get("backwards")))
    wide = rows.size % 4 == 0 or (rows.count == 1 and not node.attrs.get("backwards"))
    return scan(run, rows, [named(x), named(node)], wide, device)


# --- what is joined --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class State:
    """A C++ type with a neutral element and a way to join two; how an element becomes one, and one an element."""

    kind: str
    size: int
    none: str
    join: str  # of a, which is earlier, and b
    enter: str  # of value, and its place in the row
    made: str  # of s
    before: str = ""  # definitions


def _wrapping(dtype: DType) -> str:
    """The type that integers are added in: it wraps around as they do."""
    return "uint64_t" if dtype.itemsize == 8 else "uint32_t"


def _arithmetic(sign: str, none: str) -> Any:
    def state(dtype: DType, size: int) -> State:
        if dtype in COMPLEX:
            return _complex(dtype, sign)
        if dtype.kind in "iub":
            made = "s != 0" if dtype is bool_ else f"({stored_type(dtype)})s"
            kind = _wrapping(dtype)
            return State(
                kind, 8 if dtype.itemsize == 8 else 4, f"({kind}){none}", f"a {sign} b", f"({kind})value", made
            )
        kind = scalar_type(dtype)
        neutral = f"({kind})-0.0" if sign == "+" else f"({kind})1"  # x + -0 is x, of -0 too
        size_of = 8 if kind == "double" else 4
        return State(kind, size_of, neutral, f"a {sign} b", widened(dtype, "value"), narrowed(dtype, "s"))

    return state


def _complex(dtype: DType, sign: str) -> State:
    part, size = ("float", 8) if dtype is complex64 else ("double", 16)
    join = "wg_pair{a.re + b.re, a.im + b.im}"
    if sign == "*":
        join = "wg_pair{a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re}"
    none = "wg_pair{-0.0, -0.0}" if sign == "+" else "wg_pair{1, 0}"
    before = f"struct __align__({size}) wg_pair {{\n    {part} re, im;\n}};\n"
    return State("wg_pair", size, none, join, "value", "s", before)


def _log_sum(dtype: DType, size: int) -> State:
    kind = scalar_type(dtype)
    function = "wg_logaddexp_f64" if kind == "double" else "wg_logaddexp_f32"
    bytes_of = 8 if kind == "double" else 4
    none = f"-({kind})WG_INF_{'f64' if bytes_of == 8 else 'f32'}"
    return State(kind, bytes_of, none, f"{function}(a, b)", widened(dtype, "value"), narrowed(dtype, "s"))


def _extreme(sign: str) -> Any:
    """Where the extreme so far is: the last of equals, and NaN before all else."""

    def state(dtype: DType, size: int) -> State:
        kind, index = scalar_type(dtype), "int" if size < _FEW_INDICES else "wg_long"
        best = kind if dtype.itemsize >= 4 or kind == "float" else "int"
        bytes_of = 8 if index == "int" and best not in ("double", "int64_t", "uint64_t") else 16
        before = f"struct __align__({bytes_of}) wg_best {{\n    {best} best;\n    {index} at;\n}};\n"
        keeps_a = f"b.at < 0 || (a.at >= 0 && b.best == b.best && !(b.best {sign}= a.best))"
        enter = f"wg_best{{({best}){widened(dtype, 'value')}, ({index})p}}"
        return State("wg_best", bytes_of, f"wg_best{{({best})0, -1}}", f"{keeps_a} ? a : b", enter, "s.at", before)

    return state


_JOINED: dict[Op, Any] = {
    CUMSUM: _arithmetic("+", "0"),
    CUMPROD: _arithmetic("*", "1"),
    LOGCUMSUMEXP: _log_sum,
    CUMARGMAX: _extreme(">"),
    CUMARGMIN: _extreme("<"),
}


def values(state: State, dtype: DType, result: DType, backwards: bool) -> Running:
    """The conversion of each element."""
    raw = "wg_pair" if dtype in COMPLEX else stored_type(dtype)
    made = "wg_pair" if dtype in COMPLEX else stored_type(result)
    lines = f"""{state.before}
struct wg_run {{
    typedef {state.kind} state;
    typedef {raw} raw;
    typedef {made} result;
    static constexpr bool READS = true, VALUES = true, BACK = {str(backwards).lower()};
    const raw *x;
    result *y;
{_neutral(state)}
    static __device__ __forceinline__ state enter(raw value, wg_long p) {{ return {state.enter}; }}
    static __device__ __forceinline__ result made(state s) {{ return {state.made}; }}
}};
"""
    return Running(lines, state.size, f"const {raw} *x, {made} *y", "x, y")


def _neutral(state: State) -> str:
    return f"""    static __device__ __forceinline__ state none() {{ return {state.none}; }}
    static __device__ __forceinline__ state join(state a, state b) {{ return {state.join}; }}"""


# --- launches --------------------------------------------------------------------------------------------------------


def scan(run: Running, rows: AxisRows, operands: list[Argument], wide: bool, device: DeviceProperties) -> LaunchList:
    """A scan along rows: by tiles where they are few and long, by warps where many, by threads along other axes."""
    if rows.inner > 1 or rows.size <= TINY:
        return _by_threads(run, rows, operands, device)
    if rows.size <= 4 * 128 or rows.count >= 4 * device.sms * THREADS // device.warp:
        return _by_warps(run, rows, operands, wide, device)
    return _by_tiles(run, rows, operands, wide, device)


def _text(run: Running, kernels: str) -> str:
    return f'#include "math.cuh"\n#include "running.cuh"\n\n{run.lines}{kernels}'


def _cpp(value: bool) -> str:
    return "true" if value else "false"


def _by_tiles(
    run: Running, rows: AxisRows, operands: list[Argument], wide: bool, device: DeviceProperties
) -> LaunchList:
    tiles = -(-rows.size // run.tile)
    told = rows.count * (tiles + -(-tiles // GROUP))
    words = 1 + (told if run.size <= 4 else (told + 1) // 2)  # marks, which are cleared; larger states come behind them
    text = _text(
        run,
        f"""
extern "C" __global__ void wg_clear_told(uint64_t *words, wg_long count)
{{
    wg_run_clear(words, count);
}}

extern "C" __global__ void __launch_bounds__({THREADS})
wg_running({run.parameters}, uint64_t *words, int rows, int tiles, wg_long n)
{{
    wg_run_tiles<wg_run, {THREADS}, {run.chunks}, {_cpp(wide)}>(wg_run{{{run.fields}}}, words, rows, tiles, n);
}}
""",
    )
    space = 8 * words + (0 if run.size <= 4 else told * run.size)
    blocks = max(1, min(-(-words // 256), 16 * device.sms))
    clear = Launch(text, "wg_clear_told", (blocks, 1, 1), (256, 1, 1), ("wg_told", np.int64(words)))
    numbers = (np.int32(rows.count), np.int32(tiles), np.int64(rows.size))
    why = f"a tile of {run.tile} elements to a block"
    given = (*operands, "wg_told", *numbers)
    launch = Launch(text, "wg_running", (rows.count * tiles, 1, 1), (THREADS, 1, 1), given, why=why)
    return LaunchList((clear, launch), {"wg_told": space})


def _by_warps(
    run: Running, rows: AxisRows, operands: list[Argument], wide: bool, device: DeviceProperties
) -> LaunchList:
    chunks = next(n for n in (1, 2, 4, run.chunks) if 128 * n >= rows.size or n == run.chunks)
    text = _text(
        run,
        f"""
extern "C" __global__ void __launch_bounds__({THREADS}) wg_running_rows({run.parameters}, wg_long rows, wg_long n)
{{
    wg_run_rows<wg_run, {chunks}, {_cpp(wide)}>(wg_run{{{run.fields}}}, rows, n);
}}
""",
    )
    blocks = min(-(-rows.count * device.warp // THREADS), 32 * device.sms)
    given = (*operands, np.int64(rows.count), np.int64(rows.size))
    launch = Launch(text, "wg_running_rows", (blocks, 1, 1), (THREADS, 1, 1), given, why="a row to a warp")
    return LaunchList((launch,))


def _by_threads(run: Running, rows: AxisRows, operands: list[Argument], device: DeviceProperties) -> LaunchList:
    parts = max(1, min(device.threads // rows.count, rows.size // 32))
    text = _text(
        run,
        f"""
typedef wg_run::state wg_state;

extern "C" __global__ void wg_line_totals({run.parameters}, wg_state *of_parts, wg_long lines, wg_long n, wg_long inner,
                                          int parts)
{{
    wg_run_lines<wg_run, true>(wg_run{{{run.fields}}}, of_parts, lines, n, inner, parts);
}}

extern "C" __global__ void wg_before_parts(wg_state *of_parts, wg_long lines, wg_long inner, int parts)
{{
    wg_run_parts<wg_run>(of_parts, lines, inner, parts);
}}

extern "C" __global__ void wg_running_lines({run.parameters}, wg_state *of_parts, wg_long lines, wg_long n,
                                            wg_long inner, int parts)
{{
    wg_run_lines<wg_run, false>(wg_run{{{run.fields}}}, of_parts, lines, n, inner, parts);
}}
""",
    )
    lines, n, inner = (np.int64(number) for number in (rows.count, rows.size, rows.inner))
    given = (*operands, "wg_parts", lines, n, inner, np.int32(parts))

    def grid(threads: int) -> tuple[int, int, int]:
        return max(1, min(-(-threads // THREADS), 16 * device.sms)), 1, 1

    block = (THREADS, 1, 1)
    why = f"{parts} parts to a line"
    launches = [Launch(text, "wg_running_lines", grid(rows.count * parts), block, given, why=why)]
    if parts > 1:
        totals = Launch(text, "wg_line_totals", grid(rows.count * parts), block, given, why=why)
        between = ("wg_parts", lines, inner, np.int32(parts))
        launches = [totals, Launch(text, "wg_before_parts", grid(rows.count), block, between), *launches]
    return LaunchList(tuple(launches), {"wg_parts": rows.count * parts * run.size})
