"""Index expressions: the position of an element, as a sum of loop variables with constant factors.

An Index is exact integer arithmetic over loop variables `i0, i1, ...` that run from 0 to their extents. Divisions and
remainders (from reshapes) are simplified by the ranges of their operands and otherwise kept as atoms. Movement ops are
maps of indices; the writers print them as C.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import NamedTuple


class Symbol(NamedTuple):
    """A number that is an argument of the kernel: its name, and its maximum."""

    name: str
    most: int

    def __str__(self) -> str:
        return self.name


Extent = int | Symbol


def constant(extent: Extent) -> int:
    """An extent that must be known at compile time."""
    if isinstance(extent, Symbol):
        raise TypeError(f"the extent {extent} is not known before the kernel runs")
    return extent


class Loop(NamedTuple):
    """A loop variable: its name and its number of iterations, which writers print as it is."""

    name: str
    size: Extent

    @property
    def extent(self) -> int:
        """How many values it takes, for what needs a number."""
        return constant(self.size)

    @property
    def most(self) -> int:
        """The maximum number of iterations, for bounds and choices."""
        size = self.size
        return size.most if isinstance(size, Symbol) else size

    @property
    def is_constant(self) -> bool:
        """Whether its extent is known when the kernel is written."""
        return not isinstance(self.size, Symbol)


class Quotient(NamedTuple):
    """The atom `whole // by`. The sign tells it from a remainder: named tuples compare as tuples."""

    whole: Index
    by: int
    sign: str = "/"


class Remainder(NamedTuple):
    """The atom `whole % by`."""

    whole: Index
    by: int
    sign: str = "%"


Atom = Loop | Quotient | Remainder


class Index(NamedTuple):
    """A sum of atoms with constant factors, and a constant. Terms are sorted, so equal indices compare equal."""

    terms: tuple[tuple[Atom, int], ...]
    constant: int = 0

    @property
    def is_zero(self) -> bool:
        """Whether this is the number 0."""
        return not self.terms and self.constant == 0

    def bounds(self) -> tuple[int, int]:
        """The smallest and the largest value."""
        low = high = self.constant
        for atom, factor in self.terms:
            a, b = _atom_bounds(atom)
            low += min(a * factor, b * factor)
            high += max(a * factor, b * factor)
        return low, high

    def loops(self) -> set[Loop]:
        """The loop variables it depends on."""
        found: set[Loop] = set()
        for atom, _ in self.terms:
            found |= {atom} if isinstance(atom, Loop) else atom.whole.loops()
        return found

    def factor(self, loop: Loop) -> int | None:
        """How far it moves when a loop takes a step; None if that is not the same for every step."""
        total = 0
        for atom, factor in self.terms:
            if atom == loop:
                total += factor
            elif not isinstance(atom, Loop) and loop in atom.whole.loops():
                return None
        return total

    def step(self, loop: Loop) -> int:
        """How far it moves when a loop takes its first step, the others at 0."""
        factor = self.factor(loop)
        return self._at(loop, 1) - self._at(loop, 0) if factor is None else factor

    def _at(self, loop: Loop, value: int) -> int:
        """The value with one loop at a given position and all others at 0."""
        total = self.constant
        for atom, factor in self.terms:
            if isinstance(atom, Loop):
                total += factor * value * (atom == loop)
            else:
                whole = atom.whole._at(loop, value)
                total += factor * (whole // atom.by if isinstance(atom, Quotient) else whole % atom.by)
        return total

    def __str__(self) -> str:
        parts = [_term(atom, factor) for atom, factor in self.terms]
        if self.constant or not parts:
            parts.append((self.constant < 0, str(abs(self.constant))))
        (is_negative, text), *rest = parts
        return "-" * is_negative + text + "".join(f" {'-' if minus else '+'} {part}" for minus, part in rest)


def _term(atom: Atom, factor: int) -> tuple[bool, str]:
    """Whether a term is taken off, and what it is."""
    text = atom.name if isinstance(atom, Loop) else f"(({atom.whole}) {atom.sign} {atom.by})"
    return factor < 0, text if factor == 1 else f"{abs(factor)} * {text}"


def _atom_bounds(atom: Atom) -> tuple[int, int]:
    if isinstance(atom, Loop):
        return 0, max(atom.most - 1, 0)
    low, high = atom.whole.bounds()
    if isinstance(atom, Quotient):
        return low // atom.by, high // atom.by
    return (low % atom.by, high % atom.by) if low // atom.by == high // atom.by else (0, atom.by - 1)


ZERO = Index(())


def number(value: int) -> Index:
    """A constant."""
    return Index((), value)


def variable(loop: Loop) -> Index:
    """A loop's variable; 0 if the loop has one step."""
    return Index(((loop, 1),)) if loop.most > 1 else ZERO


def _sum(terms: Sequence[tuple[Atom, int]], constant: int) -> Index:
    merged: dict[Atom, int] = {}
    for atom, factor in terms:
        merged[atom] = merged.get(atom, 0) + factor
    kept = [(atom, factor) for atom, factor in merged.items() if factor]
    return Index(tuple(sorted(kept, key=_order)), constant)


