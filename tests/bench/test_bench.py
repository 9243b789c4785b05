"""`wengert bench`: what it measures, how it reads the measurements, and its page."""

from __future__ import annotations

import json
import math
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.backends.emulated import EmulatedDriver, install
from tests.inspect.browser import CHROMIUM, Browser
from wengert.bench import build, commands, consistency, measure, run
from wengert.bench.cases import MODELS, OPS
from wengert.bench.every import EVERY
from wengert.bench.measure import Time
from wengert.bench.page import page
from wengert.core.errors import ArgumentError


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is called once, nothing is compiled, and all takes a millisecond."""

    def once(call: Any, device: str, budget: float = 0.0) -> Time:
        call()
        return Time(1e-3, 0.0)

    monkeypatch.setattr(wg.config, "tier", "interpret")
    monkeypatch.setattr(run, "timed", once)
    monkeypatch.setattr(run, "ceilings", lambda device: {"bandwidth": 1e10, "float32": 1e11})


def report(gpu: bool, doubtful: bool = False) -> dict[str, Any]:
    """A report as a machine might give it: the GPU is slow to start and quick to grow."""
    sizes = (10, 1000, 100_000)
    points = []
    for device in ("cpu", "gpu") if gpu else ("cpu",):
        for size in sizes:
            for case, name, factor in (
                ("sum <all>", "forward", 1),
                ("sum <all>", "forward + backward", 3),
                ("acos", "forward", 1),
            ):
                seconds = factor * (size * 1e-8 if device == "cpu" else 1e-5 + size * 1e-10)
                family = "every" if case == "acos" else "reduce"
                point = {"case": case, "family": family, "unit": "elements", "size": size, "device": device}
                point |= {"pass": name, "seconds": seconds, "host": 1e-6, "bytes": 4.0 * size, "flops": float(size)}
                points.append({**point, "copies": 1e-4} if device == "gpu" else point)
    points.append({**points[0], "case": "MLP", "family": "models", "device": "python", "bytes": 0, "flops": 0})
    if doubtful:  # the first size forward, longer than forward and backward and than the next size
        points[0] |= {"seconds": 1.0}
    ceilings = {"cpu": {"bandwidth": 1e10, "float32": 1e11}}
    if gpu:
        ceilings["gpu"] = {"bandwidth": 1e12, "float32": 1e13, "bfloat16": 1e14}
    found = {
        "date": "2026-01-01",
        "seconds": 1.0,
        "machine": {"cpu": "a CPU", "cores": 2, "gpu": "a GPU" if gpu else None, "numpy": "2"},
        "ceilings": ceilings,
        "launch": {"host": 1e-6, "call": 2e-6, "waited for": 1e-5} if gpu else None,
        "copies": [{"bytes": 4096, "upload": 1e-5, "upload pinned": 5e-6, "download": 1e-5}] if gpu else [],
        "points": points,
        "left out": [{"case": "sum", "unit": "elements", "size": 9, "device": "cpu", "why": "the time was up"}],
    }
    return run.checked(found)


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_every_op_says_what_it_moves_and_computes(op: Any, quick: None) -> None:
    forward, *both = run.of_op(op, op.sizes[0], "cpu")
    assert [p["pass"] for p in (forward, *both)] == ["forward", *["forward + backward"] * op.has_derivative]
    if not op.reads_all:
        assert "bytes" not in forward
        return
    _, arrays = op.make(op.sizes[0])
    size = wg.bfloat16.itemsize if op.dtype == "bfloat16" else 4
    assert forward["bytes"] >= sum(a.size * (size if a.dtype == np.float32 else 8) for a in arrays)
    assert all(math.isfinite(p["flops"]) for p in (forward, *both))


@pytest.mark.slow
def test_every_other_op_can_be_measured(quick: None) -> None:
    names = [op.name for op in (*OPS, *EVERY)]
    assert len(EVERY) > 180 and len(set(names)) == len(names)
    for op in EVERY:
        forward, *both = run.of_op(op, op.sizes[0], "cpu")
        assert forward["bytes"] > 0 and len(both) == op.has_derivative, op.name


@pytest.mark.parametrize("model", MODELS[:3], ids=lambda model: model.name)
def test_models_take_their_steps(model: Any, quick: None) -> None:
    for device in model.devices[:-1]:
        forward, train = run.of_model(model, 1, device)
        assert (forward["pass"], train["pass"]) == ("forward", "training step")


def test_plain_python_learns_as_the_tensors_do() -> None:
    _, train = MODELS[0].make(4, "python")
    losses = [train().data for _ in range(3)]
    assert losses[2] < losses[0]


def test_where_the_gpu_starts_to_pay() -> None:
    found = {c["pass"]: c for c in report(True)["crossovers"] if c["case"] == "sum <all>"}
    forward = found["forward"]
    assert 500 < forward["staying"] < 3000  # 1e-5 s are 1,000 elements of the CPU's time
    assert 5000 < forward["copied"] < 30_000
    assert forward["at"] == 100_000 and 45 < forward["speedup"] < 51


def turn(monkeypatch: pytest.MonkeyPatch, seconds: Any, *, end: float, deadline: float, **known: float) -> list[Any]:
    """The points of an op of four sizes that takes so many seconds."""
    case = OPS[0]._replace(sizes=(1, 10, 100, 1000))
    monkeypatch.setattr(run, "of_op", lambda case, size, device: iter([{"seconds": seconds(size)}]))
    times = {int(size.removeprefix("of_")): time for size, time in known.items()}
    sizes = [size for size in case.sizes if size not in times]
    return list(run._until(run._Turn(case, "cpu", sizes), times, end, deadline))


def test_sizes_that_take_too_long_are_left_out_and_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    points = turn(monkeypatch, lambda size: 1e-3 * size**2, end=math.inf, deadline=math.inf)
    assert [p["size"] for p in points if "seconds" in p] == [1, 10]
    assert [(p["size"], p["why"]) for p in points if "why" in p] == [
        (100, "a call would take too long"),
        (1000, "a call would take too long"),
    ]


def test_the_first_size_of_an_op_has_all_the_time_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    for end, found in ((math.inf, [None, *[run.TIME_WAS_UP] * 3]), (0.0, [run.TIME_WAS_UP] * 4)):
        late = turn(monkeypatch, lambda size: 1e-3, end=end, deadline=0.0)
        assert [p.get("why") for p in late] == found
    late = turn(monkeypatch, lambda size: 1e-3, end=math.inf, deadline=0.0, of_10=1e-3)
    assert [p.get("why") for p in late] == [run.TIME_WAS_UP] * 3


def test_a_report_can_be_completed(
    quick: None, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is measured twice, and points stand where they would in one run."""
    monkeypatch.setattr(run, "build", lambda *_: None)
    monkeypatch.setattr(run, "OPS", [op._replace(sizes=op.sizes[:3]) for op in OPS])
    measured: list[tuple[str, int]] = []

    def of_op(case: Any, size: int, device: str) -> Any:
        measured.append((case.name, size))
        return iter([{"pass": "forward", "seconds": 1e-3}])

    monkeypatch.setattr(run, "of_op", of_op)
    out = str(tmp_path / "bench.html")
    path = commands.bench(out, 1e-9, ["reduce"])
    assert not measured
    with monkeypatch.context() as hurried:  # half of the sizes have been measured
        hurried.setattr(run, "OPS", [op._replace(sizes=op.sizes[::2]) for op in run.OPS])
        commands.bench(out, 600.0, ["reduce"], more=True)
    assert measured and "continue with --more" in capsys.readouterr().out
    commands.bench(out, 600.0, ["reduce"], more=True)
    stored = json.loads(path.with_suffix(".json").read_text())
    assert not stored["left out"] and len(set(measured)) == len(measured) == len(stored["points"])
    names = [op.name for op in OPS]
    order = [(names.index(p["case"]), p["size"]) for p in stored["points"]]
    assert order == sorted(order) != [(names.index(name), size) for name, size in measured]
    commands.bench(out, 600.0, ["reduce"], more=True)
    again = json.loads(path.with_suffix(".json").read_text())
    assert all(again[name] == stored[name] for name in ("points", "left out", "crossovers", "seconds"))

    other = {**stored, "machine": {**stored["machine"], "cpu": "another"}}
    path.with_suffix(".json").write_text(json.dumps(other))
    with pytest.raises(ArgumentError, match=r"same machine; .* has cpu another, here it is"):
        commands.bench(out, 600.0, ["reduce"], more=True)
    with pytest.raises(ArgumentError, match=r"--more completes the report beside .*none\.html"):
        commands.bench(str(tmp_path / "none.html"), 5.0, [], more=True)


