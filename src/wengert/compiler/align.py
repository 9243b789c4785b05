"""Align: pad large half-precision matrix products on a GPU so that their rows are multiples of 128 bytes.

In: a graph. Out: the graph in which a product whose rows are not a multiple of 16 bytes (a vocabulary of 50257 tokens)
has its operands padded with zeros. Tensor cores and vector accesses need aligned rows, and are several times as fast on
them. Values computed from the result stay padded too, and a slice at the end returns the requested part. A reduction
along the padded axis sees its neutral element in the padding. Padding is free where a loop writes the operand anyway:
the loop writes the zeros.

Slices sink: `op(slice(x))` becomes `slice(op(x))`, so that values stay padded along that axis from the product that
makes them to the product that reads them.
"""

from __future__ import annotations

import math

from wengert.compiler.rewrite import for_ops, made_by, rewrite
from wengert.core.devices import HOST_TARGET, Target, is_host
from wengert.core.dtypes import FLOATING, HALF, int32
from wengert.core.graph import Graph, Node, Shape
from wengert.ops import elementwise as e
from wengert.ops.core import CAST, cast, literal
from wengert.ops.creation import IOTA, iota
from wengert.ops.linalg import MATMUL
from wengert.ops.movement import (
    BROADCAST,
    PERMUTE,
    RESHAPE,
    SLICE,
    broadcast_to,
    permute_dims,
    place,
    reshape,
    slice_axis,
)
from wengert.ops.recorders import Elementwise
from wengert.ops.reduce import MAX, MIN, SUM

ALIGNED = 8  # elements of two bytes that make 16
LINE = 64  # elements of two bytes in a line of the cache
WORTH = 1 << 32  # floating-point operations of a product from which copying its operands pays
SHORTEST = 128  # a product this narrow is bound by memory traffic, which padding does not reduce
_NEUTRAL = {SUM: 0.0, MAX: -math.inf, MIN: math.inf}


