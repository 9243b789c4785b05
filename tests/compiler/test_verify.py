"""`verify` finds what a pass at fault would do: a fault of each kind, named by pass, node and the user's line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.compiler.passes import optimize, verify
from wengert.core.errors import CompilerError
from wengert.core.graph import RELEASED, Graph, Node
from wengert.ops import elementwise as e
from wengert.ops import movement as m
from wengert.ops import reduce as r
from wengert.ops.core import literal, placeholder
from wengert.ops.linalg import MATMUL

F32, F64 = wg.float32, wg.float64


def changed(node: Node, **changes: Any) -> Node:
    """A copy of a node with a fault in it."""
    fields = ("op", "sources", "attrs", "shape", "dtype", "device", "tracked", "location")
    return Node(**{**{name: getattr(node, name) for name in fields}, **changes})


def with_last(x: Node, *nodes: Node) -> Graph:
    return Graph([x], [nodes[-1]], nodes=list(nodes))


def shape(x: Node) -> Graph:
    return with_last(x, changed(e.exp(x), shape=(3, 4)))


def dtype(x: Node) -> Graph:
    return with_last(x, changed(e.exp(x), dtype=F64))


def operand_dtypes(x: Node) -> Graph:
    two = literal(2.0, F64)
    return with_last(x, two, changed(x + x, sources=(two, x)))


def unknown_source(x: Node) -> Graph:
    return with_last(x, e.exp(placeholder((4, 3), F32)))


def dropped_node(x: Node) -> Graph:
    return with_last(x, e.exp(e.sin(x)))


def order(x: Node) -> Graph:
    inner = e.sin(x)
    outer = e.exp(inner)
    return Graph([x], [outer], nodes=[outer, inner])


def cycle(x: Node) -> Graph:
    first = e.sin(x)
    second = e.exp(first)
    first.sources = (second,)
    return Graph([x], [second], nodes=[first, second])


def twice(x: Node) -> Graph:
    y = e.sin(x)
    return Graph([x], [y], nodes=[y, y])


def output(x: Node) -> Graph:
    return Graph([x], [e.sin(x)], nodes=[])


def device(x: Node) -> Graph:
    there = changed(e.sin(x), device="cuda")
    return with_last(x, there, changed(e.exp(there), device="cpu"))


def released(x: Node) -> Graph:
    return with_last(x, changed(e.exp(x), sources=RELEASED))


def attribute(x: Node) -> Graph:
    return with_last(x, changed(r.sum(x), attrs={"axes": (np.int64(0), np.int64(1)), "keepdims": False}))


def missing_attribute(x: Node) -> Graph:
    return with_last(x, changed(r.sum(x), attrs={"axes": (0, 1)}))


def axes(x: Node) -> Graph:
    return with_last(x, changed(r.sum(x), attrs={"axes": (0, 2), "keepdims": False}))


def reshape(x: Node) -> Graph:
    return with_last(x, m.RESHAPE(x, shape=(5, 3)))


def broadcast(x: Node) -> Graph:
    return with_last(x, m.BROADCAST(x, shape=(4, 6)))


def permute(x: Node) -> Graph:
    return with_last(x, m.PERMUTE(x, axes=(0, 0)))


def out_of_range(x: Node) -> Graph:
    return with_last(x, m.SLICE(x, starts=(2, 0), steps=(1, 1), sizes=(3, 3)))


def placed_outside(x: Node) -> Graph:
    return with_last(x, m.PLACE(x, shape=(4, 4), starts=(0, 2), steps=(1, 1)))


def condition(x: Node) -> Graph:
    return with_last(x, changed(e.where(e.isnan(x), x, x), sources=(x, x, x)))


def product(x: Node) -> Graph:
    good = MATMUL(x, m.matrix_transpose(x))
    return with_last(x, changed(good, sources=(x, x)))


FAULTS: dict[Callable[[Node], Graph], str] = {
    shape: "should have shape",
    dtype: "should be float32",
    operand_dtypes: "operands of dtypes",
    unknown_source: "no input, no constant and not computed before",
    dropped_node: "no input, no constant and not computed before",
    order: "not computed before",
    cycle: "not computed before",
    twice: "twice",
    output: "never computed",
    device: "on cpu reads",
    released: "freed",
    attribute: "no plain value",
    missing_attribute: "does not fit its sources",
    axes: "has axes",
    reshape: "has not as many elements",
    broadcast: "broadcasts to",
    permute: "has axes",
    out_of_range: "goes out of shape",
    placed_outside: "goes out of shape",
    condition: "no boolean",
    product: "matmul: shapes",
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_fault_is_found_and_named(fault):
    x = placeholder((4, 3), F32)
    with pytest.raises(CompilerError) as caught:
        verify(fault(x), "lookahead")
    text = str(caught.value)
    assert FAULTS[fault] in text and "after lookahead" in text and "test_verify.py:" in text


def a_graph() -> Graph:
    x, y = placeholder((4, 3), F32), placeholder((4, 3), F32)
    return Graph([x, y], [e.exp(x), x + y])


def test_a_pass_that_drops_an_output_is_named():
    def forgets(graph, target):
        return Graph(graph.inputs, graph.outputs[:1], nodes=graph.nodes)

    with pytest.raises(CompilerError, match="after forgets: there are 1 outputs, before 2"):
        optimize(a_graph(), passes=[forgets])


def test_a_pass_is_named_though_another_comes_after_it_and_fails_for_it():
    def forgets(graph, target):
        return Graph(graph.inputs, graph.outputs[:1], nodes=graph.nodes)

    def looks(graph):
        return Graph(graph.inputs, [graph.outputs[1]], nodes=graph.nodes)

    for then in (lambda graph: graph, looks):
        with pytest.raises(CompilerError, match="after forgets: there are 1 outputs, before 2"):
            optimize(a_graph(), passes=[forgets, then])


def test_an_error_of_a_pass_stays_what_it_is():
    def divides(graph, target):
        return graph if 1 / 0 else None

    with pytest.raises(ZeroDivisionError):
        optimize(a_graph(), passes=[divides])


def test_a_pass_that_exchanges_outputs_of_other_types_is_named():
    x = placeholder((4, 3), F32)
    graph = Graph([x], [e.exp(x), r.sum(x)])

    def exchanges(graph, target):
        return Graph(graph.inputs, graph.outputs[::-1], nodes=graph.nodes)

    with pytest.raises(CompilerError, match=r"after exchanges: .* is output 0, which was float32"):
        optimize(graph, passes=[exchanges])


def test_a_pass_that_changes_the_inputs_is_named():
    def swaps(graph, target):
        return Graph(graph.inputs[::-1], graph.outputs, nodes=graph.nodes)

    with pytest.raises(CompilerError, match="inputs are not those"):
        optimize(a_graph(), passes=[swaps])


def test_what_is_right_passes_unchanged():
    graph = a_graph()
    assert verify(graph) is graph
