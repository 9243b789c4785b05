"""Loops and branches as C functions: the code around the straight-line C of their bodies.

A scan whose body does the same work along an axis of many elements has the lane loop outside: threads take blocks of
lanes that fit the L1 cache, and run each block from the first step to the last; the innermost loop goes over the lanes
of a block and is vectorised. Without lanes, every element of a carry is a variable, so it stays in a register.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from wengert.autodiff.cond import COND, WHILE
from wengert.autodiff.scan import SCAN
from wengert.autodiff.while_gradient import WHILE_GRADIENT
from wengert.compiler.loop_lanes import NO_LANES, LaneAxes, bodies_of, ends_by_itself, lanes_of
from wengert.core.graph import Graph, Node
from wengert.kernels.c import Function
from wengert.kernels.c.source import WORTH_THREADS
from wengert.kernels.ir.loops import DType
from wengert.kernels.loops.elements import IN_C, Straight, steps_text
from wengert.kernels.loops.limits import SMALL, has_complex, needs_far, why_not
from wengert.kernels.loops.slots import fits_slots, write_slots
from wengert.kernels.loops.values import Elements, array_of, places_of, rounded
from wengert.kernels.loops.whole import WholeLanes, lanes_by_form
from wengert.kernels.threads import thread_count
from wengert.kernels.writer import C, Page, narrowed, parameter, scalar_type, widened
from wengert.ops.core import LITERAL

FEW_LINES = 1000  # of a body without lanes, where it could have some
BLOCK_BYTES = 16 << 10  # of the carries of a block of lanes: half of the first cache
SUMMED_IN = 16  # blocks, where there are totals
BLOCK = (64, 1024)  # lanes of a block, at least and at most


class Written(NamedTuple):
    """A loop or branch as a C function, and how it goes, in words."""

    function: Function
    how: str


def write(node: Node, buffers: Sequence[str], results: Sequence[str | None]) -> Written | str:
    """The function of a loop or branch, on buffers named for its sources and its results (None: nobody reads it); or
    why there is none.
    """
    if node.op not in (SCAN, WHILE, COND, WHILE_GRADIENT):
        return f"{node.op.name} is a function of the user's own"
    reasons = [why_not(graph) for graph in bodies_of(node)]
    reason = next(filter(None, reasons), None) or _large_sources(node)
    if ends_by_itself(node):
        (by_itself,) = lanes_by_form(node)
        return reason if reason is not None else _OneLane(node, by_itself, buffers, results).written()
    lanes = _lanes(node)
    if lanes is not None and (reason is not None or _size(node) > FEW_LINES):
        reason = why_not(node.attrs["body"], lanes)
        if reason is None:
            return _LaneScan(node, lanes, buffers, results).written()
    return reason if reason is not None else _OneLane(node, NO_LANES, buffers, results).written()


def _size(node: Node) -> int:
    return sum(one.size for graph in bodies_of(node) for one in graph.nodes if not isinstance(one.dtype, tuple))


def _large_sources(node: Node) -> str | None:
    """Why what goes into a loop or branch cannot be variables."""
    large = any(source.size > SMALL for graph in bodies_of(node) for source in graph.inputs)
    return f"a value that goes in has more than {SMALL} elements" if large else None


def _lanes(node: Node) -> LaneAxes | None:
    if node.op is not SCAN:
        return None
    c, n = node.attrs["constants"], node.attrs["carries"]
    body: Graph = node.attrs["body"]
    lanes = lanes_of(body, [(c + k, k) for k in range(n)])
    return lanes if lanes is not None and any(map(lanes.has, body.outputs)) else None


class _Buffers:
    """The buffers of a function: one parameter for each value, whatever it is called outside."""

    def __init__(self, node: Node, sources: Sequence[str], results: Sequence[str | None]) -> None:
        self.sources = list(sources)
        self.results = list(results)
        shapes = list(zip(node.shape, node.dtype))
        self.names: dict[str, str] = {}
        self.declared: dict[str, str] = {}
        for name, source in zip(sources, node.sources):
            if source.op is LITERAL:
                continue
            own = self.names.setdefault(name, f"b{len(self.names)}")
            self.declared.setdefault(name, parameter(source.dtype, False, own, C))
        for result, (_, dtype) in zip(results, shapes):
            if result is not None:
                own = self.names.setdefault(result, f"b{len(self.names)}")
                self.declared[result] = parameter(dtype, True, own, C)

    def source(self, number: int) -> str:
        return self.names[self.sources[number]]

    def result(self, number: int) -> str | None:
        name = self.results[number]
        return None if name is None else self.names[name]

    def loaded(self, number: int, source: Node, straight: Straight) -> Elements:
        """A value that comes in, as variables; a number is part of the text."""
        if source.op is LITERAL:
            return straight.node(source, ())
        buffer = self.source(number)
        names = [straight.let(source, widened(source.dtype, f"{buffer}[{j}]")) for j in range(source.size)]
        return array_of(source.shape, names)

    def function(self, page: Page, node: Node) -> Function:
        graphs = bodies_of(node)
        complex = any(map(has_complex, graphs))
        more = ("complex.h",) if complex else ("far.h",) if any(map(needs_far, graphs)) else ()
        headers = ("loops.h", *more)
        body = "".join(f"{line}\n" for line in page.lines)
        return Function((body,), tuple(self.declared.values()), tuple(self.declared), headers=headers, is_whole=True)


class _OneLane(WholeLanes):
    """A loop or branch that is written for one lane, with the loop over the lanes around it."""

    def __init__(self, node: Node, lanes: LaneAxes, sources: Sequence[str], results: Sequence[str | None]) -> None:
        super().__init__(node, lanes, IN_C)
        self.buffers = _Buffers(node, sources, results)

    def source(self, number: int) -> str:
        """The name of a source's buffer in the text."""
        return self.buffers.source(number)

    def result(self, number: int, dtype: DType) -> str | None:
        """The name of a result's buffer in the text; None if nothing reads it."""
        return self.buffers.result(number)

    def written(self) -> Written:
        """The function."""
        if not ends_by_itself(self.loop):
            self.body()
            return Written(self.buffers.function(self.page, self.loop), "every element a variable")
        if fits_slots(self.loop, self.lanes.count):
            write_slots(self)
            return Written(self.buffers.function(self.page, self.loop), f"{self.lanes.count} lanes in slots")
        self.page.line("#pragma omp parallel for schedule(dynamic, 16)")
        self.page.open(f"for (long lane = 0; lane < {self.lanes.count}; lane++)")
        self.body()
        self.page.close()
        return Written(self.buffers.function(self.page, self.loop), f"{self.lanes.count} lanes, one after the other")


