"""CONTRIBUTING's recipes, followed by modules from elsewhere: an elementwise op, an op with its own kernel, a pass."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.ops import suite
from tests.ops.case import Case
from wengert.backends.cpu.program import build
from wengert.backends.cpu.toolchain import compiler
from wengert.compiler.passes import PASSES, optimize
from wengert.core import devices
from wengert.core.errors import CompilerError
from wengert.core.graph import Graph
from wengert.ops import registry
from wengert.ops.core import data, placeholder
from wengert.ops.elementwise import copysign, square
from wengert.plan import pipeline
from wengert.runtime.debug.explain import flops, kernels_of
from wengert.runtime.program import build as build_program

needs_compiler = pytest.mark.skipif(compiler() is None, reason="there is no C compiler to build kernels with")
Import = Callable[[str, str], ModuleType]


@pytest.fixture
def imported(tmp_path: Path) -> Iterator[Import]:
    """Import a module that is written down here; its ops leave the registry at the end."""
    before = set(registry)

    def make(name: str, text: str) -> ModuleType:
        path = tmp_path / f"{name}.py"
        path.write_text(text)
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    yield make
    for name in set(registry) - before:
        del registry[name]


def check_as_the_registry_does(case: Case) -> None:
    """What tests/ops/test_every_op.py asks of every sample."""
    call = suite.Call(case)
    assert case.numpy is not None
    suite.assert_equal(call(*call.tensors()), case.numpy(*case.args, **case.kwargs))
    wg.check_grads(call, call.tensors(), order=2)  # in both modes
    for places in suite.mapped_places(call):
        suite.assert_equal(*suite.over_lanes(call, places))
    for dtype in suite.TOLERANCES:
        suite.check_dtype(call, dtype)


# --- an elementwise op ----------------------------------------------------------------------------------------------

ELEMENTWISE = """
import numpy as np
from wengert.api.lift import lift_binary
from wengert.ops.recorders import Binary
from wengert.ops.tables import SMOOTH_REAL

QUADRATIC_MEAN = Binary(
    "test_quadratic_mean",
    lambda a, b: np.sqrt((a * a + b * b) / 2),
    (lambda y, a, b: a / (2 * y), lambda y, a, b: b / (2 * y)),
    SMOOTH_REAL,
    "The root of the mean of two squares.",
    c="wg_sqrt_{t}(({0} * {0} + {1} * {1}) / 2)",
    domain=((0.5, 2.0),),
)
quadratic_mean = lift_binary(QUADRATIC_MEAN)
"""


def test_the_recipe_of_an_elementwise_op(imported: Import, monkeypatch: pytest.MonkeyPatch) -> None:
    module = imported("quadratic_mean", ELEMENTWISE)
    op = module.QUADRATIC_MEAN
    monkeypatch.setattr(wg, op.name, module.quadratic_mean, raising=False)
    samples = list(op.samples())
    assert len(samples) == 5 and all(len(operands) == 2 for operands, _ in samples)
    for operands, attributes in samples:
        check_as_the_registry_does(Case(op.name, operands, attributes, numpy=op.numpy))
    assert (op.kind, op.cost, op.ulp, op.can_fail) == ("elementwise", 10, 4, False)


@needs_compiler
def test_an_elementwise_op_from_elsewhere_is_fused_and_counted(
    imported: Import, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wg.config, "tier", "compile")
    module = imported("quadratic_mean", ELEMENTWISE)
    x, y = placeholder((64, 32), wg.float32), placeholder((64, 32), wg.float32)
    mean = module.QUADRATIC_MEAN(x + 1.0, y)
    program: Any = build(Graph([x, y], [mean * 2.0]))
    assert len(kernels_of(program)) == 1
    assert flops(mean) == 64 * 32

    function = lambda a, b: module.quadratic_mean(a + 1.0, b) * 2.0
    a, b = (wg.tensor(np.random.default_rng(k).uniform(0.5, 2, (64, 32)).astype(np.float32)) for k in range(2))
    compiled = wg.compile(function)
    np.testing.assert_allclose(compiled(a, b).numpy(), interpreted(function, a, b), rtol=1e-6)
    last = [line for line in str(compiled.explain()).splitlines() if line.startswith("build")]
    assert last and " 1 " in last[0]  # one kernel


def interpreted(function: Callable[..., wg.Tensor], *arguments: wg.Tensor) -> Any:
    """The result op by op, by the references."""
    before, wg.config.tier = wg.config.tier, "interpret"
    try:
        return function(*arguments).numpy()
    finally:
        wg.config.tier = before


def test_a_new_elementwise_op_touches_three_files() -> None:
    """The op, its public name and the changelog: the registry's tests, the benchmarks and the kernels find it."""
    root = Path(__file__).parents[1]
    searched = [*(root / "src").rglob("*.py"), *(root / "src").rglob("*.h"), *(root / "src").rglob("*.cuh")]
    searched += [*(root / "tests").rglob("*.py"), *(root / "benchmarks").rglob("*.py"), root / "CHANGELOG.md"]
    naming = {path.relative_to(root).as_posix() for path in searched if re.search(r"\blogaddexp2\b", path.read_text())}
    naming -= {"tests/test_recipes.py", "tests/structure.py", "tests/test_structure.py"}  # which count them
    naming -= {
        "src/wengert/torch/floats.py",
        "tests/test_numpy_protocol.py",
    }  # other libraries' names, where they have one
    assert naming == {"CHANGELOG.md", "src/wengert/api/functions.py", "src/wengert/ops/exponential.py"}


