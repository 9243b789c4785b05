"""Loops on the CPU or a GPU: wengert, JAX and PyTorch, each in a process of its own, taking turns.

    python benchmarks/loops.py --jax PYTHON_WITH_JAX [--torch PYTHON_WITH_TORCH] [--wengert PYTHON] [--rows NAME ...]
        [--device cuda]

Rows: a Runge-Kutta integration of the Lorenz equations (float64, 1,000 steps), one trajectory and 10,000, its value and
its gradient with respect to where it starts; on a GPU 10^6 trajectories in float32 as well, where JAX's gradient keeps
every 32nd state (`jax.checkpoint`) as all would take 12 GB; trajectories of van der Pol's equation by Bogacki and
Shampine's method with adaptive steps (stiffness from 0.5 to 50, so that they take 30 to 1,700 steps, 180 on average;
float64, on a GPU 10^6 in float32 as well), and the gradient with respect to stiffness and start, the step sizes taken
as they are; and a training step of an LSTM (64 to 128 features, batch 32, 100 steps, float32, Adam). A round is so many
calls in one process after the other; the best and the median of all calls count. PyTorch has no loop that is
differentiated and compiled, so it takes part in the LSTM alone; JAX has no reverse mode through `while_loop`, so it
takes no part in the gradient of adaptive steps.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

STEPS, H = 1000, 0.01
END, TOLERANCE = 5.0, 1e-5
INPUTS, HIDDEN, BATCH, LENGTH = 64, 128, 32, 100
ROWS = {"rk4-1": 200, "rk4-1-gradient": 200, "rk4-10000": 3, "rk4-10000-gradient": 2}
ROWS |= {"adaptive-10000": 10, "adaptive-10000-gradient": 5, "lstm": 10}
ON_A_GPU = {"rk4-1": 20, "rk4-1-gradient": 20, "rk4-10000": 20, "rk4-10000-gradient": 20}
ON_A_GPU |= {"rk4-1000000": 10, "rk4-1000000-gradient": 10, "adaptive-10000": 20, "adaptive-10000-gradient": 20}
ON_A_GPU |= {"adaptive-1000000": 10, "adaptive-1000000-gradient": 10}
"""The rows, and how many calls a round has."""

Call = Callable[[], None]


# --- the problems -----------------------------------------------------------------------------------------------------


def lorenz(state: Any) -> Any:
    x, y, z = state
    return 10.0 * (y - x), x * (28.0 - z) - y, x * y - 8 / 3 * z


def runge_kutta(state: Any) -> Any:
    def moved(by: Any, far: float) -> Any:
        return tuple(s + far * k for s, k in zip(state, by))

    a = lorenz(state)
    b = lorenz(moved(a, H / 2))
    c = lorenz(moved(b, H / 2))
    d = lorenz(moved(c, H))
    return tuple(s + H / 6 * (i + 2 * j + 2 * k + m) for s, i, j, k, m in zip(state, a, b, c, d))


def adaptive(m: Any, while_loop: Any, detached: Any, stiffness: Any, x: Any, v: Any) -> Any:
    """One trajectory of van der Pol's equation; `m` has the functions of arrays."""

    def slope(x: Any, v: Any) -> Any:
        return v, stiffness * (1.0 - x * x) * v - x

    def error_of(h: Any, slopes: Any, before: Any, after: Any) -> Any:
        a, b, c, d = slopes
        error = h * (-5 / 72 * a + 1 / 12 * b + 1 / 9 * c - 1 / 8 * d)
        return m.abs(error) / (TOLERANCE * (1.0 + m.maximum(m.abs(before), m.abs(after))))

    def step(state: Any) -> Any:
        x, v, dx, dv, t, h = state
        h = m.minimum(h, END - t)
        dx2, dv2 = slope(x + 0.5 * h * dx, v + 0.5 * h * dv)
        dx3, dv3 = slope(x + 0.75 * h * dx2, v + 0.75 * h * dv2)
        x2 = x + h * (2 / 9 * dx + 1 / 3 * dx2 + 4 / 9 * dx3)
        v2 = v + h * (2 / 9 * dv + 1 / 3 * dv2 + 4 / 9 * dv3)
        dx4, dv4 = slope(x2, v2)
        error = m.maximum(error_of(h, (dx, dx2, dx3, dx4), x, x2), error_of(h, (dv, dv2, dv3, dv4), v, v2)) + 1e-10
        accepted = error <= 1.0
        moved = [m.where(accepted, a, b) for a, b in ((x2, x), (v2, v), (dx4, dx), (dv4, dv), (t + h, t))]
        return (*moved, detached(h * m.clip(0.9 * error ** (-1 / 3), 0.2, 5.0)))

    start = (x, v, *slope(x, v), x * 0.0, x * 0.0 + 0.01)
    return while_loop(lambda state: state[4] < END, step, start)[:2]


