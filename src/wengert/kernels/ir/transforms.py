"""Queries and transforms of statements: matching, renaming, merging and splitting loops.

Only this module knows which names a statement uses. Transforms match values by their ops and operands. Names are a
letter and a number; `Fresh` creates unused ones. Adjacent loops that every index treats as one are merged for every
backend. Splitting is for C alone, where a division in an index prevents good vectorisation: a loop is cut where a guard
on it changes, and one whose indices are quotients and remainders becomes two.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import TypeGuard

from wengert.kernels.ir.index import Index, Loop, Symbol, add, number, substitute, variable, with_merged
from wengert.kernels.ir.intrinsics import ZERO, Intrinsic
from wengert.kernels.ir.loops import (
    Accumulate,
    Let,
    Literal,
    Load,
    LoopKernel,
    Operand,
    Position,
    Stage,
    Statement,
    Store,
    Value,
    let,
)
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
    """A value's expression, down to loads and values outside `made`: equal expressions mean equal values."""
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


# --- transforms -----------------------------------------------------------------------------------------------------


MOST_PIECES, LEAST = 4, 16  # of a loop that is cut: pieces, and steps of each


def merge_loops(kernel: LoopKernel) -> LoopKernel:
    """Neighbouring loops that every index treats as one become one: longer loops, cheaper indices."""
    changed = True
    while changed:
        changed = False
        for group in ("outer", "inner"):
            loops: list[Loop] = getattr(kernel, group)
            for a, b in pairwise(loops):
                if _mergeable(kernel, a, b):
                    kernel = _merged(kernel, group, a, b)
                    changed = True
                    break
    return kernel


def statements_of(kernel: LoopKernel) -> Iterable[Statement]:
    """All statements, in order."""
    for stage in kernel.stages:
        yield from stage.before
        yield from stage.inside
    yield from kernel.after


def indices_of(statement: Statement) -> list[Index]:
    """The indices that a statement names."""
    if isinstance(statement, Load | Let):
        own = [statement.index] if isinstance(statement, Load) else []
        return [*own, *[guard.index for guard in statement.guards]]
    if isinstance(statement, Accumulate):
        return [] if statement.position is None else [statement.position]
    return [statement.index]


def reductions_in(statements: Iterable[Statement]) -> list[Accumulate]:
    """The reductions among some statements."""
    return [s for s in statements if isinstance(s, Accumulate)]


def with_buffers(kernel: LoopKernel, names: Mapping[str, str]) -> LoopKernel:
    """A kernel with other names for its buffers."""

    def renamed(statements: list[Statement]) -> list[Statement]:
        return [_on(s, names.get(s.buffer, s.buffer)) if isinstance(s, Load | Store) else s for s in statements]

    return replace(
        kernel,
        stages=[Stage(renamed(stage.before), renamed(stage.inside)) for stage in kernel.stages],
        after=renamed(kernel.after),
        buffers={names[name]: kind for name, kind in kernel.buffers.items()},
    )


def _on(access: Load | Store, buffer: str) -> Load | Store:
    """An access to another buffer."""
    if isinstance(access, Load):
        return Load(access.name, buffer, access.dtype, access.index, access.guards)
    return Store(buffer, access.dtype, access.index, access.value)


def symbols(kernel: LoopKernel) -> list[Symbol]:
    """The extents that are arguments of a kernel, each once."""
    sizes = dict.fromkeys(loop.size for loop in (*kernel.outer, *kernel.inner))
    return [size for size in sizes if isinstance(size, Symbol)]


def _mergeable(kernel: LoopKernel, a: Loop, b: Loop) -> bool:
    if not (a.is_constant and b.is_constant):
        return False
    for statement in statements_of(kernel):
        for index in indices_of(statement):
            slow, fast = index.factor(a), index.factor(b)
            if slow is None or fast is None or slow != fast * b.extent:
                return False
    return True


def _merged(kernel: LoopKernel, group: str, a: Loop, b: Loop) -> LoopKernel:
    both = Loop(f"{a.name}_{b.name[1:]}", a.extent * b.extent)
    loops = [both if loop == a else loop for loop in getattr(kernel, group) if loop != b]

    moved = partial(with_merged, slow=a, fast=b, both=both)
    return _with_indices(replace(kernel, **{group: loops}), moved)  # type: ignore[arg-type]


