"""Fixed order: under `config.invariant` every sum gets one order of additions, and every value of half precision is
rounded where it is made.

In: a graph. Out: on the CPU the graph with its reductions, products and convolutions as those of `ops.fixed_order`; the
graph itself where nobody asked. It comes first: the passes behind it see no sum that they could reorder. On a GPU
kernels keep their order by themselves (`DeviceProperties.invariant`), and round what a product or convolution gives.

What a kernel computes from values of half precision it keeps in float32 until it stores it, so how a graph is cut into
kernels would show in the bits. Here such an op becomes one of float32 between casts, which round wherever they stand.
"""

from __future__ import annotations

from wengert.compiler.rewrite import rewrite
from wengert.core.devices import HOST_TARGET, Target
from wengert.core.dtypes import HALF, INEXACT, float32
from wengert.core.graph import Graph, Node
from wengert.ops.core import CAST, cast
from wengert.ops.elementwise import nextafter
from wengert.ops.fixed_order import FIXED
from wengert.ops.recorders import Elementwise


def fixed_order(graph: Graph, target: Target = HOST_TARGET) -> Graph:
    """The graph with sums in a fixed order, on the CPU, and with half precision rounded; as it is if nobody asked.

    >>> import wengert as wg
    >>> from wengert.ops.core import placeholder
    >>> x = placeholder((2, 3), wg.float32)
    >>> graph = Graph([x], [wg.exp(x).sum().node])
    >>> [node.op.name for node in fixed_order(graph, Target(invariant=True)).nodes]
    ['exp', 'tree_sum']
    """
    return rewrite(graph, _rounding if target.launches else _rule) if target.invariant else graph


def _rounding(node: Node) -> Node | None:
    """Loops in half precision: they are computed in float32, and rounded wherever they stand."""
    is_loop = node.op.kind == "reduction" or isinstance(node.op, Elementwise)
    return _rounded(node) if is_loop and node.dtype in HALF and _is_computed(node) else None


def _rule(node: Node) -> Node | None:
    if node.dtype in HALF and _is_computed(node):
        return _rounded(node)
    if node.op in FIXED and node.dtype in INEXACT and node.dtype not in HALF:
        return FIXED[node.op](*node.sources, **node.attrs)
    return None


def _rounded(node: Node) -> Node:
    wide = [cast(source, float32) if source.dtype in HALF else source for source in node.sources]
    return cast(_like(node, wide), node.dtype)


def _is_computed(node: Node) -> bool:
    """Whether a value of half precision is rounded from a wider one."""
    if node.op is CAST or node.op is nextafter:
        return False
    return node.op in FIXED or (isinstance(node.op, Elementwise) and not node.op.moves)


def _like(node: Node, sources: list[Node]) -> Node:
    """The node over other sources, in float32."""
    return Node(node.op, tuple(sources), node.attrs, node.shape, float32, node.device, node.tracked, node.location)
