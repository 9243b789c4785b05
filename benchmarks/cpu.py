"""Training steps on the CPU: Wengert dynamic and compiled, PyTorch eager and `torch.compile`, side by side.

    python benchmarks/cpu.py [--rows micrograd,mlp,...] [--rounds 5] [--memory] [--json]

Each contender runs in a process of its own, in shuffled order, several rounds. Shown is the best of each, and the ratio
to the faster of torch's two. torch eager runs twice: how far it is from itself is the noise. For each row follows where
the time of Wengert's compiled step goes, kernel by kernel, and how long the first step took with cold and with warm
caches. `--memory` measures instead how much the peak of memory (VmHWM) grows in five steps after everything is built.
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
import tempfile
import time
from pathlib import Path
from typing import Any

from rows import ROWS, TRAINED, torch_step, wengert_step

CONTENDERS = {
    "dynamic": "dynamic",
    "compiled": "compiled",
    "eager": "eager",
    "torch.compile": "torch.compile",
    "eager again": "eager",
}
LEAST_SECONDS, LEAST_STEPS = 1.5, 5
WARM_UP, LOOKS = 6, 35  # dynamically a step with `backward` is compiled at the third time, another after thirty
MEMORY_ROWS = ("resnet18", "gpt")
SLOWEST = 900  # seconds a process may take

# --- inside a contender's process -----------------------------------------------------------------------------------


def measure(row: str, contender: str, with_profile: bool) -> dict[str, Any]:
    """The first and the best step of a contender, in seconds, and perhaps the profile."""
    if contender in ("dynamic", "compiled"):
        import wengert as wg

        step, function, args = wengert_step(row, contender == "compiled")
        wg.synchronize()  # the parameters are computed now, as torch's are, not in the first step
    else:
        step = torch_step(row, contender == "torch.compile")
    start = time.perf_counter()
    step()
    first = time.perf_counter() - start
    warm_up = LOOKS if contender == "dynamic" and row not in TRAINED else WARM_UP
    result: dict[str, Any] = {"first": first, "best": _best(step, warm_up)}
    if with_profile and contender == "compiled":
        from wengert.runtime.debug.profile import profile, shown

        kernels = profile(function, *args)
        result["kernels"] = sum(kernel.seconds for kernel in kernels)
        result["profile"] = shown(kernels, top=6)
    return result


def _best(step: Any, warm_up: int) -> float:
    for _ in range(warm_up - 1):
        step()
    best, taken, count = float("inf"), 0.0, 0
    while taken < LEAST_SECONDS or count < LEAST_STEPS:
        start = time.perf_counter()
        step()
        seconds = time.perf_counter() - start
        best, taken, count = min(best, seconds), taken + seconds, count + 1
    return best


def measure_memory(row: str, contender: str) -> dict[str, Any]:
    """The growth of the process's peak memory in five steps, in bytes."""
    if contender in ("dynamic", "compiled"):
        import wengert as wg

        step, _, _ = wengert_step(row, contender == "compiled")
        wg.synchronize()  # the parameters are computed now, not in the first step
    else:
        step = torch_step(row, contender == "torch.compile")
    before = _peak()
    for _ in range(5):
        step()
    return {"memory": _peak() - before}


def _peak() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


# --- the run --------------------------------------------------------------------------------------------------------


def ask(row: str, contender: str, caches: Path, *options: str) -> dict[str, Any]:
    """What a contender's process answers; an error with its reason where it fails."""
    environment = {k: v for k, v in os.environ.items() if k not in ("OMP_NUM_THREADS", "MKL_NUM_THREADS")}
    environment |= {"WENGERT_CACHE": str(caches / row), "TORCHINDUCTOR_CACHE_DIR": str(caches / row / "torch")}
    command = [sys.executable, __file__, "--contender", contender, "--rows", row, *options]
    try:
        run = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SLOWEST, check=False)
    except subprocess.TimeoutExpired:
        return {"error": f"took more than {SLOWEST} s"}
    if run.returncode:
        return {"error": (run.stderr.strip().splitlines() or ["died"])[-1][:300]}
    return json.loads(run.stdout.splitlines()[-1])