class _LaneScan:
    """A scan with the loop over lanes outside the steps."""

    def __init__(self, node: Node, lanes: LaneAxes, sources: Sequence[str], results: Sequence[str | None]) -> None:
        self.node, self.lanes = node, lanes
        self.body: Graph = node.attrs["body"]
        self.c, self.n = node.attrs["constants"], node.attrs["carries"]
        self.buffers = _Buffers(node, sources, results)
        self.carried, self.xs = self.body.inputs[self.c : self.c + self.n], self.body.inputs[self.c + self.n :]
        self.block = self._block()
        self.blocks = -(-lanes.count // self.block)
        self.page = Page()
        self.inside = Page()  # the loop over the lanes of a block
        self.straight = Straight(self.page, lanes, self.inside)

    def _block(self) -> int:
        """How many lanes are stepped together."""
        bytes_of = [x.dtype.itemsize * x.size // self.lanes.count for x in self.carried if self.lanes.has(x)]
        fits = BLOCK_BYTES // max(int(sum(bytes_of)), 1) // BLOCK[0] * BLOCK[0]
        parts = SUMMED_IN if self.lanes.totals else 4 * thread_count()  # sums have one order for any number of threads
        fair = -(-self.lanes.count // parts // BLOCK[0]) * BLOCK[0]
        return max(min(fits, fair, BLOCK[1]), BLOCK[0])

    def written(self) -> Written:
        page, count = self.page, self.lanes.count
        work = self.node.attrs["steps"] * _size(self.node)
        for k in sorted(self.lanes.totals):
            kind, size = scalar_type(self.carried[k].dtype), self.carried[k].size * self.blocks
            page.line(f"static {kind} part{k}[{max(size, 1)}];  // one call at a time runs a program")
        if work > WORTH_THREADS and count > self.block:
            page.line("#pragma omp parallel for schedule(dynamic)")
        page.open(f"for (long first = 0; first < {count}; first += {self.block})")
        page.line(f"long end = first + {self.block} < {count} ? first + {self.block} : {count};")
        fixed = [self._shared(i, node) for i, node in enumerate(self.body.inputs[: self.c])]
        carry = [self._carry(self.c + k, node) for k, node in enumerate(self.carried)]
        page.open(steps_text(self.node, "t"))
        page.line("if (t % 64 == 63 && wg_stopped()) break;")
        self._step(fixed, carry)
        page.close()
        for k, (node, names) in enumerate(zip(self.carried, carry)):
            self._finish(k, node, names)
        page.close()
        for k in sorted(self.lanes.totals):
            self._add_up(k)
        how = f"{count} lanes in blocks of {self.block}"
        return Written(self.buffers.function(page, self.node), how)

    def _element(self, buffer: str, node: Node, place: int, at: str = "") -> str:
        """An element of a value in memory, of lane `lane` where lanes differ."""
        stride = self.lanes.stride(node)
        parts = [part for part in (at, f"{stride} * lane" if stride else "", str(place)) if part]
        return f"{buffer}[{' + '.join(parts)}]"

    def _shared(self, number: int, node: Node) -> Elements | None:
        """A constant that all lanes share, as variables; what differs is read where it is needed."""
        if self.lanes.has(node):
            return None
        return self.buffers.loaded(number, self.node.sources[number], self.straight)

    def _carry(self, number: int, node: Node) -> Elements:
        """A carry: an array over the lanes of a block for each element, or variables."""
        straight = self.straight
        if not self.lanes.has(node):
            return straight.variables([node], [self._shared(number, node)])[0]
        buffer, names = self.buffers.sources[number], list[str]()
        is_total = number - self.c in self.lanes.totals
        for place in places_of(node, self.lanes):
            names.append(straight.fresh("c"))
            self.page.line(f"{scalar_type(node.dtype)} {names[-1]}[{self.block}];")
            element = "0" if is_total else widened(node.dtype, self._element(self.buffers.names[buffer], node, place))
            self.page.line(f"for (long lane = first; lane < end; lane++) {names[-1]}[lane - first] = {element};")
        return array_of(self.lanes.shape(node), names)

    def _step(self, fixed: Sequence[Elements | None], carry: Sequence[Elements]) -> None:
        """One step of a block: what lanes share, then a loop over the lanes, then the carries that lanes share."""
        page, inside, straight = self.page, self.inside, self.straight
        inside.depth = page.depth + 1
        inputs = [
            self._lane_values(i, node) if value is None else value
            for i, (node, value) in enumerate(zip(self.body.inputs, fixed))
        ]
        for node, names in zip(self.carried, carry):
            if self.lanes.has(node):
                found = [straight.let(node, f"{name}[lane - first]") for name in names.ravel()]
                names = array_of(names.shape, found)
            inputs.append(names)
        for k, node in enumerate(self.xs):
            inputs.append(self._lane_values(self.c + self.n + k, node, f"t * {node.size}"))
        results = straight.graph(self.body, inputs)
        self._store_steps(results[self.n :])
        for node, names, value in zip(self.carried, carry, results):
            if self.lanes.has(node):
                for name, one in zip(names.ravel(), value.ravel()):
                    inside.line(f"{name}[lane - first] = {rounded(node, one)};")
        page.line("#pragma omp simd")
        page.open("for (long lane = first; lane < end; lane++)")
        page.lines += inside.lines
        page.close()
        shared = [k for k, node in enumerate(self.carried) if not self.lanes.has(node)]
        straight.assign([self.carried[k] for k in shared], [carry[k] for k in shared], [results[k] for k in shared])

    def _lane_values(self, number: int, node: Node, at: str = "") -> Elements:
        """A value in memory as variables of a step."""
        buffer = self.buffers.source(number)
        found = []
        for place in places_of(node, self.lanes):
            found.append(self.straight.let(node, widened(node.dtype, self._element(buffer, node, place, at))))
        return array_of(self.lanes.shape(node), found)

    def _store_steps(self, values: Sequence[Elements]) -> None:
        """Store what is stacked up: of each lane, or once."""
        for k, (node, value) in enumerate(zip(self.body.outputs[self.n :], values)):
            buffer = self.buffers.result(self.n + k)
            if buffer is None:
                continue
            once = "" if self.lanes.has(node) else "if (first == 0) "
            page = self.straight.page_of(node)
            for place, one in zip(places_of(node, self.lanes), value.ravel()):
                element = self._element(buffer, node, place, f"t * {node.size}")
                page.line(f"{once}{element} = {narrowed(node.dtype, one)};")

    def _finish(self, k: int, node: Node, names: Elements) -> None:
        """Store a carry's last value."""
        buffer = self.buffers.result(k)
        if buffer is None:
            return
        for place, name in zip(places_of(node, self.lanes), names.ravel()):
            element = self._element(buffer, node, place)
            if k in self.lanes.totals:
                part = f"part{k}[first / {self.block} * {node.size} + {place}]"
                self.page.line(f"{part} = 0;")
                self.page.line(f"for (long lane = first; lane < end; lane++) {part} += {name}[lane - first];")
                continue
            if self.lanes.has(node):
                value = narrowed(node.dtype, f"{name}[lane - first]")
                self.page.line(f"for (long lane = first; lane < end; lane++) {element} = {value};")
            else:
                self.page.line(f"if (first == 0) {element} = {narrowed(node.dtype, name)};")

    def _add_up(self, k: int) -> None:
        """A total, from what it was at first and the parts of all blocks, in order."""
        buffer, node = self.buffers.result(k), self.carried[k]
        if buffer is None:
            return
        start = self.buffers.loaded(self.c + k, self.node.sources[self.c + k], self.straight).ravel()
        for place, first in enumerate(start):
            self.page.line(f"{buffer}[{place}] = {first};")
            part = f"part{k}[block * {node.size} + {place}]"
            self.page.line(f"for (long block = 0; block < {self.blocks}; block++) {buffer}[{place}] += {part};")
