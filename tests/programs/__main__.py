"""Random programs with gradients: compiled against interpreted, or against PyTorch.

    python -m tests.programs --mode float16 --count 10000 --seed 0
    python -m tests.programs --mode all --jobs 2
    python -m tests.programs --mode float64 --count 2000 --against torch

A run that was stopped goes on where it was, by the files in `--folder`; the totals of all runs there are added up in
`benchmarks/results/programs-<date>.txt`. Seeds that once failed (`seeds.json`) are run first, and new ones are kept.
The exit status is 0 if nothing is wrong.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter
from typing import Any

UNIT = 80  # programs that are compiled together
COMPARED = ("compile", "float64", "float16", "bfloat16", "integers", "complex64", "complex128")
WITH_TORCH = ("compile", "float64", "integers", "complex128")
ROOT = Path(__file__).parents[2]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for; 1 if a program is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.programs", description=__doc__)
    parser.add_argument("--mode", default="all", choices=["all", *dict.fromkeys((*COMPARED, *WITH_TORCH))])
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--against", choices=["references", "torch"], default="references")
    parser.add_argument("--jobs", type=int, default=1, help="processes, of which each compiles and runs on its own")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "programs")
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    asked = parser.parse_args(arguments)
    modes = [asked.mode] if asked.mode != "all" else WITH_TORCH if asked.against == "torch" else COMPARED
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # processes share the cores
    with tempfile.TemporaryDirectory() as cache:  # no program comes twice
        os.environ["WENGERT_CACHE"] = cache
        wrong = sum(_run(asked, mode) for mode in modes)
    from tests.programs.progress import write_results

    print(write_results(asked.folder, asked.results).read_text())
    return min(wrong, 1)


def _run(asked: argparse.Namespace, mode: str) -> int:
    """Run a mode to the end; how many programs are wrong."""
    from tests.programs.progress import Progress, keep_seed, kept_seeds

    name = f"{mode}-torch" if asked.against == "torch" else mode
    progress = Progress(asked.folder, name, asked.seed)
    wrong = len(progress.findings)
    kept = kept_seeds(name)
    units = [(kept[k : k + UNIT], True) for k in range(0, len(kept), UNIT)]
    for _, findings in _in_order(asked, mode, units):
        wrong += len(findings)
        _show(findings)
    start = perf_counter()
    for totals, findings in _in_order(asked, mode, _units(progress.next, asked.seed + asked.count)):
        progress.add(totals, findings, perf_counter() - start)
        start = perf_counter()
        wrong += len(findings)
        _show(findings)
        for finding in findings:
            keep_seed(name, finding.seed)
        if progress.totals.programs % 1000 == 0:
            print(progress.line(), flush=True)
    print(progress.line(), flush=True)
    return wrong


def _units(start: int, end: int) -> Iterator[tuple[list[int], bool]]:
    from tests.programs.check import FULL_EVERY

    for first in range(start, end, UNIT):
        yield list(range(first, min(first + UNIT, end))), first // UNIT % FULL_EVERY == 0


def _show(findings: Sequence[Any]) -> None:
    for finding in findings:
        print(f"{finding.mode}, seed {finding.seed}: {finding.problem}\n{finding.text}", flush=True)


def _in_order(asked: argparse.Namespace, mode: str, units: Any) -> Iterator[Any]:
    """What comes of each unit, in the order of the units; a few are worked on at a time."""
    from tests.programs.check import checked

    work = (asked.against, mode)
    if asked.jobs == 1:
        yield from (checked(*work, *unit) for unit in units)
        return
    context = get_context("spawn")
    with ProcessPoolExecutor(asked.jobs, context) as pool:
        running: deque[tuple[Any, Future[Any]]] = deque()
        for unit in units:
            running.append((unit, pool.submit(checked, *work, *unit)))
            if len(running) > asked.jobs:
                yield _result(mode, *running.popleft())
        while running:
            yield _result(mode, *running.popleft())


def _result(mode: str, unit: Any, future: Future[Any]) -> Any:
    try:
        return future.result()
    except BrokenProcessPool:
        sys.exit(f"{mode}: the process that checked {unit[0][0]} to {unit[0][-1]}, or the unit after it, died")


if __name__ == "__main__":
    sys.exit(main())
