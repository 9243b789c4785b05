"""All-reduce from messages to a neighbour: the ranks stand in a ring, and each sends to the next one only.

A rank's values are cut into as many chunks as there are ranks. In each step every rank sends one chunk on. After
`ranks - 1` steps each rank has the sum of one chunk (reduce-scatter), after as many again it has the sums of all
chunks (all-gather). Each rank sends 2 (ranks - 1) / ranks times its values, however many ranks there are.
"""

from __future__ import annotations

from typing import Any

import wengert as wg
from wengert.distributed import ppermute, rank


def send_to_next(x: Any) -> Any:
    """Send a value to the next rank around the ring; what the rank before this one sent."""
    return ppermute(x, shift=1)


def chunk(chunks: Any, k: Any, ranks: int) -> Any:
    """Chunk number `k`, counted around the ring: chunk -1 is the last one. `k` may depend on the rank."""
    return chunks[k % ranks]


def with_chunk(chunks: Any, k: Any, value: Any, ranks: int) -> Any:
    """The chunks, with a value in the place of chunk number `k`."""
    is_this = (wg.arange(ranks) == k % ranks).reshape(ranks, 1)
    return wg.where(is_this, value, chunks)


def reduce_scatter_step(chunks: Any, step: int, ranks: int) -> Any:
    """Step `step` of the reduce-scatter: send one chunk on, add what comes to the chunk that it belongs to.

    In step 0 rank r sends its chunk r; in every later step the one that it added to just before.
    After `ranks - 1` steps, rank r has the sum over all ranks of chunk r + 1.
    """
    received = send_to_next(chunk(chunks, rank() - step, ranks))
    place = rank() - step - 1
    return with_chunk(chunks, place, chunk(chunks, place, ranks) + received, ranks)


def all_gather_step(chunks: Any, step: int, ranks: int) -> Any:
    """Step `step` of the all-gather: send one chunk on, put what comes in the place of the chunk that it belongs to.

    In step 0 rank r sends the chunk whose sum it has, r + 1; in every later step the one that it received just before.
    """
    received = send_to_next(chunk(chunks, rank() + 1 - step, ranks))
    return with_chunk(chunks, rank() - step, received, ranks)


def all_reduce(x: Any, ranks: int) -> Any:
    """The sum over all ranks of a value, on each of them. The number of elements divides by that of the ranks."""
    chunks = x.reshape(ranks, -1)
    for step in range(ranks - 1):
        chunks = reduce_scatter_step(chunks, step, ranks)
    for step in range(ranks - 1):
        chunks = all_gather_step(chunks, step, ranks)
    return chunks.reshape(x.shape)