# --- an op with a kernel of its own ---------------------------------------------------------------------------------

OPAQUE = """
import numpy as np
from wengert.api.lift import lift
from wengert.core.dtypes import float32, float64
from wengert.kernels.c_ops import CCall, CKernel
from wengert.kernels.writer import stored_type
from wengert.kernels.registry import register
from wengert.ops.movement import expand_dims
from wengert.ops.op import Op, each_batched
from wengert.ops.reduce import sum


def over_lanes(y, sources, batched):
    a, b = each_batched(sources, batched)
    return expand_dims(a, 2) * expand_dims(b, 1)


def samples():
    for n, m in ((3, 4), (1, 2), (5, 1)):
        yield (np.linspace(0.5, 2.0, n), np.linspace(-1.0, 1.0, m)), {}


OUTER = Op(
    "test_outer",
    infer=lambda a, b: ((a.shape[0], b.shape[0]), a.dtype),
    numpy=np.outer,
    vjp=(lambda g, y, a, b: sum(g * b, axis=1), lambda g, y, a, b: sum(g * expand_dims(a, 1), axis=0)),
    multilinear=(0, 1),
    batch=over_lanes,
    expensive=True,
    flops=lambda node: node.size,
    can_fail=False,
    samples=samples,
)
outer = lift(lambda a, b: OUTER(a, b))


def call(node, pointer):
    if node.dtype not in (float32, float64):
        return None
    kind, (n, m), (a, b) = stored_type(node.dtype), node.shape, map(pointer, node.sources)
    element = f"(({kind} *){pointer(node)})[i * {m}L + j] = (({kind} *){a})[i] * (({kind} *){b})[j];"
    return CCall(f"for (long i = 0; i < {n}; i++) for (long j = 0; j < {m}; j++) {element}")


register(OUTER, c=CKernel(call))
"""


def test_the_recipe_of_an_opaque_op(imported: Import, monkeypatch: pytest.MonkeyPatch) -> None:
    module = imported("outer", OPAQUE)
    monkeypatch.setattr(wg, "test_outer", module.outer, raising=False)
    for operands, attributes in module.OUTER.samples():
        check_as_the_registry_does(Case("test_outer", operands, attributes, numpy=np.outer))
    assert module.OUTER.kind == "opaque"


