"""Regions: loops that follow each other and do not depend on each other run in one parallel region.

In: the steps of a program in order. Out: the steps in regions. The updates of many parameters are one region: threads
are woken once, large loops are shared among them, and each small one is left to a single thread while the others go on.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from itertools import count, islice

from wengert.compiler.fuel import spend
from wengert.core.graph import Node
from wengert.kernels.c import Function
from wengert.plan.plan import Plan
from wengert.plan.steps import Step


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


def _function(step: Step) -> Function | None:
    return step.code.function if step.code is not None else None


def _is_loop(step: Step) -> bool:
    function = _function(step)
    return function is not None and function.is_one_loop


def _worth_a_region(region: list[Step]) -> list[list[Step]]:
    """The region as it is if threads are of use in it, and otherwise its steps one by one."""
    functions = [_function(step) for step in region]
    useful = any(function is not None and function.is_parallel for function in functions)
    return [region] if useful and _spends(region) else [[step] for step in region]


def _spends(region: Sequence[Step]) -> bool:
    return len(region) == 1 or spend(region[0].writes[0], lambda: f"{len(region)} steps share a parallel region")


def parallel_regions(plan: Plan) -> Plan:
    """The plan with its steps in parallel regions, on the CPU."""
    if plan.target.launches:
        return plan
    numbers = count()
    found = regions(plan.steps, plan.donated, plan.overwriting)
    return replace(plan, regions=tuple(tuple(islice(numbers, len(region))) for region in found))


def region_text(region: Sequence[Step]) -> str:
    """The C statement that runs a region."""
    if len(region) == 1:
        return region[0].code.text if region[0].code is not None else ""
    lines = ["#pragma omp parallel", "{"]
    for step in region:
        assert step.code is not None and step.code.function is not None
        if step.code.function.is_parallel:
            lines.append("    " + step.code.text.replace("(", "_shared(", 1))
        else:
            lines += ["    #pragma omp single nowait", "    " + step.code.text]
    return "\n    ".join([*lines, "}"])
