"""Acyclic colours of a symmetric structure: fewer products than a star colouring, whose entries follow by substitution.

Neighbours differ, and no cycle has two colours only: the entries between two colours make trees. A product adds up a
vertex's entries to all neighbours of one colour; where all but one of them are known, so is the last. From the leaves
of the trees inwards each entry is found, which adds up rounding errors along the way.

Gebremedhin, Tarafdar, Manne and Pothen, "New acyclic and star coloring algorithms", 2007.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple

import numpy as np

from wengert.ops.sparse import Sparsity
from wengert.sparse.coloring import Colors

Array = np.ndarray[Any, Any]


class Substitution(NamedTuple):
    """How entries follow from products: those between i and j and between j and i are one unknown.

    Unknown k stands in the sum that product[k] has in row place[k]; `sums` says which unknowns that adds up; `unknown`
    is the number of the unknown of each entry.
    """

    product: Array
    place: Array
    sums: Sparsity
    unknown: Array


def acyclic_colors(structure: Any) -> Colors:
    """The colours, greedily, in the order of the columns. Trees of two colours are kept as disjoint sets."""
    near = _neighbours(structure)
    colors = [-1] * len(near)
    above: dict[tuple[int, int, int], int] = {}  # of two colours and a vertex: another one in its tree

    def root(a: int, b: int, v: int) -> int:
        key = (a, b) if a < b else (b, a)
        path = []
        while (found := above.get((*key, v), v)) != v:
            path.append(v)
            v = found
        for passed in path:
            above[(*key, passed)] = v
        return v

    def closes_cycle(color: int, groups: dict[int, list[int]]) -> bool:
        for other, members in groups.items():
            if len(members) > 1 and len({root(color, other, w) for w in members}) < len(members):
                return True
        return False

    for v, neighbours in enumerate(near):
        if structure.indptr[v + 1] == structure.indptr[v]:
            continue
        groups: dict[int, list[int]] = defaultdict(list)
        for w in neighbours:
            if colors[w] >= 0:
                groups[colors[w]].append(w)
        color = 0
        while color in groups or closes_cycle(color, groups):
            color += 1
        colors[v] = color
        for other, members in groups.items():
            for w in members:
                key = (color, other) if color < other else (other, color)
                above[(*key, root(color, other, w))] = root(color, other, v)
    return np.array(colors, np.int64)


def _neighbours(structure: Any) -> list[list[int]]:
    start, columns = structure.indptr.tolist(), structure.indices.tolist()
    return [[w for w in columns[start[v] : start[v + 1]] if w != v] for v in range(structure.shape[0])]


def substitution(structure: Any, colors: Colors) -> Substitution:
    """From the leaves of the trees inwards."""
    rows = np.repeat(np.arange(structure.shape[0]), np.diff(structure.indptr))
    low, high = np.minimum(rows, structure.indices), np.maximum(rows, structure.indices)
    keys, unknown = np.unique(low.astype(np.int64) * structure.shape[0] + high, return_inverse=True)
    ends = np.stack(np.divmod(keys, structure.shape[0]), axis=1)
    sums: dict[tuple[int, int], list[int]] = defaultdict(list)  # of a row and a product: the unknowns that it adds up
    for k, (i, j) in enumerate(ends.tolist()):
        sums[i, int(colors[j])].append(k)
        if i != j:
            sums[j, int(colors[i])].append(k)
    left = {at: len(members) for at, members in sums.items()}
    product, place = np.full(len(ends), -1), np.full(len(ends), -1)
    ready = [at for at, number in left.items() if number == 1]
    for at in ready:  # which grows
        waiting = [k for k in sums[at] if product[k] < 0]
        if not waiting:
            continue
        (k,) = waiting
        place[k], product[k] = at
        i, j = ends[k].tolist()
        for other in {(i, int(colors[j])), (j, int(colors[i]))}:
            left[other] -= 1
            if left[other] == 1:
                ready.append(other)
    members = [sorted(sums[int(row), int(color)]) for row, color in zip(place, product)]
    starts = np.concatenate([[0], np.cumsum([len(one) for one in members])])
    columns = np.concatenate(members) if members else np.zeros(0, np.int64)
    return Substitution(product, place, Sparsity.of((len(ends), len(ends)), starts, columns), unknown)
