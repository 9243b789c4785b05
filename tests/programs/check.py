"""Checks of random programs: compiled against interpreted, and PyTorch against Wengert.

A unit is some programs that are compiled together, as one C library: the C compiler is most of the time. Most units are
compiled without optimisation (`-O0`), which takes a sixth of the time; one of `FULL_EVERY` as users' programs are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np

import wengert as wg
from tests.compiler import fuzz
from tests.compiler.flags import compiler_flags
from tests.compiler.wide_graphs import differs
from tests.programs.builder import Program, random_program
from tests.programs.noise import ROUNDOFF
from wengert.core.dtypes import INEXACT, real_of
from wengert.runtime.dynamic import realize
from wengert.runtime.dynamic.tiers import run_compiled, structures

FULL_EVERY = 25  # units that are compiled with optimisation


class Totals(NamedTuple):
    """What was checked."""

    programs: int = 0
    lines: int = 0
    nodes: int = 0  # ops of the graphs, derivatives included
    with_gradients: int = 0
    with_tangents: int = 0
    with_second: int = 0  # derivatives
    optimised: int = 0  # programs compiled with optimisation
    refused: int = 0  # programs that PyTorch cannot run, of which nothing is known

    def plus(self, other: Totals) -> Totals:
        """The totals of both."""
        return Totals(*[a + b for a, b in zip(self, other)])


class Finding(NamedTuple):
    """A program that is wrong, and how."""

    mode: str
    seed: int
    problem: str
    text: str


def check_compiled(mode: str, seeds: Sequence[int], optimised: bool = True) -> tuple[Totals, list[Finding]]:
    """The programs of these seeds, compiled together, against what they are interpreted."""
    programs = {seed: random_program(mode, seed) for seed in seeds}
    with compiler_flags(optimised):
        problems = _dynamic(programs) if mode == "compile" else _static(programs)
    problems |= {seed: (p.problem, p.text) for seed, p in programs.items() if p.problem}
    return _totals(programs, optimised), [Finding(mode, seed, *found) for seed, found in sorted(problems.items())]


def _totals(programs: dict[int, Program], optimised: bool) -> Totals:
    made = programs.values()
    lines, nodes = sum(len(p.lines) for p in made), sum(p.nodes for p in made)
    gradients = sum(bool(p.sources) for p in made)
    tangents, second = sum(p.forward for p in made), sum(p.second for p in made)
    return Totals(len(made), lines, nodes, gradients, tangents, second, len(made) if optimised else 0)


def _static(programs: dict[int, Program]) -> dict[int, tuple[str, str]]:
    """The graphs of values and gradients through the passes and the plan."""
    failures = fuzz.check_unit(list(programs), (), lambda seed: programs[seed].sample)
    return {failure.seed: (failure.problem, programs[failure.seed].text) for failure in failures}


def _dynamic(programs: dict[int, Program]) -> dict[int, tuple[str, str]]:
    """The programs as a user runs them, with `wg.config.tier = "compile"`: all of a unit are one flush."""
    before, found = wg.config.tier, {}
    wg.config.tier = "compile"
    structures.clear()
    try:
        with patch.object(realize, "run_compiled", _compiled_or_failed):
            recorded = {seed: _recorded(program) for seed, program in programs.items()}
            for seed, tensors in recorded.items():
                sample = programs[seed].sample
                triples = zip(tensors, sample.expected, sample.allowed)
                problem = next(filter(None, [differs(t.numpy(), *pair) for t, *pair in triples]), None)
                if problem:
                    found[seed] = (problem, programs[seed].text)
    finally:
        structures.clear()
        wg.config.tier = before
    return found


def _compiled_or_failed(order: Sequence[Any], keep: set[Any], is_step: bool) -> bool:
    """Run nodes as a compiled program. What is interpreted instead was not checked."""
    assert run_compiled(order, keep, is_step), "the flush was interpreted"
    return True


def _recorded(program: Program) -> list[Any]:
    """The outputs and gradients of a program, recorded through the public functions."""
    leaves = [wg.tensor(array) for array in program.inputs]
    names = program.run(wg, leaves)
    outputs = [names[name] for name in program.outputs]
    if not program.sources:
        return outputs

    def targets(*chosen: Any) -> Any:
        values = list(leaves)
        for place, value in zip(program.sources, chosen):
            values[place] = value
        made = program.run(wg, values)
        return tuple(made[name] for name in program.targets)

    _, pull = wg.vjp(targets, *[leaves[k] for k in program.sources])
    return [*outputs, *pull(tuple(map(wg.tensor, program.cotangents)))]


def check_torch(mode: str, seeds: Sequence[int], optimised: bool = True) -> tuple[Totals, list[Finding]]:
    """The programs of these seeds by PyTorch, value and gradient."""
    from tests.programs.torch_names import run

    programs = {seed: random_program(mode, seed, portable=True) for seed in seeds}
    findings, refused = [], 0
    for seed, program in programs.items():
        sample = program.sample
        try:
            found = run(program)
        except (NotImplementedError, RuntimeError):
            refused += 1
            continue
        triples = zip(found, sample.expected, sample.allowed)
        problem = next(filter(None, [_differs(found, *pair) for found, *pair in triples]), None)
        if problem:
            findings.append(Finding(mode, seed, problem, program.text))
    return _totals(programs, False)._replace(refused=refused), findings


def _differs(found: Any, expected: np.ndarray, allowed: float) -> str | None:
    """As `differs`; a gradient that PyTorch does not have is zero, and it may round where Wengert has nothing to do."""
    least = 8 * ROUNDOFF[real_of(expected.dtype)] if expected.dtype in INEXACT else 0.0
    return differs(np.zeros_like(expected) if found is None else found, expected, max(allowed, least))


def checked(against: str, mode: str, seeds: Sequence[int], optimised: bool) -> tuple[Totals, list[Finding]]:
    """The totals and findings of a unit."""
    return (check_torch if against == "torch" else check_compiled)(mode, seeds, optimised)
