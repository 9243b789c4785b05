"""Training steps, inference and fused expressions on one GPU: Wengert beside PyTorch eager, `torch.compile` and JAX.

    python benchmarks/gpu.py [--rows micrograd,mlp,...] [--peers eager,compile,jax] [--seconds 1.0] [--json]
    python benchmarks/gpu.py --first [--rows resnet18,gpt2] [--peers compile] [--json]
    python benchmarks/gpu.py --tune 20 [--rows resnet18-cifar,gpt2] [--json]

Each contender of each row has a process of its own. Those of a few rows start together: they import, build, compile and
warm up at the same time. When all are ready they measure one at a time, in turn. A step is asked for again and again
without waiting; the time is that of many steps, from start to synchronisation, over their number: the median of several
such spans. Wengert's host time is that of asking for a step: in a loop, the best and the median, which is that of a
machine with other things to do as well; and the median right after a wait, when caches hold something else. Memory is
what four steps take with the model and what it is given: of torch the peak of its tensors, of Wengert its tensors and
the whole arena. For each row follows where Wengert's time goes.

`--first` measures instead the first step, until it is done, alone on the machine: with an empty folder of caches, and
once more in a new process with the folder that this one left. Model and data are on the device before it begins, as
they are in torch's; how long that took stands beside it.

`--tune` measures instead, in turn, Wengert's step with what its heuristics choose and with what timing the candidates
for so many seconds chooses. Both begin with an empty folder of caches; nothing else uses the GPU while they are timed.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

from gpu_report import Found, shown, shown_first, write
from gpu_rows import ROWS, Step, jax_step, torch_step, wengert_step

PEERS = ("eager", "compile", "jax")
JAX_ROWS = ("micrograd", "mlp")
FIRST_ROWS = "resnet18,gpt2"
TUNED_ROWS = "resnet18-cifar,resnet18,resnet18-tf32,gpt2"
TUNED = "tuned"  # the contender whose candidates are timed
SPANS = 5
TOGETHER = 20  # processes that get ready at once: a core or so each, and memory for all of them
PATIENCE = 150.0  # seconds

# --- inside a contender's process -----------------------------------------------------------------------------------


def contend(row: str, contender: str, device: str, tune: float) -> None:
    """Get ready, say so, and answer questions until there are no more, a line of JSON each."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print is no answer

    def say(answer: Any) -> None:
        print(json.dumps(answer), file=answers, flush=True)

    step, wait, ready = prepare(row, contender, device, tune)
    say(ready)
    for question in sys.stdin:
        what, *seconds = question.split()
        if what == "span":
            say(span(step, wait, float(seconds[0])))
        elif what == "host":
            say(host_time(step, wait))
        else:
            say(kernels(step))


def prepare(row: str, contender: str, device: str, tune: float) -> tuple[Step, Callable[[], Any], dict[str, Any]]:
    """A contender's step, what waits for the device, and how long it took to get there."""
    start = time.perf_counter()
    __import__({"wengert": "wengert", TUNED: "wengert", "jax": "jax"}.get(contender, "torch"))
    imported = time.perf_counter()
    step, wait, described = _made(row, contender, device, tune)
    wait()
    built = time.perf_counter()
    step()
    wait()
    ready = {"import": imported - start, "build": built - imported, "first": time.perf_counter() - built}
    for _ in range(3):
        step()
        wait()
    return step, wait, ready | described()


def _made(
    row: str, contender: str, device: str, tune: float
) -> tuple[Step, Callable[[], Any], Callable[[], dict[str, Any]]]:
    """A contender's step, what waits for it, and what tells more about it after a few steps."""
    if contender == "jax":
        return *jax_step(row), dict
    if contender in ("wengert", TUNED):
        import wengert as wg

        step, compiled = wengert_step(row, device, tune if contender == TUNED else 0.0)

        def described() -> dict[str, Any]:
            slots = len(compiled._newest("slots").captured.all_slots())
            if device == "cpu":
                return {"slots": slots}
            from wengert.backends.cuda.memory import opened

            memory = wg.cuda.memory()
            tuning = {"tuning": compiled.explain("tuning").splitlines()[0]} if contender == TUNED else {}
            return {"slots": slots, "memory": memory.live + memory.arena, "device": opened("cuda:0").name} | tuning

        return step, wg.synchronize if device == "cpu" else wg.cuda.synchronize, described
    import torch

    step = torch_step(row, contender == "compile", device)
    if device == "cpu":
        return step, lambda: None, dict
    return step, torch.cuda.synchronize, lambda: {"memory": torch.cuda.max_memory_allocated()}


def span(step: Step, wait: Callable[[], Any], seconds: float) -> float:
    """Seconds a step, over about so many seconds."""
    step()
    wait()
    start = time.perf_counter()
    step()
    wait()
    count = max(3, int(seconds / max(time.perf_counter() - start, 1e-6)))
    start = time.perf_counter()
    for _ in range(count):
        step()
    wait()
    return (time.perf_counter() - start) / count


