"""Reductions: sums, extremes, truth values, moments, norms; and running ones along an axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wengert.core.dtypes import COMPLEX, INEXACT, bool_, int64, uint8
from wengert.core.graph import Node
from wengert.ops import comparison as c
from wengert.ops import reduce as r
from wengert.ops import running, statistics
from wengert.ops.core import as_node, cast, literal
from wengert.ops.elementwise import multiply
from wengert.ops.linalg import adjoint, matmul
from wengert.ops.movement import broadcast_to, expand_dims, reshape
from wengert.tensor import engine
from wengert.torch import dtypes, return_types
from wengert.torch.arguments import along, any_empty, as_asked, axes_of, in_floats, over_nodes, row_of
from wengert.torch.registry import torch_function
from wengert.torch.tensor import together

# --- sums -----------------------------------------------------------------------------------------------------------


def to_sum(x: Node, dtype: Any) -> Node:
    """The elements as they are summed: in the dtype asked for, integers and booleans in int64."""
    return as_asked(x, dtype) if dtype is not None or x.dtype in INEXACT else cast(x, int64)


@torch_function(out=True)
@over_nodes("full")
def sum(input: Node, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Node:
    """The sum of the elements along some axes, of all without."""
    x = to_sum(input, dtype)
    return r.SUM(x, axes=tuple(sorted(axes_of(dim, x))), keepdims=bool(keepdim))


@torch_function(out=True)
@over_nodes("full")
def nansum(input: Node, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Node:
    """The sum of the elements that are not NaN."""
    x = to_sum(input, dtype)
    return statistics.nansum(x, axis=axes_of(dim, x), keepdims=bool(keepdim), dtype=x.dtype)


@torch_function(out=True)
@over_nodes("full")
def prod(input: Node, dim: int | None = None, keepdim: bool = False, *, dtype: Any = None) -> Node:
    """The product of the elements along an axis, of all without."""
    x = to_sum(input, dtype)
    return r.prod(x, axis=axes_of(dim, x), keepdims=bool(keepdim), dtype=x.dtype)


@torch_function(out=True)
@over_nodes("same")
def mean(input: Node, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Node:
    """The mean of the elements along some axes; they are floating-point or complex numbers."""
    x = as_asked(input, dtype)
    if x.dtype not in INEXACT:
        kind = dtypes.scalar_name(x.dtype)
        raise RuntimeError(
            "mean(): could not infer output dtype. Input dtype must be either a floating point or complex dtype. "
            f"Got: {kind}"
        )
    return r.mean(x, axis=axes_of(dim, x), keepdims=bool(keepdim))


@torch_function(out=True)
@over_nodes("same")
def nanmean(input: Node, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Node:
    """The mean of the elements that are not NaN."""
    x = as_asked(input, dtype)
    _require_inexact("nanmean", x)
    return statistics.nanmean(x, axis=axes_of(dim, x), keepdims=bool(keepdim))


@torch_function(out=False)
@over_nodes()
def count_nonzero(input: Node, dim: Any = None) -> Node:
    """How many elements along some axes are not zero."""
    return r.count_nonzero(input, axis=axes_of(dim, input))


@torch_function(out=True)
@over_nodes("full")
def logsumexp(input: Node, dim: Any, keepdim: bool = False) -> Node:
    """`log(sum(exp(input)))` along some axes, without overflow."""
    x = in_floats(input)
    return r.logsumexp(x, axis=axes_of(dim, x), keepdims=bool(keepdim))


# --- extremes -------------------------------------------------------------------------------------------------------


@torch_function(out=True)
@over_nodes()
def amax(input: Node, dim: Any = (), keepdim: bool = False) -> Node:
    """The largest element along some axes; those that tie share the gradient equally."""
    return _extreme(r.max, "amax", input, dim, keepdim)


@torch_function(out=True)
@over_nodes()
def amin(input: Node, dim: Any = (), keepdim: bool = False) -> Node:
    """The smallest element along some axes; those that tie share the gradient equally."""
    return _extreme(r.min, "amin", input, dim, keepdim)


@torch_function(out=True)
@over_nodes()
def aminmax(input: Node, *, dim: int | None = None, keepdim: bool = False) -> Any:
    """The smallest and the largest element along an axis, of all without."""
    low, high = (_extreme(f, "aminmax", input, dim, keepdim) for f in (r.min, r.max))
    return return_types.aminmax(low, high)


def _extreme(reduce: Callable[..., Node], name: str, x: Node, dim: Any, keepdim: bool) -> Node:
    axes = axes_of(dim, x)
    if any_empty(x, axes):
        if dim is None or dim == ():
            raise RuntimeError(
                f"{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim "
                "with the 'dim' argument."
            )
        raise IndexError(f"{name}(): Expected reduction dim {axes[0]} to have non-zero size.")
    return reduce(x, axis=axes, keepdims=bool(keepdim))


def _largest(x: Node, axis: int) -> Node:
    return r.argmax(x, axis=axis, keepdims=True)


def _smallest(x: Node, axis: int) -> Node:
    return r.argmin(x, axis=axis, keepdims=True)


def _has_dim(dim: Any) -> bool:
    return dim is not None and not isinstance(dim, Node)


@torch_function(out=True)
@over_nodes()
def max(input: Node, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
    """The largest element; along an axis with its index; of two tensors the larger one of each pair."""
    other = dim if isinstance(dim, Node) else other
    if other is not None:
        return c.maximum.record(*together(input, other))
    if _has_dim(dim):
        return along(_largest, input, dim, keepdim, return_types.max)
    return _extreme(r.max, "max", input, None, False)


@torch_function(out=True)
@over_nodes()
def min(input: Node, dim: Any = None, keepdim: bool = False, *, other: Any = None) -> Any:
    """The smallest element; along an axis with its index; of two tensors the smaller one of each pair."""
    other = dim if isinstance(dim, Node) else other
    if other is not None:
        return c.minimum.record(*together(input, other))
    if _has_dim(dim):
        return along(_smallest, input, dim, keepdim, return_types.min)
    return _extreme(r.min, "min", input, None, False)


@torch_function(out=True)
@over_nodes()
def argmax(input: Node, dim: int | None = None, keepdim: bool = False) -> Node:
    """Where the largest element along an axis is; in the flattened tensor without one."""
    return _position(r.argmax, "argmax", input, dim, keepdim)


@torch_function(out=True)
@over_nodes()
def argmin(input: Node, dim: int | None = None, keepdim: bool = False) -> Node:
    """Where the smallest element along an axis is; in the flattened tensor without one."""
    return _position(r.argmin, "argmin", input, dim, keepdim)


def _position(find: Callable[..., Node], name: str, x: Node, dim: Any, keepdim: bool) -> Node:
    if x.dtype is bool_ or x.dtype in COMPLEX:
        raise NotImplementedError(f'"{name}_cpu" not implemented for {dtypes.of(x.dtype).name!r}')
    if dim is None:
        if not x.size:
            raise IndexError(f"{name}(): Expected reduction dim to be specified for input.numel() == 0. Specify it.")
        flat = find(reshape(x, (-1,)), axis=0)
        return reshape(flat, (1,) * len(x.shape)) if keepdim else flat
    row, axis = row_of(x, dim)
    if not row.shape[axis]:
        raise IndexError(f"{name}(): Expected reduction dim {axis} to have non-zero size.")
    return reshape(find(row, axis=axis, keepdims=True), r.reduced(x.shape, axes_of(dim, x), bool(keepdim)))


# --- truth ----------------------------------------------------------------------------------------------------------


@torch_function(out=True)
@over_nodes()
def all(input: Node, dim: Any = None, keepdim: bool = False) -> Node:
    """Whether all elements along some axes are true (not zero)."""
    return _truth(r.all, input, dim, keepdim)


@torch_function(out=True)
@over_nodes()
def any(input: Node, dim: Any = None, keepdim: bool = False) -> Node:
    """Whether any element along some axes is true (not zero)."""
    return _truth(r.any, input, dim, keepdim)


def _truth(reduce: Callable[..., Node], x: Node, dim: Any, keepdim: bool) -> Node:
    found = reduce(x, axis=axes_of(dim, x), keepdims=bool(keepdim))
    return cast(found, uint8) if x.dtype is uint8 else found


# --- moments --------------------------------------------------------------------------------------------------------


def _require_inexact(name: str, x: Node) -> None:
    if x.dtype not in INEXACT:
        raise RuntimeError(f"{name} only support floating point and complex dtypes")


def _spread(of: Callable[..., Any], x: Node, dim: Any, unbiased: Any, keepdim: Any, correction: Any) -> Any:
    """The variance and its like: `var(x, False)`, `var(x, 1, False)`, `var(x, dim=1, correction=0)`."""
    _require_inexact("std and var", x)
    if isinstance(dim, bool):  # the form without axes
        dim, unbiased = None, dim
    if correction is None:
        correction = 1 if unbiased is None or unbiased else 0
    return of(x, axis=axes_of(dim, x), correction=float(correction), keepdims=bool(keepdim))


@torch_function(out=True)
@over_nodes("same")
def var(
    input: Node, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: float | None = None
) -> Node:
    """The variance along some axes, over the count minus `correction`, which is 1 unless told otherwise."""
    found: Node = _spread(r.var, input, dim, unbiased, keepdim, correction)
    return found


@torch_function(out=True)
@over_nodes("same")
def std(
    input: Node, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: float | None = None
) -> Node:
    """The standard deviation along some axes: the root of `var`."""
    found: Node = _spread(r.std, input, dim, unbiased, keepdim, correction)
    return found


@torch_function()
@over_nodes("same")
def var_mean(
    input: Node, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: float | None = None
) -> Any:
    """The variance and the mean along some axes."""
    over = axes_of(None if isinstance(dim, bool) else dim, input)
    spread = _spread(r.var, input, dim, unbiased, keepdim, correction)
    return spread, r.mean(input, axis=over, keepdims=bool(keepdim))


@torch_function()
@over_nodes("same")
def std_mean(
    input: Node, dim: Any = None, unbiased: Any = None, keepdim: bool = False, *, correction: float | None = None
) -> Any:
    """The standard deviation and the mean along some axes."""
    over = axes_of(None if isinstance(dim, bool) else dim, input)
    spread = _spread(r.std, input, dim, unbiased, keepdim, correction)
    return spread, r.mean(input, axis=over, keepdims=bool(keepdim))


@torch_function()
@over_nodes("full")
def cov(input: Node, *, correction: int = 1, fweights: Any = None, aweights: Any = None) -> Node:
    """The covariances of variables, one a row; observations may count several times, or with weights."""
    x = in_floats(input)
    if len(x.shape) > 2:
        raise RuntimeError(f"cov(): expected input to have two or fewer dimensions but got an input with {x.ndim}")
    if fweights is None and aweights is None:
        return statistics.cov(x, correction=correction) if x.size else _empty_cov(x)
    _require_weights(fweights, aweights)
    rows = x if len(x.shape) == 2 else reshape(x, (1, -1))
    weight = None if fweights is None else cast(as_node(fweights), r.real(rows).dtype)
    if aweights is not None:
        by = cast(as_node(aweights), r.real(rows).dtype)
        weight = by if weight is None else multiply(weight, by)
    assert weight is not None
    total = r.sum(weight)
    distance = rows - expand_dims(matmul(rows, cast(weight, rows.dtype)) / total, axis=-1)
    freedom = total - correction
    if aweights is not None and correction:
        by = cast(as_node(aweights), total.dtype)
        freedom = total - correction * r.sum(weight * by) / total
    found = matmul(distance * weight, adjoint(distance)) / c.maximum(freedom, 0.0)
    return found if rows.shape[0] > 1 else reshape(found, ())


def _require_weights(fweights: Any, aweights: Any) -> None:
    if fweights is not None and fweights.dtype.kind not in "iu":
        raise RuntimeError(f"cov(): expected fweights to have integral dtype but got fweights with {fweights.dtype}")
    for name, given in (("fweights", fweights), ("aweights", aweights)):
        if given is not None and bool(engine.value(r.any(c.less(given, 0)))):
            raise RuntimeError(f"cov(): {name} cannot be negative")


def _empty_cov(x: Node) -> Node:
    rows = x.shape[0] if len(x.shape) == 2 else 1
    return broadcast_to(literal(float("nan"), x.dtype), (rows, rows) if rows > 1 else ())


@torch_function()
@over_nodes("full")
def corrcoef(input: Node) -> Node:
    """The correlation coefficients of variables, one a row."""
    return statistics.corrcoef(in_floats(input))


# --- running along an axis ------------------------------------------------------------------------------------------


def _running(of: Callable[..., Node], x: Node, dim: Any) -> Node:
    row, axis = row_of(x, dim)
    return reshape(of(row, axis), x.shape) if row is not x else of(row, axis)


@torch_function(in_place=True, out=True)
@over_nodes("full")
def cumsum(input: Node, dim: int, *, dtype: Any = None) -> Node:
    """The running sum along an axis."""
    x = to_sum(input, dtype)
    return _running(lambda row, axis: running.CUMSUM(row, axis=axis, backwards=False), x, dim)


@torch_function(in_place=True, out=True)
@over_nodes("full")
def cumprod(input: Node, dim: int, *, dtype: Any = None) -> Node:
    """The running product along an axis."""
    x = to_sum(input, dtype)
    return _running(lambda row, axis: running.cumprod(row, axis=axis, dtype=x.dtype), x, dim)


@torch_function(out=True)
@over_nodes("full")
def logcumsumexp(input: Node, dim: int) -> Node:
    """The logarithm of the running sum of exponentials along an axis."""
    return _running(lambda row, axis: running.logcumsumexp(row, axis=axis), in_floats(input), dim)


@torch_function(out=True)
@over_nodes()
def cummax(input: Node, dim: int) -> Any:
    """The largest element up to each one along an axis, and where it is: the last of those that tie."""
    return _running_pair(running.cummax, input, dim, return_types.cummax)


@torch_function(out=True)
@over_nodes()
def cummin(input: Node, dim: int) -> Any:
    """The smallest element up to each one along an axis, and where it is: the last of those that tie."""
    return _running_pair(running.cummin, input, dim, return_types.cummin)


def _running_pair(of: Callable[..., Any], x: Node, dim: Any, pair: Any) -> Any:
    row, axis = row_of(x, dim)
    values, places = of(row, axis=axis)
    return pair(reshape(values, x.shape), reshape(places, x.shape))


@torch_function()
@over_nodes()
def is_nonzero(input: Node) -> Any:
    """Whether the one element of a tensor is not zero."""
    if input.size != 1:
        raise RuntimeError("Boolean value of Tensor with more than one value is ambiguous")
    return bool(engine.value(input).item())