def starts(name: str) -> list[Any]:
    """Where the trajectories of a row begin, with adaptive steps after their stiffnesses."""
    import numpy as np

    rng, n = np.random.default_rng(0), int(name.split("-")[1])
    if name.startswith("adaptive"):
        found = [np.exp(rng.uniform(np.log(0.5), np.log(50), n)), rng.normal(size=n) + 1.0, rng.normal(size=n)]
    else:
        found = [rng.normal(size=n) + shift for shift in (1.0, 1.0, 20.0)]
    return [one.astype(np.float32 if n == 1_000_000 else np.float64) for one in found]


def sequence() -> Any:
    import numpy as np

    return np.random.default_rng(0).normal(size=(LENGTH, BATCH, INPUTS)).astype(np.float32)


def wengert_row(name: str, device: str) -> Call:
    import wengert as wg

    if name == "lstm":
        model = wg.nn.LSTM(INPUTS, HIDDEN)
        optimizer = wg.optim.Adam(model.parameters(), lr=1e-3)
        x = wg.tensor(sequence())

        @wg.compile
        def train(x: Any) -> Any:
            outputs, _ = model(x)
            loss = (outputs * outputs).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            return loss

        return lambda: train(x).item()

    def one(*state: Any) -> Any:
        return adaptive(wg, wg.while_loop, wg.stop_gradient, *state)

    def ends(*state: Any) -> Any:
        if name.startswith("adaptive"):
            return wg.vmap(one)(*state)
        return wg.scan(lambda s, _: (runge_kutta(s), None), state, length=STEPS)[0]

    def total(*state: Any) -> Any:
        return sum(end.sum() for end in ends(*state))

    function = wg.compile(wg.grad(total, argnums=(0, 1, 2)) if name.endswith("gradient") else ends)
    state = [wg.tensor(s, device=device) for s in starts(name)]
    if device != "cpu":
        return lambda: function(*state) and wg.synchronize()
    return lambda: [one.numpy() for one in function(*state)] and None


def jax_row(name: str, device: str) -> Call:
    import jax
    import jax.numpy as jnp

    if name == "lstm":
        return _jax_lstm(jax, jnp)
    jax.config.update("jax_enable_x64", True)

    def walk(state: Any, steps: int) -> Any:
        return jax.lax.scan(lambda s, _: (runge_kutta(s), None), state, None, length=steps)[0]

    def one(*state: Any) -> Any:
        return adaptive(jnp, jax.lax.while_loop, jax.lax.stop_gradient, *state)

    def ends(*state: Any) -> Any:
        if name.startswith("adaptive"):
            return jax.vmap(one)(*state)
        if name != "rk4-1000000-gradient":
            return walk(state, STEPS)
        segment = jax.checkpoint(lambda s: walk(s, 32))
        state = jax.lax.scan(lambda s, _: (segment(s), None), state, None, length=STEPS // 32)[0]
        return walk(state, STEPS % 32)

    def total(*state: Any) -> Any:
        return sum(end.sum() for end in ends(*state))

    function = jax.jit(jax.grad(total, argnums=(0, 1, 2)) if name.endswith("gradient") else ends)
    state = [jnp.asarray(s) for s in starts(name)]
    return lambda: jax.block_until_ready(function(*state)) and None


def _jax_lstm(jax: Any, jnp: Any) -> Call:
    first, second = jax.random.split(jax.random.PRNGKey(0))
    size = HIDDEN**-0.5
    weights = {
        "wi": jax.random.uniform(first, (INPUTS, 4 * HIDDEN), minval=-size, maxval=size),
        "wh": jax.random.uniform(second, (HIDDEN, 4 * HIDDEN), minval=-size, maxval=size),
        "bi": jnp.zeros(4 * HIDDEN),
        "bh": jnp.zeros(4 * HIDDEN),
    }

    def loss(weights: Any, x: Any) -> Any:
        def step(state: Any, x: Any) -> Any:
            h, c = state
            i, f, g, o = jnp.split(x + h @ weights["wh"] + weights["bh"], 4, axis=1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        zeros = jnp.zeros((BATCH, HIDDEN))
        outputs = jax.lax.scan(step, (zeros, zeros), x @ weights["wi"] + weights["bi"])[1]
        return (outputs * outputs).mean()

    @jax.jit
    def train(weights: Any, m: Any, v: Any, t: Any, x: Any) -> Any:
        value, gradient = jax.value_and_grad(loss)(weights, x)
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, gradient)
        v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, gradient)

        def moved(w: Any, m: Any, v: Any) -> Any:
            return w - 1e-3 * (m / (1 - 0.9**t)) / (jnp.sqrt(v / (1 - 0.999**t)) + 1e-8)

        return value, jax.tree.map(moved, weights, m, v), m, v, t + 1

    zeros = jax.tree.map(jnp.zeros_like, weights)
    state, x = [weights, zeros, zeros, jnp.float32(1)], jnp.asarray(sequence())

    def call() -> None:
        value, *state[:] = train(*state, x)
        value.item()

    return call


