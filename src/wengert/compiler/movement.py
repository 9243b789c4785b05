"""Rules for movement of movement, reductions of repeated or reduced values, and picks of packs.

Movement rules preserve the bits. Of the reductions
- a sum over broadcast axes becomes a product with their size: exact for integers and powers of two, otherwise rounded
  once where the reference rounds at each step;
- a sum of a sum becomes one sum, added in another order;
- a sum of one element is that element, and a sum of -x is the negative of the sum of x: the sign of a zero may differ.
"""

from __future__ import annotations

import math

import numpy as np

from wengert.autodiff.custom import CUSTOM_JVP, CUSTOM_VJP
from wengert.compiler.constants import full, number_behind
from wengert.compiler.rewrite import Rule, made_by
from wengert.core.dtypes import COMPLEX, INEXACT, bool_
from wengert.core.graph import Node, Shape
from wengert.ops import elementwise as e
from wengert.ops.core import cast, literal
from wengert.ops.movement import (
    BROADCAST,
    CONCAT,
    FLIP,
    PERMUTE,
    PLACE,
    RESHAPE,
    SLICE,
    broadcast_to,
    flip,
    permute_dims,
    place,
    reshape,
    take_slice,
)
from wengert.ops.op import PACK, PICK, Op
from wengert.ops.reduce import ALL, ANY, MAX, MIN, PROD, SUM, reduced
from wengert.solvers.implicit import IMPLICIT

_KEEPING = frozenset((SUM, MAX, MIN, PROD, ALL, ANY))

# --- one movement after another -------------------------------------------------------------------------------------


def reshape_again(node: Node) -> Node | None:
    """Merge a reshape of a reshape; drop a reshape to the same shape; let a reduction set `keepdims` itself."""
    x = node.sources[0]
    if x.shape == node.shape:
        return x
    if made_by(x, RESHAPE):
        return reshape(x.sources[0], node.shape)
    if x.op in _KEEPING and made_by(x, x.op):
        whole, axes, kept = x.sources[0], x.attrs["axes"], x.attrs["keepdims"]
        if node.shape == reduced(whole.shape, axes, not kept):
            return x.op(whole, axes=axes, keepdims=not kept)
    return None


def _row(shape: Shape) -> Shape:
    return tuple(n for n in shape if n != 1)


def permute_again(node: Node) -> Node | None:
    """Merge a permutation of a permutation; one that only moves axes of size 1 becomes a reshape."""
    x, axes = node.sources[0], node.attrs["axes"]
    kept = [a for a in axes if x.shape[a] != 1]
    if kept == sorted(kept) or x.size <= 1:
        return reshape(x, node.shape)
    if made_by(x, PERMUTE):
        first = x.attrs["axes"]
        return permute_dims(x.sources[0], tuple(first[a] for a in axes))
    return None


def broadcast_again(node: Node) -> Node | None:
    """Merge a broadcast of a broadcast; one that only adds axes of size 1 becomes a reshape."""
    x = node.sources[0]
    if x.shape == node.shape:
        return x
    if made_by(x, BROADCAST):
        return BROADCAST(x.sources[0], shape=node.shape)
    if number_behind(x) is not None:
        return None  # a number repeated: the form that constants have
    if x.size == node.size and _row(x.shape) == _row(node.shape):
        return reshape(x, node.shape)
    if made_by(x, RESHAPE):
        inner = x.sources[0]
        added = len(x.shape) - len(inner.shape)
        if added > 0 and x.shape == (1,) * added + inner.shape:  # what broadcasting would have added
            return BROADCAST(inner, shape=node.shape)
    return None


def slice_again(node: Node) -> Node | None:
    """Merge a slice of a slice; a slice of exactly the part that was placed into zeros is that part."""
    x, starts, steps = node.sources[0], node.attrs["starts"], node.attrs["steps"]
    if x.shape == node.shape and not any(starts):
        return x
    if made_by(x, SLICE):
        first, pace = x.attrs["starts"], x.attrs["steps"]
        begin = tuple(s + t * p for s, t, p in zip(first, starts, pace))
        return take_slice(x.sources[0], begin, tuple(a * b for a, b in zip(pace, steps)), node.shape)
    if made_by(x, PLACE):
        laid = x.sources[0]
        if laid.shape == node.shape and x.attrs["starts"] == starts and x.attrs["steps"] == steps:
            return laid
    return None


def place_again(node: Node) -> Node | None:
    """Merge a placement into zeros of a value that was placed into zeros."""
    x, starts, steps = node.sources[0], node.attrs["starts"], node.attrs["steps"]
    if x.shape == node.shape and not any(starts):
        return x
    if made_by(x, PLACE):
        first, pace = x.attrs["starts"], x.attrs["steps"]
        begin = tuple(t + p * s for s, t, p in zip(first, starts, steps))
        return place(x.sources[0], node.shape, begin, tuple(a * b for a, b in zip(pace, steps)))
    return None


def flip_again(node: Node) -> Node | None:
    """Drop a double flip; flipping an axis of size 1 does nothing."""
    x = node.sources[0]
    axes = {a for a in node.attrs["axes"] if x.shape[a] > 1}
    inner = made_by(x, FLIP)
    if inner:
        axes ^= set(x.attrs["axes"])
        x = x.sources[0]
    if not axes:
        return x
    if inner or len(axes) < len(node.attrs["axes"]):
        return flip(x, axis=tuple(sorted(axes)))
    return None


