"""Wengert in one file: grad, jvp, vmap and compiled code, on the standard library and a C compiler alone.

Each transform walks a graph of nodes and records more nodes, so transforms nest. docs/lessons/one-file.md explains it.
"""
# ruff: noqa: E731

import ctypes
import itertools
import math
import subprocess
import tempfile
from collections import namedtuple
from pathlib import Path

# --- 1. The language: a node is an op applied to sources ------------------------------------------------------------
# All that is known of an op is in one place. `run` computes: (node, *flat lists of its sources) -> flat list. `vjp` is
# reverse mode: (cotangent, node, *sources) -> a cotangent or None for each source. `jvp` is forward mode: (node,
# *tangents) -> tangent, where None is zero. `batch` takes sources with one more axis in front, and `c` is C.
Op = namedtuple("Op", "name run vjp jvp batch c", defaults=(None, None, None, ""))
plus = lambda nodes: sum(nodes[1:], nodes[0]) if nodes else None
zeros = lambda shape: Node(CONSTANT, (), shape, data=[0.0] * math.prod(shape))


class Node:
    """A value with a shape. `data` is its numbers as a flat list, None until someone asks for them."""

    def __init__(self, op, sources=(), shape=(), axes=(), data=None):
        self.op, self.sources, self.shape, self.axes, self.data = op, sources, shape, axes, data

    __add__ = __radd__ = lambda self, other: add(self, other)
    __mul__ = __rmul__ = lambda self, other: multiply(self, other)
    __sub__ = lambda self, other: subtract(self, other)
    __rsub__ = lambda self, other: subtract(other, self)
    __truediv__ = lambda self, other: divide(self, other)
    __rtruediv__ = lambda self, other: divide(other, self)
    __neg__ = lambda self: multiply(self, -1.0)
    __matmul__ = lambda self, other: matmul(self, other)
    __repr__ = lambda self: f"tensor({to_list(self)})"


def tensor(value):
    """A node of known numbers, from a number or nested lists of the same length at each level."""
    if isinstance(value, Node):
        return value
    shape, data = (), [value]
    while data and isinstance(data[0], (list, tuple)):
        shape, data = (*shape, len(data[0])), [x for row in data for x in row]
    return Node(CONSTANT, (), shape, data=[float(x) for x in data])


def to_list(node):
    """The numbers of a node as nested lists."""
    rows = numbers(node)
    for length in reversed(node.shape):
        rows = [rows[i : i + length] for i in range(0, len(rows), length)]
    return rows[0]


def in_order(*results):
    """The nodes behind some results, each after its sources."""
    order, seen, stack = [], set(), [(node, False) for node in reversed(results)]
    while stack:
        node, ready = stack.pop()
        if ready:
            order.append(node)
        elif node not in seen:
            seen.add(node)
            stack += [(node, True), *((source, False) for source in reversed(node.sources))]
    return order


# --- 2. The first interpreter: from a graph to numbers --------------------------------------------------------------
def numbers(node):
    """The numbers of a node. Every node behind it runs once and keeps what it found."""
    for each in in_order(node):
        if each.data is None:
            each.data = each.op.run(each, *(source.data for source in each.sources))
    return node.data


def offsets(shape, axes):
    """Walk an array of this shape in order: where does each number lie in the array without these axes?"""
    strides, size = [0] * len(shape), 1
    for axis in reversed(range(len(shape))):
        if axis not in axes:
            strides[axis], size = size, size * shape[axis]
    return (sum(i * stride for i, stride in zip(place, strides)) for place in itertools.product(*map(range, shape)))


# --- 3. The ops: each with its rules beside it ----------------------------------------------------------------------
def elementwise(name, c, function, *slopes):
    """An op on every number. `slopes` are its derivatives with respect to each source, given the node and sources."""

    def record(*operands):
        sources = [tensor(operand) for operand in operands]
        shape = max((source.shape for source in sources), key=len)
        new = [range(len(shape) - len(source.shape)) for source in sources]  # the axes that each source has to get
        if any(source.shape != shape[len(axes) :] for source, axes in zip(sources, new)):
            raise ValueError(f"{name}: the shapes {[source.shape for source in sources]} do not agree")
        return Node(op, tuple(broadcast(source, shape, axes) for source, axes in zip(sources, new)), shape)

    jvp = lambda node, *ts: plus([t * slope(node, *node.sources) for t, slope in zip(ts, slopes) if t and slope])
    vjp = lambda g, node, *sources: [slope and multiply(g, slope(node, *sources)) for slope in slopes]
    op = Op(name, lambda node, *data: [function(*x) for x in zip(*data)], vjp, jvp, lambda _, *xs: record(*xs), c)
    return record


def broadcast(x, shape, axes):
    """Copies of x along new axes, so that it has this shape."""
    return Node(BROADCAST, (x,), tuple(shape), tuple(axes)) if axes else x


