"""The measurements as one page that needs nothing else: what came out in words, plots, tables, and the data itself."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any

from wengert.bench.every import FAMILY
from wengert.bench.plot import Axes, TimeCurve, bars, seconds, short

HERE = Path(__file__).parent
Report = dict[str, Any]
Point = dict[str, Any]
_MACHINE = ("cpu", "cores", "gpu")  # what is said of the machine besides versions
DEVICES = {"cpu": "CPU", "gpu": "GPU", "python": "plain Python"}


def page(report: Report) -> str:
    """The report as HTML."""
    has_gpu = bool(report["machine"]["gpu"])
    title = "CPU against GPU" if has_gpu else "On the CPU"
    shown = _without_every(report)
    parts = [
        f"<h1>{title}</h1>",
        _introduction(report),
        _ceilings(report),
        _costs(report) if has_gpu else "",
        _crossovers(shown) if shown["crossovers"] else "",
        _speedups(shown) if shown["crossovers"] else "",
        _times(shown) if shown["points"] else "",
        _roofline(shown),
        _every(report) if has_gpu else "",
        _table(report),
    ]
    data = json.dumps(report).replace("</", "<\\/")
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Wengert: {title}</title>
<style>
{(HERE / "page.css").read_text()}</style>
<body>
{"".join(parts)}
<script type="application/json" id="data">{data}</script>
<script>window.wengertReady = true;</script>
</body>
</html>
"""


def _without_every(report: Report) -> Report:
    """What is plotted: the ops and models that are measured in full."""
    points = [p for p in report["points"] if p["family"] != FAMILY]
    names = {p["case"] for p in points}
    return {**report, "points": points, "crossovers": [c for c in report["crossovers"] if c["case"] in names]}


def _introduction(report: Report) -> str:
    machine = report["machine"]
    gpu = machine["gpu"] or "no GPU was found, so only the CPU was measured"
    versions = ", ".join(f"{k} {v}" for k, v in machine.items() if k not in _MACHINE)
    points, left = len(report["points"]), len(report["left out"])
    out = f"; {left} were left out (the last table says why)" if left else ""
    return (
        f"<p>{escape(machine['cpu'])}, {machine['cores']} cores; {escape(gpu)}.<br>"
        f"<small>{escape(report['date'])}, {escape(versions)}. {points} measurements in {report['seconds']:.0f} seconds"
        f"{out}. Every time is the median of several spans of calls of a compiled function.</small></p>"
    )


def _rows(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows]
    top = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    return f'<div class="scroll"><table><tr>{top}</tr>{"".join(f"<tr>{line}</tr>" for line in lines)}</table></div>'


def _ceilings(report: Report) -> str:
    rows = [
        (
            DEVICES[device],
            short(found["bandwidth"], "B/s"),
            short(found["float32"], "FLOP/s"),
            short(found["bfloat16"], "FLOP/s") if "bfloat16" in found else "",
        )
        for device, found in report["ceilings"].items()
    ]
    return (
        "<h2>What the machine can do</h2><p>Memory: a large array, read and written once. Arithmetic: a large matrix "
        "product, the faster of ours and NumPy's on the CPU.</p>" + _rows(["", "memory", "float32", "bfloat16"], rows)
    )


def _costs(report: Report) -> str:
    cost = report["launch"]
    rows = [
        (
            short(c["bytes"], "B"),
            seconds(c["upload"]),
            short(c["bytes"] / c["upload"], "B/s"),
            seconds(c["download"]),
            short(c["bytes"] / c["download"], "B/s"),
        )
        for c in report["copies"]
    ]
    return (
        "<h2>What a launch and a copy cost</h2>"
        f"<p>A program of one small kernel costs {seconds(cost['host'])} of host time to launch, "
        f"{seconds(cost['call'])} back to back, and {seconds(cost['waited for'])} with a synchronisation. No call on "
        "this GPU is faster than that, however little it computes.</p>" + _rows(["copied", "up", "", "down", ""], rows)
    )


def _crossovers(report: Report) -> str:
    rows = [
        (c["case"], c["pass"], c["unit"], start_of(c, "staying"), start_of(c, "copied")) for c in report["crossovers"]
    ]
    head = ["", "pass", "size counts", "GPU is faster from", "with copies there and back"]
    return (
        "<h2>When the GPU becomes faster</h2><p>The size from which the GPU is faster, interpolated between the "
        "measured sizes. The last column adds the copies of all operands and results to every call; for models, "
        "whose values stay on the device, it is omitted.</p>" + _rows(head, rows)
    )


