"""Matching, renaming and uses of statements: the only place that knows which names a statement has.

Transforms ask here what a value is made of, by ops and operands. Names are a letter and a number; `Fresh` gives ones
that a kernel does not have.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import replace
from typing import TypeGuard

from wengert.kernels.ir.index import Index
from wengert.kernels.ir.intrinsics import Intrinsic
from wengert.kernels.ir.loops import Accumulate, Let, Literal, Load, Operand, Position, Statement, Store, Value
from wengert.ops.op import Op


def uses(statement: Statement) -> list[str]:
    """The names that a statement reads, in order."""
    if isinstance(statement, Let):
        return [operand for operand in statement.operands if isinstance(operand, str)]
    if isinstance(statement, Store | Accumulate):
        return [statement.value] if isinstance(statement.value, str) else []
    return []


def used(statements: Iterable[Statement]) -> set[str]:
    """The names that statements read."""
    return {name for statement in statements for name in uses(statement)}


def defined_by(statement: Statement) -> str | None:
    """The name that a statement defines."""
    return None if isinstance(statement, Store) else statement.name


def definitions(statements: Iterable[Statement]) -> dict[str, Value]:
    """The statements that compute values, by name."""
    return {s.name: s for s in statements if isinstance(s, Load | Let | Position)}


def is_op(statement: Statement | None, *ops: Op | Intrinsic) -> TypeGuard[Let]:
    """Whether a statement is one of some ops, and nothing more: a guard would make 0 of it."""
    return isinstance(statement, Let) and statement.op in ops and not statement.guards


def with_operands(let: Let, change: Callable[[str], Operand]) -> Let:
    """A value with other operands for those that have names."""
    return replace(let, operands=tuple(change(one) if isinstance(one, str) else one for one in let.operands))


def renamed(statement: Statement, change: Callable[[str], str]) -> Statement:
    """A statement with other names for what it reads and what it defines."""
    if isinstance(statement, Let):
        return replace(with_operands(statement, change), name=change(statement.name))
    if isinstance(statement, Load | Position):
        return replace(statement, name=change(statement.name))
    value = change(statement.value) if isinstance(statement.value, str) else statement.value
    if isinstance(statement, Store):
        return replace(statement, value=value)
    return replace(statement, name=change(statement.name), value=value)


def with_index(statement: Statement, change: Callable[[Index], Index]) -> Statement:
    """A statement with every index, those of its guards too, as another."""
    if isinstance(statement, Load | Let) and statement.guards:
        guards = tuple(replace(guard, index=change(guard.index)) for guard in statement.guards)
        statement = replace(statement, guards=guards)
    if isinstance(statement, Let):
        return statement
    if isinstance(statement, Accumulate):
        return statement if statement.position is None else replace(statement, position=change(statement.position))
    return replace(statement, index=change(statement.index))


def written_out(value: Operand, made: Mapping[str, Value]) -> Hashable:
    """What a value is computed from, down to loads and to what is not among `made`: equal if the values are."""
    statement = None if isinstance(value, Literal) else made.get(value)
    if statement is None:
        return value
    operands = statement.operands if isinstance(statement, Let) else ()
    parts = tuple(written_out(operand, made) for operand in operands)
    bare = replace(statement, name="", operands=()) if isinstance(statement, Let) else replace(statement, name="")
    return bare, parts


def number_of(name: str) -> int:
    """The number of a name."""
    return int(name[1:])


class Fresh:
    """Names that some statements do not have."""

    def __init__(self, statements: Iterable[Statement]) -> None:
        names = [name for name in map(defined_by, statements) if name is not None]
        self.next = 1 + max(map(number_of, names), default=0)

    def name(self, letter: str = "v") -> str:
        """One more, of values (v) or reductions (r)."""
        self.next += 1
        return f"{letter}{self.next - 1}"
