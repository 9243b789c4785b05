"""What vendors' libraries offer, as the plan sees it: candidates for an op, and the choices that timing them left."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol

from wengert.core.graph import Node
from wengert.kernels.launch import Launch
from wengert.plan.plan import How, LibraryCall, LibraryCandidate, Step


class PartList(NamedTuple):
    """What a library's recipe does, in order: calls of it, and launches of ours around them, over temporaries."""

    parts: tuple[Launch | LibraryCall, ...]
    workspace: Mapping[str, int]


class SharedLU(NamedTuple):
    """The LU of a matrix that several systems need: places for it, and what a system's step has to do with it."""

    lu: Node
    pivots: Node
    is_made: bool  # whether the step factorises; else it finds the factors
    transposed: bool  # whether the system's matrix is the transpose of the one that is factorised

    @property
    def places(self) -> tuple[Node, Node]:
        """Both, which are no values of the graph."""
        return self.lu, self.pivots


class LibraryRecipe(Protocol):
    """A way to carry out an op by several calls of a library."""

    name: str

    def parts(
        self, node: Node, named: Callable[[Node], str], results: Mapping[int, Node], factors: SharedLU | None = None
    ) -> PartList:
        """The calls and launches, on buffers that `named` gives the names of; `results` are those of several wanted,
        `factors` what this step leaves for others, or finds.
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
    """The step of an op by a recipe. `named` notes in `names` what it gives a name; `picked` are the wanted results."""
    made = recipe.parts(node, named, picked, factors)
    read, written = [*reads], [*picked.values()] if isinstance(node.dtype, tuple) else [node]
    if factors is not None:
        (written if factors.is_made else read).extend(factors.places)
    return Step(made.parts, read, written, names, made.workspace)


class Choice(NamedTuple):
    """Who won, the time it took, and that of the candidate that would be taken untimed; of so many that were timed."""

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
        """What the libraries suggest for an op, best first.

        `keeper` is the attention that keeps what its backward wants; `epilogue` what is done with a product or a
        convolution before it is stored.
        """
        ...

    def recipes(self, node: Node) -> Sequence[LibraryRecipe]:
        """The ways in which libraries carry out an op by several calls, best first."""
        ...

    def say_missing(self, node: Node) -> None:
        """Say, once for an op, that the host computes it because a library is not installed, if that is so."""
        ...

    def operands(self, node: Node) -> Sequence[Node]:
        """What a library's candidate for an op reads, in order."""
        ...

    def about(self, node: Node) -> str:
        """The sizes, strides and dtypes of an op that a choice among candidates depends on."""
        ...


class ChoiceStore(Protocol):
    """The candidates that won when they were timed, by what was to be carried out."""

    def __bool__(self) -> bool: ...

    def get(self, key: str) -> Choice | None:
        """The choice for this, if candidates were timed."""
        ...

    def winners(self) -> Mapping[str, str]:
        """The names of those that won."""
        ...

    def drop(self, key: str, choice: Choice) -> None:
        """Forget a choice that cannot be carried out."""
        ...

    def keep(self, new: Mapping[str, Choice]) -> None:
        """Note choices for good."""
        ...


class Timer(Protocol):
    """What times candidates on the device."""

    def prepare(self, launches: Iterable[Launch]) -> None:
        """Compile kernels, side by side."""
        ...

    def times(self, steps: Mapping[str, Step]) -> Mapping[str, float]:
        """The median seconds of each step that runs, by name; none where there is no memory to time them in."""
        ...


class Collectives(Protocol):
    """What carries out collectives of values on a device."""

    def call(self, node: Node) -> LibraryCandidate | None:
        """The call that a collective is; it reads the node's sources and writes its results, in this order."""
        ...


# --- none ----------------------------------------------------------------------------------------------------------


class NoLibraries:
    """The libraries of a GPU that is not here: they suggest nothing."""

    def candidates(self, node: Node, keeper: Node | None = None, epilogue: How = ()) -> Sequence[LibraryCandidate]:
        """None."""
        return ()

    def recipes(self, node: Node) -> Sequence[LibraryRecipe]:
        """None."""
        return ()

    def say_missing(self, node: Node) -> None:
        """Nobody asked for any."""

    def operands(self, node: Node) -> Sequence[Node]:
        """What the op reads."""
        return node.sources

    def about(self, node: Node) -> str:
        """The op's name: nothing is chosen by it."""
        return node.op.name


class NoCollectives:
    """Nothing: collectives go through the host."""

    def call(self, node: Node) -> LibraryCandidate | None:
        """None."""
        return None


class NoChoices:
    """Nothing was timed on a GPU that is not here."""

    def __bool__(self) -> bool:
        return False

    def get(self, key: str) -> Choice | None:
        """None."""
        return None

    def winners(self) -> Mapping[str, str]:
        """None."""
        return {}

    def drop(self, key: str, choice: Choice) -> None:
        """There is none to forget."""

    def keep(self, new: Mapping[str, Choice]) -> None:
        """There is none to note."""
