"""Solves of differential equations on the CPU: wengert and SciPy in one process, diffrax in another Python.

    python benchmarks/ode.py [--rows NAME ...] [--calls 20] [--diffrax]

--diffrax makes `.venv-jax`, where there is none yet, with JAX and diffrax, and adds their rows.

Rows: the Lorenz equations from 0 to 20 at 21 times (float64; Dormand and Prince's method of order 5, tolerances 1e-8),
the same by a method of order 8 (SciPy's is DOP853; tolerances 1e-10), the gradient of the end at 5 with respect to
start and parameters (SciPy has none: it solves the forward sensitivity equations, 18 more); and Robertson's stiff
reactions from 0 to 4e6 at 9 times (rtol 1e-6, atol 1e-10), by Rodas5 and Kvaerno5 beside SciPy's Radau, BDF and
LSODA and diffrax's Kvaerno5.
SciPy calls Python for
each slope, which is what its users have. Each row says the least and the median time of a call, in turns, after one
call that compiles; and the largest relative error, beside SciPy's DOP853 or Radau with tolerances of 1e-13.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))
ROWS = ("lorenz-5", "lorenz-8", "lorenz-gradient", "robertson")
PARAMETERS, RATES = (10.0, 28.0, 8 / 3), (0.04, 1e4, 3e7)
TIMES = {
    "lorenz-5": np.linspace(0, 20, 21),
    "lorenz-8": np.linspace(0, 20, 21),
    "lorenz-gradient": np.array([0.0, 5.0]),
    "robertson": np.array([0, 0.4, 4, 40, 400, 4e3, 4e4, 4e5, 4e6]),
}
TOLERANCES = {"lorenz-5": (1e-8, 1e-8), "lorenz-8": (1e-10, 1e-10), "lorenz-gradient": (1e-8, 1e-8)}
TOLERANCES |= {"robertson": (1e-6, 1e-10)}
Call = Callable[[], Any]


# --- the problems -----------------------------------------------------------------------------------------------------


def lorenz(t: Any, y: Any, args: Any) -> Any:
    sigma, rho, beta = args
    return sigma * (y[1] - y[0]), y[0] * (rho - y[2]) - y[1], y[0] * y[1] - beta * y[2]


def robertson(t: Any, y: Any, rates: Any) -> Any:
    slow, middle, fast = rates[0] * y[0], rates[1] * y[1] * y[2], rates[2] * y[1] * y[1]
    return middle - slow, slow - middle - fast, fast


def problem(name: str) -> tuple[Any, tuple[float, ...], tuple[float, ...]]:
    """The slope, the start and the parameters."""
    return (robertson, (1.0, 0.0, 0.0), RATES) if name == "robertson" else (lorenz, (1.0, 1.0, 1.0), PARAMETERS)


# --- who solves them --------------------------------------------------------------------------------------------------


def wengert_call(name: str, method: str | None = None) -> Call:
    import wengert as wg

    slope, start, parameters = problem(name)
    rtol, atol = TOLERANCES[name]
    usual = {"lorenz-5": "dopri5", "lorenz-8": "dopri8", "lorenz-gradient": "dopri5", "robertson": "rodas5"}[name]
    method = method or usual
    ts = TIMES[name]

    def solve(y0: Any, args: Any) -> Any:
        return wg.ode.solve(slope, y0, ts, args, method=method, rtol=rtol, atol=atol)

    given = [tuple(wg.tensor(np.array(one)) for one in values) for values in (start, parameters)]
    if name.endswith("gradient"):
        program: Any = wg.compile(wg.grad(lambda y0, args: solve(y0, args).y[0], argnums=(0, 1)))
        return lambda: np.array([one.numpy() for part in program(*given) for one in part])
    program = wg.compile(lambda y0, args: solve(y0, args).ys)
    return lambda: np.stack([one.numpy() for one in program(*given)])


def scipy_call(name: str, method: str, rtol: float | None = None) -> Call:
    from scipy.integrate import solve_ivp

    slope, start, parameters = problem(name)
    ts = TIMES[name]
    tolerances = dict(zip(("rtol", "atol"), TOLERANCES[name] if rtol is None else (rtol, rtol * 1e-4)))
    if name.endswith("gradient"):
        return lambda: _sensitivities(solve_ivp, start, ts, method, tolerances)
    return lambda: solve_ivp(slope, ts[[0, -1]], start, method, ts, args=(parameters,), **tolerances).y


def _sensitivities(solve_ivp: Any, start: Sequence[float], ts: Any, method: str, tolerances: dict[str, float]) -> Any:
    """The gradient of the first element of the end, by the forward sensitivity equations of the Lorenz equations."""
    sigma, rho, beta = PARAMETERS

    def slope(t: float, state: Any) -> Any:
        x, y, z = state[:3]
        by_state = np.array([[-sigma, sigma, 0], [rho - z, -1, -x], [y, x, -beta]])
        by_parameter = np.array([[0, 0, 0, y - x, 0, 0], [0, 0, 0, 0, x, 0], [0, 0, 0, 0, 0, -z]])
        moved = by_state @ state[3:].reshape(3, 6) + by_parameter
        return np.concatenate([lorenz(t, (x, y, z), PARAMETERS), moved.ravel()])

    whole = np.concatenate([start, np.eye(3, 6).ravel()])
    return solve_ivp(slope, ts[[0, -1]], whole, method, **tolerances).y[3:9, -1]


def diffrax_call(name: str) -> Call:
    import diffrax
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    slope, start, parameters = problem(name)
    rtol, atol = TOLERANCES[name]
    solver = {"lorenz-8": diffrax.Dopri8, "robertson": diffrax.Kvaerno5}.get(name, diffrax.Dopri5)()
    ts = jnp.asarray(TIMES[name])

    def solve(y0: Any, args: Any) -> Any:
        control = diffrax.PIDController(rtol=rtol, atol=atol)
        term, saved = diffrax.ODETerm(slope), diffrax.SaveAt(ts=ts)
        options = {"saveat": saved, "stepsize_controller": control, "max_steps": 100_000}
        return diffrax.diffeqsolve(term, solver, ts[0], ts[-1], None, y0, args, **options).ys

    given = [tuple(jnp.asarray(one) for one in values) for values in (start, parameters)]
    if name.endswith("gradient"):
        slopes = jax.jit(jax.grad(lambda y0, args: solve(y0, args)[0][-1], argnums=(0, 1)))
        return lambda: np.array([float(one) for part in slopes(*given) for one in part])
    solved = jax.jit(solve)
    return lambda: np.stack([np.asarray(one) for one in solved(*given)])


# --- rows -------------------------------------------------------------------------------------------------------------


def callers(name: str) -> dict[str, Call]:
    """Who takes part in a row."""
    methods = {"lorenz-8": ["DOP853"], "robertson": ["Radau", "BDF", "LSODA"]}.get(name, ["RK45"])
    ours = {"wengert": wengert_call(name)}
    if name == "robertson":
        ours["wengert kvaerno5"] = wengert_call(name, "kvaerno5")
    return {**ours, **{f"scipy {one}": scipy_call(name, one) for one in methods}}


def measured(calls: dict[str, Call], exact: Any, count: int) -> dict[str, dict[str, float]]:
    """Times and errors of each, taking turns."""
    first = {who: call() for who, call in calls.items()}
    times: dict[str, list[float]] = {who: [] for who in calls}
    for _ in range(count):
        for who, call in calls.items():
            began = perf_counter()
            call()
            times[who].append(perf_counter() - began)
    known = exact != 0
    return {
        who: {
            "least_ms": 1e3 * min(times[who]),
            "median_ms": 1e3 * statistics.median(times[who]),
            "error": float(np.abs(first[who][known] / exact[known] - 1).max()),
        }
        for who in calls
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rows", nargs="+", choices=ROWS, default=list(ROWS))
    parser.add_argument("--calls", type=int, default=20)
    parser.add_argument("--diffrax", action="store_true", help="with diffrax, in an environment that is made for it")
    parser.add_argument("--only-diffrax", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    for name in options.rows:
        exact = scipy_call(name, "Radau" if name == "robertson" else "DOP853", 1e-13)()
        calls = {"diffrax": diffrax_call(name)} if options.only_diffrax else callers(name)
        found = measured(calls, exact, options.calls)
        if options.only_diffrax:
            print(json.dumps(found))
            continue
        if options.diffrax:
            from jax_environment import jax_python

            found |= _elsewhere(jax_python(), name, options.calls)
        for who, row in found.items():
            times = f"{row['least_ms']:9.3f} ms, median {row['median_ms']:9.3f}"
            print(f"{name:16} {who:16} {times}, error {row['error']:.1e}")


def _elsewhere(python: str, name: str, count: int) -> dict[str, dict[str, float]]:
    """What diffrax takes, in a process of its own."""
    command = [python, str(Path(__file__)), "--only-diffrax", "--rows", name, "--calls", str(count)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stderr[-2000:])
    return json.loads(done.stdout)


if __name__ == "__main__":
    main()
