"""Tests of plan stages: a program is built with and without a stage, and the results are compared.

The program consists of sums and products, so that the same expression over absolute values bounds its rounding errors.
A stage that only decides placement and order is compared bit for bit; one that changes rounding is compared with
float64. Rewrites of CUDA kernels cannot be left out: a program in which they happen is compared with float64.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from wengert.backends.checked import references_of
from wengert.compiler.claims import CLAIMS, REALS, Claim
from wengert.core import devices
from wengert.core.devices import Target, moved, on_host
from wengert.core.dtypes import bfloat16, float32
from wengert.core.graph import Graph, Node
from wengert.ops import elementwise as e
from wengert.ops.core import cast, literal
from wengert.ops.linalg import MATMUL
from wengert.ops.movement import permute_dims, slice_axis
from wengert.ops.reduce import MAX, SUM
from wengert.plan.pipeline import planned
from wengert.plan.plan import Plan
from wengert.runtime.certificate.cases import Case, recorded
from wengert.runtime.certificate.measured import found_of
from wengert.runtime.certificate.proofs import Proof, Rule, error_in_units, same_bits, summed_in, terms_of

_ROUNDING = CLAIMS["fuse", ""]  # what a program of any plan keeps
Pairs = tuple[tuple[int, int], ...]


class StageCase(NamedTuple):
    """A program: the function it records over inputs of these shapes, and the inputs that its outputs may replace."""

    record: Callable[..., Any]
    shapes: Sequence[tuple[int, ...]]
    pairs: Pairs = ()


def _layers(x: Node, y: Node, row: Node) -> Any:
    """Products and loops, one after another, and updates of inputs."""
    start = x
    for _ in range(3):
        x = e.add(e.multiply(MATMUL(x, y), row), row)
    return [x, e.add(y, e.multiply(x, start)), SUM(x, axes=(0,), keepdims=False)]


def _loops(p: Node, q: Node, row: Node) -> Any:
    """Large loops that need nothing of each other, sums along both axes."""
    return [
        e.add(e.multiply(p, q), p),
        e.multiply(e.multiply(p, q), q),
        SUM(e.multiply(p, q), axes=(0,), keepdims=False),
        SUM(e.add(e.multiply(p, q), row), axes=(1,), keepdims=False),
    ]


def _small_loops(x: Node, y: Node, row: Node) -> Any:
    """Equal loops over values of several sizes."""
    return [e.add(e.multiply(v, v), v) for v in (x, slice_axis(y, 0, 0, 32), row)]


def _low(x: Node, y: Node, row: Node) -> Any:
    """Products in half precision with a bias."""
    a, b, c = (cast(v, bfloat16) for v in (x, y, row))
    return [cast(e.add(MATMUL(a, b), c), float32), cast(MATMUL(permute_dims(a, (1, 0)), b), float32)]


def _regions(p: Node, q: Node) -> Any:
    """Large loops of different extents that need nothing of each other."""
    return [e.add(e.multiply(p, p), p), e.add(e.multiply(q, q), q)]


CASES = (
    StageCase(_layers, ((64, 64), (64, 64), (64,)), ((1, 1),)),
    StageCase(_loops, ((1024, 700), (1024, 700), (700,))),
    StageCase(_regions, ((1024, 700), (900, 800))),
)
ON_GPU = (StageCase(_small_loops, ((64, 64), (64, 64), (64,))), StageCase(_low, ((128, 128), (128, 128), (128,))))


def prove_stage(rule: Rule, claim: Claim, target: Target) -> Proof:
    """Build each program with a stage and without it, and compare what they compute."""
    if rule[0] == CUDA:
        return _prove_rewrite(rule[1], claim, target)
    found = Proof()
    for number, one in enumerate((*CASES, *(ON_GPU if target.launches else ()))):
        found = _with(found, rule, claim, one, number, target)
        if found.problem:
            return found
    return found


def _with(found: Proof, rule: Rule, claim: Claim, one: StageCase, number: int, target: Target) -> Proof:
    rng = np.random.default_rng(number)
    graph = recorded(one.record, [(shape, float32) for shape in one.shapes], target.device)
    case = Case(graph, [np.asarray(rng.normal(size=shape)).astype(float32) for shape in one.shapes])
    plan = _planned(graph, target, one.pairs)
    rewrites = next((report.rewrites for report in plan.reports if report.name == rule[0]), 0)
    if not rewrites:
        return found
    results = _outputs(plan, case)
    elements = found.elements + sum(node.size for node in graph.outputs)
    error, bound = (
        error_in_units(case, results),
        (claim if claim.kind == REALS else _ROUNDING).bound(terms_of(graph) * summed_in(graph)),
    )
    problem = None if error <= bound else f"the error is {error:.3g} units where {bound:g} are stated"
    if claim.kind == REALS:
        return Proof(found.cases + 1, elements, max(error, found.error), max(bound, found.bound), problem)
    without = _outputs(_planned(graph, target, one.pairs, rule[0]), case)
    wrong = sum(int((~same_bits(a, b)).sum()) for a, b in zip(results, without))
    problem = f"{wrong} elements differ without it" if wrong else problem
    return Proof(found.cases + 1, elements, problem=problem)


# --- rewrites of CUDA kernels ---------------------------------------------------------------------------------------

CUDA = "cuda"  # in place of a pass
_EPSILON = float(np.finfo(float32).eps)


def _variance(x: Node) -> Node:
    """Of columns, so that rows are not held."""
    count = literal(1 / x.shape[0], x.dtype, x.device)
    apart = e.subtract(x, e.multiply(SUM(x, axes=(0,), keepdims=True), count))
    return e.multiply(SUM(e.multiply(apart, apart), axes=(0,), keepdims=False), count)


def _softmax(x: Node) -> Node:
    """Of rows in half precision."""
    wide = cast(x, float32)
    shifted = e.exp(e.subtract(wide, MAX(wide, axes=(1,), keepdims=True)))
    return e.divide(shifted, SUM(shifted, axes=(1,), keepdims=True))


REWRITTEN = (StageCase(_variance, ((512, 300),)), StageCase(_softmax, ((256, 1000),)))


def rewrites_in(plan: Plan) -> dict[str, int]:
    """The number of kernels of a plan that each rewrite changed."""
    from wengert.kernels.cuda.write import rewrites_of

    found: dict[str, int] = {}
    device = plan.target.properties
    for kernel in (step.kernel for step in plan.steps if step.launches):
        for name in rewrites_of(kernel, device) if kernel is not None and device is not None else ():
            found[name] = found.get(name, 0) + 1
    return found


def _prove_rewrite(name: str, claim: Claim, target: Target) -> Proof:
    """Compare programs whose kernels a rewrite changed with their references."""
    found = Proof()
    for number, one in enumerate(REWRITTEN):
        rng = np.random.default_rng(number)
        dtype = float32 if number == 0 else bfloat16
        graph = recorded(one.record, [(shape, dtype) for shape in one.shapes], target.device)
        case = Case(graph, [np.asarray(rng.normal(size=shape)).astype(dtype) for shape in one.shapes])
        plan = _planned(graph, target, ())
        if name not in rewrites_in(plan):
            continue
        (result,), (reference,) = _outputs(plan, case), references_of(graph, case.arrays)
        finding, bound = found_of(result, reference), claim.bound(terms_of(graph) * summed_in(graph))
        error = finding.error / (_EPSILON / 2 * float(np.abs(np.asarray(reference.wide)).max()))
        problem = finding.problem or (None if error <= bound else f"the error is {error:.3g} of {bound:g} units")
        found = Proof(found.cases + 1, found.elements + result.size, max(error, found.error), bound, problem)
        if problem:
            break
    return found


# --- programs -------------------------------------------------------------------------------------------------------


def _planned(graph: Graph, target: Target, pairs: Pairs, off: str | None = None) -> Plan:
    codegen = devices.of(target.device).codegen(0.0)
    return planned(graph, target, codegen, pairs, () if off is None else (off,), check=False)


def _outputs(plan: Plan, case: Case) -> list[Any]:
    program = devices.of(plan.target.device).build(plan)
    arrays = [moved(array.copy(), plan.target.device) for array in case.arrays]
    return [np.array(on_host(found)) for found in program(arrays)]
