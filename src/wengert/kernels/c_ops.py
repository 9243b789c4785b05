"""Ops that are a kernel of their own in C: what a kernel says of itself, and the call that carries an op out.

A hand-written kernel's Python side gives the C statement that calls it, and what it needs. A statement may use `(arena
+ scratch)`: memory for it alone while it runs, of the size it asks for. Headers are found by the function that does the
work: the op's CKernel says which file has it. An op that has no kernel in `registry` and is no expression in a loop is
computed by its NumPy reference between two pieces of C.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from wengert.core.graph import Node
from wengert.kernels.registry import c_of_others, of_folders
from wengert.ops.op import Op

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


class Packing(NamedTuple):
    """What an op does to an operand first, which a loop does once for all steps: the statement, and the bytes it makes.

    The text is over `{source}` and `{packed}`, the pointers of the operand and of what is made of it.
    """

    operand: Node
    text: str
    size: int


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


# --- kernels --------------------------------------------------------------------------------------------------------


def _sources(node: Node) -> Sequence[Node]:
    return node.sources


def _never(node: Node) -> bool:
    return False


def _nothing(node: Node) -> None:
    return None


@dataclass(frozen=True)
class CKernel:
    """An op in C.

    call(node, pointer) -> the statement, or None for what the C cannot do (dtypes, strides), which the reference then
    does; a node with several results passes those as a third argument. `headers`: by the name of each function that
    statements call, the headers that it is in, in order.
    """

    call: Callable[..., CCall | None]
    headers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    operands: Callable[[Node], Sequence[Node]] = _sources  # what it reads from memory
    absorbs: Callable[[Node], bool] = _never  # whether it takes in an elementwise epilogue, as `epilogue=` of `call`
    packs: Callable[[Node], Packing | None] = _nothing  # what `call` finds done where it is given `packed=`


@functools.cache
def c_kernels() -> dict[Op, CKernel]:
    """The ops of the folders that have C."""
    return {op: kernel for op, (kernel,) in of_folders("c_kernels").items()}


def c_kernel(op: Op) -> CKernel | None:
    """The C of an op."""
    return c_of_others.get(op) or c_kernels().get(op)


def c_headers() -> dict[str, tuple[str, ...]]:
    """By function of a hand-written kernel, the headers that it is in."""
    kernels = (*c_kernels().values(), *c_of_others.values())
    return {name: files for kernel in kernels for name, files in kernel.headers.items()}


# --- what a program asks --------------------------------------------------------------------------------------------


def operands(node: Node) -> Sequence[Node]:
    """What an opaque op reads from memory."""
    kernel = c_kernel(node.op)
    return node.sources if kernel is None else kernel.operands(node)


def absorbs(node: Node) -> bool:
    """Whether an op takes in an elementwise epilogue."""
    kernel = c_kernel(node.op)
    return kernel is not None and kernel.absorbs(node)


def packing(node: Node) -> Packing | None:
    """What an op does to an operand before its own work, if it does."""
    kernel = c_kernel(node.op)
    return None if kernel is None else kernel.packs(node)


def call(node: Node, pointer: Pointer, results: Sequence[Node | None] = (), packed: str = "") -> CCall | None:
    """The C statement that carries out an opaque op, or None where there is no C for it.

    `results` are the picks of a node that has several results, None where nobody reads one; `packed` is the pointer of
    what `packing` made.
    """
    kernel = c_kernel(node.op)
    if kernel is None:
        return None
    if packed:
        return kernel.call(node, pointer, packed=packed)
    return kernel.call(node, pointer, results) if isinstance(node.dtype, tuple) else kernel.call(node, pointer)


def call_with(node: Node, pointer: Pointer, epilogue: str, packed: str = "") -> CCall:
    """The C of an op that absorbs, and of `epilogue`, a call that ends in `first, last`, on rows just made."""
    kernel = c_kernel(node.op)
    more = {"packed": packed} if packed else {}
    found = None if kernel is None else kernel.call(node, pointer, epilogue=epilogue, **more)
    assert found is not None
    return found


def includes(functions: Iterable[CFunction]) -> str:
    """The lines that include what has some functions; a header is included once for each dtype."""
    headers = c_headers()
    found: dict[tuple[str, str], None] = {}
    for function in functions:
        found |= {(file, function.suffix or "f32"): None for file in headers.get(function.name, ())}
    return "".join(f'#define WG_T {dtype}\n#include "{header}"\n#undef WG_T\n' for header, dtype in found)
