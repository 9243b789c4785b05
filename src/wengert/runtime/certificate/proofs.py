"""Proofs of rules: each rule is applied in isolation to its cases, and the result is compared with the original.

In: a pass and a rule. Out: a Proof: the number of cases, and the measured error beside the claimed one. A rule that
preserves bits or values is compared element by element over all combinations of small or special values; an identity
over the reals is compared with float64, in rounding units of the expression over absolute values. A plan stage is
compared by building programs with and without it (`stages`). Nothing is assumed: a rule without a claim, or without a
case that it changes, is not proved.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from wengert.compiler import passes, simplify
from wengert.compiler.claims import REALS, SAME_BITS, Claim, claim_of
from wengert.compiler.rewrite import fuel, limited, rewrite
from wengert.core import cache
from wengert.core.devices import Target
from wengert.core.dtypes import FLOATING, HALF, bfloat16, float64
from wengert.core.graph import Graph, Node
from wengert.ops import registry
from wengert.ops.core import CAST
from wengert.ops.linalg import MATMUL
from wengert.runtime.certificate.cases import Case
from wengert.runtime.certificate.collective_probes import of_all_ranks
from wengert.runtime.certificate.keys import key_of, rules_key
from wengert.runtime.certificate.probes import PROBES
from wengert.runtime.certificate.values import Array

Rule = tuple[str, str]  # the pass or stage, and the rule of it; "" where it has but one


@dataclass(frozen=True)
class Proof:
    """The result for a rule."""

    cases: int = 0  # that it changed
    elements: int = 0  # that were compared
    error: float = 0.0  # the largest, in rounding units; 0 where bits or values are kept
    bound: float = 0.0  # the claim for the case that came nearest to it
    problem: str | None = None

    @property
    def is_proved(self) -> bool:
        """Whether it was tested without a fault."""
        return self.cases > 0 and self.problem is None


def proofs_of(rules: Iterable[Rule], target: Target) -> dict[Rule, Proof]:
    """The proofs of rules, from the cache if the same code proved them before."""
    complete_tables()
    common = key_of(rules_key(simplify._table), str(target.properties), str(target.tf32))
    names = {rule: f"{key_of(common, *rule)}.check" for rule in rules}
    contents = cache.read_all(names.values())
    found: dict[Rule, Proof] = {}
    for rule, name in names.items():
        proof = _read(contents.get(name))
        if proof is None:
            proof = prove(rule, target)
            cache.keep(name, json.dumps(asdict(proof)).encode())
        found[rule] = proof
    return found


def complete_tables() -> None:
    """Register the rules of every op with `simplify`, so that its table does not depend on what was compiled before."""
    for op in registry.values():
        if op not in simplify._table:
            simplify._rules_for(op)


def _read(content: bytes | None) -> Proof | None:
    try:
        return None if content is None else Proof(**json.loads(content))
    except (ValueError, TypeError):
        return None


def prove(rule: Rule, target: Target) -> Proof:
    """Test a rule on all of its cases."""
    claim = claim_of(*rule)
    if claim is None:
        return Proof(problem="nothing is claimed about it")
    if rule not in PROBES:
        from wengert.runtime.certificate.stages import prove_stage  # which builds programs

        return prove_stage(rule, claim, target)
    found = Proof()
    with limited(None), np.errstate(all="ignore"):
        for cases in PROBES[rule]:
            for case in cases(target.device):
                found = _with(found, rule, claim, case, target)
                if found.problem:
                    return found
    return found


def _with(found: Proof, rule: Rule, claim: Claim, case: Case, target: Target) -> Proof:
    """The findings, with one more case."""
    name, before = fuel.name, fuel.spent
    try:
        after = applied(rule, case.graph, target)
    except Exception as raised:
        return Proof(problem=f"it raises: {raised}")
    finally:
        fuel.name = name
    if fuel.spent == before and len(after.nodes) == len(case.graph.nodes):
        return found
    error, bound, problem = _compared(claim, case, after)
    elements = found.elements + sum(node.size for node in case.graph.outputs)
    nearer = error * found.bound >= found.error * bound if found.bound else True
    worst = (error, bound) if nearer else (found.error, found.bound)
    return Proof(found.cases + 1, elements, *worst, problem)


def applied(rule: Rule, graph: Graph, target: Target) -> Graph:
    """The graph after one rule of `simplify` alone, or after one pass."""
    name, own = rule
    if own:
        return rewrite(graph, lambda node: _by_one_rule(own, node))
    return next(one for one in passes.PASSES if one.__name__ == name)(graph, target)


def _by_one_rule(name: str, node: Node) -> Node | None:
    for one in simplify._table.get(node.op, ()):
        if one.__name__ == name:
            found = one(node)
            if found is not None:
                return found
    return None


# --- comparing ------------------------------------------------------------------------------------------------------


def _compared(claim: Claim, case: Case, after: Graph) -> tuple[float, float, str | None]:
    """The largest error of a rewritten graph, the claimed error, and any problem."""
    try:
        found = evaluated(after, case.arrays)
    except Exception as raised:
        return 0.0, 0.0, f"its result cannot be computed: {raised}"
    if claim.kind != REALS:
        wanted = evaluated(case.graph, case.arrays)
        same = same_bits if claim.kind == SAME_BITS else same_values
        for node, a, b in zip(case.graph.outputs, found, wanted):
            wrong = ~same(a, b)
            if wrong.any():
                at = np.unravel_index(int(wrong.argmax()), wrong.shape)
                count = f"{int(wrong.sum())} of {wrong.size} elements of {node.dtype} differ"
                return 0.0, 0.0, f"{count}, {a[at]} instead of {b[at]} first"
        return 0.0, 0.0, None
    bound = claim.bound(terms_of(case.graph) * summed_in(case.graph))
    error = error_in_units(case, found)
    problem = None if error <= bound else f"the error is {error:.3g} units, but {bound:g} are claimed"
    return error, bound, problem


def same_bits(a: Array, b: Array) -> Array:
    """Where two arrays have the same bits, or both a NaN."""
    if a.dtype not in FLOATING:
        return np.asarray((a == b) | ((a != a) & (b != b)))
    bits = np.dtype(f"u{a.dtype.itemsize}")
    return np.asarray((np.ascontiguousarray(a).view(bits) == np.ascontiguousarray(b).view(bits)) | (a != a) & (b != b))


def same_values(a: Array, b: Array) -> Array:
    """Where two arrays have equal numbers, or both a NaN."""
    return np.asarray((a == b) | ((a != a) & (b != b)))


def evaluated(graph: Graph, arrays: Iterable[Array]) -> list[Array]:
    """The outputs computed by the references; those of collectives for all ranks, stacked."""
    graph = of_all_ranks(graph)
    values: dict[Node, Any] = dict(zip(graph.inputs, arrays))
    for node in graph.nodes:
        values[node] = node.op.run([_value(values, source) for source in node.sources], node)
    return [np.asarray(_value(values, node)) for node in graph.outputs]


def _value(values: Mapping[Node, Any], node: Node) -> Any:
    return values.get(node, node.buffer)


def error_in_units(case: Case, found: Iterable[Array]) -> float:
    """The largest error against float64, in rounding units of the expression over absolute values."""
    exact = _wide(case.graph, case.arrays)
    size = _wide(case.graph, [np.abs(array) for array in case.arrays])
    errors = [0.0]
    for node, a, b, scale in zip(case.graph.outputs, found, exact, size):
        if node.dtype in FLOATING and a.size:
            unit = _unit(case.graph) * np.abs(scale)
            apart = np.where(same_values(a, b), 0, np.abs(a.astype(np.longdouble) - b))
            share = np.divide(apart, unit, out=np.where(apart > 0, np.inf, 0.0), where=unit > 0)
            errors.append(float(np.nan_to_num(share, nan=np.inf, posinf=np.inf).max()))
        elif not (a == b).all():
            errors.append(np.inf)
    return max(errors)


def summed_in(graph: Graph) -> float:
    """The rounding error of a term of a sum, in units: half precision is summed in float32 and rounded at the end."""
    return min(2.0**-24 / _unit(graph), 1.0) if _has_half(graph) else 1.0


def _has_half(graph: Graph) -> bool:
    return any(node.dtype in HALF for node in (*graph.inputs, *graph.nodes))


def _unit(graph: Graph) -> float:
    """Half a unit in the last place of 1, in the least exact dtype of a graph."""
    dtypes = {node.dtype for node in (*graph.inputs, *graph.nodes) if node.dtype in FLOATING}
    if not dtypes.isdisjoint(HALF):
        return 2.0**-9 if bfloat16 in dtypes else 2.0**-12
    return max(float(np.finfo(dtype).eps) for dtype in dtypes) / 2


def _wide(graph: Graph, arrays: Iterable[Array]) -> list[Array]:
    """The outputs by the references in float64; those of float64 in what is wider, which takes far longer."""
    wide = np.longdouble if any(node.dtype is float64 for node in graph.inputs) else float64
    values: dict[Node, Any] = {
        node: array.astype(wide) if node.dtype in FLOATING else array for node, array in zip(graph.inputs, arrays)
    }
    for node in graph.nodes:
        sources = [_value(values, source) for source in node.sources]
        values[node] = sources[0] if node.op is CAST else node.op.numpy(*sources, **node.attrs)
    return [np.asarray(_value(values, node)) for node in graph.outputs]


def terms_of(graph: Graph) -> int:
    """The number of terms of the sums along the longest path of a graph."""
    terms: dict[Node, int] = {}
    for node in graph.nodes:
        own = 0
        if node.op is MATMUL:
            own = node.sources[0].shape[-1]
        elif node.op.kind == "reduction":
            own = -(-node.sources[0].size // max(node.size, 1))
        elif node.op.kind == "opaque":
            own = max((source.size for source in node.sources), default=0) // max(node.shape[0] if node.shape else 1, 1)
        terms[node] = own + max((terms.get(source, 0) for source in node.sources), default=0)
    return max((terms.get(node, 0) for node in graph.outputs), default=0)
