"""Straight-line C: a graph over small values with every element a variable of its own.

In: a graph, and for its inputs the names of their elements, as arrays of text. Out: lines of C, and the names of the
outputs' elements. Movement ops only move names, so they cost nothing; an elementwise op is a line an element; loops and
branches inside a body are loops and branches of C. With `lanes` a value that differs from lane to lane is written to
the page inside of the loop over lanes, and what all lanes share to the one outside.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from wengert.autodiff.cond import COND, WHILE
from wengert.autodiff.scan import SCAN
from wengert.core.code import source_line
from wengert.core.dtypes import COMPLEX, HALF, bool_, float64
from wengert.core.graph import Graph, Node
from wengert.kernels.ir.intrinsics import PHILOX
from wengert.kernels.loops.lanes import NO_LANES, LaneAxes
from wengert.kernels.writer import Page, c_expression, c_literal, functions, has_expression, scalar_type, suffix
from wengert.ops import elementwise as e
from wengert.ops.core import DATA, LITERAL
from wengert.ops.creation import IOTA
from wengert.ops.linalg import MATMUL
from wengert.ops.movement import BROADCAST, CONCAT, PLACE, RESHAPE, SLICE
from wengert.ops.op import PACK, PICK, Op
from wengert.ops.random import RANDOM_BITS
from wengert.ops.reduce import ALL, ANY, MAX, MIN, PROD, SUM, reduced_axes

Elements = Any
"""An array of text: the name of each element of a value, or its literal."""

SMALL = 64  # elements of a value that may be variables
FEW_STEPS = 1024  # that pass before a loop asks whether it is to stop
LINES = 4000  # of a body: with more the C compiler takes long, and the processor's instruction cache overflows

_COMBINED: dict[Op, Op] = {SUM: e.add, PROD: e.multiply, MAX: e.maximum, MIN: e.minimum}


def why_not(graph: Graph, lanes: LaneAxes = NO_LANES) -> str | None:
    """Why a graph cannot be written element by element; None where it can.

    >>> from wengert.ops.core import placeholder
    >>> import wengert as wg
    >>> x = placeholder((3,), wg.float32)
    >>> why_not(Graph([x], [x * x])) is None
    True
    """
    lines = 0
    for node in (*graph.inputs, *graph.captured(), *graph.nodes):
        shapes = node.shape if isinstance(node.dtype, tuple) else (lanes.shape(node),)
        dtypes = node.dtype if isinstance(node.dtype, tuple) else (node.dtype,)
        if any(dtype in COMPLEX for dtype in dtypes):
            return f"{node.op.name} gives complex numbers"
        if any(math.prod(shape) > SMALL for shape in shapes):
            return f"{node.op.name} has more than {SMALL} elements"
        lines += _lines(node, lanes)
    for node in graph.captured():
        if not isinstance(node.buffer, np.ndarray) and node.op is not LITERAL:
            return f"{node.op.name} is no constant"
    for node in graph.nodes:
        reason = _why_not(node, lanes)
        if reason:
            return reason
    return f"its body would have {lines} lines" if lines > LINES else None


def _lines(node: Node, lanes: LaneAxes) -> int:
    """About how many lines a node takes."""
    inner = sum(_lines(one, NO_LANES) for graph in graphs_of(node) for one in graph.nodes)
    if node.op is MATMUL:
        return math.prod(lanes.shape(node)) * lanes.shape(node.sources[0])[-1]
    if node.op.kind == "reduction":
        return math.prod(lanes.shape(node.sources[0]))
    return inner if isinstance(node.dtype, tuple) else math.prod(lanes.shape(node))


def graphs_of(node: Node) -> list[Graph]:
    """The graphs that an op carries, in the order of its attributes."""
    found = []
    for value in node.attrs.values():
        found += [one for one in (value if type(value) is tuple else (value,)) if isinstance(one, Graph)]
    return found


_FAR = frozenset(("sin", "cos", "tan"))


def needs_far(graph: Graph) -> bool:
    """Whether a graph computes sines in float64, whose versions for large arguments are a header of their own."""
    for node in graph.nodes:
        if any(map(needs_far, graphs_of(node))):
            return True
        is_float64 = node.op.kind == "elementwise" and node.sources and node.sources[-1].dtype is float64
        if is_float64 and not _FAR.isdisjoint(functions(node.op, float64, node.attrs)):
            return True
    return False


def _why_not(node: Node, lanes: LaneAxes) -> str | None:
    op = node.op
    if op in (SCAN, WHILE, COND):
        if lanes is not NO_LANES:
            return f"{op.name} is inside"
        return next(filter(None, map(why_not, graphs_of(node))), None)
    if op.kind in ("movement", "tuple") or op in (LITERAL, DATA, IOTA, CONCAT, ALL, ANY) or op in _COMBINED:
        return None
    if op is RANDOM_BITS:
        return None if node.sources[0].ndim == 1 and node.sources[1].ndim == 0 else "random bits have several keys"
    if op is MATMUL:
        return None if node.dtype is not bool_ else "a product is of booleans"
    if op.kind in ("elementwise", "identity") and has_expression(op, node.sources[-1].dtype, node.attrs):
        return None
    return f"{op.name} is no arithmetic of elements"


class Straight:
    """The lines of a graph, as they are written."""

    def __init__(self, page: Page, lanes: LaneAxes = NO_LANES, lane_page: Page | None = None) -> None:
        self.page, self.lanes, self.lane_page = page, lanes, lane_page or page
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

    def graph(self, graph: Graph, inputs: Sequence[Elements]) -> list[Elements]:
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
        if op.kind == "movement" or op is CONCAT:
            return self._moved(node, sources)
        if op in (SCAN, WHILE, COND):
            return _OF_FUNCTIONS[op](self, node, sources)
        if op is IOTA:
            return self._each(node, lambda k, at: f"({scalar_type(node.dtype)})({at})")
        if op is RANDOM_BITS:
            return self._random_bits(node, *sources)
        if op is MATMUL:
            return self._product(node, *sources)
        return self._reduced(node, sources[0]) if op.kind == "reduction" else self._elementwise(node, sources)

    def _each(self, node: Node, text: Callable[[int, str], str]) -> Elements:
        """An element for each place; `text` is told its number in one lane and its place among all."""
        shape = self.lanes.shape(node)
        stride = self.lanes.stride(node)
        places = [f"{place} + {stride} * lane" if stride else str(place) for place in places_of(node, self.lanes)]
        return array_of(shape, [self.let(node, text(k, place)) for k, place in enumerate(places)])

    def _moved(self, node: Node, sources: Sequence[Elements]) -> Elements:
        attrs = dict(node.attrs)
        shape = self.lanes.shape(node)
        if node.op in (RESHAPE, BROADCAST, PLACE):
            attrs["shape"] = shape
        if node.op is SLICE:
            attrs["sizes"] = shape
        zero = str(c_literal(0, node.dtype))
        moved = np.asarray(node.op.numpy(*sources, **attrs), object)
        return array_of(shape, [one if isinstance(one, str) else zero for one in moved.ravel()])

    def _random_bits(self, node: Node, key: Elements, counter: Elements) -> Elements:
        words = [*key.ravel(), *counter.ravel()]

        def text(k: int, place: str) -> str:
            return str(c_expression(PHILOX, node.dtype, [*words, place], {"stream": node.attrs["stream"]}))

        return self._each(node, text)

    def _expression(self, op: Op, dtype: Any, *operands: str) -> str:
        text = c_expression(op, dtype, operands)
        assert text is not None
        return text

    def _elementwise(self, node: Node, sources: Sequence[Elements]) -> Elements:
        shape, dtype = self.lanes.shape(node), node.sources[-1].dtype
        operands = zip(*(np.broadcast_to(source, shape).ravel() for source in sources))
        found = []
        for own in operands:
            text = c_expression(node.op, dtype, own, node.attrs)
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
            total = self._expression(_COMBINED[op], dtype, total, one)
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
            found.append(array_of(node.shape, names))
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
        """What counts the turns of a loop and says whether it is to end all the same, asking only now and then."""
        name = self.fresh("turn")
        self.page.line(f"long {name} = 0;")
        return f"(++{name} % {FEW_STEPS} == 0 && wg_stopped())"

    def branch(self, node: Node, sources: Sequence[Elements]) -> list[Elements]:
        """Both branches, one of which runs."""
        choice, *values = sources
        branches = node.attrs["branches"]
        outputs = branches[0].outputs
        results = [array_of(o.shape, [self.fresh("c") for _ in range(o.size)]) for o in outputs]
        for output, names in zip(outputs, results):
            for name in names.ravel():
                self.page.line(f"{scalar_type(output.dtype)} {name};")
        for head, graph in (f"if ({choice.item()})", branches[0]), ("else", branches[1]):
            self.page.open(head)
            for output, names, own in zip(outputs, results, self.graph(graph, values)):
                for name, value in zip(names.ravel(), own.ravel()):
                    self.page.line(f"{name} = {rounded(output, value)};")
            self.page.close()
        return results

    def repeat(self, node: Node, sources: Sequence[Elements]) -> list[Elements]:
        """A loop as long as its condition holds."""
        test, step, n = node.attrs["test"], node.attrs["step"], node.attrs["constants"]
        fixed, carried = list(sources[:n]), step.inputs[n:]
        carry = self.variables(carried, sources[n:])
        turn = self.turns()
        self.page.open("while (1)")
        (going,) = self.graph(test, [*fixed, *carry])
        self.page.line(f"if (!{going.item()} || {turn}) break;")
        self.assign(carried, carry, self.graph(step, [*fixed, *carry]))
        self.page.close()
        return carry

    def scan(self, node: Node, sources: Sequence[Elements]) -> list[Elements]:
        """A loop inside a body: what it steps through is an array on the stack, and so is what it stacks up."""
        c, n = node.attrs["constants"], node.attrs["carries"]
        body, steps = node.attrs["body"], node.attrs["steps"]
        arrays = []
        for source, x in zip(sources[c + n :], body.inputs[c + n :]):
            arrays.append(self.fresh("x"))
            values = ", ".join(map(str, source.ravel())) or "0"
            self.page.line(f"{scalar_type(x.dtype)} {arrays[-1]}[] = {{{values}}};")
        stacked = [self.fresh("y") for _ in body.outputs[n:]]
        for name, output in zip(stacked, body.outputs[n:]):
            self.page.line(f"{scalar_type(output.dtype)} {name}[{max(steps * output.size, 1)}];")
        carry = self.steps(
            node,
            sources[:c],
            sources[c : c + n],
            lambda k, at: f"{arrays[k]}[{at}]",
            lambda k, at, value: f"{stacked[k]}[{at}] = {rounded(body.outputs[n + k], value)};",
        )
        ys = []
        for name, output in zip(stacked, body.outputs[n:]):
            names = [f"{name}[{k}]" for k in range(steps * output.size)]
            ys.append(array_of((steps, *output.shape), names))
        return [*carry, *ys]

    def steps(
        self,
        node: Node,
        fixed: Sequence[Elements],
        initial: Sequence[Elements],
        load: Callable[[int, str], str],
        store: Callable[[int, str, str], str],
    ) -> list[Elements]:
        """A scan's loop; `load` and `store` are the text for an element of what is stepped through or stacked up."""
        c, n = node.attrs["constants"], node.attrs["carries"]
        body = node.attrs["body"]
        carried, xs = body.inputs[c : c + n], body.inputs[c + n :]
        carry = self.variables(carried, initial)
        t = self.fresh("t")
        turn = self.turns() if node.attrs["steps"] > FEW_STEPS else ""
        self.page.open(steps_text(node, t))
        if turn:
            self.page.line(f"if ({turn}) break;")
        inputs = []
        for k, x in enumerate(xs):
            inputs.append(array_of(x.shape, [self.let(x, load(k, f"{t} * {x.size} + {j}")) for j in range(x.size)]))
        results = self.graph(body, [*fixed, *carry, *inputs])
        for k, (output, value) in enumerate(zip(body.outputs[n:], results[n:])):
            for j, one in enumerate(value.ravel()):
                self.page.line(store(k, f"{t} * {output.size} + {j}", one))
        self.assign(carried, carry, results[:n])
        self.page.close()
        return carry


_OF_FUNCTIONS = {SCAN: Straight.scan, WHILE: Straight.repeat, COND: Straight.branch}


def steps_text(node: Node, t: str) -> str:
    """The head of a scan's loop."""
    steps = node.attrs["steps"]
    if node.attrs["reverse"]:
        return f"for (long {t} = {steps - 1}; {t} >= 0; {t}--)"
    return f"for (long {t} = 0; {t} < {steps}; {t}++)"


def rounded(node: Node, value: str) -> str:
    """A value as it is kept from step to step."""
    return f"wg_round_{suffix(node.dtype)}({value})" if node.dtype in HALF else value


def places_of(node: Node, lanes: LaneAxes) -> Iterator[int]:
    """Where the elements of a value's first lane lie."""
    own = lanes.axes.get(node, ())
    every = np.arange(node.size).reshape(node.shape)
    yield from every[tuple(slice(1) if axis in own else slice(None) for axis in range(node.ndim))].ravel().tolist()


def array_of(shape: Sequence[int], names: Sequence[str]) -> Elements:
    """Names of elements in a shape."""
    found = np.empty(len(names), object)
    found[:] = names
    return found.reshape(tuple(shape))
