"""Ticks: when each node of a pipeline's graph runs, and which ranks need it.

A schedule played in ticks says when each piece begins. A node gets the tick of its piece, or of the last thing it
reads; transfers lie between two ticks. So the nodes of all ranks are in one order that keeps every dependency, and the
transfers are in it: ranks cannot wait for each other in a circle, even where a value needs all micro-batches (as
BatchNorm does), which the schedule knows nothing of.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from wengert.compiler.pipeline import Pipeline
from wengert.compiler.schedules import BACKWARD, FORWARD, Piece, Schedule, timeline
from wengert.core.code import Backward
from wengert.core.graph import Graph, Node
from wengert.ops.op import PICK
from wengert.ops.transfer import MICROBATCH, TRANSFER


def needed_by(graph: Graph, pipeline: Pipeline) -> list[set[Node]]:
    """For each rank of the pipeline the nodes it needs for its outputs, and for what others need of it."""
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
    """When each node runs: nodes at even ticks, transfers at odd ones, none before what it reads."""
    begins = timeline(schedule).begins
    known: dict[Node, _Where] = {}
    for node in graph.nodes:
        sources = [known[source] for source in node.sources if source in known]
        if node.op is PICK and sources:
            known[node] = sources[0]  # results leave a piece one by one
            continue
        tick = max((source.tick for source in sources), default=0)
        microbatch = node.attrs["index"] if node.op is MICROBATCH else _most(s.microbatch for s in sources)
        if node.op is TRANSFER:
            known[node] = _Where(tick + 1, node.attrs["target"], microbatch)
            continue
        phase = BACKWARD if isinstance(node.location, Backward) else FORWARD
        stages = [s.stage for s in sources if s.stage is not None]
        stage = _only_rank(node, needed) if not stages else max(stages) if phase == FORWARD else min(stages)
        if stage is not None and (microbatch is not None or schedule.microbatches == 1):
            tick = max(tick, 2 * begins[Piece(phase, stage, microbatch or 0)])
        known[node] = _Where(tick + tick % 2, stage, microbatch)
    return {node: where.tick for node, where in known.items()}


def _most(numbers: Iterable[int | None]) -> int | None:
    return max((n for n in numbers if n is not None), default=None)


def _only_rank(node: Node, needed: Sequence[set[Node]]) -> int | None:
    """The rank that alone needs a node; what several need, each computes as soon as it can."""
    found = [rank for rank, nodes in enumerate(needed) if node in nodes]
    return found[0] if len(found) == 1 else None
