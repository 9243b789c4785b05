"""The chain rule on a graph: a sum over paths, and the same sum in one walk.

A graph is a list of edges `(source, target, derivative)`: the target was computed from the source, with this local
derivative. Values are numbered in the order in which they were computed, so source < target; between two values there
may be several edges. Edges come in any order.
"""

from __future__ import annotations

Edge = tuple[int, int, float]


def by_paths(edges: list[Edge], source: int, result: int) -> float:
    """The derivative of a result with respect to a source: over all paths the sum of the products along them.

    The derivative of a value with respect to itself is 1, along the path without edges. It is 0 if there is no path.
    """
    if source == result:
        return 1.0
    return sum(by_paths(edges, source, start) * slope for start, target, slope in edges if target == result)


def count_paths(edges: list[Edge], source: int, result: int) -> int:
    """How many paths lead from a source to a result. There may be far too many to list."""
    count = {source: 1}
    for start, target, _ in sorted(edges):
        if start in count:
            count[target] = count.get(target, 0) + count[start]
    return count.get(result, 0)


def adjoints(edges: list[Edge], result: int, values: int) -> list[float]:
    """The derivatives of a result with respect to the values 0, 1, ..., values - 1: reverse mode, one walk."""
    found = [0.0] * values
    found[result] = 1.0
    for source, target, slope in sorted(edges, key=lambda edge: -edge[1]):
        found[source] += slope * found[target]
    return found


def tangents(edges: list[Edge], source: int, values: int) -> list[float]:
    """The derivatives of the values 0, 1, ..., values - 1 with respect to a source: forward mode, one walk."""
    found = [0.0] * values
    found[source] = 1.0
    for start, target, slope in sorted(edges):
        found[target] += slope * found[start]
    return found
