"""The structure of a recurrence: the products of a scan's body, the phases between them, and the space of each value.

In: a scan. Out: a Recurrence, or the reason why it is none. A value of the body is rows (the batch, all leading axes)
by columns. Values that elementwise ops, slices and concatenations connect form a *space*: their columns are some units
side by side (the gates) of the space's width, and element (row, j) of each unit is computed from elements (row, j) of
others. So the thread that owns (row, j) needs no values of other threads. A product leads from one space into another:
each of its sums needs a whole row. What a product reads is made in one *phase* of a step and read in a later one.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from wengert.core.dtypes import COMPLEX, HALF, float32, float64
from wengert.core.graph import Graph, Node
from wengert.kernels.writer import has_expression
from wengert.ops.core import DATA, LITERAL, RECOMPUTE_BARRIER
from wengert.ops.elementwise import multiply
from wengert.ops.linalg import MATMUL
from wengert.ops.movement import BROADCAST, CONCAT, PERMUTE, PLACE, RESHAPE, SLICE
from wengert.ops.reduce import SUM

UNITS = 16
"""Most units of a value: a thread has a variable for each."""


class StepProduct(NamedTuple):
    """A product of a body: by which weights, and in which phase its sums are there."""

    node: Node
    left: Node  # values that all threads of the row compute
    weight: int  # the number of the source
    steps: tuple[int, int]  # elements from one row of the weights to the next, and from one column
    phase: int
    carried: int | None  # the carry that `left` is, by number: it was made in the step before

    @property
    def depth(self) -> int:
        """The length of the sums."""
        return int(self.left.shape[-1])

    @property
    def columns(self) -> int:
        """The sums of a row."""
        return int(self.node.shape[-1])


@dataclass(frozen=True)
class Recurrence:
    """A scan as rows, spaces and phases."""

    node: Node
    rows: int
    widths: Sequence[int]  # of the spaces
    spaces: dict[Node, int]  # by value; those with one column belong to none
    phases: dict[Node, int]
    products: Sequence[StepProduct]
    needed: Sequence[Node] = field(default_factory=tuple)  # the nodes that are computed, in order

    @property
    def body(self) -> Graph:
        """The graph of a step."""
        found: Graph = self.node.attrs["body"]
        return found

    @property
    def last_phase(self) -> int:
        """The number of the last phase."""
        return max(self.phases.values())

    def units(self, node: Node) -> int:
        """How many units a value has, and so how many elements of it a thread."""
        return columns_of(node) // self.widths[self.spaces[node]] if node in self.spaces else 1


def rows_of(node: Node) -> int:
    """The rows of a value: all its axes but the last."""
    return math.prod(node.shape[:-1])


def columns_of(node: Node) -> int:
    """The columns of a value."""
    return int(node.shape[-1]) if node.shape else 1


class NoRecurrence(Exception):
    """Why a scan is none."""


def recurrence_of(scan: Node) -> Recurrence | str:
    """A scan as a recurrence, or why it is none."""
    try:
        return _Reading(scan).recurrence()
    except NoRecurrence as reason:
        return str(reason)


class _Spaces:
    """Values that share their columns, joined; and what divides the widths and the places at which they are cut."""

    def __init__(self) -> None:
        self.parent: dict[Node, Node] = {}
        self.divisor: dict[Node, int] = {}

    def root(self, node: Node) -> Node:
        """The value that stands for all that are joined with one."""
        if node not in self.parent:
            self.parent[node] = node
            self.divisor[node] = columns_of(node)
        while self.parent[node] is not node:
            node = self.parent[node]
        return node

    def join(self, nodes: Iterable[Node], *places: int) -> None:
        """Have values share their columns, of which some begin at these places of others."""
        roots = list(dict.fromkeys(map(self.root, nodes)))
        for root in roots[1:]:
            self.parent[root] = roots[0]
        self.divisor[roots[0]] = math.gcd(*(self.divisor[root] for root in roots), *places)


class _Reading:
    """A scan as it is read."""

    def __init__(self, scan: Node) -> None:
        self.scan = scan
        self.graph: Graph = scan.attrs["body"]
        c, n = scan.attrs["constants"], scan.attrs["carries"]
        self.fixed, self.carries = self.graph.inputs[:c], self.graph.inputs[c : c + n]
        self.weights: dict[Node, tuple[int, tuple[int, int]]] = {}  # by product
        self.left: dict[Node, Node] = {}

    def recurrence(self) -> Recurrence:
        """All of it."""
        self._read_products()
        if not self.weights:
            raise NoRecurrence("no step has a product")
        needed = self._needed()
        rows = max(map(rows_of, needed))
        for node in needed:
            self._check(node, rows)
        spaces = _Spaces()
        for node in needed:
            if columns_of(node) > 1:
                spaces.root(node)
        for node in needed:
            self._join(node, spaces)
        for given, made in zip(self.carries, self.graph.outputs):
            if columns_of(given) > 1:
                spaces.join((given, made))
        return self._found(rows, needed, spaces)

    def _read_products(self) -> None:
        """The products, whose right-hand sides are constants of the scan, as they are or transposed."""
        for node in self.graph.nodes:
            if node.op is MATMUL:
                left, right = node.sources
                turned = right.op is PERMUTE and right.ndim == 2 and right.sources[0] in self.fixed
                base = right.sources[0] if turned else right
                if base not in self.fixed or base.ndim != 2 or left.ndim < 2 or left in self.fixed:
                    raise NoRecurrence("a product is not by a matrix that no step changes")
                self._product(node, left, base, turned and tuple(right.attrs["axes"]) == (1, 0))
            elif node.op is SUM or (node.op is RESHAPE and node.sources[0].op is SUM):
                self._read_row(node, node if node.op is SUM else node.sources[0])

    def _product(self, node: Node, left: Node, base: Node, is_transposed: bool) -> None:
        along = base.shape[1]
        self.weights[node] = self.fixed.index(base), ((1, along) if is_transposed else (along, 1))
        self.left[node] = left

    def _read_row(self, node: Node, total: Node) -> None:
        """A product of one row as the pass `gemv_to_reduction` leaves it: a matrix times a column, summed."""
        axes, terms = total.attrs["axes"], total.sources[0]
        if terms.op is not multiply or terms.ndim != 2 or len(axes) != 1 or columns_of(node) != node.size:
            return
        for base, other in (terms.sources, terms.sources[::-1]):
            column = other.sources[0] if other.op is RESHAPE else other
            is_column = other.ndim == 2 and other.shape[axes[0]] == other.size == columns_of(column)
            if base in self.fixed and base.shape == terms.shape and column not in self.fixed and is_column:
                self._product(node, column, base, axes[0] == 1)
                return

    def _reads(self, node: Node) -> Sequence[Node]:
        return [self.left[node]] if node in self.left else node.sources

    def _needed(self) -> list[Node]:
        """The nodes that outputs are computed from, but for the weights of products; inputs first."""
        found = set(self.graph.outputs) | set(self.carries)
        for node in reversed(self.graph.nodes):
            if node in found:
                found.update(self._reads(node))
        every = dict.fromkeys((*self.graph.inputs, *self.graph.captured(), *self.graph.nodes))
        return [node for node in every if node in found]

    def _check(self, node: Node, rows: int) -> None:
        """Whether a value is rows by columns that can be computed."""
        if isinstance(node.dtype, tuple) or node.dtype in COMPLEX:
            raise NoRecurrence(f"{node.op.name} is inside")
        if rows_of(node) not in (1, rows):
            raise NoRecurrence(f"{node.op.name} has other rows")
        is_input = node in self.graph.inputs
        constant = isinstance(node.buffer, np.ndarray) and node.size == 1
        if not is_input and node.op not in (LITERAL, DATA) and not constant and node not in self.graph.nodes:
            raise NoRecurrence(f"{node.op.name} is captured")
        if not is_input and (node.op is DATA or constant) and node.size != 1:
            raise NoRecurrence("an array is captured")
        if node in self.weights:
            dtypes = {node.dtype, self.left[node].dtype, self.fixed[self.weights[node][0]].dtype}
            if len(dtypes) > 1 or node.dtype not in (float32, float64, *HALF):
                raise NoRecurrence(f"a product is of {', '.join(sorted(dtype.name for dtype in dtypes))}")

    def _join(self, node: Node, spaces: _Spaces) -> None:
        """Join a value with those that it is computed from."""
        if node in self.graph.inputs or node not in self.graph.nodes or node.op is LITERAL:
            return
        if node in self.weights:
            if columns_of(node) == 1 or columns_of(self.left[node]) == 1:
                raise NoRecurrence("a product has one column")
            return
        columned = [one for one in (node, *node.sources) if columns_of(one) > 1]
        places = _places(node)
        if places is None:
            raise NoRecurrence(f"{node.op.name} is in a step")
        if columned:
            if columns_of(node) == 1:
                raise NoRecurrence(f"{node.op.name} takes one column of several")
            spaces.join(columned, *places)

    def _found(self, rows: int, needed: list[Node], spaces: _Spaces) -> Recurrence:
        roots = list(dict.fromkeys(spaces.root(node) for node in needed if columns_of(node) > 1))
        widths = [spaces.divisor[root] for root in roots]
        of = {node: roots.index(spaces.root(node)) for node in needed if columns_of(node) > 1}
        if any(columns_of(node) // widths[space] > UNITS for node, space in of.items()):
            raise NoRecurrence(f"a value is cut into more than {UNITS} parts")
        phases = self._phases(needed)
        products = []
        for node in needed:
            if node in self.weights:
                left = self.left[node]
                carried = self.carries.index(left) if left in self.carries else None
                products.append(StepProduct(node, left, *self.weights[node], phases[node], carried))
        if not products:
            raise NoRecurrence("no product is needed")
        return Recurrence(self.scan, rows, widths, of, phases, products, needed)

    def _phases(self, needed: Sequence[Node]) -> dict[Node, int]:
        """The phase in which each value is there: sums in the one after what they are sums of, unless it is a carry."""
        phases: dict[Node, int] = {}
        for node in needed:
            before = [phases[source] for source in self._reads(node) if source in phases]
            waits = node in self.left and self.left[node] not in self.carries
            phases[node] = max(before, default=0) + waits
        return phases


def _places(node: Node) -> tuple[int, ...] | None:
    """At which columns a value is put together or cut; None where it is not by rows and columns."""
    op = node.op
    if op in (SLICE, PLACE):
        part, whole = (node, node.sources[0]) if op is SLICE else (node.sources[0], node)
        starts, steps = node.attrs["starts"], node.attrs["steps"]
        if part.ndim == 0 or part.shape[:-1] != whole.shape[:-1] or any(starts[:-1]) or any(s != 1 for s in steps):
            return None
        return (starts[-1],)
    if op is CONCAT:
        if node.attrs["axis"] % node.ndim != node.ndim - 1:
            return None
        places = np.cumsum([columns_of(source) for source in node.sources])
        return tuple(places.tolist()) if all(columns_of(source) > 1 for source in node.sources) else None
    if op is RESHAPE:
        (source,) = node.sources
        same = rows_of(node) == rows_of(source) and columns_of(node) == columns_of(source)
        return () if same else None
    if op in (BROADCAST, RECOMPUTE_BARRIER):
        return ()
    if op.kind in ("elementwise", "identity") and has_expression(op, node.sources[-1].dtype, node.attrs):
        return ()
    return None
