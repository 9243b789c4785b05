"""Systems with one matrix, or with its transpose: the first one's step leaves the LU for those after it.

The gradient of a system is a system of the transposed matrix. Of 2048 unknowns either takes 5 ms on an H200, nearly all
of them for the LU.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from wengert.core.dtypes import COMPLEX, int64
from wengert.core.graph import Node
from wengert.ops.movement import PERMUTE
from wengert.plan.libraries import SharedLU


def shared_factors(systems: Sequence[Node], is_factorised: Callable[[Node], bool]) -> Mapping[Node, SharedLU]:
    """What each of some systems, in the order they are solved, has to do with the LU that it shares; those alone have
    none. Complex ones share nothing: their gradient's matrix is the conjugate of the transpose.
    """
    together: dict[Node, list[Node]] = {}
    for node in systems:
        if node.dtype not in COMPLEX and node.shape[:-2] == node.sources[0].shape[:-2] and is_factorised(node):
            together.setdefault(_matrix(node)[0], []).append(node)
    found: dict[Node, SharedLU] = {}
    for first, *others in together.values():
        a = first.sources[0]
        rest = first.op, first.sources, first.attrs
        last = a.device, False, first.location
        lu, pivots = Node(*rest, a.shape, a.dtype, *last), Node(*rest, (math.prod(a.shape[:-1]),), int64, *last)
        for node in (first, *others) if others else ():
            found[node] = SharedLU(lu, pivots, node is first, _matrix(node)[1] is not _matrix(first)[1])
    return found


def _matrix(node: Node) -> tuple[Node, bool]:
    """The matrix of a system, without a transposition, and whether there is one."""
    a = node.sources[0]
    swapped = (*range(a.ndim - 2), a.ndim - 1, a.ndim - 2)
    if a.op is PERMUTE and tuple(a.attrs["axes"]) == swapped:
        return a.sources[0], True
    return a, False