def start_of(c: dict[str, Any], name: str) -> str:
    """The size from which on the GPU pays, in words."""
    if name not in c:
        return ""
    found = c[name]
    return (
        "never, in the range measured"
        if found is None
        else (f"{short(found)}{', the least here' * (found == c['least'])}")
    )


def _speedups(report: Report) -> str:
    found = sorted(report["crossovers"], key=lambda c: -c["speedup"])
    rows = [
        (f"{c['case']}, {c['pass']}", c["speedup"], f"{c['case']}, {c['pass']}, at {short(c['at'])} {c['unit']}")
        for c in found
    ]
    return f'<h2>Speedup at the largest size that both measured</h2><div class="scroll">{bars(rows)}</div>'


# --- plots ----------------------------------------------------------------------------------------------------------


def _times(report: Report) -> str:
    names = list(dict.fromkeys(point["case"] for point in report["points"]))
    marks = {(c["case"], c["pass"]): c["staying"] for c in report["crossovers"]}
    key = "forward, a full line; forward and backward, or a step of training, a dashed one"
    if report["crossovers"]:
        key += "; forward on the GPU with its copies, dotted. The faint vertical line is where the GPU becomes faster"
    drawn = dict.fromkeys(point["device"] for point in report["points"])
    devices = ", ".join(f'<b class="{device}">{DEVICES[device]}</b>' for device in drawn)
    panels = [
        _panel([p for p in report["points"] if p["case"] == name], marks.get((name, "forward"))) for name in names
    ]
    return (
        f'<h2>Times over sizes</h2><p class="key">The time of a call on {devices}: {key}. '
        "Both axes are logarithmic. Hover over a point for its figures.</p>"
        f'<div class="panels">{"".join(panels)}</div>'
    )


def _panel(points: Sequence[Point], crossing: float | None) -> str:
    curves = []
    for device in dict.fromkeys(p["device"] for p in points):
        for name in dict.fromkeys(p["pass"] for p in points):
            own = [p for p in points if (p["device"], p["pass"]) == (device, name)]
            kind = device if name == "forward" else f"{device} both"
            curves.append(TimeCurve(kind, [(p["size"], p["seconds"], _said(p)) for p in own]))
    moved = [p for p in points if p.get("copies") and p["pass"] == "forward"]
    curves.append(TimeCurve("gpu copied", [(p["size"], p["seconds"] + p["copies"], _said(p)) for p in moved]))
    drawn = [(x, y) for curve in curves for x, y, _ in curve.points]
    axes = Axes(points[0]["case"], points[0]["unit"], "time", drawn, seconds)
    if crossing is not None:
        axes.mark(crossing, "gpu", f"the GPU is faster from {short(crossing)} on")
    for curve in curves:
        if curve.points:
            axes.add(curve)
    return axes.svg()


def _said(p: Point) -> str:
    """A point in words."""
    said = f"{DEVICES[p['device']]}, {p['pass']}, {short(p['size'])} {p['unit']}: {seconds(p['seconds'])}"
    if p.get("host"):
        said += f", host time {seconds(p['host'])}"
    if p.get("copies"):
        said += f", copies {seconds(p['copies'])}"
    if p.get("bytes"):
        rates = short(p["bytes"] / p["seconds"], "B/s"), short(p["flops"] / p["seconds"], "FLOP/s")
        said += f"; {rates[0]}, {rates[1]}"
    return said


