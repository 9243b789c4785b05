"""Gradients written by hand beside automatic ones: the same MLP, the same numbers, the time of a training step.

    python benchmarks/manual_automatic.py [--rounds 5] [--threads 1] [--device cuda] [--json]

Contenders, each in a process of its own, in shuffled order, the best of the rounds:

- NumPy: forward and backward pass by hand, as one writes them from the chain rule (on the CPU);
- Wengert by hand: the same lines on Wengert's arrays, without any differentiation, dynamic and compiled;
- Wengert automatic: the loss alone and `backward`, dynamic and compiled;
- PyTorch by hand and automatic, where it is installed.

All take the same step of gradient descent. Before anything is timed, each contender's gradients are compared with those
of NumPy in float64. `--json` keeps the result in benchmarks/results; `python docs/article.py` draws it.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

NETWORKS = {
    "64-128-64-10, batch 128": ((64, 128, 64, 10), 128),
    "784-512-256-10, batch 128": ((784, 512, 256, 10), 128),
    "784-1024-1024-10, batch 256": ((784, 1024, 1024, 10), 256),
}
CONTENDERS = (
    "NumPy by hand",
    "Wengert by hand",
    "Wengert automatic",
    "Wengert by hand, compiled",
    "Wengert automatic, compiled",
    "PyTorch by hand",
    "PyTorch automatic",
)
RATE = 1e-3
WARM_UP, LEAST_SECONDS, LEAST_STEPS = 40, 1.0, 10
TOLERANCE = 1e-3  # of a gradient's norm, float32 against float64: a relu near 0 may be on in one and off in the other

Array = np.ndarray[Any, Any]
Step = Callable[[], Any]


def start_of(network: str) -> tuple[list[Array], Array, Array]:
    """The parameters, a batch and its labels: the same for everyone."""
    sizes, batch = NETWORKS[network]
    rng = np.random.default_rng(0)
    parameters: list[Array] = []
    for inputs, outputs in pairwise(sizes):
        parameters.append((rng.normal(size=(inputs, outputs)) * (2 / inputs) ** 0.5).astype(np.float32))
        parameters.append(np.zeros(outputs, np.float32))
    return parameters, rng.normal(size=(batch, sizes[0])).astype(np.float32), rng.integers(0, sizes[-1], batch)


# --- the gradients by hand ------------------------------------------------------------------------------------------


def by_hand(xp: Any, parameters: Sequence[Any], x: Any, truth: Any) -> tuple[Any, list[Any]]:
    """The loss and its gradients with respect to the parameters; `truth` has a 1 in each row, at the label.

    `xp` is NumPy, Wengert or PyTorch: the lines are the same.
    """
    largest = xp.amax if xp.__name__ == "torch" else xp.max
    w1, b1, w2, b2, w3, b3 = parameters
    h1 = relu(xp, x @ w1 + b1)
    h2 = relu(xp, h1 @ w2 + b2)
    scores = h2 @ w3 + b3
    shifted = scores - largest(scores, axis=1, keepdims=True)
    exps = xp.exp(shifted)
    sums = xp.sum(exps, axis=1, keepdims=True)
    loss = -xp.sum((shifted - xp.log(sums)) * truth) / len(x)

    # Softmax and cross-entropy together have the gradient "probability minus truth".
    g_scores = (exps / sums - truth) / len(x)
    g_w3, g_b3 = h2.T @ g_scores, xp.sum(g_scores, axis=0)
    g_a2 = (g_scores @ w3.T) * (h2 > 0)
    g_w2, g_b2 = h1.T @ g_a2, xp.sum(g_a2, axis=0)
    g_a1 = (g_a2 @ w2.T) * (h1 > 0)
    return loss, [x.T @ g_a1, xp.sum(g_a1, axis=0), g_w2, g_b2, g_w3, g_b3]


def relu(xp: Any, x: Any) -> Any:
    """The larger of each element and 0."""
    return xp.relu(x) if hasattr(xp, "relu") else xp.maximum(x, 0)


def one_hot(labels: Array, classes: int) -> Array:
    """A row for each label, with a 1 at its place."""
    return np.eye(classes, dtype=np.float32)[labels]


def expected(network: str) -> list[Array]:
    """The gradients in float64, by NumPy."""
    parameters, x, labels = start_of(network)
    wide = [parameter.astype(np.float64) for parameter in parameters]
    return by_hand(np, wide, x.astype(np.float64), one_hot(labels, wide[-1].size).astype(np.float64))[1]


# --- steps ----------------------------------------------------------------------------------------------------------


def numpy_step(network: str) -> tuple[Step, list[Array]]:
    """A step in NumPy, and the first gradients."""
    parameters, x, labels = start_of(network)
    truth = one_hot(labels, parameters[-1].size)

    def step() -> Any:
        loss, gradients = by_hand(np, parameters, x, truth)
        for parameter, gradient in zip(parameters, gradients):
            parameter -= RATE * gradient
        return float(loss)

    return step, by_hand(np, parameters, x, truth)[1]


def wengert_step(network: str, manual: bool, compiled: bool, device: str) -> tuple[Step, list[Array]]:
    """A step of Wengert, and the first gradients."""
    import wengert as wg

    arrays, x_array, labels_array = start_of(network)
    x, labels = wg.tensor(x_array, device=device), wg.tensor(labels_array, device=device)
    truth = wg.tensor(one_hot(labels_array, arrays[-1].size), device=device)
    parameters = [wg.tensor(array, device=device, requires_grad=not manual) for array in arrays]

    def gradients_by_hand() -> tuple[Any, list[Any]]:
        return by_hand(wg, parameters, x, truth)

    def gradients_by_backward() -> tuple[Any, list[Any]]:
        w1, b1, w2, b2, w3, b3 = parameters
        loss = wg.cross_entropy(wg.relu(wg.relu(x @ w1 + b1) @ w2 + b2) @ w3 + b3, labels)
        loss.backward()
        gradients = [parameter.grad for parameter in parameters]
        for parameter in parameters:
            parameter.grad = None
        return loss, gradients

    find = gradients_by_hand if manual else gradients_by_backward

    def step() -> Any:
        loss, gradients = find()
        with wg.no_grad():
            for parameter, gradient in zip(parameters, gradients):
                parameter -= RATE * gradient
        return loss

    first = [gradient.detach().numpy() for gradient in find()[1]]
    run = wg.compile(step) if compiled else step
    return lambda: run().item(), first


def torch_step(network: str, manual: bool, device: str) -> tuple[Step, list[Array]]:
    """A step of PyTorch, eager, and the first gradients."""
    import torch

    arrays, x_array, labels_array = start_of(network)
    x, labels = torch.from_numpy(x_array).to(device), torch.from_numpy(labels_array).to(device)
    truth = torch.from_numpy(one_hot(labels_array, arrays[-1].size)).to(device)
    parameters = [torch.from_numpy(array).to(device).requires_grad_(not manual) for array in arrays]

    def find() -> tuple[Any, Sequence[Any]]:
        if manual:
            return by_hand(torch, parameters, x, truth)
        w1, b1, w2, b2, w3, b3 = parameters
        loss = torch.nn.functional.cross_entropy(torch.relu(torch.relu(x @ w1 + b1) @ w2 + b2) @ w3 + b3, labels)
        return loss, torch.autograd.grad(loss, parameters)

    def step() -> Any:
        loss, gradients = find()
        with torch.no_grad():
            for parameter, gradient in zip(parameters, gradients):
                parameter -= RATE * gradient
        return loss.item()

    return step, [gradient.cpu().numpy() for gradient in find()[1]]


def made(network: str, contender: str, device: str) -> tuple[Step, list[Array]]:
    """A contender's step, and its first gradients."""
    manual = "by hand" in contender
    if contender.startswith("Wengert"):
        return wengert_step(network, manual, "compiled" in contender, device)
    return torch_step(network, manual, device) if contender.startswith("PyTorch") else numpy_step(network)


