"""What a run has done so far, in a JSON file; and the totals of all modes, as text."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

import wengert as wg
from tests.programs.check import Finding, Totals
from wengert.backends.cpu import toolchain

KEPT = Path(__file__).with_name("seeds.json")
"""Seeds of programs that once were wrong, by mode: they are run first."""


class Progress:
    """One mode's run: the first seed, how many programs are done, their totals, and what was found."""

    def __init__(self, folder: Path, mode: str, first: int) -> None:
        self.path = folder / f"{mode}-{first}.json"
        self.mode, self.first, self.seconds = mode, first, 0.0
        self.totals, self.findings = Totals(), list[Finding]()
        if self.path.exists():
            kept = json.loads(self.path.read_text())
            self.totals, self.seconds = Totals(**kept["totals"]), kept["seconds"]
            self.findings = [Finding(*each) for each in kept["findings"]]

    @property
    def next(self) -> int:
        """The seed to go on with."""
        return self.first + self.totals.programs

    def add(self, totals: Totals, findings: Iterable[Finding], seconds: float) -> None:
        """Count a unit, and write it down."""
        self.totals, self.seconds = self.totals.plus(totals), self.seconds + seconds
        self.findings.extend(findings)
        kept = {"totals": self.totals._asdict(), "seconds": self.seconds, "findings": self.findings}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        beside = self.path.with_suffix(".new")
        beside.write_text(json.dumps(kept, indent=1))
        os.replace(beside, self.path)

    def line(self) -> str:
        """The totals in a line."""
        t = self.totals
        counts = (
            t.programs,
            t.lines,
            t.nodes,
            t.with_gradients,
            t.with_tangents,
            t.with_second,
            t.optimised,
            t.refused,
        )
        columns = (self.first, *counts, len(self.findings), round(self.seconds))
        return f"{self.mode:17}" + "".join(f"{n:>{w},}" for n, w in zip(columns, WIDTHS))


WIDTHS = (8, 10, 10, 11, 11, 10, 9, 11, 9, 10, 9)
NAMES = ("seed", "programs", "lines", "graph ops", "gradients", "tangents", "second", "optimised", "refused")
HEAD = f"{'mode':17}" + "".join(f"{name:>{w}}" for name, w in zip((*NAMES, "failures", "seconds"), WIDTHS))
FOOT = """
gradients, tangents, second: programs with reverse mode, with forward mode too, and with products with the Hessian.
optimised: programs compiled with -O3 as users' are; the others with -O0. refused: programs that PyTorch cannot run.
"""


def write_results(folder: Path, results: Path) -> Path:
    """Add the totals of all runs in a folder up into today's file of results."""
    path = results / f"programs-{date.today()}.txt"
    runs = [_opened(folder, found) for found in sorted(folder.glob("*.json"))]
    versions = f"wengert {wg.__version__}, numpy {np.__version__}, Python {platform.python_version()}"
    versions += "".join(f", torch {_torch()}" for run in runs[:1] if any("torch" in r.mode for r in runs) and run)
    lines = [f"python -m tests.programs; {date.today()}", versions, toolchain.version().splitlines()[0], "", HEAD]
    lines += [run.line() for run in runs] + [FOOT.rstrip()]
    path.write_text("\n".join(lines) + "\n")
    return path


def _opened(folder: Path, path: Path) -> Progress:
    mode, _, first = path.stem.rpartition("-")
    return Progress(folder, mode, int(first))


def _torch() -> Any:
    import torch

    return torch.__version__


def kept_seeds(mode: str) -> list[int]:
    """The seeds of a mode that once were wrong."""
    return list(json.loads(KEPT.read_text()).get(mode, [])) if KEPT.exists() else []


def keep_seed(mode: str, seed: int) -> None:
    """Keep the seed of a program that is wrong."""
    kept = json.loads(KEPT.read_text()) if KEPT.exists() else {}
    kept[mode] = sorted({*kept.get(mode, []), seed})
    KEPT.write_text(json.dumps(kept, indent=1) + "\n")
