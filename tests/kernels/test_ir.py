"""The loop IR: statements are data, transforms match ops, and only the writers make text."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.kernels.cuda_graphs import CudaGraph
from tests.kernels.emulator import compiler as cpp_compiler
from wengert.backends.cpu.toolchain import compiler
from wengert.compiler.passes import optimize
from wengert.core.dtypes import bfloat16, bool_, float32, float64, int64
from wengert.core.graph import Graph, now
from wengert.kernels import c, cuda
from wengert.kernels.cuda.rewrites import one_pass_variance, with_fast_exponentials, with_reciprocals
from wengert.kernels.cuda.shapes import Rows
from wengert.kernels.ir.index import Index, Loop, Symbol, constant, variable
from wengert.kernels.ir.intrinsics import COPY, DIVIDE_BY_RECIPROCAL, SHIFTED_MEAN
from wengert.kernels.ir.loops import Accumulate, Let, Load, LoopKernel, Stage, Store, let, literal
from wengert.kernels.ir.transforms import Fresh, renamed, statements_of, uses, written_out
from wengert.kernels.launch import H200, RTX_2080, Number
from wengert.kernels.writer import CUDA, HEADER, C, expression, functions
from wengert.ops import elementwise as e
from wengert.ops import registry
from wengert.ops.core import placeholder

ROWS, COLUMNS = 32, 4096


# --- matching ---------------------------------------------------------------------------------------------------------


def test_uses_and_names_of_statements() -> None:
    value = let("v3", float32, e.add, "v1", literal(2, float32))
    assert uses(value) == ["v1"] and uses(Store("b", float32, Index(()), literal(0, float32))) == []
    assert renamed(value, lambda name: f"{name}0") == let("v30", float32, e.add, "v10", literal(2, float32))
    total = renamed(Accumulate("r0", "sum", float32, "v3"), lambda name: f"{name}0")
    assert total == Accumulate("r00", "sum", float32, "v30")
    assert Fresh([value, total]).name() == "v4"


def test_literals_are_compared_by_their_bits() -> None:
    assert literal(0.0, float32) != literal(-0.0, float32)
    assert literal(float("nan"), float64) == literal(float("nan"), float64)
    assert literal(1, float32) != literal(1, float64)


def test_values_written_out_are_equal_whatever_their_names() -> None:
    def made(first: str, second: str, by: float) -> Any:
        load = Load(first, "b", float32, Index(()))
        product = let(second, float32, e.multiply, first, literal(by, float32))
        return written_out(second, {first: load, second: product})

    assert made("v1", "v2", 2) == made("v7", "v8", 2) != made("v1", "v2", 3)


# --- text is made by the writers --------------------------------------------------------------------------------------


def test_one_statement_in_both_dialects() -> None:
    half = Let("v2", bfloat16, e.exp, ("v1",), bfloat16, fast=True)
    assert (expression(half, C), expression(half, CUDA)) == ("wg_exp_f32(v1)", "wg_quick_exp_f32(v1)")
    index = let("v2", int64, registry["checked_index"], "v1", attributes={"size": 5})
    assert expression(index, C) == "wg_checked_index(v1, 5)"
    assert expression(index, CUDA) == "wg_checked_index(wg_error, v1, 5)"


def test_templates_name_functions_by_fields() -> None:
    """What a template calls is found by its fields: one with the name in it would be called unnoticed."""
    for op in registry.values():
        templates = op.c.values() if isinstance(op.c, dict) else [op.c or ""]
        assert not [template for template in templates if "wg_" in template], op.name
    gelu = registry["gelu_slope"]
    assert set(functions(gelu, float32)) == {"sigmoid", "safe_multiply"}
    assert functions(e.add, float32) == () and functions(registry["cast"], float32, {"dtype": int64}) == ("f32_to_i64",)


# --- transforms match ops ---------------------------------------------------------------------------------------------


def kernel_of(function: Callable[[Any], Any], dtype: Any = wg.float32, columns: int = COLUMNS) -> LoopKernel:
    """The kernel of a function of rows."""
    kernels: list[LoopKernel] = []

    def noted(kernel: LoopKernel) -> Any:
        kernels.append(kernel)
        return cuda.write(kernel, H200)

    CudaGraph(graph_of(function, dtype, columns), noted)
    return kernels[0]


def graph_of(function: Callable[[Any], Any], dtype: Any = wg.float32, columns: int = COLUMNS) -> Graph:
    """A function of rows."""
    since = now()
    x = placeholder((ROWS, columns), dtype)
    return optimize(Graph([x], [function(wg.Tensor(x)).node], since))[0]


def layernorm(x: Any) -> Any:
    centred = x - x.mean(axis=1, keepdims=True)
    return centred / wg.sqrt((centred * centred).mean(axis=1, keepdims=True) + 0.1)


def ops_of(kernel: LoopKernel) -> list[Any]:
    return [s.op for s in statements_of(kernel) if isinstance(s, Let)]


@pytest.mark.skipif(cpp_compiler() is None, reason="graphs for the emulator need g++")
@pytest.mark.parametrize("blanks", [True, False], ids=["as it is", "without blanks"])
def test_transforms_do_not_depend_on_the_spelling_of_templates(blanks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """One-pass variances, reciprocals and fast exponentials, whatever an op's C looks like."""
    if not blanks:
        for op in (e.add, e.subtract, e.multiply, e.divide, e.square, registry["where"], registry["equal"]):
            texts = op.c if isinstance(op.c, dict) else {"fiub": op.c}
            monkeypatch.setattr(op, "c", {kinds: "".join(text.split(" ")) for kinds, text in texts.items()})
        assert "({0}-{1})" in e.subtract.c.values()
    found = with_reciprocals(one_pass_variance(kernel_of(layernorm)))
    assert SHIFTED_MEAN in ops_of(found) and len(found.stages) == 2
    assert DIVIDE_BY_RECIPROCAL in ops_of(found) and e.divide not in ops_of(found)
    half = with_fast_exponentials(kernel_of(lambda x: wg.softmax(x, axis=1), wg.bfloat16))
    assert any(s.fast for s in statements_of(half) if isinstance(s, Let) and s.op is registry["exp"])


