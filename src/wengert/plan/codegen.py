"""Code generation, as the plan sees it: what a language can express, and the step that carries out a group.

There are two: C for the CPU (`c_codegen`) and CUDA C++ for a GPU (`cuda_codegen`). Stages ask them the same questions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from wengert.compiler.target import Target
from wengert.core.graph import Graph, Node
from wengert.plan.groups import Grouping

if TYPE_CHECKING:
    from wengert.plan.plan import Plan
    from wengert.plan.steps import Step

How = tuple[Any, ...]
"""What a library does with a product before it stores it: words for a matrix product, steps for a convolution."""


class LibraryEpilogue(NamedTuple):
    """What a library does after a product or convolution: what it stores then, what it reads, what else it stores."""

    how: How
    result: Node
    operands: tuple[Node, ...] = ()
    kept: tuple[Node, ...] = ()


class Codegen(Protocol):
    """What generates code for a target."""

    @property
    def target(self) -> Target:
        """What the code is for."""
        ...

    @property
    def overwriting(self) -> bool:
        """Whether kernels of ops that overwrite leave the result in the memory of their first operand."""
        ...

    def inlines(self, node: Node) -> bool:
        """Whether a value is an expression in a loop."""
        ...

    def reads(self, node: Node) -> Sequence[Node]:
        """What an op that is no loop reads from memory."""
        ...

    def absorbs(self, node: Node) -> bool:
        """Whether an elementwise epilogue may be part of an op's kernel."""
        ...

    def epilogues(self, graph: Graph) -> Mapping[Node, LibraryEpilogue]:
        """The epilogues that a library carries out, by their products."""
        ...

    def fallible(self, grouping: Grouping) -> Collection[int]:
        """The numbers of the groups that may raise while they run."""
        ...

    def tune(self, plan: Plan) -> Any:
        """Time candidates and keep the winners, if that was asked for; what it came to."""
        ...

    def steps(self, plan: Plan) -> Sequence[Step]:
        """The steps of a plan's groups, one for each."""
        ...


MakeCodegen = Callable[[Target], Codegen]
