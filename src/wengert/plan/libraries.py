"""Vendors' libraries from the plan's point of view: candidates for an op, and the choices that timing made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from wengert.core.graph import Node
from wengert.kernels.launch import Launch
from wengert.plan.plan import How, LibraryCall, LibraryCandidate, Step


class PartList(NamedTuple):
    """A library recipe's parts, in order: calls of the library, and our launches around them, over temporaries."""

    parts: tuple[Launch | LibraryCall, ...]
    workspace: Mapping[str, int]


class SharedLU(NamedTuple):
    """The LU of a matrix that several systems share: its buffers, and what a system's step does with it."""

    lu: Node
    pivots: Node
    is_made: bool  # whether the step factorises; else it finds the factors
    transposed: bool  # whether the system's matrix is the transpose of the one that is factorised

    @property
    def places(self) -> tuple[Node, Node]:
        """The two buffers, which are not values of the graph."""
        return self.lu, self.pivots


class LibraryRecipe(Protocol):
    """An implementation of an op by several library calls."""

    name: str

    def parts(
        self, node: Node, named: Callable[[Node], str], results: Mapping[int, Node], factors: SharedLU | None = None
    ) -> PartList:
        """The calls and launches, on buffers named by `named`.

        `results` are the results that are read, `factors` what this step leaves for other steps or takes from them.
        """
        ...


def recipe_step(
    recipe: LibraryRecipe,
    node: Node,
    reads: Sequence[Node],
    named: Callable[[Node], str],
    names: Mapping[str, Node],
    picked: Mapping[int, Node],
    factors: SharedLU | None,
) -> Step:
    """The step of an op by a recipe. `named` records buffer names in `names`; `picked` are the results to compute."""
    made = recipe.parts(node, named, picked, factors)
    read, written = [*reads], [*picked.values()] if isinstance(node.dtype, tuple) else [node]
    if factors is not None:
        (written if factors.is_made else read).extend(factors.places)
    return Step(made.parts, read, written, names, made.workspace)


class Choice(NamedTuple):
    """The winner, its time, the time of the default candidate, and the number of candidates timed."""

    winner: str
    seconds: float
    first: str
    first_seconds: float
    tried: int

    def __str__(self) -> str:
        if not self.tried:
            return "as it was chosen before"
        if self.winner == self.first:
            return f"fastest of {self.tried}, {self.seconds * 1e6:.1f} us"
        gain = self.first_seconds / self.seconds
        return f"fastest of {self.tried}, {self.seconds * 1e6:.1f} us, {gain:.2f} times as fast as {self.first}"


class Libraries(Protocol):
    """The libraries of a device."""

    def candidates(self, node: Node, keeper: Node | None = None, epilogue: How = ()) -> Sequence[LibraryCandidate]:
        """The library's suggestions for an op, best first.

        `keeper` is the attention that keeps values for its backward; `epilogue` is applied to a product or convolution
        before it is stored.
        """
        ...

    def recipes(self, node: Node) -> Sequence[LibraryRecipe]:
        """The implementations of an op by several library calls, best first."""
        ...

    def say_missing(self, node: Node) -> None:
        """Warn, once per op, if the host computes it because a library is not installed."""
        ...

    def operands(self, node: Node) -> Sequence[Node]:
        """The operands that a library's candidate reads, in order."""
        ...

    def about(self, node: Node) -> str:
        """The sizes, strides and dtypes that identify an op in the store of choices."""
        ...


class ChoiceStore(Protocol):
    """The winning candidates of earlier timing, by what they compute."""

    def __bool__(self) -> bool: ...

    def get(self, key: str) -> Choice | None:
        """The stored choice, if candidates were timed."""
        ...

    def winners(self) -> Mapping[str, str]:
        """The names of the winners."""
        ...

    def drop(self, key: str, choice: Choice) -> None:
        """Forget a choice that turned out not to run."""
        ...

    def keep(self, new: Mapping[str, Choice]) -> None:
        """Store choices permanently."""
        ...


class Timer(Protocol):
    """Times candidates on the device."""

    def prepare(self, launches: Iterable[Launch]) -> None:
        """Compile kernels in parallel."""
        ...

    def times(self, steps: Mapping[str, Step]) -> Mapping[str, float]:
        """The median seconds of each step that runs, by name; None if there is not enough memory to time them."""
        ...


class Collectives(Protocol):
    """The engine for collectives between devices."""

    def call(self, node: Node) -> LibraryCandidate | None:
        """The call for a collective; it reads the node's sources and writes its results, in this order."""
        ...


# --- none ----------------------------------------------------------------------------------------------------------


class NoLibraries:
    """The libraries of an absent GPU: no suggestions."""

    def candidates(self, node: Node, keeper: Node | None = None, epilogue: How = ()) -> Sequence[LibraryCandidate]:
        """Always empty."""
        return ()

    def recipes(self, node: Node) -> Sequence[LibraryRecipe]:
        """Always empty."""
        return ()

    def say_missing(self, node: Node) -> None:
        """Does nothing."""

    def operands(self, node: Node) -> Sequence[Node]:
        """The sources of the op."""
        return node.sources

    def about(self, node: Node) -> str:
        """The op's name; no choice depends on it."""
        return node.op.name


class NoCollectives:
    """No engine: collectives go through the host."""

    def call(self, node: Node) -> LibraryCandidate | None:
        """Always None."""
        return None


class NoChoices:
    """An empty store, for an absent GPU."""

    def __bool__(self) -> bool:
        return False

    def get(self, key: str) -> Choice | None:
        """Always None."""
        return None

    def winners(self) -> Mapping[str, str]:
        """Always empty."""
        return {}

    def drop(self, key: str, choice: Choice) -> None:
        """Does nothing."""

    def keep(self, new: Mapping[str, Choice]) -> None:
        """Does nothing."""
