"""Ticks: when each node of a pipeline's graph runs, and which ranks need it.

A schedule, played in ticks, gives the start of each piece. A node runs at the tick of its piece, or of the last value
it reads; transfers run between ticks. So one order covers the nodes of all ranks, respects every dependency, and
includes the transfers. Ranks can therefore not wait for each other in a cycle, even where a value needs all
micro-batches (as in BatchNorm), which the schedule does not know about.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from wengert.compiler.pipeline import Pipeline
from wengert.compiler.schedules import BACKWARD, FORWARD, Piece, Schedule, timeline
from wengert.core.code import Backward
from wengert.core.graph import Graph, Node
from wengert.ops.op import PICK
from wengert.ops.transfer import MICROBATCH, TRANSFER


def needed_by(graph: Graph, pipeline: Pipeline) -> list[set[Node]]:
    """For each rank of the pipeline, the nodes it needs for its own outputs and for what other ranks need from it."""
    ranks, own = pipeline.group.size, set(graph.nodes)
    needed: list[set[Node]] = [set() for _ in range(ranks)]
    agenda = [(rank, graph.outputs[k]) for held in pipeline.outputs for rank, k in held.items()]
    while agenda:
        rank, node = agenda.pop()
        if node not in own or node in needed[rank]:
            continue
        needed[rank].add(node)
        source = node.attrs["source"] % ranks if node.op is TRANSFER else rank
        needed[source].add(node)
        agenda += [(source, x) for x in node.sources]
    return needed


class _Where(NamedTuple):
    tick: int
    stage: int | None
    microbatch: int | None


def ticks(graph: Graph, schedule: Schedule, needed: Sequence[set[Node]]) -> dict[Node, int]:
    """When each node runs: nodes at even ticks, transfers at odd ones, none before its operands.

    A node that depends on no layer (dropout draws, the number of targets) runs when it is first needed.
    """
    begins = timeline(schedule).begins
    free = _free(graph)
    known: dict[Node, _Where] = {}
    for node in graph.nodes:
        sources = [known[source] for source in node.sources if source in known]
        if node.op is PICK and sources:
            known[node] = sources[0]  # results leave a piece one by one
            continue
        tick = max((source.tick for source in sources), default=0)
        found = {s.microbatch for s in sources if s.microbatch is not None}
        if node in free:
            own = node.attrs["index"] if node.op is MICROBATCH else found.pop() if len(found) == 1 else None
            known[node] = _Where(0, None, own)
            continue
        microbatch = node.attrs["index"] if node.op is MICROBATCH else max(found, default=None)
        if node.op is TRANSFER:
            known[node] = _Where(tick + 1, node.attrs["target"], microbatch)
            continue
        phase = BACKWARD if isinstance(node.location, Backward) else FORWARD
        stages = [s.stage for s in sources if s.stage is not None]
        stage = _only_rank(node, needed) if not stages else max(stages) if phase == FORWARD else min(stages)
        if stage is not None and (microbatch is not None or schedule.microbatches == 1):
            tick = max(tick, 2 * begins[Piece(phase, stage, microbatch or 0)])
        known[node] = _Where(tick + tick % 2, stage, microbatch)
    return _as_late(graph, {node: where.tick for node, where in known.items()}, free)


def _free(graph: Graph) -> set[Node]:
    """The nodes that depend on no layer: on nothing with gradients, and on nothing from other stages."""
    found: set[Node] = set()
    if not any(node.tracked for node in graph.nodes):
        return found
    own = set(graph.nodes)
    for node in graph.nodes:
        if not node.tracked and node.op is not TRANSFER and all(s in found or s not in own for s in node.sources):
            found.add(node)
    return found


def _as_late(graph: Graph, when: dict[Node, int], free: set[Node]) -> dict[Node, int]:
    """The ticks, with free nodes moved to their first reader."""
    first: dict[Node, int] = {}
    for node in reversed(graph.nodes):
        if node in free:
            when[node] = first.get(node, 0) // 2 * 2
        for source in node.sources:
            first[source] = min(first.get(source, when[node]), when[node])
    return when


def _only_rank(node: Node, needed: Sequence[set[Node]]) -> int | None:
    """The one rank that needs a node; nodes that several ranks need run as early as possible on each."""
    found = [rank for rank, nodes in enumerate(needed) if node in nodes]
    return found[0] if len(found) == 1 else None