def run(rows: list[str], rounds: int) -> dict[str, dict[str, dict[str, Any]]]:
    """The best of every contender in every row, the first steps, and the profiles."""
    found: dict[str, dict[str, dict[str, Any]]] = {row: {name: {} for name in CONTENDERS} for row in rows}
    with tempfile.TemporaryDirectory() as folder:
        for turn in range(max(rounds, 2)):
            jobs = [(row, name) for row in rows for name in CONTENDERS if not found[row][name].get("error")]
            for row, name in random.sample(jobs, len(jobs)):
                if turn >= rounds and name not in ("compiled", "torch.compile"):
                    continue  # a second round for the warm caches alone
                caches = Path(folder) / name.replace(" ", "-")
                profile = ["--profile"] if turn == max(rounds, 2) - 1 else []
                _note(found[row][name], ask(row, CONTENDERS[name], caches, *profile))
                if sys.stderr.isatty():
                    print(f"round {turn + 1}: {row}, {name}", file=sys.stderr)
    return found


def _note(known: dict[str, Any], new: dict[str, Any]) -> None:
    """Keep the best of two measurements; the first step of the first process had cold caches."""
    if "error" in new:
        known["error"] = new["error"]
        return
    key = "warm" if "cold" in known else "cold"
    known[key] = min(new["first"], known.get(key, float("inf")))
    known["best"] = min(new["best"], known.get("best", float("inf")))
    known |= {key: new[key] for key in ("kernels", "profile") if key in new}


# --- showing --------------------------------------------------------------------------------------------------------


def show(found: dict[str, dict[str, dict[str, Any]]]) -> None:
    """Print the table, the noise, the first steps and the profiles."""
    columns = ("dynamic", "compiled", "eager", "torch.compile")
    print(f"{'ms a step, the best':<54}" + "".join(f"{name:>14}" for name in columns) + f"{'ratio':>8}{'aim':>6}")
    for row, contenders in found.items():
        times = [contenders[name].get("best") for name in columns]
        cells = "".join(f"{'failed' if t is None else format(t * 1e3, '.2f'):>14}" for t in times)
        print(f"{ROWS[row].title:<54}{cells}{_ratio_text(contenders, ROWS[row].aim)}")
    noise = {row: _noise(contenders) for row, contenders in found.items()}
    measured = {row: value for row, value in noise.items() if value is not None}
    if measured:
        worst = max(measured, key=lambda row: measured[row])
        print(f"noise: torch eager against itself differs by up to {measured[worst]:.0%} ({worst})")
    print("ratio: the faster of torch's two over Wengert compiled; above 1 Wengert is faster")
    for row, contenders in found.items():
        for name, result in contenders.items():
            if "error" in result:
                print(f"{row}, {name}: {result['error']}")
    _show_first(found)
    for row, contenders in found.items():
        compiled = contenders["compiled"]
        if "profile" in compiled:
            outside = max(compiled["best"] - compiled["kernels"], 0.0)
            total = f"{compiled['best'] * 1e3:.3f} ms, {outside * 1e3:.3f} of them outside of the kernels"
            print(f"\nwhere the compiled step's time goes: {row}, {total}\n{compiled['profile']}")


def _ratio(contenders: dict[str, dict[str, Any]]) -> float | None:
    torch = [contenders[name]["best"] for name in ("eager", "torch.compile") if "best" in contenders[name]]
    return min(torch) / contenders["compiled"]["best"] if torch and "best" in contenders["compiled"] else None


def _ratio_text(contenders: dict[str, dict[str, Any]], aim: float) -> str:
    ratio = _ratio(contenders)
    return "" if ratio is None else f"{ratio:>8.2f}{aim:>6.1f}" + ("" if ratio >= aim else "  NOT MET")


def _noise(contenders: dict[str, dict[str, Any]]) -> float | None:
    first, second = contenders["eager"].get("best"), contenders["eager again"].get("best")
    return None if first is None or second is None else max(first, second) / min(first, second) - 1