def _with_indices(kernel: LoopKernel, moved: Callable[[Index], Index]) -> LoopKernel:
    """The kernel with every index as another."""

    def change(statement: Statement) -> Statement:
        if isinstance(statement, Let) and not statement.guards:
            return statement
        changed = with_index(statement, moved)
        if not isinstance(changed, Load | Let) or not changed.guards:
            return changed
        if any(guard.never for guard in changed.guards):
            return let(changed.name, changed.dtype, ZERO)
        return replace(changed, guards=tuple(guard for guard in changed.guards if not guard.always))

    stages = [Stage([change(s) for s in st.before], [change(s) for s in st.inside]) for st in kernel.stages]
    return replace(kernel, stages=stages, after=[change(s) for s in kernel.after])


def cut(kernel: LoopKernel) -> list[LoopKernel]:
    """The kernel as consecutive kernels, in each of which the guards on its last outer loop hold or do not.

    For few and long pieces: the gradient of three values that were adjacent slices of one is three loops.
    """
    loop = kernel.outer[-1] if kernel.outer else Loop("", 0)
    if not loop.is_constant:
        return [kernel]
    edges = {0, loop.extent}
    for guard in (guard for s in statements_of(kernel) if isinstance(s, Load | Let) for guard in s.guards):
        if guard.step == 1 and guard.index.loops() == {loop} and guard.index.factor(loop) == 1:
            edges |= {guard.low - guard.index.constant, guard.high - guard.index.constant}
    pieces = list(pairwise(sorted(edge for edge in edges if 0 <= edge <= loop.extent)))
    if not 1 < len(pieces) <= MOST_PIECES or min(b - a for a, b in pieces) < LEAST:
        return [kernel]
    return [_between(kernel, loop, first, last) for first, last in pieces]


def _between(kernel: LoopKernel, loop: Loop, first: int, last: int) -> LoopKernel:
    piece = Loop(loop.name, last - first)
    outer = [piece if one == loop else one for one in kernel.outer]
    place = add(variable(piece), number(first))
    return needed(_with_indices(replace(kernel, outer=outer), lambda index: substitute(index, loop, place)))


def needed(kernel: LoopKernel) -> LoopKernel:
    """The kernel without unused values."""
    used: set[str] = set()
    for statement in reversed(list(statements_of(kernel))):
        if isinstance(statement, Store | Accumulate) or statement.name in used:
            used.update(uses(statement))

    def kept(statements: Iterable[Statement]) -> list[Statement]:
        return [s for s in statements if isinstance(s, Store | Accumulate) or s.name in used]

    stages = [Stage(kept(stage.before), kept(stage.inside)) for stage in kernel.stages]
    return replace(kernel, stages=stages, after=kept(kernel.after))


def split(kernel: LoopKernel) -> LoopKernel:
    """The kernel with outer loops that indices divide as two: the quotient's and the remainder's."""
    for loop in kernel.outer:
        divisors = {by for s in statements_of(kernel) for index in indices_of(s) for by in _divisors(index, loop)}
        by = min(divisors, default=0)
        even = all(other % by == 0 for other in (*divisors, loop.extent)) if by else False
        if even and LEAST <= by < loop.extent:
            slow, fast = Loop(f"{loop.name}q", loop.extent // by), Loop(f"{loop.name}r", by)
            outer = [new for one in kernel.outer for new in ((slow, fast) if one == loop else (one,))]
            place = Index(((slow, by), (fast, 1)))
            kernel = _with_indices(replace(kernel, outer=outer), partial(substitute, loop=loop, value=place))
    return kernel


def _divisors(index: Index, loop: Loop) -> set[int]:
    """The divisors of a loop variable in an index."""
    atoms = [atom for atom, _ in index.terms if not isinstance(atom, Loop) and loop in atom.whole.loops()]
    return {by for atom in atoms for by in ({atom.by} | _divisors(atom.whole, loop))}


def crosses(kernel: LoopKernel) -> bool:
    """Whether neighbouring elements in memory belong to different rows.

    Rows that are kept for later passes are worked on one at a time.
    """
    if kernel.scratch or not kernel.outer or not kernel.inner:
        return False
    across = along = 0
    for statement in (statement for stage in kernel.stages for statement in stage.inside):
        if isinstance(statement, Load | Store):
            elements = math.prod(loop.most for loop in statement.index.loops())
            across += elements * (statement.index.step(kernel.outer[-1]) == 1)
            along += elements * (statement.index.step(kernel.inner[-1]) == 1)
    return across > along