def measure(network: str, contender: str, device: str) -> dict[str, float]:
    """The best step in seconds, and how far the gradients are from those in float64."""
    step, gradients = made(network, contender, device)
    norm = np.linalg.norm
    error = max(float(norm(g - e) / norm(e)) for g, e in zip(gradients, expected(network)))
    if error > TOLERANCE:
        raise SystemExit(f"{contender}: the gradients are wrong by {error:.1e} of their norm")
    for _ in range(WARM_UP):
        step()
    best, taken, count = float("inf"), 0.0, 0
    while taken < LEAST_SECONDS or count < LEAST_STEPS:
        start = time.perf_counter()
        step()
        seconds = time.perf_counter() - start
        best, taken, count = min(best, seconds), taken + seconds, count + 1
    return {"best": best, "error": error}


# --- the run --------------------------------------------------------------------------------------------------------


def run(rounds: int, device: str, threads: int | None) -> dict[str, dict[str, dict[str, float]]]:
    """The best of every contender on every network."""
    there = [
        name
        for name in CONTENDERS
        if not (name.startswith("PyTorch") and importlib.util.find_spec("torch") is None)
        and not (name.startswith("NumPy") and device != "cpu")
    ]
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS") if threads else ()
    environment = {**os.environ, **{name: str(threads) for name in names}}
    found: dict[str, dict[str, dict[str, float]]] = {network: {} for network in NETWORKS}
    for _ in range(rounds):
        jobs = [(network, name) for network in NETWORKS for name in there]
        for network, name in random.sample(jobs, len(jobs)):
            command = [sys.executable, __file__, "--network", network, "--contender", name, "--device", device]
            done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
            if done.returncode:
                sys.exit(f"{network}, {name}: {done.stderr[-2000:]}")
            new = json.loads(done.stdout.splitlines()[-1])
            known = found[network].get(name, new)
            found[network][name] = min(known, new, key=lambda result: result["best"])
    return {network: {name: results[name] for name in there} for network, results in found.items()}