def host_time(step: Step, wait: Callable[[], Any], steps: int = 12, rounds: int = 5) -> tuple[float, float, float]:
    """Seconds of asking for a step, in a loop that does nothing else: the best, the median; and that after a wait.

    Some in a row, too few to fill the device's queue; the first of them comes after a wait, the later half follow one
    another as in a loop. So many rounds at least and half a second of them.
    """
    firsts: list[float] = []
    later: list[float] = []
    end = time.perf_counter() + 0.5
    while len(firsts) < rounds or time.perf_counter() < end:
        wait()
        times = [time.perf_counter()]
        for _ in range(steps):
            step()
            times.append(time.perf_counter())
        taken = [stop - start for start, stop in pairwise(times)]
        firsts.append(taken[0])
        later += taken[steps // 2 :]
    return min(later), statistics.median(later), statistics.median(firsts)


def kernels(step: Step, steps: int = 3) -> list[dict[str, Any]]:
    """Where a step's time goes: its kernels by name, each with its milliseconds and share of the measured ceiling."""
    import wengert as wg
    from wengert.inspect.table import ceiling

    with wg.profile() as profile:
        for _ in range(steps):
            step()
    return [
        {
            "kernel": name,
            "calls": row.count // steps,
            "ms": row.seconds / steps * 1e3,
            "ceiling": ceiling(row.device).share(row),
        }
        for name, row in profile.rows("kernel").items()
    ]


# --- a contender, seen from outside ---------------------------------------------------------------------------------


class Contender:
    """A process that gets one contender of one row ready, and then answers. `error` says why it does no more."""

    def __init__(self, row: str, name: str, device: str, environment: dict[str, str], tune: float = 0.0) -> None:
        self.row, self.name = row, name
        self.error: str | None = None
        self.started = time.perf_counter()
        self.printed = tempfile.TemporaryFile("w+")  # noqa: SIM115 (as long as the process lives)
        self.process = subprocess.Popen(
            [sys.executable, __file__, "--contender", name, "--rows", row, "--device", device, "--tune", str(tune)],
            env=os.environ | {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"} | environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.printed,
            text=True,
            start_new_session=True,
        )

    def ready(self, patience: float) -> dict[str, Any]:
        """How it got ready within so many seconds of its start, or its error."""
        return self._answer(self.started + patience - time.perf_counter()) or {"error": self.error}

    def ask(self, question: str) -> Any:
        """The answer to a question, None where there is an error."""
        if self.error is not None:
            return None
        with suppress(BrokenPipeError):  # it died: why is in its answer's place
            print(question, file=self.process.stdin, flush=True)
        return self._answer(PATIENCE)

    def _answer(self, patience: float) -> Any:
        if not select.select([self.process.stdout], [], [], max(patience, 0.0))[0]:
            self.error = "it took too long"
            self.end()
            return None
        line = self.process.stdout.readline()  # type: ignore[union-attr]
        if line:
            return json.loads(line)
        self.process.wait()
        self.printed.seek(0)
        self.error = (self.printed.read().strip().splitlines() or ["it died"])[-1][:300]
        return None

    def end(self) -> None:
        """Stop the process, and those that it started."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


# --- the run --------------------------------------------------------------------------------------------------------


def contenders(row: str, peers: list[str]) -> list[str]:
    """Who contends in a row."""
    return ["wengert", *(peer for peer in peers if peer != "jax" or row in JAX_ROWS)]


def batches(rows: list[str], peers: list[str], together: int) -> Iterator[list[str]]:
    """The rows in order, as many at a time as have no more processes than so many together."""
    batch: list[str] = []
    for row in rows:
        if batch and sum(len(contenders(each, peers)) for each in [*batch, row]) > together:
            yield batch
            batch = []
        batch.append(row)
    yield batch


def run(
    rows: list[str], peers: list[str], seconds: float, device: str, patience: float = PATIENCE
) -> Iterator[tuple[str, Found]]:
    """Each row with what was found of its contenders: these get ready together, and measure when all are."""
    compiling = len(rows) if "compile" in peers else 1
    environment = {"TORCHINDUCTOR_COMPILE_THREADS": str(max(1, (os.cpu_count() or 1) // compiling))}
    started = [Contender(row, name, device, environment) for row in rows for name in contenders(row, peers)]
    try:
        found: dict[str, Found] = {row: {} for row in rows}
        for each in started:
            found[each.row][each.name] = each.ready(patience)
        for row in rows:
            measure([each for each in started if each.row == row], found[row], seconds)
            yield row, found[row]
    finally:
        for each in started:
            each.end()


def measure(contenders: list[Contender], found: Found, seconds: float) -> None:
    """Add to what was found of a row the median of every contender's spans, and where Wengert's time goes."""
    times: dict[str, list[float]] = {each.name: [] for each in contenders}
    for _ in range(1 + SPANS):
        for each in contenders:
            times[each.name].append(each.ask(f"span {seconds / SPANS}"))
    for each in contenders:
        if each.error is None:
            _, *spans = times[each.name]  # the first is to warm up: recordings are repeated at calls 2, 4, 8, ...
            found[each.name]["median"] = statistics.median(spans)
        if each.name == "wengert":
            found[each.name] |= {"host": each.ask("host"), "kernels": each.ask("kernels") or []}
        if each.error is not None:
            found[each.name]["error"] = each.error
        each.end()


def first_steps(row: str, contender: str, device: str) -> dict[str, Any]:
    """The seconds to the first step with cold and with warm caches, each in a new process that is alone."""
    found: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        caches = ("WENGERT_CACHE", "TORCHINDUCTOR_CACHE_DIR", "TRITON_CACHE_DIR")
        environment = {name: str(Path(folder) / name) for name in caches}
        for kind in ("cold", "warm"):
            each = Contender(row, contender, device, environment)
            found[kind] = each.ready(PATIENCE)
            each.end()
    return found


def tuned_step(row: str, tune: float, seconds: float, device: str) -> Found:
    """A row by Wengert with its first choices, and with those that timing makes; the second alone until it is ready."""
    found: Found = {}
    started: list[Contender] = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            for name in ("wengert", TUNED):
                started.append(Contender(row, name, device, {"WENGERT_CACHE": str(Path(folder) / name)}, tune))
                found[name] = started[-1].ready(PATIENCE + tune)
            measure(started, found, seconds)
        finally:
            for each in started:
                each.end()
    return found


# --- the command ----------------------------------------------------------------------------------------------------


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", help=f"some of {','.join(ROWS)}")
    parser.add_argument("--peers", help=f"some of {','.join(PEERS)}; of --first none if not said")
    parser.add_argument("--seconds", type=float, default=1.0, help="of measuring, for each contender")
    parser.add_argument("--together", type=int, default=TOGETHER, help="processes that get ready at once")
    parser.add_argument("--patience", type=float, default=PATIENCE, help="seconds for a contender to get ready")
    parser.add_argument("--top", type=int, default=5, help="kernels to show for each row")
    parser.add_argument("--first", action="store_true", help="measure the first step instead")
    parser.add_argument("--tune", type=float, default=0.0, help="seconds to choose kernels by timing, beside without")
    parser.add_argument("--json", action="store_true", help="write benchmarks/results/gpu-DATE.json and .txt")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"), help="cpu: to try the benchmark itself")
    parser.add_argument("--contender", choices=["wengert", TUNED, *PEERS], help=argparse.SUPPRESS)
    options = parser.parse_args()
    usual = FIRST_ROWS if options.first else TUNED_ROWS if options.tune else ",".join(ROWS)
    rows = (options.rows or usual).split(",")
    unknown = [row for row in rows if row not in ROWS]
    if unknown:
        parser.error(f"there is no row {', '.join(unknown)}; there are {', '.join(ROWS)}")
    if options.contender:
        contend(rows[0], options.contender, options.device, options.tune)
        return
    asked = options.peers if options.peers is not None else "" if options.first else ",".join(PEERS)
    peers = [peer for peer in asked.split(",") if peer]
    if not set(PEERS).issuperset(peers):
        parser.error(f"--peers {asked}: there are {','.join(PEERS)}")
    if options.first:
        _show_first(rows, peers, options)
    elif options.tune:
        _show_tuned(rows, options)
    else:
        _show(rows, peers, options)


def _show(rows: list[str], peers: list[str], options: argparse.Namespace) -> None:
    results: dict[str, Found] = {}
    for batch in batches(rows, peers, options.together):
        for row, found in run(batch, peers, options.seconds, options.device, options.patience):
            results[row] = found
            print(shown(row, found, options.top), flush=True)
            if options.json:
                write("results", results)


def _show_first(rows: list[str], peers: list[str], options: argparse.Namespace) -> None:
    results: dict[str, Found] = {}
    for row in rows:
        for name in contenders(row, peers):
            results.setdefault(row, {})[name] = first_steps(row, name, options.device)
            print(shown_first(row, name, results[row][name]), flush=True)
        if options.json:
            write("first", results)


def _show_tuned(rows: list[str], options: argparse.Namespace) -> None:
    results: dict[str, Found] = {}
    for row in rows:
        results[row] = tuned_step(row, options.tune, options.seconds, options.device)
        print(shown(row, results[row], options.top), flush=True)
        if options.json:
            write("tuned", results)


if __name__ == "__main__":
    main()