def total(x, axes=None):
    """The sum over some axes, or over all."""
    axes = range(len(x.shape)) if axes is None else axes
    return Node(SUM, (x,), tuple(n for i, n in enumerate(x.shape) if i not in axes), tuple(axes)) if axes else x


def run_sum(node, data):
    out = [0.0] * math.prod(node.shape)
    for value, offset in zip(data, offsets(node.sources[0].shape, node.axes)):
        out[offset] += value
    return out


# Copies and sums are each other's transpose: what one does to values, the other does to their cotangents.
BROADCAST = Op(
    "broadcast",
    run=lambda node, data: [data[offset] for offset in offsets(node.shape, node.axes)],
    vjp=lambda g, node, x: [total(g, node.axes)],
    jvp=lambda node, t: broadcast(t, node.shape, node.axes),
    batch=lambda node, x: broadcast(x, (x.shape[0], *node.shape), [axis + 1 for axis in node.axes]),
)
SUM = Op(
    "sum",
    run=run_sum,
    vjp=lambda g, node, x: [broadcast(g, x.shape, node.axes)],
    jvp=lambda node, t: total(t, node.axes),
    batch=lambda node, x: total(x, [axis + 1 for axis in node.axes]),
)
CONSTANT, INPUT = Op("constant", None), Op("input", None)
same = elementwise("same", "{0}", lambda a: a, lambda y, a: 1.0)
add = elementwise("add", "{0} + {1}", lambda a, b: a + b, lambda y, a, b: 1.0, lambda y, a, b: 1.0)
subtract = elementwise("subtract", "{0} - {1}", lambda a, b: a - b, lambda y, a, b: 1.0, lambda y, a, b: -1.0)
multiply = elementwise("multiply", "{0} * {1}", lambda a, b: a * b, lambda y, a, b: b, lambda y, a, b: a)
divide = elementwise("divide", "{0} / {1}", lambda a, b: a / b, lambda y, a, b: 1 / b, lambda y, a, b: -y / b)
sin = elementwise("sin", "sin({0})", math.sin, lambda y, a: cos(a))
cos = elementwise("cos", "cos({0})", math.cos, lambda y, a: -sin(a))
exp = elementwise("exp", "exp({0})", math.exp, lambda y, a: y)
log = elementwise("log", "log({0})", math.log, lambda y, a: 1 / a)
tanh = elementwise("tanh", "tanh({0})", math.tanh, lambda y, a: 1 - y * y)
greater = elementwise("greater", "({0} > {1} ? 1.0 : 0.0)", lambda a, b: float(a > b), None, None)
pick = lambda c, a, b: a if c else b
where = elementwise("where", "({0} ? {1} : {2})", pick, None, lambda y, c, a, b: c, lambda y, c, a, b: 1 - c)
relu = lambda x: where(greater(x, 0.0), x, 0.0)


def matmul(a, b):
    """A matrix product: copies, products and a sum. It needs no rules of its own."""
    shape = (*a.shape, b.shape[1])
    return total(broadcast(a, shape, [2]) * broadcast(b, shape, [0]), [1])


# --- 4. The transforms: walk the graph, record more nodes -----------------------------------------------------------
RECORDING = []  # the functions that transforms are recording


def recorded(f, inputs):
    """Some nodes, f's result on them, and the nodes between in order."""
    RECORDING.append(f)
    try:
        result = tensor(f(*inputs))
    finally:
        RECORDING.pop()
    moving = set(inputs)
    order = [node for node in in_order(result) if not moving.isdisjoint(node.sources) and not moving.add(node)]
    return inputs, result, order


def vjp(f, *args):
    """f's result, and the function that pulls its cotangent back to the arguments: reverse mode."""
    inputs, result, order = recorded(f, [same(x) for x in args])  # new nodes: only what f does with them counts

    def pullback(g):
        adjoints = {result: tensor(g)}
        for node in reversed(order):
            if node in adjoints:
                for source, share in zip(node.sources, node.op.vjp(adjoints[node], node, *node.sources)):
                    if share is not None:
                        adjoints[source] = adjoints[source] + share if source in adjoints else share
        return [adjoints.get(x, zeros(x.shape)) for x in inputs]

    return result, pullback


def grad(f, argument=0):
    """The function that returns the gradient of f, which returns one number, with respect to an argument."""
    return lambda *args: vjp(f, *args)[1](tensor(1.0))[argument]


def jvp(f, args, directions):
    """f's result, and its derivative along a direction: forward mode."""
    inputs, result, order = recorded(f, [same(x) for x in args])
    tangents = dict(zip(inputs, map(tensor, directions)))
    for node in order:
        tangents[node] = node.op.jvp(node, *(tangents.get(source) for source in node.sources))
    return result, tangents.get(result) or zeros(result.shape)