def _roofline(report: Report) -> str:
    """Operations a second over operations for a byte, under what memory and arithmetic allow."""
    largest: dict[tuple[str, str, str], Point] = {}
    for p in report["points"]:
        if p.get("flops") and p["pass"] == "forward":
            largest[p["case"], p["pass"], p["device"]] = p
    dots = [(p["flops"] / p["bytes"], p["flops"] / p["seconds"], p) for p in largest.values()]
    if not dots:
        return ""
    left, right = min(x for x, _, _ in dots) / 2, max(x for x, _, _ in dots) * 2
    roofs = []
    for device, found in report["ceilings"].items():
        for kind in ("float32", "bfloat16"):
            if kind in found:
                knee = found[kind] / found["bandwidth"]
                xs = sorted({left, min(max(knee, left), right), right})
                roof = [(x, min(found[kind], x * found["bandwidth"]), "") for x in xs]
                roofs.append((f"{device} roof", f"{DEVICES[device]}, {kind}", roof))
    around = [(x, y) for x, y, _ in dots] + [(x, y) for _, _, roof in roofs for x, y, _ in roof]
    axes = Axes("", "floating-point operations per byte of operands and results", "FLOP/s", around, short, 1060, 480)
    for kind, words, roof in roofs:
        axes.add(TimeCurve(kind, roof))
        axes.text(roof[-1][0], roof[-1][1] * 1.8, words, kind.split()[0])
    for x, y, p in dots:
        axes.add(TimeCurve(p["device"], [(x, y, f"{p['case']}: {_said(p)}")], line=False))
        axes.text(x, y * 0.7, p["case"], p["device"])
    return (
        "<h2>Against the ceilings</h2><p>Forward passes at the largest size. Points below the slope are limited by "
        "memory, points below the flat part by arithmetic; the distance to the line is the room for improvement. "
        f'Ops whose operands fit into caches can be above it.</p><div class="scroll">{axes.svg()}</div>'
    )


def _every(report: Report) -> str:
    """A row for each of the other ops: how much faster the GPU is at the largest size, and from where on."""
    own = {p["case"] for p in report["points"] if p["family"] == FAMILY}
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for c in report["crossovers"]:
        if c["case"] in own:
            found.setdefault(c["case"], {})[c["pass"]] = c
    if not found:
        return ""
    passes = ("forward", "forward + backward")
    rows = [
        [name, *[cell for p in passes for cell in (_gain(by[p]) if p in by else ["", "", ""])]]
        for name, by in found.items()
    ]
    forward = [by["forward"] for by in found.values() if "forward" in by]
    faster = sum(c["speedup"] > 1 for c in forward)
    head = ["", *[text for p in passes for text in (p, "from", "with copies from")]]
    return (
        f"<h2>Every other op</h2><p>For {faster} of {len(forward)} more ops the GPU is faster forward, at the largest "
        "size that both measured. For each: the speedup at that size, the number of elements from which it is "
        f"faster, and that number with the copies.</p><details><summary>{len(found)} "
        f"ops</summary>{_rows(head, rows)}</details>"
    )


def _gain(c: dict[str, Any]) -> list[str]:
    return [f"{c['speedup']:.3g} x at {short(c['at'])}", start_of(c, "staying"), start_of(c, "copied")]


def _table(report: Report) -> str:
    def cells(p: Point) -> list[str]:
        ceiling = report["ceilings"].get(p["device"], {})
        moved = p["bytes"] / p["seconds"] if p.get("bytes") else 0.0
        done = p["flops"] / p["seconds"] if p.get("flops") else 0.0
        top = ceiling.get("bfloat16" if "bfloat16" in p["case"] else "float32", 0.0)
        return [
            p["case"],
            p["pass"],
            DEVICES[p["device"]],
            f"{short(p['size'])} {p['unit']}",
            seconds(p["seconds"]),
            seconds(p["host"]) if p.get("host") else "",
            seconds(p["copies"]) if p.get("copies") else "",
            short(moved, "B/s") if moved else "",
            f"{moved / ceiling['bandwidth']:.0%}" if moved and ceiling else "",
            short(done, "FLOP/s") if done else "",
            f"{done / top:.0%}" if done and top else "",
        ]

    head = ["", "pass", "on", "size", "time", "host", "copies", "memory", "of its", "arithmetic", "of its"]
    left = [(p["case"], DEVICES[p["device"]], f"{short(p['size'])} {p['unit']}", p["why"]) for p in report["left out"]]
    rest = f"<details><summary>what was left out</summary>{_rows(['', 'on', 'size', 'why'], left)}</details>"
    return (
        "<h2>Everything</h2><p>Bytes are those of operands and results, each counted once; further traffic counts "
        "against a kernel. The share is relative to the machine's peak.</p>"
        f"<details><summary>{len(report['points'])} rows</summary>{_rows(head, map(cells, report['points']))}</details>"
        + (rest if left else "")
    )