def show(found: dict[str, dict[str, dict[str, float]]]) -> None:
    """Print a table, and for each pair what differentiation costs over writing it by hand."""
    for network, results in found.items():
        print(network)
        for name, result in results.items():
            print(f"  {name:<30}{result['best'] * 1e3:>9.3f} ms   gradients within {result['error']:.0e}")
        for hand in [name for name in results if "by hand" in name]:
            automatic = hand.replace("by hand", "automatic")
            if automatic in results:
                ratio = results[automatic]["best"] / results[hand]["best"]
                print(f"  {automatic} takes {ratio:.2f} of the time of {hand}")


def write(found: dict[str, Any], options: argparse.Namespace) -> Path:
    """Keep the results, with what they were measured on."""
    from cpu import _compiler, _processor

    versions = {name: __import__(name).__version__ for name in ("numpy", "wengert")}
    if importlib.util.find_spec("torch"):
        versions["torch"] = __import__("torch").__version__
    report = {
        "unit": "s",
        "device": options.device,
        "rounds": options.rounds,
        "threads": options.threads or len(os.sched_getaffinity(0)),
        "versions": versions,
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "compiler": _compiler(),
        "busy": options.busy,
        "results": found,
    }
    path = Path(__file__).parent / "results" / f"manual-automatic-{options.device}-{time.strftime('%Y-%m-%d')}.json"
    path.write_text(json.dumps(report, indent=1) + "\n")
    return path


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device", default="cpu", choices=["cpu", "cuda"])
    parser.add_argument("--threads", type=int, help="threads of the CPU; all by default")
    parser.add_argument("--json", action="store_true", help="keep the result in benchmarks/results")
    parser.add_argument("--busy", action="store_true", help="note in it that other programs ran meanwhile")
    parser.add_argument("--network", choices=list(NETWORKS), help=argparse.SUPPRESS)
    parser.add_argument("--contender", choices=CONTENDERS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.contender:
        print(json.dumps(measure(options.network, options.contender, options.device)))
        return
    found = run(options.rounds, options.device, options.threads)
    show(found)
    if options.json:
        print(f"written to {write(found, options)}")


if __name__ == "__main__":
    main()
