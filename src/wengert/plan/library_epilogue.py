"""Library epilogues: what a library does with a matrix product before it stores it, which saves passes over it.

In: a graph. Out: for each product in half precision whose only use is an epilogue, which one: a bias is added, gelu (by
tanh) applied, or the product multiplied by the slope of gelu at a value that lies in memory, as its gradient is. The
result must be a value that another op reads from memory: a loop that reads it does as much on its way. A bias alone is
added where it saves a pass: where a loop would add it to store the sum. (Relu is left to loops: some algorithms of
cuBLASLt make 0 of NaN.)
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import replace

from wengert.compiler.fuel import spend
from wengert.compiler.storage import storage
from wengert.core.dtypes import HALF
from wengert.core.graph import Graph, Node
from wengert.ops.core import CAST
from wengert.ops.elementwise import add, gelu_sigmoid, gelu_slope, weigh
from wengert.ops.linalg import MATMUL
from wengert.plan.codegen import LibraryEpilogue
from wengert.plan.plan import Plan

BIAS, GELU, ARGUMENT, SLOPE = "bias", "gelu", "its argument", "the slope of gelu"


def matmul_epilogues(
    graph: Graph,
    is_loop: Callable[[Node], bool],
    operands: Callable[[Node], Iterable[Node]],
    can: Callable[[Node, tuple[str, ...]], bool],
) -> dict[Node, LibraryEpilogue]:
    """The epilogues by their products; `operands` says what an op that is no loop reads from memory, `can` whether a
    library carries out a product with an epilogue.
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
    """Who reads each value; None is whoever gets the outputs."""
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
    """Gelu of a product, or of one and a bias, which has no other reader or is kept."""
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
    """The product in half precision that a value is, or that a row is added to each row of for it; and that row."""
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
    """The value of which one in half precision is gelu, widened; None where it is something else."""
    if node.op is not CAST or node.sources[0].op is not gelu_sigmoid:
        return None
    wide = node.sources[0].sources[0]
    return wide if wide.op is CAST and wide.sources[0].dtype is node.dtype else None


def _times_slope(node: Node) -> tuple[Node | None, Node | None]:
    """The product in half precision that a value is the product of with the slope of gelu at a value; and that one."""
    if node.op is not CAST or node.dtype not in HALF or node.sources[0].op is not weigh:
        return None, None
    wide, slope = node.sources[0].sources
    if wide.op is not CAST or slope.op is not gelu_slope or slope.sources[0].op is not CAST:
        return None, None
    product, at = wide.sources[0], slope.sources[0].sources[0]
    is_product = product.op is MATMUL and product.shape == at.shape
    return (product, at) if is_product and product.dtype is at.dtype is node.dtype else (None, None)


# --- order ----------------------------------------------------------------------------------------------------------


def with_operands_first(graph: Graph, found: Mapping[Node, LibraryEpilogue]) -> Graph:
    """The graph in an order in which what is read to epilogue a product comes before it."""
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
    """The plan with the epilogues that libraries carry out, and the graph in an order in which they can."""
    wanted = plan.codegen.epilogues(plan.graph)
    found = {
        node: epilogue
        for node, epilogue in wanted.items()
        if spend(node, lambda node=node: f"a library carries out the epilogue of {node.op.name}")  # type: ignore[misc]
    }
    return replace(plan, epilogues=found, graph=with_operands_first(plan.graph, found))