@needs_compiler
def test_the_recipe_of_a_kernel(imported: Import, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wg.config, "tier", "compile")
    module = imported("outer", OPAQUE)
    a, b = placeholder((6,), wg.float32), placeholder((7,), wg.float32)
    product = module.OUTER(a + 1.0, b)
    program: Any = build_program(Graph([a, b], [product * 3.0]))
    assert [step.host_op for step in program.steps] == [None] * len(program.steps)  # nothing runs by its reference
    assert "i * 7L + j" in program.source
    assert flops(product) == 42

    function = lambda a, b: module.outer(a + 1.0, b) * 3.0
    x, y = wg.tensor(np.arange(6, dtype=np.float32)), wg.tensor(np.arange(7, dtype=np.float32))
    np.testing.assert_array_equal(wg.compile(function)(x, y).numpy(), interpreted(function, x, y))
    half = [t.astype(wg.float16) for t in (x, y)]  # no C for it: the reference
    np.testing.assert_array_equal(wg.compile(function)(*half).numpy(), interpreted(function, *half))


# --- a pass ---------------------------------------------------------------------------------------------------------

PASS = '''
from wengert.compiler.rewrite import made_by, rewrite
from wengert.core.dtypes import float64
from wengert.ops.core import cast
from wengert.ops.elementwise import copysign, square


def _square_of_copysign(node):
    """The square does not see a sign."""
    found = made_by(node, square) and made_by(node.sources[0], copysign)
    return square(node.sources[0].sources[0]) if found else None


def drop_signs(graph, target):
    """The graph without signs that a square drops."""
    return rewrite(graph, _square_of_copysign)


def widen(graph, target):
    """A fault: the square has another dtype."""
    return rewrite(graph, lambda node: cast(node, float64) if made_by(node, square) else None)
'''


def test_the_recipe_of_a_pass(imported: Import) -> None:
    module = imported("drop_signs", PASS)
    x, y = placeholder((4,), wg.float32), placeholder((4,), wg.float32)
    graph = Graph([x, y], [square(copysign(x, y)) + 1.0])
    passes = (*PASSES[:2], module.drop_signs, *PASSES[2:])

    optimized, reports = optimize(graph, passes)
    report = next(report for report in reports if report.name == "drop_signs")
    assert report.rewrites == 1
    assert "copysign" not in [node.op.name for node in optimized.nodes]
    kept, _ = optimize(graph, passes, off=("drop_signs",))
    assert "copysign" in [node.op.name for node in kept.nodes]
    stopped, _ = optimize(graph, passes, fuel=0)
    assert "copysign" in [node.op.name for node in stopped.nodes]
    values = np.array([-1.5, 0.0, 2.0, -0.0], np.float32)
    signs = np.array([1.0, -1.0, -2.0, 0.0], np.float32)
    with pytest.raises(CompilerError, match="square"):
        optimize(graph, (module.widen,))
    results = [build(each)([values, signs])[0] for each in (optimized, kept)]
    np.testing.assert_array_equal(*results)


# --- no tables of names ---------------------------------------------------------------------------------------------

ASKING = re.compile(
    r"\bop\.name *(==|!=|in\b|not in\b)|\bop\.name\.(starts|ends)with|\[[\w.\[\]]*op\.name\]|\.get\([\w.\[\]]*op\.name"
)


def test_the_compiler_asks_ops_and_not_their_names() -> None:
    package = Path(wg.__file__).parent
    found = []
    for folder in ("compiler", "plan", "kernels", "backends", "runtime"):
        for path in sorted((package / folder).rglob("*.py")):
            lines = enumerate(path.read_text().splitlines(), 1)
            found += [f"{path.relative_to(package)}:{k}: {line.strip()}" for k, line in lines if ASKING.search(line)]
    assert found == []


# --- a plan stage ---------------------------------------------------------------------------------------------------

STAGE = '''
from dataclasses import replace

from wengert.compiler.rewrite import spend


def reverse_constants(plan):
    """The plan with its constants in another order, which changes nothing."""
    if not plan.buffers.constants or not spend(None, lambda: "constants are in another order"):
        return plan
    order = [*plan.buffers.external, *plan.buffers.constants[::-1], *plan.buffers.made]
    slots = {**plan.buffers.slots, **{node: slot for slot, node in enumerate(order)}}
    return replace(plan, buffers=plan.buffers._replace(constants=plan.buffers.constants[::-1], slots=slots))


def forget_steps(plan):
    """A fault: nothing is computed."""
    return replace(plan, steps=plan.steps[:0] + tuple(replace(step, parts=()) for step in plan.steps))
'''


