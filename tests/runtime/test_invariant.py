"""`wg.config.invariant`: an example's numbers do not depend on the batch, sums have one order, tiers agree."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable, Collection, Iterable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.runtime.invariant_cases import CASES, HOST_CASES, Case
from wengert import nn
from wengert.backends.cpu import toolchain
from wengert.core.errors import CompilerError
from wengert.ops.fixed_order import BLOCK, tree_reduce

SIZES = (1, 7, 64)


@pytest.fixture(autouse=True)
def _invariant() -> Iterator[None]:
    wg.config.invariant = True
    yield
    wg.config.invariant = False


def bits(x: Any) -> Any:
    """An array's bytes, an example a row: -0.0 is not 0.0, and NaN is NaN."""
    array = np.ascontiguousarray(x.detach().numpy() if isinstance(x, wg.Tensor) else x)
    return array.reshape(len(array), -1).view(np.uint8) if array.ndim else array.reshape(1).view(np.uint8)


def batches(case: Case) -> tuple[tuple[Any, ...], list[tuple[int, tuple[Any, ...]]]]:
    """64 examples, and batches of 1 and 7 of them with where they begin."""
    whole = case.draw(np.random.default_rng(1), max(SIZES))
    places = [(0, 1), (5, 1), (63, 1), (0, 7), (30, 7), (57, 7)]
    return whole, [(at, tuple(array[at : at + n] for array in whole)) for at, n in places]


def run(function: Any, arrays: tuple[Any, ...]) -> Any:
    return bits(function(*map(wg.tensor, arrays)))


def require_the_same(function: Any, case: Case) -> Any:
    """The results of 64 examples, after comparing those of smaller batches with them."""
    whole, parts = batches(case)
    expected = run(function, whole)
    for at, part in parts:
        np.testing.assert_array_equal(run(function, part), expected[at : at + len(part[0])])
    return expected


# Of these three everyday runs have the results alone, and of the others the gradients alone.
LONG = ("resnet block", "conv", "grouped conv")


def everyday(names: Iterable[str], left_out: Collection[str]) -> list[Any]:
    """The names as parameters, of which those left out are slow."""
    return [pytest.param(name, marks=pytest.mark.slow) if name in left_out else name for name in names]


@pytest.mark.parametrize(
    "name", everyday(CASES, {name for name, case in CASES.items() if case.floats}.difference(LONG))
)
def test_an_examples_results_do_not_depend_on_its_batch(name: str) -> None:
    case = CASES[name]
    function = case.make()
    compiled = require_the_same(wg.compile(function), case)
    dynamic = require_the_same(function, case)
    np.testing.assert_array_equal(dynamic, compiled)


@pytest.mark.parametrize("name", everyday([name for name, case in CASES.items() if case.floats], LONG))
def test_an_examples_gradients_do_not_depend_on_its_batch(name: str) -> None:
    case = CASES[name]
    function = case.make()

    def loss(*arguments: Any) -> Any:
        return (function(*[wg.expand_dims(x, 0) for x in arguments]) ** 2).sum()

    each = wg.vmap(wg.grad(loss))
    compiled = require_the_same(wg.compile(each), case)
    whole, _ = batches(case)
    few = tuple(array[:7] for array in whole)
    np.testing.assert_array_equal(run(each, few), compiled[:7])


def weights(*sizes: int) -> dict[str, Any]:
    """The weights and biases of some layers."""
    rng = np.random.default_rng(9)
    pairs = list(pairwise(sizes))
    found = {f"weight{i}": rng.normal(size=pair) / 6 for i, pair in enumerate(pairs)}
    found |= {f"bias{i}": rng.normal(size=pair[1]) / 6 for i, pair in enumerate(pairs)}
    found["scale"] = 1 + rng.normal(size=sizes[1]) / 6
    return {name: wg.tensor(value.astype(np.float32)) for name, value in found.items()}


def network(values: dict[str, Any], x: Any) -> Any:
    """Two layers with a norm and a function between them."""
    x = wg.layer_norm(x @ values["weight0"] + values["bias0"], (values["scale"].shape[0],), values["scale"])
    return wg.gelu(x) @ values["weight1"] + values["bias1"]


