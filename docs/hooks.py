"""Fills in what pages take from elsewhere when the site is built: the entries of the reference, the dictionaries of
names, the tables of PyTorch's functions, the report of CPU and GPU, and pictures that follow the page's colours.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))  # mkdocs runs this file by its path

from command_entries import commands
from dictionaries import functions_table, jax_table, methods_table, torch_names
from reference_entries import with_entries, with_links

from wengert.bench.every import FAMILY
from wengert.bench.page import start_of
from wengert.bench.plot import seconds, short

REFERENCE = Path(__file__).with_name("reference")
IMAGES = Path(__file__).with_name("images")
REPORT = Path(__file__).with_name("cpu-gpu-report.json")  # by `make gpu-report`, with the page of the same name


def on_page_markdown(markdown: str, **_: object) -> str:
    """Replace each `<!-- names of MODULE -->` by entries of the reference, and the markers of tables by the tables."""
    markdown = with_links(with_entries(markdown), sorted(REFERENCE.glob("*.md")))
    for marker, table in TABLES.items():
        markdown = re.sub(f"<!-- {marker} -->", lambda _, table=table: table(), markdown)
    return re.sub(r"^!\[(.*?)\]\((?:\.\./)?images/([\w-]+\.svg)\)$", _picture, markdown, flags=re.M)


def _picture(match: re.Match[str]) -> str:
    """A picture that has the page's colours as a part of the page; any other as it was."""
    text = (IMAGES / match[2]).read_text()
    return f"<figure>\n{text}</figure>" if 'class="wg-plot"' in text else match[0]


def _report() -> str:
    """The figures of the report that most is asked for, and where the others are; nothing where there is no report."""
    if not REPORT.exists():
        return ""
    report = json.loads(REPORT.read_text())
    machine, launch = report["machine"], report["launch"]
    plotted = {p["case"] for p in report["points"] if p["family"] != FAMILY}
    rows = [_row(c) for c in report["crossovers"] if c["case"] in plotted and c["pass"] != "forward + backward"]
    head = "| | pass | GPU faster from | with copies from | times as fast |"
    return (
        f"[The report]({REPORT.stem}.html){{target=_blank}} ([as JSON]({REPORT.name})): {machine['gpu']} beside "
        f"{machine['cpu']} with {machine['cores']} cores, {report['date']}. A compiled program of one small kernel "
        f"takes {seconds(launch['call'])} each in a row, and {seconds(launch['waited for'])} if it is waited for.\n\n"
        + "\n".join([head, "|---|---|---|---|---|", *rows])
    )


def _row(c: dict[str, Any]) -> str:
    """A line of the table: from which size on the GPU pays for an op or a model."""
    staying, copied = (start_of(c, way) for way in ("staying", "copied"))
    return (
        f"| {c['case']} ({c['unit']}) | {c['pass']} | {staying} | {copied} | {c['speedup']:.3g} at {short(c['at'])} |"
    )


TABLES = {
    "the report of bench": _report,
    "PyTorch's methods": methods_table,
    "PyTorch's functions": functions_table,
    "JAX's functions": jax_table,
    "the names of wengert.torch": torch_names,
    "the commands": commands,
}
"""What a marker stands for, by its text."""
