"""Random graphs through the whole compiler: what is compiled gives what is interpreted, whatever passes are off."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.compiler import fuzz
from tests.compiler.loop_graphs import loop_graph
from tests.compiler.wide_graphs import wide_graph
from wengert.backends.cpu.program import build
from wengert.backends.cpu.toolchain import compiler
from wengert.core.graph import Graph, Node
from wengert.kernels import c
from wengert.kernels.matmul.c import packs
from wengert.ops import elementwise as e
from wengert.ops import gather as g
from wengert.ops import movement as m
from wengert.ops import reduce as r
from wengert.ops.core import cast, data, literal, placeholder

pytestmark = [
    pytest.mark.skipif(compiler() is None, reason="there is no C compiler to build kernels with"),
    pytest.mark.usefixtures("quick_builds"),
]

BLOCKS = 10


@pytest.mark.parametrize("block", range(BLOCKS))
def test_compiled_equals_interpreted(block: int) -> None:
    failures = list(fuzz.fuzz(range(fuzz.UNIT * block, fuzz.UNIT * (block + 1))))
    assert not failures, "\n\n".join(str(fuzz.minimised(failure)) for failure in failures)


@pytest.mark.parametrize("block", range(2))
def test_compiled_loops_equal_interpreted_ones(block: int) -> None:
    failures = list(fuzz.fuzz(range(fuzz.UNIT * block, fuzz.UNIT * (block + 1)), loop_graph))
    assert not failures, "\n\n".join(str(fuzz.minimised(failure)) for failure in failures)


def test_graphs_are_wide() -> None:
    """Among the graphs of the test above there are all real dtypes, empty arrays, and every kind of op."""
    nodes = [node for seed in range(fuzz.UNIT * BLOCKS) for node in wide_graph(seed).graph.nodes]
    dtypes = {dtype.name for node in nodes for dtype in (node.dtype if isinstance(node.dtype, tuple) else [node.dtype])}
    assert {"bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"} <= dtypes
    assert {"float16", "bfloat16", "float32", "float64"} <= dtypes
    assert any(not isinstance(node.dtype, tuple) and node.size == 0 for node in nodes)
    names = {node.op.name for node in nodes}
    assert {"gather", "take_along", "scan", "cumsum", "concat", "place", "slice", "flip", "argmax", "prod"} <= names
    assert len(names) > 55


def test_a_failure_is_made_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a maximum that starts from 0, a graph fails that is cut down to a few nodes around the maximum."""
    start = c.source.Writer._start
    monkeypatch.setattr(
        c.source.Writer, "_start", lambda self, total: "0" if total.kind == "max" else start(self, total)
    )
    seeds = [s for s in range(60) if any(n.op.name == "max" for n in wide_graph(s).graph.nodes)]
    failure = next(f for seed in seeds for f in fuzz.check_unit([seed], ()))
    small = fuzz.minimised(failure)
    assert len(small.sample.graph.nodes) <= 4
    assert "ops['max']" in str(small) and "x0: " in str(small)


# --- what it found ----------------------------------------------------------------------------------------------------


def same(outputs: list[Node], inputs: list[Node], *arrays: np.ndarray) -> None:
    """Compiled as it was recorded, the graph gives what its references do."""
    graph = Graph(inputs, outputs)
    for found, expected in zip(build(graph)(arrays), graph(*arrays), strict=True):
        np.testing.assert_allclose(found.astype(np.float64), expected.astype(np.float64), rtol=1e-5, atol=1e-6)


def test_a_product_of_no_matrices_writes_nothing() -> None:
    """A batch of none was taken for a single product, whose tiles were written past an array of no elements."""
    x, y = placeholder((0, 130, 140), wg.float32), placeholder((0, 140, 130), wg.float32)
    both = x @ y
    assert packs(both) is None
    same([both, e.exp(both)], [x, y], np.zeros(x.shape, np.float32), np.zeros(y.shape, np.float32))


def test_a_scatter_by_its_reference_reads_the_zeros() -> None:
    """The C kernel does not, so they were not stored, for dtypes without one either."""
    values = placeholder((3,), wg.bfloat16)
    zeros = m.broadcast_to(literal(0, wg.bfloat16), (5,))
    added = g.index_add(zeros, 0, data(np.array([0, 2, 2])), values)
    same([added], [values], np.ones(3, wg.bfloat16))


def test_rows_that_are_kept_are_worked_on_one_at_a_time() -> None:
    """Lanes were chosen by the loads alone, and have no memory for a row."""
    x, column = placeholder((2, 1), wg.bool), placeholder((3, 1), wg.float32)
    weights = e.exp(cast(m.place(x, (3, 3), (0, 1), (1, 2)), wg.float32) - column)
    shares = weights / r.SUM(weights, axes=(1,), keepdims=True)
    same([shares], [x, column], np.array([[True], [False]]), np.ones((3, 1), np.float32))


def test_a_value_behind_a_guard_is_no_row_scalar() -> None:
    """It was computed once a row, from operands that are loaded where the guard holds."""
    x, a, b = placeholder((8,), wg.float32), placeholder((), wg.float32), placeholder((), wg.float32)
    laid = m.place(m.reshape(e.multiply(a, b), (1,)), (8,), (0,), (1,))
    scaled = laid + e.exp(x - r.MAX(x, axes=(0,), keepdims=True))
    numbers = [np.asarray(n, np.float32) for n in (2, 3)]
    same([scaled], [x, a, b], np.arange(8, dtype=np.float32), *numbers)


@pytest.mark.parametrize("extreme", [wg.max, wg.min])
@pytest.mark.parametrize("length", [7, 300])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_a_maximum_finds_itself_in_its_derivative(dtype: str, length: int, extreme: Any) -> None:
    """What it was taken of was computed twice, once with `a * b + c` as one rounding: no element was the maximum."""
    rng = np.random.default_rng(0)
    a, b, c = (wg.tensor(rng.standard_normal((200, length)), getattr(wg, dtype)) for _ in range(3))

    def gradients(*leaves: wg.Tensor) -> Any:
        def function(a: wg.Tensor, b: wg.Tensor, c: wg.Tensor) -> tuple[wg.Tensor, wg.Tensor]:
            return extreme(a * b + c, axis=-1), wg.maximum(a * b, 0.1)

        return wg.vjp(function, *leaves)[1](tuple(map(wg.ones_like, function(*leaves))))

    shares = wg.compile(gradients)(a, b, c)[2].numpy().astype(np.float64)
    np.testing.assert_allclose(shares.sum(axis=-1), 1, rtol=0.01)
