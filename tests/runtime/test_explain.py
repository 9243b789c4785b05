"""What compiled functions tell of themselves: the table, the graph after each pass as Python, the C, memory, times."""

from __future__ import annotations

import re

import numpy as np
import pytest

import wengert as wg
from wengert.ops.core import data
from wengert.plan import pipeline
from wengert.runtime.debug import explain
from wengert.runtime.debug.profile import profile, shown
from wengert.runtime.program import Interpreter

FEATURES, HIDDEN, CLASSES, BATCH = 5, 7, 3, 4
PASSES = [
    *(
        "recorded",
        "inline",
        "contiguous_collectives",
        "simplify",
        "cse",
        "loop_dce",
        "loop_invariants",
        "loop_inputs",
        "loop_sums",
        "loop_outputs",
        "loop_fusion",
        "loop_dce 2",
        "batch_matmul",
        "transpose_matmul",
        "gemv_to_reduction",
        "attention_layout",
        "factor",
    ),
    *("simplify 2", "cse 2", "onehot", "layout", "join_matmul", "align", "dce", "remat"),
]
STAGES = [stage.__name__ for stage in pipeline.STAGES]


@pytest.fixture
def forward():
    """A small MLP's forward pass, compiled and called once."""
    rng = np.random.default_rng(0)
    w1, w2 = (wg.tensor(rng.normal(size=s).astype("float32")) for s in ((FEATURES, HIDDEN), (HIDDEN, CLASSES)))
    b1 = wg.tensor(rng.normal(size=HIDDEN).astype("float32"))

    @wg.compile
    def mlp(x):
        hidden = wg.tanh(x @ w1 + b1)
        return wg.softmax(hidden @ w2, axis=1)

    mlp(wg.ones((BATCH, FEATURES)))
    return mlp


@pytest.fixture
def step():
    """A whole training step, compiled and called once."""
    wg.manual_seed(0)
    model = wg.nn.Sequential(wg.nn.Linear(FEATURES, HIDDEN), wg.nn.GELU(), wg.nn.Linear(HIDDEN, CLASSES))
    optimizer = wg.optim.Adam(model.parameters(), lr=0.01)

    @wg.compile
    def train(x, y):
        optimizer.zero_grad()
        loss = wg.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    train(wg.random.normal((BATCH, FEATURES)), wg.tensor([0, 1, 2, 0]))
    return train


def rows_of(compiled) -> dict[str, explain.StageRow]:
    replay = compiled._newest("test")
    return {row.name: row for row in explain.rows(replay.graph, replay.program)}


# --- the table ------------------------------------------------------------------------------------------------------


def test_the_table_counts_a_small_mlp(forward):
    rows = rows_of(forward)
    assert list(rows) == [*PASSES, *STAGES, "build"]
    matmuls = 2 * BATCH * FEATURES * HIDDEN + 2 * BATCH * HIDDEN * CLASSES
    hidden, scores = BATCH * HIDDEN, BATCH * CLASSES
    # add, tanh; of softmax the maximum, subtract, exp, sum, multiply, and a reciprocal a row
    assert rows["dce"].flops == matmuls + 2 * hidden + 5 * scores + BATCH
    assert rows["dce"].kernels == 10
    assert rows["fuse"].kernels == 3  # a product with bias and tanh; a product; softmax
    inputs = BATCH * FEATURES + FEATURES * HIDDEN + HIDDEN + HIDDEN * CLASSES
    between = 3 * hidden + 2 * scores  # the first product written, tanh of it and the second written and read
    assert rows["fuse"].moved == 4 * (inputs + between + scores)
    assert rows["fuse"].peak == 4 * 2 * hidden  # tanh reads one and writes another
    assert rows["arena"].peak >= rows["fuse"].peak


def test_passes_and_fusion_only_take_away(step):
    rows = rows_of(step)
    nodes = [rows[name].nodes for name in PASSES]
    assert nodes[0] > nodes[-1] and rows["recorded"].kernels > rows["cse 2"].kernels
    assert rows["fuse"].kernels < rows["dce"].kernels / 4
    assert rows["fuse"].moved < rows["dce"].moved / 2
    assert rows["fuse"].peak <= rows["dce"].peak


