"""`vmap`: a function of one lane, recorded once with abstract inputs, becomes a function of all lanes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from wengert.api.creation import tensor
from wengert.autodiff.batching import batch
from wengert.autodiff.transformed import transformed
from wengert.core import tree
from wengert.core.dtypes import int64
from wengert.core.errors import ArgumentError, AssignmentError, ShapeError
from wengert.core.graph import Node, dependents, recording, tracing
from wengert.ops.core import as_node, data, placeholder
from wengert.ops.elementwise import add, multiply
from wengert.ops.movement import broadcast_to, moveaxis, normalize_axis
from wengert.tensor import Tensor, family_of


def vmap(
    function: Callable[..., Any], in_axes: Any = 0, out_axes: Any = 0, randomness: str = "different"
) -> Callable[..., Any]:
    """A function that maps `function` over an axis of its arguments, all lanes at once.

    `in_axes` names the axis of each argument to map over (None: every lane gets the whole argument), `out_axes` the
    position of the mapped axis in the results; both may be nested like the arguments and results. Keyword arguments are
    passed unmapped. Random draws differ between lanes unless `randomness="same"`.

    >>> import wengert as wg
    >>> wg.vmap(lambda row, b: (row * b).sum(), in_axes=(0, None))(wg.tensor([[1.0, 2.0], [3.0, 4.0]]), 2.0).tolist()
    [6.0, 14.0]
    """
    if randomness not in ("different", "same"):
        raise ArgumentError(f'vmap: randomness must be "different" or "same", not {randomness!r}')

    @transformed(vmap, function, in_axes, out_axes, randomness)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = tree.flatten(args)
        axes = tree.spread(tuple(in_axes) if isinstance(in_axes, list) else in_axes, args, "vmap: in_axes")
        lanes: dict[Node, Node] = {}
        inputs = [lane_of(leaf, axis, lanes) for leaf, axis in zip(leaves, axes)]
        count = _lane_count(lanes)
        index = placeholder((), int64)
        with tracing("vmap") as trace, _lane_index(index, count, randomness):
            result = function(*tree.unflatten(structure, inputs), **kwargs)
            assigned = trace.assigned()
        lanes[index] = data(np.arange(count))
        _keep_assignments(assigned, lanes)
        outputs, shape = tree.flatten(result)
        nodes = [leaf.node if isinstance(leaf, Tensor) else as_node(leaf) for leaf in outputs]
        family = family_of(outputs)
        places = tree.spread(out_axes, result, "vmap: out_axes")
        over = batch(nodes, lanes)
        return tree.unflatten(shape, [_result(o, n, a, count, family) for o, n, a in zip(over, nodes, places)])

    return mapped


def lane_of(leaf: Any, axis: int | None, lanes: dict[Node, Node], asker: str = "vmap") -> Any:
    """The function's view of an argument: a placeholder for one lane, or the argument itself if it is not mapped."""
    if axis is None:
        return leaf
    node = leaf.node if isinstance(leaf, Tensor) else tensor(leaf).node
    if node.ndim == 0:
        raise ShapeError(f"{asker}: an argument is 0-d and has no axis to map; give it None in in_axes")
    whole = moveaxis(node, normalize_axis(axis, node.ndim, asker), 0)
    lane = placeholder(whole.shape[1:], node.dtype, node.device, tracked=node.tracked)
    lanes[lane] = whole
    return family_of((leaf,))(lane)


def _lane_count(lanes: dict[Node, Node]) -> int:
    counts = {whole.shape[0] for whole in lanes.values()}
    if not counts:
        raise ArgumentError("vmap: no argument is mapped; in_axes must name an axis of at least one")
    if len(counts) > 1:
        raise ShapeError(f"vmap: the mapped axes have different sizes: {sorted(counts)}")
    return counts.pop()


@contextmanager
def _lane_index(index: Node, count: int, randomness: str) -> Iterator[None]:
    """Random draws inside fold in the lane's index; for nested maps, the index counts through all lanes."""
    outer = recording.lane
    if randomness == "different":
        recording.lane = index if outer is None else add(multiply(outer, count), index)
    try:
        yield
    finally:
        recording.lane = outer


def _keep_assignments(assigned: dict[Any, Node], lanes: dict[Node, Node]) -> None:
    """Slots assigned inside keep their values, which must be the same for every lane."""
    for slot, node in assigned.items():
        if node in lanes or dependents([node], lanes):
            raise AssignmentError(
                "vmap: the function assigns an outer tensor a value that differs between lanes; return the value "
                "instead",
                node.location,
            )
        slot._put(node)


def _result(over: Node | None, node: Node, axis: int | None, count: int, family: type[Tensor]) -> Tensor:
    if axis is None:
        if over is not None:
            raise ArgumentError("vmap: out_axes is None for a result that differs between lanes")
        return family(node)
    whole = broadcast_to(node, (count, *node.shape)) if over is None else over
    return family(moveaxis(whole, 0, normalize_axis(axis, whole.ndim, "vmap")))
