"""Every kernel of ours under NVIDIA's compute-sanitizer: each text launched once, in small, by all four tools.

    python -m tests.gpu.sanitize [--tools memcheck,racecheck,initcheck,synccheck] [--every 1] [--graphs 300]

Works are collected and compiled first, without the sanitizer; then each tool watches several processes that launch
their share of them. The exit status says whether there were errors.
"""

from __future__ import annotations

import argparse
import os
import pickle
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from tests.gpu.harness import gpu, placed, submit
from tests.gpu.works import Item, every_work
from wengert.backends.cuda.compile import compiled

TOOLS = ("memcheck", "racecheck", "initcheck", "synccheck")
SHOWN = 40  # lines of the errors that a tool found


def exercise(items: Sequence[Item]) -> None:
    """Launch works once, each buffer an allocation of its own."""
    for item in items:
        with placed(item.given, {**item.empty, **item.work.workspace}) as addresses:
            for launch in item.work.launches:
                submit(launch, addresses)


def watch(tool: str, share: Path) -> subprocess.Popen[str]:
    """A process that launches a share of the works under a tool."""
    tool_options = ["compute-sanitizer", "--tool", tool, "--error-exitcode", "1", "--print-limit", "20"]
    command = [*tool_options, sys.executable, "-m", "tests.gpu.sanitize", "--share", str(share)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def errors_of(output: str) -> int:
    """How many errors a tool counted."""
    counts = [int(n) for n in re.findall(r"(?:ERROR SUMMARY|RACECHECK SUMMARY): (\d+)", output)]
    return counts[-1] if counts else 1  # it did not come to its end


def run_tool(tool: str, shares: Sequence[Path]) -> int:
    """The errors that a tool finds in all shares, which run side by side."""
    start = time.perf_counter()
    outputs = [process.communicate()[0] for process in [watch(tool, share) for share in shares]]
    errors = sum(map(errors_of, outputs))
    launched = sum(int(n) for output in outputs for n in re.findall(r"^launched (\d+)", output, re.M))
    print(f"{tool:10} {launched} launches, {errors} errors, {time.perf_counter() - start:.0f} s", flush=True)
    for output in outputs:
        if errors_of(output):
            lines = [line for line in output.splitlines() if not line.startswith("launched")]
            print("\n".join(lines[:SHOWN]), flush=True)
    return errors


def main() -> int:
    """Collect, compile, watch; the number of errors."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tools", default=",".join(TOOLS))
    parser.add_argument("--every", type=int, default=1, help="one in so many of the op suite's cases")
    parser.add_argument("--graphs", type=int, default=300, help="so many random graphs")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 1) - 2))
    parser.add_argument("--share", type=Path, help="launch the works in this file")
    options = parser.parse_args()
    if options.share is not None:
        items = pickle.loads(options.share.read_bytes())
        exercise(items)
        print(f"launched {sum(len(item.work.launches) for item in items)}", flush=True)
        return 0
    start = time.perf_counter()
    items = list(every_work(options.graphs, options.every))
    texts = {launch.source for item in items for launch in item.work.launches}
    print(f"{len(texts)} kernel texts in {len(items)} works, {time.perf_counter() - start:.0f} s", flush=True)
    compiled(texts, gpu().figures.arch)
    print(f"compiled, {time.perf_counter() - start:.0f} s", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        shares = [Path(folder, f"share{i}") for i in range(options.jobs)]
        for i, share in enumerate(shares):
            share.write_bytes(pickle.dumps(items[i :: options.jobs]))
        return sum(run_tool(tool, shares) for tool in options.tools.split(","))


if __name__ == "__main__":
    sys.exit(min(main(), 1))
