"""`python -m tests.oracle.array_api PATH`: the Array API consortium's test suite, from a checkout of it at PATH.

    git clone --recurse-submodules https://github.com/data-apis/array-api-tests PATH
    pip install -r PATH/requirements.txt
    python -m tests.oracle.array_api PATH [--max-examples N] [--only EXPRESSION]

It prints how many tests passed, and each that failed with its cause, which `array_api_known.toml` keeps. The exit
status is 1 if a failure has no cause there, or if a cause is of no use any more: its test passed in a run of all tests.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

KNOWN = Path(__file__).with_name("array_api_known.toml")
SOURCES = Path(__file__).parents[2] / "src"


@dataclass
class Outcome:
    """How many tests ended in which way, and the last line of the message of each that failed."""

    counts: Counter[str] = field(default_factory=Counter)
    failed: dict[str, str] = field(default_factory=dict)


def known_causes(rare: bool = True) -> dict[str, str]:
    """The cause of every failure that is known, by the beginning of the test's name; with or without the rare ones."""
    causes = [cause for cause in tomllib.loads(KNOWN.read_text())["cause"] if rare or not cause.get("rare")]
    return {test: cause["why"] for cause in causes for test in cause["tests"]}


def command(report: Path, max_examples: int, only: str) -> list[str]:
    """How pytest is called in the checkout."""
    try:
        import pytest_jsonreport  # noqa: F401
    except ImportError:
        sys.exit("the suite needs its own packages: pip install -r PATH/requirements.txt")
    words = [
        sys.executable,
        "-m",
        "pytest",
        "array_api_tests",
        "-q",
        "--no-header",
        "--tb=short",
        "-rN",
        "--disable-warnings",
    ]
    words += [f"--junitxml={report}", f"--max-examples={max_examples}", "--disable-deadline", "--derandomize"]
    words += ["-p", "no:cacheprovider"]
    return words + (["-k", only] if only else [])


def read(report: Path) -> Outcome:
    """The outcome in pytest's XML report."""
    outcome = Outcome()
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname', '').rsplit('.', 1)[-1]}::{case.get('name')}"
        failure = next((child for child in case if child.tag in ("failure", "error", "skipped")), None)
        outcome.counts["passed" if failure is None else failure.tag] += 1
        if failure is not None and failure.tag != "skipped":
            outcome.failed[name] = " ".join((failure.get("message") or "").split())[:200]
    return outcome


def show(outcome: Outcome, whole: bool) -> bool:
    """Print the outcome; whether every failure has a cause, and every cause a failure."""
    causes = known_causes()
    used, unknown = set(), 0
    for test, message in sorted(outcome.failed.items()):
        start = next((start for start in causes if test.startswith(start)), None)
        used.add(start)
        unknown += start is None
        print(f"UNKNOWN  {test}\n         {message}" if start is None else f"known    {test}\n         {causes[start]}")
    passed = [start for start in known_causes(rare=False) if start not in used] if whole else []
    for start in passed:
        print(f"PASSED   {start}\n         it has a cause in {KNOWN.name} that can go")
    print(", ".join(f"{count} {ending}" for ending, count in sorted(outcome.counts.items())), end="")
    print(f" of {outcome.counts.total()}; {unknown} failures of unknown cause, {len(passed)} causes to remove")
    return not unknown and not passed


def main(words: list[str]) -> int:
    """Run the suite and show its outcome."""
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.array_api")
    parser.add_argument("path", type=Path, help="a checkout of data-apis/array-api-tests, with its submodule")
    parser.add_argument("--max-examples", type=int, default=20, help="examples that Hypothesis draws for each test")
    parser.add_argument("--only", default="", help="run the tests that this expression selects, as pytest's -k")
    given = parser.parse_args(words)
    if not (given.path / "array-api" / "src").is_dir():
        sys.exit(f"{given.path} has no array-api/src: run `git submodule update --init` there")
    paths = [str(SOURCES), os.environ.get("PYTHONPATH", "")]
    environment = {
        **os.environ,
        "ARRAY_API_TESTS_MODULE": "wengert",
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
    }
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        call = command(report, given.max_examples, given.only)
        subprocess.run(call, cwd=given.path, env=environment, check=False)
        if not report.exists():
            sys.exit("the suite wrote no report: what it printed above says why")
        outcome = read(report)
    return int(not show(outcome, whole=not given.only))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
