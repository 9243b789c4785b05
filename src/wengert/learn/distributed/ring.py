"""The section on the ring: an all-reduce out of messages to the next rank, a step at a time."""

from __future__ import annotations

from typing import Any

import numpy as np

import wengert as wg
from wengert.distributed import all_reduce, simulate
from wengert.learn.derivatives.section import Section, Table
from wengert.learn.ranks import ring

RANKS = 4


def states(ranks: int = RANKS) -> list[np.ndarray[Any, Any]]:
    """What all ranks hold before the first step and after each: rank r begins with 10 to the power r in every chunk.

    So the digits of a sum tell whose values are in it.
    """
    chunks = np.stack([np.full((ranks, 1), 10.0**rank) for rank in range(ranks)])
    found = [chunks]
    for one_step in (ring.reduce_scatter_step, ring.all_gather_step):
        for step in range(ranks - 1):
            run = simulate(lambda c, f=one_step, s=step: f(c, s, ranks), ranks)
            found.append(run(wg.tensor(found[-1])).numpy())
    return found


def sources(value: float, ranks: int = RANKS) -> str:
    """Whose values are in a sum.

    >>> sources(1101)
    '0+2+3'
    """
    digits = f"{round(value):0{ranks}d}"[::-1]
    return "+".join(str(rank) for rank, digit in enumerate(digits) if digit != "0")


def section() -> Section:
    """The ring, step by step."""
    names = [
        "at first",
        *[f"reduce-scatter, step {k + 1}" for k in range(RANKS - 1)],
        *[f"all-gather, step {k + 1}" for k in range(RANKS - 1)],
    ]
    tables = [_table(name, chunks) for name, chunks in zip(names, states())]
    return Section(
        "A ring all-reduce, step by step",
        f"{RANKS} ranks each have a vector, and all want the sum. The ranks stand in a ring; each sends to the next "
        f"one only (ppermute). A vector is cut into {RANKS} chunks. In each step every rank sends one chunk on. Cells "
        "tell whose values are in the sum of that chunk. First the sums grow while they go around: a reduce-scatter. "
        "Then whole sums go around: an all-gather.",
        tables,
        _count(),
    )


def _table(name: str, chunks: np.ndarray[Any, Any]) -> Table:
    columns = [name, *[f"chunk {k}" for k in range(RANKS)]]
    rows = [[f"rank {r}", *[sources(chunks[r, k, 0]) for k in range(RANKS)]] for r in range(RANKS)]
    return Table(columns, rows)


def _count() -> str:
    """What was sent, counted; and that the op gives the same."""
    sent: list[int] = []
    kept = ring.send_to_next

    def counting(x: Any) -> Any:
        sent.append(x.size)
        return kept(x)

    ring.send_to_next = counting
    try:
        values = wg.tensor(np.random.default_rng(0).normal(size=(RANKS, 1000)))
        ours = simulate(lambda x: ring.all_reduce(x, RANKS), RANKS)(values)
    finally:
        ring.send_to_next = kept
    op = simulate(lambda x: all_reduce(x), RANKS)(values)
    difference = float(np.abs(ours.numpy() - op.numpy()).max())
    return (
        f"Counted for vectors of 1000: {len(sent)} messages a rank, {sum(sent)} elements in all, "
        f"{sum(sent) / 1000:g} times the vector. With more ranks that goes to 2 and no further: this is why data "
        "parallelism scales. The messages become more and shorter, so small sums are better gathered whole.\n\n"
        f"wg.distributed.all_reduce differs from it by {difference:.1g} at most: each chunk of the ring begins its sum "
        "with another rank. Wengert's own sums are added in one balanced tree on every engine, so that they have the "
        "same bits everywhere. The exercise `ranks` has you write this ring: "
        "wengert learn handout FOLDER --exercise ranks"
    )