@needs_compiler
def test_the_recipe_of_a_plan_stage(imported: Import, monkeypatch: pytest.MonkeyPatch) -> None:
    module = imported("reverse_constants", STAGE)
    x = placeholder((4,), wg.float32)
    first, second = (data(np.arange(4, dtype=np.float32) + k) for k in (1, 2))
    graph = Graph([x], [x * first + second])

    def stages_with(stage: Any, after: str) -> tuple[Any, ...]:
        number = [one.__name__ for one in pipeline.STAGES].index(after)
        return (*pipeline.STAGES[: number + 1], stage, *pipeline.STAGES[number + 1 :])

    with monkeypatch.context() as patch:
        patch.setattr(pipeline, "STAGES", stages_with(module.reverse_constants, after="donate"))
        program: Any = build(graph)
        report = next(report for report in program.plan.reports if report.name == "reverse_constants")
        assert report.rewrites == 1
        array = np.ones(4, np.float32)
        np.testing.assert_array_equal(program([array])[0], graph(array)[0])
        off = build(graph, off={"reverse_constants"})
        assert next(report for report in off.plan.reports if report.name == "reverse_constants").rewrites == 0

        function = wg.compile(lambda x: x * wg.Tensor(first) + wg.Tensor(second))
        patch.setattr(wg.config, "tier", "compile")
        function(wg.ones((4,)))
        assert "reverse_constants" in function.explain()
        assert "steps over" in function.explain("select")

        patch.setattr(pipeline, "STAGES", stages_with(module.forget_steps, after="select"))
        with pytest.raises(CompilerError, match="after forget_steps"):
            build(graph)


# --- a backend ------------------------------------------------------------------------------------------------------

BACKEND = '''
"""A device of one's own: values are NumPy arrays, and a plan is carried out by the small machine of the tests."""

from tests.plan.machine import Machine, ToyCodegen
from wengert.backends.cpu.device import HostDevice
from wengert.core.devices import Target
from wengert.kernels.launch import H200


class ToyProgram(Machine):
    is_compiled, language, device, source, seconds = True, "NumPy", "toy:0", "", 0.0

    def __init__(self, plan):
        super().__init__(plan)
        self.graph, self.steps, self.made = plan.graph, plan.steps, plan.buffers.made
        self.calls = 0

    def __call__(self, arrays, owned=(), spare={}):
        self.calls += 1
        return super().__call__(arrays)

    def replay(self, inputs, outputs):
        return None

    def described(self):
        return f"{len(self.steps)} ops by their references"

    def text_of(self, number):
        return ""

    def tuning(self):
        return None


class ToyDevice(HostDevice):
    name = "toy:0"

    def target(self, *, tf32=False, budget=None):
        return Target(self.name, H200, tf32, budget)

    def codegen(self, tuning=0.0):
        return ToyCodegen

    def build(self, plan):
        return ToyProgram(plan)
'''


def test_the_recipe_of_a_backend(imported: Import, monkeypatch: pytest.MonkeyPatch) -> None:
    module = imported("toy_backend", BACKEND)
    monkeypatch.setattr(wg.config, "tier", "compile")
    monkeypatch.setattr(devices, "_kinds", dict(devices._kinds))
    monkeypatch.setattr(devices, "_opened", dict(devices._opened))
    devices.register("toy", lambda name, index: module.ToyDevice(), lambda: 1, 1)

    w = wg.tensor(np.arange(12, dtype=np.float32).reshape(3, 4) / 10, device="toy:0", requires_grad=True)

    @wg.compile
    def step(x: wg.Tensor) -> wg.Tensor:
        loss = (wg.tanh(x @ w) ** 2).sum()
        loss.backward()
        return loss

    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    loss = step(wg.tensor(x, device="toy:0"))
    assert isinstance(step._newest("a test").program, module.ToyProgram) and loss.device == "toy:0"
    y = np.tanh(x @ w.detach().numpy())
    np.testing.assert_allclose(loss.item(), (y**2).sum(), rtol=1e-6)
    np.testing.assert_allclose(w.grad.numpy(), x.T @ (2 * y * (1 - y**2)), rtol=1e-5)
    assert "ops by their references" in step.explain()