@pytest.mark.skipif(cpp_compiler() is None, reason="graphs for the emulator need g++")
def test_a_mean_of_nothing_is_left_as_it_is() -> None:
    """Loops over no elements: there is no number of them to divide by."""
    kernel = kernel_of(layernorm, columns=0)
    assert one_pass_variance(kernel).stages == kernel.stages


@pytest.mark.skipif(cpp_compiler() is None, reason="graphs for the emulator need g++")
def test_deviations_from_what_is_no_mean_take_two_passes() -> None:
    """Half a sum is no mean, and neither is a sum over another number of elements."""

    def apart(x: Any) -> Any:
        off = x - x.sum(axis=1, keepdims=True) * 0.5
        return (off * off).sum(axis=1)

    kernel = kernel_of(apart)
    assert len(one_pass_variance(kernel).stages) == len(kernel.stages) == 2
    program = CudaGraph(graph_of(apart), lambda kernel: cuda.write(kernel, H200, Rows(4, 256, 1, 0)))
    x = np.random.default_rng(0).normal(1, 1, (ROWS, COLUMNS)).astype(np.float32)
    np.testing.assert_allclose(program.run([x])[0], ((x - x.sum(1, keepdims=True) / 2) ** 2).sum(1), rtol=1e-4)


# --- symbolic extents -------------------------------------------------------------------------------------------------

N = Symbol("n", 1 << 20)


def scaled_rows(count: Any) -> LoopKernel:
    """Rows of 8 elements less their sums, as many as an argument says."""
    row, column = Loop("i0", count), Loop("i1", 8)
    at = Index(((row, 8), (column, 1)))
    stages = [
        Stage([], [Load("v1", "x", float32, at), Accumulate("r0", "sum", float32, "v1")]),
        Stage(
            [],
            [Load("v2", "x", float32, at), let("v3", float32, e.subtract, "v2", "r0"), Store("y", float32, at, "v3")],
        ),
    ]
    return LoopKernel(
        "kernel", [row], [column], stages, [], {"x": (float32, False), "y": (float32, True)}, ops=("subtract",)
    )


def doubled(count: Any) -> LoopKernel:
    """Twice as much of each element."""
    along = Loop("i0", count)
    inside = [
        Load("v1", "x", float32, variable(along)),
        let("v2", float32, e.multiply, literal(2, float32), "v1"),
        Store("y", float32, variable(along), "v2"),
    ]
    return LoopKernel(
        "kernel", [along], [], [Stage([], inside)], [], {"x": (float32, False), "y": (float32, True)}, ops=("multiply",)
    )


@pytest.mark.skipif(compiler() is None, reason="there is no C compiler")
@pytest.mark.parametrize("make", [scaled_rows, doubled])
def test_c_of_a_symbolic_extent_runs_at_any_size(make: Callable[[Any], LoopKernel], tmp_path: Path) -> None:
    function = c.write(make(N))
    assert function.parameters[-1] == "long n" and "i0 < n" in function.named("run")
    head = '#include <math.h>\n#include <stdint.h>\n#include <string.h>\n#include "math.h"\n#define KERNEL void\n'
    (tmp_path / "unit.c").write_text(head + function.named("run"))
    command = [
        str(compiler()),
        "-O1",
        "-fopenmp",
        "-shared",
        "-fPIC",
        f"-I{HEADER.parent}",
        "unit.c",
        "-o",
        "unit.so",
        "-lm",
    ]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    run = ctypes.CDLL(str(tmp_path / "unit.so")).run
    run.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_long]
    for count in (3, 17):
        x = np.arange(count * 8, dtype=np.float32).reshape(count, 8)
        y = np.full_like(x, np.nan)
        size = count if make is scaled_rows else x.size
        run(x.ctypes.data, y.ctypes.data, size)
        np.testing.assert_array_equal(y, x - x.sum(axis=1, keepdims=True) if make is scaled_rows else 2 * x)


@pytest.mark.parametrize("device", [H200, RTX_2080], ids=lambda device: f"sm_{device.arch}")
def test_cuda_of_a_symbolic_extent_takes_it_as_an_argument(device: Any) -> None:
    (launch,) = cuda.write(doubled(N), device).launches
    assert "const int n)" in launch.source and "if (at < n)" in launch.source
    assert launch.arguments == ("x", "y", Number("n", 4))
    assert 4 * launch.grid[0] * launch.block[0] >= N.most  # up to four elements a thread
    pytest.importorskip("cuda.bindings.nvrtc", reason="compiling CUDA needs the cuda extra")
    from wengert.backends.cuda.compile import cubin

    assert cubin(launch.source, device.arch)


def test_what_needs_a_number_says_which_extent_has_none() -> None:
    assert constant(5) == 5
    with pytest.raises(TypeError, match="the extent n is not known before the kernel runs"):
        Loop("i0", N).extent
    assert Index(((Loop("i0", N), 2),)).bounds() == (0, 2 * (N.most - 1))
    assert let("v1", bool_, COPY, literal(True, bool_)) in {let("v1", bool_, COPY, literal(1, bool_))}
