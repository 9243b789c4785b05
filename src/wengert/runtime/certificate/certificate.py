"""Certificates: what is known about one compiled program, rule by rule and kernel by kernel.

In: the plan of a program. Out: a `Certificate`: the rewrite rules that made the program, how often each was applied and
how it was established, and its kernels with the result for each. It prints as a table; its contents are data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter

from wengert.compiler.claims import REALS, Claim, claim_of
from wengert.plan.plan import Plan
from wengert.runtime.certificate.kernels import KernelCheck, kernel_checks, referenced
from wengert.runtime.certificate.proofs import Proof, Rule, proofs_of
from wengert.runtime.certificate.stages import CUDA, rewrites_in

PROVED, FAILED, UNPROVED = "proved", "FAILED", "not proved"


@dataclass(frozen=True)
class RuleUse:
    """A rule of a pass or stage: how often it was applied, what it claims and what was found."""

    name: str
    rule: str
    count: int
    claim: Claim | None
    proof: Proof

    @property
    def label(self) -> str:
        """The pass and the rule."""
        return f"{self.name}: {self.rule}" if self.rule else self.name

    @property
    def status(self) -> str:
        """Whether its claim was confirmed."""
        if self.proof.problem:
            return FAILED
        return PROVED if self.proof.is_proved else UNPROVED

    @property
    def known(self) -> str:
        """How it was established, as text."""
        if self.claim is None or self.status == FAILED:
            return self.proof.problem or ""
        if self.status == UNPROVED:
            return f"{self.claim.kind}, but no case changes by it here"
        tried = f"{self.proof.elements:,} elements of {self.proof.cases} graphs"
        if self.claim.kind != REALS:
            return f"{self.claim.kind}: {tried}"
        found = f"found {self.proof.error:.2g} of {self.proof.bound:g}"
        return f"{self.claim.kind} within {self.claim.stated}: {found}, {tried}"


@dataclass(frozen=True)
class Certificate:
    """What is known about a program. It is true if every rule and every kernel in it was proved."""

    rules: Sequence[RuleUse]
    kernels: Sequence[KernelCheck]
    references: int  # steps that are computed by the references themselves
    device: str
    seconds: float

    def __bool__(self) -> bool:
        return not self.failed and not self.unproved

    @property
    def failed(self) -> list[RuleUse | KernelCheck]:
        """The claims found to be wrong."""
        return self._with_status(FAILED)

    @property
    def unproved(self) -> list[RuleUse | KernelCheck]:
        """The claims that could not be tested here."""
        return self._with_status(UNPROVED)

    def _with_status(self, status: str) -> list[RuleUse | KernelCheck]:
        every: list[RuleUse | KernelCheck] = [*self.rules, *self.kernels]
        return [one for one in every if one.status == status]

    def __str__(self) -> str:
        rules, kernels = self.rules, self.kernels
        width = max([len(one.label) for one in rules], default=0)
        lines = [f"{'rule':<{width}}  times  how it is known"]
        lines += [f"{one.label:<{width}} {one.count:>6}  {_marked(one.status, one.known)}" for one in rules]
        width = max([len(one.label) for one in kernels], default=0)
        lines += ["", f"{'kernel':<{width}}  steps  against its reference: the error found, and what rounding explains"]
        lines += [f"{one.label:<{width}} {one.steps:>6}  {_marked(one.status, one.known)}" for one in kernels]
        if self.references:
            lines.append(f"{self.references} steps are computed by the references themselves")
        return "\n".join([*lines, "", self.summary])

    @property
    def summary(self) -> str:
        """One line."""
        parts = []
        for what, statuses in (
            ("rules", [r.status for r in self.rules]),
            ("kernels", [k.status for k in self.kernels]),
        ):
            parts.append(f"{statuses.count(PROVED)} of {len(statuses)} {what} proved")
        failed = [one.label for one in self.failed]
        return f"{', '.join(parts)} on {self.device}" + (f"; FAILED: {'; '.join(failed)}" if failed else "")


def _marked(status: str, text: str) -> str:
    return text if status == PROVED else f"{status}: {text}"


def certificate_of(plan: Plan) -> Certificate:
    """The certificate of a plan: rules are proved and kernels checked unless that was done before."""
    start = perf_counter()
    counts = rule_counts(plan)
    proofs = proofs_of(counts, plan.target)
    rules = [RuleUse(*rule, count, claim_of(*rule), proofs[rule]) for rule, count in counts.items()]
    kernels = kernel_checks(plan)
    return Certificate(rules, kernels, referenced(plan), plan.target.device, perf_counter() - start)


def rule_counts(plan: Plan) -> dict[Rule, int]:
    """How often each rule was applied, in the order of the passes and stages."""
    found: dict[Rule, int] = {}
    for report in plan.reports:
        for rule, count in report.rules.items():
            found[report.name, rule] = found.get((report.name, rule), 0) + count
    if plan.target.launches:
        found |= {(CUDA, rule): count for rule, count in rewrites_in(plan).items()}
    return found
