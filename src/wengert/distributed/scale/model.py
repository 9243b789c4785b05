"""A model of a step's time with two lanes for each rank: computation, and communication.

In: the programs of a rank of each stage, the time of each step of their plans, and a machine. Out: a `Prediction`.
Steps run one after another. A collective starts where the plan starts it, once the one before is done: there is one
lane for them. It takes what `collective_seconds` says, and where the plan waits for it the rank waits: that is exposed
communication. A message between stages takes its latency plus its bytes over the bandwidth, and the receiver waits:
that is the bubble. Stragglers and shared links are not modelled, so this is a lower bound.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from wengert.core.code import describe, source_line
from wengert.core.errors import CompilerError
from wengert.core.graph import Node
from wengert.distributed.scale.machines import Cluster, collective_seconds
from wengert.distributed.scale.rank_program import Message, RankProgram, RunPlan, flight_of, put_in
from wengert.plan.plan import Plan, Start

KINDS = {"all_reduce_many": "all_reduce", "all_reduce_max": "all_reduce"}
"""What a collective costs as, where it is not by its own name."""

Seconds = Callable[[Plan], Sequence[float]]
"""The time of each step of a plan."""


@dataclass
class RankTime:
    """The timeline of a rank: its work so far, in seconds and bytes."""

    program: RankProgram
    now: float = 0.0
    free: float = 0.0  # from when on the lane of collectives is
    compute: float = 0.0
    communication: float = 0.0  # the time of all collectives
    exposed: float = 0.0  # of it, what the rank waits for
    bubble: float = 0.0  # what it waits for other stages
    sent: int = 0  # bytes that it puts into collectives, and sends to other stages
    collectives: int = 0
    waits: dict[Node, float] = field(default_factory=dict)  # by collective: seconds that the rank waited

    def run(self, plan: Plan, seconds: Sequence[float], cluster: Cluster) -> None:
        """Schedule the steps and collectives of a plan on the lanes."""
        done: dict[Node, float] = {}
        for step, own in zip(plan.steps, seconds):
            node = flight_of(step)
            if node is None:
                self.now += own
                self.compute += own
                continue
            if node not in done:
                done[node] = self._start(node, cluster)
            if not isinstance(step.flight, Start):
                waited = max(0.0, done[node] - self.now)
                self.waits[node] = self.waits.get(node, 0.0) + waited
                self.exposed += waited
                self.now += waited

    def _start(self, node: Node, cluster: Cluster) -> float:
        took = collective_time(node, self.program.rank, cluster)
        self.free = max(self.now, self.free) + took
        self.communication += took
        self.collectives += 1
        self.sent += put_in(node)
        return self.free


@dataclass
class Prediction:
    """The predicted time of a step: the lanes of one rank of each stage."""

    lanes: list[RankTime]

    @property
    def busiest(self) -> RankTime:
        """The rank that computes and waits for collectives longest."""
        return max(self.lanes, key=lambda one: one.compute + one.exposed)

    @property
    def step(self) -> float:
        """The time of a step."""
        return max(one.now for one in self.lanes)

    @property
    def bubble(self) -> float:
        """The idle seconds of the busiest rank, while it waits for other stages or for the end of the step."""
        busiest = self.busiest
        return self.step - busiest.compute - busiest.exposed if len(self.lanes) > 1 else 0.0

    @property
    def rate(self) -> float:
        """Examples per second, over all ranks."""
        return self.busiest.program.batch / self.step if self.step else 0.0

    @property
    def memory(self) -> int:
        """The bytes of the rank that uses the most memory."""
        return max(one.program.memory for one in self.lanes)

    def blame(self) -> str:
        """The user's line that causes the longest wait, and its seconds; empty if there is no wait."""
        by_line: dict[str, float] = {}
        for node, seconds in self.busiest.waits.items():
            line = describe(node.location) + (f": {source_line(node.location) or ''}".rstrip(": "))
            by_line[line] = by_line.get(line, 0.0) + seconds
        worst = max(by_line, key=lambda line: by_line[line], default="")
        return f"{by_line[worst] * 1e3:.3g} ms for {worst}" if worst and by_line[worst] > 0 else ""


def predict(programs: Sequence[RankProgram], seconds: Seconds, cluster: Cluster) -> Prediction:
    """Simulate one rank of each stage, each as far as its messages have arrived."""
    lanes = [RankTime(program) for program in programs]
    left = [deque(program.parts) for program in programs]
    under_way: dict[tuple[int, int], deque[float]] = {}  # by sender and receiver: when messages arrive
    while any(left):
        before = sum(map(len, left))
        for stage, (one, parts) in enumerate(zip(lanes, left)):
            while parts and _carried_out(parts[0], stage, one, lanes, under_way, seconds, cluster):
                parts.popleft()
        if sum(map(len, left)) == before:
            raise CompilerError("scale: the stages of a pipeline wait for each other")
    return Prediction(lanes)


def _carried_out(
    part: RunPlan | Message,
    stage: int,
    one: RankTime,
    lanes: Sequence[RankTime],
    under_way: dict[tuple[int, int], deque[float]],
    seconds: Seconds,
    cluster: Cluster,
) -> bool:
    """Run the next part of a stage, unless it receives a message that has not been sent yet."""
    if isinstance(part, RunPlan):
        one.run(part.plan, seconds(part.plan), cluster)
        return True
    if part.sends:
        pair = one.program.rank, lanes[part.stage].program.rank
        arrives = one.now + collective_seconds(cluster, pair, part.bytes, "ppermute")
        under_way.setdefault((stage, part.stage), deque()).append(arrives)
        one.sent += part.bytes
        return True
    waiting = under_way.get((part.stage, stage))
    if not waiting:
        return False
    waited = max(0.0, waiting.popleft() - one.now)
    one.bubble += waited
    one.now += waited
    return True


def collective_time(node: Node, rank: int, cluster: Cluster) -> float:
    """The least time in seconds of a rank's collective on a machine."""
    members = node.attrs["group"].members(rank)
    return collective_seconds(cluster, members, put_in(node), KINDS.get(node.op.name, node.op.name))
