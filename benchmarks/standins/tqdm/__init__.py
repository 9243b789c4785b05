"""A tqdm that shows nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any


class tqdm:
    """What is iterated over, and the calls of a bar."""

    def __init__(self, iterable: Iterable[Any] = (), **options: Any) -> None:
        self._iterable = iterable

    def __iter__(self) -> Iterator[Any]:
        return iter(self._iterable)

    def _nothing(self, *arguments: Any, **options: Any) -> None:
        """Show nothing."""

    update = set_description = set_postfix = close = write = _nothing


def trange(*arguments: int, **options: Any) -> tqdm:
    """A range with a bar."""
    return tqdm(range(*arguments))
