"""`python -m tests.oracle.opinfo`: every sample of PyTorch's OpInfo against Wengert.

    python -m tests.oracle.opinfo [--dtypes float64,float32,complex128,int64] [--entries REGEX]
                                  [--samples N] [--compile N] [--vmap N] [--refused]
                                  [--through torch] [--missing]

A sample agrees if all its checks do: value, gradient, forward mode, second order, and for the first N samples of an
entry also compiled and vmapped. It is refused if a check raises an error, wrong if a number differs. The exit status
is 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import re
import sys
import warnings
from collections import Counter, defaultdict
from dataclasses import dataclass, field

import wengert as wg
from tests.oracle.opinfo.counterparts import CONVENTIONS
from tests.oracle.opinfo.entries import Entry, database, entries, full_name
from tests.oracle.opinfo.judge import Unsuitable, judge

DTYPES = "float64,float32,complex128,int64"
SHOWN = 5  # differences of an entry that are printed


@dataclass
class Table:
    """The counts of one dtype."""

    entries: int = 0
    whole: int = 0  # the entries of which every sample agrees
    counts: Counter[str] = field(default_factory=Counter)
    refused: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))  # by message, the entries


def general(error: Exception) -> str:
    """An error's message without its numbers and shapes, so that like errors are counted together."""
    text = " ".join(str(error).split())
    text = re.sub(r"^\w+: | at [\w<>-]+\.py:\d+.*| at an unknown line.*", "", text)
    text = re.sub(r"\([\d, -]*\)|\[[\d, -]*\]|-?\d+(\.\d+)?", "N", text)
    return f"{type(error).__name__}: {text[:110]}"


def run_entry(entry: Entry, dtype: str, given: argparse.Namespace, table: Table) -> None:
    """Judge the samples of one entry and print what is wrong."""
    agreed = judged = 0
    for number, sample in enumerate(entry.samples(dtype)):
        if given.samples and number >= given.samples:
            break
        if (entry.name, dtype) in CONVENTIONS and not entry.through_torch:
            table.counts["another convention"] += 1
            continue
        try:
            verdict = judge(entry, sample, compiled=number < given.compile, vmapped=number < given.vmap)
        except Unsuitable:
            table.counts["not computed by PyTorch"] += 1
            continue
        judged += 1
        table.counts["samples"] += 1
        table.counts["checks"] += verdict.agree
        outcome = "wrong" if verdict.wrong else "refused" if verdict.refused else "agree"
        table.counts[outcome] += 1
        agreed += outcome == "agree"
        for check, difference in verdict.wrong if table.counts[f"wrong {entry.name}"] < SHOWN else []:
            table.counts[f"wrong {entry.name}"] += 1
            print(f"WRONG {dtype} {entry.name}: {check}: {difference}\n      sample {number}: {str(sample)[:300]}")
        for check, error in verdict.refused[:1]:
            table.refused[general(error)][f"{entry.name}: {check}"] += 1
    table.entries += judged > 0
    table.whole += judged > 0 and agreed == judged


def show(table: Table, dtype: str, details: bool) -> None:
    """Print the counts of a dtype, and the refusals by message."""
    counts = table.counts
    print(
        f"{dtype:12}{table.entries:>8} entries{table.whole:>6} agree on every sample |"
        f"{counts['samples']:>7} samples{counts['agree']:>7} agree{counts['refused']:>6} refused"
        f"{counts['wrong']:>5} wrong | {counts['checks']} checks agree"
    )
    by_size = sorted(table.refused.items(), key=lambda item: -item[1].total())
    for message, where in by_size if details else []:
        names = ", ".join(f"{name} ({count})" for name, count in where.most_common(6))
        print(f"    {where.total():>5}  {message}\n           {names}{' ...' if len(where) > 6 else ''}")


def main(words: list[str]) -> int:
    """Judge the entries in every dtype; whether anything is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.oracle.opinfo")
    parser.add_argument("--dtypes", default=DTYPES)
    parser.add_argument("--entries", default="", metavar="REGEX")
    parser.add_argument("--samples", type=int, default=0, help="samples of each entry and dtype; 0 for all")
    parser.add_argument("--compile", type=int, default=1, help="samples of each entry and dtype that are compiled")
    parser.add_argument("--vmap", type=int, default=2, help="samples of each entry and dtype that are vmapped")
    parser.add_argument("--refused", action="store_true", help="list what is refused, by message")
    parser.add_argument("--through", choices=["torch"], help="by PyTorch's own names and signatures: wengert.torch")
    parser.add_argument("--missing", action="store_true", help="list the entries without a counterpart")
    given = parser.parse_args(words)
    warnings.simplefilter("ignore")
    wg.config.tier = "interpret"
    chosen = entries(given.entries, given.through == "torch")
    print(f"{len(database())} entries in OpInfo, {len(chosen)} with a counterpart chosen")
    if given.missing:
        there = {entry.name for entry in chosen}
        print("missing:", " ".join(name for info in database() if (name := full_name(info)) not in there))
    tables = {}
    for dtype in given.dtypes.split(","):
        table = tables[dtype] = Table()
        for entry in chosen:
            run_entry(entry, dtype, given, table)
        show(table, dtype, given.refused)
    return int(any(table.counts["wrong"] for table in tables.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
