"""Straight-line C or CUDA C++: a graph over small values in which every element is a variable.

In: a graph, and the names of its inputs' elements, as arrays of text. Out: lines of code, and the names of the outputs'
elements. Movement ops only permute names, so they are free; an elementwise op is one line per element; loops and
branches inside a body become loops and branches of the language. Sequences and stacked outputs may be larger: they are
arrays, and movement ops permute positions in them. With `lanes`, a value that differs between lanes is written to the
page inside the lane loop, and shared values to the one outside; on a GPU a thread has one lane, and both are one page.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from wengert.autodiff.cond import COND, WHILE
from wengert.autodiff.scan import SCAN
from wengert.autodiff.while_gradient import WHILE_GRADIENT
from wengert.compiler.loop_lanes import NO_LANES, LaneAxes, bodies_of
from wengert.core.code import source_line
from wengert.core.dtypes import int64
from wengert.core.graph import Graph, Node
from wengert.kernels.ir.intrinsics import PHILOX
from wengert.kernels.ir.loops import DType
from wengert.kernels.loops.limits import COMBINED, SMALL, is_moved
from wengert.kernels.loops.values import Elements, InArray, array_of, places_of, rounded
from wengert.kernels.loops.walk_back import walk_back
from wengert.kernels.writer import C, Dialect, Page, c_cast, c_expression, c_literal, scalar_type
from wengert.ops import elementwise as e
from wengert.ops.core import DATA, LITERAL
from wengert.ops.creation import IOTA
from wengert.ops.linalg import MATMUL
from wengert.ops.movement import BROADCAST, CONCAT, PLACE, RESHAPE, SLICE
from wengert.ops.op import PACK, PICK, Op
from wengert.ops.random import RANDOM_BITS
from wengert.ops.reduce import ALL, ANY, PROD, SUM, reduced_axes

FEW_STEPS = 1024  # that pass before a loop asks whether it is to stop
LONG = 256  # ops per step that hide the cost of its counter


@dataclass(frozen=True)
class Language:
    """The differences between the two languages for loops."""

    dialect: Dialect
    counter: str  # the type of a number of steps
    asks_to_stop: bool  # whether a loop that takes long asks now and then whether it is to end
    unrolls: bool  # whether loops have an unroll pragma
    branches: bool = True  # whether one branch runs, or both do and one's results are chosen


IN_C = Language(C, "long", True, False)


class Straight:
    """The lines of a graph, as they are written."""

    def __init__(
        self, page: Page, lanes: LaneAxes = NO_LANES, lane_page: Page | None = None, language: Language = IN_C
    ) -> None:
        self.page, self.lanes, self.lane_page, self.language = page, lanes, lane_page or page, language
        self.count = 0
        self.told = ""  # the user's line that was shown last

    def fresh(self, letter: str = "v") -> str:
        """A new name."""
        self.count += 1
        return f"{letter}{self.count}"

    def page_of(self, node: Node) -> Page:
        """Where a node is computed."""
        return self.lane_page if self.lanes.has(node) else self.page

    def let(self, node: Node, text: str) -> str:
        """A variable of a node's dtype."""
        name = self.fresh()
        self.page_of(node).line(f"{scalar_type(node.dtype)} {name} = {text};")
        return name

    def array(self, dtype: DType, count: int) -> Callable[[str], str]:
        """An array of a thread's own; the text of the element at a place of it."""
        name = self.fresh("y")
        self.page.line(f"{scalar_type(dtype)} {name}[{max(count, 1)}];")
        return lambda place: f"{name}[{place}]"

    def read(self, node: Node, value: Any) -> Elements:
        """The elements of a value: those in an array are loaded."""
        if not isinstance(value, InArray):
            return value
        return array_of(value.places.shape, [self.let(node, value.text(str(place))) for place in value.places.flat])

    def read_all(self, nodes: Sequence[Node], values: Sequence[Any]) -> list[Elements]:
        """The elements of several values."""
        return [self.read(node, value) for node, value in zip(nodes, values)]

    def read_small(self, node: Node, value: InArray) -> Any:
        """The elements of a value in an array, if they are few, or else the value where it is."""
        return self.read(node, value) if value.places.size <= SMALL else value

    def graph(self, graph: Graph, inputs: Sequence[Any]) -> list[Any]:
        """Write a graph; the elements of its outputs."""
        names: dict[Node, Any] = dict(zip(graph.inputs, inputs))
        for node in (*graph.captured(), *graph.nodes):
            self._tell(node)
            names[node] = self.node(node, [names[source] for source in node.sources])
        return [names[node] for node in graph.outputs]

    def _tell(self, node: Node) -> None:
        """Show the user's line, where another begins."""
        if node.location is None or node.op.kind == "movement" or not node.sources:
            return
        text = source_line(node.location)
        if text and text != self.told:
            self.told = text
            self.page_of(node).line(f"// {text}".rstrip("\\"))

    # --- ops ----------------------------------------------------------------------------------------------------------

    def node(self, node: Node, sources: Sequence[Any]) -> Any:
        """Write a node; its elements, or a list of those of its results."""
        op = node.op
        if op is PICK:
            return sources[0][node.attrs["index"]]
        if op is PACK:
            return list(sources)
        if op is LITERAL:
            return array_of((), [str(c_literal(node.attrs["value"], node.dtype))])
        if op is DATA:
            return array_of(node.shape, [str(c_literal(value, node.dtype)) for value in node.buffer.ravel()])
        if is_moved(node) and isinstance(sources[0], InArray):
            places = sources[0].places
            return sources[0]._replace(places=self._arranged(node, [places]) if op.kind == "movement" else places)
        if op in _OF_FUNCTIONS:
            return self._of_function(node, sources)
        sources = self.read_all(node.sources, sources)
        if op.kind == "movement" or op is CONCAT:
            return self._moved(node, sources)
        if op is IOTA:
            return self._each(node, lambda k, at: str(c_cast(int64, node.dtype, f"({at})")))
        if op is RANDOM_BITS:
            return self._random_bits(node, *sources)
        if op is MATMUL:
            return self._product(node, *sources)
        return self._reduced(node, sources[0]) if op.kind == "reduction" else self._elementwise(node, sources)

    def _of_function(self, node: Node, sources: Sequence[Any]) -> list[Any]:
        """Write a loop or branch; one over lanes that end by themselves for each that is here."""
        write = _OF_FUNCTIONS[node.op]
        if node.attrs.get("lanes") is None:
            return write(self, node, sources)
        values = self.read_all(node.sources, sources)
        count = max(len(value) for value in values)
        places = [[min(i, len(value) - 1) for value in values] for i in range(count)]
        own = [[v[k : k + 1].reshape(v.shape[1:]) for v, k in zip(values, at)] for at in places]
        return [np.stack(of_lanes) for of_lanes in zip(*(write(self, node, one) for one in own))]

    def _each(self, node: Node, text: Callable[[int, str], str]) -> Elements:
        """One element per position; `text` gets its number within a lane and its overall position."""
        shape, stride = self.lanes.shape(node), self.lanes.stride(node)
        places = [f"{place} + {stride} * lane" if stride else str(place) for place in places_of(node, self.lanes)]
        return array_of(shape, [self.let(node, text(k, place)) for k, place in enumerate(places)])

    def _arranged(self, node: Node, sources: Sequence[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
        """The result of a movement op on arrays over one lane's elements."""
        attrs, shape = dict(node.attrs), self.lanes.shape(node)
        if node.op in (RESHAPE, BROADCAST, PLACE):
            attrs["shape"] = shape
        if node.op is SLICE:
            attrs["sizes"] = shape
        return np.asarray(node.op.numpy(*sources, **attrs)).reshape(shape)

    def _moved(self, node: Node, sources: Sequence[Elements]) -> Elements:
        zero = str(c_literal(0, node.dtype))
        moved = self._arranged(node, sources)
        return array_of(moved.shape, [one if isinstance(one, str) else zero for one in moved.ravel()])

    def _random_bits(self, node: Node, key: Elements, counter: Elements) -> Elements:
        words = [*key.ravel(), *counter.ravel()]

        def text(k: int, place: str) -> str:
            return str(c_expression(PHILOX, node.dtype, [*words, place], {"stream": node.attrs["stream"]}))

        return self._each(node, text)

    def _expression(self, op: Op, dtype: Any, *operands: str) -> str:
        text = c_expression(op, dtype, operands, dialect=self.language.dialect)
        assert text is not None
        return text

    def _elementwise(self, node: Node, sources: Sequence[Elements]) -> Elements:
        shape, dtype = self.lanes.shape(node), node.sources[-1].dtype
        operands = zip(*(np.broadcast_to(source, shape).ravel() for source in sources))
        found = []
        for own in operands:
            text = c_expression(node.op, dtype, own, node.attrs, self.language.dialect)
            assert text is not None
            found.append(self.let(node, text))
        return array_of(shape, found)

    def _reduced(self, node: Node, source: Elements) -> Elements:
        axes, dtype = reduced_axes(node), node.sources[0].dtype
        kept = [axis for axis in range(source.ndim) if axis not in axes]
        rows = source.transpose((*kept, *axes)).reshape(math.prod(source.shape[axis] for axis in kept), -1)
        return array_of(self.lanes.shape(node), [self.let(node, self._combined(node.op, dtype, row)) for row in rows])

    def _combined(self, op: Op, dtype: Any, row: Sequence[str]) -> str:
        """The elements of a row as one."""
        if op in (ALL, ANY):
            sign = " && " if op is ALL else " || "
            return f"({sign.join(f'({one} != 0)' for one in row)})" if len(row) else str(int(op is ALL))
        if not len(row):
            return str(c_literal(1 if op is PROD else 0, dtype))
        total = row[0]
        for one in row[1:]:
            total = self._expression(COMBINED[op], dtype, total, one)
        return total

    def _product(self, node: Node, a: Elements, b: Elements) -> Elements:
        shape, dtype = self.lanes.shape(node), node.dtype
        a = np.broadcast_to(a, (*shape[:-2], *a.shape[-2:]))
        b = np.broadcast_to(b, (*shape[:-2], *b.shape[-2:]))
        found = []
        for *batch, i, j in np.ndindex(*shape):
            pairs = zip(a[(*batch, i)], b[(*batch, slice(None), j)])
            terms = [self._expression(e.multiply, dtype, x, y) for x, y in pairs]
            found.append(self.let(node, self._combined(SUM, dtype, terms)))
        return array_of(shape, found)

    # --- loops and branches -------------------------------------------------------------------------------------------

    def variables(self, nodes: Sequence[Node], values: Sequence[Elements]) -> list[Elements]:
        """Variables that may change, with values to begin with."""
        found = []
        for node, value in zip(nodes, values):
            names = [self.fresh("c") for _ in range(value.size)]
            for name, start in zip(names, value.ravel()):
                self.page.line(f"{scalar_type(node.dtype)} {name} = {start};")
            found.append(array_of(self.lanes.shape(node), names))
        return found

    def assign(self, nodes: Sequence[Node], variables: Sequence[Elements], values: Sequence[Elements]) -> None:
        """Give variables their next values, all at once. Half precision is rounded, as it is where it is stored."""
        pairs = [
            (node, name, value)
            for node, names, new in zip(nodes, variables, values)
            for name, value in zip(names.ravel(), new.ravel())
            if name != value
        ]
        old = {name for _, name, _ in pairs}
        staged = [(self.let(node, value) if value in old else value) for node, _, value in pairs]
        for (node, name, _), value in zip(pairs, staged):
            self.page.line(f"{name} = {rounded(node, value)};")

    def turns(self) -> str:
        """A loop's turn counter, and every few turns the check whether a signal asks it to stop; empty on a GPU."""
        if not self.language.asks_to_stop:
            return ""
        name = self.fresh("turn")
        self.page.line(f"long {name} = 0;")
        return f"(++{name} % {FEW_STEPS} == 0 && wg_stopped())"

    def branch(self, node: Node, sources: Sequence[Any]) -> list[Elements]:
        """Both branches, one of which runs."""
        choice, values, branches = self.read(node.sources[0], sources[0]), sources[1:], node.attrs["branches"]
        outputs = branches[0].outputs
        if not self.language.branches:
            return self._chosen(outputs, choice.item(), [self.graph(one, values) for one in branches])
        shapes = map(self.lanes.shape, outputs)
        results = [array_of(shape, [self.fresh("c") for _ in range(math.prod(shape))]) for shape in shapes]
        for output, names in zip(outputs, results):
            for name in names.ravel():
                self.page.line(f"{scalar_type(output.dtype)} {name};")
        for head, graph in (f"if ({choice.item()})", branches[0]), ("else", branches[1]):
            self.page.open(head)
            found = self.read_all(graph.outputs, self.graph(graph, values))
            for output, names, own in zip(outputs, results, found):
                for name, value in zip(names.ravel(), own.ravel()):
                    self.page.line(f"{name} = {rounded(output, value)};")
            self.page.close()
        return results

    def _chosen(self, outputs: Sequence[Node], choice: str, results: Sequence[Sequence[Any]]) -> list[Elements]:
        """The results of one branch, where both have been computed."""
        found = []
        for output, *both in zip(outputs, *results):
            pairs = zip(*[self.read(output, one).ravel() for one in both])
            names = [self.let(output, rounded(output, f"({choice} ? {a} : {b})")) for a, b in pairs]
            found.append(array_of(self.lanes.shape(output), names))
        return found

    def repeat(self, node: Node, sources: Sequence[Any]) -> list[Elements]:
        """A loop as long as its condition holds."""
        test, step, n = node.attrs["test"], node.attrs["step"], node.attrs["constants"]
        fixed, carried = list(sources[:n]), step.inputs[n:]
        carry = self.variables(carried, self.read_all(carried, sources[n:]))
        turn = self.turns()
        self.page.open("while (1)")
        (going,) = self.read_all(test.outputs, self.graph(test, [*fixed, *carry]))
        self.page.line(f"if (!{going.item()}{f' || {turn}' if turn else ''}) break;")
        self.assign(carried, carry, self.read_all(step.outputs, self.graph(step, [*fixed, *carry])))
        self.page.close()
        return carry

    def scan(self, node: Node, sources: Sequence[Any]) -> list[Any]:
        """A loop inside a body: what it steps through is an array of the thread's own, and so is what it stacks up."""
        c, n = node.attrs["constants"], node.attrs["carries"]
        body, steps = node.attrs["body"], node.attrs["steps"]
        given, ys = body.inputs[c + n :], body.outputs[n:]
        xs = [self._stepped(x, value) for x, value in zip(given, sources[c + n :])]
        sizes = [math.prod(self.lanes.shape(y)) for y in ys]
        stacks = [self.array(y.dtype, steps * size) for y, size in zip(ys, sizes)]

        def item(k: int, t: str) -> Any:
            return self.read_small(given[k], xs[k](t)) if callable(xs[k]) else xs[k]

        def store(k: int, t: str, value: Any) -> None:
            at = [f"{t} * {sizes[k]} + {j}" for j in range(sizes[k])]
            self.store(ys[k], value, stacks[k], at, partial(rounded, ys[k]))

        initial = self.read_all(node.sources[c : c + n], sources[c : c + n])
        carry = self.steps(node, sources[:c], initial, item, store)
        every = [np.arange(steps * size).reshape((steps, *self.lanes.shape(y))) for y, size in zip(ys, sizes)]
        return [*carry, *map(InArray, stacks, every)]

    def _stepped(self, x: Node, value: Any) -> Any:
        """The sequence of an inner loop: a value per step, as a function of the step, or one if all are equal."""
        if isinstance(value, InArray):
            if len(value.places) and value.step("0") is not None:
                return value.step
            value = self.read(x, value)
        first = value[:1].reshape(value.shape[1:])
        if len(value) and all(np.array_equal(row, first) for row in value):
            return first
        name, places = self.fresh("x"), np.arange(value.size).reshape(value.shape)
        values = ", ".join(map(str, value.ravel())) or "0"
        self.page.line(f"{scalar_type(x.dtype)} {name}[] = {{{values}}};")
        stored = InArray(lambda place: f"{name}[{place}]", places)
        return stored.step if len(value) else (lambda t: stored._replace(places=np.zeros(self.lanes.shape(x), int)))

    def store(
        self,
        node: Node,
        value: Any,
        text: Callable[[str], str],
        at: Sequence[str],
        kept: Callable[[str], str],
    ) -> None:
        """Store the elements of a value at places of an array."""
        for place, one in zip(at, self.read(node, value).ravel()):
            self.page_of(node).line(f"{text(place)} = {kept(one)};")

    def steps(
        self,
        node: Node,
        fixed: Sequence[Any],
        initial: Sequence[Elements],
        item: Callable[[int, str], Any],
        store: Callable[[int, str, Any], None],
    ) -> list[Elements]:
        """A scan's loop; `item` is an element of what is stepped through, `store` keeps one of what is stacked up."""
        c, n = node.attrs["constants"], node.attrs["carries"]
        body = node.attrs["body"]
        carried, xs = body.inputs[c : c + n], body.inputs[c + n :]
        carry = self.variables(carried, initial)
        t = self.fresh("t")
        turn = self.turns() if node.attrs["steps"] > FEW_STEPS else ""
        if self.language.unrolls:
            self.page.line(f"#pragma unroll {unrolled(body)}")
        self.page.open(steps_text(node, t, self.language.counter))
        if turn:
            self.page.line(f"if ({turn}) break;")
        results = self.graph(body, [*fixed, *carry, *[item(k, t) for k in range(len(xs))]])
        for k, value in enumerate(results[n:]):
            store(k, t, value)
        self.assign(carried, carry, self.read_all(body.outputs[:n], results[:n]))
        self.page.close()
        return carry


_OF_FUNCTIONS = {SCAN: Straight.scan, WHILE: Straight.repeat, COND: Straight.branch, WHILE_GRADIENT: walk_back}


def steps_text(node: Node, t: str, counter: str = "long") -> str:
    """The head of a scan's loop."""
    steps = node.attrs["steps"]
    if node.attrs["reverse"]:
        return f"for ({counter} {t} = {steps - 1}; {t} >= 0; {t}--)"
    return f"for ({counter} {t} = 0; {t} < {steps}; {t}++)"


def unrolled(body: Graph) -> int:
    """How many steps are written out before a loop looks at its counter: one, if it is long or has loops inside."""
    lines = sum(1 if not bodies_of(node) else LONG for node in body.nodes if node.op.kind != "movement")
    return next(count for count in (8, 4, 2, 1) if count * lines <= LONG or count == 1)
