"""Layout: on a GPU, convolutions that use tensor cores, and the values between them, have channels last.

Depthwise and 1-d convolutions have channels last in every precision.

In: a graph. Out: the graph in which each chosen convolution works on values with channels last. A value has two forms,
as recorded and channels last. The walk makes each value in the form of its sources: elementwise ops, reductions, pools,
padding and concatenation of channels-last values are channels last themselves, with their axes renamed. Where the other
form is needed, a permutation is inserted, which the kernel that computes the value absorbs as an index map. Inputs and
outputs keep their form: the kernel that casts a weight permutes it, and the kernel that updates it reads its gradient
permuted. Some convolutions also take another form (`layout_convolution`). Values change only through the order in which
sums over channels-last values are added.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from wengert.compiler.constants import number
from wengert.compiler.layout_convolution import (
    Folding,
    folding,
    form_round,
    is_convolution_of_gradient,
    is_depthwise,
    is_product,
    product,
    product_by_input,
    product_by_weight,
    steps_over,
    suits_groups,
    taken,
    weight_round,
    with_padding,
    without_padding,
)
from wengert.compiler.layout_pool import largest, takes_in
from wengert.compiler.rewrite import for_ops, looking_into, made_by, over, spend
from wengert.core.devices import HOST_TARGET, Target, is_host
from wengert.core.dtypes import HALF, float32
from wengert.core.graph import Graph, Node, Shape, now, recorded_as
from wengert.ops.addressing import ADD_ALONG
from wengert.ops.channels_last import (
    CONVOLVE_INPUT_LAST,
    CONVOLVE_LAST,
    CONVOLVE_WEIGHT_LAST,
    MAX_POOL_BACK_LAST,
    MAX_POOL_LAST,
    SUM_POOL_LAST,
    first_order,
    last_order,
    permuted,
)
from wengert.ops.convolve import CONVOLVE, CONVOLVE_INPUT, CONVOLVE_WEIGHT
from wengert.ops.core import CAST
from wengert.ops.movement import (
    BROADCAST,
    CONCAT,
    FLIP,
    PLACE,
    RESHAPE,
    SLICE,
    permute_dims,
    reshape,
)
from wengert.ops.op import PACK, PICK, pick
from wengert.ops.recorders import Elementwise
from wengert.ops.reduce import ALL, ANY, MAX, MIN, PROD, SUM
from wengert.ops.window import MAX_POOL, SUM_POOL

_CONVOLUTIONS = {
    CONVOLVE: CONVOLVE_LAST,
    CONVOLVE_INPUT: CONVOLVE_INPUT_LAST,
    CONVOLVE_WEIGHT: CONVOLVE_WEIGHT_LAST,
}
_REDUCTIONS = frozenset((SUM, MAX, MIN, PROD, ALL, ANY))
_PER_AXIS = frozenset(("shape", "starts", "steps", "sizes"))  # movement attributes with one number per axis


@for_ops(*_CONVOLUTIONS)
def layout(graph: Graph, target: Target = HOST_TARGET) -> Graph:
    """The graph with its convolutions channels last; the same graph if none is chosen."""
    chosen = _chosen(graph, target)
    if not chosen:
        return graph
    with looking_into(graph):
        return _ChannelsLast(graph, chosen).through()


def _chosen(graph: Graph, target: Target) -> set[Node]:
    """The convolutions that are faster with channels last: those on tensor cores, depthwise ones, and 1-d ones.

    In plain float32 other 2-d and 3-d convolutions stay as they are, except 1x1 products between depthwise ones.
    """
    nodes = [node for node in graph.nodes if node.op in _CONVOLUTIONS and _can_be_last(node)]
    depthwise = any(is_depthwise(node) for node in nodes)

    def is_faster(node: Node) -> bool:
        between = depthwise and (is_depthwise(node) or is_product(node))
        return between or node.ndim == 3 or _by_tensor_cores(node, target)

    return {node for node in nodes if is_faster(node) and _spends(node)}


def _can_be_last(node: Node) -> bool:
    """Whether kernels exist for a convolution with channels last: of one group, or of groups of suitable size."""
    if is_host(node.device) or node.ndim not in (3, 4, 5) or node.dtype not in (*HALF, float32):
        return False
    sizes = math.prod(x.size for x in (node, *node.sources))
    return bool(sizes) and (node.attrs["groups"] == 1 or is_depthwise(node) or suits_groups(node))


def _by_tensor_cores(node: Node, target: Target) -> bool:
    return node.dtype in HALF or target.tf32


def _spends(node: Node) -> bool:
    return spend(node, lambda: f"{node.op.name} has its channels last")


class _ChannelsLast:
    """One walk: maps values of the old graph to the new one, as recorded and channels last."""

    def __init__(self, graph: Graph, chosen: set[Node]) -> None:
        self.graph, self.chosen = graph, chosen
        self.first: dict[Node, Node] = {}
        self.last: dict[Node, Node] = {}
        self.made_last: set[Node] = set()  # the nodes computed in that form
        self.unread: set[Node] = set()  # reshapes of a pool's indices, which its derivative reads in place
        self.folded: dict[tuple[Node, Folding], Node] = {}
        self.taken: dict[tuple[Node, Shape], Node] = {}
        self.nodes: list[Node] = []
        self.readers: dict[Node, list[Node]] = {}
        for node in graph.nodes:
            for source in node.sources:
                self.readers.setdefault(source, []).append(node)

    def through(self) -> Graph:
        """Build the new graph."""
        for node in self.graph.nodes:
            with recorded_as(node.location, node.tracked):
                if not self._made(node):
                    for source in node.sources:
                        self.as_recorded(source)
                    self.first[node] = self._add(over(node, self.first))
        outputs = []
        for node in self.graph.outputs:
            with recorded_as(node.location, node.tracked):
                outputs.append(self.as_recorded(node))
        return Graph(self.graph.inputs, outputs, nodes=self.nodes)

    # --- the two forms --------------------------------------------------------------------------------------------

    def as_recorded(self, node: Node) -> Node:
        """A value of the old graph in the new one, channels first."""
        if node in self.first or node not in self.last:
            return self.first.get(node, node)
        self.first[node] = self._permuted(self.last[node], first_order(node.ndim))
        return self.first[node]

    def as_channels_last(self, node: Node) -> Node:
        """A value of the old graph in the new one, channels last."""
        if node not in self.last:
            self.last[node] = self._permuted(self.as_recorded(node), last_order(node.ndim))
        return self.last[node]

    def _permuted(self, x: Node, order: Sequence[int]) -> Node:
        """A value with permuted axes; a reshape if only axes of size 1 move."""
        long = [axis for axis in order if x.shape[axis] != 1]
        shape = tuple(x.shape[axis] for axis in order)
        return self._reshaped(x, shape) if long == sorted(long) else self._add(permute_dims(x, order))

    def _reshaped(self, x: Node, shape: Shape) -> Node:
        return x if x.shape == shape else self._add(reshape(x, shape))

    def _add(self, node: Node) -> Node:
        self.nodes.append(node)
        return node

    def _keep(self, node: Node, made: Node) -> bool:
        """Record a node as the channels-last form of an old one."""
        self.last[node] = made
        self.made_last.add(node)
        return True

    # --- rules ----------------------------------------------------------------------------------------------------

    def _made(self, node: Node) -> bool:
        """Make a node channels last if it is a chosen convolution or an op on channels-last values; whether it was."""
        op = node.op
        if node in self.made_last or node in self.unread:
            return True
        if node in self.chosen:
            return self._convolution(node)
        if op is ADD_ALONG:
            return self._pool_back(node)
        if not any(source in self.made_last for source in node.sources):
            return False
        if op is MAX_POOL:
            return self._max_pool(node)
        if op is PICK:
            return self._keep(node, self._added(lambda: pick(self.last[node.sources[0]], node.attrs["index"])))
        if op is SUM_POOL:
            return self._sum_pool(node)
        if op in _REDUCTIONS:
            return self._reduction(node)
        return (isinstance(op, Elementwise) or op in _RENAMING) and self._like(node)

    def _convolution(self, node: Node) -> bool:
        if is_product(node):
            return self._product(node)
        fold = folding(node)
        if fold is None and node.op is CONVOLVE_INPUT and (part := self._only_part(node)) is not None:
            self.unread.add(node)
            return self._keep(*part)
        made = self._add(self._folded(node, fold) if fold else self._convolved(with_padding(node)))
        if node.op is not CONVOLVE_WEIGHT:
            return self._keep(node, made)
        if fold:
            made = self._added(lambda: fold.unfolded(made))
        self.first[node] = self._permuted(made, first_order(node.ndim))
        return True

    def _only_part(self, node: Node) -> tuple[Node, Node] | None:
        """The only slice of an input gradient that anything reads, and a convolution that computes just that."""
        readers = self.readers.get(node, [])
        if len(readers) != 1 or node in self.graph.outputs:
            return None
        less = without_padding(node, readers[0])
        return None if less is None else (readers[0], self._add(self._convolved(less)))

    def _product(self, node: Node) -> bool:
        """A convolution with a 1-element kernel, as a matrix product."""
        first, second = node.sources
        if node.op is CONVOLVE_WEIGHT:
            value, g = self._taken(first, second.shape, node), self.as_channels_last(second)
            self.first[node] = self._added(lambda: product_by_weight(node, value, g))
            return True
        weight = self.as_recorded(second)
        if node.op is CONVOLVE_INPUT:
            g = self.as_channels_last(first)
            return self._keep(node, self._added(lambda: product_by_input(node, g, weight)))
        value = self._taken(first, node.shape, node)
        return self._keep(node, self._added(lambda: product(value, weight)))

    def _taken(self, x: Node, made: Shape, node: Node) -> Node:
        """The input elements that such a convolution reads; shared with the gradient of its weight."""
        key = x, steps_over(node)
        if key not in self.taken:
            value, shape = self.as_channels_last(x), permuted(made, last_order(node.ndim))
            self.taken[key] = self._added(lambda: taken(value, shape, key[1]))
        return self.taken[key]

    def _convolved(self, node: Node) -> Node:
        if is_convolution_of_gradient(node):
            g, weight = self.as_channels_last(node.sources[0]), self.as_recorded(node.sources[1])
            return CONVOLVE_LAST(g, self._added(lambda: weight_round(weight)), **form_round(node))
        return _CONVOLUTIONS[node.op](*map(self.as_channels_last, node.sources), **node.attrs)

    def _folded(self, node: Node, fold: Folding) -> Node:
        """A convolution over few channels, folded."""
        x, other = map(self.as_channels_last, node.sources)
        key = node.sources[0], fold
        if key not in self.folded:
            self.folded[key] = self._added(lambda: fold.values(x))
        if node.op is CONVOLVE_WEIGHT:
            return CONVOLVE_WEIGHT_LAST(self.folded[key], other, kernel=fold.kernel, **fold.form)
        return CONVOLVE_LAST(self.folded[key], self._added(lambda: fold.weight(other)), **fold.form)

    def _added(self, record: Callable[[], Node]) -> Node:
        """Record a node and everything it was recorded from."""
        since = now()
        made = record()
        self.nodes += Graph([], [made], since).nodes
        return made

    def _like(self, node: Node) -> bool:
        """The same op over channels-last sources, with its axes renamed."""
        sources = tuple(self._aligned(source, node.ndim) for source in node.sources)
        shape, attrs = permuted(node.shape, last_order(node.ndim)), _renamed(node)
        made = Node(node.op, sources, attrs, shape, node.dtype, node.device, node.tracked, node.location)
        return self._keep(node, self._add(made))

    def _aligned(self, source: Node, rank: int) -> Node:
        """A source in channels-last form, with the leading axes that broadcasting adds; a scalar stays a scalar."""
        if not source.ndim:
            return self.as_recorded(source)
        if source.ndim == rank:
            return self.as_channels_last(source)
        filled = self._reshaped(self.as_recorded(source), (1,) * (rank - source.ndim) + source.shape)
        return self._permuted(filled, last_order(rank))

    def _reduction(self, node: Node) -> bool:
        x = node.sources[0]
        order = last_order(x.ndim)
        if node.attrs["keepdims"]:
            return self._like(node)
        attrs = _renamed(node)
        kept = [axis for axis in order if axis not in node.attrs["axes"]]
        shape = tuple(x.shape[axis] for axis in kept)
        made = Node(node.op, (self.last[x],), attrs, shape, node.dtype, node.device, node.tracked, node.location)
        self.first[node] = self._permuted(self._add(made), [kept.index(axis) for axis in sorted(kept)])
        return True

    # --- pools ----------------------------------------------------------------------------------------------------

    def _sum_pool(self, node: Node) -> bool:
        if len(node.attrs["kernel"]) != node.ndim - 2:
            return False
        return self._keep(node, self._add(SUM_POOL_LAST(self.as_channels_last(node.sources[0]), **node.attrs)))

    def _max_pool(self, node: Node) -> bool:
        """A max_pool whose indices only its derivative reads, which reshapes them and adds at those positions."""
        x = node.sources[0]
        places = [reader for reader in self.readers.get(node, ()) if reader.attrs["index"] == 1]
        if len(node.attrs["kernel"]) != x.ndim - 2:
            return False
        for value in places:  # which grows
            if value in self.graph.outputs:
                return False
            for reader in self.readers.get(value, ()):
                if reader.op is RESHAPE:
                    places.append(reader)
                elif reader.op is not ADD_ALONG or not _is_spread(reader, value, node):
                    return False
        self.unread.update(value for value in places if value.op is RESHAPE)
        value, a, shape = self.as_channels_last(x), node.attrs, permuted(node.shape[0], last_order(x.ndim))
        if takes_in(a, x, self.readers[x]):
            return self._keep(node, self._added(lambda: PACK(*largest(value, shape, a["kernel"], a["stride"]))))
        return self._keep(node, self._add(MAX_POOL_LAST(value, **a)))

    def _pool_back(self, node: Node) -> bool:
        """The derivative of a channels-last max_pool."""
        _, values, places = node.sources
        while made_by(places, RESHAPE):
            places = places.sources[0]
        pool = places.sources[0] if made_by(places, PICK) else None
        if pool is None or pool not in self.made_last:
            return False
        x, shape = pool.sources[0], pool.shape[0]
        if made_by(values, RESHAPE) and values.sources[0].shape == shape:
            g = self.as_channels_last(values.sources[0])
        else:
            g = self._permuted(self._reshaped(self.as_recorded(values), shape), last_order(x.ndim))
        sizes, windows = x.shape[2:], pool.attrs
        made = self._add(MAX_POOL_BACK_LAST(g, self.as_channels_last(places), sizes=sizes, **windows))
        for reader in self.readers.get(node, ()):
            if reader.op is RESHAPE and reader.shape == x.shape:
                self._keep(reader, made)
        self.first[node] = self._reshaped(self._permuted(made, first_order(x.ndim)), node.shape)
        return True


_RENAMING = frozenset((CAST, BROADCAST, SLICE, PLACE, FLIP, CONCAT))
"""Ops that are the same with their axes renamed."""


def _is_spread(node: Node, places: Node, pool: Node) -> bool:
    """Whether a node adds values at the indices of a pool, plane by plane."""
    target, values, at = node.sources
    x, shape = pool.sources[0].shape, pool.shape[0]
    flat = (*shape[:2], math.prod(shape[2:]))
    into_planes = node.shape == (*x[:2], math.prod(x[2:])) and node.attrs["axis"] == 2 and number(target) == 0
    return at is places and into_planes and values.shape == places.shape == flat


def _renamed(node: Node) -> dict[str, Any]:
    """The attributes of an op, for channels-last values."""
    rank = node.sources[0].ndim
    order = last_order(rank)
    attrs = dict(node.attrs)
    for name, value in node.attrs.items():
        if name in _PER_AXIS:
            attrs[name] = permuted(value, last_order(len(value)))
        elif name == "axes":
            attrs[name] = tuple(sorted(order.index(axis) for axis in value))
        elif name == "axis":
            attrs[name] = order.index(value)
    return attrs
