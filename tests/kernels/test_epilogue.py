"""The epilogue of a matrix product on a CUDA device: from a fused group to C++, run by the emulator."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.kernels.emulator import Emulator, compiler
from tests.kernels.headers import pasted
from tests.kernels.test_gemm import product, values
from wengert.core.dtypes import float32
from wengert.kernels.ir.index import Index, Loop, variable
from wengert.kernels.ir.loops import Accumulate, Load, LoopKernel, Stage, Store, let, literal
from wengert.kernels.launch import RTX_2080
from wengert.kernels.matmul.cuda import Tile, epilogue, write
from wengert.ops.elementwise import add, maximum

ROWS, COLUMNS = Loop("i0", 6), Loop("i1", 8)
HERE = Index(((ROWS, 8), (COLUMNS, 1)))


def kernel(*inside: Any, outer: Any = (ROWS, COLUMNS)) -> LoopKernel:
    buffers = {"c": (float32, False), "bias": (float32, False), "out": (float32, True)}
    return LoopKernel("kernel", list(outer), [], [Stage([], list(inside))], [], buffers)


BIASED = (
    Load("v0", "c", float32, HERE),
    Load("v1", "bias", float32, variable(COLUMNS)),
    let("v2", float32, add, "v0", "v1"),
    let("v3", float32, maximum, "v2", literal(0, float32)),
    Store("out", float32, HERE, "v3"),
)


@pytest.mark.skipif(compiler() is None, reason="the emulator needs g++")
@pytest.mark.parametrize("stored", [False, True])
def test_bias_and_relu_in_the_epilogue(stored: bool) -> None:
    made = epilogue(kernel(*BIASED), "c", float32, 6, 8, stored)
    assert made is not None and ("c" in made.buffers) == stored
    p = product((6, 8, 5), (False, False), float32, epilogue=made)
    work = pasted(write(p, Tile("small", 16, 16, 32, warps=2), RTX_2080))
    arrays, exact = values(p, (False, False))
    arrays |= {"bias": np.arange(8, dtype=np.float32), "out": np.zeros((6, 8), np.float32)}
    Emulator([work]).run(work, arrays)
    np.testing.assert_array_equal(arrays["out"], np.maximum(exact + arrays["bias"], 0))
    np.testing.assert_array_equal(arrays["c"], exact if stored else 0)


def test_what_is_not_an_epilogue() -> None:
    transposed = Load("v0", "c", float32, Index(((ROWS, 1), (COLUMNS, 8))))
    assert epilogue(kernel(transposed, Store("out", float32, HERE, "v0")), "c", float32, 6, 8) is None
    assert epilogue(kernel(BIASED[0], Accumulate("r0", "sum", float32, "v0")), "c", float32, 6, 8) is None
