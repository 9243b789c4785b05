"""The measurements in bounded time: every case gets its share of what is left, and says what it left out.

Out: a dict that is JSON as it stands: the machine, its ceilings, what launches and copies cost, a point for every case,
size, pass and device, and from where on the GPU is faster.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import math
import os
import platform
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

import wengert as wg
from wengert.bench.build import build, calls
from wengert.bench.cases import MODELS, OPS, Model, Op
from wengert.bench.every import EVERY
from wengert.bench.measure import Time, ceilings, copied, copies, launch, timed
from wengert.runtime.compile import Compiled
from wengert.runtime.explain import flops, size_of

BUILDING = 0.25  # of the time, at most, goes to compiling before anything is measured
TIME_WAS_UP = "the time was up"
Point = dict[str, Any]


def measured(
    seconds: float = 280.0,
    only: Sequence[str] = (),
    tell: Callable[[str], None] = print,
    keep: Callable[[dict[str, Any]], None] = lambda report: None,
) -> dict[str, Any]:
    """All of it, in about so many seconds; `only` names families, or `models`. `keep` is given what is known so far."""
    start = perf_counter()
    has_gpu = wg.cuda.is_available()
    present = ["cpu", "gpu"] if has_gpu else ["cpu"]
    report: dict[str, Any] = {
        "date": datetime.date.today().isoformat(),
        "machine": machine(),
        "ceilings": {device: ceilings(device) for device in present},
        "launch": launch() if has_gpu else None,
        "copies": copies() if has_gpu else [],
        "points": [],
        "left out": [],
    }
    ops = [op for op in (*OPS, *EVERY) if not only or op.family in only]
    build(
        [(op, device) for op in ops for device in op.devices if device != "gpu" or has_gpu], start + seconds * BUILDING
    )
    tell(f"{perf_counter() - start:6.1f} s  built")
    cases: list[Op | Model] = [*[model for model in MODELS if not only or "models" in only], *ops]
    for number, case in enumerate(cases):
        before = len(report["points"])
        devices = [device for device in case.devices if device != "gpu" or has_gpu]
        for turn, device in enumerate(devices):
            left = seconds - (perf_counter() - start)
            share = left * case.weight / sum(other.weight for other in cases[number:]) / (len(devices) - turn)
            deadlines = start + seconds, perf_counter() + share
            found = list(_until(case, device, deadlines, of_op if isinstance(case, Op) else of_model))
            report["points"] += [point for point in found if "seconds" in point]
            report["left out"] += [point for point in found if "seconds" not in point]
        report["crossovers"] = crossovers(report["points"])
        report["seconds"] = perf_counter() - start
        if len(report["points"]) > before:
            tell(f"{report['seconds']:6.1f} s  {case.name}")
        keep(report)
    return report


def _until(
    case: Any, device: str, deadlines: tuple[float, float], points: Callable[..., Iterator[Point]]
) -> Iterator[Point]:
    """The points of a case on a device, smallest size first, until the time is up or a call takes too long.

    The deadlines are that of the smallest size, and the one of the others.
    """
    times: list[float] = []  # the longest of each size
    for number, size in enumerate(case.sizes):
        about = {"case": case.name, "unit": case.unit, "size": size, "device": device}
        if number and _expected(times, case.sizes[:number], size) > case.longest:
            yield {**about, "why": "a call would take too long"}
            times.append(math.inf)
        elif perf_counter() > deadlines[number > 0]:
            yield {**about, "why": TIME_WAS_UP}
            times.append(times[-1] if times else 0.0)
        else:
            try:
                found = list(points(case, size, device))
            except Exception as error:  # the report goes on, and says so
                yield {**about, "why": f"it failed: {(str(error) or type(error).__name__).splitlines()[0]}"}
                return
            times.append(max(point["seconds"] for point in found))
            yield from ({**about, "family": getattr(case, "family", "models"), **point} for point in found)


def _expected(times: Sequence[float], sizes: Sequence[int], size: int) -> float:
    """The seconds that a size should take: growing as they did from the two sizes before it, or with the size."""
    growth = size / sizes[-1]
    if len(times) > 1 and times[-2] < times[-1] < math.inf:
        growth = max(growth, growth ** (math.log(times[-1] / times[-2]) / math.log(sizes[-1] / sizes[-2])))
    return times[-1] * growth


def of_op(case: Op, size: int, device: str) -> Iterator[Point]:
    """An op forward, and, if it has a derivative, forward and backward."""
    for name, compiled, given, arrays, results in calls(case, size, device):
        moving = copied(arrays, results) if device == "gpu" else 0.0
        time = timed(lambda compiled=compiled, given=given: compiled(*given), device)  # type: ignore[misc]
        yield {"pass": name, **_point(case, time, compiled), "copies": moving}


def of_model(case: Model, size: int, device: str) -> Iterator[Point]:
    """A model's forward pass, and a step of its training. In plain Python only what ends in time."""
    forward, train = case.make(size, "cuda" if device == "gpu" else device)
    for name, step in (("forward", forward), ("training step", train)):
        time = timed(step, device, 0.3)
        yield {"pass": name, "seconds": time.seconds, "host": time.host}


