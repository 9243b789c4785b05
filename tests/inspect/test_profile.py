"""`wg.profile`: what is counted, by what; that the total is the time that passed; that it ends."""

import json
import time
from contextlib import contextmanager, nullcontext

import numpy as np
import pytest

import wengert as wg
from tests.inspect.bars import Bars
from wengert import cli
from wengert.core.evaluation import watch
from wengert.inspect import Profile, kernel_timeline, table


@contextmanager
def interpreted():
    before, wg.config.tier = wg.config.tier, "interpret"
    yield
    wg.config.tier = before


def chain(x):
    return wg.tanh(x @ x).sum()


def test_ops_of_the_interpreter_are_counted_with_their_bytes_and_operations():
    x = wg.tensor(np.eye(32, dtype=np.float32))
    with interpreted(), wg.profile() as p:
        chain(x).item()
    rows = p.rows("op")
    assert rows["matmul"].count == 1
    assert rows["matmul"].flops == 2 * 32**3
    assert rows["matmul"].moved == 3 * 32 * 32 * 4
    assert set(rows) == {"matmul", "tanh", "sum"}


def test_kernels_of_a_compiled_function_are_timed_one_by_one():
    x = wg.tensor(np.eye(64, dtype=np.float32))
    f = wg.compile(chain)
    expected = f(x).item()
    with wg.profile() as p:
        results = [f(x).item() for _ in range(3)]
    assert results == [expected] * 3
    rows = p.rows("kernel")
    assert {row.count for row in rows.values()} == {3}
    assert next(row for name, row in rows.items() if name.startswith("matmul")).flops >= 3 * 2 * 64**3
    assert any("test_profile.py" in name for name in p.rows("line"))


@pytest.mark.parametrize("compiled", [False, True])
def test_the_total_is_the_time_that_passed(compiled):
    x = wg.tensor(np.ones((192, 192), np.float32))
    f = wg.compile(chain) if compiled else chain
    f(x).item()
    wg.synchronize()  # what earlier tests left
    start = time.perf_counter()
    with wg.profile() as p:
        for _ in range(50):
            f(x).item()
    wall = time.perf_counter() - start
    assert abs(p.seconds - wall) < 0.05 * wall
    assert 0 < p.computing <= p.seconds
    assert p.computing + p.building <= p.seconds


@pytest.mark.parametrize("compiled", [False, True])
def test_time_belongs_to_modules_forward_and_backward(compiled):
    model = wg.nn.Sequential(wg.nn.Linear(8, 16), wg.nn.Tanh(), wg.nn.Linear(16, 4))

    def step(x):
        loss = model(x).sum()
        loss.backward()
        return loss

    with wg.profile() as p:
        (wg.compile(step) if compiled else step)(wg.ones((3, 8))).item()
    assert {"Sequential.0", "Sequential.2"} <= set(p.rows("module"))


def test_modules_of_what_was_recorded_before_are_known():
    model = wg.nn.Sequential(wg.nn.Linear(8, 16), wg.nn.Tanh(), wg.nn.Linear(16, 4))
    forward = wg.compile(lambda x: model(x).sum())
    x = wg.ones((3, 8))
    forward(x)
    profile = Profile()
    for _ in range(2):
        with profile:
            forward(x).item()
    assert {"Sequential.0", "Sequential.2"} <= set(profile.rows("module"))


def test_gradients_of_what_was_compiled_before_belong_to_their_modules():
    model = wg.nn.Sequential(wg.nn.Linear(8, 16), wg.nn.LayerNorm(16), wg.nn.Linear(16, 4))

    @wg.compile
    def step(x):
        loss = wg.exp(model(x)).sum()
        loss.backward()
        return loss

    x = wg.ones((3, 8))
    for _ in range(2):  # in the second call there are gradients from before
        step(x)
    with wg.profile() as before:
        step(x)
    with wg.profile() as inside:
        wg.compile(step.__wrapped__)(x)
    counts = [{name: row.count for name, row in p.rows("module").items()} for p in (before, inside)]
    assert counts[0] == counts[1] and counts[0]["Sequential.1"] >= 2
    assert set(before.rows("function")) == {"(function not known)"}
    assert {"linear", "layer norm"} <= set(inside.rows("function"))


