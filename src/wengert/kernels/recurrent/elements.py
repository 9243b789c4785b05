"""The elements of one space in a recurrence's kernel: their variables, what is loaded and stored, and what is computed.

In: a space of a Recurrence, and what has to be computed in it. Out: lines of CUDA C++ in loops over the elements of a
thread: element `e` is row `r` of the block and `b` of the batch, column `j` of each unit. Movement ops only choose a
unit of another value, so they cost nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

from wengert.core.code import source_line
from wengert.core.dtypes import HALF
from wengert.core.graph import Node
from wengert.kernels.recurrent.body import Recurrence, columns_of, rows_of
from wengert.kernels.recurrent.shape import THREADS, Shape
from wengert.kernels.writer import CUDA, Page, c_expression, c_literal, narrowed, scalar_type, suffix, widened
from wengert.ops.core import DATA, LITERAL, RECOMPUTE_BARRIER
from wengert.ops.movement import BROADCAST, CONCAT, PLACE, RESHAPE, SLICE

_MOVED = (SLICE, PLACE, CONCAT, RESHAPE, BROADCAST, RECOMPUTE_BARRIER, LITERAL, DATA)


class CommentedPage(Page):
    """Lines with comments that say what they are for."""

    told = ""

    def tell(self, text: str) -> None:
        """A comment."""
        self.told = text
        self.line(f"// {text}".rstrip("\\"))

    def tell_line_of(self, node: Node) -> None:
        """The user's line that a value comes from, where another begins."""
        text = source_line(node.location) if node.location is not None else None
        if text and text != self.told:
            self.tell(text)


