"""Every public function from every side, by the cases that the families list in `cases_*.py`.

Forward against NumPy and torch; derivatives in both modes and to second order against differences of values; vmap
against a Python loop; float32, float16 and bfloat16 against float64. And that nothing is left out: every primitive is
reached, every public function has its cases, every derivative that exists is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.ops import suite
from tests.ops.case import Case
from wengert.core import tree
from wengert.core.dtypes import FLOATING
from wengert.core.graph import Node
from wengert.ops import Op, registry
from wengert.ops.recorders import Elementwise

CASES = suite.collect()


def cases(chosen: Callable[[Case], Any]) -> Any:
    """Parametrise a test by the cases it is for."""
    return pytest.mark.parametrize("case", [case for case in CASES if chosen(case)], ids=suite.identifier)


@cases(lambda case: case.numpy)
def test_forward_against_numpy(case: Case) -> None:
    with np.errstate(all="ignore"):
        expected = case.numpy(*case.args, **case.kwargs)
    call = suite.Call(case)
    suite.assert_equal(call(*call.tensors()), expected)


@cases(lambda case: case.torch)
def test_forward_against_torch(case: Case) -> None:
    torch = pytest.importorskip("torch", reason="torch, the other implementation to compare with, is not installed")
    as_torch = lambda leaf: torch.tensor(np.array(leaf, order="C")) if isinstance(leaf, np.ndarray) else leaf
    expected = case.torch(*tree.map(as_torch, case.args), **tree.map(as_torch, case.kwargs))
    call = suite.Call(case)
    suite.assert_equal(call(*call.tensors()), expected, rtol=1e-6, atol=1e-8)


@cases(lambda case: case.differentiable and suite.Call(case).floating)
def test_derivatives(case: Case) -> None:
    call = suite.Call(case)
    wg.check_grads(call.invariant, call.tensors(), order=2 if case.second_order else 1)


@cases(lambda case: case.vmap and suite.mapped_places(suite.Call(case)))
def test_vmap_against_a_loop(case: Case) -> None:
    call = suite.Call(case)
    for places in suite.mapped_places(call):
        suite.assert_equal(*suite.over_lanes(call, places))


@cases(lambda case: case.half and suite.Call(case).floating)
def test_narrower_dtypes(case: Case) -> None:
    call = suite.Call(case)
    for dtype in suite.TOLERANCES:
        suite.check_dtype(call, dtype)


# --- nothing is left out --------------------------------------------------------------------------------------------

# Primitives no case can reach, and why.
OF_FUNCTIONS = "takes functions, not arrays: tests/test_control.py and tests/test_transforms.py"
UNREACHED = dict.fromkeys(
    ("checkpoint", "cond", "custom_jvp", "custom_vjp", "implicit", "pack", "scan", "while_gradient", "while_loop"),
    OF_FUNCTIONS,
)
UNREACHED |= dict.fromkeys(("csr_product", "sampled_product", "sparse_solve"), "tests/sparse/test_matrix.py")
UNREACHED["converged"] = "raises after an iteration that has not converged; tests/solvers"
UNREACHED["bitcast"] = "a view of `wengert.torch`, where that is imported; tests/torch/test_views.py"
UNREACHED["stopped"] = "raises after a loop that goes on for too long; tests/autodiff/test_while_gradient.py"
UNREACHED["solved"] = "raises where the solve of an ODE ends early; tests/ode/test_errors.py"
UNREACHED["to_device"] = "nothing moves where there is one device; tests/backends/test_cuda_program.py"
UNREACHED["recompute_barrier"] = "recorded for what is computed twice on purpose; tests/compiler/test_remat.py"
UNREACHED["flat_nonzero"] = "recorded on a GPU, where elements stay; tests/kernels/test_counting_cuda.py"
UNREACHED["cuda_kernel"] = "a kernel of the user's own; tests/backends/test_cuda_program.py"
UNREACHED |= dict.fromkeys(
    (
        "convolve_last",
        "convolve_input_last",
        "convolve_weight_last",
        "sum_pool_last",
        "max_pool_last",
        "max_pool_back_last",
    ),
    "recorded by the compiler only; tests/compiler/test_layout.py",
)

UNREACHED |= dict.fromkeys(
    (
        *("tree_sum", "tree_prod", "tree_max", "tree_min", "tree_matmul", "tree_scatter_add"),
        *("tree_convolve", "tree_convolve_input", "tree_convolve_weight"),
    ),
    "recorded by the compiler only, under config.invariant; tests/runtime/test_invariant.py",
)

UNREACHED |= dict.fromkeys(
    (
        *("all_gather", "all_reduce", "all_reduce_many", "all_reduce_max", "all_to_all", "block", "ppermute", "rank"),
        *("reduce_scatter", "replicate", "transfer", "microbatch", "settled"),
    ),
    "over the ranks of a group; tests/distributed",
)

# Public functions with less than five cases, and why.
FEW_CASES: dict[str, str] = dict.fromkeys(
    [
        "addcdiv",
        "addcmul",
        "addmm",
        "allclose",
        "argwhere",
        "baddbmm",
        "bincount",
        "block_diag",
        "corrcoef",
        "cov",
        "cumulative_trapezoid",
        "diag_embed",
        "diagflat",
        "dstack",
        "exp2",
        "fmax",
        "fmin",
        "fmod",
        "hsplit",
        "hstack",
        "inner",
        "isclose",
        "isin",
        "logit",
        "logspace",
        "nan_to_num",
        "nanmean",
        "nansum",
        "rsqrt",
        "sinc",
        "special.exp2",
        "special.logit",
        "special.sinc",
        "special.xlogy",
        "tensor_split",
        "trapezoid",
        "tril_indices",
        "triu_indices",
        "var_mean",
        "vsplit",
        "vstack",
        "xlogy",
    ],
    "a formula of other functions, with a case for each of its options; tests/oracle runs PyTorch's samples of it",
)

FEW_CASES["istft"] = "takes complex spectra; tests/ops/test_spectral.py"

# Primitives that have a derivative in principle and no rule for it, and why. At most ten.
WITHOUT_DERIVATIVE: dict[str, str] = {}

# Primitives whose derivative is taken as zero though their result moves with their operands, and why.
HELD: dict[str, str] = {
    "stop_gradient": "this is what it is for",
    "prod": "a tracked product is recorded as a tree of multiplications, exact with zeros",
    "cumprod": "a tracked running product is recorded as shifted multiplications, exact with zeros",
    "logcumsumexp": "a tracked one is recorded as shifted logaddexp",
}


@contextmanager
def recorded_nodes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Node]]:
    """The nodes recorded inside."""
    nodes: list[Node] = []
    original = Node.__init__

    def noting(self: Node, *args: Any, **kwargs: Any) -> None:
        original(self, *args, **kwargs)
        nodes.append(self)

    with monkeypatch.context() as patched:
        patched.setattr(Node, "__init__", noting)
        yield nodes


def record_everything(call: suite.Call, cotangent: Callable[..., Any] = np.ones) -> None:
    """Record a case's forward and, where it has one, its pullback of `cotangent(shape)`; nothing needs computing."""
    tensors = call.tensors()
    call(*tensors)
    if call.case.differentiable and tensors:
        floating = lambda *xs: tuple(y for y in tree.flatten(call.invariant(*xs))[0] if y.dtype in FLOATING)
        outputs, pullback = wg.vjp(floating, *tensors)
        pullback(tuple(wg.tensor(cotangent(y.shape), y.dtype) for y in outputs))


