"""What benchmarks/gpu.py found, in words and kept in `results/`."""

from __future__ import annotations

import importlib.metadata
import json
import sys
import time
from pathlib import Path
from typing import Any

from gpu_rows import ROWS

RESULTS = Path(__file__).parent / "results"
Found = dict[str, dict[str, Any]]  # by contender
PACKAGES = ("numpy", "torch", "jax", "cuda-bindings", "nvidia-cublas", "nvidia-cudnn-cu13", "nvidia-cudnn-frontend")


def shown(row: str, found: Found, top: int) -> str:
    """A row in words, and below it the kernels that take longest."""
    cells = []
    for name, result in found.items():
        time_text = f"{result['median'] * 1e3:.4f}" if "median" in result else "failed"
        host = [f"{seconds * 1e6:.1f}" for seconds in result.get("host") or ()]
        notes = [f"host {host[0]} us, median {host[1]}, after a wait {host[2]}"] if host else []
        notes += [f"{result['slots']} slots"] if "slots" in result else []
        notes += [f"{result['memory'] / 1e9:.2f} GB"] if "memory" in result else []
        notes += [result["tuning"]] if "tuning" in result else []
        notes += [result["error"]] if "error" in result else []
        cells.append(f"{name} {time_text} ({', '.join(notes)})")
    own = found["wengert"].get("median")
    others = [result["median"] for name, result in found.items() if name != "wengert" and "median" in result]
    ratio = f"  ratio {min(others) / own:.2f}" if own and others else ""
    aim = ROWS[row].aim
    met = "" if own is None or aim is None else "  aim met" if own * 1e3 <= aim else f"  aim {aim}"
    lines = [f"{ROWS[row].title:<52} {' | '.join(cells)}{ratio}{met}"]
    listed = found["wengert"].get("kernels", [])
    if top and listed:
        total = sum(kernel["ms"] for kernel in listed)
        lines.append(f"{'':4}{total:9.4f} ms in {sum(kernel['calls'] for kernel in listed)} kernels, one by one")
        for kernel in listed[:top]:
            share = f"{kernel['ms'] / total:>6.1%} {kernel['ceiling']:>5.0%} of the ceiling"
            lines.append(f"{'':4}{kernel['ms']:9.4f} ms {share}  {kernel['calls']} x {kernel['kernel']}")
    return "\n".join(lines)


def shown_first(row: str, contender: str, found: dict[str, Any]) -> str:
    """The first steps of a contender in words."""
    cells = []
    for kind, result in found.items():
        if "error" in result:
            cells.append(f"{kind} failed ({result['error']})")
            continue
        before = f"before it import {result['import']:.2f}, model and data {result['build']:.2f}"
        cells.append(f"{kind} {result['first']:.2f} s ({before})")
    return f"{ROWS[row].title:<52} {contender} {' | '.join(cells)}"


def write(part: str, results: dict[str, Any]) -> None:
    """Keep results as JSON and in words, with what they were measured on; the day's others stay."""
    path = RESULTS / f"gpu-{time.strftime('%Y-%m-%d')}.json"
    report: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    own = [found["wengert"]["cold"] if part == "first" else found["wengert"] for found in results.values()]
    report = {"unit": "s, bytes", "device": None} | report | {"versions": _versions()}
    report["device"] = next((result["device"] for result in own if "device" in result), report["device"])
    report[part] = report.get(part, {}) | results
    path.write_text(json.dumps(report, indent=2) + "\n")
    path.with_suffix(".txt").write_text(as_text(report))


def as_text(report: dict[str, Any]) -> str:
    """A whole report in words."""
    versions = ", ".join(f"{name} {version}" for name, version in report["versions"].items())
    lines = [f"{report['device']}, {time.strftime('%Y-%m-%d')}; {versions}. benchmarks/gpu.py, milliseconds a step."]
    lines += ["", *(shown(row, found, top=5) for row, found in report.get("results", {}).items())]
    tuned = report.get("tuned", {})
    lines += ["", "With what the heuristics choose, and with what timing the candidates does:"] if tuned else []
    lines += [shown(row, found, top=0) for row, found in tuned.items()]
    first = report.get("first", {})
    lines += ["", "Seconds of the first step:"] if first else []
    lines += [shown_first(row, name, result) for row, found in first.items() for name, result in found.items()]
    return "\n".join(lines) + "\n"


def _versions() -> dict[str, str]:
    found = {"python": ".".join(map(str, sys.version_info[:3]))}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found
