"""The measurements in bounded time: every case gets its share of what is left, and says what it left out.

Out: a dict that is JSON as it stands: the machine, its ceilings, what launches and copies cost, a point for every case,
size, pass and device, and from what size the GPU is faster. A time that cannot be right beside the others is measured
again, and marked if it stays.
"""

from __future__ import annotations

import datetime
import importlib.metadata
import math
import platform
from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import wengert as wg
from wengert.bench import consistency
from wengert.bench.build import build, calls
from wengert.bench.cases import MODELS, OPS, BenchOp, Model
from wengert.bench.every import EVERY
from wengert.bench.measure import Time, ceilings, copied, copies, launch, timed
from wengert.core import devices
from wengert.core.cores import available_cores
from wengert.core.devices import HOST, is_host
from wengert.runtime.debug.explain import flops, size_of
from wengert.runtime.static.compile import Compiled

AGAIN = 2  # how often a size with a time in doubt is measured again
BUILDING = 0.4  # of the time, at most, goes to compiling before anything is measured
TIME_WAS_UP = "time ran out"
Point = dict[str, Any]
Times = dict[int, float]  # by size the longest call


def measured(
    seconds: float = 280.0,
    only: Sequence[str] = (),
    tell: Callable[[str], None] = print,
    keep: Callable[[dict[str, Any]], None] = lambda report: None,
    known: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """All of it, in about this many seconds; `only` names families, or `models`. `keep` is given what is known so far.

    `known` is an earlier report of this machine: what it has is not measured again.
    """
    start = perf_counter()
    has_gpu = wg.cuda.is_available()
    ops = [op for op in (*OPS, *EVERY) if not only or op.family in only]
    cases: list[BenchOp | Model] = [*[model for model in MODELS if not only or "models" in only], *ops]
    report = checked(_begun(has_gpu) | _without(known or {}, [case.name for case in cases]))
    before = report["seconds"]
    turns = [turn for some in (_smaller, _larger) for turn in _turns(cases, some, report) if turn.sizes]
    build([turn[:3] for turn in turns if isinstance(turn.case, BenchOp)], start + seconds * BUILDING)
    tell(f"{perf_counter() - start:6.1f} s  built")
    weight = sum(turn.weight for turn in turns)
    for name, own in groupby(turns, lambda turn: turn.case.name):
        for turn in own:
            share = (start + seconds - perf_counter()) * turn.weight / weight
            found = list(_until(turn, _times(report, turn.case, turn.device), start + seconds, perf_counter() + share))
            report["points"] += [point for point in found if "seconds" in point]
            report["left out"] += [point for point in found if "seconds" not in point]
            measure_again(turn.case, turn.device, report["points"], start + seconds)
            weight -= turn.weight
        report["points"].sort(key=_place)
        report = checked(report) | {"seconds": before + perf_counter() - start}
        tell(f"{report['seconds']:6.1f} s  {name}")
        keep(report)
    return report


def checked(report: dict[str, Any]) -> dict[str, Any]:
    """The report with points in doubt marked, and the sizes from which the GPU is faster read off the others."""
    points = consistency.marked(report["points"])
    return {**report, "points": points, "crossovers": crossovers(points)}


def measure_again(case: BenchOp | Model, device: str, points: list[Point], end: float) -> None:
    """Measure sizes of a case with times in doubt again, up to `AGAIN` times, and keep the shorter times."""
    for _ in range(AGAIN):
        own = [point for point in points if (point["case"], point["device"]) == (case.name, device)]
        for size in sorted({point["size"] for point in consistency.doubts(own)}):
            if perf_counter() > end:
                return
            found = {point["pass"]: point for point in _passes(case, size, device)}
            for point in (point for point in own if point["size"] == size):
                again = found[point["pass"]]["seconds"]
                point |= {"seconds": min(point["seconds"], again), "times measured": point.get("times measured", 1) + 1}


def _passes(case: BenchOp | Model, size: int, device: str) -> list[Point]:
    """The points of a case for a size."""
    return list(of_op(case, size, device) if isinstance(case, BenchOp) else of_model(case, size, device))


def _without(known: dict[str, Any], cases: Sequence[str]) -> dict[str, Any]:
    """What was measured before; what was left out of some cases is not: it has its turn now."""
    if not known:
        return {}
    left = [point for point in known["left out"] if point["case"] not in cases]
    return {**{name: known[name] for name in ("points", "crossovers", "seconds")}, "left out": left}


def _smaller(sizes: Sequence[int]) -> Sequence[int]:
    """The sizes of the first round: all cases have these measured before others take their time."""
    return sizes[: -(-len(sizes) // 2)]


def _larger(sizes: Sequence[int]) -> Sequence[int]:
    """Those of the second."""
    return sizes[-(-len(sizes) // 2) :]


class _Turn(NamedTuple):
    """Some sizes of a case on a device."""

    case: Any
    device: str
    sizes: Sequence[int]

    @property
    def weight(self) -> float:
        """Its share of the time."""
        return float(self.case.weight * len(self.sizes) / len(self.case.sizes) / len(self.case.devices))


def _turns(
    cases: Sequence[BenchOp | Model], some: Callable[[Sequence[int]], Sequence[int]], report: dict[str, Any]
) -> Iterator[_Turn]:
    """The turns of a round, without what is known."""
    for case in cases:
        for device in case.devices:
            if device in report["ceilings"] or device == "python":
                known = _times(report, case, device)
                yield _Turn(case, device, [size for size in some(case.sizes) if size not in known])


def _begun(has_gpu: bool) -> dict[str, Any]:
    """A report of nothing but the machine."""
    return {
        "date": datetime.date.today().isoformat(),
        "machine": machine(),
        "ceilings": {device: ceilings(device) for device in ([HOST, "gpu"] if has_gpu else [HOST])},
        "launch": launch() if has_gpu else None,
        "copies": copies() if has_gpu else [],
        "points": [],
        "left out": [],
        "crossovers": [],
        "seconds": 0.0,
    }


_ORDER = {name: n for n, name in enumerate([*(model.name for model in MODELS), *(op.name for op in (*OPS, *EVERY))])}
_DEVICES = (HOST, "gpu", "python")


def _place(point: Point) -> tuple[int, int, int]:
    """Where a point stands among all."""
    return _ORDER.get(point["case"], len(_ORDER)), _DEVICES.index(point["device"]), point["size"]


def _times(report: dict[str, Any], case: BenchOp | Model, device: str) -> Times:
    """What is known of a case on a device."""
    times: Times = {}
    for point in report["points"]:
        if (point["case"], point["device"]) == (case.name, device):
            times[point["size"]] = max(times.get(point["size"], 0.0), point["seconds"])
    return times


def _until(turn: _Turn, times: Times, end: float, deadline: float) -> Iterator[Point]:
    """The points of a turn, smallest size first, until its time is up or a call takes too long.

    The first size of a case has until the `end`.
    """
    case, device, sizes = turn
    times = dict(times)
    for size in sizes:
        about = {"case": case.name, "unit": case.unit, "size": size, "device": device}
        if expected(times, size) > case.longest:
            yield {**about, "why": "a call would take too long"}
            times[size] = math.inf
        elif perf_counter() > (deadline if times else end):
            yield {**about, "why": TIME_WAS_UP}
            times[size] = max(times.values(), default=0.0)  # nothing is said of larger ones
        else:
            try:
                found = _passes(case, size, device)
            except Exception as error:  # the report goes on, and says so
                yield {**about, "why": f"it failed: {(str(error) or type(error).__name__).splitlines()[0]}"}
                return
            times[size] = max(point["seconds"] for point in found)
            yield from ({**about, "family": getattr(case, "family", "models"), **point} for point in found)


def expected(times: Times, size: int) -> float:
    """The seconds that a size should take: growing as they did from the two sizes before it, or with the size.

    >>> expected({}, 8), expected({2: 1.0}, 8), round(expected({1: 0.1, 2: 1.0}, 4), 6)
    (0.0, 4.0, 10.0)
    """
    smaller = sorted(known for known in times if known < size)
    if not smaller:
        return 0.0
    *_, last = smaller
    growth = size / last
    if len(smaller) > 1 and times[smaller[-2]] < times[last] < math.inf:
        rate = math.log(times[last] / times[smaller[-2]]) / math.log(last / smaller[-2])
        growth = max(growth, growth**rate)
    return times[last] * growth


def of_op(case: BenchOp, size: int, device: str) -> Iterator[Point]:
    """An op forward, and, if it has a derivative, forward and backward."""
    for name, compiled, given, arrays, results in calls(case, size, device):
        moving = copied(arrays, results) if device == "gpu" else 0.0
        time = timed(lambda compiled=compiled, given=given: compiled(*given), device)  # type: ignore[misc]
        yield {"pass": name, **_point(case, time, compiled), "copies": moving}


def of_model(case: Model, size: int, device: str) -> Iterator[Point]:
    """A model's forward pass, and a step of its training. In plain Python only what ends in time."""
    forward, train = case.make(size, devices.CUDA if device == "gpu" else device)
    for name, step in (("forward", forward), ("training step", train)):
        time = timed(step, device, 0.3)
        yield {"pass": name, "seconds": time.seconds, "host": time.host}


def _point(case: BenchOp, time: Time, compiled: Compiled) -> Point:
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


# --- from what size the GPU is faster -------------------------------------------------------------------------------


def crossovers(points: Sequence[Point]) -> list[dict[str, Any]]:
    """For every case and pass the size from which the GPU is faster: values staying there, or copied each time.

    Points in doubt count for nothing.
    """
    found = []
    passes: dict[tuple[str, str], list[Point]] = {}
    for point in consistency.trusted(points):
        passes.setdefault((point["case"], point["pass"]), []).append(point)
    for (case, name), own in passes.items():
        cpu = {p["size"]: p["seconds"] for p in own if is_host(p["device"])}
        gpu = {p["size"]: p for p in own if p["device"] == "gpu"}
        shared = [size for size in cpu if size in gpu]
        if not shared:
            continue
        staying = [(size, gpu[size]["seconds"] / cpu[size]) for size in shared]
        copied = [(size, (p["seconds"] + p["copies"]) / cpu[size]) for size in shared if "copies" in (p := gpu[size])]
        last = shared[-1]
        row = {"case": case, "pass": name, "unit": own[0]["unit"], "staying": crossing(staying), "sizes": len(shared)}
        if copied:
            row["copied"] = crossing(copied)
        found.append({**row, "least": shared[0], "speedup": cpu[last] / gpu[last]["seconds"], "at": last})
    return found


def crossing(ratios: Sequence[tuple[float, float]]) -> float | None:
    """The size from which a ratio stays below 1, between the sizes that were measured; None if it does not.

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
    found: dict[str, Any] = {"cpu": _processor(), "cores": available_cores(), "gpu": None}
    if wg.cuda.is_available():
        from wengert.backends.cuda.memory import opened

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
