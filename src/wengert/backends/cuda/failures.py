"""Ops that fail on a GPU: each has a number, which its kernels note with how it failed, and which an error names it by.

Nothing is waited for: the number lies in the flag in which indices out of range are noted, until somebody looks at a
value. Of several failures the largest number stays, which is that of the op that was met first.
"""

from __future__ import annotations

from wengert.core.code import Location, describe
from wengert.core.errors import ComputationError, LinearAlgebraError
from wengert.core.graph import Node
from wengert.kernels.launch import FAILURES
from wengert.ops.op import PICK

_FIRST = 1 << 30  # numbers go down from here
_WAYS = 8  # numbers that an op has, one for each way to fail

_numbers: dict[tuple[str, str], int] = {}  # by what is said of a failure, and the line
_ops: dict[int, tuple[str, Location]] = {}


def number_of(node: Node) -> int:
    """The number of an op that says this of its failure, on this line."""
    op = node.sources[0] if node.op is PICK else node
    words = f"{op.op.name} failed: " if op.op.failure is None else op.op.failure(op)
    key = words, describe(op.location)
    if key not in _numbers:
        _numbers[key] = _FIRST - _WAYS * (len(_numbers) + 1)
        _ops[_numbers[key]] = words, op.location
    return _numbers[key]


def failed(noted: int) -> ComputationError:
    """The error of what kernels noted."""
    way = noted % _WAYS
    words, location = _ops[noted - way]
    kind = LinearAlgebraError if way else ComputationError
    return kind(words + FAILURES[way], location)
