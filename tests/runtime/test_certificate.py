"""Certificates: every rule has a claim that holds on its cases, every kernel is checked, seeded faults are named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.backends.emulated import IdleDriver, install
from tests.compiler.test_faults import FAULTS, Fault, N
from wengert.backends.cpu.toolchain import compiler
from wengert.compiler import claims, passes, reductions, simplify
from wengert.compiler.claims import CLAIMS
from wengert.core import cache
from wengert.core.devices import HOST_TARGET, Target
from wengert.core.errors import ArgumentError
from wengert.core.graph import Graph, Node, now
from wengert.kernels.cuda import rewrites
from wengert.kernels.launch import H200
from wengert.ops import elementwise as e
from wengert.ops.core import placeholder
from wengert.plan.c_codegen import CCodegen
from wengert.plan.pipeline import STAGES, compiled_plan
from wengert.plan.plan import Plan
from wengert.runtime.certificate import proofs
from wengert.runtime.certificate.certificate import Certificate, certificate_of, rule_counts
from wengert.runtime.certificate.probes import PROBES
from wengert.runtime.certificate.values import all_of, special, tried

pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C compiler to build kernels with")
ON_GPU = {
    (name, "") for name in ("attention_layout", "layout", "join_matmul", "align", "contiguous_collectives")
}  # they leave the CPU's alone


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache for the tests of this file, so that what is kept is what they found."""
    place = tmp_path_factory.getbasetemp() / "certificates"
    monkeypatch.setenv("WENGERT_CACHE", str(place))
    return place


def trained(width: int = 48) -> Any:
    """A training step of an MLP, called once."""
    model = wg.nn.Sequential(wg.nn.Linear(20, width), wg.nn.ReLU(), wg.nn.Linear(width, 5))
    optimizer = wg.optim.Adam(model.parameters(), 1e-3)

    @wg.compile
    def step(x: wg.Tensor, y: wg.Tensor) -> wg.Tensor:
        loss = wg.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    step(wg.ones((12, 20)), wg.zeros((12,), dtype=wg.int64))
    return step


# --- rules ----------------------------------------------------------------------------------------------------------


def test_every_rule_has_a_claim_and_cases() -> None:
    tables = (*simplify.ALGEBRA.values(), *simplify.MOVES.values())
    rules = {rule.__name__ for table in tables for rule in table} | {"fold", "broadcast_by_itself"}
    wanted = {("simplify", rule) for rule in rules}
    wanted |= {(one.__name__, "") for one in passes.PASSES if one is not simplify.simplify}
    assert wanted - CLAIMS.keys() == set() and wanted - PROBES.keys() == set()
    stages = {(stage.__name__, "") for stage in STAGES}
    changes = {("cuda", name) for name in ("one_pass_variance", "with_fast_exponentials", "with_reciprocals")}
    assert all(hasattr(rewrites, name) for _, name in changes)
    assert CLAIMS.keys() == wanted | stages | changes


@pytest.mark.parametrize("rule", [rule for rule in PROBES if rule not in ON_GPU], ids=": ".join)
def test_what_a_rule_claims_is_found(rule: tuple[str, str]) -> None:
    proofs.complete_tables()
    found = proofs.prove(rule, HOST_TARGET)
    assert found.problem is None and found.cases and found.elements


@pytest.mark.parametrize("rule", sorted(ON_GPU), ids=": ".join)
def test_what_a_pass_for_gpus_claims_is_found(rule: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, IdleDriver(), "cuda:0")
    found = proofs.prove(rule, Target("cuda:0", H200, overlaps=True))
    assert found.problem is None and found.cases


def test_sums_over_ranks_keep_their_bits_in_invariant_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    install(monkeypatch, IdleDriver(), "cuda:0")
    target = Target("cuda:0", H200, overlaps=True)
    rule = ("contiguous_collectives", "")
    found, plain = proofs.prove(rule, target.with_invariance(True)), proofs.prove(rule, target)
    assert found.problem is None and found.cases > plain.cases


@pytest.mark.parametrize("stage", ["fuse", "schedule", "donate", "parallel_regions", "liveness", "arena"])
def test_what_a_stage_claims_is_found(stage: str) -> None:
    assert proofs.prove((stage, ""), HOST_TARGET).is_proved


def test_values_are_all_of_a_small_dtype_and_the_edges_of_a_large_one() -> None:
    assert len(all_of(wg.float16)) == 65536 and len(tried(wg.int8, 2)[0]) == 65536
    edges = special(wg.float32)
    assert np.isnan(edges).any() and np.isinf(edges).any()
    assert (np.signbit(edges) & (edges == 0)).any() and (np.abs(edges[edges != 0]) < np.finfo(np.float32).tiny).any()


def test_a_rule_without_a_claim_is_not_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(claims.CLAIMS, ("simplify", "multiply_one"))
    double = wg.compile(lambda x: x * 1.0 + 1.0)
    double(wg.ones(3))
    certificate = double.certificate()
    assert not certificate and [one.label for one in certificate.failed] == ["simplify: multiply_one"]


def test_a_bound_that_is_too_small_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    tight = CLAIMS["factor", ""]._replace(per_term=0, units=0.01)
    monkeypatch.setitem(claims.CLAIMS, ("factor", ""), tight)
    found = proofs.prove(("factor", ""), HOST_TARGET)
    assert found.problem is not None and "but 0.01 are claimed" in found.problem


