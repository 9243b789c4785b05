"""Scans in segments: the backward pass stores the carries at the start of segments, and recomputes the others.

In: the body of a scan and how many carries may be kept. Out: the results of scans of scans. Reverse mode keeps the
carry that each step of a scan begins with; a step of the outer scan is a segment, whose own carries are there while the
backward pass is in it. With two levels about twice the square root of the steps are kept and each step is computed once
more; with d levels d times the d-th root, and each step d - 1 times more.

What a segment reads is behind a barrier, so that the compiler does not compute one segment's values for all segments.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from wengert.autodiff import body as bodies
from wengert.core.graph import Graph, Node, now, recorded_as, recording
from wengert.core.sizes import bytes_of
from wengert.ops.core import recompute_barrier
from wengert.ops.movement import concat, reshape, slice_axis

DEFAULT = 1 << 30
"""Bytes that the carries of a scan may take without being asked for: 1 GiB."""


def lengths(steps: int, carry: int, memory: object) -> list[int]:
    """The lengths of nested scans, outermost first, such that the stored carries fit into `memory`.

    >>> lengths(1000, 8, "8 kB"), lengths(1000, 8, 600), lengths(1000, 8, 300)
    ([1000], [32, 32], [10, 10, 10])
    """
    kept = (DEFAULT if memory is None else bytes_of(memory, "scan")) // max(carry, 1)
    found = [steps]
    while sum(found) > kept and found[0] > 2:
        found = _evenly(steps, len(found) + 1)
    return found


def _evenly(steps: int, levels: int) -> list[int]:
    """This many lengths of about equal size whose product is at least the number of steps."""
    found: list[int] = []
    for level in range(levels, 0, -1):
        length = math.ceil(round(steps ** (1 / level), 9))
        found.append(length)
        steps = math.ceil(steps / length)
    return found


def record_segments(
    body: Graph,
    constants: Sequence[Node],
    initial: Sequence[Node],
    xs: Sequence[Node],
    steps: int,
    reverse: bool,
    nested: Sequence[int],
) -> list[Node]:
    """The results of a scan, computed by nested scans of these lengths."""
    from wengert.autodiff.scan import record_scan

    if len(nested) == 1 or steps <= nested[0]:
        return record_scan(body, constants, initial, xs, steps, reverse)
    length = math.ceil(steps / nested[0])
    whole = steps // length * length
    inner = _segment(body, constants, initial, xs, length, reverse, nested[1:])
    carry, found = list(initial), list[tuple[int, list[Node]]]()
    for start, stop in reversed([(0, whole), (whole, steps)]) if reverse else [(0, whole), (whole, steps)]:
        part = [slice_axis(x, 0, start, stop) if stop - start < steps else x for x in xs]
        if stop == start:
            continue
        if start == 0:
            part = [reshape(x, (whole // length, length, *x.shape[1:])) for x in part]
            results = record_scan(inner, constants, carry, part, whole // length, reverse)
            ys = [reshape(y, (whole, *y.shape[2:])) for y in results[len(initial) :]]
        else:  # a last segment that is shorter
            results = record_segments(body, constants, carry, part, stop - start, reverse, nested[1:])
            ys = results[len(initial) :]
        carry = results[: len(initial)]
        found.append((start, ys))
    found.sort(key=lambda one: one[0])
    columns = zip(*[ys for _, ys in found])
    return [*carry, *[concat(list(column), axis=0) if len(column) > 1 else column[0] for column in columns]]


def _segment(
    body: Graph,
    constants: Sequence[Node],
    initial: Sequence[Node],
    xs: Sequence[Node],
    length: int,
    reverse: bool,
    nested: Sequence[int],
) -> Graph:
    """The body of the outer scan: the steps of one segment."""
    since = now()
    with recorded_as(recording.location, True):
        fixed, carry = ([bodies.placeholder_like(node) for node in nodes] for nodes in (constants, initial))
        items = [bodies.placeholder_like(slice_axis(x, 0, 0, length)) for x in xs]
        own = [recompute_barrier(item) for item in items]
        outputs = record_segments(body, fixed, carry, own, length, reverse, nested)
    return Graph([*fixed, *carry, *items], outputs, since)
