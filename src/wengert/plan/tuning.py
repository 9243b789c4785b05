"""Tuning: time the candidates for the groups of a program, and keep the winners.

In: candidates, and a budget in seconds. Out: choices, stored on disk. The groups with the most arithmetic come first,
then those that read most; groups left when the time is up are not timed. The first candidate is the default and stays
unless another is faster by more than a margin.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from time import perf_counter
from typing import TYPE_CHECKING, NamedTuple

from wengert.kernels.convolution.form import CONVOLUTIONS, convolution
from wengert.ops.linalg import MATMUL
from wengert.plan.groups import FusionGroup
from wengert.plan.libraries import Choice, Timer
from wengert.plan.plan import Step

if TYPE_CHECKING:
    from wengert.plan.cuda_codegen import Candidates

TOGETHER = 16  # groups whose candidates are compiled side by side
MARGIN = 0.03  # the fraction by which another must beat the first candidate


class Candidate(NamedTuple):
    """One implementation of a group; `make` gives the step, or None if it turns out not to work."""

    name: str
    make: Callable[[], Step | None]
    is_late: bool = False  # built only when it is timed, because that is slow


class Tuned(NamedTuple):
    """The outcome of tuning a program."""

    seconds: float
    choices: dict[str, Choice]  # new ones
    known: int  # timed before
    left: int  # for which there was no time

    def __str__(self) -> str:
        left = f", {self.left} left for want of time" if self.left else ""
        return f"tuning took {self.seconds:.1f} s: {len(self.choices)} timed, {self.known} known before{left}"


def tune(candidates: Candidates, groups: Iterable[FusionGroup], timer: Timer, seconds: float) -> Tuned:
    """Time the candidates of groups that have several and no stored choice, for about this many seconds."""
    start = perf_counter()
    wanted = {key: group for group in groups if (key := candidates.key(group)) is not None}
    new = [key for key in wanted if candidates.choices.get(key) is None]
    new.sort(key=lambda key: _weight(wanted[key]), reverse=True)
    found: dict[str, Choice] = {}
    left = len(new)
    for chunk in (new[i : i + TOGETHER] for i in range(0, len(new), TOGETHER)):
        if perf_counter() - start > seconds:
            break
        for key, steps in _ready(candidates, {key: wanted[key] for key in chunk}, timer).items():
            if perf_counter() - start > seconds:
                break
            left -= 1
            steps.update(_steps(candidate for candidate in candidates.of(wanted[key]) if candidate.is_late))
            choice = _winner(timer.times(steps), steps) if len(steps) > 1 else None
            if choice is not None:
                found[key] = choice
                candidates.choices.keep({key: choice})
    return Tuned(perf_counter() - start, found, len(wanted) - len(new), left)


def _ready(candidates: Candidates, groups: dict[str, FusionGroup], timer: Timer) -> dict[str, dict[str, Step]]:
    """The steps of the candidates of some groups, by key and name, their kernels compiled in parallel."""
    found = {
        key: _steps(candidate for candidate in candidates.of(group) if not candidate.is_late)
        for key, group in groups.items()
    }
    timer.prepare(launch for steps in found.values() for step in steps.values() for launch in step.launches)
    return found


def _steps(candidates: Iterable[Candidate]) -> dict[str, Step]:
    """The steps of the candidates that work, by name."""
    made = {candidate.name: candidate.make() for candidate in candidates}
    return {name: step for name, step in made.items() if step is not None}


def _weight(group: FusionGroup) -> tuple[int, int]:
    """The approximate number of products that a group sums, and of elements that it reads."""
    node = group.roots[0]
    first, second, *_ = node.sources
    found = convolution(node) if node.op in CONVOLUTIONS else None
    if found is not None:
        products = found.form.flops // 2
    else:
        products = node.size * first.shape[-1] if node.op is MATMUL else first.size * second.shape[-2]
    return products, sum(read.leaf.size for read in group.reads)


def _winner(times: Mapping[str, float], steps: Mapping[str, Step]) -> Choice | None:
    """The winner; None if there is not enough memory to time the candidates, or the first does not run."""
    first = next(iter(steps))
    if first not in times:
        return None
    winner = min(times, key=lambda name: times[name])
    if times[winner] > (1 - MARGIN) * times[first]:
        winner = first
    return Choice(winner, times[winner], first, times[first], len(times))