def test_the_largest_values_at_the_peak_are_named():
    with wg.profile() as p:
        x = wg.ones((256, 256)) * 2.0
        y = (x + 1.0).sum()
        y.item()
    assert p.memory.peak >= 256 * 256 * 4
    assert "test_profile.py" in p.memory.text()


def test_the_trace_is_bounded_and_in_order(tmp_path, monkeypatch):
    monkeypatch.setattr(Profile, "bound", 5)
    with wg.profile() as p, interpreted():
        for _ in range(4):
            chain(wg.ones((4, 4))).item()
    told = json.loads(p.trace(tmp_path / "trace.json").read_text())
    events = [event for event in told["traceEvents"] if event["ph"] == "X"]
    assert len(events) == 5 and told["otherData"]["left out"] > 0
    starts = [event["ts"] for event in events]
    assert starts == sorted(starts) and all(event["dur"] >= 0 for event in events)
    assert sum(row.count for row in p.rows().values()) == 5 + p.left_out


def trained(compiled):
    model = wg.nn.Sequential(wg.nn.Linear(8, 16), wg.nn.Tanh(), wg.nn.Linear(16, 4))

    def step(x):
        loss = model(x).sum()
        loss.backward()
        return loss

    run = wg.compile(step) if compiled else step
    with wg.profile() as p:
        for _ in range(2):
            run(wg.ones((3, 8))).item()
    return p


@pytest.mark.parametrize("compiled", [False, True])
def test_arrows_of_the_trace_lead_from_forward_kernels_to_their_backward(compiled, tmp_path):
    with nullcontext() if compiled else interpreted():
        p = trained(compiled)
    told = json.loads(p.trace(tmp_path / "trace.json").read_text())["traceEvents"]
    spans = {event["ts"]: event for event in told if event["ph"] == "X"}
    starts = {event["id"]: event for event in told if event["ph"] == "s"}
    ends = {event["id"]: event for event in told if event["ph"] == "f"}
    assert starts.keys() == ends.keys() and len(starts) >= 4
    for number, end in ends.items():
        assert "backward" in spans[end["ts"]]["args"]["line"] or compiled  # a fused kernel has the line of its result
        assert spans[starts[number]["ts"]]["args"]["module"] == spans[end["ts"]]["args"]["module"] or compiled
        assert starts[number]["ts"] < end["ts"]


@pytest.mark.parametrize("compiled", [False, True])
def test_memory_is_a_counter_of_the_trace(compiled, tmp_path):
    with nullcontext() if compiled else interpreted():
        p = trained(compiled)
    told = json.loads(p.trace(tmp_path / "trace.json").read_text())["traceEvents"]
    counted = [event for event in told if event["ph"] == "C"]
    assert {event["name"] for event in counted} == {"memory on cpu"}
    assert 0 < max(event["args"]["bytes"] for event in counted) <= p.memory.peak


def test_the_timeline_has_a_lane_a_device_and_modules_to_colour(tmp_path):
    with interpreted():
        p = trained(False)
    bars = Bars()
    bars.feed(p.timeline(tmp_path / "timeline.html").read_text())
    assert bars.open == []
    host = bars.lanes[0]
    assert {kind for kind, _, _ in host} == {"compute"} and len(host) > 10
    assert any(told.startswith("matmul") and "Sequential.0, linear\n" in told for _, _, told in host)
    assert any("Sequential.2, linear, backward" in told and "moved" in told for _, _, told in host)
    text = (tmp_path / "timeline.html").read_text()
    assert (
        'data-module="Sequential.0"' in text
        and "memory on cpu: at most" in text
        and "http" not in text.split("<svg")[0]
    )