class SpaceElements:
    """The elements of a space that a thread has."""

    def __init__(self, number: int, recurrence: Recurrence, shape: Shape, page: CommentedPage) -> None:
        self.number, self.recurrence, self.shape, self.page = number, recurrence, shape, page
        self.width = recurrence.widths[number]
        self.columns, self.count = shape.columns[number], shape.elements[number]
        self.body = recurrence.body
        self.roots: list[Node] = []
        self.values: list[Node] = []
        self.sums = {product.node: k for k, product in enumerate(recurrence.products)}
        self.sum_texts: Mapping[int, str] = {}  # by product: the partial sums in shared memory

    def require(self, nodes: Iterable[Node]) -> bool:
        """Compute values here; returns whether any of them was not computed before."""
        new = [node for node in dict.fromkeys(nodes) if node not in self.roots]
        self.roots += new
        found = set(self.roots)
        for node in reversed(self.recurrence.needed):
            if node in found and node not in self.sums:
                found.update(node.sources)
        self.values = [node for node in self.recurrence.needed if node in found]
        return bool(new)

    # --- names --------------------------------------------------------------------------------------------------------

    def name(self, node: Node, unit: int) -> str:
        """The array of variables for a unit of a value."""
        return f"v{self.recurrence.needed.index(node)}_{self.number}_{unit}"

    def at(self, node: Node, unit: int) -> str:
        """The variable of the element at hand."""
        return f"{self.name(node, unit)}[e]"

    def units(self, node: Node) -> range:
        """The units of a value."""
        return range(self.recurrence.units(node))

    def declare(self, node: Node, ahead: bool = False) -> None:
        """The variables of a value; and those for what the next step reads."""
        names = [self.name(node, unit) for unit in self.units(node)]
        names += [f"next_{name}" for name in names] if ahead else []
        declared = ", ".join(f"{name}[{self.count}]" for name in names)
        self.page.line(f"{scalar_type(node.dtype)} {declared};")

    def open(self) -> None:
        """Begin the loop over a thread's elements."""
        page, rows = self.page, self.shape.rows
        page.line("#pragma unroll")
        page.open(f"for (int e = 0; e < {self.count}; e++)")
        page.line(f"const int at = threadIdx.x + e * {THREADS}, r = at / {self.columns}, c = at % {self.columns};")
        page.line(f"const int b = row_group * {rows} + r, j = group * {self.columns} + c;")
        page.line(f"const bool own = r < {rows} && j < {self.width}, there = own && b < {self.recurrence.rows};")
        page.line("(void)own, (void)there;")

    # --- memory -------------------------------------------------------------------------------------------------------

    def _place(self, node: Node, unit: int, step: str) -> str:
        """Where an element of a value is; of stacked values in a step."""
        stacked = f"({step}) * {node.size}LL" if step else ""
        row = f"b * {columns_of(node)}LL" if rows_of(node) > 1 else ""
        column = f"j + {unit * self.width}" if node in self.recurrence.spaces else ""
        return " + ".join(part for part in (stacked, row, column) if part) or "0"

    def load(self, node: Node, step: str = "", ahead: str = "") -> None:
        """Load the elements of an input; of xs those of a step."""
        number = self.body.inputs.index(node)
        source = self.recurrence.node.sources[number]
        for unit in self.units(node):
            if source.op is LITERAL:
                value = str(c_literal(source.attrs["value"], node.dtype))
            else:
                value = f"there ? {widened(node.dtype, f's{number}[{self._place(node, unit, step)}]')} : 0"
            self.page.line(f"{ahead}{self.at(node, unit)} = {value};")

    def store(self, result: str, node: Node, step: str = "") -> None:
        """Write a value that is read outside: once, if several threads have it."""
        conditions = ["there"]
        if node not in self.recurrence.spaces:
            conditions.append("j == 0")
        if rows_of(node) == 1:
            conditions.append("b == 0")
        for unit in self.units(node):
            value = narrowed(node.dtype, self.text(node, unit))
            place = self._place(node, unit, step)
            self.page.line(f"if ({' && '.join(conditions)}) {result}[{place}] = {value};")

    # --- values -------------------------------------------------------------------------------------------------------

    def is_moved(self, node: Node) -> bool:
        """Whether the elements of a value are those of others, or numbers."""
        if node in self.body.inputs or node in self.sums:
            return False
        return node.op in _MOVED or node not in self.body.nodes

    def text(self, node: Node, unit: int) -> str:
        """An element of a value: a variable, that of a value it is moved from, or a number."""
        op = node.op
        if not self.is_moved(node):
            return self.at(node, unit)
        if op is LITERAL:
            return str(c_literal(node.attrs["value"], node.dtype))
        if isinstance(node.buffer, np.ndarray):
            return str(c_literal(node.buffer.ravel()[0], node.dtype))
        if op in (SLICE, PLACE):
            return self._cut_or_placed(node, unit)
        if op is CONCAT:
            for source in node.sources:
                if unit < self.recurrence.units(source):
                    return self.text(source, unit)
                unit -= self.recurrence.units(source)
        return self._operand(node.sources[0], unit)

    def _cut_or_placed(self, node: Node, unit: int) -> str:
        (source,) = node.sources
        begin = node.attrs["starts"][-1] // self.width if node in self.recurrence.spaces else 0
        if node.op is SLICE:
            return self.text(source, unit + begin)
        is_inside = 0 <= unit - begin < self.recurrence.units(source)
        return self.text(source, unit - begin) if is_inside else str(c_literal(0, node.dtype))

    def _operand(self, source: Node, unit: int) -> str:
        """An element of what is broadcast, where it has one column."""
        return self.text(source, unit if source in self.recurrence.spaces else 0)

    def compute(self, node: Node) -> None:
        """The elements of a value of the body."""
        self.page.tell_line_of(node)
        for unit in self.units(node):
            self.page.line(f"{self.at(node, unit)} = {self._value(node, unit)};")

    def _value(self, node: Node, unit: int) -> str:
        if node in self.sums:
            number = self.sums[node]
            place = f"own ? r * {self.shape.cores[number].line} + c + {unit * self.columns} : 0"
            return f"wg_total_of<Core{number}>({self.sum_texts[number]}, {place})"
        operands = [self._operand(source, unit) for source in node.sources]
        text = c_expression(node.op, node.sources[-1].dtype, operands, node.attrs, CUDA)
        assert text is not None
        return text

    def advance(self, xs: Iterable[Node], carries: Iterable[tuple[Node, Node]]) -> None:
        """Move new carries and prefetched values into place for the next step, all at once."""
        moved = []
        for given, made in carries:
            for unit in self.units(given):
                value = rounded(made, self.text(made, unit))
                moved.append((self.at(given, unit), value, scalar_type(given.dtype)))
        for k, (_, value, kind) in enumerate(moved):
            self.page.line(f"const {kind} new{k} = {value};")
        for k, (name, _, _) in enumerate(moved):
            self.page.line(f"{name} = new{k};")
        for node in xs:
            for unit in self.units(node):
                self.page.line(f"{self.at(node, unit)} = next_{self.at(node, unit)};")


def rounded(node: Node, value: str) -> str:
    """A value as it is kept from step to step."""
    return f"wg_round_{suffix(node.dtype)}({value})" if node.dtype in HALF else value