def torch_row(name: str, device: str) -> Call:
    import torch

    model = torch.nn.LSTM(INPUTS, HIDDEN)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    x = torch.from_numpy(sequence())

    def call() -> None:
        outputs, _ = model(x)
        loss = (outputs * outputs).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        loss.item()

    return call


LEFT_OUT = {"lstm": ()} | {f"adaptive-{n}-gradient": ("torch", "jax") for n in (10_000, 1_000_000)}
"""The peers that take no part in a row; in others PyTorch takes none."""

PEERS: dict[str, Callable[[str, str], Call]] = {"wengert": wengert_row, "jax": jax_row, "torch": torch_row}


# --- a peer's process -------------------------------------------------------------------------------------------------


def serve(peer: str, device: str) -> None:
    """Answer rows that come line by line with the seconds that each call took, those left out that compile."""
    calls: dict[str, Call] = {}
    version = __import__(peer).__version__
    print(json.dumps(f"{peer} {version}, Python {sys.version.split()[0]}"), flush=True)
    for line in sys.stdin:
        name, count = json.loads(line)
        if name not in calls:
            calls[name] = PEERS[peer](name, device)
            for _ in range(3):
                calls[name]()
        times = []
        for _ in range(count):
            start = perf_counter()
            calls[name]()
            times.append(perf_counter() - start)
        print(json.dumps(times), flush=True)


class Peer:
    """A process that answers."""

    def __init__(self, name: str, python: str, device: str) -> None:
        self.counts = ROWS if device == "cpu" else ON_A_GPU
        source = Path(__file__).parents[1] / "src"
        self.process = subprocess.Popen(
            [python, __file__, "--serve", name, "--device", device],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": str(source)} if name == "wengert" else None,
        )
        self.name, self.version = name, self._answer()

    def _answer(self) -> Any:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def round(self, row: str) -> list[float]:
        """The seconds of some calls of a row."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps([row, self.counts[row]]) + "\n")
        self.process.stdin.flush()
        return list(self._answer())


def table(peers: list[Peer], rows: list[str], rounds: int) -> list[str]:
    """A line for each row: best and median of each peer in ms, and wengert's best over the best other's."""
    lines = [f"{'row':<26}" + "".join(f"{peer.name + ' best; median':>28}" for peer in peers) + f"{'ratio':>8}"]
    for row in rows:
        taking_part = [peer for peer in peers if peer.name not in LEFT_OUT.get(row, ("torch",))]
        times: dict[str, list[float]] = {peer.name: [] for peer in peers}
        for _ in range(rounds):
            for peer in taking_part:
                times[peer.name] += peer.round(row)
        cells = [f"{min(t) * 1e3:.3f}; {statistics.median(t) * 1e3:.3f}" if t else "-" for t in times.values()]
        others = [min(t) for name, t in times.items() if t and name != "wengert"]
        ratio = f"{min(times['wengert']) / min(others):.2f}" if others else "-"
        lines.append(f"{row:<26}" + "".join(f"{cell:>28}" for cell in cells) + f"{ratio:>8}")
        print(lines[-1], file=sys.stderr, flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--serve", choices=PEERS, help=argparse.SUPPRESS)
    parser.add_argument("--wengert", default=sys.executable, help="the Python that runs wengert")
    parser.add_argument("--jax", help="a Python that has JAX")
    parser.add_argument("--torch", help="a Python that has PyTorch")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--rows", nargs="*", choices=(ROWS | ON_A_GPU).keys())
    parser.add_argument("--rounds", type=int, default=10)
    arguments = parser.parse_args()
    if arguments.serve:
        return serve(arguments.serve, arguments.device)
    rows = arguments.rows or list(ROWS if arguments.device == "cpu" else ON_A_GPU)
    pythons = {name: getattr(arguments, name) for name in PEERS}
    peers = [Peer(name, python, arguments.device) for name, python in pythons.items() if python]
    print(*[peer.version for peer in peers], f"{os.cpu_count()} cores", sep="\n")
    print(f"load averages before: {os.getloadavg()}")
    print(*table(peers, rows, arguments.rounds), sep="\n")
    print(f"load averages after: {os.getloadavg()}")
    return None


if __name__ == "__main__":
    main()