@pytest.mark.parametrize("sizes", [(33, 40, 10), (100, 20, 1)])
def test_an_examples_weight_gradients_do_not_depend_on_its_batch(sizes: tuple[int, ...]) -> None:
    values = weights(*sizes)

    def loss(values: Any, x: Any) -> Any:
        return (network(values, wg.expand_dims(x, 0)) ** 2).sum()

    each = wg.compile(wg.vmap(wg.grad(loss), in_axes=(None, 0)))
    (whole,), parts = batches(Case(lambda: None, lambda rng, n: (rng.normal(size=(n, sizes[0])).astype(np.float32),)))
    expected = each(values, wg.tensor(whole))
    for at, (part,) in parts:
        found = each(values, wg.tensor(part))
        for key in values:
            np.testing.assert_array_equal(bits(found[key]), bits(expected[key])[at : at + len(part)])


# --- sums over the batch --------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_sums_over_micro_batches_are_halves_of_the_tree() -> None:
    """Four micro-batches, added as the tree adds them, have the bits of the whole batch: losses and gradients."""
    rows = 2 * BLOCK
    rng = np.random.default_rng(2)
    x, labels = rng.normal(size=(4 * rows, 33)).astype(np.float32), rng.integers(0, 10, 4 * rows)
    parameters = weights(33, 40, 10)

    def loss(values: Any, x: Any, labels: Any) -> Any:
        return wg.cross_entropy(network(values, x), labels, reduction="sum")

    step = wg.value_and_grad(loss)
    for way in (wg.compile(step), step):
        total, gradients = way(parameters, wg.tensor(x), wg.tensor(labels))
        found = [
            way(parameters, wg.tensor(x[i : i + rows]), wg.tensor(labels[i : i + rows]))
            for i in range(0, 4 * rows, rows)
        ]
        losses = [one[0].numpy() for one in found]
        assert (losses[0] + losses[1]) + (losses[2] + losses[3]) == total.numpy()
        for key in parameters:
            a, b, c, d = (one[1][key].numpy() for one in found)
            np.testing.assert_array_equal(bits((a + b) + (c + d)), bits(gradients[key]), key)


@pytest.mark.slow
def test_a_convolutions_weight_gradient_adds_up_images_by_the_tree() -> None:
    rng = np.random.default_rng(3)
    x = rng.normal(size=(8, 4, 9, 9)).astype(np.float32)
    weights = [rng.normal(size=shape).astype(np.float32) for shape in ((6, 4, 3, 3), (4, 1, 3, 3))]
    for weight, groups in zip(weights, (1, 4)):

        def loss(w: Any, x: Any, groups: int = groups) -> Any:
            return (wg.conv2d(x, w, groups=groups) ** 2).sum()

        by_weight = wg.compile(wg.grad(loss))
        whole = by_weight(wg.tensor(weight), wg.tensor(x)).numpy()
        a, b, c, d = (by_weight(wg.tensor(weight), wg.tensor(x[i : i + 2])).numpy() for i in range(0, 8, 2))
        np.testing.assert_array_equal(bits((a + b) + (c + d)), bits(whole))


