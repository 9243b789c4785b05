"""A program on a GPU that checks itself: every step is compared with its references (`wg.config.check`).

As on the CPU (`backends.checked`), the memory that a step reads must still hold what was stored there, and its results
must match the NumPy references on that memory. Launches run one by one and are waited for, so an invalid memory access
is reported with the kernel, the op and the user's line.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from wengert.backends.checked import StoredSums, difference, has_reference, references, wrong
from wengert.backends.cuda.calls import GraphSegment, StepCall
from wengert.backends.cuda.memory import DeviceArray, download
from wengert.backends.cuda.program import CudaProgram
from wengert.compiler.memory import storage
from wengert.core.errors import CudaError
from wengert.core.graph import Node, describe_type
from wengert.plan.plan import Step

TF32 = 2.0**-9  # what rounding both operands of a product to 10 bits may make of it


class CheckedCudaProgram(CudaProgram):
    """A graph on a GPU whose steps are compared with their references on every call."""

    def _run(self, arrays: Sequence[Any], table: Sequence[DeviceArray]) -> None:
        memory = StoredSums(lambda node: download(self._placed(node, table)))
        results: dict[Node, Any] = {}
        self.known = set(self.graph.nodes)
        for piece in self.pieces:
            if isinstance(piece, Node):
                self._on_host(piece, arrays, table, results)
                memory.note([piece])
                continue
            calls_of = piece.calls if isinstance(piece, GraphSegment) else [piece]
            for number, calls in groupby(calls_of, lambda call: call.step):
                self._run_step(number, list(calls), memory)
        memory.require_unchanged(map(storage, self.graph.outputs), "the program returns")

    def _run_step(self, number: int, calls: Sequence[StepCall], memory: StoredSums) -> None:
        step = self.steps[number]
        names = ", ".join(dict.fromkeys(call.name for call in calls))
        memory.require_unchanged(step.reads, f"step {number}, {names}, reads")
        known = references(step, memory.view) if all(map(has_reference, step.writes)) else []
        # what a step keeps for another alone, as attention does, is no value of the graph
        expected = [(node, found) for node, found in known if node in self.known]
        for call in calls:
            self._launch(call, number, step)
        for node, reference in expected:
            problem = difference(memory.view(node), reference, TF32 if self.plan.target.tf32 else None)
            if problem:
                raise wrong(f"step {number}, {names},", node, problem)
        memory.note(step.writes)

    def _launch(self, call: StepCall, number: int, step: Step) -> None:
        try:
            call.enqueue(self.driver)
            self.driver.synchronize()
        except CudaError as error:
            node = step.writes[0]
            stored = f"{node.op.name} {describe_type(node)}"
            what = f"check: step {number}, {call.name}, which computes {stored}: {error.message}"
            raise CudaError(what, node.location) from None
