"""Two passes on a small language: common subexpression elimination and dead code elimination.

A program is a list of lines `(name, op, operands)`. Operands are names of earlier lines or of inputs, which have no
line. A constant is the line `(name, "constant", (number,))`. `add` and `multiply` are commutative to the last bit;
`subtract`, `divide`, `sin`, `exp` are the other ops. `(name, "random", (shape,))` is a draw: two draws are never the
same, and a draw keeps its name. The results of a program are named by `outputs`.

A pass returns new lines and new outputs. It leaves the lines that it was given as they are.
"""

from __future__ import annotations

import struct
from typing import Any

Line = tuple[str, str, tuple[Any, ...]]
COMMUTATIVE = ("add", "multiply")


def key_of(op: str, operands: tuple[Any, ...]) -> Any:
    """Equal for two lines if and only if they always have the same value, to the last bit: 0.0 and -0.0 differ.

    Numbers are all floats in double precision: 1 and 1.0 are the same constant, and NaN is the same as NaN.
    """
    if op == "constant":
        return op, struct.pack("d", float(operands[0]))
    return op, tuple(sorted(operands)) if op in COMMUTATIVE else tuple(operands)


def cse(lines: list[Line], outputs: list[str]) -> tuple[list[Line], list[str]]:
    """The program with each expression computed once, by the first of its lines."""
    first: dict[Any, str] = {}
    instead: dict[str, str] = {}
    kept: list[Line] = []
    for name, op, operands in lines:
        if op not in ("constant", "random"):
            operands = tuple(instead.get(operand, operand) for operand in operands)
        key = (op, name) if op == "random" else key_of(op, operands)
        instead[name] = first.setdefault(key, name)
        if instead[name] == name:
            kept.append((name, op, operands))
    return kept, [instead.get(output, output) for output in outputs]


def dce(lines: list[Line], outputs: list[str]) -> tuple[list[Line], list[str]]:
    """The program without the lines that no output needs, draws among them."""
    needed = set(outputs)
    kept = []
    for name, op, operands in reversed(lines):
        if name in needed:
            kept.append((name, op, operands))
            if op not in ("constant", "random"):
                needed.update(operands)
    return kept[::-1], list(outputs)