def _order(term: tuple[Atom, int]) -> tuple[int, str]:
    return (0, term[0].name) if isinstance(term[0], Loop) else (1, str(term[0]))


def add(a: Index, b: Index) -> Index:
    """`a + b`."""
    if not b.terms:
        return Index(a.terms, a.constant + b.constant)
    return _sum((*a.terms, *b.terms), a.constant + b.constant)


def scale(a: Index, by: int) -> Index:
    """`a * by`."""
    if by == 1:
        return a
    return ZERO if by == 0 else Index(tuple((atom, factor * by) for atom, factor in a.terms), a.constant * by)


def _split(a: Index, by: int) -> tuple[Index, Index]:
    """`a` as `by * whole + rest`, with as much in `whole` as the factors allow."""
    whole = [(atom, factor // by) for atom, factor in a.terms if factor % by == 0]
    rest = [(atom, factor) for atom, factor in a.terms if factor % by]
    return _sum(whole, a.constant // by), _sum(rest, a.constant % by)


def _grained(a: Index, by: int) -> tuple[Index, int, Index]:
    """`a` as `grain * coarse + fine`, with a divisor of `by` and `0 <= fine < grain`: only `coarse` is divided."""
    for grain in sorted({math.gcd(by, factor) for _, factor in a.terms}, reverse=True):
        coarse, fine = _split(a, grain)
        low, high = fine.bounds()
        if grain > 1 and low >= 0 and high < grain:
            return coarse, grain, fine
    return a, 1, ZERO


def quotient(a: Index, by: int) -> Index:
    """`a // by`, for an `a` that is never negative. (An empty array has strides of 0, and no elements to find.)"""
    if by <= 1:
        return a
    whole, rest = _split(a, by)
    low, high = rest.bounds()
    if low >= 0 and high < by:
        return whole
    if low < 0:
        return Index(((Quotient(a, by), 1),))
    coarse, grain, _ = _grained(rest, by)
    return add(whole, Index(((Quotient(coarse, by // grain), 1),)))


def remainder(a: Index, by: int) -> Index:
    """`a % by`, for an `a` that is never negative."""
    if by <= 1:
        return ZERO
    _, rest = _split(a, by)
    low, high = rest.bounds()
    if low >= 0 and high < by:
        return rest
    if low < 0:
        return Index(((Remainder(a, by), 1),))
    coarse, grain, fine = _grained(rest, by)
    return add(fine, Index(((Remainder(coarse, by // grain), grain),)))


def strides(shape: Sequence[int]) -> list[int]:
    """How many elements a step along each axis of a row-major array is."""
    result, step = [], 1
    for n in reversed(shape):
        result.append(step)
        step *= n
    return result[::-1]


def flat(indices: Sequence[Index], shape: Sequence[int]) -> Index:
    """The position of an element in a row-major array."""
    total = ZERO
    for index, stride, n in zip(indices, strides(shape), shape):
        if n > 1:
            total = add(total, scale(index, stride))
    return total


def unflat(position: Index, shape: Sequence[int]) -> tuple[Index, ...]:
    """The indices of the element at a position of a row-major array."""
    result = []
    for n, stride in zip(shape, strides(shape)):
        result.append(ZERO if n == 1 else remainder(quotient(position, stride), n))
    if result and shape[0] > 1:
        result[0] = quotient(position, strides(shape)[0])
    return tuple(result)


def substitute(a: Index, loop: Loop, value: Index) -> Index:
    """`a` with another expression for a loop's variable."""
    total = number(a.constant)
    for atom, factor in a.terms:
        if atom == loop:
            part = value
        elif isinstance(atom, Loop):
            part = Index(((atom, 1),))
        else:
            whole = substitute(atom.whole, loop, value)
            part = quotient(whole, atom.by) if isinstance(atom, Quotient) else remainder(whole, atom.by)
        total = add(total, scale(part, factor))
    return total


def with_merged(a: Index, slow: Loop, fast: Loop, both: Loop) -> Index:
    """`a` with one loop's variable for two, where a step of the slow one is as far as all steps of the fast one."""
    terms = [(both if atom == fast else atom, factor) for atom, factor in a.terms if atom != slow]
    return Index(tuple(sorted(terms, key=_order)), a.constant)


_WITHIN = Loop("j", 8)


@functools.lru_cache(maxsize=1 << 14)
def side_by_side(index: Index, loop: Loop, vector: int) -> bool:
    """Whether an index takes V steps of 1 from a multiple of V on."""
    index = _in_vectors(index, loop, vector)
    within = _WITHIN._replace(size=vector)
    rest = [factor for atom, factor in index.terms if atom != within]
    return index.factor(within) == 1 and all(factor % vector == 0 for factor in (*rest, index.constant))


def _in_vectors(index: Index, loop: Loop, vector: int) -> Index:
    """An index with the loop in steps of V, and a loop `j` over those."""
    first = Loop(f"{loop.name}_0", loop.extent // vector)
    within = _WITHIN._replace(size=vector)
    return substitute(index, loop, Index(((first, vector), (within, 1))))
