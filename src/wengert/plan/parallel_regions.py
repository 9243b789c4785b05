"""Regions: loops that follow each other and do not depend on each other run in one parallel region.

In: the steps of a program in order. Out: the steps in regions. The updates of many parameters are one region: threads
are woken once, large loops are shared among them, and each small one is left to a single thread while the others go on.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import TYPE_CHECKING

from wengert.core.graph import Node

if TYPE_CHECKING:
    from wengert.backends.cpu.program import Step


def regions(steps: Sequence[Step], taken: Mapping[Node, Node], late: Container[Node]) -> list[list[Step]]:
    """The steps, those together that can run at once.

    `taken` says which outputs are written over which inputs, so that they are one place; `late` which are written after
    all that may fail.
    """
    found: list[list[Step]] = []
    reads: set[Node] = set()
    writes: set[Node] = set()
    overwriting = False
    for step in steps:
        own_reads, own_writes = ({taken.get(node, node) for node in nodes} for nodes in (step.reads, step.writes))
        begins = not overwriting and any(node in late for node in step.writes)  # all that may fail came before
        overwriting = overwriting or begins
        free = own_writes.isdisjoint(reads) and own_writes.isdisjoint(writes) and writes.isdisjoint(own_reads)
        if found and free and not begins and _is_loop(step) and _is_loop(found[-1][-1]):
            found[-1].append(step)
        else:
            found.append([step])
            reads, writes = set(), set()
        reads |= own_reads
        writes |= own_writes
    return [part for region in found for part in _worth_a_region(region)]


def _is_loop(step: Step) -> bool:
    return step.function is not None and step.function.is_one_loop


def _worth_a_region(region: list[Step]) -> list[list[Step]]:
    """The region as it is if threads are of use in it, and otherwise its steps one by one."""
    useful = any(step.function is not None and step.function.is_parallel for step in region)
    return [region] if useful else [[step] for step in region]


def region_text(region: Sequence[Step]) -> str:
    """The C statement that runs a region."""
    if len(region) == 1:
        return region[0].text or ""
    lines = ["#pragma omp parallel", "{"]
    for step in region:
        assert step.call is not None and step.function is not None
        if step.function.is_parallel:
            lines.append("    " + step.call.text(in_region=True))
        else:
            lines += ["    #pragma omp single nowait", "    " + step.call.text()]
    return "\n    ".join([*lines, "}"])
