"""Programs under `wg.config.check`: kernels against their references, and the whole against the graph as recorded.

A wrong kernel is named by the program itself (`backends.checked`). A wrong rewrite is not: its kernels do what the
graph they were made from says. So the outputs are compared with what the references make of the recorded graph, and
where they differ the rewrite at fault is looked for (`bisect`).
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import Any

import numpy as np

from wengert.backends.checked import Checked, difference, references_of
from wengert.backends.cpu import NOTHING
from wengert.compiler.passes import Report
from wengert.errors import CompilerError
from wengert.graph import Graph, describe_type
from wengert.runtime.bisect import find_in

Array = np.ndarray[Any, Any]


class CheckedProgram(Checked):
    """A compiled graph that is compared, kernel by kernel and as a whole, with its references in every call."""

    def __init__(
        self, recorded: Graph, graph: Graph, reports: Sequence[Report] = (), pairs: Sequence[tuple[int, int]] = ()
    ) -> None:
        self.recorded = recorded
        super().__init__(graph, reports, pairs)

    def __call__(
        self, arrays: Sequence[Array], owned: Container[int] = (), spare: Mapping[int, Array] = NOTHING
    ) -> list[Array]:
        """The outputs, or a CompilerError that names what is at fault."""
        given = [array.copy() for array in arrays]
        results = super().__call__(arrays, owned, spare)
        for node, found, reference in zip(self.recorded.outputs, results, references_of(self.recorded, given)):
            problem = difference(found, reference)
            if problem:
                fault = find_in(self.recorded, given)
                what = f"check: {node.op.name} {describe_type(node)}, an output, is not what was recorded: {problem}"
                location = fault.rewrite.location if fault and fault.rewrite else node.location
                raise CompilerError(f"{what}. {fault.text if fault else 'Run again, it is right'}", location)
        return results
