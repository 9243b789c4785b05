"""Two lanes of time: what a rank computes, and what it sends meanwhile.

In: a rank's program, the time of each of its steps, and a machine. Out: a `Prediction`. Steps run one after the other.
A collective starts where the plan starts it, once the one before is done: there is one lane for them. It takes what
`collective_seconds` says, and where the plan waits for it the rank waits: that is exposed communication. Ranks that are
late, switches that are shared and everything that a plan does not say are left out, so this is a lower bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from wengert.core.code import describe, source_line
from wengert.core.graph import Node
from wengert.distributed.scale.machines import Cluster, bubble, collective_seconds
from wengert.distributed.scale.rank_program import RankProgram, flight_of, put_in
from wengert.plan.plan import Wait

KINDS = {"all_reduce_many": "all_reduce", "all_reduce_max": "all_reduce"}
"""What a collective costs as, where it is not by its own name."""
STAGES = "stage"
"""The axis of a mesh along which a model's layers are cut into a pipeline."""


@dataclass
class Prediction:
    """What a step takes on a rank, in seconds and bytes."""

    program: RankProgram
    compute: float = 0.0
    communication: float = 0.0  # the time of all collectives
    exposed: float = 0.0  # of it, what a rank waits for
    bubble: float = 0.0  # seconds that a pipeline's rank waits for its neighbours
    sent: int = 0  # bytes that a rank puts in
    collectives: int = 0
    waits: dict[Node, float] = field(default_factory=dict)  # by collective: seconds that the rank waited

    @property
    def step(self) -> float:
        """The time of a step."""
        return self.compute + self.exposed + self.bubble

    @property
    def rate(self) -> float:
        """Examples a second, of all ranks together."""
        return self.program.batch / self.step if self.step else 0.0

    def blame(self) -> str:
        """The user's line that is waited for longest, and for how long; empty where nothing is waited for."""
        by_line: dict[str, float] = {}
        for node, seconds in self.waits.items():
            line = describe(node.location) + (f": {source_line(node.location) or ''}".rstrip(": "))
            by_line[line] = by_line.get(line, 0.0) + seconds
        worst = max(by_line, key=lambda line: by_line[line], default="")
        return f"{by_line[worst] * 1e3:.3g} ms for {worst}" if worst and by_line[worst] > 0 else ""


def predict(program: RankProgram, seconds: Sequence[float], cluster: Cluster) -> Prediction:
    """Put the steps and the collectives of a program on their lanes."""
    found = Prediction(program)
    now = free = 0.0
    done: dict[Node, float] = {}
    for step, own in zip(program.plan.steps, seconds):
        node = flight_of(step)
        if node is None:
            now += own
            found.compute += own
            continue
        if node not in done:
            took = collective_time(node, cluster)
            done[node] = free = max(now, free) + took
            found.communication += took
            found.collectives += 1
            found.sent += put_in(node)
        if step.host_op is not None or any(isinstance(part, Wait) for part in step.parts):
            waited = max(0.0, done[node] - now)
            found.waits[node] = waited
            found.exposed += waited
            now += waited
    stages = program.mesh.sizes.get(STAGES, 1)
    share = bubble(stages, program.microbatches or stages)
    found.bubble = now * share / (1 - share)
    return found


def collective_time(node: Node, cluster: Cluster) -> float:
    """The least seconds of a collective on a machine."""
    group = node.attrs["group"]
    return collective_seconds(cluster, group.members(0), put_in(node), KINDS.get(node.op.name, node.op.name))