def vmap(f, in_axes=(0,)):
    """f for every row of its arguments at once. An argument whose axis is None is shared by all rows."""

    def batched(*args):
        args = [tensor(x) for x in args]
        inputs = [x if axis is None else Node(INPUT, (), x.shape[1:]) for x, axis in zip(args, in_axes)]
        found = {node: x for node, x, axis in zip(inputs, args, in_axes) if axis is not None}
        count = next(iter(found.values())).shape[0]
        _, result, order = recorded(f, inputs)
        with_rows = lambda node: found.get(node) or broadcast(node, (count, *node.shape), [0])
        for node in order:
            found[node] = node.op.batch(node, *map(with_rows, node.sources))
        return with_rows(result)

    return batched


# --- 5. The compiler: one loop nest in C for each sum and for the result --------------------------------------------
def compiled(f):
    """f as a C library, made at the first call with arguments of these shapes. `call.source` is its text."""
    programs = {}

    def call(*args):
        args = [tensor(x) for x in args]
        if RECORDING:  # a transform is at work: it needs the nodes
            return f(*args)
        shapes = tuple(x.shape for x in args)
        program = programs.get(shapes) or programs.setdefault(shapes, Program(f, shapes))
        call.source = program.source
        return program(*args)

    return call


class Program:
    """A graph as C. Inputs, constants, sums and the result lie in memory; all else is computed in registers."""

    def __init__(self, f, shapes):
        self.inputs = [Node(INPUT, (), shape) for shape in shapes]
        self.result = result = tensor(f(*self.inputs))
        self.stored = [n for n in in_order(*self.inputs, result) if n.op in (INPUT, CONSTANT, SUM) or n is result]
        kernels = [self.kernel(node) for node in self.stored if node.op not in (INPUT, CONSTANT)]
        self.source = "\n".join(["#include <math.h>\n", "void run(double **memory) {", *kernels, "}\n"])
        path = Path(tempfile.mkdtemp()) / "program.c"
        path.write_text(self.source)
        subprocess.run(
            ["cc", "-O2", "-ffp-contract=off", "-shared", "-fPIC", path, "-o", f"{path}.so", "-lm"], check=True
        )
        self.library = ctypes.CDLL(f"{path}.so")

    def kernel(self, node):
        """The loops of one stored node: over its own shape, or over that of what it sums."""
        root, axes = (node.sources[0], node.axes) if node.op is SUM else (node, ())
        index, lines, known = tuple(f"i{axis}" for axis in range(len(root.shape))), [], {}
        value = self.value(root, index, lines, known, node)
        place = self.place(node, [i for axis, i in enumerate(index) if axis not in axes])
        loops = [f"  for (int {i} = 0; {i} < {length}; {i}++)" for i, length in zip(index, root.shape)]
        return "\n".join([*loops, "  {", *lines, f"    {place} {'+=' if node.op is SUM else '='} {value};", "  }"])

    def value(self, node, index, lines, known, root):
        """The C name of a node's number at an index. The lines that compute it are written before it is used."""
        if node in self.stored and node is not root:
            return self.place(node, index)
        if node.op is BROADCAST:
            kept = tuple(i for axis, i in enumerate(index) if axis not in node.axes)
            return self.value(node.sources[0], kept, lines, known, root)
        if (node, index) not in known:
            parts = [self.value(source, index, lines, known, root) for source in node.sources]
            known[node, index] = f"v{len(known) + 1}"
            lines.append(f"    double {known[node, index]} = {node.op.c.format(*parts)};")
        return known[node, index]

    def place(self, node, index):
        terms = [f"{i} * {math.prod(node.shape[axis + 1 :])}" for axis, i in enumerate(index)]
        return f"memory[{self.stored.index(node)}][{' + '.join(terms) or 0}]"

    def __call__(self, *args):
        given = dict(zip(self.inputs, args))
        data = [numbers(given.get(n, n) if n.op in (INPUT, CONSTANT) else zeros(n.shape)) for n in self.stored]
        arrays = [(ctypes.c_double * len(each))(*each) for each in data]
        self.library.run((ctypes.c_void_p * len(arrays))(*map(ctypes.addressof, arrays)))
        return Node(CONSTANT, (), self.result.shape, data=list(arrays[self.stored.index(self.result)]))


if __name__ == "__main__":
    f = lambda x1, x2: log(x1) + x1 * x2 - sin(x2)
    print(
        "f(2, 5), df/dx1, df/dx2, d2f/dx1dx1:", f(tensor(2.0), 5.0), *vjp(f, 2.0, 5.0)[1](1.0), grad(grad(f))(2.0, 5.0)
    )
    fast = compiled(vmap(grad(f), (0, None)))
    print("df/dx1 for four x1, compiled:", fast([1.0, 2.0, 3.0, 4.0], 5.0), fast.source, sep="\n\n")