@pytest.mark.parametrize("width", [1, 5, 130])
def test_an_embeddings_gradient_adds_up_rows_by_the_tree(width: int) -> None:
    """Some rows of the table are read by few of the tokens, some by none, one by most."""
    rng = np.random.default_rng(10)
    tokens = np.where(rng.random(8 * BLOCK) < 0.4, 3, rng.integers(0, 50, 8 * BLOCK))
    tokens[:BLOCK] = 7
    table = wg.tensor(rng.normal(size=(60, width)).astype(np.float32))
    weight = rng.normal(size=(8 * BLOCK, width)).astype(np.float32)
    by_table = wg.grad(lambda table, tokens, weight: (wg.embedding(tokens, table) * weight).sum())
    for way in (by_table, wg.compile(by_table)):
        parts = [
            way(table, wg.tensor(tokens[i : i + 2 * BLOCK]), wg.tensor(weight[i : i + 2 * BLOCK])).numpy()
            for i in range(0, 8 * BLOCK, 2 * BLOCK)
        ]
        whole = way(table, wg.tensor(tokens), wg.tensor(weight)).numpy()
        np.testing.assert_array_equal(bits((parts[0] + parts[1]) + (parts[2] + parts[3])), bits(whole))
        exact = np.zeros((60, width))
        np.add.at(exact, tokens, weight.astype(np.float64))
        np.testing.assert_allclose(whole, exact, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", HOST_CASES)
@pytest.mark.slow
def test_what_the_references_compute_does_not_depend_on_the_batch(name: str) -> None:
    """Ops without C, and the bodies of loops, which run by their references inside a program."""
    case = HOST_CASES[name]
    function = case.make()
    np.testing.assert_array_equal(require_the_same(wg.compile(function), case), run(function, batches(case)[0]))


def test_two_backward_passes_accumulate_what_one_gives() -> None:
    rng = np.random.default_rng(4)
    x = rng.normal(size=(2 * BLOCK, 20)).astype(np.float32)
    wg.random.manual_seed(0)
    layer = nn.Linear(20, 5)

    def gradient(*parts: Any) -> Any:
        layer.zero_grad()
        for part in parts:
            (layer(wg.tensor(part)) ** 2).sum().backward()
        return bits(layer.weight.grad)

    np.testing.assert_array_equal(gradient(x[:BLOCK], x[BLOCK:]), gradient(x))


@pytest.mark.parametrize(
    ("shape", "axes"),
    [((100, 7), (0,)), ((100, 7), (1,)), ((5, 6, 7, 8), (0, 2, 3)), ((40, 3, 50), (0, 2)), ((3, 400, 130), (0, 1))]
    + [((33,), (0,)), ((1,), (0,)), ((300_000,), (0,)), ((4, 1, 5), (1,)), ((2, 3, 4, 5, 6), (1, 3))],
)
@pytest.mark.parametrize("dtype", ["float32", pytest.param("float64", marks=pytest.mark.slow)])
def test_c_and_numpy_have_the_same_order(shape: tuple[int, ...], axes: tuple[int, ...], dtype: str) -> None:
    x = np.random.default_rng(5).normal(size=shape).astype(dtype)
    x.flat[0] = -0.0
    ways = {"sum": (np.add, -0.0), "prod": (np.multiply, 1.0)}
    ways |= {"max": (np.maximum, -np.inf), "min": (np.minimum, np.inf)}
    for name, (combine, neutral) in ways.items():
        found = wg.compile(lambda x, name=name: getattr(wg, name)(x, axis=axes))(wg.tensor(x)).numpy()
        np.testing.assert_array_equal(bits(found), bits(tree_reduce(x, axes, combine, neutral)), name)


def test_reductions_at_the_edges() -> None:
    assert wg.compile(lambda x: x.sum())(wg.zeros(0)).item() == 0.0
    assert np.signbit(wg.compile(lambda x: x.sum())(wg.tensor([-0.0])).item())
    nan = wg.tensor([[1.0, float("nan"), 3.0], [4.0, 5.0, 6.0]])
    for axis in (0, 1):
        found = wg.compile(lambda x, axis=axis: (x.max(axis=axis), x.min(axis=axis)))(nan)
        for got, reference in zip(found, (np.max, np.min)):
            np.testing.assert_array_equal(got.numpy(), reference(nan.numpy(), axis=axis))


# --- dynamic is compiled --------------------------------------------------------------------------------------------


def _perceptron() -> nn.Module:
    return nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 5))


def _pooled() -> nn.Module:
    layers = (nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(36, 5))
    return nn.Sequential(*layers)


@pytest.mark.slow
@pytest.mark.parametrize("make", [_perceptron, _pooled])
def test_how_a_program_is_cut_into_kernels_does_not_show(make: Callable[[], nn.Module]) -> None:
    """Training in one program, in dynamic execution, and op by op."""
    rng = np.random.default_rng(6)
    x, y = rng.normal(size=(24, 1, 8, 8)).astype(np.float32), rng.integers(0, 5, 24)

    def steps(compiled: bool) -> list[Any]:
        wg.random.manual_seed(0)
        model = make()
        optimizer = wg.optim.AdamW(model.parameters(), lr=0.01)

        def step(x: Any, y: Any) -> Any:
            optimizer.zero_grad()
            loss = wg.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        run = wg.compile(step) if compiled else step
        losses = [bits(run(wg.tensor(x), wg.tensor(y))) for _ in range(4)]
        return [*losses, *(bits(p) for p in model.parameters())]

    expected = steps(compiled=True)
    dynamic = steps(compiled=False)
    with wg.eager():
        one_by_one = steps(compiled=False)
    for a, b, c in zip(expected, dynamic, one_by_one):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(a, c)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_rounded_where_it_is_made(dtype: str) -> None:
    x = wg.tensor(np.random.default_rng(7).normal(size=(5, 40)).astype(np.float32)).to(getattr(wg, dtype))

    def function(x: Any) -> Any:
        y = wg.exp(x * 0.3) * 1.7 - x
        return (y @ y.mT).to(wg.float32), (y / y.sum(axis=1, keepdims=True)).to(wg.float32)

    expected = wg.compile(function)(x)
    with wg.eager():
        found = function(x)
    for a, b in zip(expected, found):
        np.testing.assert_array_equal(bits(a), bits(b))


# --- threads and runs ---------------------------------------------------------------------------------------------

