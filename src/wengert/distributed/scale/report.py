"""The output of `wengert scale`: a row for each number of ranks, with its assumptions and limits."""

from __future__ import annotations

from collections.abc import Mapping

from wengert.distributed.scale.machines import Cluster
from wengert.distributed.scale.model import Prediction
from wengert.distributed.scale.rank_program import bucket_copies, started_early
from wengert.runtime.debug.explain import bytes_text

BOUND = (
    "a lower bound: kernels and links at their best, no stragglers, no other traffic. Of 10 public runs of nanotron a "
    "formula like it was within 10% of 3 and 1.5 to 6 times too low on 7, never too high"
)


def report(name: str, found: Mapping[int, Prediction], cluster: Cluster, factor: float = 1.0) -> str:
    """The table and the notes below it."""
    ranks, first = next(iter(found.items()))
    lines = [
        f"{name} on {cluster.name}",
        f"{'ranks':>6} {'step':>10} {'compute':>10} {'sent':>10} {'takes':>10} {'exposed':>10} {'bubble':>7}"
        f" {'memory':>10} {'examples/s':>11} {'efficiency':>10}",
    ]
    for count, one in found.items():
        efficiency = one.rate / count / (first.rate / ranks) if first.rate else 0.0
        lines.append(
            f"{count:>6} {_time(one.step):>10} {_time(one.busiest.compute):>10} {bytes_text(one.busiest.sent):>10}"
            f" {_time(one.busiest.communication):>10} {_time(one.busiest.exposed):>10}"
            f" {one.bubble / (one.step or 1):>7.1%} {bytes_text(one.memory):>10} {one.rate:>11.4g} {efficiency:>10.1%}"
        )
    lines.append(f"efficiency: examples/s per rank, relative to {ranks} rank{'s' if ranks > 1 else ''}")
    lines += [_collectives(one) for one in found.values() if one.busiest.collectives]
    how = "timed here" if not cluster.float32 else "from FLOPs and bytes at peak rates"
    lines.append(f"kernels: {how}" + (f", times {factor:.2f}, as measured" if factor != 1.0 else ""))
    return "\n".join([*lines, *(f"  {source}" for source in cluster.sources), BOUND])


def _collectives(one: Prediction) -> str:
    busiest = one.busiest
    shares = [started_early(plan) for plan in busiest.program.plans]
    early, total = sum(share[0] for share in shares), sum(share[1] for share in shares)
    copies = sum(map(bucket_copies, busiest.program.plans))
    count = "1 collective" if busiest.collectives == 1 else f"{busiest.collectives} collectives"
    text = f"{busiest.program.mesh}: {count} a step, {early / total if total else 0:.0%} of the bytes started before "
    text += f"the last kernel of the backward pass, {copies} copies for buckets"
    blame = one.blame()
    return text + (f"; waits longest {blame}" if blame else "")


def _time(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds >= 1e-4 else f"{seconds * 1e6:.3g} us"
