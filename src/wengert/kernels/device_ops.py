"""Ops that are work of their own on a GPU: which they are, what they read, and the launches that carry them out.

An op that is neither here nor an expression in a loop is computed on the host by its reference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from wengert.graph import Node
from wengert.kernels import addressing_cuda as addressing
from wengert.kernels.addressing import is_zero
from wengert.kernels.addressing_cuda import Named, copy
from wengert.kernels.launch import H200, Device, Launch, Work
from wengert.kernels.opaque import is_even, product

__all__ = ["copy", "has_work", "operands", "work"]

_WRITING = frozenset(("scatter", "scatter_add", "put_along", "add_along"))
_WORKS: dict[str, Callable[[Node, Named, Device], Work | None]] = {
    "gather": addressing.gather,
    **dict.fromkeys(("scatter", "scatter_add"), addressing.scatter),
    **dict.fromkeys(("take_along", "put_along", "add_along"), addressing.along),
    "cumsum": addressing.cumsum,
    "concat": addressing.concat,
    "put_slice": addressing.put_slice,
    "cuda_kernel": lambda node, named, device: _user_kernel(node, named, device),
}


def _user_kernel(node: Node, named: Named, device: Device) -> Work:
    """A kernel of the user's own."""
    a, sources = node.attrs, iter(node.sources)
    arguments = [named(next(sources)) if s is None else np.dtype(s[0]).type(s[1]) for s in a["arguments"]]
    launch = Launch(a["source"], a["entry"], a["grid"], a["block"], (*arguments, named(node)), a["shared"])
    return Work((launch,))


def work(node: Node, named: Named, device: Device, results: Mapping[int, Node]) -> Work | None:
    """The work of an op that is no loop, or None where the host computes it."""
    rule = _WORKS.get(node.op.name)
    return None if rule is None else rule(node, named, device)


def has_work(node: Node) -> bool:
    """Whether an op can be carried out on a GPU."""
    return work(node, lambda _: "", H200, {}) is not None


def operands(node: Node) -> Sequence[Node]:
    """What an op that is no loop reads from memory."""
    if node.op.name == "matmul" and is_even(node):
        p = product(node)
        return p.x, p.y
    into_zeros = node.op.name in _WRITING and is_zero(node.sources[0]) and has_work(node)
    return node.sources[1:] if into_zeros else node.sources
