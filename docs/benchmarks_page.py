"""Writes the tables and plots of the page on benchmarks from the latest results in `benchmarks/results`.

    python docs/benchmarks_page.py [--check]

Comes in: the JSON that `benchmarks/cpu.py`, `gpu.py` and `remat.py` keep. Goes out: what stands in
`docs/benchmarks.md` between `<!-- benchmark: NAME -->` and `<!-- end -->`, and a picture for each plot in
`docs/images`. `--check` says which files differ.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
RESULTS = DOCS.parent / "benchmarks" / "results"
PAGE = DOCS / "benchmarks.md"
BLOCK = re.compile(r"(?P<open><!-- benchmark: (?P<name>[\w-]+) -->\n).*?(?P<close><!-- end -->)", re.S)

CPU_ROWS = {
    "micrograd": "MLP 300-300-300-1, batch 100, SGD",
    "mlp": "MNIST MLP, Adam",
    "convnet": "MNIST ConvNet, Adam",
    "resnet18": "ResNet-18, CIFAR images",
    "gpt": "GPT, 4 layers",
    "gelu": "gelu(x*w+b)*sigmoid(x) with gradient",
    "softmax": "softmax with gradient",
    "layernorm": "layer norm with gradient",
}
GPU_ROWS = {
    "micrograd": "MLP 300-300-300-1, batch 100, SGD",
    "mlp": "MNIST MLP, batch 128, Adam",
    "convnet": "MNIST ConvNet, batch 512, tf32",
    "resnet18-cifar": "ResNet-18, CIFAR, batch 512, bf16",
    "resnet18": "ResNet-18, 224 x 224, batch 256, bf16",
    "resnet18-tf32": "the same, tf32",
    "gpt2": "GPT-2 124M, 16 x 1024 tokens, bf16",
    "resnet18-answer-1": "ResNet-18, inference, batch 1, bf16",
    "resnet18-answer-256": "ResNet-18, inference, batch 256, bf16",
    "gpt2-generate": "GPT-2, one token, batch 1, bf16",
    "gelu": "gelu(x*w+b)*sigmoid(x), 8192 x 8192",
    "gelu-backward": "the same with gradient",
    "softmax": "softmax, 8192 x 8192",
    "softmax-backward": "the same with gradient",
    "layernorm": "layer norm, 8192 x 8192",
    "layernorm-backward": "the same with gradient",
    "cross-entropy-backward": "cross-entropy with gradient",
}
CPU_COLUMNS = {
    "compiled": "Wengert, compiled",
    "dynamic": "Wengert, dynamic",
    "torch.compile": "torch.compile",
    "eager": "torch eager",
}
GPU_COLUMNS = {"wengert": "Wengert", "compile": "torch.compile", "eager": "torch eager", "jax": "JAX jit"}

Times = Mapping[str, Mapping[str, float]]
"""Seconds by row and contender."""


def latest(pattern: str) -> Any:
    """The newest result of a benchmark."""
    return json.loads(max(RESULTS.glob(pattern)).read_text())


def cpu_times() -> Times:
    """The best step on the CPU, in seconds."""
    found = latest("cpu-2*.json")["results"]
    return {
        row: {name: found[row][name]["best"] for name in CPU_COLUMNS if "best" in found[row][name]} for row in CPU_ROWS
    }


def gpu_times() -> Times:
    """The median step on a GPU, in seconds."""
    found = latest("gpu-all-*.json")["results"]
    return {row: {name: found[row][name]["median"] for name in GPU_COLUMNS if name in found[row]} for row in GPU_ROWS}


# --- tables ---------------------------------------------------------------------------------------------------------


def times_table(times: Times, rows: Mapping[str, str], columns: Mapping[str, str]) -> str:
    """Milliseconds, the fastest of each row in bold, and how many times as long the best rival takes."""
    first = next(iter(columns))
    lines = [
        f"| milliseconds | {' | '.join(columns.values())} | best other / Wengert |",
        "|---|" + "---:|" * (len(columns) + 1),
    ]
    for row, title in rows.items():
        found = times[row]
        best = min(found.values())
        cells = [_milliseconds(found[name], found[name] == best) if name in found else "" for name in columns]
        others = [seconds for name, seconds in found.items() if name not in (first, "dynamic")]
        lines.append(f"| {title} | {' | '.join(cells)} | {min(others) / found[first]:.2f} |")
    return "\n".join(lines)


def _milliseconds(seconds: float, bold: bool) -> str:
    text = f"{seconds * 1e3:.3g}"
    return f"**{text}**" if bold else text


def memory_table() -> str:
    """Peak memory on a GPU."""
    found = latest("gpu-all-*.json")["results"]
    rows = [row for row in ("resnet18", "resnet18-tf32", "resnet18-cifar", "gpt2") if row in found]
    lines = ["| gigabytes | Wengert | torch.compile | torch eager |", "|---|---:|---:|---:|"]
    for row in rows:
        cells = [f"{found[row][name]['memory'] / 1e9:.2f}" for name in ("wengert", "compile", "eager")]
        lines.append(f"| {GPU_ROWS[row]} | {' | '.join(cells)} |")
    return "\n".join(lines)


def remat_table() -> str:
    """Memory against time: what is kept, and what is computed again."""
    names = {
        "none": "everything kept",
        "remat": "`remat`, the default",
        "budget": "a `memory_budget`",
        "checkpoint": "`wg.checkpoint`",
        "both": "both",
    }
    lines = ["| | kept for the backward pass, MB | the process grows by, MB | step, ms |", "|---|---:|---:|---:|"]
    for name, result in latest("remat-*.json")["results"].items():
        lines.append(
            f"| {names[name]} | {result['kept'] / 1e6:.0f} | {result['grown'] / 1e6:.0f} | {result['best'] * 1e3:.0f} |"
        )
    return "\n".join(lines)


def machine(pattern: str) -> str:
    """What was measured on."""
    report = latest(pattern)
    versions = ", ".join(f"{name} {version}" for name, version in report["versions"].items())
    device = report.get("device") or f"{report['processor']}, {report['cores']} cores, {report['compiler']}"
    return f"{device}; {versions}. `benchmarks/results/{max(RESULTS.glob(pattern)).name}`."


# --- plots ----------------------------------------------------------------------------------------------------------

_STYLE = """<style>
  .wg-plot { --ink: #333; font: 12px system-ui, sans-serif; max-width: 100%; height: auto; }
  @media (prefers-color-scheme: dark) { .wg-plot { --ink: #ddd; } }
  .wg-plot text { fill: var(--md-typeset-color, var(--ink)); }
  .wg-plot .a { fill: #7e57c2; } .wg-plot .b { fill: #b39ddb; }
  .wg-plot .c { fill: #ef8a3a; } .wg-plot .d { fill: #9aa0a6; }
  .wg-plot line { stroke: #999; stroke-width: 1; }
</style>"""
_KINDS = {
    "wengert": "a",
    "compiled": "a",
    "dynamic": "b",
    "compile": "c",
    "torch.compile": "c",
    "eager": "d",
    "jax": "b",
}
LEFT, WIDTH, BAR, GAP, LIMIT = 245, 760, 13, 11, 8.0


def bars(times: Times, rows: Mapping[str, str], columns: Mapping[str, str]) -> str:
    """A picture: for each row a bar a contender, as long as its time in multiples of Wengert's."""
    first = next(iter(columns))
    widest = max(seconds / found[first] for found in times.values() for seconds in found.values())
    limit = min(LIMIT, widest)
    scale = (WIDTH - LEFT - 95) / limit
    parts, y = _legend(columns), 42.0
    for row, title in rows.items():
        found = {name: times[row][name] / times[row][first] for name in columns if name in times[row]}
        middle = y + len(found) * BAR / 2 + 4
        parts.append(f'<text x="{LEFT - 8}" y="{middle:.1f}" text-anchor="end">{escape(title)}</text>')
        for name, ratio in found.items():
            length = min(ratio, limit) * scale
            parts.append(
                f'<rect class="{_KINDS[name]}" x="{LEFT}" y="{y:.1f}" width="{length:.1f}" height="{BAR - 2}" rx="2"/>'
            )
            cut = " (bar cut)" if ratio > limit else ""
            label = f"{times[row][name] * 1e3:.3g} ms" if name == first else f"{ratio:.2f} x{cut}"
            parts.append(f'<text x="{LEFT + length + 5:.1f}" y="{y + BAR - 3:.1f}">{label}</text>')
            y += BAR
        y += GAP
    one = LEFT + scale
    parts.append(f'<line x1="{one:.1f}" y1="36" x2="{one:.1f}" y2="{y - GAP:.1f}" stroke-dasharray="3 3"/>')
    size = f'class="wg-plot" width="{WIDTH}" height="{y:.0f}" viewBox="0 0 {WIDTH} {y:.0f}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">\n{_STYLE}\n' + "\n".join(parts) + "\n</svg>\n"


def _legend(columns: Mapping[str, str]) -> list[str]:
    parts, x = [], LEFT
    for name, title in columns.items():
        parts.append(f'<rect class="{_KINDS[name]}" x="{x}" y="10" width="11" height="11" rx="2"/>')
        parts.append(f'<text x="{x + 16}" y="20">{escape(title)}</text>')
        x += 30 + 7 * len(title)
    return parts


PICTURES: dict[str, Callable[[], str]] = {
    "benchmarks-cpu.svg": lambda: bars(cpu_times(), CPU_ROWS, CPU_COLUMNS),
    "benchmarks-gpu.svg": lambda: bars(gpu_times(), GPU_ROWS, GPU_COLUMNS),
}
BLOCKS: dict[str, Callable[[], str]] = {
    "cpu": lambda: times_table(cpu_times(), CPU_ROWS, CPU_COLUMNS),
    "cpu-machine": lambda: machine("cpu-2*.json"),
    "gpu": lambda: times_table(gpu_times(), GPU_ROWS, GPU_COLUMNS),
    "gpu-machine": lambda: machine("gpu-all-*.json"),
    "gpu-memory": memory_table,
    "remat": remat_table,
    "remat-machine": lambda: machine("remat-*.json"),
}


def written() -> dict[Path, str]:
    """The text of every file that this command writes."""
    page = BLOCK.sub(lambda match: f"{match['open']}{BLOCKS[match['name']]()}\n{match['close']}", PAGE.read_text())
    return {PAGE: page, **{DOCS / "images" / name: make() for name, make in PICTURES.items()}}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    files = written()
    stale = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
    names = ", ".join(path.name for path in stale)
    if parser.parse_args(arguments).check:
        sys.exit(f"{names}: not what the results give; run python docs/benchmarks_page.py" if stale else 0)
    for path in stale:
        path.write_text(files[path])
    print(f"written: {names or 'nothing, all is up to date'}")


if __name__ == "__main__":
    main()