def test_short_kernels_of_one_module_are_one_bar():
    with interpreted(), wg.profile() as p:
        y = wg.ones((4,))
        for _ in range(50):
            y = y + 1
        y.tolist()
    p.seconds = 1000.0  # beside which every kernel is short
    bars = Bars()
    bars.feed(kernel_timeline.page(p))
    assert len(bars.lanes[0]) == 1 and "more" in bars.lanes[0][0][2]


def test_a_profile_ends_with_its_block_also_by_an_error():
    with pytest.raises(ZeroDivisionError), wg.profile():
        1 / 0
    assert watch.observer is None
    with wg.profile(), pytest.raises(wg.errors.ArgumentError, match="another profile"), wg.profile():
        pass
    assert watch.observer is None


def test_rows_by_something_unknown_say_what_there_is():
    with wg.profile() as p:
        pass
    with pytest.raises(wg.errors.ArgumentError, match="op, kernel, module, function, line"):
        p.rows("file")


SCRIPT = """
import sys
import wengert as wg

def f(x, y):
    return x * wg.sin(y)

if __name__ == "__main__":
    print("arguments", sys.argv[1:])
    print(f(wg.ones((8, 8)), wg.ones((8, 8))).sum().item())
"""


@pytest.fixture
def script(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


def test_the_command_profiles_a_script(script, capsys, tmp_path):
    trace = tmp_path / "trace.json"
    page = tmp_path / "timeline.html"
    arguments = ["--by", "op", "--by", "function", "--trace", str(trace), "--timeline", str(page)]
    assert cli.main(["profile", *arguments, str(script), "a", "--b"]) == 0
    shown = capsys.readouterr().out
    assert "arguments ['a', '--b']" in shown and "sin" in shown and "ceiling" in shown
    assert trace.exists() and "Kernel timeline" in page.read_text()


def test_several_tables_have_one_head_and_one_ceiling(script, capsys):
    assert cli.main(["profile", "--by", "op", "--by", "line", str(script), "a", "--b"]) == 0
    text = capsys.readouterr().out
    assert text.count(" share ") == 2
    assert text.count("building programs") == text.count("ceiling: ") == text.count("memory: ") == 1


def test_the_commands_options_may_follow_the_script(script, capsys, tmp_path):
    trace = tmp_path / "trace.json"
    assert cli.main(["profile", str(script), "a", "--trace", str(trace), "--b", "1", "--", "--top", "x"]) == 0
    assert "arguments ['a', '--b', '1', '--top', 'x']" in capsys.readouterr().out
    assert trace.exists()


def test_the_command_writes_a_page(script, capsys, tmp_path):
    out = tmp_path / "f.html"
    assert cli.main(["view", "--no-open", "--out", str(out), f"{script}:f", "2.0", "wg.ones(3)"]) == 0
    assert "sin(y)" in out.read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{script}"], "write script.py:function"),
        (["{script}:g"], "there are f"),
        (["{script}:f"], "missing 2 required positional arguments"),
        (["nowhere.py:f"], "no such script"),
    ],
)
def test_the_command_says_what_is_wrong(script, capsys, arguments, message):
    assert cli.main(["view", "--no-open", *[each.format(script=script) for each in arguments]]) == 1
    assert message in capsys.readouterr().err


def test_a_gpu_has_a_ceiling_of_its_own_where_float32_may_be_rounded(monkeypatch):
    monkeypatch.setattr(table, "_on_gpu", lambda device: table.Ceiling(1e12, 4e14 if wg.config.tf32 else 5e13, 8e14))
    product = table.ProfileRow(1, 1e-3, 0, int(2e11), device="cuda:7")
    assert table.ceiling("cuda:7").share(product) == 4.0
    monkeypatch.setattr(wg.config, "tf32", True)
    assert table.ceiling("cuda:7").share(product) == 0.5
