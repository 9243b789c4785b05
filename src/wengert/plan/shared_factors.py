"""Systems that share a matrix, or its transpose: the first system's step leaves its LU for the later ones.

The gradient of a linear system is a system with the transposed matrix. With 2048 unknowns either takes 5 ms on an H200,
nearly all of it for the LU.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from wengert.core.dtypes import COMPLEX, int64
from wengert.core.graph import Node
from wengert.ops.movement import PERMUTE
from wengert.plan.libraries import SharedLU


def shared_factors(systems: Sequence[Node], is_factorised: Callable[[Node], bool]) -> Mapping[Node, SharedLU]:
    """For each of these systems, in order of execution, what it does with a shared LU; absent if nothing shares it.

    Complex systems share nothing: the matrix of their gradient is the conjugate of the transpose.
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
    """The matrix of a system without a transposition, and whether there was one."""
    a = node.sources[0]
    swapped = (*range(a.ndim - 2), a.ndim - 1, a.ndim - 2)
    if a.op is PERMUTE and tuple(a.attrs["axes"]) == swapped:
        return a.sources[0], True
    return a, False
