"""Turn: the transpose of a matrix product becomes a product of transposes.

In: a graph. Out: the graph in which what reads only the transpose of a @ b reads b' @ a'. A product takes its operands
transposed for nothing, while a kernel that reads its result transposed goes through memory in steps of a row: so the
gradient of a layer's weight comes out as the weight lies, and the update is a straight loop.

The sums are the same, added up in the order that the other product has.
"""

from __future__ import annotations

from collections import Counter

from wengert.compiler.fuel import spend
from wengert.compiler.rewrite import over
from wengert.compiler.target import HOST, Target
from wengert.core.graph import Graph, Node, recorded_as
from wengert.ops.linalg import MATMUL
from wengert.ops.movement import PERMUTE, permute_dims


def transpose_matmul(graph: Graph, target: Target = HOST) -> Graph:
    """The graph with transposed products turned; the graph itself where there are none.

    >>> import wengert as wg
    >>> from wengert.ops.core import placeholder
    >>> a, b = placeholder((2, 3), wg.float32), placeholder((3, 4), wg.float32)
    >>> turned = transpose_matmul(Graph([a, b], [permute_dims(MATMUL(a, b), (1, 0))]))
    >>> [(node.op.name, node.shape) for node in turned.nodes]
    [('permute_dims', (4, 3)), ('permute_dims', (3, 2)), ('matmul', (4, 2))]
    """
    uses = Counter([*graph.outputs, *[source for node in graph.nodes for source in node.sources]])
    turned = {
        node.sources[0]: node
        for node in graph.nodes
        if _is_transpose(node) and node.sources[0].op is MATMUL and uses[node.sources[0]] == 1
    }
    if turned.keys().isdisjoint(graph.nodes):
        return graph
    replacing: dict[Node, Node] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        current = over(node, replacing)
        if node in turned and spend(node, lambda: "its transpose becomes a product of transposes"):
            nodes += _turned(current)
            replacing[turned[node]] = nodes[-1]
        elif node not in replacing:
            nodes.append(current)
            if current is not node:
                replacing[node] = current
    return Graph(graph.inputs, [replacing.get(node, node) for node in graph.outputs], nodes=nodes)


def _is_transpose(node: Node) -> bool:
    """Whether a node swaps the last two axes."""
    return node.op is PERMUTE and node.attrs["axes"] == _swapping(node)


def _swapping(node: Node) -> tuple[int, ...]:
    return (*range(node.ndim - 2), node.ndim - 1, node.ndim - 2)


def _turned(product: Node) -> list[Node]:
    """The transposes of a product's operands, and their product."""
    with recorded_as(product.location, product.tracked):
        b, a = [permute_dims(x, _swapping(x)) for x in reversed(product.sources)]
        return [b, a, MATMUL(b, a)]
