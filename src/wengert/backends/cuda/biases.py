"""Biases that a library adds to a matrix product before it stores it: a pass over the product less.

In: a graph. Out: for each product that is only there to have a bias added, in half precision, the bias. The sum must be
one that another op reads from memory: what reads it in a loop adds the bias on its way, and saves no pass.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from wengert.compiler.groups import storage
from wengert.dtypes import HALF
from wengert.graph import Graph, Node


def bias_of(added: Node, product: Node) -> Node | None:
    """What is added to each row of a matrix product; None where a node is no such sum, in the product's dtype."""
    if added.op.name != "add" or product.op.name != "matmul" or added.sources.count(product) != 1:
        return None
    bias = next(source for source in added.sources if source is not product)
    if bias.op.name == "matmul":  # each would be the other's
        return None
    is_a_row = bias.shape[-1:] == product.shape[-1:] == (bias.size,)
    same = bias.dtype is product.dtype is added.dtype and added.shape == product.shape
    return bias if is_a_row and same and product.dtype in HALF else None


def biases(
    graph: Graph, is_loop: Callable[[Node], bool], operands: Callable[[Node], Iterable[Node]]
) -> dict[Node, Node]:
    """The biases by the products they are added to; `operands` says what an op that is no loop reads from memory."""
    uses = Counter(source for node in graph.nodes for source in node.sources)
    uses.update(graph.outputs)
    read = {storage(x) for node in graph.nodes if not is_loop(node) for x in operands(node)}
    pairs = ((product, bias_of(node, product)) for node in graph.nodes if node in read for product in node.sources)
    return {product: storage(bias) for product, bias in pairs if bias is not None and uses[product] == 1}


def with_biases_first(graph: Graph, found: Mapping[Node, Node]) -> Graph:
    """The graph in an order in which the bias of each product comes before it."""
    place = {node: k for k, node in enumerate(graph.nodes)}
    order: dict[Node, None] = {}
    for node in graph.nodes:
        before: set[Node] = set()
        agenda = [found[node]] if node in found else []
        while agenda:
            other = agenda.pop()
            if other in place and other not in order and other not in before:
                before.add(other)
                agenda.extend(other.sources)
        order.update(dict.fromkeys([*sorted(before, key=place.__getitem__), node]))
    return Graph(graph.inputs, graph.outputs, nodes=list(order)) if found else graph