@for_ops(MATMUL, dtypes=HALF)
def align(graph: Graph, target: Target = HOST_TARGET) -> Graph:
    """The graph with large products on aligned rows. Returns the same graph if all are aligned, and when not on a GPU.

    >>> import wengert as wg
    >>> from wengert.ops.core import placeholder
    >>> x, w = placeholder((4096, 768), wg.bfloat16, "cuda:0"), placeholder((768, 1001), wg.bfloat16, "cuda:0")
    >>> [(node.op.name, node.shape) for node in align(Graph([x, w], [MATMUL(x, w)])).nodes]
    [('place', (768, 1024)), ('matmul', (4096, 1024)), ('slice', (4096, 1001))]
    """
    extents = {n for node in graph.nodes if node.op is MATMUL for n in _unaligned(node)}
    return rewrite(graph, _Aligning({n: -(-n // LINE) * LINE for n in extents})) if extents else graph


def _unaligned(product: Node) -> set[int]:
    """The extents of a product's axes that are contiguous in some matrix, if they are unaligned and padding pays."""
    a, b = product.sources
    (m, n), k = product.shape[-2:], a.shape[-1]
    on_gpu = not is_host(product.device) and product.dtype in HALF
    if not on_gpu or min(m, n, k) < SHORTEST or 2 * product.size * k < WORTH:
        return set()
    along = {m if _is_transpose(a) else k, k if _is_transpose(b) else n, n}
    return {extent for extent in along if extent % ALIGNED}


def _is_transpose(x: Node) -> bool:
    """Whether a value, or the value it is a slice of, is another with its last two axes swapped."""
    x = x.sources[0] if made_by(x, SLICE) else x
    return made_by(x, PERMUTE) and x.attrs["axes"] == (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2)


class _Aligning:
    """The rewrite rule, for given extents and their padded sizes."""

    def __init__(self, extents: dict[int, int]) -> None:
        self.extents = extents
        self.padded: dict[tuple[Node, int], Node] = {}  # by value and axis: the value with zeros appended
        self.zeros: set[Node] = set()  # padded values that are known to be 0 there
        self.zeroed: dict[Node, Node] = {}  # others, made so
        self.masks: dict[tuple[Shape, int], Node] = {}  # by the shape that broadcasts and the extent

    def __call__(self, node: Node) -> Node | None:
        if node.op is MATMUL:
            return self._product(node)
        if node.op is IOTA and node.shape[0] in self.extents:
            return _cut(iota(self.extents[node.shape[0]], node.dtype), 0, node.shape[0])
        if node.op in _NEUTRAL:
            return self._reduced(node)
        if node.op is PERMUTE or node.op is RESHAPE or node.op is BROADCAST:
            return self._moved(node)
        if isinstance(node.op, Elementwise) or node.op is CAST:
            return self._pointwise(node)
        return None

    # --- padded values --------------------------------------------------------------------------------------------

    def _whole(self, x: Node) -> tuple[Node, int] | None:
        """The padded value that a slice was taken from and its padded axis, if the padding was added by this pass."""
        if not made_by(x, SLICE) or any(x.attrs["starts"]) or any(step != 1 for step in x.attrs["steps"]):
            return None
        source = x.sources[0]
        axes = [axis for axis, (a, b) in enumerate(zip(x.shape, source.shape)) if a != b]
        if len(axes) != 1 or self.extents.get(x.shape[axes[0]]) != source.shape[axes[0]]:
            return None
        return source, axes[0]

    def _inside(self, x: Node, axis: int, extent: int) -> Node:
        """Where a padded value holds elements of the original, as opposed to padding."""
        shape = _with_extent((1,) * x.ndim, axis, x.shape[axis])
        if (shape, extent) not in self.masks:
            places = reshape(iota(x.shape[axis], int32), shape)
            self.masks[shape, extent] = e.less(places, literal(extent, int32))
        return self.masks[shape, extent]

    def _zero_padded(self, x: Node, axis: int) -> Node:
        """A value with zeros appended; repeated calls return the same node."""
        if (x, axis) not in self.padded:
            self.padded[x, axis] = self._made_zero_padded(x, axis)
        return self.padded[x, axis]

    def _made_zero_padded(self, x: Node, axis: int) -> Node:
        whole = self._whole(x)
        if whole is not None and whole[1] == axis:
            return self._zeroed(*whole, x.shape[axis])
        if made_by(x, PERMUTE):
            axes = x.attrs["axes"]
            return permute_dims(self._zero_padded(x.sources[0], axes[axis]), axes)
        return place(x, _with_extent(x.shape, axis, self.extents[x.shape[axis]]), (0,) * x.ndim, (1,) * x.ndim)

    def _zeroed(self, x: Node, axis: int, extent: int) -> Node:
        """A padded value with zeros after its end; the same node whenever it is requested."""
        if x in self.zeros:
            return x
        if x not in self.zeroed:
            self.zeroed[x] = self._made_zeroed(x, axis, extent)
        return self.zeroed[x]

    def _made_zeroed(self, x: Node, axis: int, extent: int) -> Node:
        """Write the zeros where a value is computed, before it is rounded and moved."""
        if made_by(x, CAST):
            return cast(self._zeroed(x.sources[0], axis, extent), x.dtype)
        if made_by(x, RESHAPE) and axis == x.ndim - 1 and x.sources[0].shape[-1:] == x.shape[-1:]:
            source = x.sources[0]
            return reshape(self._zeroed(source, source.ndim - 1, extent), x.shape)
        if made_by(x, PERMUTE):
            axes = x.attrs["axes"]
            return permute_dims(self._zeroed(x.sources[0], axes[axis], extent), axes)
        return e.where(self._inside(x, axis, extent), x, literal(0, x.dtype, x.device))

    # --- ops ------------------------------------------------------------------------------------------------------

    def _product(self, node: Node) -> Node | None:
        unaligned = _unaligned(node)
        if not unaligned:
            return None
        a, b = node.sources
        (m, n), k = node.shape[-2:], a.shape[-1]
        for extent, left, right in ((m, a.ndim - 2, None), (k, a.ndim - 1, b.ndim - 2), (n, None, b.ndim - 1)):
            if extent in unaligned:
                a = a if left is None else self._zero_padded(a, left)
                b = b if right is None else self._zero_padded(b, right)
        product = MATMUL(a, b)
        self.zeros.add(product)
        rows = _cut(product, node.ndim - 2, m)
        return _cut(rows, node.ndim - 1, n)

    def _pointwise(self, node: Node) -> Node | None:
        """An elementwise op over padded values; an unpadded operand must be constant along the axis, or small."""
        cut = [(x, self._whole(x)) for x in node.sources]
        axes = {whole[1] + node.ndim - x.ndim for x, whole in cut if whole is not None}
        if len(axes) != 1:
            return None
        (axis,) = axes
        sources: list[Node] = []
        for x in node.sources:
            operand = self._beside(x, axis - (node.ndim - x.ndim), node.size)
            if operand is None:
                return None
            sources.append(operand)
        result = node.op(*sources, **node.attrs)
        if node.op is CAST and sources[0] in self.zeros:
            self.zeros.add(result)
        return _cut(result, axis, node.shape[axis])

    def _beside(self, x: Node, axis: int, size: int) -> Node | None:
        """An operand expanded to match padded operands; None if that would take a large copy."""
        if axis < 0 or x.shape[axis] == 1:
            return x
        whole = self._whole(x)
        if whole is not None:
            return whole[0] if whole[1] == axis else None
        return self._zero_padded(x, axis) if x.size * LINE <= size else None

    def _reduced(self, node: Node) -> Node | None:
        x, axes = node.sources[0], node.attrs["axes"]
        whole = self._whole(x)
        if whole is None or x.dtype not in FLOATING:
            return None
        source, axis = whole
        if axis in axes:
            inside = self._inside(source, axis, x.shape[axis])
            neutral = literal(_NEUTRAL[node.op], x.dtype, x.device)
            return node.op(e.where(inside, source, neutral), **node.attrs)
        result = node.op(source, **node.attrs)
        at = axis if node.attrs["keepdims"] else axis - sum(other < axis for other in axes)
        return _cut(result, at, x.shape[axis])

    def _moved(self, node: Node) -> Node | None:
        x = node.sources[0]
        whole = self._whole(x)
        if whole is None:
            return None
        source, axis = whole
        if node.op is PERMUTE:
            at = node.attrs["axes"].index(axis)
            moved = permute_dims(source, node.attrs["axes"])
        elif node.op is BROADCAST:
            at = axis + node.ndim - x.ndim
            moved = broadcast_to(source, _with_extent(node.shape, at, source.shape[axis]))
        elif axis == x.ndim - 1 and node.shape[-1:] == x.shape[-1:]:
            at = node.ndim - 1
            moved = reshape(source, _with_extent(node.shape, at, source.shape[axis]))
        else:
            return None
        if source in self.zeros:
            self.zeros.add(moved)
        return _cut(moved, at, node.shape[at])


def _cut(x: Node, axis: int, extent: int) -> Node:
    return slice_axis(x, axis, 0, extent)


def _with_extent(shape: Shape, axis: int, extent: int) -> Shape:
    return tuple(extent if i == axis else n for i, n in enumerate(shape))
