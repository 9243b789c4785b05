"""What can be written element by element: which ops, over how many elements, in how many lines.

In: a graph, and its lanes. Out: the first reason why it cannot be written; None if it can. Values of more than a few
elements cannot be variables; but where a thread has whole lanes (`arrays`) they may be arrays that only inner loops
step through.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from wengert.autodiff.cond import COND, WHILE
from wengert.autodiff.scan import SCAN
from wengert.autodiff.while_gradient import WHILE_GRADIENT
from wengert.compiler.loop_lanes import NO_LANES, LaneAxes, bodies_of, ends_by_itself
from wengert.core.dtypes import COMPLEX, bool_, float64
from wengert.core.graph import Graph, Node
from wengert.kernels.writer import functions, has_expression
from wengert.ops import elementwise as e
from wengert.ops.core import DATA, LITERAL
from wengert.ops.creation import IOTA
from wengert.ops.linalg import MATMUL
from wengert.ops.movement import CONCAT, PLACE
from wengert.ops.op import PICK, Op
from wengert.ops.random import RANDOM_BITS
from wengert.ops.reduce import ALL, ANY, MAX, MIN, PROD, SUM

SMALL = 64  # elements of a value that may be variables
FEW_LANES = 8  # of a loop over lanes that is inside another, and written once for each
LARGE = 1 << 16  # elements of a value that may be an array
LINES = 4000  # of a body: with more the C compiler takes long, and the processor's instruction cache overflows

COMBINED: dict[Op, Op] = {SUM: e.add, PROD: e.multiply, MAX: e.maximum, MIN: e.minimum}


def why_not(graph: Graph, lanes: LaneAxes = NO_LANES, arrays: bool = False) -> str | None:
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
        if not arrays and any(math.prod(shape) > SMALL for shape in shapes):
            return f"{node.op.name} has more than {SMALL} elements"
        lines += _lines(node, lanes)
    for node in graph.captured():
        if not isinstance(node.buffer, np.ndarray) and node.op is not LITERAL:
            return f"{node.op.name} is no constant"
    for node in graph.nodes:
        reason = _why_not(node, lanes, arrays)
        if reason:
            return reason
    return f"its body would have {lines} lines" if lines > LINES else None


def _lines(node: Node, lanes: LaneAxes) -> int:
    """About how many lines a node takes."""
    if isinstance(node.dtype, tuple):
        return sum(_lines(one, lanes) for graph in bodies_of(node) for one in graph.nodes)
    if node.op is MATMUL:
        return math.prod(lanes.shape(node)) * lanes.shape(node.sources[0])[-1]
    if node.op.kind == "reduction":
        return math.prod(lanes.shape(node.sources[0]))
    count = math.prod(lanes.shape(node))
    return 0 if is_moved(node) and count > SMALL else count


def is_moved(node: Node) -> bool:
    """Whether a value is one that is there already, or elements of it in another order."""
    return (node.op.kind in ("movement", "identity") and node.op is not PLACE) or node.op is PICK


def _why_not(node: Node, lanes: LaneAxes, arrays: bool) -> str | None:
    op = node.op
    if op in (SCAN, WHILE, COND, WHILE_GRADIENT):
        if lanes is not NO_LANES and not arrays:
            return f"{op.name} is inside"
        if ends_by_itself(node) and lanes.shape(node.sources[-1])[0] > FEW_LANES:
            return f"{op.name} inside is over other lanes"
        inner = (why_not(graph, lanes, arrays) for graph in bodies_of(node))
        return next(filter(None, (*_large_inside(node, lanes), *inner)), None)
    if not is_moved(node) and any(_is_large(one, lanes) for one in (node, *node.sources)):
        return f"{op.name} has more than {SMALL} elements"
    if op.kind in ("movement", "tuple") or op in (LITERAL, DATA, IOTA, CONCAT, ALL, ANY) or op in COMBINED:
        return None
    if op is RANDOM_BITS:
        return None if node.sources[0].ndim == 1 and node.sources[1].ndim == 0 else "random bits have several keys"
    if op is MATMUL:
        return None if node.dtype is not bool_ else "a product is of booleans"
    if op.kind in ("elementwise", "identity") and has_expression(op, node.sources[-1].dtype, node.attrs):
        return None
    return f"{op.name} is no arithmetic of elements"


def _is_large(node: Node, lanes: LaneAxes) -> bool:
    return not isinstance(node.dtype, tuple) and math.prod(lanes.shape(node)) > SMALL


def large_carries(node: Node, lanes: LaneAxes) -> str | None:
    """Why the carries of a loop, or what a branch gives, cannot be variables."""
    graphs, n = bodies_of(node), node.attrs.get("carries")
    carried = [one for graph in graphs for one in graph.outputs[:n]]
    return f"a carry has more than {SMALL} elements" if any(_is_large(one, lanes) for one in carried) else None


def _large_inside(node: Node, lanes: LaneAxes) -> Iterator[str | None]:
    """Why values of a loop or branch that is inside another are too large."""
    yield large_carries(node, lanes)
    for one in (*node.sources, *(one for graph in bodies_of(node) for one in graph.outputs)):
        if not isinstance(one.dtype, tuple) and math.prod(lanes.shape(one)) > LARGE:
            yield f"{one.op.name} has more than {LARGE} elements"


_FAR = frozenset(("sin", "cos", "tan"))


def has_complex(graph: Graph) -> bool:
    """Whether there are complex numbers in a graph."""
    for node in (*graph.inputs, *graph.captured(), *graph.nodes):
        dtypes = node.dtype if isinstance(node.dtype, tuple) else (node.dtype,)
        if any(dtype in COMPLEX for dtype in dtypes) or any(map(has_complex, bodies_of(node))):
            return True
    return False


def needs_far(graph: Graph) -> bool:
    """Whether a graph computes sines in float64, whose versions for large arguments are a header of their own."""
    for node in graph.nodes:
        if any(map(needs_far, bodies_of(node))):
            return True
        is_float64 = node.op.kind == "elementwise" and node.sources and node.sources[-1].dtype is float64
        if is_float64 and not _FAR.isdisjoint(functions(node.op, float64, node.attrs)):
            return True
    return False
