"""Which kernel runs which op: from a node to launches whose texts depend on its op and dtypes alone.

The node's operands are the buffers "x0", "x1", ..., its result is "y".
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from wengert.core.dtypes import COMPLEX, int64
from wengert.core.graph import Node
from wengert.kernels.counting import cuda as counting_cuda
from wengert.kernels.gather_scatter import cuda as addressing_cuda
from wengert.kernels.ir.index import strides
from wengert.kernels.launch import Argument, DeviceProperties, LaunchList, Named, in_turn
from wengert.kernels.matmul import cuda as matmul_cuda
from wengert.kernels.matmul.product import Tile, product
from wengert.kernels.prebuilt.elements import PrebuiltFunction, filled, function, moved, over
from wengert.kernels.prebuilt.reductions import total
from wengert.kernels.scan import cuda as running_cuda
from wengert.kernels.search import cuda as searching_cuda
from wengert.kernels.sort import cuda as sorting_cuda
from wengert.kernels.sort import select as selecting_cuda
from wengert.kernels.space import LARGEST, Access, Space, broadcast, sliced, space, whole
from wengert.kernels.window import cuda as windows_cuda
from wengert.kernels.writer import CUDA, c_expression, scalar_type
from wengert.ops.addressing import (
    ADD_ALONG,
    GATHER,
    PUT_ALONG,
    PUT_SLICE,
    SCATTER,
    SCATTER_ADD,
    TAKE_ALONG,
)
from wengert.ops.comparison import CHECKED_INDEX
from wengert.ops.core import ALIAS, RECOMPUTE_BARRIER, STOP_GRADIENT, VARIABLE
from wengert.ops.counting import BINCOUNT, FLAT_NONZERO
from wengert.ops.creation import IOTA
from wengert.ops.linalg import MATMUL
from wengert.ops.movement import BROADCAST, CONCAT, FLIP, PERMUTE, PLACE, RESHAPE, SLICE
from wengert.ops.op import Op
from wengert.ops.random import RANDOM_BITS
from wengert.ops.running import CUMARGMAX, CUMARGMIN, CUMPROD, CUMSUM, LOGCUMSUMEXP
from wengert.ops.sorting import ARGSORT, SEARCHSORTED, SORT, TOPK
from wengert.ops.window import FOLD, UNFOLD


def work(node: Node, device: DeviceProperties) -> LaunchList | None:
    """The launches of an op, or None where there is no kernel that takes its sizes as arguments.

    Its sources count as arrays of their own, whatever they were made by: they are placeholders.
    """
    if isinstance(node.dtype, tuple) or any(isinstance(source.dtype, tuple) for source in node.sources):
        return None
    rule = _RULES.get(node.op)
    if rule is not None:
        return rule(node, device)
    if node.dtype in COMPLEX or any(source.dtype in COMPLEX for source in node.sources) or not node.sources:
        return None
    return total(node, device) if node.op.kind == "reduction" else _elementwise(node, device)


# --- elements -------------------------------------------------------------------------------------------------------


def _elementwise(node: Node, device: DeviceProperties) -> LaunchList | None:
    dtypes = [source.dtype for source in node.sources]
    names: list[Argument] = [f"x{k}" for k in range(len(dtypes))]
    attrs, accesses = node.attrs, [broadcast(source.shape, node.shape) for source in node.sources]
    checks = node.op is CHECKED_INDEX
    if checks:  # the size that an index is checked against is an operand
        names, attrs = [*names, np.int64(attrs["size"])], {**attrs, "size": f"a{len(dtypes)}"}
        accesses.append(broadcast((), node.shape))
    expression = c_expression(node.op, dtypes[-1], [f"a{k}" for k in range(len(dtypes))], attrs, CUDA)
    where = space(node.shape, [*accesses, whole(node.shape)])
    if expression is None or not where.fits:
        return None
    given = [*dtypes, int64] if checks else dtypes
    return over(function(node.op.name, given, node.dtype, expression, checks), where, names, "y", device)


def _iota(node: Node, device: DeviceProperties) -> LaunchList | None:
    where = space(node.shape, [whole(node.shape)])
    if not where.fits or node.dtype in COMPLEX:
        return None
    ramp = function("iota", (), node.dtype, f"({scalar_type(node.dtype)})i")
    return over(ramp, where, [], "y", device)


# the two words of the key are one number
_PHILOX = "return wg_philox((uint32_t)x0, (uint32_t)(x0 >> 32), x1, x2, i);"


def _random_bits(node: Node, device: DeviceProperties) -> LaunchList | None:
    key, counter = node.sources
    one = broadcast((), node.shape)
    where = space(node.shape, [one, one, one, whole(node.shape)])
    if key.ndim != 1 or counter.ndim or not where.fits:
        return None
    words = PrebuiltFunction("wg_random_bits", ("uint64_t",) * 3, (8,) * 3, "uint32_t", 4, _PHILOX)
    return over(words, where, ["x0", "x1", np.uint64(node.attrs["stream"])], "y", device)


# --- movement -------------------------------------------------------------------------------------------------------


def _moving(source: Callable[[Node], Access]) -> Callable[[Node, DeviceProperties], LaunchList | None]:
    """The rule of an op every element of which is one of its source's."""

    def rule(node: Node, device: DeviceProperties) -> LaunchList | None:
        where = space(node.shape, [source(node), whole(node.shape)])
        return moved(where, node.dtype.itemsize, "x0", "y", device) if where.fits else None

    return rule


