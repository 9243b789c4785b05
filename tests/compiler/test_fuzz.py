"""Random graphs through the whole compiler: what is compiled gives what is interpreted, whatever passes are off."""

from __future__ import annotations

import pytest

from tests.compiler import fuzz
from tests.compiler.wide_graphs import wide_graph
from wengert.backends.toolchain import compiler
from wengert.kernels import c

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C compiler to build kernels with")

BLOCKS = 15


@pytest.mark.parametrize("block", range(BLOCKS))
def test_compiled_equals_interpreted(block: int) -> None:
    failures = list(fuzz.fuzz(range(fuzz.UNIT * block, fuzz.UNIT * (block + 1))))
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
    start = c._Writer._start
    monkeypatch.setattr(c._Writer, "_start", lambda self, total: "0" if total.kind == "max" else start(self, total))
    seeds = [s for s in range(60) if any(n.op.name == "max" for n in wide_graph(s).graph.nodes)]
    failure = next(f for seed in seeds for f in fuzz.check_unit([seed], ()))
    small = fuzz.minimised(failure)
    assert len(small.sample.graph.nodes) <= 4
    assert "ops['max']" in str(small) and "x0: " in str(small)
