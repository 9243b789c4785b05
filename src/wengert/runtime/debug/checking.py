"""Programs under `wg.config.check`: kernels against their references, and the whole against the recorded graph.

The program itself detects a wrong kernel (`backends.checked`, `backends.cuda.checked`). It cannot detect a wrong
rewrite, because the kernels correctly implement the rewritten graph. So the outputs are also compared with the
references on the recorded graph, and if they differ, `bisect` finds the rewrite at fault.
"""

from __future__ import annotations

import functools
from collections.abc import Container, Mapping, Sequence
from typing import Any

import numpy as np

from wengert.backends.checked import CheckedCpuProgram, difference, has_reference, references_of
from wengert.backends.protocol import NOTHING, Runnable
from wengert.core.devices import on_host
from wengert.core.errors import CompilerError
from wengert.core.graph import Graph, describe_type
from wengert.plan.plan import Plan
from wengert.runtime.debug.bisect import find_in


class _Whole:
    """A program whose outputs are compared with those of the recorded graph on every call."""

    def __init__(self, recorded: Graph, *arguments: Any, **options: Any) -> None:
        self.recorded = recorded
        super().__init__(*arguments, **options)

    def __call__(
        self, arrays: Sequence[Any], owned: Container[int] = (), spare: Mapping[int, Any] = NOTHING
    ) -> list[Any]:
        """The outputs, or a CompilerError that names what is at fault."""
        given = [np.array(on_host(array)) for array in arrays]
        results: list[Any] = super().__call__(arrays, owned, spare)  # type: ignore[misc]
        if not all(map(has_reference, self.recorded.nodes)):
            return results
        for node, found, reference in zip(self.recorded.outputs, results, references_of(self.recorded, given, on_host)):
            problem = difference(on_host(found), reference)
            if problem:
                fault = find_in(self.recorded, given)
                what = f"check: {node.op.name} {describe_type(node)}, an output, is not what was recorded: {problem}"
                location = fault.rewrite.location if fault and fault.rewrite else node.location
                raise CompilerError(f"{what}. {fault.text if fault else 'Run again, it is right'}", location)
        return results


class CheckedProgram(_Whole, CheckedCpuProgram):
    """A compiled graph that is compared with its references in every call, kernel by kernel and as a whole."""


def checked_program(recorded: Graph, plan: Plan) -> Runnable:
    """The program of a plan that is compared in every call with its references and with the recorded graph."""
    if not plan.target.launches:
        return CheckedProgram(recorded, plan)
    program: Runnable = _checked_on_gpu()(recorded, plan, captures=False)
    return program


@functools.cache
def _checked_on_gpu() -> type:
    """The class for a graph on a GPU, whose programs are loaded on first use."""
    from wengert.backends.cuda import checked

    return type("CheckedProgramOnGpu", (_Whole, checked.CheckedCudaProgram), {})