def _permuted(node: Node) -> Access:
    steps = strides(node.sources[0].shape)
    return Access(tuple(steps[axis] for axis in node.attrs["axes"]))


def _flipped(node: Node) -> Access:
    along, turned = strides(node.shape), node.attrs["axes"]
    steps = tuple(-step if axis in turned else step for axis, step in enumerate(along))
    return Access(steps, sum((node.shape[axis] - 1) * along[axis] for axis in turned))


def _into(node: Node, source: Node, starts: tuple[int, ...], steps: tuple[int, ...]) -> Space:
    """A source laid into a result."""
    return space(source.shape, [whole(source.shape), sliced(node.shape, starts, steps)])


def _place(node: Node, device: DeviceProperties) -> LaunchList | None:
    size = node.dtype.itemsize
    where = _into(node, node.sources[0], node.attrs["starts"], node.attrs["steps"])
    zeros = filled(node.size * size, "y", device)
    return in_turn([zeros, moved(where, size, "x0", "y", device)]) if where.fits and zeros is not None else None


def _put_slice(node: Node, device: DeviceProperties) -> LaunchList | None:
    x, values = node.sources
    size = node.dtype.itemsize
    where = _into(node, values, node.attrs["starts"], node.attrs["steps"])
    all_of_it = space(x.shape, [whole(x.shape), whole(x.shape)])
    if not (where.fits and all_of_it.fits):
        return None
    return in_turn([moved(all_of_it, size, "x0", "y", device), moved(where, size, "x1", "y", device)])


def _concat(node: Node, device: DeviceProperties) -> LaunchList | None:
    axis, start, moves = node.attrs["axis"], 0, []
    for k, source in enumerate(node.sources):
        starts = tuple(start if i == axis else 0 for i in range(node.ndim))
        where = _into(node, source, starts, (1,) * node.ndim)
        if not where.fits:
            return None
        moves.append(moved(where, node.dtype.itemsize, f"x{k}", "y", device))
        start += source.shape[axis]
    return in_turn(moves)


# --- products, and elements named by integers ------------------------------------------------------------------------

_SMALL = Tile("small", 32, 16, 128, warps=8)


_MOST_ROWS = 32 * 65_535  # tiles along the second axis of a grid


def _product(node: Node, device: DeviceProperties) -> LaunchList | None:
    """A small product by one tile for all; a large one is worth a library, or a tile for its sizes."""
    if not matmul_cuda.is_small(node) or product(node).m > _MOST_ROWS:
        return None
    return matmul_cuda.product_work(node, _named(node), device, tile=_SMALL)


def _addressed(rule: Callable[..., LaunchList | None]) -> Callable[[Node, DeviceProperties], LaunchList | None]:
    """A rule whose texts name their sizes, with these as arguments; counts are of 32 bits."""

    def general(node: Node, device: DeviceProperties) -> LaunchList | None:
        fits = all(value.size < LARGEST for value in (node, *node.sources))
        return rule(node, _named(node), device, general=True) if fits else None

    return general


def _sized(rule: Callable[..., LaunchList | None]) -> Callable[[Node, DeviceProperties], LaunchList | None]:
    """A rule whose texts take their sizes as arguments everywhere."""
    return lambda node, device: rule(node, _named(node), device)


def _named(node: Node) -> Named:
    names = {source: f"x{k}" for k, source in enumerate(node.sources)}
    return lambda value: "y" if value is node else names[value]


_copied = _moving(lambda node: Access(tuple(strides(node.shape))))
_RULES: dict[Op, Callable[[Node, DeviceProperties], LaunchList | None]] = {
    IOTA: _iota,
    RANDOM_BITS: _random_bits,
    PERMUTE: _moving(_permuted),
    BROADCAST: _moving(lambda node: broadcast(node.sources[0].shape, node.shape)),
    SLICE: _moving(lambda node: sliced(node.sources[0].shape, node.attrs["starts"], node.attrs["steps"])),
    FLIP: _moving(_flipped),
    **dict.fromkeys((RESHAPE, ALIAS, STOP_GRADIENT, VARIABLE, RECOMPUTE_BARRIER), _copied),
    PLACE: _place,
    PUT_SLICE: _put_slice,
    CONCAT: _concat,
    MATMUL: _product,
    GATHER: _addressed(addressing_cuda.gather),
    **dict.fromkeys((SCATTER, SCATTER_ADD), _addressed(addressing_cuda.scatter)),
    **dict.fromkeys((TAKE_ALONG, PUT_ALONG, ADD_ALONG), _addressed(addressing_cuda.along)),
    **dict.fromkeys((CUMSUM, CUMPROD, LOGCUMSUMEXP, CUMARGMAX, CUMARGMIN), _sized(running_cuda.running)),
    **dict.fromkeys((ARGSORT, SORT), _sized(sorting_cuda.sort)),
    TOPK: _sized(selecting_cuda.topk),
    SEARCHSORTED: _sized(searching_cuda.searchsorted),
    FLAT_NONZERO: _sized(counting_cuda.flat_nonzero),
    BINCOUNT: _sized(counting_cuda.bincount),
    UNFOLD: _sized(windows_cuda.unfold),
    FOLD: _sized(windows_cuda.fold),
}