def test_without_a_gpu_the_cpu_is_reported_and_that_is_said(
    quick: None, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "OPS", [op._replace(sizes=op.sizes[:2]) for op in OPS])
    path = commands.bench(str(tmp_path / "bench.html"), 5.0, ["reduce"])
    said = capsys.readouterr().out
    stored = json.loads(path.with_suffix(".json").read_text())
    assert {p["device"] for p in stored["points"]} == {"cpu"} and stored["machine"]["gpu"] is None
    assert "no GPU found" in said and "no GPU was found" in path.read_text()
    assert "At what size a GPU becomes worth it" not in path.read_text()


def test_what_is_known_is_written_as_it_comes(quick: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def cut(case: Any, size: int, device: str) -> Any:
        if case.name == "acos":
            raise KeyboardInterrupt
        return of_op(case, size, device)

    of_op = run.of_op
    monkeypatch.setattr(run, "of_op", cut)
    monkeypatch.setattr(run, "build", lambda *_: None)
    monkeypatch.setattr(commands, "OFTEN", 0.0)
    with pytest.raises(KeyboardInterrupt):
        commands.bench(str(tmp_path / "bench.html"), 5.0, ["every"])
    assert {p["case"] for p in json.loads((tmp_path / "bench.json").read_text())["points"]} == {"abs"}
    assert "abs" in (tmp_path / "bench.html").read_text()


def test_bad_options_are_told() -> None:
    with pytest.raises(ArgumentError, match="no family 'nothing'; the families are models, elementwise"):
        commands.bench("x.html", 5.0, ["nothing"])
    with pytest.raises(ArgumentError, match="--seconds must be positive, not 0"):
        commands.bench("x.html", 0.0, [])


@pytest.mark.parametrize("gpu", [True, False])
def test_the_page_needs_nothing_else_and_its_words_are_safe(gpu: bool) -> None:
    text = page(report(gpu))
    assert "http://" not in text and "https://" not in text and " src=" not in text
    assert "sum &lt;all&gt;" in text and "<all>" not in text.split('id="data"')[0]
    assert ("At what size a GPU becomes worth it" in text) is gpu
    assert ("<td class=left>acos</td><td class=left>50 x at 100k</td>" in text) is gpu
    assert "Times in doubt" not in text and 'circle class="cpu doubt' not in text
    assert text.count('<text class="title"') == 3  # the sum, the model, the rooflines


def test_the_documentation_shows_the_figures_of_a_report(tmp_path: Path) -> None:
    hooks = runpy.run_path(str(Path(__file__).parents[2] / "docs/hooks.py"))
    fill, path = hooks["on_page_markdown"], tmp_path / "cpu-gpu-report.json"
    fill.__globals__["REPORT"] = path
    assert fill("before <!-- the report of bench -->") == "before "
    path.write_text(json.dumps(report(True)))
    text = fill("<!-- the report of bench -->")
    assert "(cpu-gpu-report.html)" in text and "a GPU beside a CPU with 2 cores" in text and "acos" not in text
    assert "| sum <all> (elements) | forward | from 1k | from 11.5k | 50 at 100k |" in text
    path.write_text(json.dumps({**report(True), "crossovers": []}))  # read off the points again
    assert fill("<!-- the report of bench -->") == text


def test_times_that_cannot_be_right_are_marked_and_count_for_nothing() -> None:
    found = report(True, doubtful=True)
    (point,) = [p for p in found["points"] if p.get("doubt")]
    assert (point["case"], point["size"], point["pass"]) == ("sum <all>", 10, "forward")
    assert point["doubt"].startswith("longer than ")
    plain = {(c["case"], c["pass"]): c for c in report(True)["crossovers"]}
    for c in found["crossovers"]:
        is_its = (c["case"], c["pass"]) == ("sum <all>", "forward")
        assert c["sizes"] == (2 if is_its else 3)
        if not is_its:
            assert c == plain[c["case"], c["pass"]]
    text = page(found)
    assert "1 of 19 times cannot be right" in text and text.count('<circle class="cpu doubt"') == 1
    assert "<td>1 s ?</td>" in text and "In doubt: longer than" in text


def test_smaller_sizes_in_doubt_and_noise() -> None:
    about = {"case": "sum", "device": "cpu", "pass": "forward", "unit": "elements"}

    def doubtful(*times: float) -> list[int]:
        points = [{**about, "size": 10**i, "seconds": time} for i, time in enumerate(times)]
        return [p["size"] for p in consistency.doubts(points)]

    assert doubtful(1e-6, 2e-6, 3e-6) == [] == doubtful(1.4e-6, 1e-6, 1e-6)
    assert doubtful(1e-6, 9e-6, 3e-6) == [10]
    assert doubtful(9e-6, 9e-6, 3e-6) == [1, 10]
    other = {**about, "device": "gpu", "size": 100, "seconds": 1e-9}
    assert consistency.doubts([{**about, "size": 1, "seconds": 1.0}, other]) == []


def test_a_time_in_doubt_is_measured_again_and_the_shorter_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    case = OPS[0]._replace(sizes=(1, 10))
    measured: list[int] = []
    times = iter((5e-6, 2e-7))

    def of_op(case: Any, size: int, device: str) -> Any:
        measured.append(size)
        return iter([{"pass": "forward", "seconds": next(times)}])

    monkeypatch.setattr(run, "of_op", of_op)
    about = {"case": case.name, "device": "cpu", "pass": "forward", "unit": "elements"}
    points = [{**about, "size": 1, "seconds": 9e-6}, {**about, "size": 10, "seconds": 1e-6}]
    run.measure_again(case, "cpu", points, math.inf)
    assert measured == [1, 1]
    assert [p["seconds"] for p in points] == [2e-7, 1e-6] and points[0]["times measured"] == 3
    run.measure_again(case, "cpu", points, math.inf)  # nothing is in doubt any more
    assert measured == [1, 1]
    points[0]["seconds"] = 9e-6
    run.measure_again(case, "cpu", points, 0.0)  # no time is left
    assert measured == [1, 1] and points[0]["seconds"] == 9e-6


def test_forward_and_backward_computes_the_value_too() -> None:
    """The gradient of a sum needs no sum: without the value among the results only the backward pass would be timed."""
    (case,) = [op for op in OPS if op.name == "sum"]
    _, both = build.calls(case, 256, "cpu")
    assert "sum" in {node.op.name for node in both.compiled.graph().nodes}
    assert [tuple(result.shape) for result in both.results] == [(), (256,)]


def test_a_stored_report_is_drawn_again(tmp_path: Path) -> None:
    stored = tmp_path / "old.json"
    old = {name: value for name, value in report(True, doubtful=True).items() if name != "crossovers"}
    old["points"] = [{k: v for k, v in p.items() if k != "doubt"} for p in old["points"]]
    stored.write_text(json.dumps({**old, "crossovers": [{"case": "an older form"}]}))
    assert commands.redraw(stored) == tmp_path / "old.html"
    assert "Times in doubt" in (tmp_path / "old.html").read_text()
    assert sum("doubt" in p for p in json.loads(stored.read_text())["points"]) == 1
    stored.write_text("[]")
    with pytest.raises(ArgumentError, match=r"old\.json is no report that"):
        commands.redraw(stored)


def test_copies_are_measured_with_pinned_memory_too(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        install(patch, EmulatedDriver())
        patch.setattr(measure, "COPIED", (4, 4096))
        found = measure.copies()
    assert [c["bytes"] for c in found] == [4, 4096]
    ways = ("upload", "upload pinned", "download", "download pinned")
    assert all(c[way] > 0 for c in found for way in ways)


@pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here")
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_in_a_browser(scheme: str, tmp_path: Path) -> None:
    path = tmp_path / "bench.html"
    path.write_text(page(report(True)))
    browser = Browser(tmp_path / "profile")
    try:
        browser.open(path, scheme)
        assert browser.errors == []
        assert browser.count_of("svg") == 4  # two panels, speedups, rooflines
        ink, paper = (browser.value(f"getComputedStyle(document.body).{name}") for name in ("color", "backgroundColor"))
        dark = sum(int(n) for n in paper[4:-1].split(",")[:3]) < 200
        assert ink != paper and dark is (scheme == "dark")
        assert browser.value("document.documentElement.scrollWidth <= innerWidth") is True
    finally:
        browser.close()
