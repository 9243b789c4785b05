"""Every kernel of ours under NVIDIA's compute-sanitizer: each text launched once, in small, by all four tools.

    python -m tests.gpu.sanitize [--tools memcheck,...] [--every 1] [--graphs 300] [--seconds 470] [--out FILE]

Works are collected and compiled first, without the sanitizer; then processes launch their shares of them, each under a
tool. What is known is printed, and written to `--out`, as it comes; what is not done in time is stopped, and said to
be. The exit status says whether there were errors or something was left undone.
"""

from __future__ import annotations

import argparse
import datetime
import os
import pickle
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import islice
from pathlib import Path
from time import perf_counter
from typing import NamedTuple

from tests.gpu.harness import Item, gpu, placed, submit
from tests.gpu.joined import joined
from wengert.backends.cuda.compile import compiled

TOOLS = ("racecheck", "memcheck", "initcheck", "synccheck")  # the slowest first
CHUNK = 48  # lists whose kernels are compiled and loaded together
SHOWN = 40  # lines of what a tool found


class Outcome(NamedTuple):
    """What a tool said of a share of the lists."""

    launched: int
    errors: int
    finished: bool
    starting: float  # seconds until the first launch
    seconds: float
    output: str


def exercise(share: Path) -> None:
    """Launch the lists in a file once, each buffer an allocation of its own, and say how far it has come."""
    launched = 0
    gpu()
    print(f"launched 0 at {perf_counter()}", flush=True)
    for chunk in pickle.loads(share.read_bytes()):
        for item in chunk:
            with placed(item.given, {**item.empty, **item.work.workspace}) as addresses:
                for launch in item.work.launches:
                    submit(launch, addresses)
                    launched += 1
        print(f"launched {launched} at {perf_counter()}", flush=True)


def watched(tool: str, share: Path, deadline: float) -> Outcome:
    """Launch a share of the lists under a tool; at the deadline it is stopped."""
    tool_options = ["compute-sanitizer", "--tool", tool, "--error-exitcode", "1", "--print-limit", "20"]
    command = [*tool_options, sys.executable, "-m", "tests.gpu.sanitize", "--share", str(share)]
    start = perf_counter()
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
    with subprocess.Popen(command, **pipes, start_new_session=True) as process:
        try:
            output, finished = process.communicate(timeout=max(deadline - start, 0))[0], True
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # the tool, and what it watches
            output, finished = process.communicate()[0], False
    return outcome(output, finished, start)


def outcome(output: str, finished: bool, start: float) -> Outcome:
    """What a process printed, read."""
    counts = [int(n) for n in re.findall(r"(?:ERROR SUMMARY|RACECHECK SUMMARY): (\d+)", output)]
    steps = re.findall(r"^launched (\d+) at ([\d.]+)", output, re.M) or [("0", str(start))]
    errors = counts[-1] if counts else int(finished)  # one that ended without counting fell
    said = "\n".join(line for line in output.splitlines() if not line.startswith("launched"))
    return Outcome(int(steps[-1][0]), errors, finished, float(steps[0][1]) - start, perf_counter() - start, said)


def summary(tool: str, outcomes: Sequence[Outcome], launches: int) -> str:
    """What a tool said of all shares, with the beginning of what it found."""
    launched, errors = sum(o.launched for o in outcomes), sum(o.errors for o in outcomes)
    starting, seconds = sum(o.starting for o in outcomes), sum(o.seconds for o in outcomes)
    each = 1e3 * (seconds - starting) / max(launched, 1)
    head = f"{tool:10} {launched} of {launches} launches, {errors} errors"
    cost = f"{len(outcomes)} processes, {starting / len(outcomes):.1f} s to start, then {each:.1f} ms a launch"
    lines = [line for o in outcomes if o.errors for line in o.output.splitlines()]
    return "\n".join([f"{head} ({cost})", *lines[:SHOWN]])


class Diary:
    """Prints what is known, with the seconds since the beginning, and writes it to a file as it comes."""

    def __init__(self, path: Path | None) -> None:
        self.start, self.path = perf_counter(), path
        if path is not None:
            path.write_text("")

    def tell(self, text: str) -> None:
        """Print and write."""
        line = f"{perf_counter() - self.start:5.0f} s  {text}"
        print(line, flush=True)
        if self.path is not None:
            with self.path.open("a") as file:
                file.write(line + "\n")


def collected(graphs: int, every: int, diary: Diary) -> list[list[Item]]:
    """The lists in chunks whose kernels are joined, and compiled."""
    from tests.gpu.launch_lists import every_launch_list  # half of the test suite, which the processes need not import

    items = list(every_launch_list(graphs, every))
    texts = {launch.source for item in items for launch in item.work.launches}
    diary.tell(f"{len(texts)} kernel texts in {len(items)} lists")
    chunks = [chunk(items[i : i + CHUNK]) for i in range(0, len(items), CHUNK)]
    modules = {launch.source for chunk in chunks for item in chunk for launch in item.work.launches}
    compiled(modules, gpu().properties.arch)
    diary.tell(f"compiled as {len(modules)} modules")
    return chunks


def chunk(items: Sequence[Item]) -> list[Item]:
    """Works whose kernels are in few modules."""
    launches = iter(joined([launch for item in items for launch in item.work.launches]))
    lists = [replace(item.work, launches=tuple(islice(launches, len(item.work.launches)))) for item in items]
    return [item._replace(work=work) for item, work in zip(items, lists)]


def run(chunks: Sequence[list[Item]], tools: Sequence[str], jobs: int, deadline: float, diary: Diary) -> int:
    """Watch all chunks with all tools, so many processes at a time; what was wrong or not finished."""
    shares = min(max(jobs * 2 // len(tools), 1), len(chunks))
    launches = sum(len(item.work.launches) for chunk in chunks for item in chunk)
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(jobs) as pool:
        paths = [Path(folder, f"share{i}") for i in range(shares)]
        for i, path in enumerate(paths):
            path.write_bytes(pickle.dumps(chunks[i::shares]))
        running = {tool: [pool.submit(watched, tool, path, deadline) for path in paths] for tool in tools}
        wrong = 0
        for tool, futures in running.items():
            outcomes = [future.result() for future in futures]
            diary.tell(summary(tool, outcomes, launches))
            wrong += sum(o.errors + (not o.finished) for o in outcomes)
    diary.tell("0 errors" if not wrong else f"{wrong} errors, or shares that were not finished")
    return wrong


def main() -> int:
    """The number of errors, and of shares that were not finished."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tools", default=",".join(TOOLS))
    parser.add_argument("--every", type=int, default=1, help="one in so many of the op suite's cases")
    parser.add_argument("--graphs", type=int, default=300, help="so many random graphs")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, default=470, help="how long it may take")
    parser.add_argument("--out", type=Path, help="write what is printed to this file too")
    parser.add_argument("--share", type=Path, help="launch the lists in this file")
    options = parser.parse_args()
    if options.share is not None:
        exercise(options.share)
        return 0
    diary = Diary(options.out)
    diary.tell(f"{datetime.date.today()}, {gpu().name}")
    chunks = collected(options.graphs, options.every, diary)
    return run(chunks, options.tools.split(","), options.jobs, diary.start + options.seconds, diary)


if __name__ == "__main__":
    sys.exit(min(main(), 1))
