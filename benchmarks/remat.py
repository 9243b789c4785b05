"""Memory against time: a GPT of 12 layers trained with nothing computed again, with remat, with checkpoints, with both.

    python benchmarks/remat.py [--rounds 5] [--json]

Memory is measured in a process for each way, time in one process that takes them in turns. Shown are the peak of what
the compiled step keeps between its kernels (`f.memory()`), how much the peak of the process (VmHWM) grows in five steps
after everything is built, and the best time of a step. `remat` is the pass as it is by default; `budget` lets it
recompute all that is cheap (`wg.config.memory_budget` is the least that can be kept); `checkpoint` wraps every block in
`wg.checkpoint`.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import io
import json
import subprocess
import sys
import time
from typing import Any

from cpu import _peak, write

WAYS = {  # passes off, whether the budget is the least there is, whether blocks are checkpoints
    "none": (("remat",), False, False),
    "remat": ((), False, False),
    "budget": ((), True, False),
    "checkpoint": (("remat",), False, True),
    "both": ((), True, True),
}
SIZES = {"vocab_size": 512, "n_positions": 128, "n_embd": 256, "n_layer": 12, "n_head": 8}
BATCH, STEPS = 8, 5


def training(way: str) -> tuple[Any, Any]:
    """A compiled step of one way, to be called with the settings of `use`, and its batch."""
    import numpy as np

    import wengert as wg

    wg.manual_seed(0)
    model = wg.models.GPT(wg.models.GPTConfig(**SIZES))
    optimizer = wg.optim.Adam(model.parameters(), lr=1e-3)
    if WAYS[way][2]:
        for block in model.transformer.h:
            block.forward = wg.checkpoint(block.forward)

    @wg.compile
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = model(x, y)[1]
        loss.backward()
        optimizer.step()
        return loss

    tokens = np.random.default_rng(0).integers(0, SIZES["vocab_size"], (BATCH, SIZES["n_positions"] + 1))
    return step, (wg.tensor(tokens[:, :-1]), wg.tensor(tokens[:, 1:]))


def use(way: str) -> None:
    """Set what a way sets."""
    import wengert as wg

    off, is_tight, _ = WAYS[way]
    wg.config.passes_off, wg.config.memory_budget = frozenset(off), None
    if is_tight:
        wg.config.memory_budget = least(way)


@functools.cache
def least(way: str) -> int:
    """The smallest budget with which a way's step can be compiled: the error about a smaller one says it."""
    import wengert as wg

    step, batch = training(way)
    wg.config.memory_budget = 1
    try:
        step(*batch)
    except wg.errors.MemoryBudgetError as error:
        return error.least
    raise AssertionError("a step within one byte")


def memory(way: str) -> dict[str, Any]:
    """What a step keeps and by how much the process grows, in bytes; the loss after five steps."""
    import wengert as wg

    use(way)
    step, batch = training(way)
    wg.synchronize()
    before = _peak()
    for _ in range(STEPS):
        loss = step(*batch).item()
    grown = _peak() - before
    with contextlib.redirect_stdout(io.StringIO()):
        kept = max(moment.live for moment in step.memory())
    return {"kept": kept, "grown": grown, "loss": loss}


def times(rounds: int) -> dict[str, float]:
    """The best step of every way in seconds, taken in turns in one process."""
    steps = {way: training(way) for way in WAYS}
    best = dict.fromkeys(WAYS, float("inf"))
    for _ in range(rounds):
        for way, (step, batch) in steps.items():
            use(way)
            step(*batch).item()  # records anew, since settings have changed, and finds its program
            start = time.perf_counter()
            step(*batch).item()
            best[way] = min(best[way], time.perf_counter() - start)
    return best


def run(rounds: int) -> dict[str, dict[str, Any]]:
    """Memory, each way in a process of its own, and times."""
    found = {}
    for way in WAYS:
        answer = subprocess.run([sys.executable, __file__, "--way", way], capture_output=True, text=True, check=True)
        found[way] = json.loads(answer.stdout.splitlines()[-1])
    for way, best in times(rounds).items():
        found[way]["best"] = best
    return found


def show(found: dict[str, dict[str, Any]]) -> None:
    """Print the table."""
    print(f"{'12 layers of 256, T128 B8, Adam':<34}{'kept':>12}{'VmHWM':>12}{'step':>12}{'loss':>10}")
    for way, result in found.items():
        memory = "".join(f"{result[key] / 1e6:>9.1f} MB" for key in ("kept", "grown"))
        print(f"{way:<34}{memory}{result['best'] * 1e3:>9.1f} ms{result['loss']:>10.4f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="write benchmarks/results/remat-DATE.json")
    parser.add_argument("--way", choices=sorted(WAYS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.way:
        print(json.dumps(memory(options.way)))
        return
    found = run(options.rounds)
    show(found)
    if options.json:
        print(f"\nwritten to {write(found, options.rounds, 'remat')}")


if __name__ == "__main__":
    main()