def _point(case: Op, time: Time, compiled: Compiled) -> Point:
    """A time, and what the program has to read, write and compute at least."""
    point = {"seconds": time.seconds, "host": time.host}
    if not case.reads_all:
        return point
    graph = compiled.graph()
    values = {*graph.inputs, *graph.outputs}
    return {
        **point,
        "bytes": sum(size_of(node) for node in values),
        "flops": sum(flops(node) for node in graph.nodes),
    }


# --- where the GPU starts to pay ------------------------------------------------------------------------------------


def crossovers(points: Sequence[Point]) -> list[dict[str, Any]]:
    """For every case and pass the size from which on the GPU is faster: values staying there, or copied each time."""
    found = []
    for case, name in dict.fromkeys((p["case"], p["pass"]) for p in points):
        own = [p for p in points if (p["case"], p["pass"]) == (case, name)]
        cpu = {p["size"]: p["seconds"] for p in own if p["device"] == "cpu"}
        gpu = {p["size"]: p for p in own if p["device"] == "gpu"}
        shared = [size for size in cpu if size in gpu]
        if not shared:
            continue
        staying = [(size, gpu[size]["seconds"] / cpu[size]) for size in shared]
        copied = [(size, (p["seconds"] + p["copies"]) / cpu[size]) for size in shared if "copies" in (p := gpu[size])]
        last = shared[-1]
        row = {"case": case, "pass": name, "unit": own[0]["unit"], "staying": crossing(staying)}
        if copied:
            row["copied"] = crossing(copied)
        found.append({**row, "least": shared[0], "speedup": cpu[last] / gpu[last]["seconds"], "at": last})
    return found


def crossing(ratios: Sequence[tuple[float, float]]) -> float | None:
    """The size from which on a ratio stays below 1, between the sizes that were measured; None if it does not.

    >>> crossing([(1, 100.0), (10, 10.0), (1000, 0.1)]), crossing([(1, 0.5), (2, 0.4)]), crossing([(1, 2.0)])
    (100.0, 1, None)
    """
    above = [i for i, (_, ratio) in enumerate(ratios) if ratio >= 1]
    if not above:
        return ratios[0][0]
    if above[-1] == len(ratios) - 1:
        return None
    (x0, y0), (x1, y1) = ratios[above[-1] : above[-1] + 2]
    share = math.log(y0) / (math.log(y0) - math.log(y1)) if y1 > 0 else 0.0
    return round(math.exp(math.log(x0) + share * (math.log(x1) - math.log(x0))), 6)


def machine() -> dict[str, Any]:
    """Who was measured."""
    found: dict[str, Any] = {"cpu": _processor(), "cores": len(os.sched_getaffinity(0)), "gpu": None}
    if wg.cuda.is_available():
        from wengert.backends.cuda.driver import opened

        found["gpu"] = opened("cuda:0").name
    found["python"], found["wengert"] = platform.python_version(), wg.__version__
    for package in ("numpy", "cuda-bindings", "nvidia-cuda-nvrtc", "nvidia-cublas", "nvidia-cudnn-frontend"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())
