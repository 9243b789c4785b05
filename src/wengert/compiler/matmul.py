"""Matrix products: batch small equal ones, rewrite transposed results, and turn thin products into loops.

`batch_matmul`: independent products of equal shapes run in one call. A product of a few thousand operations costs less
than the call itself (a launch on a GPU, a BLAS call on a CPU), so a Python loop over heads, experts or time steps
gains. Operands are joined along a new first axis; an operand that all products share is broadcast instead. Slices of
one value that are joined again become that value (`simplify` sees to it). Independence follows from depth, the number
of products on the longest path to a node: two products of equal depth never depend on each other, and a product of
depth d only needs products up to depth d - 1, so any number of groups merge at once. Products with a common left
operand and larger weights (q, k, v projections) stay apart: joining the weights copies them at every step, which costs
about as much as the larger product saves.

`transpose_matmul`: if only the transpose of a @ b is read, it becomes b' @ a'. A product reads transposed operands for
free, while a kernel that reads a transposed result strides through memory. So a weight's gradient has the layout of the
weight, and the update is a contiguous loop. The sums are added in the order of the other product.

`gemv_to_reduction`: a product with a single row or column (a layer with one output, its gradients) becomes a
multiplication and a sum; one with depth 1 becomes a multiplication. It moves each number once, as a loop does, but a
loop fuses with its neighbours. The sums are added in another order. On a GPU a half-precision row times a matrix, as in
generating one token, becomes a loop too: its products stay float32 until they are summed. So does attention of one
query: with a block per head that visits the keys in sequence, most of the device would be idle.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence

from wengert.compiler.rewrite import made_by, over, rewrite, spend
from wengert.core.devices import HOST_TARGET, Target, is_host
from wengert.core.dtypes import HALF, bool_, float32, float64
from wengert.core.graph import Graph, Node, recorded_as
from wengert.ops import elementwise as e
from wengert.ops.attention import ATTENTION
from wengert.ops.core import cast
from wengert.ops.linalg import MATMUL
from wengert.ops.movement import PERMUTE, permute_dims, reshape, slice_axis, stack
from wengert.ops.reduce import MAX, SUM

SMALL = 1 << 16
"""Floating-point operations of a product (32 x 32 x 32) up to which it is merged with its equals."""


def batch_matmul(graph: Graph, target: Target = HOST_TARGET) -> Graph:
    """The graph with small equal products merged; the same graph if there are none."""
    depths = _depths(graph)
    groups = [group for group in _equals(graph, depths) if _merges(group)]
    return _merged(graph, depths, groups) if groups else graph


def _merges(group: list[Node]) -> bool:
    return spend(group[0], lambda: f"{len(group)} products become one")


def _depths(graph: Graph) -> dict[Node, int]:
    """The number of products on the longest path to each node."""
    depths: dict[Node, int] = {}
    for node in graph.nodes:
        depth = 0
        for source in node.sources:
            depth = max(depth, depths.get(source, 0))
        depths[node] = depth + 1 if node.op is MATMUL else depth
    return depths


def operations(node: Node) -> int:
    """The floating-point operations of a product."""
    return 2 * node.size * node.sources[0].shape[-1]


def _equals(graph: Graph, depths: dict[Node, int]) -> list[list[Node]]:
    """Groups of small products that can be merged: of equal depth, shapes, dtype and device."""
    groups: dict[Hashable, list[Node]] = defaultdict(list)
    for node in graph.nodes:
        if node.op is MATMUL and 0 < operations(node) <= SMALL and node.sources[0].ndim == node.sources[1].ndim:
            a, b = node.sources
            groups[depths[node], a.shape, b.shape, node.dtype, node.device].append(node)
    return [group for group in groups.values() if len(group) > 1]


def _merged(graph: Graph, depths: dict[Node, int], groups: Sequence[list[Node]]) -> Graph:
    group_of = {node: group for group in groups for node in group}
    replacing: dict[Node, Node] = {}
    for node in _by_depth(graph, depths):
        if node in group_of:
            if node not in replacing:
                _merge_group(group_of[node], replacing)
        else:
            current = over(node, replacing)
            if current is not node:
                replacing[node] = current
    outputs = [replacing.get(node, node) for node in graph.outputs]
    return Graph(graph.inputs, outputs, nodes=_in_order(graph, outputs))


def _by_depth(graph: Graph, depths: dict[Node, int]) -> list[Node]:
    """The nodes in an order in which everything that a group of products reads precedes the group."""
    return sorted(graph.nodes, key=lambda node: (depths[node], node.op is not MATMUL))


def _merge_group(group: list[Node], replacing: dict[Node, Node]) -> None:
    """Record one product for a group; the results are its slices, or all of it if the products are identical."""
    first = group[0]
    with recorded_as(first.location, first.tracked):
        lefts, rights = ([replacing.get(s, s) for s in sources] for sources in zip(*[n.sources for n in group]))
        whole = MATMUL(_joined(lefts), _joined(rights))
    for i, node in enumerate(group):
        with recorded_as(node.location, node.tracked):
            same = whole.shape == node.shape
            replacing[node] = whole if same else reshape(slice_axis(whole, 0, i, i + 1), node.shape)


def _joined(operands: Sequence[Node]) -> Node:
    """The operands along a new first axis; an operand shared by all is left to broadcast."""
    first = operands[0]
    return first if all(operand is first for operand in operands) else stack(operands)


def _in_order(graph: Graph, outputs: Sequence[Node]) -> list[Node]:
    """The nodes of the new graph, ordered by serial number: a new node is recorded after its operands."""
    outside = {*graph.inputs, *graph.captured()}
    found: set[Node] = set()
    agenda = list(outputs)
    while agenda:
        node = agenda.pop()
        if node not in found and node not in outside:
            found.add(node)
            agenda.extend(node.sources)
    return sorted(found, key=lambda node: node.serial)


# --- transpose matmul -----------------------------------------------------------------------------------------------


def transpose_matmul(graph: Graph, target: Target = HOST_TARGET) -> Graph:
    """The graph with transposed products rewritten as products of transposes; the same graph if there are none.

    >>> import wengert as wg
    >>> from wengert.ops.core import placeholder
    >>> a, b = placeholder((2, 3), wg.float32), placeholder((3, 4), wg.float32)
    >>> made = transpose_matmul(Graph([a, b], [permute_dims(MATMUL(a, b), (1, 0))]))
    >>> [(node.op.name, node.shape) for node in made.nodes]
    [('permute_dims', (4, 3)), ('permute_dims', (3, 2)), ('matmul', (4, 2))]
    """
    uses = Counter([*graph.outputs, *[source for node in graph.nodes for source in node.sources]])
    transposed = {
        node.sources[0]: node
        for node in graph.nodes
        if _is_transpose(node) and node.sources[0].op is MATMUL and uses[node.sources[0]] == 1
    }
    if transposed.keys().isdisjoint(graph.nodes):
        return graph
    replacing: dict[Node, Node] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        current = over(node, replacing)
        if node in transposed and spend(node, lambda: "its transpose becomes a product of transposes"):
            nodes += _product_of_transposes(current)
            replacing[transposed[node]] = nodes[-1]
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


def _product_of_transposes(product: Node) -> list[Node]:
    """The transposes of a product's operands, and their product."""
    with recorded_as(product.location, product.tracked):
        b, a = [permute_dims(x, _swapping(x)) for x in reversed(product.sources)]
        return [b, a, MATMUL(b, a)]


