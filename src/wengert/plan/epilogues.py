"""Library epilogues: operations that a library applies to a product or convolution before storing it.

In: a graph. Out: the epilogue of each half-precision matrix product whose only use is one: adding a bias, gelu (by
tanh), or multiplying by the slope of gelu at a value in memory, as in its gradient. The result must be a value that
another op reads from memory; a loop that reads it would do the same work in passing. A bias alone is added only where
that saves a pass, that is, where a loop would otherwise add it and store the sum. (Relu is left to loops: some cuBLASLt
algorithms turn NaN into 0.)

After a convolution cuDNN takes a chain of elementwise ops, if nothing else reads the values in between: inference batch
norm, a residual, relu. The chain computes in float32 and rounds once. Its other operands are in memory: one number per
channel, or one per element of the convolution.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from wengert.compiler.memory import storage
from wengert.compiler.remat import is_relu
from wengert.compiler.rewrite import spend
from wengert.core.dtypes import HALF, float32
from wengert.core.graph import Graph, Node
from wengert.ops.channels_last import CONVOLVE_LAST
from wengert.ops.core import CAST
from wengert.ops.elementwise import add, gelu_sigmoid, gelu_slope, multiply, safe_multiply, sigmoid, subtract, tanh
from wengert.ops.linalg import MATMUL
from wengert.ops.op import Op
from wengert.ops.reduce import reduces_in_loops
from wengert.plan.plan import How, LibraryEpilogue, Plan

BIAS, GELU, ARGUMENT, SLOPE = "bias", "gelu", "its argument", "the slope of gelu"


def matmul_epilogues(
    graph: Graph,
    is_loop: Callable[[Node], bool],
    operands: Callable[[Node], Iterable[Node]],
    can: Callable[[Node, tuple[str, ...]], bool],
) -> dict[Node, LibraryEpilogue]:
    """The epilogues, by product.

    `operands` gives what an opaque op reads from memory, `can` whether a library supports a product with an epilogue.
    """
    found: dict[Node, LibraryEpilogue] = {}
    readers = readers_of(graph)
    read = {storage(x) for node in graph.nodes if not is_loop(node) for x in operands(node)}
    for form in (_with_slope, _activated, _with_bias):
        for node in graph.nodes:
            product, epilogue = form(node, readers, read) if node in read else (None, None)
            if product is not None and epilogue is not None and product not in found and can(product, epilogue.how):
                found[product] = epilogue
        read.update(x for epilogue in found.values() for x in epilogue.operands)
    return found


def readers_of(graph: Graph) -> dict[Node, list[Node | None]]:
    """The readers of each value; None stands for an output."""
    found: dict[Node, list[Node | None]] = {}
    for node in graph.nodes:
        for source in dict.fromkeys(node.sources):
            found.setdefault(source, []).append(node)
    for node in graph.outputs:
        found.setdefault(node, []).append(None)
    return found


# --- forms ----------------------------------------------------------------------------------------------------------

Readers = Mapping[Node, list[Node | None]]
Found = tuple[Node | None, LibraryEpilogue | None]  # a product, and how a value is finished from it


def _with_slope(node: Node, readers: Readers, read: Container[Node]) -> Found:
    product, at = _times_slope(node)
    if product is None or at is None or len(readers[product]) > 1:
        return None, None
    return product, LibraryEpilogue((SLOPE,), node, (at,))


def _activated(node: Node, readers: Readers, read: Container[Node]) -> Found:
    """Gelu of a product, with or without bias, whose argument has no other reader or is kept."""
    wide = _gelu_of(node)
    product, bias = _summands(wide.sources[0]) if wide is not None else (None, None)
    if wide is None or product is None or (bias is not None and len(readers[product]) > 1):
        return None, None
    (argument,) = wide.sources
    is_kept = argument in read
    if not is_kept and (readers[argument] != [wide] or len(readers[wide]) > 1):
        return None, None
    words = (*([] if bias is None else [BIAS]), GELU, *([ARGUMENT] if is_kept else []))
    return product, LibraryEpilogue(
        words, node, () if bias is None else (storage(bias),), (argument,) if is_kept else ()
    )


def _with_bias(node: Node, readers: Readers, read: Container[Node]) -> Found:
    product, bias = _summands(node)
    if product is None or bias is None or len(readers[product]) > 1:
        return None, None
    return product, LibraryEpilogue((BIAS,), node, (storage(bias),))


def _summands(total: Node) -> tuple[Node | None, Node | None]:
    """The half-precision product below a value, and the row that is added to each of its rows, if any."""
    if total.dtype not in HALF:
        return None, None
    if total.op is MATMUL:
        return total, None
    products = [source for source in total.sources if source.op is MATMUL]
    if total.op is not add or len(products) != 1:
        return None, None
    (product,) = products
    bias = next(source for source in total.sources if source is not product)
    is_a_row = bias.shape[-1:] == product.shape[-1:] == (bias.size,)
    same = bias.dtype is product.dtype is total.dtype and total.shape == product.shape
    return (product, bias) if is_a_row and same else (None, None)


def _gelu_of(node: Node) -> Node | None:
    """The widened value that a half-precision gelu is applied to; None if this is something else."""
    if node.op is not CAST or node.sources[0].op is not gelu_sigmoid:
        return None
    wide = node.sources[0].sources[0]
    return wide if wide.op is CAST and wide.sources[0].dtype is node.dtype else None


def _times_slope(node: Node) -> tuple[Node | None, Node | None]:
    """The half-precision product that is multiplied by the slope of gelu at some value, and that value."""
    if node.op is not CAST or node.dtype not in HALF or node.sources[0].op is not safe_multiply:
        return None, None
    wide, slope = node.sources[0].sources
    if wide.op is not CAST or slope.op is not gelu_slope or slope.sources[0].op is not CAST:
        return None, None
    product, at = wide.sources[0], slope.sources[0].sources[0]
    is_product = product.op is MATMUL and product.shape == at.shape
    return (product, at) if is_product and product.dtype is at.dtype is node.dtype else (None, None)


# --- order ----------------------------------------------------------------------------------------------------------


def with_operands_first(graph: Graph, found: Mapping[Node, LibraryEpilogue]) -> Graph:
    """The graph in an order in which the epilogue's operands precede the product."""
    place = {node: k for k, node in enumerate(graph.nodes)}
    order: dict[Node, None] = {}
    for node in graph.nodes:
        before: set[Node] = set()
        agenda = list(found[node].operands) if node in found else []
        while agenda:
            other = agenda.pop()
            if other in place and other not in order and other not in before:
                before.add(other)
                agenda.extend(other.sources)
        order.update(dict.fromkeys([*sorted(before, key=place.__getitem__), node]))
    return Graph(graph.inputs, graph.outputs, nodes=list(order)) if found else graph


