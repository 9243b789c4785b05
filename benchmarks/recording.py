"""What recording costs: microseconds an op, beside torch eager and autograd (HIPS), on values so small that computing
them hardly counts.

    python benchmarks/recording.py [--rounds 5] [--json]

Each contender runs in a process of its own, in shuffled order, several rounds; the best of each is shown. torch runs
twice: how far it is from itself is the noise. For Wengert "recorded" is the graph alone with nothing computed;
"computed" is with the values, which is what the others always do. All operands are tracked for gradients.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import random
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

CONTENDERS = {"wengert": "wengert", "torch": "torch", "torch again": "torch", "autograd": "autograd"}
AIMS = {"add": 2.0, "exp": 2.0, "gradient node": 3.0}  # us, recorded by Wengert
OPS = 1000  # in one timed loop
REPEATS = 15
SIZES = (16, 32, 32, 10)  # the MLP's
BATCH = 4


def best_time(function: Callable[[], Any], count: int, before: Callable[[], Any] = lambda: None) -> float:
    """The least time one of `count` steps of `function` took, in microseconds."""
    best = float("inf")
    for _ in range(REPEATS):
        before()
        start = time.perf_counter()
        function()
        best = min(best, time.perf_counter() - start)
    return 1e6 * best / count


def looped(function: Callable[[], Any], times: int = OPS) -> Callable[[], Any]:
    """Call a function many times and keep what it gives."""
    return lambda: [function() for _ in range(times)]


def ops_of(library: Any, x: Any, y: Any) -> dict[str, Callable[[], Any]]:
    """The single ops, in any of the libraries."""
    return {
        "add": lambda: x + y,
        "exp": lambda: library.exp(x),
        "sum": lambda: library.sum(x),
        "matmul": lambda: x @ y,
        "x[1]": lambda: x[1],
        "x[:, 2:5]": lambda: x[:, 2:5],
    }


def mlp_loss(library: Any, parameters: list[Any], x: Any, target: Any) -> Any:
    """A three-layer network's mean squared error."""
    *hidden, (weight, bias) = zip(parameters[::2], parameters[1::2])
    for w, b in hidden:
        x = library.tanh(x @ w + b)
    error = x @ weight + bias - target
    return library.mean(error * error)


def mlp_arrays() -> tuple[list[Any], Any, Any]:
    import numpy as np

    rng = np.random.default_rng(0)
    parameters: list[Any] = []
    for m, n in pairwise(SIZES):
        parameters += [rng.normal(size=(m, n)).astype("float32") / m**0.5, np.zeros(n, "float32")]
    x, target = rng.normal(size=(BATCH, SIZES[0])), rng.normal(size=(BATCH, SIZES[-1]))
    return parameters, x.astype("float32"), target.astype("float32")


# --- the contenders: what each step took, in microseconds ----------------------------------------------------------


def measure_wengert() -> dict[str, float]:
    import numpy as np

    import wengert as wg

    x = wg.tensor(np.ones((8, 8), "float32"), requires_grad=True)
    y = wg.tensor(np.ones((8, 8), "float32"), requires_grad=True)
    times = {}

    def compute(step: Callable[[], Any]) -> Callable[[], Any]:
        def both() -> Any:
            results = step()
            wg.synchronize()
            return results

        return both

    for name, op in ops_of(wg, x, y).items():
        times[f"{name} recorded"] = best_time(looped(op), OPS, wg.synchronize)
        times[f"{name} computed"] = best_time(compute(looped(op)), OPS, wg.synchronize)

    arrays, points, target = mlp_arrays()
    parameters = [wg.tensor(a, requires_grad=True) for a in arrays]
    points, target = wg.tensor(points), wg.tensor(target)

    def loss(parameters: list[wg.Tensor]) -> wg.Tensor:
        return mlp_loss(wg, parameters, points, target)

    def both() -> Any:
        return wg.value_and_grad(loss)(parameters)

    times["mlp recorded"] = best_time(looped(both, 50), 50, wg.synchronize)
    times["mlp computed"] = best_time(compute(looped(both, 50)), 50, wg.synchronize)
    _, pullback = wg.vjp(loss, parameters)
    seed = wg.tensor(1.0)
    before = wg.tensor(0.0).node.serial
    pullback(seed)
    nodes = wg.tensor(0.0).node.serial - before - 1
    times["gradient nodes"] = float(nodes)
    times["gradient node recorded"] = best_time(looped(lambda: pullback(seed), 50), 50 * nodes, wg.synchronize)
    return times


