"""Simulation: the ranks of a mesh as lanes of `vmap`, in one process.

In: the function that a rank runs. Out: a function of the values of all ranks, stacked along a first axis. The tests of
engines compare with it, and it lets you try collectives in a notebook.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from wengert.autodiff.ranks import over_ranks
from wengert.autodiff.vectorize import lane_of
from wengert.core import tree
from wengert.core.errors import ArgumentError, ShapeError
from wengert.core.graph import Node, recording, tracing
from wengert.core.mesh import Mesh
from wengert.ops.core import as_node
from wengert.tensor import Tensor


def simulate(function: Callable[..., Any], ranks: int | Mesh = 2, in_axes: Any = 0) -> Callable[..., Any]:
    """Turn a function of one rank into a function of all ranks, simulated in one process.

    Arguments hold the values of all ranks, stacked along axis 0; arguments with `in_axes` None are the same on each.
    Results are stacked in the same way. `ranks` is the number of ranks, or a mesh.

    >>> import wengert as wg
    >>> from wengert import distributed as dist
    >>> dist.simulate(lambda x: dist.all_reduce(x * x), ranks=3)(wg.tensor([1.0, 2.0, 3.0])).tolist()
    [14.0, 14.0, 14.0]
    """
    mesh = ranks if isinstance(ranks, Mesh) else Mesh(ranks=ranks)

    @functools.wraps(function)
    def simulated(*args: Any, **kwargs: Any) -> Any:
        leaves, structure = tree.flatten(args)
        axes = tree.spread(tuple(in_axes) if isinstance(in_axes, list) else in_axes, args, "simulate: in_axes")
        lanes: dict[Node, Node] = {}
        inputs = [lane_of(leaf, axis, lanes, "simulate") for leaf, axis in zip(leaves, axes)]
        for whole in lanes.values():
            if whole.shape[0] != mesh.size:
                raise ShapeError(f"simulate: a value of shape {whole.shape} is not stacked over {mesh.size} ranks")
        with tracing("simulate") as trace, _inside(mesh):
            result = function(*tree.unflatten(structure, inputs), **kwargs)
        if trace.assigned():
            raise ArgumentError("simulate: the function assigns an outer tensor; return its value instead")
        outputs, shape = tree.flatten(result)
        nodes = [leaf.node if isinstance(leaf, Tensor) else as_node(leaf) for leaf in outputs]
        over = over_ranks(nodes, lanes, mesh, trace.start)
        return tree.unflatten(shape, [Tensor(node) for node in over])

    return simulated


@contextmanager
def _inside(mesh: Mesh) -> Iterator[None]:
    """While a rank's function is recorded: collectives that name no group run over this mesh."""
    before, recording.simulated = recording.simulated, mesh
    try:
        yield
    finally:
        recording.simulated = before
