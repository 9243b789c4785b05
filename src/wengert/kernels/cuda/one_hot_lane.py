"""One-hot lanes: the elements whose place equals a number of the row, as the target of a cross-entropy is.

All other elements compare and choose for nothing. `one_hots` finds such comparisons among the statements of a pass,
`may_be_among` is the condition for vectors in which one of them may hold, and `without_one_hots` has the statements for
all other vectors: about 70 instructions for 8 elements of GPT-2's loss instead of 112, and 941 us instead of 1124 on an
H200 (rows of 50304 scores in bfloat16, edited by hand).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from wengert.core.dtypes import int32, int64, uint32, uint64
from wengert.kernels.ir.index import Loop, variable
from wengert.kernels.ir.intrinsics import COPY
from wengert.kernels.ir.loops import Accumulate, DType, Let, Operand, Position, Statement, let, literal
from wengert.kernels.ir.match import definitions, is_op
from wengert.ops.elementwise import equal, where

_EXACT = (int32, int64, uint32, uint64)  # in less, or as floats, places wrap around or are rounded: several are equal

OneHots = Mapping[str, tuple[str, DType]]  # by name of a comparison: the number that the place is compared with


def places(statements: Sequence[Statement], loop: Loop | None) -> dict[str, DType]:
    """The names that places along a loop go by."""
    found = [s for s in statements if isinstance(s, Position)]
    return {s.name: s.dtype for s in found if loop is not None and s.index == variable(loop)}


def one_hots(statements: Sequence[Statement], loop: Loop | None) -> OneHots:
    """Comparisons of the place along a loop with a number that is there before it."""
    along = {name: dtype for name, dtype in places(statements, loop).items() if dtype in _EXACT}
    made = definitions(statements)
    found: dict[str, tuple[str, DType]] = {}
    for comparison in (s for s in statements if is_op(s, equal)):
        for place, number in (comparison.operands, comparison.operands[::-1]):
            if place in along and isinstance(place, str) and isinstance(number, str) and number not in made:
                found[comparison.name] = number, along[place]
    return found


def may_be_among(found: OneHots, first: str, vector: int) -> str:
    """What holds where one of the numbers is among `vector` places from `first` on."""
    kinds = {number: f"uint{8 * dtype.itemsize}_t" for number, dtype in found.values()}
    # a number before the first wraps around and is large, so that one comparison does for both ends
    return " || ".join(f"({kind}){number} - ({kind}){first} < {vector}" for number, kind in kinds.items())


def without_one_hots(statements: Sequence[Statement], found: OneHots) -> list[Statement]:
    """The statements for elements whose place is none of the numbers.

    A sum leaves out terms that are 0: it begins at +0, and no term makes it the -0 that +0 would change.
    """
    zeros: set[Operand] = set()
    left: list[Statement] = []
    for statement in statements:
        if isinstance(statement, Let) and (statement.name in found or _is_zero(statement, zeros)):
            zeros.add(statement.name)
            statement = let(statement.name, statement.dtype, COPY, literal(0, statement.dtype))
        if not (isinstance(statement, Accumulate) and statement.kind == "sum" and statement.value in zeros):
            left.append(statement)
    return left


def _is_zero(value: Let, zeros: set[Operand]) -> bool:
    """Whether a number that is chosen from two is +0, given some that are."""
    if not is_op(value, where):
        return False
    known = {*zeros, literal(0, value.dtype)}
    asked, one, other = value.operands
    return other in known and (asked in zeros or one in known)
