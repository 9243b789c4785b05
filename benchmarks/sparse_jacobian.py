"""The Jacobian of a partial differential equation on a grid of 100 x 100: 10,000 x 10,000, with 49,600 entries.

    python benchmarks/sparse_jacobian.py [--calls 10] [--side 100] [--no-jax]

Rows: `wg.sparse_jacobian`, the same through `wg.scipy(f).sparse_jac` (compiled), asdex (structure and colours by JAX's
jaxpr), and JAX's dense `jacfwd`, jitted. Each runs in a process of its own. A row says what the first call takes, with
reading the structure, colouring and compiling; the least and the median of further calls; the most memory that the
process had beyond what it had before the first call; and the largest difference from the entries known in closed form.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
WHO = ("wengert", "wengert compiled", "asdex", "jax dense")


def bratu(np_: Any, u: Any, side: int) -> Any:
    """Bratu's equation: the five-point Laplacian of u, and exp(u)."""
    grid = u.reshape((side, side))
    edge = np_.zeros((1, side), dtype=u.dtype)
    up, down = np_.concat([grid[1:], edge]), np_.concat([edge, grid[:-1]])
    side_edge = np_.zeros((side, 1), dtype=u.dtype)
    left = np_.concat([grid[:, 1:], side_edge], axis=1)
    right = np_.concat([side_edge, grid[:, :-1]], axis=1)
    return (up + down + left + right - 4 * grid + np_.exp(grid)).reshape((-1,))


def known(u: Any, side: int) -> Any:
    """The Jacobian in closed form."""
    import scipy.sparse as sparse

    line = sparse.diags_array([1.0, 1.0], offsets=[-1, 1], shape=(side, side))
    unit = sparse.eye_array(side)
    neighbours = sparse.kron(line, unit) + sparse.kron(unit, line)
    return sparse.csr_array(neighbours + sparse.diags_array(np.exp(u) - 4))


def caller(who: str, side: int) -> Callable[[Any], Any]:
    """What gives the Jacobian at a point."""
    if who.startswith("wengert"):
        import wengert as wg

        function = lambda u: bratu(wg, u, side)  # noqa: E731
        return wg.scipy(function).sparse_jac if who.endswith("compiled") else wg.sparse_jacobian(function)
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    function = lambda u: bratu(jnp, u, side)  # noqa: E731
    if who == "jax dense":
        dense = jax.jit(jax.jacfwd(function))
        return lambda u: dense(u).block_until_ready()
    import asdex

    colored = asdex.jacobian_coloring(function, np.zeros(side * side))
    jacobian = jax.jit(asdex.jacobian_from_coloring(function, colored))
    return lambda u: jax.block_until_ready(jacobian(u))


def megabytes() -> float:
    """The most memory that this process has had."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def measure(who: str, side: int, calls: int) -> dict[str, float]:
    """A row, in this process."""
    u = np.random.default_rng(0).uniform(size=side * side)
    if not who.startswith("wengert"):
        import jax

        jax.numpy.zeros(1).block_until_ready()
    else:
        import wengert as wg

        wg.zeros(1).numpy()
    before, began = megabytes(), perf_counter()
    jacobian = caller(who, side)
    found = jacobian(u)
    first = perf_counter() - began
    times = []
    for _ in range(calls):
        began = perf_counter()
        jacobian(u)
        times.append(perf_counter() - began)
    memory = megabytes() - before
    expected = known(u, side)
    if hasattr(found, "todense") and not hasattr(found, "tocsr"):  # JAX's BCOO
        import scipy.sparse as sparse

        rows, columns = np.asarray(found.indices).T
        found = sparse.csr_array((np.asarray(found.data), (rows, columns)), shape=found.shape)
    off = abs(found - expected).max() if hasattr(found, "tocsr") else abs(np.asarray(found) - expected.toarray()).max()
    return {"first_s": first, "least_ms": 1e3 * min(times), "median_ms": 1e3 * statistics.median(times),
            "memory_mb": memory, "error": float(off)}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--calls", type=int, default=10)
    parser.add_argument("--side", type=int, default=100)
    parser.add_argument("--no-jax", action="store_true", help="only the rows of Wengert")
    parser.add_argument("--only", choices=WHO, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        print(json.dumps(measure(options.only, options.side, options.calls)))
        return
    for who in WHO:
        if who.startswith("wengert"):
            python = sys.executable
        elif options.no_jax:
            continue
        else:
            from jax_environment import jax_python

            python = jax_python()
        given = ["--only", who, "--side", str(options.side), "--calls", str(options.calls)]
        done = subprocess.run([python, __file__, *given], capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"{who:18} failed: {(done.stderr.strip().splitlines() or ['no message'])[-1]}")
            continue
        row = json.loads(done.stdout.strip().splitlines()[-1])
        print(
            f"{who:18} first {row['first_s']:7.2f} s, then {row['least_ms']:9.2f} ms, median {row['median_ms']:9.2f}; "
            f"{row['memory_mb']:8.0f} MB, error {row['error']:.0e}",
            flush=True,
        )


if __name__ == "__main__":
    main()
