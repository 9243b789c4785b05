"""Draws the pictures of the page on the architecture, as SVG in the colours of the page around them.

    python docs/pictures.py [--check]

Comes in: boxes and arrows, below. Goes out: `docs/images/architecture-*.svg`. The site puts such a picture into its
page as it is (`hooks.py`), so that it follows the page's light or dark colours; alone it follows the system's.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

IMAGES = Path(__file__).parent / "images"
TABLE = Path(__file__).parent / "dynamic-static.md"

STYLE = """<style>
  .wg-plot { --ink: #333; --back: #fff; font: 13px system-ui, sans-serif; max-width: 100%; height: auto; }
  @media (prefers-color-scheme: dark) { .wg-plot { --ink: #ddd; --back: #1e2129; } }
  .wg-plot text { fill: var(--md-typeset-color, var(--ink)); }
  .wg-plot .strong { font-weight: 600; }
  .wg-plot .small { font-size: 11.5px; }
  .wg-plot .mono { font-family: ui-monospace, monospace; font-size: 12px; }
  .wg-plot rect { stroke-width: 1.2; rx: 5; }
  .wg-plot .user { fill: #ef8a3a2e; stroke: #ef8a3a; }
  .wg-plot .graph { fill: #7e57c22e; stroke: #8e6bd0; }
  .wg-plot .work { fill: #2e9e8f2e; stroke: #2e9e8f; }
  .wg-plot .plain { fill: #8882; stroke: #888; }
  .wg-plot path { fill: none; stroke: #888; stroke-width: 1.5; }
  .wg-plot .head { fill: #888; stroke: none; }
</style>"""


class Box(NamedTuple):
    """A box with a title, and lines of text below it."""

    x: float
    y: float
    width: float
    height: float
    title: str
    lines: Sequence[str] = ()
    kind: str = "plain"


def box(of: Box) -> str:
    """A box as SVG."""
    middle = of.x + of.width / 2
    top = of.y + of.height / 2 - 8 * len(of.lines) + 4.5
    parts = [f'<rect class="{of.kind}" x="{of.x}" y="{of.y}" width="{of.width}" height="{of.height}"/>']
    parts.append(f'<text class="strong" x="{middle}" y="{top}" text-anchor="middle">{escape(of.title)}</text>')
    for number, line in enumerate(of.lines, 1):
        kind = "mono" if line.startswith("=") else "small"
        text = escape(line.removeprefix("="))
        parts.append(f'<text class="{kind}" x="{middle}" y="{top + 16 * number}" text-anchor="middle">{text}</text>')
    return "\n".join(parts)


def arrow(*points: tuple[float, float], label: str = "", at: tuple[float, float] | None = None) -> str:
    """An arrow along points, with a label beside its middle."""
    (x0, y0), (x1, y1) = points[-2:]
    length = ((x1 - x0) ** 2 + (y1 - y0) ** 2) ** 0.5
    dx, dy = (x1 - x0) / length, (y1 - y0) / length
    line = " L".join(f"{x} {y}" for x, y in points)
    base = (x1 - 8 * dx, y1 - 8 * dy)
    tip = f"M{x1} {y1} L{base[0] - 4 * dy} {base[1] + 4 * dx} L{base[0] + 4 * dy} {base[1] - 4 * dx} Z"
    parts = [f'<path d="M{line}"/><path class="head" d="{tip}"/>']
    if label:
        x, y = at or ((x0 + x1) / 2 + 8, (y0 + y1) / 2 + 4)
        parts.append(f'<text class="small" x="{x}" y="{y}">{escape(label)}</text>')
    return "".join(parts)


def picture(width: int, height: int, title: str, parts: Sequence[str]) -> str:
    """A whole picture."""
    size = f'width="{width}" height="{height}" viewBox="0 0 {width} {height}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" class="wg-plot" {size} role="img" aria-label="{escape(title)}">'
    return "\n".join([head, STYLE, *parts, "</svg>\n"])


def data_flow() -> str:
    """From a function to values, and the graph in the middle of it."""
    parts = [
        box(Box(20, 20, 200, 62, "your function", ["=loss(model(x), y)"], "user")),
        box(Box(270, 20, 230, 62, "recording", ["shapes, dtypes and lines checked"], "plain")),
        box(
            Box(
                270,
                130,
                230,
                74,
                "one graph of nodes",
                ["immutable values: op, sources,", "shape, dtype, your line"],
                "graph",
            )
        ),
        box(Box(20, 136, 200, 62, "autodiff", ["reverse, forward, vmap", "graph in, graph out"], "graph")),
        box(
            Box(
                550, 130, 190, 74, "ops", ["each with its rules: shape,", "reference, derivative,", "batching"], "plain"
            )
        ),
        box(
            Box(270, 252, 230, 62, "compiler passes", ["graph to graph: simplify, cse,", "layout, remat, ..."], "work")
        ),
        box(Box(270, 362, 230, 62, "plan", ["kernels, launches, one arena", "of memory: data to print"], "work")),
        box(Box(550, 362, 190, 62, "kernels", ["loops written as C and CUDA,", "kernels by hand"], "plain")),
        box(Box(150, 472, 200, 62, "CPU backend", ["one library of C", "through gcc or clang"], "work")),
        box(Box(420, 472, 200, 62, "CUDA backend", ["launches, replayed as", "one CUDA graph"], "work")),
        box(Box(20, 252, 200, 62, "dynamic execution", ["pending nodes, when you look", "at a value"], "user")),
        box(Box(20, 362, 200, 62, "static execution", ["=wg.compile", "guards, then replay"], "user")),
        arrow((220, 51), (270, 51)),
        arrow((385, 82), (385, 130)),
        arrow((550, 167), (500, 167)),
        arrow((270, 157), (220, 157)),
        arrow((220, 180), (270, 180)),
        arrow((385, 204), (385, 252)),
        arrow((385, 314), (385, 362)),
        arrow((550, 393), (500, 393)),
        arrow((340, 424), (290, 472)),
        arrow((430, 424), (480, 472)),
        arrow((220, 283), (270, 283)),
        arrow((220, 385), (245, 385), (245, 295), (270, 295)),
    ]
    return picture(760, 550, "From a function through the graph, the compiler and the plan to a backend", parts)


class Counts(NamedTuple):
    """A line of the table of passes."""

    nodes: str
    kernels: str
    peak: str


def counts_after(stage: str) -> Counts:
    """The line of a pass or stage in the table that `regenerate.py` keeps true."""
    found = re.search(rf"^{stage} +(\d+) +(\d+) .*?([\d.]+ \wB)$", TABLE.read_text(), re.M)
    assert found, f"{TABLE.name} has no line for {stage}"
    return Counts(*found.groups())


def one_step() -> str:
    """What becomes of a training step: the program whose table is on the page on dynamic and static execution."""
    recorded, cleaned, fused = (counts_after(name) for name in ("recorded", "dce", "fuse"))
    steps = [
        Box(20, 60, 128, 96, "record", ["forward, backward", "and update:", f"{recorded.nodes} nodes"], "graph"),
        Box(174, 60, 128, 96, "simplify", ["algebra, cse,", "dead code:", f"{cleaned.nodes} nodes"], "work"),
        Box(328, 60, 128, 96, "fuse", ["values computed", "together:", f"{fused.kernels} kernels"], "work"),
        Box(482, 60, 128, 96, "plan memory", [f"{recorded.peak} of values", "at once, now in", fused.peak], "work"),
        Box(636, 60, 128, 96, "write and build", ["one C library;", "in the cache for", "the next process"], "work"),
    ]
    parts = [
        f'<text class="strong" x="20" y="30">{escape("a training step of a small MLP, from recording to C")}</text>'
    ]
    parts += [box(each) for each in steps]
    parts += [arrow((each.x + 128, 108), (each.x + 154, 108)) for each in steps[:-1]]
    parts += [
        box(Box(20, 206, 282, 44, "first call: all of it", [], "user")),
        box(Box(328, 206, 436, 44, "later calls: compare the guards, run the program", [], "user")),
        arrow((161, 206), (161, 160)),
        arrow((700, 206), (700, 160)),
    ]
    return picture(784, 270, "The stages of a compiled training step, with counts", parts)


def layers() -> str:
    """The packages, from those that users call to the core; imports go down."""
    rows = [
        ("what users run", "user", ["cli", "bench", "torch", "learn", "inspect", "train"]),
        ("what models are made of", "user", ["models", "data", "optim", "ode", "distributions", "nn"]),
        ("where it runs", "work", ["cuda", "distributed", "sparse", "runtime", "backends", "plan"]),
        ("what is generated", "work", ["kernels", "compiler"]),
        ("what is differentiated", "graph", ["solvers", "autodiff", "api", "tensor", "ops"]),
        ("what everything stands on", "plain", ["core: nodes, graphs, dtypes, errors, devices, trees"]),
    ]
    parts, y = [], 16
    for title, kind, names in rows:
        parts.append(f'<text class="small" x="16" y="{y + 25}">{escape(title)}</text>')
        width = (556 - 8 * (len(names) - 1)) / len(names)
        parts += [
            box(Box(190 + number * (width + 8), y, width, 40, name, [], kind)) for number, name in enumerate(names)
        ]
        y += 52
    parts.append(arrow((760, 20), (760, y - 14)))
    return picture(784, y + 4, "The packages in layers; imports go down", parts)


def one_node() -> str:
    """A node, the slot that names it, and an op's rules side by side."""
    parts = [
        box(
            Box(
                20,
                30,
                190,
                96,
                "Tensor: a slot",
                ["=w", "names a value, has .grad,", "can be assigned another"],
                "user",
            )
        ),
        box(
            Box(
                290,
                30,
                210,
                96,
                "Node: a value",
                ["=tanh(v3)  float32[5, 2]", "immutable; train.py:12", "knows its sources"],
                "graph",
            )
        ),
        box(
            Box(
                580,
                30,
                190,
                190,
                "Op: all its rules",
                ["shape and dtype", "NumPy reference", "derivative", "batching", "C and CUDA", "cost, samples"],
                "plain",
            )
        ),
        box(Box(290, 176, 96, 44, "v3", [], "graph")),
        box(Box(404, 176, 96, 44, "v2", [], "graph")),
        arrow((210, 78), (290, 78)),
        arrow((500, 78), (580, 78)),
        arrow((370, 126), (340, 176)),
        arrow((386, 198), (404, 198)),
        '<text class="small" x="225" y="70">names</text>',
        '<text class="small" x="522" y="70">is an</text>',
        '<text class="small" x="366" y="156">source</text>',
    ]
    return picture(790, 240, "A tensor names a node; a node applies an op to its sources", parts)


PICTURES: dict[str, Callable[[], str]] = {
    "architecture-flow.svg": data_flow,
    "architecture-step.svg": one_step,
    "architecture-layers.svg": layers,
    "architecture-node.svg": one_node,
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    texts = {IMAGES / name: draw() for name, draw in PICTURES.items()}
    stale = [path for path, text in texts.items() if not path.exists() or path.read_text() != text]
    names = ", ".join(path.name for path in stale)
    if parser.parse_args(arguments).check:
        sys.exit(f"{names}: run python docs/pictures.py" if stale else 0)
    for path in stale:
        path.write_text(texts[path])
    print(f"written: {names or 'nothing, all is up to date'}")


if __name__ == "__main__":
    main()
