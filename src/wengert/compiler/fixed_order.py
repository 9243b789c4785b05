"""Fixed order: under `config.invariant` every sum has one order of additions, and half precision rounds where recorded.

In: a graph. Out: on the CPU, the graph with its reductions, products and convolutions replaced by those of
`ops.fixed_order`; the same graph if the target is not invariant. The pass runs first, so later passes see no sum that
they could reorder. On a GPU the kernels keep the order themselves (`DeviceProperties.invariant`) and round the result
of a product or convolution.

A kernel keeps half-precision values in float32 until it stores them, so the way a graph is cut into kernels would show
in the bits. Here such an op becomes a float32 op between casts, which round wherever the op ends up.
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
    """The graph with sums in a fixed order (on the CPU) and half precision rounded; unchanged if not invariant.

    >>> import wengert as wg
    >>> from wengert.ops.core import placeholder
    >>> x = placeholder((2, 3), wg.float32)
    >>> graph = Graph([x], [wg.exp(x).sum().node])
    >>> [node.op.name for node in fixed_order(graph, Target(invariant=True)).nodes]
    ['exp', 'tree_sum']
    """
    return rewrite(graph, _rounding if target.launches else _rule) if target.invariant else graph


def _rounding(node: Node) -> Node | None:
    """Elementwise ops in half precision: computed in float32, then rounded explicitly."""
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
    """Whether a half-precision value was rounded from a wider one."""
    if node.op is CAST or node.op is nextafter:
        return False
    return node.op in FIXED or (isinstance(node.op, Elementwise) and not node.op.moves)


def _like(node: Node, sources: list[Node]) -> Node:
    """The same op over other sources, in float32."""
    return Node(node.op, tuple(sources), node.attrs, node.shape, float32, node.device, node.tracked, node.location)
