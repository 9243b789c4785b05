"""What a hand-written kernel's Python side gives: the C statement that calls it, and what it needs.

A statement may use `(arena + scratch)`: memory for it alone while it runs, of the size it asks for. Headers are found
by the functions' names, `wg_NAME_f32(...)`: the op's CKernel says which file has them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from wengert.core.graph import Node

Pointer = Callable[[Node | None], str]  # the C expression for the memory of a value; NULL for a result nobody reads


class Call(NamedTuple):
    """A C statement and the bytes of scratch memory it works in."""

    text: str
    scratch: int = 0


def braces(numbers: Iterable[int]) -> str:
    """Numbers as the value of a C array."""
    return "{" + ", ".join(map(str, numbers)) + "}"