TRAINING = """
import sys, hashlib
import numpy as np
import wengert as wg
from wengert import nn

wg.config.invariant = sys.argv[1] == "invariant"
rng = np.random.default_rng(0)
wg.random.manual_seed(0)
layers = nn.Conv2d(3, 8, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(392, 300), nn.GELU()
model = nn.Sequential(*layers, nn.LayerNorm(300), nn.Linear(300, 10))
optimizer = wg.optim.AdamW(model.parameters(), lr=0.01)
x, y = wg.tensor(rng.normal(size=(96, 3, 16, 16)).astype("f")), wg.tensor(rng.integers(0, 10, 96))

@wg.compile
def step(x, y):
    optimizer.zero_grad()
    loss = wg.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss

for _ in range(3):
    loss = step(x, y)
found = hashlib.sha256(loss.detach().numpy().tobytes())
for parameter in model.parameters():
    found.update(parameter.detach().numpy().tobytes())
print(found.hexdigest())
"""


@pytest.mark.slow
@pytest.mark.parametrize("setting", ["default", "invariant"])
def test_neither_the_number_of_threads_nor_the_run_shows(setting: str) -> None:
    """Training in processes of their own, on one thread, on two, on two again and on three."""
    command = [sys.executable, "-c", TRAINING, setting]
    found = [
        subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": threads}, capture_output=True, check=True).stdout
        for threads in ("1", "2", "2", "3")
    ]
    assert len(set(found)) == 1


# --- the switch -----------------------------------------------------------------------------------------------------


def test_the_switch_records_anew() -> None:
    function = wg.compile(lambda x: x.sum())
    x = wg.tensor(np.random.default_rng(8).normal(size=1000).astype(np.float32))
    function(x)
    assert "tree_sum" in function.explain("cse")
    wg.config.invariant = False
    function(x)
    assert "tree_sum" not in function.explain("cse")
    wg.config.invariant = True
    function(x)
    assert "tree_sum" in function.explain("cse")


def test_the_references_do_not_keep_the_promise_and_say_so() -> None:
    wg.config.tier = "interpret"
    x = wg.tensor([1.0, 2.0])
    with pytest.raises(CompilerError, match=r"config.invariant requires compiled programs, but config.tier"):
        (x * 2.0).numpy()
    with pytest.raises(CompilerError, match=r"Set config.invariant = False"):
        wg.compile(lambda x: x * 2.0)(x)


# --- vectors --------------------------------------------------------------------------------------------------------


def _has_fma() -> bool:
    flags = Path("/proc/cpuinfo").read_text().split() if Path("/proc/cpuinfo").exists() else []
    return "avx2" in flags and "fma" in flags


@pytest.mark.skipif(not _has_fma(), reason="compares what is built for AVX2 with what is built for this processor")
@pytest.mark.parametrize(
    "name", everyday(["mlp", "gpt block", "resnet block", "cross-entropy"], ("mlp", "resnet block"))
)
def test_the_width_of_vectors_does_not_show(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[name]
    function = case.make()
    arrays = case.draw(np.random.default_rng(11), 9)
    expected = run(wg.compile(function), arrays)
    flags = ["-march=haswell" if flag == "-march=native" else flag for flag in toolchain.FLAGS]
    monkeypatch.setattr(toolchain, "FLAGS", [flag for flag in flags if "prefer-vector" not in flag])
    toolchain._fingerprint.cache_clear()
    try:
        found = run(wg.compile(function), arrays)
    finally:
        toolchain._fingerprint.cache_clear()
    np.testing.assert_array_equal(found, expected)


def test_a_function_recorded_many_times_is_still_compiled() -> None:
    """By default the recordings beyond a few are interpreted; then their bits would be NumPy's."""
    holder = {"scale": 1.0}
    function = wg.compile(lambda x: wg.exp(x * holder["scale"]).sum())
    x = wg.tensor(np.random.default_rng(12).normal(size=1000).astype(np.float32))
    for k in range(12):
        holder["scale"] = 1.0 + k / 8
        expected = wg.compile(lambda x, scale=holder["scale"]: wg.exp(x * scale).sum())(x)
        np.testing.assert_array_equal(bits(function(x)), bits(expected))


def test_the_table_names_tests_that_exist() -> None:
    page = (Path(__file__).parents[2] / "docs" / "reproducibility.md").read_text()
    named = re.findall(r"`(tests/[\w/]+\.py)?::(\w+)`", page)
    assert len(named) > 15
    for file, name in named:
        text = (Path(__file__).parents[2] / (file or "tests/runtime/test_invariant.py")).read_text()
        assert f"def {name}(" in text, (file, name)
