"""`associative_scan`: all partial results of an associative function, in a depth of log n.

In: a function of two elements, and values whose elements lie along an axis. Out: the results of the first, the first
two, ... of them. Neighbouring pairs are combined, which leaves half as many elements; the partial results of these are
every second result, and one more combination gives the others (Blelloch, 1990): less than 2n combinations, in 2 log2(n)
rounds of one call over many elements. It is made of recorded ops, so it has all their rules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from wengert.autodiff import body as bodies
from wengert.core import tree
from wengert.core.errors import ArgumentError, ShapeError
from wengert.core.graph import Node, describe_type
from wengert.ops.core import as_node
from wengert.ops.movement import concat, flip, normalize_axis, reshape, slice_axis, stack
from wengert.tensor import family_of

Combine = Callable[[Sequence[Node], Sequence[Node]], list[Node]]


def associative_scan(function: Callable[[Any, Any], Any], xs: Any, axis: int = 0, reverse: bool = False) -> Any:
    """The partial results of an associative function along an axis: `x0`, `f(x0, x1)`, `f(f(x0, x1), x2)`, ...

    The function receives many pairs at once, as values that also have the axis, so it must treat all elements along it
    alike; `@` and elementwise ops do. With `reverse` it begins with the last element, as `scan` does: `f(x2, x1)`. For
    a function that is not associative, use `scan`.

    >>> import wengert as wg
    >>> wg.associative_scan(lambda a, b: a * b, wg.tensor([1, 2, 3, 4])).tolist()
    [1, 2, 6, 24]
    >>> decay, x = wg.tensor([0.5, 0.5, 0.5]), wg.tensor([8.0, 4.0, 2.0])  # h = decay * h + x, step by step
    >>> wg.associative_scan(lambda l, r: (l[0] * r[0], r[0] * l[1] + r[1]), (decay, x))[1].tolist()
    [8.0, 8.0, 6.0]
    """
    leaves, structure = tree.flatten(bodies.as_tensors(xs))
    if not leaves:
        raise ArgumentError("associative_scan: there are no values to scan")
    family, nodes = family_of(leaves), [leaf.node for leaf in leaves]
    along = [normalize_axis(axis, node.ndim, "associative_scan") for node in nodes]
    lengths = {node.shape[a] for node, a in zip(nodes, along)}
    if len(lengths) > 1:
        raise ShapeError(f"associative_scan: the values have different lengths along axis {axis}: {sorted(lengths)}")

    def combine(a: Sequence[Node], b: Sequence[Node]) -> list[Node]:
        result = function(*[tree.unflatten(structure, map(family, part)) for part in (a, b)])
        return _checked(result, structure, a)

    if reverse:
        nodes = [flip(node, axis=a) for node, a in zip(nodes, along)]
    results = _partial(combine, nodes, along)
    if reverse:
        results = [flip(node, axis=a) for node, a in zip(results, along)]
    return tree.unflatten(structure, map(family, results))


def _checked(result: Any, structure: Any, like: Sequence[Node]) -> list[Node]:
    leaves, found = tree.flatten(result)
    if found != structure:
        raise ArgumentError(f"associative_scan: the function takes {structure} twice but returns {found}")
    nodes = [as_node(leaf) for leaf in leaves]
    for before, after in zip(like, nodes):
        if before.shape != after.shape or before.dtype != after.dtype:
            raise ShapeError(
                f"associative_scan: the function takes {describe_type(before)} twice but returns "
                f"{describe_type(after)}; it must combine two elements into one of the same type",
                after.location,
            )
    return nodes


def _partial(combine: Combine, xs: list[Node], along: Sequence[int]) -> list[Node]:
    n = xs[0].shape[along[0]]
    if n < 2:
        return xs

    def every(values: Sequence[Node], start: int, stop: int) -> list[Node]:
        return [slice_axis(x, a, start, stop, 2) for x, a in zip(values, along)]

    odd = _partial(combine, combine(every(xs, 0, n - 1), every(xs, 1, n)), along)
    first = [slice_axis(x, a, 0, 1) for x, a in zip(xs, along)]
    if n == 2:
        return [concat([f, o], axis=a) for f, o, a in zip(first, odd, along)]
    left = [slice_axis(o, a, 0, (n - 1) // 2) for o, a in zip(odd, along)]
    even = combine(left, every(xs, 2, n))
    whole = [concat([f, e], axis=a) for f, e, a in zip(first, even, along)]
    return [_interleaved(e, o, a) for e, o, a in zip(whole, odd, along)]


def _interleaved(even: Node, odd: Node, axis: int) -> Node:
    """The elements of two values alternately; the first may have one more."""
    n = odd.shape[axis]
    pairs = stack([slice_axis(even, axis, 0, n), odd], axis=axis + 1)
    both = reshape(pairs, (*odd.shape[:axis], 2 * n, *odd.shape[axis + 1 :]))
    return both if even.shape[axis] == n else concat([both, slice_axis(even, axis, n, n + 1)], axis=axis)