def _show_first(found: dict[str, dict[str, dict[str, Any]]]) -> None:
    print(f"\n{'s to the first finished step':<54}{'cold':>14}{'warm':>14}{'torch cold':>14}{'torch warm':>14}")
    for row, contenders in found.items():
        own, torch = contenders["compiled"], contenders["torch.compile"]
        times = [own.get("cold"), own.get("warm"), torch.get("cold"), torch.get("warm")]
        print(f"{ROWS[row].title:<54}" + "".join(f"{'' if t is None else format(t, '.2f'):>14}" for t in times))


def run_memory(rows: list[str]) -> dict[str, dict[str, dict[str, Any]]]:
    """The growth of memory of every contender, with warm caches: what a compiler takes is not of the step."""
    names = [name for name in CONTENDERS if name != "eager again"]
    found: dict[str, dict[str, dict[str, Any]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for row in rows:
            for name in names:
                if name in ("dynamic", "compiled", "torch.compile"):
                    ask(row, name, Path(folder), "--memory")
            found[row] = {name: ask(row, name, Path(folder), "--memory") for name in names}
    print(f"{'MB of peak memory that five steps add':<54}" + "".join(f"{name:>14}" for name in names))
    for row, contenders in found.items():
        cells = [contenders[name].get("memory") for name in names]
        print(f"{ROWS[row].title:<54}" + "".join(f"{'failed' if c is None else f'{c / 1e6:.0f}':>14}" for c in cells))
        for name, result in contenders.items():
            if "error" in result:
                print(f"{row}, {name}: {result['error']}")
    return found


def write(found: dict[str, Any], rounds: int, name: str) -> Path:
    """Keep the results as JSON, with what they were measured on; the day's other rows stay."""
    path = Path(__file__).parent / "results" / f"{name}-{time.strftime('%Y-%m-%d')}.json"
    path.parent.mkdir(exist_ok=True)
    earlier = json.loads(path.read_text())["results"] if path.exists() else {}
    versions: dict[str, str | None] = {"python": platform.python_version()}
    for package in ("wengert", "numpy", "torch"):
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            versions[package] = None
    machine = {"processor": _processor(), "cores": len(os.sched_getaffinity(0)), "compiler": _compiler()}
    report = {"unit": "s, bytes", "rounds": rounds, "versions": versions, **machine, "results": earlier | found}
    path.write_text(json.dumps(report, indent=2) + "\n")
    return path


def _processor() -> str:
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "")


def _compiler() -> str:
    from wengert.backends.cpu.toolchain import compiler

    return subprocess.run([compiler() or "true", "--version"], capture_output=True, text=True).stdout.split("\n")[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", help=f"some of {','.join(ROWS)}")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--memory", action="store_true", help="measure peak memory instead of time")
    parser.add_argument("--json", action="store_true", help="write benchmarks/results/cpu-DATE.json")
    parser.add_argument("--contender", choices=sorted(set(CONTENDERS.values())), help=argparse.SUPPRESS)
    parser.add_argument("--profile", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    default = MEMORY_ROWS if options.memory else tuple(ROWS)
    rows = options.rows.split(",") if options.rows else list(default)
    unknown = [row for row in rows if row not in ROWS]
    if unknown:
        parser.error(f"there is no row {', '.join(unknown)}; there are {', '.join(ROWS)}")
    if options.contender:
        [row] = rows
        result = measure_memory(row, options.contender) if options.memory else measure(row, **_what(options))
        print(json.dumps(result))
        return
    found = run_memory(rows) if options.memory else run(rows, options.rounds)
    if not options.memory:
        show(found)
    if options.json:
        print(f"\nwritten to {write(found, options.rounds, 'cpu-memory' if options.memory else 'cpu')}")


def _what(options: argparse.Namespace) -> dict[str, Any]:
    return {"contender": options.contender, "with_profile": options.profile}


if __name__ == "__main__":
    main()
