"""Memory against time: a GPT of 12 layers trained with nothing computed again, with remat, with checkpoints, with both.

    python benchmarks/remat.py [--rounds 2] [--json]

Each way runs in processes of its own, in shuffled order. Shown are the peak of what the compiled step keeps between its
kernels (`f.memory()`), how much the peak of the process (VmHWM) grows in five steps after everything is built, and the
best time of a step. `remat` is the pass as it is by default; `budget` lets it recompute all that is cheap
(`wg.config.memory_budget = 1`); `checkpoint` wraps every block of the model in `wg.checkpoint`.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import random
import subprocess
import sys
import time
from typing import Any

from cpu import _peak, write

WAYS = {  # passes off, budget, whether blocks are checkpoints
    "none": (("remat",), None, False),
    "remat": ((), None, False),
    "budget": ((), 1, False),
    "checkpoint": (("remat",), None, True),
    "both": ((), 1, True),
}
SIZES = {"vocab_size": 512, "n_positions": 128, "n_embd": 256, "n_layer": 12, "n_head": 8}
BATCH, STEPS = 8, 5


def measure(way: str) -> dict[str, Any]:
    """Memory in bytes and the best step in seconds, of one way."""
    import numpy as np

    import wengert as wg

    off, budget, checkpoints = WAYS[way]
    wg.config.passes_off, wg.config.memory_budget = frozenset(off), budget
    wg.manual_seed(0)
    model = wg.models.GPT(wg.models.GPTConfig(**SIZES))
    optimizer = wg.optim.Adam(model.parameters(), lr=1e-3)
    if checkpoints:
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
    x, y = wg.tensor(tokens[:, :-1]), wg.tensor(tokens[:, 1:])
    wg.synchronize()
    before = _peak()
    times = []
    for _ in range(STEPS):
        start = time.perf_counter()
        loss = step(x, y).item()
        times.append(time.perf_counter() - start)
    grown = _peak() - before
    with contextlib.redirect_stdout(io.StringIO()):
        kept = max(moment.live for moment in step.memory())
    return {"kept": kept, "grown": grown, "best": min(times), "loss": loss}


def run(rounds: int) -> dict[str, dict[str, Any]]:
    """Every way, the best time of all rounds; the first round builds."""
    found: dict[str, dict[str, Any]] = {}
    for _ in range(rounds + 1):
        for way in random.sample(list(WAYS), len(WAYS)):
            answer = subprocess.run(
                [sys.executable, __file__, "--way", way], capture_output=True, text=True, check=True
            )
            result = json.loads(answer.stdout.splitlines()[-1])
            best = min(result["best"], found.get(way, result)["best"])
            found[way] = {**result, "best": best}
    return {way: found[way] for way in WAYS}


def show(found: dict[str, dict[str, Any]]) -> None:
    """Print the table."""
    print(f"{'12 layers of 256, T128 B8, Adam':<34}{'kept':>12}{'VmHWM':>12}{'step':>12}{'loss':>10}")
    for way, result in found.items():
        memory = "".join(f"{result[key] / 1e6:>9.1f} MB" for key in ("kept", "grown"))
        print(f"{way:<34}{memory}{result['best'] * 1e3:>9.1f} ms{result['loss']:>10.4f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json", action="store_true", help="write benchmarks/results/remat-DATE.json")
    parser.add_argument("--way", choices=sorted(WAYS), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.way:
        print(json.dumps(measure(options.way)))
        return
    found = run(options.rounds)
    show(found)
    if options.json:
        print(f"\nwritten to {write(found, options.rounds, 'remat')}")


if __name__ == "__main__":
    main()
