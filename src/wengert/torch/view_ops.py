"""The operations of views: how a view is read from its base value, and how a value is written back into it.

A view is a chain of these. Each is a plain value, a name and numbers, so that chains can be compared and be part of a
compiled function's key. `write` replaces in a node exactly what `read` takes from it.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from wengert.core.code import here
from wengert.core.context import mode
from wengert.core.dtypes import complex_of as complex_dtype
from wengert.core.graph import Node, Shape, recording
from wengert.ops.addressing import GATHER, PUT_SLICE, SCATTER
from wengert.ops.core import cast, data, literal
from wengert.ops.elementwise import add, imag, real, safe_multiply
from wengert.ops.movement import PERMUTE, RESHAPE, SLICE, broadcast_to, permute_dims, reshape, stack, take_slice
from wengert.ops.op import Op

OVERLAP = (
    "unsupported operation: more than one element of the written-to tensor refers to a single memory location. "
    "Please clone() the tensor before performing the operation."
)


class ViewOp(NamedTuple):
    """A part of a value, or all of it in another shape."""

    name: str
    args: tuple[Any, ...]

    def read(self, x: Node) -> Node:
        """The part of a value."""
        return _READ[self.name](x, *self.args)

    def write(self, x: Node, part: Node) -> Node:
        """A value with another part. Where elements share memory, all that lie in one place must be equal."""
        return _WRITE[self.name](x, part, *self.args)

    @property
    def overlaps(self) -> bool:
        """Whether several elements are one place of the whole, so that only fills can be written."""
        return self.name == "expand" or (self.name == "strided" and has_overlap(*self.args[:2]))


# --- the kinds ------------------------------------------------------------------------------------------------------


def reshaped(shape: Shape) -> ViewOp:
    """All elements, in another shape."""
    return ViewOp("reshape", (tuple(shape),))


def permuted(axes: Shape) -> ViewOp:
    """The axes in another order."""
    return ViewOp("permute", (tuple(axes),))


def sliced(starts: Shape, steps: Shape, sizes: Shape, shape: Shape) -> ViewOp:
    """A slice of every axis, then in another shape: without the axes of integers, with those of None."""
    return ViewOp("slice", (tuple(starts), tuple(steps), tuple(sizes), tuple(shape)))


def expanded(shape: Shape) -> ViewOp:
    """Axes of size 1 repeated, and new ones in front."""
    return ViewOp("expand", (tuple(shape),))


def strided(sizes: Shape, strides: Shape, offset: int) -> ViewOp:
    """Any elements that steps over memory reach, as in `as_strided`."""
    return ViewOp("strided", (tuple(sizes), tuple(strides), int(offset)))


REAL, IMAG = ViewOp("real", ()), ViewOp("imag", ())
AS_REAL, AS_COMPLEX = ViewOp("as_real", ()), ViewOp("as_complex", ())
CHANGING = ("real", "imag", "as_real", "as_complex", "bitcast")
"""Those whose elements are not those of the whole."""


# --- expanded and overlapping memory --------------------------------------------------------------------------------


def _unexpand(x: Node, part: Node, shape: Shape) -> Node:
    """A fill of an expanded tensor fills the original: the first of each group of aliased elements."""
    new = len(shape) - x.ndim
    sizes = (*(1,) * new, *x.shape)
    return reshape(take_slice(part, (0,) * len(shape), (1,) * len(shape), sizes), x.shape)


def has_overlap(sizes: Shape, strides: Shape) -> bool:
    """Whether steps over memory reach an element twice."""
    steps = sorted((s, n) for n, s in zip(sizes, strides) if n > 1)
    if 0 in sizes or not steps:
        return False
    reach = 0
    for stride, size in steps:
        if stride <= reach:
            return len(np.unique(places(tuple(sizes), tuple(strides), 0))) < math.prod(sizes)
        reach += stride * (size - 1)
    return False


@functools.lru_cache(256)
def places(sizes: Shape, strides: Shape, offset: int) -> np.ndarray[Any, Any]:
    """Where in memory, counted in elements, the elements lie."""
    found = np.full((), offset, np.int64)
    for n, stride in zip(sizes, strides):
        found = found[..., None] + np.arange(n) * stride
    return found


def _read_strided(x: Node, sizes: Shape, strides: Shape, offset: int) -> Node:
    return GATHER(reshape(x, (-1,)), data(places(sizes, strides, offset), x.device), axis=0)


def _write_strided(x: Node, part: Node, sizes: Shape, strides: Shape, offset: int) -> Node:
    flat = reshape(x, (-1,))
    return reshape(SCATTER(flat, part, data(places(sizes, strides, offset), x.device), axis=0), x.shape)


# --- complex parts --------------------------------------------------------------------------------------------------


def complex_of(re: Node, im: Node) -> Node:
    """The complex value with these parts."""
    dtype = complex_dtype(re.dtype)
    return add(cast(re, dtype), safe_multiply(cast(im, dtype), literal(1j, dtype, re.device)))


def _part(x: Node, i: int) -> Node:
    n = x.ndim - 1
    return reshape(take_slice(x, (*(0,) * n, i), (1,) * x.ndim, (*x.shape[:-1], 1)), x.shape[:-1])


def _as_real(x: Node) -> Node:
    return stack([real(x), imag(x)], axis=-1)


def _as_complex(x: Node) -> Node:
    return complex_of(_part(x, 0), _part(x, 1))


# --- the usual ones, recorded by hand for speed ---------------------------------------------------------------------


def _node(op: Op, x: Node, attrs: dict[str, Any], shape: Shape) -> Node:
    tracked = x.tracked and mode().grad
    return Node(op, (x,), attrs, shape, x.dtype, x.device, tracked, recording.location or here())


def _read_reshaped(x: Node, shape: Shape) -> Node:
    return x if x.shape == shape else _node(RESHAPE, x, {"shape": shape}, shape)


def _read_permuted(x: Node, axes: Shape) -> Node:
    sizes = x.shape
    return _node(PERMUTE, x, {"axes": axes}, tuple([sizes[a] for a in axes]))


def _read_slice(x: Node, starts: Shape, steps: Shape, sizes: Shape, shape: Shape) -> Node:
    if sizes != x.shape:
        x = _node(SLICE, x, {"starts": starts, "steps": steps, "sizes": sizes}, sizes)
    return x if shape == sizes else _node(RESHAPE, x, {"shape": shape}, shape)


def _write_slice(x: Node, part: Node, starts: Shape, steps: Shape, sizes: Shape, shape: Shape) -> Node:
    if shape != sizes:
        part = _node(RESHAPE, part, {"shape": sizes}, sizes)
    if sizes == x.shape:
        return part
    tracked = (x.tracked or part.tracked) and mode().grad
    attrs = {"starts": starts, "steps": steps}
    return Node(PUT_SLICE, (x, part), attrs, x.shape, x.dtype, x.device, tracked, recording.location or here())


_READ: dict[str, Callable[..., Node]] = {
    "reshape": _read_reshaped,
    "permute": _read_permuted,
    "slice": _read_slice,
    "expand": lambda x, shape: broadcast_to(x, shape),
    "strided": _read_strided,
    "real": real,
    "imag": imag,
    "as_real": _as_real,
    "as_complex": _as_complex,
}
_WRITE: dict[str, Callable[..., Node]] = {
    "reshape": lambda x, part, shape: _read_reshaped(part, x.shape),
    "permute": lambda x, part, axes: permute_dims(part, tuple(int(a) for a in np.argsort(axes))),
    "slice": _write_slice,
    "expand": _unexpand,
    "strided": _write_strided,
    "real": lambda x, part: complex_of(part, imag(x)),
    "imag": lambda x, part: complex_of(real(x), part),
    "as_real": lambda x, part: _as_complex(part),
    "as_complex": lambda x, part: _as_real(part),
}


def joined(chain: tuple[ViewOp, ...], op: ViewOp) -> tuple[ViewOp, ...]:
    """A chain with one more op; two in a row that are one become it, so that chains do not grow in a loop."""
    if chain and chain[-1].name == op.name:
        if op.name == "reshape":
            return (*chain[:-1], op)
        if op.name == "permute":
            axes = tuple(chain[-1].args[0][a] for a in op.args[0])
            return chain[:-1] if axes == tuple(range(len(axes))) else (*chain[:-1], permuted(axes))
        if op.name == "slice" and chain[-1].args[2] == chain[-1].args[3]:
            return (*chain[:-1], _one_slice(chain[-1], op))
    return (*chain, op)


def _one_slice(first: ViewOp, second: ViewOp) -> ViewOp:
    starts, steps, _, _ = first.args
    more, by, sizes, shape = second.args
    return sliced(
        tuple(s + m * t for s, m, t in zip(starts, more, steps)), tuple(t * b for t, b in zip(steps, by)), sizes, shape
    )


# --- read as another dtype ------------------------------------------------------------------------------------------


def _bitcast_infer(x: Node, dtype: Any) -> tuple[Any, Any]:
    if not x.shape:
        return x.shape, dtype
    return (*x.shape[:-1], x.shape[-1] * x.dtype.itemsize // dtype.itemsize), dtype


BITCAST: Op = Op(
    "bitcast",
    infer=_bitcast_infer,
    numpy=lambda x, dtype: np.ascontiguousarray(x).reshape(x.shape).view(dtype),
    differentiable=False,
    can_fail=False,
    batch=lambda y, sources, batched: BITCAST(sources[0], **y.attrs),
)


def bitcast(dtype: Any) -> ViewOp:
    """The bytes of the elements as those of another dtype."""
    return ViewOp("bitcast", (dtype,))


_READ["bitcast"] = lambda x, dtype: BITCAST(x, dtype=dtype)
_WRITE["bitcast"] = lambda x, part, dtype: BITCAST(part, dtype=x.dtype)
