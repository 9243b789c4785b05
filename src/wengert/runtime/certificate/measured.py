"""Programs whose steps are checked one by one: each result against its references, on the memory the step reads."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from wengert.backends.checked import CheckedCpuProgram, StoredSums, difference, error_of, references
from wengert.core.devices import moved
from wengert.core.graph import Node
from wengert.plan.plan import Plan, Step


class Finding(NamedTuple):
    """The error of the element closest to being wrong, the error that rounding explains there, and what is wrong, if
    anything.
    """

    error: float
    allowed: float
    problem: str | None = None

    @property
    def share(self) -> float:
        """The error as a fraction of what rounding explains."""
        return self.error / self.allowed if self.allowed else 0.0

    def worse(self, other: Finding) -> Finding:
        """The finding closer to being wrong, with the first problem."""
        nearer = self if (self.share, self.allowed) >= (other.share, other.allowed) else other
        return nearer._replace(problem=self.problem or other.problem)


class MeasuredCpuProgram(CheckedCpuProgram):
    """A program that records its finding for each step, and continues."""

    def _checking(self, step: Step, call: Callable[..., None], number: int) -> Callable[..., None]:
        def run(pointers: Any, arena: Any, table: Sequence[Any], results: dict[Node, Any]) -> None:
            def view(node: Node) -> Any:
                return self._view(node, table)

            with np.errstate(all="ignore"):
                expected = references(step, view)
                call(pointers, arena, table, results)
                if self.error.value:
                    self.error.value = 0
                    self.found[number] = Finding(0.0, 0.0, "it says that an index is out of range")
                    return
                findings = [found_of(view(node), reference) for node, reference in expected]
            self.found[number] = functools.reduce(Finding.worse, findings, Finding(0.0, 0.0))

        return run

    def measure(self, arrays: Sequence[Any]) -> dict[int, Finding]:
        """The findings by step number."""
        self.found: dict[int, Finding] = {}
        self(arrays)
        return self.found


def found_of(stored: Any, reference: Any, precision: float | None = None) -> Finding:
    """The finding for the result of a step."""
    return Finding(*error_of(stored, reference, precision), difference(stored, reference, precision))


@functools.cache
def _measured_on_gpu() -> type:
    """The class for a plan on a GPU, whose programs are loaded on first use."""
    from wengert.backends.cuda.checked import TF32, CheckedCudaProgram

    class MeasuredCudaProgram(CheckedCudaProgram):
        """A program that records its finding for each step, and continues."""

        def _run_step(self, number: int, calls: Sequence[Any], memory: StoredSums) -> None:
            step = self.steps[number]
            expected = references(step, memory.view)
            for call in calls:
                self._launch(call, number, step)
            precision = TF32 if self.plan.target.tf32 else None
            known = [(node, reference) for node, reference in expected if node in self.known]
            findings = [found_of(memory.view(node), reference, precision) for node, reference in known]
            self.found[number] = functools.reduce(Finding.worse, findings, Finding(0.0, 0.0))

        def measure(self, arrays: Sequence[Any]) -> dict[int, Finding]:
            """The findings by step number."""
            self.found: dict[int, Finding] = {}
            with np.errstate(all="ignore"):
                self([moved(array, self.device) for array in arrays])
            return self.found

    return MeasuredCudaProgram


def measured(plan: Plan) -> Callable[[Sequence[Any]], dict[int, Finding]]:
    """Run the steps of a plan on arrays for its inputs and measure each."""
    program: Any = _measured_on_gpu()(plan, captures=False) if plan.target.launches else MeasuredCpuProgram(plan)
    run: Callable[[Sequence[Any]], dict[int, Finding]] = program.measure
    return run
