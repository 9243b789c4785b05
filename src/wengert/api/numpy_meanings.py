"""NumPy functions that differ from Wengert's function of the same name, or have no counterpart.

`np.std(t, ddof=1)`, `np.dot(t, u)`, `np.split(t, 2)`: each has NumPy's arguments and is made of public functions.
`interop` looks here first when NumPy asks what one of its functions does with a Tensor.
"""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wengert.api import creation, functions
from wengert.core.errors import ArgumentError, ShapeError
from wengert.ops.core import as_node
from wengert.tensor import Tensor


def transpose(x: Tensor, axes: Any = None) -> Tensor:
    return functions.permute_dims(x, tuple(reversed(range(x.ndim))) if axes is None else axes)


def norm(x: Tensor, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Tensor:
    """np.linalg.norm: of a matrix or of vectors, depending on the arguments."""
    from wengert.api import linalg

    of_matrix = ord is not None and (x.ndim == 2 if axis is None else isinstance(axis, tuple) and len(axis) == 2)
    if not of_matrix:
        return linalg.vector_norm(x, axis=axis, keepdims=keepdims, ord=2 if ord is None else ord)
    return linalg.matrix_norm(x, keepdims=keepdims, ord=ord, axis=(-2, -1) if axis is None else axis)


def array(obj: Any, dtype: Any = None, **options: Any) -> Tensor:
    """np.array([t, u], like=t): NumPy calls this only if `like` is a Tensor."""
    return creation.asarray(obj, dtype=dtype)


# --- products and matrices ------------------------------------------------------------------------------------------


def dot(a: Any, b: Any) -> Tensor:
    """The sum over the last axis of `a` and the last but one of `b`; of single numbers the product."""
    a, b = creation.asarray(a), creation.asarray(b)
    if a.ndim == 0 or b.ndim == 0:
        return functions.multiply(a, b)
    if a.ndim <= 2 and b.ndim <= 2:
        return functions.matmul(a, b)
    return functions.tensordot(a, b, ((a.ndim - 1,), (max(b.ndim - 2, 0),)))


def vdot(a: Any, b: Any) -> Tensor:
    return functions.vecdot(ravel(a), ravel(b))


def outer(a: Any, b: Any) -> Tensor:
    return functions.outer(ravel(a), ravel(b))


def diagonal(x: Tensor, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Tensor:
    return functions.diagonal(functions.moveaxis(x, (axis1, axis2), (-2, -1)), offset=offset)


def trace(x: Tensor, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None) -> Tensor:
    return functions.trace(functions.moveaxis(x, (axis1, axis2), (-2, -1)), offset=offset, dtype=dtype)


# --- rearranging ----------------------------------------------------------------------------------------------------


def _as_rows(order: str) -> None:
    if order not in ("C", "K", "A"):
        raise ArgumentError(
            f"Wengert's values have no memory order, so order={order!r} is not supported; transpose first"
        )


def ravel(x: Any, order: str = "C") -> Tensor:
    _as_rows(order)
    return functions.reshape(x, (-1,))


def reshape(x: Any, shape: Any, order: str = "C", **options: Any) -> Tensor:
    _as_rows(order)
    return functions.reshape(x, shape, **options)


def append(x: Any, values: Any, axis: int | None = None) -> Tensor:
    if axis is None:
        return functions.concat([ravel(creation.asarray(x)), ravel(creation.asarray(values))], axis=0)
    return functions.concat([creation.asarray(x), creation.asarray(values)], axis=axis)


def flipud(x: Tensor) -> Tensor:
    return functions.flip(x, axis=0)


def fliplr(x: Tensor) -> Tensor:
    return functions.flip(x, axis=1)


def array_split(x: Tensor, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    return list(functions.tensor_split(x, _listed(indices_or_sections), axis=axis))


def split(x: Tensor, indices_or_sections: Any, axis: int = 0) -> list[Tensor]:
    sections = _listed(indices_or_sections)
    if isinstance(sections, int) and x.shape[axis] % sections:
        raise ShapeError(f"split: axis {axis} of shape {x.shape} does not divide into {sections} equal parts")
    return list(functions.tensor_split(x, sections, axis=axis))


def hsplit(x: Tensor, indices_or_sections: Any) -> list[Tensor]:
    return list(functions.hsplit(x, _listed(indices_or_sections)))


def vsplit(x: Tensor, indices_or_sections: Any) -> list[Tensor]:
    return list(functions.vsplit(x, _listed(indices_or_sections)))


def dsplit(x: Tensor, indices_or_sections: Any) -> list[Tensor]:
    if x.ndim < 3:
        raise ShapeError(f"dsplit takes at least three axes; the shape is {x.shape}")
    return split(x, indices_or_sections, axis=2)


def _listed(indices_or_sections: Any) -> Any:
    return int(indices_or_sections) if hasattr(indices_or_sections, "__index__") else [*map(int, indices_or_sections)]


def rollaxis(x: Any, axis: int, start: int = 0) -> Tensor:
    """An axis moved back until it lies before `start`."""
    axis, start = axis % x.ndim, start % x.ndim if start < 0 else start
    return functions.moveaxis(x, axis, start - 1 if axis < start else start)


def cross(a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None) -> Tensor:
    if axis is not None:
        axisa = axisb = axisc = axis
    a, b = (functions.moveaxis(creation.asarray(x), where, -1) for x, where in ((a, axisa), (b, axisb)))
    return functions.moveaxis(functions.cross(*functions.broadcast_arrays(a, b), axis=-1), -1, axisc)


def pad(x: Any, pad_width: Any, mode: str = "constant", constant_values: Any = 0, **options: Any) -> Tensor:
    """Any of NumPy's modes that repeats elements, or constants."""
    x = creation.asarray(x)
    widths = np.broadcast_to(pad_width, (x.ndim, 2))
    constants = np.broadcast_to(constant_values, (x.ndim, 2))
    for axis in np.flatnonzero(widths.any(axis=1)).tolist():
        if mode == "constant":
            x = _between_constants(x, axis, widths[axis], constants[axis])
        else:
            places = np.pad(np.arange(x.shape[axis]), tuple(widths[axis].tolist()), mode, **options)  # type: ignore[call-overload]
            x = functions.take(x, creation.asarray(places), axis=axis)
    return x


def _between_constants(x: Tensor, axis: int, widths: Any, constants: Any) -> Tensor:
    sizes = [(*x.shape[:axis], int(width), *x.shape[axis + 1 :]) for width in widths]
    before, after = (
        functions.full(size, value.item(), dtype=x.dtype, device=x.device) for size, value in zip(sizes, constants)
    )
    return functions.concat([before, x, after], axis=axis)


def _of_parts(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A function of several values, which takes the rows of one as well, and NumPy's `dtype`."""

    def joined(parts: Any, *args: Any, dtype: Any = None, casting: str = "same_kind", **options: Any) -> Tensor:
        made = function([creation.asarray(part) for part in parts], *args, **options)
        return made if dtype is None else made.to(dtype)

    return joined


def einsum(*operands: Any, **options: Any) -> Tensor:
    """With subscripts as text, or NumPy's other form: each operand followed by the numbers of its axes."""
    if isinstance(operands[0], str):
        return functions.einsum(*operands)
    arrays, lists = operands[0::2], operands[1::2]
    if len(operands) % 2:
        arrays = arrays[:-1]
    texts = ["".join("..." if i is Ellipsis else _LETTERS[i] for i in axes) for axes in lists]
    result = "->" + "".join("..." if i is Ellipsis else _LETTERS[i] for i in operands[-1]) if len(operands) % 2 else ""
    return functions.einsum(",".join(texts) + result, *arrays)


# --- statistics and choices -----------------------------------------------------------------------------------------


def _spread(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A variance with NumPy's name for the correction."""

    def spread(
        x: Tensor, axis: Any = None, dtype: Any = None, *, ddof: float = 0, keepdims: bool = False, **options: Any
    ) -> Tensor:
        x = x if dtype is None else functions.multiply(x, 1).to(dtype)
        return function(x, axis=axis, correction=options.pop("correction", ddof), keepdims=keepdims, **options)

    return spread


def clip(x: Any, a_min: Any = None, a_max: Any = None, *, min: Any = None, max: Any = None) -> Tensor:
    return functions.clip(x, a_min if min is None else min, a_max if max is None else max)


def average(x: Any, axis: Any = None, weights: Any = None, *, keepdims: bool = False) -> Tensor:
    if weights is None:
        return functions.mean(x, axis=axis, keepdims=keepdims)
    x, weights = creation.asarray(x), creation.asarray(weights)
    if weights.ndim == 1 and x.ndim > 1 and isinstance(axis, int):
        weights = functions.reshape(weights, (-1, *(1,) * (x.ndim - 1 - axis % x.ndim)))
    weights = functions.broadcast_to(weights, x.shape)
    total = functions.sum(weights, axis=axis, keepdims=keepdims)
    return functions.sum(x * weights, axis=axis, keepdims=keepdims) / total


def ptp(x: Any, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    highest = functions.max(x, axis=axis, keepdims=keepdims)
    return highest - functions.min(x, axis=axis, keepdims=keepdims)


def percentile(x: Any, q: Any, axis: Any = None, *, keepdims: bool = False) -> Tensor:
    fraction = q / 100 if isinstance(q, (int, float, Tensor)) else np.asarray(q, float) / 100
    return functions.quantile(x, fraction, axis=axis, keepdims=keepdims)


def select(condlist: Sequence[Any], choicelist: Sequence[Any], default: Any = 0) -> Tensor:
    """The first choice whose condition is true."""
    if len(condlist) != len(choicelist):
        raise ArgumentError(f"select: got {len(condlist)} conditions but {len(choicelist)} choices")
    result: Any = default
    for condition, choice in zip(reversed(condlist), reversed(choicelist)):
        result = functions.where(condition, choice, result)
    return creation.asarray(result)


def partition(x: Any, kth: Any, axis: int | None = -1) -> Tensor:
    """Sort `x`: a sorted array is partitioned at every index."""
    x = creation.asarray(x)
    return functions.sort(ravel(x)) if axis is None else functions.sort(x, axis=axis)


def argpartition(x: Any, kth: Any, axis: int | None = -1) -> Tensor:
    x = creation.asarray(x)
    return functions.argsort(ravel(x)) if axis is None else functions.argsort(x, axis=axis)


def sort(x: Any, axis: int | None = -1, **options: Any) -> Tensor:
    x = creation.asarray(x)
    return functions.sort(ravel(x)) if axis is None else functions.sort(x, axis=axis)


def argsort(x: Any, axis: int | None = -1, **options: Any) -> Tensor:
    x = creation.asarray(x)
    return functions.argsort(ravel(x)) if axis is None else functions.argsort(x, axis=axis)


def _running(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A running sum or product, of the flattened values without an axis."""

    def running(x: Any, axis: int | None = None, dtype: Any = None) -> Tensor:
        x = creation.asarray(x) if dtype is None else creation.asarray(x).to(dtype)
        return function(ravel(x) if axis is None else x, axis=0 if axis is None else axis)

    return running


def vander(x: Any, N: int | None = None, increasing: bool = False) -> Tensor:
    from wengert.api import linalg

    return linalg.vander(x, N, increasing=increasing)


def copy(x: Any) -> Tensor:
    return Tensor(as_node(x)).clone()


_LETTERS = string.ascii_letters

MEANINGS: dict[str, Callable[..., Any]] = {
    "transpose": transpose,
    "norm": norm,
    "array": array,
    "asarray": array,
    "asanyarray": array,
    "dot": dot,
    "vdot": vdot,
    "outer": outer,
    "diagonal": diagonal,
    "trace": trace,
    "ravel": ravel,
    "reshape": reshape,
    "append": append,
    "rollaxis": rollaxis,
    "cross": cross,
    "pad": pad,
    "einsum": einsum,
    "concatenate": _of_parts(functions.concat),
    "stack": _of_parts(functions.stack),
    "vstack": _of_parts(functions.vstack),
    "hstack": _of_parts(functions.hstack),
    "dstack": _of_parts(functions.dstack),
    "column_stack": _of_parts(functions.column_stack),
    "flipud": flipud,
    "fliplr": fliplr,
    "array_split": array_split,
    "split": split,
    "hsplit": hsplit,
    "vsplit": vsplit,
    "dsplit": dsplit,
    "var": _spread(functions.var),
    "std": _spread(functions.std),
    "clip": clip,
    "average": average,
    "ptp": ptp,
    "percentile": percentile,
    "select": select,
    "partition": partition,
    "argpartition": argpartition,
    "sort": sort,
    "argsort": argsort,
    "cumsum": _running(functions.cumsum),
    "cumprod": _running(functions.cumprod),
    "vander": vander,
    "copy": copy,
}