def concat_of_parts(node: Node) -> Node | None:
    """Adjacent slices of one value, joined again, are a slice of it; empty operands are dropped."""
    axis = node.attrs["axis"]
    parts = [source for source in node.sources if source.shape[axis]]
    if len(parts) == 1:
        return parts[0]
    if 1 < len(parts) < len(node.sources):
        return CONCAT(*parts, axis=axis)
    first = node.sources[0]
    if not made_by(first, SLICE) or any(step != 1 for step in first.attrs["steps"]):
        return None
    whole, starts = first.sources[0], first.attrs["starts"]
    at = starts[axis]
    for part in parts:
        expected = (*starts[:axis], at, *starts[axis + 1 :])
        if not made_by(part, SLICE) or part.sources[0] is not whole or part.attrs["starts"] != expected:
            return None
        if part.attrs["steps"] != first.attrs["steps"]:
            return None
        at += part.shape[axis]
    return take_slice(whole, starts, first.attrs["steps"], node.shape) if parts else None


# --- reductions -----------------------------------------------------------------------------------------------------


def reduce_little(node: Node) -> Node | None:
    """A reduction over axes of size 1, or over none, is movement; a sum of no elements is 0."""
    x, axes = node.sources[0], node.attrs["axes"]
    if all(x.shape[a] == 1 for a in axes):
        return reshape(cast(x, node.dtype) if node.op in (ALL, ANY) else x, node.shape)
    if node.op is SUM and any(x.shape[a] == 0 for a in axes):
        return full(0, node.shape, node)
    return None


def reduce_reduced(node: Node) -> Node | None:
    """A sum of sums, a maximum of maxima, ...: one reduction over all of the axes."""
    x = node.sources[0]
    if not made_by(x, node.op):
        return None
    inner, done = x.sources[0], x.attrs["axes"]
    if x.attrs["keepdims"]:
        axes = set(done) | set(node.attrs["axes"])
    else:
        left = [a for a in range(len(inner.shape)) if a not in done]
        axes = set(done) | {left[a] for a in node.attrs["axes"]}
    keep = x.attrs["keepdims"] and node.attrs["keepdims"]
    return reshape(node.op(inner, axes=tuple(sorted(axes)), keepdims=keep), node.shape)


def reduce_repeated(node: Node) -> Node | None:
    """Along a broadcast axis a sum is a product with its size, and the maximum is any of the elements."""
    x, axes = node.sources[0], node.attrs["axes"]
    if not made_by(x, BROADCAST) or 0 in x.shape:
        return None
    value = x.sources[0]
    extra = len(x.shape) - len(value.shape)
    aligned = (1,) * extra + value.shape
    repeated = [a for a in axes if aligned[a] == 1 and x.shape[a] != 1]
    count = math.prod(x.shape[a] for a in repeated)
    if not repeated or (node.op is SUM and not _fits(count, node)):
        return None
    rest = tuple(a - extra for a in axes if aligned[a] != 1)
    if rest:
        value = node.op(value, axes=rest, keepdims=True)
    elif node.op in (ALL, ANY):
        value = cast(value, bool_)
    if node.op is SUM:
        value = e.multiply(value, literal(count, node.dtype, node.device))
    kept = tuple([1 if a in axes else n for a, n in enumerate(aligned) if node.attrs["keepdims"] or a not in axes])
    return broadcast_to(reshape(value, kept), node.shape)


def sum_of_negative(node: Node) -> Node | None:
    """The sum of -x is the negative of the sum, which has fewer elements."""
    x = node.sources[0]
    return e.negative(SUM(x.sources[0], **node.attrs)) if made_by(x, e.negative) else None


def _fits(count: int, node: Node) -> bool:
    """Whether the node's dtype represents a count exactly."""
    if node.dtype in COMPLEX or node.dtype is bool_:
        return False
    if node.dtype not in INEXACT:
        return count <= int(np.iinfo(node.dtype).max)
    return float(np.asarray(count, np.float64).astype(node.dtype)) == count


# --- several results ------------------------------------------------------------------------------------------------


def pick_packed(node: Node) -> Node | None:
    """A pick of a pack is the packed value; the results of a custom derivative are its first sources."""
    x, index = node.sources[0], node.attrs["index"]
    if made_by(x, PACK) or made_by(x, CUSTOM_VJP) or made_by(x, CUSTOM_JVP) or made_by(x, IMPLICIT):
        return x.sources[index]
    return None


_REDUCTION = (reduce_little, reduce_repeated, reduce_reduced)

MOVES: dict[Op, tuple[Rule, ...]] = {
    RESHAPE: (reshape_again,),
    PERMUTE: (permute_again,),
    BROADCAST: (broadcast_again,),
    SLICE: (slice_again,),
    PLACE: (place_again,),
    FLIP: (flip_again,),
    CONCAT: (concat_of_parts,),
    SUM: (*_REDUCTION, sum_of_negative),
    MAX: _REDUCTION,
    MIN: _REDUCTION,
    ALL: _REDUCTION,
    ANY: _REDUCTION,
    PROD: (reduce_little, reduce_reduced),
    PICK: (pick_packed,),
}
"""What each op may become."""
