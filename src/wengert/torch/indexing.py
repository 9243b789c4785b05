"""Elements by their indices: gather and scatter, selected places of an axis, masks, classes, diagonals, triangles."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from wengert.api import data_dependent
from wengert.core.dtypes import INTEGER, bool_, int64, uint8
from wengert.core.errors import OutOfRangeError
from wengert.core.graph import Node
from wengert.ops import comparison as c
from wengert.ops import gather as g
from wengert.ops import scatter_reduce as into
from wengert.ops.addressing import SCATTER, SCATTER_ADD, TAKE_ALONG
from wengert.ops.core import as_node, cast, literal, operand
from wengert.ops.elementwise import multiply
from wengert.ops.movement import broadcast_to, concat, reshape, slice_axis, stack
from wengert.tensor import Tensor as Base
from wengert.tensor import engine
from wengert.torch import dtypes
from wengert.torch.arguments import axes_of, over_nodes, row_of
from wengert.torch.registry import torch_function
from wengert.torch.tensor import Tensor

# --- gather and scatter ---------------------------------------------------------------------------------------------


def _index(index: Any, name: str) -> Node:
    node = as_node(index)
    if node.dtype not in INTEGER:
        raise RuntimeError(f"{name}(): Expected dtype int32/int64 for index, not {dtypes.of(node.dtype)}")
    return node


def _from_zero(index: Node, name: str) -> Node:
    """An index that does not count from the back, which PyTorch refuses here."""
    known = index.buffer
    if isinstance(known, np.ndarray) and known.size and known.min() < 0:
        raise OutOfRangeError(f"{name}: index {known.min()} is out of bounds: here indices do not count from the back")
    return index


def _rows(name: str, x: Node, dim: Any, index: Node) -> tuple[Node, int, Node]:
    """A value and an index with an axis at least, and the axis: a 0-d one stands for one of one element."""
    row, axis = row_of(x, dim)
    index = _from_zero(_index(index, name), name)
    if not index.shape:
        index = reshape(index, (1,))
    if len(index.shape) != len(row.shape):
        raise RuntimeError(f"Index tensor must have the same number of dimensions as input tensor ({name})")
    return row, axis, index


@torch_function(out=True)
@over_nodes()
def gather(input: Node, dim: int, index: Node, *, sparse_grad: bool = False) -> Node:
    """For each index, the element at that index along an axis. The index may be shorter along the other axes."""
    if not index.size:
        return broadcast_to(literal(0, input.dtype, input.device), index.shape)
    row, axis, places = _rows("gather", input, dim, index)
    return reshape(g.gather(row, axis, places), index.shape)


def _source(x: Node, src: Any, name: str) -> Any:
    if isinstance(src, Node):
        if src.dtype is not x.dtype:
            raise RuntimeError(f"{name}(): Expected self.dtype to be equal to src.dtype")
        return src if src.shape else reshape(src, (1,))
    return operand(src, x.dtype, x.device) if not isinstance(src, complex) else literal(src, x.dtype, x.device)


@torch_function(in_place=True, out=True)
@over_nodes()
def scatter(
    input: Node, dim: int, index: Node, src: Any = None, *, value: Any = None, reduce: str | None = None
) -> Node:
    """`input` with the elements that `gather` reads replaced by those of `src`, or added, or multiplied, to them."""
    src = value if src is None else src
    if reduce is not None:
        if reduce not in ("add", "multiply"):
            raise RuntimeError(f"reduce argument must be either add or multiply, got {reduce}")
        how = "sum" if reduce == "add" else "prod"
        return _combined("scatter", input, dim, index, _wide(src, input, index), how, True)
    row, axis, places = _rows("scatter", input, dim, index)
    if not places.size:
        return input
    source = cast(_source(row, src, "scatter"), row.dtype)
    return reshape(g.scatter(row, axis, places, source), input.shape)


@torch_function(in_place=True, out=True)
@over_nodes()
def scatter_add(input: Node, dim: int, index: Node, src: Node) -> Node:
    """`input` with `src` added to the elements that `gather` reads."""
    row, axis, places = _rows("scatter_add", input, dim, index)
    if not places.size:
        return input
    return reshape(g.scatter_add(row, axis, places, _source(row, src, "scatter_add")), input.shape)


@torch_function(in_place=True, out=True)
@over_nodes()
def scatter_reduce(input: Node, dim: int, index: Node, src: Node, reduce: str, *, include_self: bool = True) -> Node:
    """`input` with `src` reduced into the elements that `gather` reads, by "sum", "prod", "mean", "amax" or "amin"."""
    if reduce not in into.REDUCTIONS:
        raise RuntimeError(f"reduce argument must be either sum, prod, mean, amax or amin, got {reduce}")
    return _combined("scatter_reduce", input, dim, index, src, reduce, include_self)


def _combined(name: str, x: Node, dim: Any, index: Node, src: Node, how: str, with_self: bool) -> Node:
    row, axis, places = _rows(name, x, dim, index)
    if not places.size:
        return x
    source = cast(_source(row, src, name), row.dtype)
    return reshape(into.scatter_reduce(row, axis, places, source, how, include_self=with_self), x.shape)


def _wide(src: Any, x: Node, index: Node) -> Node:
    """What is scattered, a number once for each index."""
    if isinstance(src, Node) and src.shape:
        return src
    return broadcast_to(cast(operand(src, x.dtype, x.device), x.dtype), index.shape)


@torch_function(out=True)
@over_nodes()
def take_along_dim(input: Node, indices: Node, dim: int | None = None) -> Node:
    """The elements at these indices along an axis, with the other axes broadcast; without an axis, of the flattened
    tensor."""
    if dim is None:
        return TAKE_ALONG(reshape(input, (-1,)), reshape(_index(indices, "take_along_dim"), (-1,)), axis=0)
    return g.take_along_axis(input, indices, axis=axes_of(dim, input)[0])


# --- places of one axis ---------------------------------------------------------------------------------------------


def _places(name: str, x: Node, dim: Any, index: Any) -> tuple[Node, int, Node]:
    row, axis = row_of(x, dim)
    index = _from_zero(_index(index, name), name)
    if len(index.shape) > 1:
        raise IndexError(f"{name}(): Index is supposed to be a vector, but got dim: {len(index.shape)}")
    return row, axis, index if index.shape else reshape(index, (1,))


@torch_function(out=True)
@over_nodes()
def index_select(input: Node, dim: int, index: Node) -> Node:
    """The slices at the indices in a 1-d index along an axis."""
    row, axis, places = _places("index_select", input, dim, index)
    found = g.index_select(row, axis, places)
    return found if input.shape else reshape(found, ())


@torch_function(in_place=True, out=True)
@over_nodes()
def index_add(input: Node, dim: int, index: Node, source: Node, *, alpha: Any = 1) -> Node:
    """`input` with `alpha` times the slices of `source` added at the indices along an axis."""
    row, axis, places = _places("index_add", input, dim, index)
    slices = source if source.shape else reshape(source, (1,))
    scaled = slices if alpha is True or alpha == 1 else cast(multiply(slices, alpha), row.dtype)
    return reshape(g.index_add(row, axis, places, scaled), input.shape)


@torch_function(in_place=True)
@over_nodes()
def index_copy(input: Node, dim: int, index: Node, source: Node) -> Node:
    """`input` with the slices at the indices along an axis replaced by those of `source`."""
    row, axis, places = _places("index_copy", input, dim, index)
    slices = source if source.shape else reshape(source, (1,))
    if slices.dtype is not row.dtype:
        raise RuntimeError("index_copy_(): self and source expected to have the same dtype")
    return reshape(SCATTER(row, _fitted(row, slices, places, axis), places, axis=axis), input.shape)


@torch_function(in_place=True)
@over_nodes()
def index_fill(input: Node, dim: int, index: Node, value: Any) -> Node:
    """`input` with the slices at the indices along an axis filled with a number."""
    row, axis, places = _places("index_fill", input, dim, index)
    number = cast(value, row.dtype) if isinstance(value, Node) else operand(value, row.dtype, row.device)
    shape = (*row.shape[:axis], places.shape[0], *row.shape[axis + 1 :])
    return reshape(SCATTER(row, broadcast_to(cast(number, row.dtype), shape), places, axis=axis), input.shape)


@torch_function(in_place=True, out=True)
@over_nodes()
def index_reduce(input: Node, dim: int, index: Node, source: Node, reduce: str, *, include_self: bool = True) -> Node:
    """`input` with slices of `source` reduced into the slices at the indices, by "prod", "mean", "amax" or "amin"."""
    row, axis, places = _places("index_reduce", input, dim, index)
    slices = source if source.shape else reshape(source, (1,))
    return reshape(into.index_reduce(row, axis, places, slices, reduce, include_self=include_self), input.shape)


def _fitted(x: Node, slices: Node, index: Node, axis: int) -> Node:
    shape = (*x.shape[:axis], index.shape[0], *x.shape[axis + 1 :])
    if slices.shape != shape:
        raise RuntimeError(f"index_copy_(): source of shape {list(slices.shape)} for {list(shape)}")
    return slices


@torch_function(in_place=True)
def index_put(input: Any, indices: Any, values: Any, accumulate: bool = False) -> Tensor:
    """`input` with `input[indices]` replaced by `values`, or with them added."""
    if not isinstance(indices, (tuple, list)):
        raise TypeError(f"index_put(): indices is a tuple of tensors, not {type(indices).__name__}")
    if not accumulate:
        from wengert.ops.index import set_item

        key = tuple(slice(None) if i is None else as_node(i) for i in indices)
        return Tensor(set_item(input.node, key, as_node(values), engine.value))
    plain = [Base(as_node(i)) for i in indices]
    return Tensor(data_dependent.index_put(Base(input.node), plain, Base(as_node(values)), True).node)


@torch_function(out=True)
@over_nodes()
def take(input: Node, index: Node) -> Node:
    """The elements of the flattened tensor at these indices."""
    places = _index(index, "take")
    if not places.size:
        return broadcast_to(literal(0, input.dtype, input.device), places.shape)
    return g.take(reshape(input, (-1,)), places)


@torch_function(in_place=True)
@over_nodes()
def put(input: Node, index: Node, source: Node, accumulate: bool = False) -> Node:
    """`input` with the elements at flat indices replaced by those of `source`, or with them added."""
    flat, places = reshape(input, (-1,)), reshape(_index(index, "put"), (-1,))
    if not places.size:
        return input
    values = reshape(source, (-1,))
    return reshape((SCATTER_ADD if accumulate else SCATTER)(flat, values, places, axis=0), input.shape)


# --- masks ----------------------------------------------------------------------------------------------------------


def _mask(name: str, mask: Node) -> Node:
    if mask.dtype is not bool_ and mask.dtype is not uint8:
        raise RuntimeError(f"{name}: expected BoolTensor for mask, not {dtypes.of(mask.dtype)}")
    return cast(mask, bool_)


@torch_function(in_place=True)
@over_nodes()
def masked_fill(input: Node, mask: Node, value: Any) -> Node:
    """`input` with a number where the mask is true."""
    if isinstance(value, Node) and value.shape:
        raise RuntimeError(
            "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with "
            f"{len(value.shape)} dimension(s)."
        )
    if isinstance(value, float) and input.dtype.kind in "iu" and math.isfinite(value):
        value = int(value)
    number = value if isinstance(value, Node) else operand(value, input.dtype, input.device)
    if not dtypes.can_cast(number.dtype, input.dtype):
        raise RuntimeError(f"value cannot be converted to type {dtypes.of(input.dtype).name} without overflow")
    return c.where(_mask("masked_fill", mask), cast(number, input.dtype), input)


@torch_function(out=True)
def masked_select(input: Any, mask: Any) -> Tensor:
    """The elements where the mask is true, along one axis; their number depends on the data."""
    if mask.node.dtype is not bool_ and mask.node.dtype is not uint8:
        raise RuntimeError("masked_select: expected BoolTensor for mask")
    return Tensor(data_dependent.masked_select(Base(input.node), Base(cast(mask.node, bool_))).node)


@torch_function(in_place=True)
@over_nodes()
def masked_scatter(input: Node, mask: Node, source: Node) -> Node:
    """`input` with the elements where the mask is true replaced by those of `source`, one after another."""
    if source.dtype is not input.dtype:
        raise RuntimeError("masked_scatter_: expected self and source to have same dtypes")
    return into.masked_scatter(input, _mask("masked_scatter", mask), source)


@torch_function(out=True)
def nonzero(input: Any, *, as_tuple: bool = False) -> Any:
    """The indices of the nonzero elements: one row each, or with `as_tuple` a tensor for each axis."""
    node = input.node
    if not node.shape and not as_tuple:
        return Tensor(operand(np.zeros((int(engine.value(node) != 0), 0), np.int64), None))
    found = data_dependent.nonzero(Base(node if node.shape else reshape(node, (1,))))
    if as_tuple:
        return tuple(Tensor(part.node) for part in found)
    return Tensor(stack([part.node for part in found], axis=1))


@torch_function()
def argwhere(input: Any) -> Any:
    """The indices of the nonzero elements, one row each."""
    return nonzero(input)


@torch_function()
def nonzero_static(input: Any, *, size: int, fill_value: int = -1) -> Tensor:
    """The first `size` rows of `nonzero`, padded if there are fewer."""
    found = nonzero(input).node
    rows = min(size, found.shape[0])
    filled = broadcast_to(literal(fill_value, int64, found.device), (size - rows, found.shape[1]))
    return Tensor(concat([slice_axis(found, 0, 0, rows), filled], axis=0))
