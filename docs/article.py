"""Measures what `article.md` says of the CPU, draws its pictures, and fills in its numbers and excerpts.

    python docs/article.py             # measure (a minute), draw, fill in
    python docs/article.py --stored    # draw and fill in from what was measured last
    python docs/article.py --check     # say what differs from that, and exit with 1

Everything is measured on one thread, so that other work on the machine disturbs it less, and goes to
benchmarks/results/article-cpu-DATE.json. Figures of GPUs, and those of gradients by hand and of TensorFlow, are read
from that folder, where `make gpu-bench`, `benchmarks/manual_automatic.py` and `benchmarks/tensorflow_rows.py` write
them.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import article_figures
import article_tools
import numpy as np
import regenerate

import wengert as wg
from wengert.api.lift import lift
from wengert.bench.run import machine
from wengert.kernels.threads import thread_count
from wengert.ops import special as ops

DOCS = Path(__file__).parent
PAGE = DOCS / "article.md"
IMAGES = DOCS / "images"
SAID = re.compile(r"<span data-said='(?P<what>[^']+)'>(?P<text>[^<]*)</span>")
Curve = dict[float, float]
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

# --- measuring ------------------------------------------------------------------------------------------------------


def best(call: Callable[[], Any], least: float = 0.4, warm_up: int = 4) -> float:
    """The shortest of many calls, in seconds."""
    for _ in range(warm_up):
        call()
    found, taken, count = float("inf"), 0.0, 0
    while taken < least or count < 3:
        start = time.perf_counter()
        call()
        seconds = time.perf_counter() - start
        found, taken, count = min(found, seconds), taken + seconds, count + 1
    return found


def computed(f: Callable[..., Any], *args: Any) -> Callable[[], Any]:
    """A call that waits for its result."""

    def call() -> Any:
        result = f(*args)
        wg.synchronize()
        return result

    return call


def measured_products(product: Callable[[Any, Any], Any]) -> dict[str, Curve]:
    """Seconds of square products: of lists with the page's function, of NumPy, of Wengert."""
    found: dict[str, Curve] = {"lists": {}, "NumPy": {}, "Wengert": {}}
    multiply = wg.compile(wg.matmul)
    for n in (8, 16, 32, 64, 128, 256, 512, 1024):
        a, b = (np.random.default_rng(i).normal(size=(n, n)).astype(np.float32) for i in (0, 1))
        if n <= 256:
            rows, columns = a.tolist(), b.tolist()
            found["lists"][n] = best(lambda rows=rows, columns=columns: product(rows, columns), warm_up=0)
        found["NumPy"][n] = best(lambda a=a, b=b: a @ b)
        found["Wengert"][n] = best(computed(multiply, wg.tensor(a), wg.tensor(b)))
    return found


def measured_modes() -> dict[str, Curve]:
    """Seconds of a function of n inputs and of its gradient, three ways. The function does 256 n multiply-adds."""
    found: dict[str, Curve] = {"value": {}, "reverse mode": {}, "forward mode": {}, "differences": {}}
    for n in (1, 4, 16, 64, 256, 1024):
        weight = wg.tensor(np.random.default_rng(0).normal(size=(256, n)).astype(np.float32))
        units = np.eye(n, dtype=np.float32)

        def f(v: Any, weight: Any = weight) -> Any:
            return wg.sum(wg.tanh(weight @ v))

        value, gradient = wg.compile(f), wg.compile(wg.grad(f))
        along = wg.compile(lambda v, t, f=f: wg.jvp(f, (v,), (t,))[1])
        v = wg.tensor(np.full(n, 0.1, np.float32))
        tangents = [wg.tensor(unit) for unit in units]
        shifted = [wg.tensor(v.numpy() + 1e-3 * unit) for unit in units]
        found["value"][n] = best(computed(value, v))
        found["reverse mode"][n] = best(computed(gradient, v))
        forward = [computed(along, v, tangent) for tangent in tangents]
        differences = [computed(value, u) for u in (v, *shifted)]
        found["forward mode"][n] = best(lambda calls=forward: [call() for call in calls], warm_up=1)
        found["differences"][n] = best(lambda calls=differences: [call() for call in calls], warm_up=1)
    return found


