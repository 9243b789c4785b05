"""`join_matmul`: merge narrow matrix products on a GPU that share their left operand, or are added together.

In: a graph. Out: the graph in which
- several products of one value, a @ b, a @ c, ..., are slices of a @ [b, c, ...], so that the value is read once.
  Examples are the weight gradients of layers that share a cotangent, and the cotangents that it passes to their inputs;
- a sum of products a @ b + c @ d + ... is one product [a, c, ...] @ [b; d; ...], so that no term is written and read
  again. Skip connections that end in one sum are examples; their gradients are of the first kind.

A narrow product does few operations per byte, so memory bandwidth determines its time. Joining pays where the traffic
that it saves outweighs its copies: joined operands are copied side by side (once, however many products use them), and
a slice is copied out unless only loops read it. Sums over the depth are added in another order.

Neighbours: `batch_matmul` joins small products of equal shapes along a new axis; `layout` turns convolutions into
products, which is why this pass runs after it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

from wengert.compiler.cleanup import dce
from wengert.compiler.rewrite import for_ops, looking_into, made_by, over, spend
from wengert.core.devices import HOST_TARGET, Target, is_host
from wengert.core.dtypes import HALF, float32
from wengert.core.graph import Graph, Node, now, recorded_as
from wengert.ops.elementwise import add
from wengert.ops.linalg import MATMUL
from wengert.ops.movement import PERMUTE, RESHAPE, concat, permute_dims, reshape, slice_axis

INTENSITY = 64  # operations per byte below which a product is narrow
LARGE = 1 << 23  # the minimum traffic of a product, in bytes
WORTH = 1.25  # the required ratio of bytes saved to bytes copied
_SWAP = (1, 0)


@for_ops(MATMUL, dtypes=(*HALF, float32), on_gpu=True)
def join_matmul(graph: Graph, target: Target = HOST_TARGET) -> Graph:
    """The graph with narrow products joined; the same graph if there are none.

    >>> import wengert as wg
    >>> from wengert.ops.core import placeholder
    >>> from wengert.kernels.launch import H200
    >>> a, b, c, d = (placeholder(shape, wg.float32, "cuda:0") for shape in ((1 << 20, 8), (8, 64)) * 2)
    >>> graph = Graph([a, b, c, d], [add(MATMUL(a, b), MATMUL(c, d))])
    >>> [(node.op.name, node.shape) for node in join_matmul(graph, Target("cuda:0", H200)).nodes]
    [('concat', (1048576, 16)), ('concat', (16, 64)), ('matmul', (1048576, 64))]
    """
    if sum(map(_is_narrow, graph.nodes)) < 2:
        return graph
    joined: _Joined = {}
    with looking_into(graph):
        graph = _without_sums(graph, joined)
    tried: set[Hashable] = set()
    while True:
        with looking_into(graph):
            found = next(_sharing(graph, joined, tried), None)
            if found is None:
                return graph
            graph = _with_one_product(graph, found, joined)


_Joined = dict[tuple[Node, ...], Node]
"""Values that lie side by side already, by what they are made of."""


def _is_narrow(node: Node) -> bool:
    """Whether a matrix product on a GPU is large and bound by memory bandwidth."""
    if node.op is not MATMUL or node.ndim != 2 or is_host(node.device) or node.dtype not in (*HALF, float32):
        return False
    moved = sum(map(_bytes, (*node.sources, node)))
    return moved >= LARGE and 2 * node.size * node.sources[0].shape[1] < INTENSITY * moved


def _bytes(x: Node) -> int:
    return x.size * x.dtype.itemsize


def _origin(x: Node) -> Node:
    """The value below a chain of reshapes."""
    while made_by(x, RESHAPE):
        x = x.sources[0]
    return x


def _side_by_side(values: Sequence[Node], axis: int, joined: _Joined) -> Node:
    """Matrices joined along an axis; transposes are joined as the transpose of matrices joined along the other axis."""
    if all(made_by(x, PERMUTE) for x in values):
        return permute_dims(_side_by_side([x.sources[0] for x in values], 1 - axis, joined), _SWAP)
    if axis != 1:
        return concat(values, axis=axis)
    key = tuple(map(_origin, values))
    if key not in joined:
        joined[key] = concat(values, axis=axis)
    return joined[key]


# --- sums -----------------------------------------------------------------------------------------------------------


class _SumOfProducts(NamedTuple):
    """An addition, the products that it adds, and its other terms."""

    products: list[Node]
    others: list[Node]


def _without_sums(graph: Graph, joined: _Joined) -> Graph:
    """The graph with sums of products replaced by products."""
    uses = Counter([*graph.outputs, *(source for node in graph.nodes for source in node.sources)])
    found: dict[Node, _SumOfProducts] = {}
    within: set[Node] = set()
    for node in reversed(graph.nodes):
        if made_by(node, add) and node not in within:
            total = _terms(node, uses, within)
            if _pays_to_sum(total.products) and _spends(total.products):
                found[node] = total
    if not found:
        return graph
    replacing: dict[Node, Node] = {}
    nodes: list[Node] = []
    for node in graph.nodes:
        if node in found:
            with recorded_as(node.location, node.tracked):
                replacing[node] = _summed(node, found[node], replacing, nodes, joined)
            continue
        current = over(node, replacing)
        nodes.append(current)
        if current is not node:
            replacing[node] = current
    return dce(Graph(graph.inputs, [replacing.get(node, node) for node in graph.outputs], nodes=nodes))


def _terms(root: Node, uses: Counter[Node], within: set[Node]) -> _SumOfProducts:
    """The terms of a sum, in order, through additions that only this sum reads."""
    found, agenda = _SumOfProducts([], []), [root]
    while agenda:
        node = agenda.pop()
        inner = node.sources[0] if made_by(node, RESHAPE) and uses[node] == 1 else node
        if node is root or (made_by(node, add) and node.shape == root.shape and uses[node] == 1):
            within.add(node)
            agenda += reversed(node.sources)
        elif node.shape == root.shape and _is_narrow(inner) and made_by(inner, MATMUL) and uses[inner] == 1:
            found.products.append(inner)
        else:
            found.others.append(node)
    return found


def _pays_to_sum(products: Sequence[Node]) -> bool:
    """Whether the outputs of several products are large enough to justify copying their left operands."""
    if len(products) < 2 or len({(x.shape, x.dtype) for x in products}) > 1:
        return False
    if any(made_by(x.sources[0], PERMUTE) for x in products):
        return False
    copied = sum(2 * _bytes(source) for x in products for source in x.sources)
    return 2 * (len(products) - 1) * _bytes(products[0]) > WORTH * copied


def _spends(products: Sequence[Node]) -> bool:
    return spend(products[0], lambda: f"{len(products)} narrow products are one")


def _summed(root: Node, total: _SumOfProducts, replacing: dict[Node, Node], nodes: list[Node], joined: _Joined) -> Node:
    """The single product for a sum, plus its other terms."""
    since = now()
    lefts, rights = zip(*[[replacing.get(s, s) for s in x.sources] for x in total.products])
    result = reshape(MATMUL(_side_by_side(lefts, 1, joined), _side_by_side(rights, 0, {})), root.shape)
    for other in total.others:
        result = add(result, replacing.get(other, other))
    nodes += Graph([], [result], since).nodes
    return result


# --- a shared operand -----------------------------------------------------------------------------------------------


class _Group(NamedTuple):
    """Products that share their left operand."""

    products: list[Node]


def _sharing(graph: Graph, joined: _Joined, tried: set[Hashable]) -> Iterator[_Group]:
    """The groups that are worth joining."""
    groups: dict[Hashable, list[Node]] = defaultdict(list)
    for node in graph.nodes:
        if _is_narrow(node):
            groups[_key(node.sources[0]), node.dtype].append(node)
    readers: dict[Node, list[Node]] = defaultdict(list)
    for node in graph.nodes:
        for source in node.sources:
            readers[source].append(node)
    outputs = set(graph.outputs)
    for key, products in groups.items():
        if key in tried or len(products) < 2:
            continue
        tried.add(key)
        if _pays_to_share(products, readers, outputs, joined) and _are_apart(graph, products) and _spends(products):
            yield _Group(products)


def _key(x: Node) -> Hashable:
    """An identity for a matrix that sees through reshapes and permutations recorded twice."""
    if made_by(x, RESHAPE) or made_by(x, PERMUTE):
        return x.op.name, x.shape, _key(x.sources[0])
    return x


def _pays_to_share(
    products: Sequence[Node], readers: dict[Node, list[Node]], outputs: set[Node], joined: _Joined
) -> bool:
    """Whether reading the left operand once saves more than copying the right operands and the slices costs."""
    saved = (len(products) - 1) * _bytes(products[0].sources[0])
    copied = sum(2 * _bytes(x) for x in products if x in outputs or not _is_read_by_loops(x, readers, outputs))
    if _order_known(products, joined) is None:
        copied += sum(2 * _bytes(x.sources[1]) for x in products)
    return saved > WORTH * copied


def _is_read_by_loops(x: Node, readers: dict[Node, list[Node]], outputs: set[Node]) -> bool:
    """Whether only loops read a value; they read a slice in place."""
    return all(
        reader.op.kind in ("elementwise", "reduction")
        or (reader.op is RESHAPE and reader not in outputs and _is_read_by_loops(reader, readers, outputs))
        for reader in readers[x]
    )


def _order_known(products: Sequence[Node], joined: _Joined) -> list[Node] | None:
    """The order in which the right operands already lie side by side; None if they do not."""
    by_origin = {_origin(x.sources[1]): x for x in products}
    for key in joined:
        if len(key) == len(products) == len(by_origin) and by_origin.keys() == set(key):
            return [by_origin[origin] for origin in key]
    return None


def _are_apart(graph: Graph, products: Sequence[Node]) -> bool:
    """Whether no product's right operand depends on another product."""
    after = set(products)
    for node in graph.nodes:
        if not after.isdisjoint(node.sources):
            after.add(node)
    return all(x.sources[1] not in after for x in products)