def test_explain_prints_the_table_and_returns_it(forward, capsys):
    text = forward.explain()
    assert capsys.readouterr().out == text + "\n"
    lines = text.splitlines()
    assert lines[0].split() == [
        "pass",
        "or",
        "stage",
        "nodes",
        "kernels",
        "bytes",
        "moved",
        "MFLOP",
        "peak",
        "memory",
        "time",
    ]
    fuse = next(line for line in lines if line.startswith("fuse")).split()
    assert fuse[:3] == ["fuse", str(rows_of(forward)["fuse"].nodes), "3"] and fuse[-1] == "ms"
    assert repr(text) == f"<printed, {len(lines)} lines>"


# --- the graph after a pass -----------------------------------------------------------------------------------------


def graph_after(compiled, name):
    replay = compiled._newest("test")
    if name == "recorded":
        return replay.graph
    report = dict(explain.named_reports(replay.program))[name]
    return report.graph


@pytest.mark.parametrize("name", PASSES)
def test_the_python_of_every_pass_runs_and_gives_the_same(step, name, capsys):
    text = step.explain(name)
    capsys.readouterr()
    scope = {}
    exec(text, scope)
    graph, recorded = graph_after(step, name), step.graph()
    rng = np.random.default_rng(1)
    arrays = []
    for node in recorded.inputs:
        integers = rng.integers(0, CLASSES, node.shape)
        arrays.append((integers if node.dtype.kind == "i" else rng.uniform(0.1, 0.9, node.shape)).astype(node.dtype))
    expected = recorded(*arrays)
    found = scope["graph"](*map(data, arrays), *graph.captured())
    assert len(found) == len(expected) > 10
    for node, array in zip(found, expected):
        np.testing.assert_allclose(wg.Tensor(node).numpy(), array, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("name", PASSES)
def test_the_users_lines_stand_beside_the_ops(step, name, capsys):
    text = step.explain(name)
    assert "test_explain.py:" in text and "loss = wg.cross_entropy(model(x), y)" in text
    assert re.search(r"backward of matmul at test_explain\.py:\d+", text) and "optimizer.step()" in text
    assert "unknown" not in text.split("def graph")[1]


@pytest.mark.parametrize("name", STAGES)
def test_the_plan_after_every_stage_is_shown(step, name, capsys):
    text = step.explain(name)
    assert capsys.readouterr().out == text + "\n"
    if name in ("expand", "host_outputs", "library_epilogues"):
        assert "nothing decided" in text  # on the CPU
    elif name not in ("fuse", "schedule", "donate", "tune"):
        assert "loops in C" in text and "test_explain.py:" in text and "slot" in text
    else:
        assert "matmul" in text


def test_what_is_not_finite_prints_as_python(capsys):
    @wg.compile
    def f(x):
        return wg.where(x > 0, x, -np.inf) + wg.where(x > 1, x, np.nan)

    f(wg.ones((3,)))
    scope = {}
    exec(f.explain("dce"), scope)
    result = scope["graph"](data(np.array([-1.0, 0.5, 2.0], "float32")))
    np.testing.assert_array_equal(wg.Tensor(result).numpy(), [np.nan, np.nan, 4.0])


def test_fuse_lists_the_kernels_and_marks_their_values(forward, capsys):
    text = forward.explain("fuse")
    kernels = [line for line in text.splitlines() if line.startswith("# kernel")]
    assert kernels[0] == "# kernel 0: a call: matmul [4, 7], tanh [4, 7]"
    assert kernels[1] == "# kernel 1: a call: matmul [4, 3]"
    assert kernels[2] == "# kernel 2: over (4, 3) reducing (1,): max [4, 1], sum [4, 1], multiply [4, 3]"
    softmax = [line for line in text.splitlines() if "# kernel 2  float32" in line]
    assert any("ops['max']" in line for line in softmax) and any("ops['multiply']" in line for line in softmax)


def test_refusals_say_why(capsys):
    @wg.compile
    def f(x):
        return wg.exp(x - wg.sum(x, axis=1, keepdims=True)).sum(axis=0)

    f(wg.ones((6, 5)))
    text = f.explain("refusals")
    assert "their spaces differ: (6, 5) reducing (1,), (6, 5) reducing (0,)" in text
    g = wg.compile(lambda x: wg.exp(x))
    g(wg.ones((2,)))
    assert g.explain("refusals") == "no merge of two groups was refused"


def test_an_unknown_pass_is_an_error_that_names_the_known_ones(forward):
    with pytest.raises(
        wg.errors.ArgumentError,
        match=r"no pass or stage 'fusion'; choose one of recorded, inline, .*dce, remat, .*fuse",
    ):
        forward.explain("fusion")


# --- the C and memory -----------------------------------------------------------------------------------------------


def test_source_is_the_c(forward):
    source = forward.source()
    assert source == forward.explain("build")
    assert "KERNEL kernel0(" in source and "wg_matmul_f32(" in source and "void piece0(" in source


def test_memory_prints_the_timeline_and_returns_it(forward, capsys):
    moments = forward.memory()
    out = capsys.readouterr().out
    assert [moment.step for moment in moments] == list(range(3))
    assert [moment.live for moment in moments] == [4 * n for n in (28 + 28, 28 + 12, 12)]
    size, what, line = moments[0].values[0]
    assert size == 112 and what.endswith("[4, 7]") and "wg.tanh(x @ w1 + b1)" in line
    assert "peak 224 B at step 0" in out and out.count("#") > 40


def test_it_is_the_latest_call_that_is_shown(forward, capsys):
    forward(wg.ones((9, FEATURES)))
    assert "float32[9, 7]" in forward.explain("dce")
    forward(wg.ones((BATCH, FEATURES)))
    assert "float32[4, 7]" in forward.explain("dce")


def test_a_compiled_method_shows_itself_too(capsys):
    class Scaler:
        @wg.compile
        def scaled(self, x):
            return x * 2

    scaler = Scaler()
    scaler.scaled(wg.ones((3,)))
    assert "multiply" in scaler.scaled.explain("dce")


def test_the_profile_times_every_kernel_and_changes_nothing_else(step):
    x, y = wg.random.normal((BATCH, FEATURES)), wg.tensor([0, 1, 2, 0])
    before = step(x, y).item()
    kernels = profile(step, x, y, repeats=3)
    assert len(kernels) == rows_of(step)["fuse"].kernels
    assert all(0 < kernel.seconds < 1 for kernel in kernels)
    first = kernels[0]
    assert first.name == f"matmul, multiply [{BATCH}, {FEATURES}] by [{FEATURES}, {HIDDEN}]"
    assert first.flops == 2 * BATCH * FEATURES * HIDDEN and first.rate.endswith("GFLOP/s")
    assert first.moved == 4 * (BATCH * FEATURES + FEATURES * HIDDEN + HIDDEN + 2 * BATCH * HIDDEN)
    assert shown(kernels, top=4).count(" ms ") == 4
    assert step(x, y).item() < before  # the calls were real steps, and its own program runs again


# --- when there is nothing to show ----------------------------------------------------------------------------------


@pytest.mark.parametrize("ask", ["explain", "source", "memory"])
def test_before_the_first_call_there_is_nothing_to_show(ask):
    with pytest.raises(wg.errors.ArgumentError, match=f"{ask}: the function has not been called yet"):
        getattr(wg.compile(lambda x: x), ask)()


def test_an_interpreted_program_says_so(monkeypatch, capsys):
    monkeypatch.setattr(wg.config, "tier", "interpret")
    f = wg.compile(lambda x: wg.exp(x) + 1)
    f(wg.ones((3,)))
    assert isinstance(f._newest("test").program, Interpreter)
    assert f.explain().startswith('interpreted, because of wg.config.tier = "interpret": ')
    assert "ops['exp']" in f.explain("recorded")
    for ask in (f.source, f.memory, lambda: f.explain("fuse")):
        with pytest.raises(wg.errors.ArgumentError, match=r"the program is interpreted, because of wg\.config\.tier"):
            ask()