def measured_steps(network: Callable[..., Any]) -> dict[str, Curve]:
    """Seconds of a training step of the page's network, by the width of its layers."""
    found: dict[str, Curve] = {"node by node": {}, "dynamic": {}, "compiled": {}}
    for width in (16, 64, 256, 1024):
        for name, curve in found.items():
            step, x, labels = network([64, width, width, width, 10])
            run = wg.compile(step) if name == "compiled" else step
            tier = wg.config.tier
            wg.config.tier = "interpret" if name == "node by node" else "auto"
            try:
                curve[width] = best(lambda run=run, x=x, labels=labels: run(x, labels).item(), 0.6, 40)
            finally:
                wg.config.tier = tier
    return found


def measured_fusion(chain: Any, operands: Any) -> dict[str, Curve]:
    """Seconds of the page's chain: fused, and with a compiled program for each of its eight ops."""
    multiply, add = wg.compile(lambda a, b: a * b), wg.compile(lambda a, b: a + b)
    halve, scale = wg.compile(lambda a: 0.5 * a), wg.compile(lambda a: a * -0.7071067811865476)
    erfc, sigmoid = wg.compile(lift(ops.erfc)), wg.compile(lambda a: wg.sigmoid(a))

    def one_by_one(x: Any, w: Any, b: Any) -> Any:
        v1 = add(multiply(x, w), b)
        return multiply(multiply(halve(v1), erfc(scale(v1))), sigmoid(x))

    difference = wg.max(wg.abs(one_by_one(*operands) - chain(*operands))).item()
    assert difference < 1e-6, f"op by op the chain differs by {difference}"
    times = {
        name: best(computed(f, *operands)) for name, f in (("one kernel for each op", one_by_one), ("fused", chain))
    }
    return {name: {2048: seconds} for name, seconds in times.items()}


def measure(scope: Mapping[str, Any], busy: bool) -> Path:
    """Measure all of it and keep it."""
    found = {
        "products": measured_products(scope["product"]),
        "modes": measured_modes(),
        "steps": measured_steps(scope["network"]),
        "fusion": measured_fusion(scope["chain"], scope["operands"]),
    }
    report = {
        "date": datetime.date.today().isoformat(),
        "processor": machine()["cpu"],
        "cores": len(os.sched_getaffinity(0)),
        "threads": thread_count(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "busy": busy,
        "figures": found,
    }
    path = article_tools.RESULTS / f"article-cpu-{report['date']}.json"
    path.write_text(json.dumps(report, indent=1) + "\n")
    return path


# --- the page -------------------------------------------------------------------------------------------------------


def examples() -> dict[str, Any]:
    """The names that the page's Python defines."""
    scope: dict[str, Any] = {}
    for number, match in enumerate(regenerate.PYTHON.finditer(PAGE.read_text())):
        regenerate._run(match["code"], f"article{number}.py", scope)
    return scope


def filled(scope: Mapping[str, Any]) -> str:
    """The page with its numbers."""
    names = {**scope, **{tool.__name__: tool for tool in article_tools.SAID}}

    def said(match: re.Match[str]) -> str:
        return f"<span data-said='{match['what']}'>{eval(match['what'], names)}</span>"

    return SAID.sub(said, PAGE.read_text())


def stale(scope: Mapping[str, Any]) -> dict[Path, str]:
    """The files that are not what they should be, with what they should be."""
    drawn = {IMAGES / name: text for name, text in article_figures.figures(scope).items()}
    wanted = {**drawn, PAGE: filled(scope)}
    return {path: text for path, text in wanted.items() if not path.exists() or path.read_text() != text}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--stored", action="store_true", help="measure nothing")
    parser.add_argument("--check", action="store_true", help="measure and write nothing")
    parser.add_argument("--busy", action="store_true", help="note that other programs ran while this measured")
    parser.add_argument("--measure", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        os.environ |= ONE_THREAD  # `regenerate` asks for two, which its texts are for
        print(measure(examples(), options.busy))
        return
    scope = examples()
    if options.check:
        names = ", ".join(path.name for path in stale(scope))
        sys.exit(f"{names}: not from what is stored; run python docs/article.py --stored" if names else 0)
    if not options.stored:
        command = [sys.executable, __file__, "--measure", *(["--busy"] if options.busy else [])]
        subprocess.run(command, check=True, env=os.environ | ONE_THREAD)
    for path, text in stale(scope).items():
        path.write_text(text)
        print(path)
    subprocess.run([sys.executable, str(DOCS / "regenerate.py"), "article.md"], check=True)


if __name__ == "__main__":
    main()
