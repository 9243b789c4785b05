"""CUDA C++ for a GPU: which ops have kernels, what they absorb, and the candidates that carry out a group.

In: a target with the properties of its device, the libraries there, and the choices that timing candidates left. Out:
what the stages of a plan ask a code generator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

from wengert.compiler.target import Target
from wengert.core.graph import Graph, Node
from wengert.kernels import cuda_ops
from wengert.kernels.convolution.form import is_convolution
from wengert.kernels.launch import Device
from wengert.ops.op import PICK
from wengert.plan.candidates import Candidates
from wengert.plan.codegen import How, LibraryEpilogue
from wengert.plan.convolution_epilogue import convolution_epilogues
from wengert.plan.groups import Grouping
from wengert.plan.libraries import Choices, Libraries, Timer
from wengert.plan.library_epilogue import ARGUMENT, SLOPE, matmul_epilogues
from wengert.plan.lowering import inlines
from wengert.plan.plan import Plan
from wengert.plan.steps import Step
from wengert.plan.tuning import Tuned, tune

if TYPE_CHECKING:
    from collections.abc import Callable


class CudaCodegen:
    """What generates CUDA C++."""

    overwriting = True

    def __init__(
        self, target: Target, libraries: Libraries, choices: Choices, timer: Timer | None = None, tuning: float = 0.0
    ) -> None:
        assert target.properties is not None
        self.target, self.libraries, self.choices = target, libraries, choices
        self.properties: Device = target.properties
        self.timer, self.tuning = timer, tuning  # seconds for timing candidates
        self.inlines: Callable[[Node], bool] = cache(inlines)
        self.is_hosted: Callable[[Node], bool] = cache(self._is_hosted)
        self.reads: Callable[[Node], Sequence[Node]] = cache(self._reads)

    def _is_hosted(self, node: Node) -> bool:
        """Whether an op is computed on the host: there are no kernels for it, and no library does it."""
        if cuda_ops.has_work(node):
            return False
        return not any(candidate.works for candidate in self.libraries.candidates(node))

    def _reads(self, node: Node) -> Sequence[Node]:
        """What an op reads from memory, but for what its epilogue reads."""
        return node.sources if self.is_hosted(node) else cuda_ops.operands(node)

    def absorbs(self, node: Node) -> bool:
        """Whether an elementwise epilogue is part of an op's kernel."""
        return cuda_ops.absorbs(node, self.properties)

    def epilogues(self, graph: Graph) -> Mapping[Node, LibraryEpilogue]:
        """The epilogues that a library carries out, by their products."""
        asked = graph, self.inlines, self.reads, self.takes_epilogue
        return {**matmul_epilogues(*asked), **convolution_epilogues(*asked)}

    def takes_epilogue(self, node: Node, how: How) -> bool:
        """Whether a library carries out a product or convolution with an epilogue; where that may not pay, if timed.

        What takes another matrix is no faster than loops after the product where sums are short, as GPT-2's are: with
        gelu and its argument 169 us instead of 158 on an H200; with the slope of gelu 168 and another kernel for the
        gradient of the bias, instead of 205 with it. A convolution's epilogue has to be compiled first.
        """
        pays = not is_convolution(node) and {ARGUMENT, SLOPE}.isdisjoint(how)
        if self.absorbs(node) or not (pays or self.tuning > 0 or self._was_timed(node)):
            return False
        return bool(self.libraries.candidates(node, epilogue=how))

    def _was_timed(self, node: Node) -> bool:
        """Whether there is a choice for an op and something done with its result."""
        then = f"{node.op.name} {self.libraries.about(node)} then " if self.choices else ""
        return any(key.startswith(then) for key in self.choices.winners())

    def fallible(self, grouping: Grouping) -> list[int]:
        """The groups that the host computes: they may fail, and what was overwritten before would be lost."""
        made = [(k, group.roots[0]) for k, group in enumerate(grouping.groups) if group.opaque]
        return [k for k, node in made if self.is_hosted(node.sources[0] if node.op is PICK else node)]

    def tune(self, plan: Plan) -> Tuned | None:
        """Time candidates for up to so many seconds."""
        if not self.tuning or self.timer is None:
            return None
        return tune(Candidates(self, plan), plan.grouping.groups, self.timer, self.tuning)

    def steps(self, plan: Plan) -> list[Step]:
        """The steps of all groups."""
        candidates = Candidates(self, plan)
        return [candidates.step(group) for group in plan.grouping.groups]
