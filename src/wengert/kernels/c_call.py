"""What a hand-written kernel's Python side gives: the C statement that calls it, and what it needs.

A statement may use `(arena + scratch)`: memory for it alone while it runs, of the size it asks for. Headers are found
by the function that does the work: the op's CKernel says which file has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from wengert.core.graph import Node

Pointer = Callable[[Node | None], str]  # the C expression for the memory of a value; NULL for a result nobody reads


class CFunction(NamedTuple):
    """A function of a header: `wg_NAME_f32`, of which there is one for each dtype, or `wg_NAME` for all of them."""

    name: str
    suffix: str = ""

    def __str__(self) -> str:
        return f"wg_{self.name}_{self.suffix}" if self.suffix else f"wg_{self.name}"


class CCall(NamedTuple):
    """A C statement, the bytes of scratch memory it works in, and the function that does the work."""

    text: str
    scratch: int = 0
    function: CFunction | None = None


def called(name: str, suffix: str, arguments: str, scratch: int = 0, before: str = "") -> CCall:
    """The call of a function, after another statement perhaps.

    >>> called("cumsum", "f32", "x, y, 3").text
    'wg_cumsum_f32(x, y, 3);'
    """
    function = CFunction(name, suffix)
    text = f"{function}({arguments});"
    return CCall(f"{before}\n    {text}" if before else text, scratch, function)


def braces(numbers: Iterable[int]) -> str:
    """Numbers as the value of a C array."""
    return "{" + ", ".join(map(str, numbers)) + "}"
