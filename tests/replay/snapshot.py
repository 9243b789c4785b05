"""A snapshot: every case of the corpus compiled, as one JSON file.

    python -m tests.replay.snapshot OUT.json [--cases REGEX]

Per case: `kernels` (name, sha, text), `launches`, `arguments` (on a GPU: where each call's buffers lie), `steps`,
`library_calls`, `host_ops`, `arena_bytes`, `nodes` and `seconds`, or `error`.
What varies between processes (node numbers, paths, addresses) is normalised.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import multiprocessing
import os
import platform
import re
import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import wengert as wg
from tests.replay import adapt
from tests.replay.corpus import corpus

ROOT = Path(__file__).parents[2]
PROCESSES = 2
CHUNK = 8  # cases that a process takes at a time
THREADS = "4"  # kernels are written for so many threads: the same on every machine
SERIAL = re.compile(r"\bn(\d+)\b")
ADDRESS = re.compile(r"0x[0-9a-f]{8,}")


def snapshot(cases: str = "", processes: int = PROCESSES) -> dict[str, Any]:
    """All cases whose names match, compiled; in the corpus's order."""
    if not Path(wg.__file__).is_relative_to(ROOT):
        raise SystemExit(f"wengert comes from {wg.__file__}, not from {ROOT}: set PYTHONPATH={ROOT / 'src'}")
    numbers = [i for i, case in enumerate(corpus()) if re.search(cases, case.name)]
    if processes > 1 and len(numbers) > CHUNK:
        with multiprocessing.get_context("spawn").Pool(processes) as pool:
            found = dict(pool.imap(compiled, numbers, CHUNK))
    else:
        found = dict(map(compiled, numbers))
    if re.search(cases, "headers"):
        found["headers"] = {"kernels": [_kernel(name, text) for name, text in adapt.headers().items()]}
    return {"environment": environment(), "cases": found}


def environment() -> dict[str, str]:
    """What texts may depend on besides the commit: a snapshot of another environment is not compared."""
    return {"python": platform.python_version(), "numpy": np.__version__, "machine": platform.machine()}


_corpus: list[Any] = []


def compiled(number: int) -> tuple[str, dict[str, Any]]:
    """A case's name and what was compiled."""
    if not _corpus:
        _corpus.extend(corpus())
    case = _corpus[number]
    with adapt.without_toolchains(case.libraries), warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            wg.manual_seed(0)  # a case must not depend on what its process drew before
            described, seconds = adapt.build(case.make())
        except Exception as error:
            return case.name, {"error": normalised(f"{type(error).__name__}: {error}")}
    kernels = [_kernel(name, text) for name, text in described.pop("kernels")]
    return case.name, {"kernels": kernels, **described, "seconds": round(seconds, 5)}


def _kernel(name: str, text: str) -> dict[str, str]:
    text = normalised(text)
    return {"name": name, "sha": hashlib.sha256(text.encode()).hexdigest()[:16], "text": text}


def normalised(text: str) -> str:
    """A text without what varies between processes: nodes are numbered as they appear, paths begin at the root."""
    numbers: dict[str, int] = {}
    text = SERIAL.sub(lambda match: f"n{numbers.setdefault(match[1], len(numbers))}", text)
    return ADDRESS.sub("0x...", text.replace(f"{ROOT}{os.sep}", ""))


def main() -> None:
    """Write a snapshot."""
    parser = argparse.ArgumentParser(prog="python -m tests.replay.snapshot", description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--cases", default="", help="a regular expression that names must match")
    parser.add_argument("--processes", type=int, default=PROCESSES)
    options = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = THREADS  # read at the first compilation, and by the processes that are started
    start = time.perf_counter()
    made = snapshot(options.cases, options.processes)
    options.out.write_text(json.dumps(made))
    errors = sum("error" in case for case in made["cases"].values())
    seconds = time.perf_counter() - start
    print(f"{len(made['cases'])} cases, {errors} of them errors, in {seconds:.0f} s: {options.out}", file=sys.stderr)


if __name__ == "__main__":
    main()