def test_every_primitive_is_reached(monkeypatch: pytest.MonkeyPatch, record_property: Callable[..., None]) -> None:
    reached: set[str] = set()
    for case in CASES:
        with recorded_nodes(monkeypatch) as nodes:
            record_everything(suite.Call(case))
        reached.update(node.op.name for node in nodes)
    record_property("primitives", f"{len(reached & registry.keys())} of {len(registry)}")
    assert not (missing := registry.keys() - reached - UNREACHED.keys()), f"no case reaches {sorted(missing)}"
    assert not (stale := UNREACHED.keys() & reached), f"these are reached: {sorted(stale)}"


def test_every_public_function_has_five_cases() -> None:
    functions = suite.public_functions()
    counts: dict[Any, int] = dict.fromkeys(functions.values(), 0)  # two names of one function share their cases
    for case in CASES:
        function = suite.function_of(case)
        counts[function] = counts.get(function, 0) + 1
    few = {name: counts[f] for name, f in functions.items() if counts[f] < 5 and name not in FEW_CASES}
    assert not few, f"with less than five cases: {few}"


def test_at_most_ten_primitives_lack_a_derivative() -> None:
    lacking = {name for name, op in registry.items() if op.differentiable and not has_rule(op)}
    assert lacking == WITHOUT_DERIVATIVE.keys()
    assert len(WITHOUT_DERIVATIVE) <= 10


def has_rule(op: Op) -> bool:
    """Whether the op can be differentiated in either mode. A placeholder is what one differentiates by."""
    return bool(op.vjp or op.jvp or op.linear or op.multilinear or op.composition) or op.name == "placeholder"


def test_a_zero_derivative_is_of_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ops declared to have no derivative do not move when their operands move a little."""
    seen: dict[str, Node] = {}
    for case in CASES:
        call = suite.Call(case)
        with recorded_nodes(monkeypatch) as nodes:
            call(*call.tensors())
        for node in nodes:
            if is_held(node) and node.op.name not in seen and node.op.name not in HELD:
                seen[node.op.name] = node
                assert_does_not_move(node)
    assert "floor" in seen and "sign" in seen


def is_held(node: Node) -> bool:
    """Whether a node gives floating values from floating values, and its op says that the derivative is zero."""
    has_no_rule = not node.op.differentiable or is_step(node.op)
    return has_no_rule and is_floating(node) and any(map(is_floating, node.sources))


def is_step(op: Op) -> bool:
    """Whether an op has the derivative zero by all its operands."""
    return isinstance(op, Elementwise) and op.derivative is not None and not any(op.derivative)


def is_floating(node: Node) -> bool:
    """Whether a node has floating elements, in one of its results where it has several."""
    dtypes = node.dtype if type(node.dtype) is tuple else (node.dtype,)
    shapes = node.shape if type(node.dtype) is tuple else (node.shape,)
    return any(dtype in FLOATING and 0 not in shape for dtype, shape in zip(dtypes, shapes))


def assert_does_not_move(node: Node) -> None:
    arrays = [wg.Tensor(source).numpy() for source in node.sources]
    moved = [a * (1 + 1e-9) if a.dtype in FLOATING else a for a in arrays]
    with np.errstate(all="ignore"):
        before, after = node.op.run(arrays, node), node.op.run(moved, node)
    for a, b in zip(*[result if type(result) is tuple else (result,) for result in (before, after)]):
        np.testing.assert_array_equal(a, b, f"{node.op.name} moves with its operands, but has no derivative")
