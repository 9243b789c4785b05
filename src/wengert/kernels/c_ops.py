"""Ops that are a kernel of their own in C: what they read, and the call that carries them out.

An op that has no kernel in `registry` and is no expression in a loop is computed by its NumPy reference between two
pieces of C.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from wengert.core.graph import Node
from wengert.kernels.c_call import CCall, CFunction, Pointer
from wengert.kernels.registry import c_headers, c_kernel


def operands(node: Node) -> Sequence[Node]:
    """What an opaque op reads from memory."""
    kernel = c_kernel(node.op)
    return node.sources if kernel is None else kernel.operands(node)


def absorbs(node: Node) -> bool:
    """Whether an op takes in an elementwise epilogue."""
    kernel = c_kernel(node.op)
    return kernel is not None and kernel.absorbs(node)


def call(node: Node, pointer: Pointer, results: Sequence[Node | None] = ()) -> CCall | None:
    """The C statement that carries out an opaque op, or None where there is no C for it.

    `results` are the picks of a node that has several results, None where nobody reads one.
    """
    kernel = c_kernel(node.op)
    if kernel is None:
        return None
    return kernel.call(node, pointer, results) if isinstance(node.dtype, tuple) else kernel.call(node, pointer)


def call_with(node: Node, pointer: Pointer, epilogue: str) -> CCall:
    """The C of an op that absorbs, and of `epilogue`, a call that ends in `first, last`, on rows just made."""
    kernel = c_kernel(node.op)
    found = None if kernel is None else kernel.call(node, pointer, epilogue=epilogue)
    assert found is not None
    return found


def includes(functions: Iterable[CFunction]) -> str:
    """The lines that include what has some functions; a header is included once for each dtype."""
    headers = c_headers()
    found: dict[tuple[str, str], None] = {}
    for function in functions:
        found |= {(file, function.suffix or "f32"): None for file in headers.get(function.name, ())}
    return "".join(f'#define WG_T {dtype}\n#include "{header}"\n#undef WG_T\n' for header, dtype in found)
