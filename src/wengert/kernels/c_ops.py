"""Ops with a C kernel of their own: the properties of each kernel, and the call that runs an op.

The Python side of a hand-written kernel gives the C statement that calls it, with its requirements. A statement may use
`(arena + scratch)`, private scratch memory of the size that it requests. Headers are found by function: the op's
CKernel says which file defines it. An op without a kernel in `registry` that is not a loop expression runs its NumPy
reference between two pieces of C.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from wengert.core.graph import Node
from wengert.kernels.registry import c_of_others, of_folders
from wengert.ops.op import Op

Pointer = Callable[[Node | None], str]  # the C expression for a value's address; NULL for an unread result


class CFunction(NamedTuple):
    """A function of a header: `wg_NAME_f32` with a variant per dtype, or a single `wg_NAME`."""

    name: str
    suffix: str = ""

    def __str__(self) -> str:
        return f"wg_{self.name}_{self.suffix}" if self.suffix else f"wg_{self.name}"


class CCall(NamedTuple):
    """A C statement, its bytes of scratch memory, and the function it calls."""

    text: str
    scratch: int = 0
    function: CFunction | None = None


class Packing(NamedTuple):
    """An op's preparation of an operand, which a loop does once for all steps: the statement, and its result's bytes.

    The text uses `{source}` and `{packed}`, the pointers to the operand and to the packed copy.
    """

    operand: Node
    text: str
    size: int


def called(name: str, suffix: str, arguments: str, scratch: int = 0, before: str = "") -> CCall:
    """The call of a function, optionally after another statement.

    >>> called("cumsum", "f32", "x, y, 3").text
    'wg_cumsum_f32(x, y, 3);'
    """
    function = CFunction(name, suffix)
    text = f"{function}({arguments});"
    return CCall(f"{before}\n    {text}" if before else text, scratch, function)


def braces(numbers: Iterable[int]) -> str:
    """Numbers as a C array initialiser."""
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

    call(node, pointer) -> the statement, or None for cases without C (dtypes, strides), which run the reference; a node
    with several results passes those as a third argument. `headers`: for each function that statements call, its
    headers in order.
    """

    call: Callable[..., CCall | None]
    headers: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    operands: Callable[[Node], Sequence[Node]] = _sources  # its operands in memory
    absorbs: Callable[[Node], bool] = _never  # whether it takes in an elementwise epilogue, as `epilogue=` of `call`
    packs: Callable[[Node], Packing | None] = _nothing  # the preparation that `packed=` replaces


@functools.cache
def c_kernels() -> dict[Op, CKernel]:
    """The folders' ops that have C."""
    return {op: kernel for op, (kernel,) in of_folders("c_kernels").items()}


def c_kernel(op: Op) -> CKernel | None:
    """The C of an op."""
    return c_of_others.get(op) or c_kernels().get(op)


def c_headers() -> dict[str, tuple[str, ...]]:
    """For each hand-written kernel function, its headers."""
    kernels = (*c_kernels().values(), *c_of_others.values())
    return {name: files for kernel in kernels for name, files in kernel.headers.items()}


# --- what a program asks --------------------------------------------------------------------------------------------


def operands(node: Node) -> Sequence[Node]:
    """The operands that an opaque op reads from memory."""
    kernel = c_kernel(node.op)
    return node.sources if kernel is None else kernel.operands(node)


def absorbs(node: Node) -> bool:
    """Whether an op takes an elementwise epilogue."""
    kernel = c_kernel(node.op)
    return kernel is not None and kernel.absorbs(node)


def packing(node: Node) -> Packing | None:
    """An op's preparation of an operand, if there is one."""
    kernel = c_kernel(node.op)
    return None if kernel is None else kernel.packs(node)


def call(node: Node, pointer: Pointer, results: Sequence[Node | None] = (), packed: str = "") -> CCall | None:
    """The C statement for an opaque op, or None if there is no C for it.

    `results` are the picks of a node with several results, None for unread ones; `packed` is the pointer to the packed
    operand.
    """
    kernel = c_kernel(node.op)
    if kernel is None:
        return None
    if packed:
        return kernel.call(node, pointer, packed=packed)
    return kernel.call(node, pointer, results) if isinstance(node.dtype, tuple) else kernel.call(node, pointer)


def call_with(node: Node, pointer: Pointer, epilogue: str, packed: str = "") -> CCall:
    """The C of an op with `epilogue`, a call that ends in `first, last`, on rows that were just computed."""
    kernel = c_kernel(node.op)
    more = {"packed": packed} if packed else {}
    found = None if kernel is None else kernel.call(node, pointer, epilogue=epilogue, **more)
    assert found is not None
    return found


def includes(functions: Iterable[CFunction]) -> str:
    """The include lines for some functions; a header is included once per dtype."""
    headers = c_headers()
    found: dict[tuple[str, str], None] = {}
    for function in functions:
        found |= {(file, function.suffix or "f32"): None for file in headers.get(function.name, ())}
    return "".join(f'#define WG_T {dtype}\n#include "{header}"\n#undef WG_T\n' for header, dtype in found)