# --- the stage ------------------------------------------------------------------------------------------------------


def library_epilogues(plan: Plan) -> Plan:
    """The plan with its library epilogues, and the graph in an order that allows them."""
    wanted = plan.codegen.epilogues(plan.graph)
    found = {
        node: epilogue
        for node, epilogue in wanted.items()
        if spend(node, lambda node=node: f"a library carries out the epilogue of {node.op.name}")  # type: ignore[misc]
    }
    return replace(plan, epilogues=found, graph=with_operands_first(plan.graph, found))


# --- convolution epilogue -------------------------------------------------------------------------------------------


MOST = 48  # nodes that a convolution takes in
FLOATS = HALF | {float32}
_NAMES: dict[Op, str] = {add: "add", subtract: "sub", multiply: "mul"}
_ROUGH: dict[Op, str] = {sigmoid: "sigmoid", tanh: "tanh"}  # good to half precision


class PointwiseOp(NamedTuple):
    """One of cuDNN's elementwise ops, on numbered values."""

    op: str
    operands: tuple[int, ...]


class PointwiseOps(NamedTuple):
    """A chain of ops on numbered values: 0 is the convolution, then the operands in memory, then the op results.

    Each operand in memory has a dtype and a flag that says whether it is one number per channel.
    """

    given: tuple[tuple[bool, np.dtype[Any]], ...]
    steps: tuple[PointwiseOp, ...]
    result: np.dtype[Any]

    def __str__(self) -> str:
        given = (f"{'channel' if is_channel else 'whole'}:{dtype}" for is_channel, dtype in self.given)
        steps = (f"{op}({','.join(map(str, operands))})" for op, operands in self.steps)
        return f"{' '.join((*given, *steps))} {self.result}"


def convolution_epilogues(
    graph: Graph,
    is_loop: Callable[[Node], bool],
    operands: Callable[[Node], Iterable[Node]],
    can: Callable[[Node, How], bool],
) -> dict[Node, LibraryEpilogue]:
    """The epilogues, by convolution.

    `operands` gives what an opaque op reads from memory, `can` whether cuDNN should run such a chain. When two
    convolutions are added, the later one takes the epilogue of both.
    """
    readers = {
        value: [reader if reader is not None and is_loop(reader) else None for reader in found]
        for value, found in readers_of(graph).items()
    }
    opaque = [node for node in graph.nodes if not is_loop(node) and not reduces_in_loops(node)]
    stored = {storage(x) for node in opaque for x in (node, *operands(node))}
    stored.update(map(storage, (*graph.inputs, *graph.captured(), *graph.outputs)))
    taken: dict[Node, tuple[Node, LibraryEpilogue]] = {}  # by result
    for node in (node for node in reversed(opaque) if node.op is CONVOLVE_LAST):
        epilogue = _epilogue(node, readers, stored)
        if epilogue is not None and epilogue.result not in taken and can(node, epilogue.how):
            taken[epilogue.result] = node, epilogue
    return dict(taken.values())