# --- gemv to reduction ----------------------------------------------------------------------------------------------


def gemv_to_reduction(graph: Graph, target: Target = HOST_TARGET) -> Graph:
    """The graph with thin products rewritten as loops; the same graph if there are none.

    >>> import wengert as wg
    >>> from wengert.ops.core import placeholder
    >>> a, b = (placeholder(shape, wg.float32) for shape in ((5, 3), (3, 1)))
    >>> [node.op.name for node in gemv_to_reduction(Graph([a, b], [MATMUL(a, b)])).nodes]
    ['reshape', 'multiply', 'sum']
    """
    return rewrite(graph, _rule)


def _rule(node: Node) -> Node | None:
    if node.op is ATTENTION and not is_host(node.device):
        return _one_query(node)
    if node.op is not MATMUL:
        return None
    if node.dtype in HALF:
        return _one_row(node) if not is_host(node.device) else None
    if node.dtype not in (float32, float64):
        return None
    a, b = node.sources
    if not (a.ndim == b.ndim == 2 and a.dtype is b.dtype is node.dtype):
        return None
    (rows, depth), columns = a.shape, b.shape[1]
    if depth == 1:
        return e.multiply(a, b)
    if not depth or 1 not in (rows, columns):
        return None
    return _summed(node, a, b, 1) if columns == 1 else _summed(node, b, a, 0)


