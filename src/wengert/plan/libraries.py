"""What vendors' libraries offer, as the plan sees it: candidates for an op, and the choices that timing them left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

from wengert.core.graph import Node
from wengert.kernels.launch import Launch
from wengert.plan.plan import Choice, How, LibraryCandidate, Step


class Libraries(Protocol):
    """The libraries of a device."""

    def candidates(self, node: Node, keeper: Node | None = None, epilogue: How = ()) -> Sequence[LibraryCandidate]:
        """What the libraries suggest for an op, best first.

        `keeper` is the attention that keeps what its backward wants; `epilogue` what is done with a product or a
        convolution before it is stored.
        """
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


# --- none ----------------------------------------------------------------------------------------------------------


class NoLibraries:
    """The libraries of a GPU that is not here: they suggest nothing."""

    def candidates(self, node: Node, keeper: Node | None = None, epilogue: How = ()) -> Sequence[LibraryCandidate]:
        """None."""
        return ()

    def operands(self, node: Node) -> Sequence[Node]:
        """What the op reads."""
        return node.sources

    def about(self, node: Node) -> str:
        """The op's name: nothing is chosen by it."""
        return node.op.name


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
