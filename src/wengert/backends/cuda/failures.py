"""Ops that fail on a GPU: each has a number, which its kernels store on failure, and by which an error names the op.

Nothing waits for this: the number is stored in the same flag as indices out of range, which is checked when a value is
read. Of several failures the largest number wins, which is the op recorded first.
"""

from __future__ import annotations

from wengert.core.code import Location, describe
from wengert.core.errors import ComputationError, LinearAlgebraError
from wengert.core.graph import Node
from wengert.kernels.launch import FAILURES
from wengert.ops.op import PICK

_FIRST = 1 << 30  # numbers go down from here
_WAYS = 8  # numbers that an op has, one for each way to fail

_numbers: dict[tuple[str, str], int] = {}  # by failure message and line
_ops: dict[int, tuple[str, Location]] = {}


def number_of(node: Node) -> int:
    """The number of an op with this failure message and source line."""
    op = node.sources[0] if node.op is PICK else node
    words = f"{op.op.name} failed: " if op.op.failure is None else op.op.failure(op)
    key = words, describe(op.location)
    if key not in _numbers:
        _numbers[key] = _FIRST - _WAYS * (len(_numbers) + 1)
        _ops[_numbers[key]] = words, op.location
    return _numbers[key]


def failed(noted: int) -> ComputationError:
    """The error for the number that kernels stored."""
    way = noted % _WAYS
    words, location = _ops[noted - way]
    kind = LinearAlgebraError if way else ComputationError
    return kind(words + FAILURES[way], location)
