"""The measurements as one page that needs nothing else: what came out in words, plots, tables, and the data itself.

In: a report of `run`, whose times in doubt are marked. They are drawn hollow, named in a table, and count for nothing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from html import escape
from pathlib import Path
from typing import Any

from wengert.bench.consistency import trusted
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
        _doubtful(report),
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
    doubtful = points - len(trusted(report["points"]))
    out += f"; {doubtful} are in doubt (marked, and listed below)" if doubtful else ""
    return (
        f"<p>{escape(machine['cpu'])}, {machine['cores']} cores; {escape(gpu)}.<br>"
        f"<small>{escape(report['date'])}, {escape(versions)}. {points} measurements in {report['seconds']:.0f} seconds"
        f"{out}. Every time is the median of several spans of calls of a compiled function.</small></p>"
    )


def _rows(head: Sequence[str], rows: Iterable[Sequence[str]], words: int = 1) -> str:
    """A table. The first columns, `words` of them, hold words and are aligned left; the others hold numbers."""

    def line(tag: str, cells: Sequence[str]) -> str:
        kinds = [f"<{tag}{' class=left' * (place < words)}>" for place in range(len(cells))]
        return "".join(f"{kind}{escape(cell)}</{tag}>" for kind, cell in zip(kinds, cells))

    body = "".join(f"<tr>{line('td', row)}</tr>" for row in rows)
    return f'<div class="scroll"><table><tr>{line("th", head)}</tr>{body}</table></div>'


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
    ways = [way for way in COPIES if any(way in c for c in report["copies"])]
    rows = [[short(c["bytes"], "B"), *[cell for way in ways for cell in _copied(c, way)]] for c in report["copies"]]
    head = ["copied", *[text for way in ways for text in (COPIES[way], "")]]
    note = "" if "upload pinned" in ways else " Pinned memory, which the GPU reads by itself, was not measured."
    return (
        "<h2>What a launch and a copy cost</h2>"
        f"<p>Launching a program of one small kernel costs {seconds(cost['host'])} of host time, "
        f"{seconds(cost['call'])} back to back, and {seconds(cost['waited for'])} with a synchronise. "
        "No GPU is faster than that, however little there is to compute.</p><p>Copies between the GPU and ordinary "
        f"(pageable) memory are staged by the driver, at a fraction of the bus's rate.{note}</p>" + _rows(head, rows, 0)
    )


COPIES = {
    "upload": "up, pageable",
    "upload pinned": "up, pinned",
    "download": "down, pageable",
    "download pinned": "down, pinned",
}


def _copied(c: dict[str, float], way: str) -> tuple[str, str]:
    """The time of a copy and its rate."""
    return (seconds(c[way]), short(c["bytes"] / c[way], "B/s")) if way in c else ("", "")


def _crossovers(report: Report) -> str:
    rows = [
        (c["case"], c["pass"], c["unit"], start_of(c, "staying"), start_of(c, "copied"), f"{c['sizes']}")
        for c in report["crossovers"]
    ]
    head = ["", "pass", "size counts", "GPU is faster", "with copies at every call", "sizes"]
    return (
        "<h2>At what size a GPU becomes worth it</h2><p>The size from which the GPU is faster, interpolated between "
        "the sizes that were measured on both; the last column says how many. The column before it adds the copies of "
        "all operands and results to every call. Models keep their values on the device, so it is empty for them.</p>"
        + _rows(head, rows, 5)
    )


def start_of(c: dict[str, Any], name: str) -> str:
    """The size from which the GPU is faster, in words."""
    if name not in c:
        return ""
    found = c[name]
    if found is None:
        return "never, in the range measured"
    return f"from the smallest size ({short(found)})" if found == c["least"] else f"from {short(found)}"


def _speedups(report: Report) -> str:
    found = sorted(report["crossovers"], key=lambda c: -c["speedup"])
    rows = [
        (f"{c['case']}, {c['pass']}", c["speedup"], f"{c['case']}, {c['pass']}, at {short(c['at'])} {c['unit']}")
        for c in found
    ]
    return (
        "<h2>How much faster, at the largest size that both did</h2><p>CPU time over GPU time, on a logarithmic "
        "axis.</p>"
        f'<div class="scroll">{bars(rows)}</div>'
    )


# --- plots ----------------------------------------------------------------------------------------------------------


def _times(report: Report) -> str:
    names = list(dict.fromkeys(point["case"] for point in report["points"]))
    marks = {(c["case"], c["pass"]): c["staying"] for c in report["crossovers"]}
    key = "forward, a full line; forward and backward, or a step of training, a dashed one"
    if report["crossovers"]:
        key += (
            "; forward on the GPU with its copies, dotted. The faint vertical line marks where the GPU becomes faster"
        )
    if len(trusted(report["points"])) < len(report["points"]):
        key += ". A hollow point is a time in doubt"
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
            hollow = frozenset(i for i, p in enumerate(own) if p.get("doubt"))
            curves.append(TimeCurve(kind, [(p["size"], p["seconds"], _said(p)) for p in own], hollow=hollow))
    moved = [p for p in points if p.get("copies") and p["pass"] == "forward"]
    curves.append(TimeCurve("gpu copied", [(p["size"], p["seconds"] + p["copies"], _said(p)) for p in moved]))
    drawn = [(x, y) for curve in curves for x, y, _ in curve.points]
    axes = Axes(points[0]["case"], points[0]["unit"], "time", drawn, seconds)
    if crossing is not None:
        axes.mark(crossing, "gpu", f"the GPU is faster from {short(crossing)}")
    for curve in curves:
        if curve.points:
            axes.add(curve)
    return axes.svg()


def _said(p: Point) -> str:
    """A point in words."""
    said = f"{DEVICES[p['device']]}, {p['pass']}, {short(p['size'])} {p['unit']}: {seconds(p['seconds'])}"
    if p.get("host"):
        said += f", host {seconds(p['host'])}"
    if p.get("copies"):
        said += f", copies {seconds(p['copies'])}"
    if p.get("bytes"):
        rates = short(p["bytes"] / p["seconds"], "B/s"), short(p["flops"] / p["seconds"], "FLOP/s")
        said += f"; {rates[0]}, {rates[1]}"
    return f"{said}. In doubt: {p['doubt']}" if p.get("doubt") else said


def _roofline(report: Report) -> str:
    """Operations a second over operations for a byte, under what memory and arithmetic allow."""
    largest: dict[tuple[str, str, str], Point] = {}
    for p in trusted(report["points"]):
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
        "<h2>Against the ceilings</h2><p>Forward passes at the largest size. A point below the slope waits for "
        "memory, one below the flat part for arithmetic; its distance from the line is what could still be gained. Ops "
        f'served by the caches can lie above it.</p><div class="scroll">{axes.svg()}</div>'
    )


def _every(report: Report) -> str:
    """A row for each of the other ops: how much faster the GPU is at the largest size, and from which size."""
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
    two = sum(c["sizes"] < 3 for c in forward)
    few = f" {two} of them were measured at fewer than three sizes, so where they cross is rough." if two else ""
    head = ["", *[text for p in passes for text in (p, "GPU is faster", "with copies")]]
    return (
        f"<h2>Every other op</h2><p>Of {len(forward)} more ops the GPU is faster at {faster} forward, at the largest "
        "size that both did. For each: how many times as fast at that size, the number of elements from which it is "
        f"faster, and the same with the copies.{few}</p><details><summary>{len(found)} ops</summary>"
        f"{_rows(head, rows, len(head))}</details>"
    )


def _gain(c: dict[str, Any]) -> list[str]:
    return [f"{c['speedup']:.3g} x at {short(c['at'])}", start_of(c, "staying"), start_of(c, "copied")]


def _doubtful(report: Report) -> str:
    """The times that cannot be right beside the others."""
    rows = [
        (
            p["case"],
            p["pass"],
            DEVICES[p["device"]],
            f"{short(p['size'])} {p['unit']}",
            seconds(p["seconds"]),
            p["doubt"],
            f"{p.get('times measured', 1)}",
        )
        for p in report["points"]
        if p.get("doubt")
    ]
    if not rows:
        return ""
    head = ["", "pass", "on", "size", "time", "why it is in doubt", "measured"]
    return (
        f"<h2>Times in doubt</h2><p>{len(rows)} of {len(report['points'])} times cannot be right beside the others, by "
        "more than a factor of 1.5: a forward pass that takes longer than forward and backward together, or a size "
        "that takes longer than a larger one. Something else ran on the machine, or another kernel serves the larger "
        "size. They are drawn hollow and are left out of all comparisons.</p>"
        f"<details><summary>{len(rows)} rows</summary>{_rows(head, rows, 6)}</details>"
    )


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
            seconds(p["seconds"]) + " ?" * bool(p.get("doubt")),
            seconds(p["host"]) if p.get("host") else "",
            seconds(p["copies"]) if p.get("copies") else "",
            short(moved, "B/s") if moved else "",
            f"{moved / ceiling['bandwidth']:.0%}" if moved and ceiling else "",
            short(done, "FLOP/s") if done else "",
            f"{done / top:.0%}" if done and top else "",
        ]

    head = ["", "pass", "on", "size", "time", "host", "copies", "memory", "of its", "arithmetic", "of its"]
    left = [(p["case"], DEVICES[p["device"]], f"{short(p['size'])} {p['unit']}", p["why"]) for p in report["left out"]]
    rest = f"<details><summary>what was left out</summary>{_rows(['', 'on', 'size', 'why'], left, 4)}</details>"
    return (
        "<h2>Everything</h2><p>Bytes are those of operands and results, each counted once; whatever else a kernel "
        "moves counts against it. Percentages are of what the machine can do. A question mark is a time in doubt.</p>"
        f"<details><summary>{len(report['points'])} rows</summary>"
        f"{_rows(head, map(cells, report['points']), 4)}</details>" + (rest if left else "")
    )