def _one_row(node: Node) -> Node | None:
    """A half-precision row times a matrix."""
    a, b = node.sources
    if b.ndim != 2 or not a.size or a.size != a.shape[-1] or b.shape[1] == 1 or not a.dtype is b.dtype is node.dtype:
        return None
    ones = (1,) * (node.ndim - 2)
    if made_by(b, PERMUTE) and b.attrs["axes"] == (1, 0):
        b = b.sources[0]
        terms = e.multiply(_wide(b, (*ones, 1, *b.shape)), _wide(a, (*ones, 1, 1, a.size)))
        return cast(SUM(terms, axes=(node.ndim,), keepdims=False), node.dtype)
    terms = e.multiply(_wide(b, (*ones, *b.shape)), _wide(a, (*ones, a.size, 1)))
    return cast(SUM(terms, axes=(node.ndim - 2,), keepdims=True), node.dtype)


def _one_query(node: Node) -> Node | None:
    """Attention of one query per head, without a mask or with one that says which keys are visible."""
    query, key, value, *masks = node.sources
    lead = node.shape[:-2]
    alike = query.shape[:-2] == key.shape[:-2] == value.shape[:-2] == lead
    is_seen = all(mask.dtype is bool_ and mask.shape[-2] == 1 for mask in masks)
    if not (alike and is_seen and query.shape[-2] == 1 and key.size) or node.attrs["causal"] or node.dtype is float64:
        return None
    scores = SUM(_wide(key, key.shape) * _wide(query, query.shape), axes=(query.ndim - 1,), keepdims=False)
    scores = scores * node.attrs["scale"]
    for mask in masks:
        scores = e.where(reshape(mask, (*mask.shape[:-2], mask.shape[-1])), scores, -math.inf)
    axis = (scores.ndim - 1,)
    top = MAX(scores, axes=axis, keepdims=True)
    weights = e.exp(scores - e.where(e.isfinite(top), top, 0))
    total = SUM(weights, axes=axis, keepdims=True)
    weights = weights / e.where(e.equal(total, 0), 1, total)
    terms = reshape(weights, (*weights.shape, 1)) * _wide(value, value.shape)
    return cast(SUM(terms, axes=axis, keepdims=True), node.dtype)


def _wide(x: Node, shape: tuple[int, ...]) -> Node:
    return cast(reshape(x, shape), float32)


def _summed(node: Node, matrix: Node, weights: Node, axis: int) -> Node:
    """A matrix times a column, or a row times a matrix, where the depth is an axis of the matrix."""
    if made_by(matrix, PERMUTE) and matrix.attrs["axes"] == (1, 0):  # it is read in place
        matrix, axis = matrix.sources[0], 1 - axis
    terms = e.multiply(matrix, reshape(weights, (1, weights.size) if axis else (weights.size, 1)))
    return reshape(SUM(terms, axes=(axis,), keepdims=True), node.shape)
