"""Colours of columns: those with one colour share a product, from which their entries can be told apart.

Greedy, in the order of the columns. Curtis, Powell and Reid (1974) found the idea; Coleman and Verma (1998) that a few
products in reverse mode beside those in forward mode save many of them; Gebremedhin, Manne and Pothen (2005) tell what
Hessians gain from their symmetry.
"""

from __future__ import annotations

from typing import Any

import numpy as np

Colors = np.ndarray[Any, Any]


def column_colors(structure: Any) -> Colors:
    """Colour the columns so that no two columns of one colour have an entry in the same row."""
    by_row, by_column = structure.tocsr(), structure.tocsc()
    return _greedy(by_column.indptr, by_column.indices, by_row.indptr, by_row.indices, structure.shape[1])


def _greedy(start: Any, rows: Any, row_start: Any, columns: Any, n: int) -> Colors:
    colors = np.full(n, -1, np.int64)
    taken = np.full(n + 1, -1, np.int64)  # by which column a colour was last found to be taken
    for j in range(n):
        own = rows[start[j] : start[j + 1]]
        for i in own:
            seen = colors[columns[row_start[i] : row_start[i + 1]]]
            taken[seen[seen >= 0]] = j
        if len(own):
            color = 0
            while taken[color] == j:
                color += 1
            colors[j] = color
    return colors


def mixed_colors(structure: Any, most: int) -> tuple[Colors, Colors] | None:
    """Colours of the columns and of a few dense rows: the rows' entries come from products in reverse mode, all other
    entries from products in forward mode. None where that takes no fewer than `most` products.

    An arrow matrix, whose first row and first column are full, takes three.
    """
    by_row = structure.tocsr()
    degrees = np.diff(by_row.indptr)
    best: tuple[Colors, Colors] | None = None
    for bound in _bounds(degrees, most):
        dense = degrees > bound
        rest, rows = by_row.copy(), by_row.copy()
        of_entry = np.repeat(dense, degrees)
        rest.data, rows.data = ~of_entry, of_entry.copy()
        rest.eliminate_zeros()
        rows.eliminate_zeros()
        by_column, of_rows = column_colors(rest), column_colors(rows.T)
        if count(by_column) + count(of_rows) < most:
            best, most = (by_column, of_rows), count(by_column) + count(of_rows)
    return best


def _bounds(degrees: Any, most: int) -> list[int]:
    """Numbers of entries beyond which a row counts as dense: a few, each of which leaves few dense rows."""
    found = [int(d) for d in np.unique(degrees)[:-1] if d + 1 < most and np.count_nonzero(degrees > d) < degrees.size]
    return sorted({found[i] for i in np.linspace(0, len(found) - 1, min(8, len(found))).astype(int)}) if found else []


def star_colors(structure: Any) -> Colors:
    """Colour a symmetric structure so that neighbours differ and every path of four vertices has at least three
    colours.

    Then for each pair of neighbours, one's colour is unique among the other's neighbours, so a product gives the entry.
    """
    by_row = structure.tocsr()
    start, columns = by_row.indptr.tolist(), by_row.indices.tolist()
    near = [[w for w in columns[start[v] : start[v + 1]] if w != v] for v in range(structure.shape[0])]
    colors = [-1] * len(near)
    for v, neighbours in enumerate(near):
        taken = set()
        for w in neighbours:
            if colors[w] >= 0:
                taken.add(colors[w])
            for x in near[w]:
                if x == v or colors[x] < 0:
                    continue
                if colors[w] < 0 or any(y != w and colors[y] == colors[w] for y in near[x]):
                    taken.add(colors[x])
        if start[v + 1] > start[v]:
            color = 0
            while color in taken:
                color += 1
            colors[v] = color
    return np.array(colors, np.int64)


def count(colors: Colors) -> int:
    """The number of products that the colours need."""
    return int(colors.max()) + 1 if colors.size else 0


def seeds(colors: Colors, dtype: Any) -> np.ndarray[Any, Any]:
    """The sum of the basis vectors of each colour."""
    found = np.zeros((count(colors), colors.size), dtype)
    there = colors >= 0
    found[colors[there], np.flatnonzero(there)] = 1
    return found


def star_places(structure: Any, colors: Colors) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """For each entry of a symmetric structure, the product and the row in which it appears alone."""
    rows = np.repeat(np.arange(structure.shape[0]), np.diff(structure.indptr))
    columns = structure.indices
    number = count(colors)
    pairs = rows * number + colors[columns]
    _, back, times = np.unique(pairs, return_inverse=True, return_counts=True)
    alone = times[back] == 1
    return np.where(alone, colors[columns], colors[rows]), np.where(alone, rows, columns)