def test_counts_are_those_of_the_reports() -> None:
    plan: Plan = trained()._newest("test").program.plan
    counts = rule_counts(plan)
    assert sum(counts.values()) == sum(report.rewrites for report in plan.reports)
    assert counts["simplify", "same_value"] > 0 and counts["fuse", ""] > 0


def test_rules_in_bodies_are_counted() -> None:
    compiled = wg.compile(lambda x: wg.cond(x[0] > 0, lambda: wg.negative(-x) * 2, lambda: x))
    compiled(wg.ones(3))
    assert rule_counts(compiled._newest("test").program.plan)["simplify", "negative_negative"] == 1


# --- certificates ---------------------------------------------------------------------------------------------------


def test_a_training_step_is_proved_and_prints() -> None:
    certificate = trained().certificate()
    assert certificate, str(certificate)
    assert not certificate.failed and not certificate.unproved
    text = str(certificate)
    assert "the same bits" in text and "identity of reals within" in text and "matmul" in text
    assert text.endswith("proved on cpu")


def test_nothing_is_tried_a_second_time(monkeypatch: pytest.MonkeyPatch) -> None:
    step = trained()
    first = step.certificate()

    def never(*_: Any) -> Any:
        raise AssertionError("it was found already")

    monkeypatch.setattr(cache, "keep", never)
    again = step.certificate()
    assert (again.rules, again.kernels) == (first.rules, first.kernels)
    monkeypatch.setattr(reductions, "_DEEP", 2)  # another compiler: its rules are tried again
    with pytest.raises(AssertionError, match="found already"):
        step.certificate()


def test_a_larger_kernel_is_checked_at_a_smaller_size_of_its_class() -> None:
    compiled = wg.compile(lambda x, y: wg.softmax(x * 2 + y, axis=1))
    compiled(wg.ones((1003, 96)), wg.ones((1003, 96)))
    (check,) = compiled.certificate().kernels
    assert check.small is not None and check.own is not None and check.own.sizes == "1003x96"
    rows, columns = map(int, check.small.sizes.split("x"))
    assert rows < 1003 and rows % 16 and columns <= 96 and columns % 16 == 0  # with a tail, and without


def test_an_uncalled_or_interpreted_function_has_no_certificate() -> None:
    with pytest.raises(ArgumentError, match="has not been called"):
        wg.compile(lambda x: x).certificate()


# --- faults ---------------------------------------------------------------------------------------------------------


def certificate_with(fault: Fault) -> Certificate:
    """The certificate of a fault's probe."""
    since = now()
    inputs = [placeholder(shape, wg.float32) for shape in ((N, N), (N, N), (N,))]
    outputs = fault.probe(*map(wg.Tensor, inputs))
    outputs = [out.node for out in (outputs if isinstance(outputs, (list, tuple)) else [outputs])]
    graph = Graph(inputs, outputs, since)
    return certificate_of(compiled_plan(graph, fault.target, CCodegen, fault.pairs, check=False))


RULES = (
    *(
        "simplify: a minus",
        "cse",
        "batch_matmul",
        "transpose_matmul",
        "align",
        "gemv",
        "factor",
        "dce: other",
        "onehot",
    ),
    *("loop_inputs", "loop_sums", "loop_outputs"),
    *("inline", "remat: computed again from something else", "remat: the sign", "attention_layout"),
)
KERNELS = (
    *("lower: operands", "lower: place: guards too wide", "c: a step of a row", "c: maxima do not see NaN", "c: lanes"),
    *("opaque: matmul gives zeros", "opaque: transposes", "opaque: gather gives zeros"),
)


def named(*starts: str) -> list[Fault]:
    return [fault for fault in FAULTS if fault.name.startswith(starts) and fault.notices == "check"]


@pytest.mark.parametrize("fault", named(*RULES), ids=lambda fault: fault.name)
def test_the_rule_at_fault_is_named(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    fault.breaks(monkeypatch)
    certificate = certificate_with(fault)
    assert not certificate
    assert fault.name.split(":")[0] in {one.label.split(":")[0] for one in certificate.failed}, str(certificate)


@pytest.mark.parametrize("fault", named(*KERNELS), ids=lambda fault: fault.name)
def test_the_kernel_at_fault_is_named(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    fault.breaks(monkeypatch)
    certificate = certificate_with(fault)
    assert any(one.status == "FAILED" for one in certificate.kernels), str(certificate)


@pytest.mark.slow
@pytest.mark.parametrize("fault", named("lower", "c:", "opaque"), ids=lambda fault: fault.name)
def test_every_fault_of_a_kernel_is_noticed(fault: Fault, monkeypatch: pytest.MonkeyPatch) -> None:
    fault.breaks(monkeypatch)
    assert any(one.status == "FAILED" for one in certificate_with(fault).kernels)


def test_a_rule_that_goes_wrong_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def negative_negative(node: Node) -> Node | None:
        return node.sources[0] if node.sources[0].op is e.negative else None

    monkeypatch.setitem(simplify._table, e.negative, (negative_negative,))
    compiled = wg.compile(lambda x: wg.negative(-x) + 1.0)
    compiled(wg.ones(3))
    certificate = compiled.certificate()
    assert [one.label for one in certificate.failed] == ["simplify: negative_negative"]
    assert "FAILED: simplify: negative_negative" in certificate.summary
    assert "elements of float16 differ" in str(certificate)


def test_what_was_found_of_a_fault_is_not_taken_for_the_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    fault = next(fault for fault in FAULTS if fault.name.startswith("factor"))
    assert certificate_with(fault)
    with monkeypatch.context() as patch:
        fault.breaks(patch)
        assert not certificate_with(fault)
    assert certificate_with(fault)