def _epilogue(
    node: Node, readers: Mapping[Node, Sequence[Node | None]], stored: Container[Node]
) -> LibraryEpilogue | None:
    """The epilogue that cuDNN can run after a forward convolution with channels last; None if there is none.

    `readers` are the loops that read each value, with None for an opaque reader; `stored` values lie in memory.
    """
    inside = {node, *_chain(node, readers)}
    result = max(inside, key=lambda each: each.serial)
    is_float = all(x.dtype in FLOATS for x in (*node.sources, node, result))
    if result is node or storage(result) not in stored or not is_float:
        return None
    return _translated(node, result, inside, stored)


def _chain(node: Node, readers: Mapping[Node, Sequence[Node | None]]) -> Iterator[Node]:
    """The loops after a value, up to the last one through which all readers of earlier values pass."""
    shape = node.shape
    for _ in range(MOST):
        found = [reader for reader in readers.get(node, ()) if reader is not None]
        if not found or len(found) < len(readers[node]):
            return
        *beside, node = sorted(found, key=lambda each: each.serial)  # beside: such as the comparison of relu's
        if node.shape != shape or any(list(readers[each]) != [node] for each in beside):
            return
        yield from found


def _translated(node: Node, result: Node, inside: Container[Node], stored: Container[Node]) -> LibraryEpilogue | None:
    """The ops from a convolution to a result as cuDNN ops; None if cuDNN lacks one of them."""
    taken: dict[Node, tuple[str, Sequence[Node]]] = {}
    leaves: dict[Node, tuple[bool, Node]] = {}
    agenda = [result]
    while agenda:
        each = agenda.pop()
        if each is node or each in taken or each in leaves:
            continue
        leaf = _leaf(each, node, stored) if each not in inside else None
        if leaf is not None:
            leaves[each] = leaf
            continue
        op = _op(each, result.dtype)
        if op is None or each.shape != node.shape or len(taken) == MOST:
            return None
        taken[each] = op
        agenda.extend(op[1])
    return _numbered(node, result, taken, leaves) if any(op for op, _ in taken.values()) else None


def _leaf(value: Node, node: Node, stored: Container[Node]) -> tuple[bool, Node] | None:
    """Whether a value is one number per channel, and where it lies; None if it varies per element."""
    place = _place(value)
    if place.dtype not in FLOATS:
        return None
    if value.shape[-1:] == node.shape[-1:] == (value.size,):
        return True, place
    return (False, place) if value.shape == node.shape and place in stored else None


def _place(value: Node) -> Node:
    """The stored value below reshapes and widening casts."""
    while (value := storage(value)).op is CAST and value.dtype is float32 and value.sources[0].dtype in HALF:
        value = value.sources[0]
    return value


def _op(node: Node, result: np.dtype[Any]) -> tuple[str, Sequence[Node]] | None:
    """The cuDNN name of an op ("" for an identity) and its operands; None if cuDNN has no such op."""
    if node.op is CAST:
        is_float = node.dtype in (FLOATS if result in HALF else {float32}) and node.sources[0].dtype in FLOATS
        return ("", node.sources) if is_float else None
    if is_relu(node):
        return "relu", node.sources[2:]
    names = {**_NAMES, **_ROUGH} if result in HALF else _NAMES
    return (names[node.op], node.sources) if node.op in names else None


def _numbered(
    node: Node,
    result: Node,
    taken: Mapping[Node, tuple[str, Sequence[Node]]],
    leaves: Mapping[Node, tuple[bool, Node]],
) -> LibraryEpilogue:
    """The ops in order, with values replaced by numbers."""
    order = sorted(taken, key=lambda each: each.serial)
    read = (leaves[operand] for each in order for operand in taken[each][1] if operand in leaves)
    extras = {place: is_channel for is_channel, place in read}
    numbers = {place: number for number, place in enumerate(extras, 1)}
    at = {node: 0, **{leaf: numbers[place] for leaf, (_, place) in leaves.items()}}
    steps: list[PointwiseOp] = []
    for each in order:
        op, operands = taken[each]
        if op:
            steps.append(PointwiseOp(op, tuple(at[operand] for operand in operands)))
        at[each] = len(extras) + len(steps) if op else at[operands[0]]
    given = tuple((is_channel, place.dtype) for place, is_channel in extras.items())
    return LibraryEpilogue(PointwiseOps(given, tuple(steps), result.dtype), result, tuple(extras))
