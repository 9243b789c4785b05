"""Stages of a pipeline, marked by hand: which layers of a model are on which ranks of the axis "stage"."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from wengert.core.errors import ArgumentError
from wengert.core.graph import now, recording


def stage(number: int) -> AbstractContextManager[None]:
    """A context that assigns what is recorded to a pipeline stage, for `compile(mesh=...)` over a mesh with an axis
    "stage".

    Stages are numbered from 0, the one that receives the input. With two (or three) times as many stages as ranks,
    every rank has two (or three) of them, and the pipeline's bubble is smaller. Gradients and updates follow their
    parameters. Outside such a compiled function it has no effect.

    >>> import wengert as wg
    >>> first, second = wg.nn.Linear(4, 4), wg.nn.Linear(4, 2)
    >>> def model(x):
    ...     with wg.distributed.stage(0):
    ...         x = first(x)
    ...     with wg.distributed.stage(1):
    ...         return second(x)
    >>> model(wg.ones((3, 4))).shape
    (3, 2)
    """
    if not isinstance(number, int) or number < 0:
        raise ArgumentError(f"stage takes a non-negative integer, not {number!r}")
    return _recorded(number)


@contextmanager
def _recorded(number: int) -> Iterator[None]:
    static = None if recording.trace is None else recording.trace.static
    if static is None:
        yield
        return
    around = static.stages[-1][1] if static.stages else None
    static.stages.append((now(), number))
    try:
        yield
    finally:
        static.stages.append((now(), around))
