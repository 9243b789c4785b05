"""Fills in what pages take from elsewhere: functions whose docstrings exist only once they are imported, and the report
of CPU and GPU.
"""

from __future__ import annotations

import importlib
import inspect
import json
import re
from pathlib import Path
from typing import Any

from wengert.bench.every import FAMILY
from wengert.bench.page import start_of
from wengert.bench.plot import seconds, short
from wengert.bench.run import checked

REPORT = Path(__file__).with_name("cpu-gpu-report.json")  # by `make gpu-report`, with the page of the same name


def on_page_markdown(markdown: str, **_: object) -> str:
    """Replace each `<!-- functions of MODULE -->` by its public functions with their signatures and docstrings, and
    `<!-- the report of bench -->` by what that found.
    """
    markdown = re.sub(r"<!-- functions of (\S+) -->", lambda match: _functions(match[1]), markdown)
    return re.sub(r"<!-- the report of bench -->", lambda _: _report(), markdown)


def _functions(name: str) -> str:
    module = importlib.import_module(name)
    names = [n for n in getattr(module, "__all__", dir(module)) if not n.startswith("_")]
    return "\n\n".join(_entry(n, getattr(module, n)) for n in sorted(names) if callable(getattr(module, n)))


def _entry(name: str, function: object) -> str:
    signature = re.sub(r": 'Any'|: 'int'| -> '.*'|'", "", str(inspect.signature(function)))  # type: ignore[arg-type]
    text = inspect.getdoc(function) or ""
    text = re.sub(r"((?:^>>> .*\n?|^\.\.\. .*\n?|^(?!>>>)\S.*\n?)+)", _fenced, text, flags=re.MULTILINE)
    return f"### {name}\n\n```python\n{name}{signature}\n```\n\n{text}"


def _fenced(match: re.Match[str]) -> str:
    block = match[1]
    return f"\n```pycon\n{block.rstrip()}\n```\n" if block.startswith(">>>") else block


def _report() -> str:
    """The figures of the report that most is asked for, and where the others are; nothing where there is no report."""
    if not REPORT.exists():
        return ""
    report = checked(json.loads(REPORT.read_text()))
    machine, launch = report["machine"], report["launch"]
    plotted = {p["case"] for p in report["points"] if p["family"] != FAMILY}
    rows = [_row(c) for c in report["crossovers"] if c["case"] in plotted and c["pass"] != "forward + backward"]
    head = "| | pass | GPU is faster | with copies | times as fast |"
    return (
        f"[The report]({REPORT.stem}.html){{target=_blank}} ([as JSON]({REPORT.name})): {machine['gpu']} beside "
        f"{machine['cpu']} with {machine['cores']} cores, {report['date']}. Launching a compiled program of "
        f"one small kernel costs {seconds(launch['host'])} of host time, {seconds(launch['call'])} back to back, and "
        f"{seconds(launch['waited for'])} with a synchronise.\n\n" + "\n".join([head, "|---|---|---|---|---|", *rows])
    )


def _row(c: dict[str, Any]) -> str:
    """A line of the table: the size from which the GPU is faster, for an op or a model."""
    staying, copied = (start_of(c, way) for way in ("staying", "copied"))
    return (
        f"| {c['case']} ({c['unit']}) | {c['pass']} | {staying} | {copied} | {c['speedup']:.3g} at {short(c['at'])} |"
    )
