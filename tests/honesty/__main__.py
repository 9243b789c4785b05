"""`python -m tests.honesty [WORDS]`: the verdict of every case (whose name has the words), and a table by family."""

from __future__ import annotations

import sys
from collections import Counter

from tests.honesty.judge import Trial, judge, trials

VERDICTS = ("follows", "refuses", "said", "frozen", "runs", "stale", "vague", "raw", "rerecords", "vacuous")


def main(words: str) -> int:
    """Print a line for each case that is not as expected, then the table; the status says whether there were any."""
    table: dict[str, Counter[str]] = {}
    failed = 0
    for trial in trials():
        if words in trial.id:
            failed += not _one(trial, table.setdefault(trial.case.family, Counter()))
    _show(table)
    print(f"{failed} not as expected")
    return int(failed > 0)


def _one(trial: Trial, counts: Counter[str]) -> bool:
    outcome = judge(*trial)
    counts[outcome.verdict] += 1
    if outcome.verdict in trial.case.expected:
        return True
    detail = " ".join(outcome.detail.split())[:200]
    print(f"{trial.id}: {outcome.verdict}, expected {' or '.join(trial.case.expected)}\n    {detail}")
    return False


def _show(table: dict[str, Counter[str]]) -> None:
    shown = [v for v in VERDICTS if any(counts[v] for counts in table.values())]
    print(f"\n{'family':16}" + "".join(f"{v:>11}" for v in [*shown, "cases"]))
    total: Counter[str] = sum(table.values(), Counter())
    for family, counts in [*table.items(), ("total", total)]:
        print(f"{family:16}" + "".join(f"{n:>11}" for n in [*(counts[v] for v in shown), counts.total()]))


if __name__ == "__main__":
    sys.exit(main(" ".join(sys.argv[1:])))