def _with_one_product(graph: Graph, group: _Group, joined: _Joined) -> Graph:
    """The graph with a group's products as slices of one; readers of the slices move behind what the product reads."""
    products = _order_known(group.products, joined) or group.products
    first, members = products[0], set(products)
    rights, since = [x.sources[1] for x in products], now()
    with recorded_as(first.location, first.tracked):
        whole = MATMUL(first.sources[0], _side_by_side(rights, 1, joined))
    made = list(Graph([], [whole], since).nodes)
    ends = [sum(x.shape[1] for x in products[: i + 1]) for i in range(len(products))]
    replacing: dict[Node, Node] = {}
    nodes: list[Node] = []
    for node in _delayed(graph, members, {first.sources[0], *rights, *joined.values()}):
        if node in members:
            if made:
                nodes += made
                made = []
            at = products.index(node)
            with recorded_as(node.location, node.tracked):
                replacing[node] = slice_axis(whole, 1, ends[at] - node.shape[1], ends[at])
            nodes.append(replacing[node])
            continue
        current = over(node, replacing)
        nodes.append(current)
        if current is not node:
            replacing[node] = current
    return Graph(graph.inputs, [replacing.get(node, node) for node in graph.outputs], nodes=nodes)


def _delayed(graph: Graph, members: set[Node], needed: set[Node]) -> list[Node]:
    """The nodes in order, with the products and their dependents moved behind everything that is needed."""
    place = {node: float(i) for i, node in enumerate(graph.nodes)}
    last = max((place[node] for node in needed if node in place), default=-1.0) + 0.5
    for node in graph.nodes:
        before = max((place[source] for source in node.sources if source in place), default=-1.0)
        place[node] = max(place[node], before, last if node in members else -1.0)
    index = {node: i for i, node in enumerate(graph.nodes)}
    return sorted(graph.nodes, key=lambda node: (place[node], index[node]))
