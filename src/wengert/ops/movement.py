"""Movement: ops that put elements elsewhere and compute nothing. Each is linear, and its transpose is movement again.

reshape <-> reshape    permute_dims <-> permute_dims    flip <-> flip
take_slice <-> place (laying a value into zeros)         broadcast_to <-> the walk's sum over the broadcast axes
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Unpack

import numpy as np

from wengert.core.dtypes import result_dtype
from wengert.core.errors import ArgumentError, DTypeError, OutOfRangeError, ShapeError
from wengert.core.graph import Node, Shape
from wengert.ops.core import as_node, cast, operands
from wengert.ops.factors import other_axes, permuting, placing, repeating, reshaping, slicing
from wengert.ops.facts import Facts, itself
from wengert.ops.op import Op, behind_lanes, each_batched


def normalize_axis(axis: Any, rank: int, name: str) -> int:
    """An axis counted from the front."""
    try:
        index = axis.__index__()
    except AttributeError:
        raise DTypeError(f"{name}: an axis is an integer, not {axis!r}") from None
    if not -rank <= index < rank:
        axes = f"-{rank} to {rank - 1}" if rank else "none: the value is 0-d"
        raise OutOfRangeError(f"{name}: axis {index} of a value with {rank} axes; there are {axes}")
    return int(index % rank)


def normalize_axes(axis: Any, rank: int, name: str) -> tuple[int, ...]:
    """The axes named by None (all), an integer or a tuple of them, from the front and in order."""
    if axis is None:
        return tuple(range(rank))
    axes = axis if isinstance(axis, (tuple, list)) else (axis,)
    found = sorted(normalize_axis(a, rank, name) for a in axes)
    if len(set(found)) != len(found):
        raise ArgumentError(f"{name}: an axis stands twice in {tuple(axes)}")
    return tuple(found)


def as_shape(shape: Any, name: str) -> Shape:
    """A shape given as an integer or a sequence of them."""
    sizes = shape if isinstance(shape, (tuple, list)) else (shape,)
    try:
        return tuple(int(n.__index__()) for n in sizes)
    except (AttributeError, TypeError):
        raise DTypeError(f"{name}: a shape is made of integers, not {shape!r}") from None


def _linear_move(name: str, infer: Any, numpy: Any, transpose: Any, batch: Any, **facts: Unpack[Facts]) -> Op:
    facts.setdefault("kind", "movement")
    return Op(
        name,
        infer=infer,
        numpy=numpy,
        vjp=(transpose,),
        linear=(0,),
        batch=batch,
        moves=True,
        **facts,
    )


# --- reshape --------------------------------------------------------------------------------------------------------

RESHAPE = _linear_move(
    "reshape",
    lambda x, shape: (shape, x.dtype),
    lambda x, shape: x.reshape(shape),
    lambda g, y, x: reshape(g, x.shape),
    lambda y, sources, batched: reshape(sources[0], (sources[0].shape[0], *y.shape)),
    aliases=True,
    free=True,
    symbolic=itself,
    factors=reshaping,
)


def reshape(x: Any, /, shape: Any, *, copy: bool | None = None) -> Node:
    """The same elements in another shape; one size may be -1 and is worked out. Values never alias: `copy` is free.

    >>> import wengert as wg
    >>> wg.reshape(wg.arange(6), (2, -1)).tolist()
    [[0, 1, 2], [3, 4, 5]]
    """
    x = as_node(x)
    sizes = as_shape(shape, "reshape")
    if sizes == x.shape:
        return x
    if sizes.count(-1) == 1:
        rest = math.prod(n for n in sizes if n != -1)
        if rest == 0 or x.size % rest:
            raise ShapeError(f"reshape: {x.size} elements of shape {x.shape} do not divide into {sizes}")
        sizes = tuple(x.size // rest if n == -1 else n for n in sizes)
    if sizes.count(-1) > 1:
        raise ShapeError(f"reshape: only one size may be -1, and {sizes} has {sizes.count(-1)}")
    if any(n < 0 for n in sizes):
        raise ShapeError(f"reshape: a size cannot be negative, other than -1 once: {sizes}")
    if math.prod(sizes) != x.size:
        raise ShapeError(f"reshape: shape {x.shape} has {x.size} elements, {sizes} has {math.prod(sizes)}")
    return RESHAPE(x, shape=sizes)


def expand_dims(x: Any, /, axis: Any = 0) -> Node:
    """`x` with axes of size 1 put in, at these places of the result.

    >>> import wengert as wg
    >>> wg.expand_dims(wg.ones((2, 3)), 0).shape
    (1, 2, 3)
    """
    x = as_node(x)
    places = axis if isinstance(axis, (tuple, list)) else (axis,)
    axes = normalize_axes(places, x.ndim + len(places), "expand_dims")
    sizes = iter(x.shape)
    return reshape(x, tuple(1 if i in axes else next(sizes) for i in range(x.ndim + len(axes))))


def squeeze(x: Any, /, axis: Any = None) -> Node:
    """`x` without these axes of size 1; without all of them if no axis is named.

    >>> import wengert as wg
    >>> wg.squeeze(wg.ones((1, 3, 1)), 0).shape
    (3, 1)
    """
    x = as_node(x)
    if axis is None:
        return reshape(x, tuple(n for n in x.shape if n != 1))
    axes = normalize_axes(axis, x.ndim, "squeeze")
    for a in axes:
        if x.shape[a] != 1:
            raise ShapeError(f"squeeze: axis {a} of shape {x.shape} has {x.shape[a]} elements, not 1")
    return reshape(x, tuple(n for i, n in enumerate(x.shape) if i not in axes))


def flatten(x: Any, start_dim: int = 0, end_dim: int = -1) -> Node:
    """`x` with the axes from `start_dim` to `end_dim` made one.

    >>> import wengert as wg
    >>> wg.flatten(wg.ones((2, 3, 4)), 1).shape
    (2, 12)
    """
    x = as_node(x)
    if x.ndim == 0:
        return reshape(x, (1,))
    start, end = normalize_axis(start_dim, x.ndim, "flatten"), normalize_axis(end_dim, x.ndim, "flatten")
    if start > end:
        raise ArgumentError(f"flatten: start_dim {start_dim} comes after end_dim {end_dim}")
    return reshape(x, (*x.shape[:start], math.prod(x.shape[start : end + 1]), *x.shape[end + 1 :]))


# --- permute --------------------------------------------------------------------------------------------------------

PERMUTE = _linear_move(
    "permute_dims",
    lambda x, axes: (tuple(x.shape[a] for a in axes), x.dtype),
    lambda x, axes: x.transpose(axes),
    lambda g, y, x: permute_dims(g, tuple(int(a) for a in np.argsort(y.attrs["axes"]))),
    lambda y, sources, batched: permute_dims(sources[0], (0, *(a + 1 for a in y.attrs["axes"]))),
    symbolic=itself,
    factors=permuting,
)


def permute_dims(x: Any, /, axes: Sequence[int]) -> Node:
    """`x` with its axes in another order.

    >>> import wengert as wg
    >>> wg.permute_dims(wg.ones((2, 3, 4)), (2, 0, 1)).shape
    (4, 2, 3)
    """
    x = as_node(x)
    order = tuple(normalize_axis(a, x.ndim, "permute_dims") for a in axes)
    if len(order) != x.ndim or len(set(order)) != x.ndim:
        raise ArgumentError(f"permute_dims: {tuple(axes)} does not name each axis of shape {x.shape} once")
    return x if order == tuple(range(x.ndim)) else PERMUTE(x, axes=order)


def matrix_transpose(x: Any, /) -> Node:
    """`x` with its last two axes exchanged.

    >>> import wengert as wg
    >>> wg.linalg.matrix_transpose(wg.ones((2, 3))).shape
    (3, 2)
    """
    x = as_node(x)
    if x.ndim < 2:
        raise ShapeError(f"matrix_transpose takes at least two axes; the shape is {x.shape}")
    n = len(x.shape)
    return PERMUTE(x, axes=(*range(n - 2), n - 1, n - 2))


def swapaxes(x: Any, axis1: int, axis2: int) -> Node:
    """`x` with two axes exchanged.

    >>> import wengert as wg
    >>> wg.swapaxes(wg.ones((2, 3, 4)), 0, 2).shape
    (4, 3, 2)
    """
    x = as_node(x)
    a, b = normalize_axis(axis1, x.ndim, "swapaxes"), normalize_axis(axis2, x.ndim, "swapaxes")
    order = list(range(x.ndim))
    order[a], order[b] = b, a
    return permute_dims(x, order)


def moveaxis(x: Any, source: Any, destination: Any, /) -> Node:
    """`x` with some axes moved to other places, the rest in their order.

    >>> import wengert as wg
    >>> wg.moveaxis(wg.ones((2, 3, 4)), 0, -1).shape
    (3, 4, 2)
    """
    x = as_node(x)
    sources = source if isinstance(source, (tuple, list)) else (source,)
    targets = destination if isinstance(destination, (tuple, list)) else (destination,)
    if len(sources) != len(targets):
        raise ArgumentError(f"moveaxis: {len(sources)} axes to move and {len(targets)} places for them")
    start = [normalize_axis(a, x.ndim, "moveaxis") for a in sources]
    end = [normalize_axis(a, x.ndim, "moveaxis") for a in targets]
    if len({*start}) < len(start) or len({*end}) < len(end):
        raise ArgumentError(f"moveaxis: an axis is named twice, in {tuple(sources)} or in {tuple(targets)}")
    order = [a for a in range(x.ndim) if a not in start]
    for place, axis in sorted(zip(end, start)):
        order.insert(place, axis)
    return permute_dims(x, order)


# --- broadcast ------------------------------------------------------------------------------------------------------


def _broadcast_batch(y: Node, sources: Sequence[Node], batched: Sequence[bool]) -> Node:
    x = sources[0]
    aligned = (x.shape[0], *(1,) * (len(y.shape) - (x.ndim - 1)), *x.shape[1:])
    return broadcast_to(reshape(x, aligned), (x.shape[0], *y.shape))


BROADCAST = _linear_move(
    "broadcast_to",
    lambda x, shape: (shape, x.dtype),
    lambda x, shape: np.broadcast_to(x, shape),
    lambda g, y, x: g,  # the walk sums it to the shape of x
    _broadcast_batch,
    symbolic=itself,
    factors=repeating,
)


def broadcast_to(x: Any, /, shape: Any) -> Node:
    """`x` repeated along axes of size 1, and along new ones in front, to this shape.

    >>> import wengert as wg
    >>> wg.broadcast_to(wg.tensor([1.0, 2.0]), (3, 2)).shape
    (3, 2)
    """
    x = as_node(x)
    sizes = as_shape(shape, "broadcast_to")
    if x.shape == sizes:
        return x
    aligned = (1,) * (len(sizes) - x.ndim) + x.shape
    if x.ndim > len(sizes) or any(m not in (1, n) for m, n in zip(aligned, sizes)):
        raise ShapeError(f"broadcast_to: shape {x.shape} does not broadcast to {sizes}")
    return BROADCAST(x, shape=sizes)


# --- slices, and laying a value into zeros --------------------------------------------------------------------------


def _slices(starts: Shape, steps: Shape, sizes: Shape) -> tuple[slice, ...]:
    return tuple(slice(s, s + (n - 1) * t + 1 if n else s, t) for s, t, n in zip(starts, steps, sizes))


def _lay(x: Any, shape: Shape, starts: Shape, steps: Shape) -> Any:
    result = np.zeros(shape, x.dtype)
    result[_slices(starts, steps, x.shape)] = x
    return result


SLICE = _linear_move(
    "slice",
    lambda x, starts, steps, sizes: (sizes, x.dtype),
    lambda x, starts, steps, sizes: x[_slices(starts, steps, sizes)],
    lambda g, y, x: place(g, x.shape, y.attrs["starts"], y.attrs["steps"]),
    lambda y, sources, batched: take_slice(
        sources[0], (0, *y.attrs["starts"]), (1, *y.attrs["steps"]), (sources[0].shape[0], *y.shape)
    ),
    factors=slicing,
)
PLACE = _linear_move(
    "place",
    lambda x, shape, starts, steps: (shape, x.dtype),
    _lay,
    lambda g, y, x: take_slice(g, y.attrs["starts"], y.attrs["steps"], x.shape),
    lambda y, sources, batched: place(
        sources[0], (sources[0].shape[0], *y.shape), (0, *y.attrs["starts"]), (1, *y.attrs["steps"])
    ),
    factors=placing,
)


def take_slice(x: Node, starts: Shape, steps: Shape, sizes: Shape) -> Node:
    """From each axis `sizes` elements, beginning at `starts`, `steps` (at least 1) apart."""
    whole = sizes == x.shape and not any(starts) and all(step == 1 for step in steps)
    return x if whole else SLICE(x, starts=tuple(starts), steps=tuple(steps), sizes=tuple(sizes))


def place(x: Node, shape: Shape, starts: Shape, steps: Shape) -> Node:
    """`x` laid into zeros of this shape: the transpose of `take_slice`, and what padding and dilation are made of."""
    whole = shape == x.shape and not any(starts)
    return x if whole else PLACE(x, shape=tuple(shape), starts=tuple(starts), steps=tuple(steps))


def slice_axis(x: Node, axis: int, start: int, stop: int, step: int = 1) -> Node:
    """A slice along one axis; the bounds count from the front."""
    sizes = list(x.shape)
    sizes[axis] = max(0, -(-(stop - start) // step))
    starts, steps = [0] * x.ndim, [1] * x.ndim
    starts[axis], steps[axis] = start, step
    return take_slice(x, tuple(starts), tuple(steps), tuple(sizes))


FLIP: Op = _linear_move(
    "flip",
    lambda x, axes: (x.shape, x.dtype),
    lambda x, axes: np.flip(x, axes),
    lambda g, y, x: FLIP(g, **y.attrs),
    behind_lanes,
    symbolic=itself,
    factors=other_axes,
)


def flip(x: Any, /, axis: Any = None) -> Node:
    """`x` with its elements the other way round along these axes (all, if none is named).

    >>> import wengert as wg
    >>> wg.flip(wg.tensor([1.0, 2.0, 3.0])).tolist()
    [3.0, 2.0, 1.0]
    """
    x = as_node(x)
    return FLIP(x, axes=normalize_axes(axis, x.ndim, "flip"))


# --- joining and taking apart ---------------------------------------------------------------------------------------


def _concat_infer(*xs: Node, axis: int) -> tuple[Any, Any]:
    first = xs[0]
    for x in xs[1:]:
        if x.ndim != first.ndim or any(m != n for i, (m, n) in enumerate(zip(first.shape, x.shape)) if i != axis):
            raise ShapeError(f"concat: shapes {first.shape} and {x.shape} differ in more than axis {axis}")
    total = sum(x.shape[axis] for x in xs)
    return (*first.shape[:axis], total, *first.shape[axis + 1 :]), first.dtype


def _concat_vjp(g: Node, y: Node) -> list[Node]:
    axis, start, parts = y.attrs["axis"], 0, []
    for x in y.sources:
        parts.append(slice_axis(g, axis, start, start + x.shape[axis]))
        start += x.shape[axis]
    return parts


def _concat_batch(y: Node, sources: Sequence[Node], batched: Sequence[bool]) -> Node:
    return CONCAT(*each_batched(sources, batched), axis=y.attrs["axis"] + 1)


CONCAT = Op(
    "concat",
    infer=_concat_infer,
    numpy=lambda *xs, axis: np.concatenate(xs, axis),
    vjp=_concat_vjp,
    linear=range(1 << 30),  # in all of its sources, however many there are
    batch=_concat_batch,
    moves=True,
    can_fail=False,
    factors=other_axes,
)


def _several(arrays: Sequence[Any], name: str) -> Sequence[Any]:
    if type(arrays) is Node:
        raise ArgumentError(f"{name} takes a list of tensors: write {name}([x, y])")
    return arrays


def concat(arrays: Sequence[Any], /, axis: int | None = 0) -> Node:
    """Values joined along an axis they have; along one axis after flattening them if `axis` is None.

    >>> import wengert as wg
    >>> wg.concat([wg.tensor([1.0, 2.0]), wg.tensor([3.0])]).tolist()
    [1.0, 2.0, 3.0]
    """
    xs = operands(*_several(arrays, "concat"))
    if not xs:
        raise ArgumentError("concat: there is nothing to join")
    dtype = result_dtype(*[x.dtype for x in xs])
    xs = [cast(x, dtype) for x in xs]
    if axis is None:
        xs, axis = [reshape(x, (-1,)) for x in xs], 0
    at = normalize_axis(axis, xs[0].ndim, "concat")
    return xs[0] if len(xs) == 1 else CONCAT(*xs, axis=at)


def stack(arrays: Sequence[Any], /, axis: int = 0) -> Node:
    """Values of one shape joined along a new axis.

    >>> import wengert as wg
    >>> wg.stack([wg.ones(3), wg.zeros(3)]).shape
    (2, 3)
    """
    xs = operands(*_several(arrays, "stack"))
    if not xs:
        raise ArgumentError("stack: there is nothing to join")
    for x in xs:
        if x.shape != xs[0].shape:
            raise ShapeError(f"stack: shapes {xs[0].shape} and {x.shape} differ; concat joins along an axis they have")
    at = normalize_axis(axis, xs[0].ndim + 1, "stack")
    return concat([expand_dims(x, axis=at) for x in xs], axis=at)


def unstack(x: Any, /, axis: int = 0) -> tuple[Node, ...]:
    """The values that lie along an axis, each without it.

    >>> import wengert as wg
    >>> [row.tolist() for row in wg.unstack(wg.tensor([[1, 2], [3, 4]]))]
    [[1, 2], [3, 4]]
    """
    x = as_node(x)
    at = normalize_axis(axis, x.ndim, "unstack")
    return tuple(squeeze(slice_axis(x, at, i, i + 1), axis=at) for i in range(x.shape[at]))
