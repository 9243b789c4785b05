"""What `wg.config.invariant` costs on the CPU: steps of training with and without it, in turn.

    python benchmarks/invariant.py [rounds]

Each model's step (forward, backward, update) is compiled under both settings. The two run alternately; the figures are
medians of all rounds, and of the ratio of each round. With OMP_NUM_THREADS=1 the time of the processor is measured,
which other work on the machine disturbs less.
"""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable
from time import perf_counter, process_time
from typing import Any

import numpy as np

import wengert as wg
from wengert import nn
from wengert.kernels.threads import thread_count
from wengert.models.gpt import Block, GPTConfig
from wengert.models.resnet import BasicBlock

CLOCK = process_time if thread_count() == 1 else perf_counter


def _draw(*shape: int) -> Any:
    return wg.tensor(np.random.default_rng(0).normal(size=shape).astype(np.float32))


def _mlp() -> tuple[nn.Module, Callable[[Any], Any], Any]:
    model = nn.Sequential(nn.Linear(784, 512), nn.GELU(), nn.Linear(512, 512), nn.GELU(), nn.Linear(512, 10))
    return model, model, _draw(128, 784)


def _gpt() -> tuple[nn.Module, Callable[[Any], Any], Any]:
    model = Block(GPTConfig(vocab_size=50, n_positions=128, n_embd=256, n_layer=1, n_head=4))
    positions = wg.arange(128)
    return model, lambda x: model(x, positions, None, 0), _draw(8, 128, 256)


def _resnet() -> tuple[nn.Module, Callable[[Any], Any], Any]:
    model = BasicBlock(64, 64, 1)
    return model, model, _draw(16, 64, 16, 16)


MODELS = {
    "MLP, 784-512-512-10, batch 128": _mlp,
    "GPT block, width 256, 8 x 128 tokens": _gpt,
    "ResNet block, 64 channels, 16 x 16, batch 16": _resnet,
}


def _step(make: Callable[[], tuple[nn.Module, Callable[[Any], Any], Any]], training: bool) -> Callable[[], Any]:
    """A step of training, or a forward pass, compiled and warm under the settings of now."""
    wg.random.manual_seed(0)
    model, function, x = make()
    optimizer = wg.optim.SGD(model.parameters(), lr=1e-4)

    def step(x: Any) -> Any:
        optimizer.zero_grad()
        loss = (function(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    compiled = wg.compile(step if training else function)
    if not training:
        model.eval()

    def run() -> None:
        compiled(x).detach().numpy()

    for _ in range(3):
        run()
    return run


def measure(make: Any, training: bool, rounds: int) -> tuple[float, float, float]:
    """The medians of the two times, and of their ratios."""
    times: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(rounds):
        for invariant in (False, True):
            wg.config.invariant = invariant
            run = _step(make, training)
            start = CLOCK()
            count = 0
            while CLOCK() - start < 0.3 or count < 3:
                run()
                count += 1
            times[invariant].append((CLOCK() - start) / count)
    wg.config.invariant = False
    ratios = [b / a for a, b in zip(times[False], times[True])]
    return statistics.median(times[False]), statistics.median(times[True]), statistics.median(ratios)


def main() -> None:
    """Print the table."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 7
    print("| model | pass | default | invariant | ratio |\n|---|---|---|---|---|")
    for name, make in MODELS.items():
        for training in (False, True):
            plain, invariant, ratio = measure(make, training, rounds)
            kind = "training" if training else "forward"
            print(f"| {name} | {kind} | {plain * 1e3:.2f} ms | {invariant * 1e3:.2f} ms | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    main()