def measure_torch() -> dict[str, float]:
    import torch

    torch.set_num_threads(1)
    x = torch.ones(8, 8, requires_grad=True)
    y = torch.ones(8, 8, requires_grad=True)
    times = {f"{name} computed": best_time(looped(op), OPS) for name, op in ops_of(torch, x, y).items()}
    arrays, points, target = mlp_arrays()
    parameters = [torch.tensor(a, requires_grad=True) for a in arrays]
    points, target = torch.tensor(points), torch.tensor(target)

    def both() -> Any:
        return torch.autograd.grad(mlp_loss(torch, parameters, points, target), parameters)

    times["mlp computed"] = best_time(looped(both, 50), 50)
    return times


def measure_autograd() -> dict[str, float]:
    import autograd
    import autograd.numpy as anp

    times: dict[str, float] = {}

    def inside(x: Any) -> Any:  # autograd records only inside a function that is being differentiated
        for name, op in ops_of(anp, x, x + 0).items():
            times[f"{name} computed"] = best_time(looped(op), OPS)
        return anp.sum(x)

    autograd.grad(inside)(anp.ones((8, 8), "float32"))
    parameters, points, target = mlp_arrays()
    both = autograd.value_and_grad(lambda parameters: mlp_loss(anp, parameters, points, target))
    times["mlp computed"] = best_time(looped(lambda: both(parameters), 50), 50)
    return times


# --- the run --------------------------------------------------------------------------------------------------------


def run(rounds: int) -> dict[str, dict[str, float]]:
    """The best time of every contender in every measure."""
    installed = {name: kind for name, kind in CONTENDERS.items() if _version(kind)}
    best: dict[str, dict[str, float]] = {name: {} for name in installed}
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    for turn in range(rounds):
        for name in random.sample(list(installed), len(installed)):
            command = [sys.executable, __file__, "--contender", installed[name]]
            text = subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout
            for measure, microseconds in json.loads(text).items():
                best[name][measure] = min(microseconds, best[name].get(measure, float("inf")))
        print(f"round {turn + 1} of {rounds}", file=sys.stderr)
    return best


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def show(best: dict[str, dict[str, float]]) -> None:
    """Print the table, the noise and whether the aims are met."""
    wengert, columns = best["wengert"], [name for name in best if name not in ("wengert", "torch again")]
    print(f"{'us':<22}{'recorded':>10}{'computed':>10}" + "".join(f"{name:>10}" for name in columns))
    names = [key.removesuffix(" recorded") for key in wengert if key.endswith(" recorded")]
    for name in names:
        others = [best[c].get(f"{name} computed") for c in columns]
        cells = [wengert[f"{name} recorded"], wengert.get(f"{name} computed"), *others]
        label = "mlp forward+backward" if name == "mlp" else name
        print(f"{label:<22}" + "".join(f"{'' if c is None else format(c, '.2f'):>10}" for c in cells))
    print(f"(the first two columns are Wengert; the mlp's gradient has {wengert['gradient nodes']:.0f} nodes)")
    if "torch again" in best:
        apart = {k: abs(best["torch again"][k] / v - 1) for k, v in best["torch"].items()}
        worst = max(apart, key=lambda k: apart[k])
        print(f"noise: torch against itself differs by up to {apart[worst]:.0%} ({worst.removesuffix(' computed')})")
    for name, aim in AIMS.items():
        found = wengert[f"{name} recorded"]
        print(f"aim: {name} under {aim:g} us: {found:.2f}" + ("" if found < aim else "  NOT MET"))


def write(best: dict[str, dict[str, float]], rounds: int) -> Path:
    """Keep the results as JSON, with what they were measured on."""
    versions = {name: _version(name) for name in ("wengert", "numpy", "torch", "autograd")}
    versions["python"] = platform.python_version()
    path = Path(__file__).parent / "results" / f"recording-{time.strftime('%Y-%m-%d')}.json"
    path.parent.mkdir(exist_ok=True)
    report = {"unit": "us", "rounds": rounds, "versions": versions, "processor": _processor(), "best": best}
    path.write_text(json.dumps(report, indent=2) + "\n")
    return path


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="write benchmarks/results/recording-DATE.json")
    parser.add_argument("--contender", choices=sorted(set(CONTENDERS.values())), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.contender:
        measure = {"wengert": measure_wengert, "torch": measure_torch, "autograd": measure_autograd}[options.contender]
        print(json.dumps(measure()))
        return
    best = run(options.rounds)
    show(best)
    if options.json:
        print(f"written to {write(best, options.rounds)}")


if __name__ == "__main__":
    main()
