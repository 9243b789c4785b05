"""Random graphs: what the passes and the backends are fuzzed with.

    random_graph(seed, size) -> (Graph, list of input arrays)

The same seed gives the same graph. It has placeholders for inputs, and about `size` ops of the elementwise, reduction,
movement, matmul, where and cast families over them, constants and literals among the operands, values used several
times, and in half of the graphs gradients. Shapes are small, and have axes of size 1.

Every value is computed as the graph grows, and an op is taken back if its result is not tame: not finite, larger than
100, or at a point where a rounding error would change it by more than that (a comparison, a step or a maximum between
values that nearly tie). So an implementation that rounds differently still agrees, up to `tolerance(graph)`:

    for found, expected in zip(implementation(graph)(*arrays), graph(*arrays)):
        assert_close(found, expected, tolerance(graph))
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from wengert.autodiff.reverse import reverse
from wengert.core.dtypes import bool_, float16, float32, float64, int32, int64
from wengert.core.graph import Graph, Node, now, recorded_as
from wengert.ops import elementwise as e
from wengert.ops import movement as m
from wengert.ops import reduce as r
from wengert.ops.core import cast, data, literal, placeholder, stop_gradient
from wengert.ops.linalg import matmul

SHAPES: list[tuple[int, ...]] = [(), (1,), (3,), (4, 3), (1, 3), (4, 1), (2, 4, 3), (2, 1, 3), (3, 4), (2, 3, 4)]
MARGIN = 1e-2  # how far apart the values must be between which a step decides
BOUND = 100.0


class Untame(Exception):
    """The op would give a value that no tolerance could be stated for."""


def random_graph(seed: int, size: int) -> tuple[Graph, list[np.ndarray]]:
    """A graph of about `size` ops and arrays for its inputs."""
    return Builder(seed).build(size)


def tolerance(graph: Graph) -> float:
    """How far two implementations of a random graph may be apart, relative to the largest value or 1."""
    allowed = {float64: 1e-9, float32: 1e-3, float16: 5e-2}
    return max(allowed.get(node.dtype, 0.0) for node in (*graph.inputs, *graph.nodes))


def assert_close(found: np.ndarray, expected: np.ndarray, allowed: float) -> None:
    """Whether two results of a random graph agree: in shape and dtype, and in value up to what is allowed."""
    assert found.shape == expected.shape and found.dtype == expected.dtype
    a, b = (array.astype(float64) for array in (found, expected))
    error = np.abs(a - b).max(initial=0) / np.abs(b).max(initial=1)
    assert error <= allowed, f"{error} apart, relative to the largest value; allowed is {allowed}"


class Builder:
    """Grows a graph step by step, each value computed as it is recorded."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self.values: dict[Node, Any] = {}
        self.pool: list[Node] = []
        self.dtype = self.choice([float32, float32, float64, float16])
        self.shapes, self.steps = SHAPES, STEPS

    def choice(self, items: Any) -> Any:
        return items[int(self.rng.integers(len(items)))]

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def build(self, size: int) -> tuple[Graph, list[np.ndarray]]:
        since = now()
        with recorded_as(None, True):
            inputs = [self.input() for _ in range(int(self.rng.integers(1, 4)))]
            while len(self.values) < size:
                try:
                    self.pool.append(self.grown(self.choice(self.steps)))
                except Untame:
                    continue
            outputs = self.outputs(inputs)
        return Graph(inputs, outputs, since), [self.values[node] for node in inputs]

    def input(self) -> Node:
        shape = self.choice(self.shapes)
        node = placeholder(shape, self.dtype)
        self.values[node] = self.rng.uniform(-2, 2, shape).astype(self.dtype)
        self.pool.append(node)
        return node

    # --- growing ------------------------------------------------------------------------------------------------

    def grown(self, step: Callable[[Builder], Node]) -> Node:
        """What a step records, if all of its values are tame."""
        node = step(self)
        self.compute([node])
        return node

    def compute(self, nodes: list[Node]) -> None:
        """Give these nodes and what they were made from values, or none of them."""
        order: dict[Node, None] = {}
        agenda = list(nodes)
        while agenda:
            node = agenda.pop()
            if node not in self.values:
                order[node] = None
                agenda.extend(node.sources)
        found: dict[Node, Any] = {}
        for node in sorted(order, key=lambda node: node.serial):
            arrays = [self.values[s] if s in self.values else found[s] for s in node.sources]
            with np.errstate(all="ignore"):
                found[node] = node.buffer if node.buffer is not None else node.op.run(arrays, node)
            if not _is_tame(node, arrays, found[node]):
                raise Untame
        self.values.update(found)

    def outputs(self, inputs: list[Node]) -> list[Node]:
        """The values nothing reads (some of them), one that may be read, and often gradients of the inputs."""
        made = self.pool[len(inputs) :]
        used = {source for node in self.values for source in node.sources}
        ends = [node for node in made if node not in used][-8:]
        chosen = [*ends, self.choice(made)]
        targets = [node for node in chosen if node.dtype is self.dtype and node.tracked][:3]
        if targets and self.chance(0.5):
            chosen += self.gradients(targets, inputs)
        return chosen

    def gradients(self, targets: list[Node], inputs: list[Node]) -> list[Node]:
        seeds = [data(self.rng.uniform(0.5, 1.5, node.shape).astype(node.dtype)) for node in targets]
        found = []
        for gradient in reverse(targets, seeds, inputs):
            try:
                if gradient is not None:
                    self.compute([gradient])
                    found.append(gradient)
            except Untame:
                continue
        return found

    # --- operands -----------------------------------------------------------------------------------------------

    def any(self) -> Node:
        """A value so far, likelier a late one; now and then a constant."""
        if self.chance(0.1):
            return self.constant()
        late = self.pool[-6:] if self.chance(0.6) else self.pool
        return self.choice(late)

    def constant(self) -> Node:
        shape = self.choice(self.shapes)
        if self.chance(0.5):
            number = self.choice([0.0, 1.0, -1.0, 2.0, 0.5, 3.0, -0.25])
            return m.broadcast_to(literal(number, self.dtype), shape)
        return data(self.rng.uniform(-2, 2, shape).astype(self.dtype))

    def floating(self) -> Node:
        return cast(self.any(), self.dtype)

    def condition(self) -> Node:
        conditions = [node for node in self.pool if node.dtype is bool_]
        return self.choice(conditions) if conditions and self.chance(0.7) else e.greater(self.floating(), 0)

    def beside(self, x: Node) -> Node:
        """An operand that broadcasts against `x`: a number, `x` itself, or a value brought into a fitting shape."""
        kind = self.rng.integers(6)
        if kind == 0:
            return literal(self.choice([0.0, 1.0, -1.0, 2.0, -2.0, 0.5, 3.0, 0.1]), self.dtype)
        if kind == 1:
            return x
        fitting = [node for node in self.pool if node.dtype is x.dtype and _broadcasts(node.shape, x.shape)]
        return self.choice(fitting) if fitting else x

    def axes(self, rank: int, empty: bool = False) -> tuple[int, ...]:
        chosen = tuple(a for a in range(rank) if self.chance(0.5))
        return chosen if chosen or empty or not rank else (int(self.rng.integers(rank)),)


def _broadcasts(a: Any, b: Any) -> bool:
    try:
        return len(np.broadcast_shapes(a, b)) <= 3
    except ValueError:
        return False


# --- tame values ----------------------------------------------------------------------------------------------------

_STEPPING = frozenset(["sign", "floor", "ceil", "trunc", "round", "abs"])
_DECIDING = frozenset(["less", "less_equal", "greater", "greater_equal", "equal", "not_equal", "maximum", "minimum"])


def _is_tame(node: Node, arrays: list[Any], value: Any) -> bool:
    if isinstance(value, tuple):  # several results, each of which is picked
        return True
    if value.dtype.kind not in "biu" and not (np.isfinite(value).all() and np.abs(value).max(initial=0) <= BOUND):
        return False
    if value.dtype.kind in "iu" and np.abs(value).max(initial=0) > 10_000:
        return False
    name = node.op.name
    if not arrays or isinstance(arrays[0], tuple) or arrays[0].dtype.kind in "biu":
        return True
    if name == "cast" and value.dtype.kind in "iu":
        name = "trunc"
    if name in _STEPPING:
        from_step = arrays[0] if name in ("sign", "abs") else arrays[0] * 2 - np.round(arrays[0] * 2)
        return bool((np.abs(from_step) > MARGIN).all()) or bool((np.asarray(from_step) == 0).all())
    if name in _DECIDING:  # all ties at once are exact ones: the same value on both sides
        apart = np.abs(arrays[0].astype(float64) - arrays[1])
        return bool((apart > MARGIN).all()) or node.sources[0] is node.sources[1]
    if name in ("max", "min"):
        return _no_near_ties(arrays[0], node.attrs["axes"])
    if name in ("divide", "reciprocal"):
        return bool((np.abs(arrays[-1]) > 0.1).all())
    if name in ("log", "sqrt"):
        return bool((arrays[0] > 0.1).all())
    return True


def _no_near_ties(x: np.ndarray, axes: tuple[int, ...]) -> bool:
    rest = [a for a in range(x.ndim) if a not in axes]
    rows = np.sort(x.transpose(*rest, *axes).reshape(int(np.prod([x.shape[a] for a in rest], dtype=int)), -1), axis=1)
    gaps = np.diff(rows.astype(float64), axis=1)
    return bool((gaps > MARGIN).all())


# --- the steps a graph grows by -------------------------------------------------------------------------------------


def _unary(b: Builder) -> Node:
    ops = (e.exp, e.tanh, e.sin, e.cos, e.sigmoid, e.negative, e.square, e.absolute, e.sqrt, e.log, e.reciprocal)
    return b.choice((*ops, e.floor, e.sign, e.positive, stop_gradient))(b.floating())


def _binary(b: Builder) -> Node:
    x = b.floating()
    a, c = x, b.beside(x)
    if b.chance(0.3):
        a, c = c, a
    return b.choice((e.add, e.subtract, e.multiply, e.divide, e.add, e.multiply, e.maximum, e.minimum))(a, c)


def _power(b: Builder) -> Node:
    return e.pow(b.floating(), b.choice([0, 1, 2, 3, 4, -1, 2.0]))


def _comparison(b: Builder) -> Node:
    x = b.floating()
    return b.choice((e.less, e.less_equal, e.greater, e.greater_equal))(x, b.beside(x))


def _logic(b: Builder) -> Node:
    x = b.condition()
    return e.logical_not(x) if b.chance(0.5) else b.choice((e.logical_and, e.logical_or))(x, b.beside(x))


def _where(b: Builder) -> Node:
    condition, x = b.condition(), b.floating()
    other = b.beside(x)
    if not _broadcasts(condition.shape, np.broadcast_shapes(x.shape, other.shape)):
        condition = e.greater(x, 0)
    return e.where(condition, x, other) if b.chance(0.7) else e.where(condition, other, x)


def _cast(b: Builder) -> Node:
    return cast(b.any(), b.choice([float64, float32, int32, int64, bool_, float16]))


def _there_and_back(b: Builder) -> Node:
    x = b.floating()
    return cast(cast(x, b.choice([float64, float32])), x.dtype)


def _reduction(b: Builder) -> Node:
    x = b.floating()
    op = b.choice((r.SUM, r.SUM, r.MAX, r.MIN))
    return op(x, axes=b.axes(x.ndim, empty=True), keepdims=b.chance(0.5))


def _mean(b: Builder) -> Node:
    x = b.floating()
    return r.mean(x, axis=b.axes(x.ndim), keepdims=b.chance(0.5)) if x.ndim else x


def _truth(b: Builder) -> Node:
    x = b.condition()
    return b.choice((r.ALL, r.ANY))(x, axes=b.axes(x.ndim, empty=True), keepdims=b.chance(0.5))


def _softmax(b: Builder) -> Node:
    x = b.floating()
    if x.ndim == 0:
        raise Untame
    weights = e.exp(x - stop_gradient(r.MAX(x, axes=(x.ndim - 1,), keepdims=True)))
    return weights / r.SUM(weights, axes=(x.ndim - 1,), keepdims=True)


def _reshape(b: Builder) -> Node:
    x = b.any()
    shapes = [shape for shape in (*b.shapes, (12,), (2, 12), (24,)) if int(np.prod(shape)) == x.size]
    shapes += [x.shape, (x.size,)] if x.ndim > 3 else [(x.size,), (*x.shape, 1), (1, *x.shape)]
    return m.reshape(x, b.choice(shapes))


def _permute(b: Builder) -> Node:
    x = b.any()
    return m.permute_dims(x, tuple(int(a) for a in b.rng.permutation(x.ndim)))


def _broadcast(b: Builder) -> Node:
    x = b.any()
    shapes = [s for s in b.shapes if len(s) >= x.ndim and _reaches(x.shape, s)]
    return m.broadcast_to(x, b.choice(shapes)) if shapes else x


def _reaches(shape: Any, target: Any) -> bool:
    return _broadcasts(shape, target) and np.broadcast_shapes(shape, target) == target


def _slice(b: Builder) -> Node:
    x = b.any()
    starts, steps, sizes = [], [], []
    for n in x.shape:
        start, step = int(b.rng.integers(0, max(1, n // 2 + 1))), int(b.rng.integers(1, 3))
        start = max(min(start, n - 1), 0)
        starts.append(start)
        steps.append(step)
        sizes.append(-(-(n - start) // step))
    return m.take_slice(x, tuple(starts), tuple(steps), tuple(sizes))


def _place(b: Builder) -> Node:
    x = b.any()
    if x.size > 40:
        raise Untame
    starts = tuple(int(b.rng.integers(0, 2)) for _ in x.shape)
    steps = tuple(int(b.rng.integers(1, 3)) for _ in x.shape)
    shape = tuple(s + (n - 1) * t + 1 + int(b.rng.integers(0, 2)) for s, t, n in zip(starts, steps, x.shape))
    return m.place(x, shape, starts, steps)


def _flip(b: Builder) -> Node:
    x = b.any()
    return m.flip(x, axis=b.axes(x.ndim)) if x.ndim else x


def _concat(b: Builder) -> Node:
    x = b.any()
    if x.ndim == 0 or x.size > 40:
        raise Untame
    axis = int(b.rng.integers(x.ndim))
    alike = [y for y in b.pool if y.dtype is x.dtype and y.ndim == x.ndim]
    fitting = [y for y in alike if all(p == q or i == axis for i, (p, q) in enumerate(zip(y.shape, x.shape)))]
    return m.concat([x, b.choice(fitting) if fitting else x], axis=axis)


def _matmul(b: Builder) -> Node:
    left = [node for node in b.pool if node.dtype is b.dtype and node.ndim >= 2]
    if not left:
        raise Untame
    x = b.choice(left)
    fitting = [y for y in left if y.shape[-2] == x.shape[-1] and _broadcasts(y.shape[:-2], x.shape[:-2])]
    return matmul(x, b.choice(fitting)) if fitting else matmul(x, m.matrix_transpose(x))


STEPS: list[Callable[[Builder], Node]] = [
    *[_unary] * 4,
    *[_binary] * 8,
    _power,
    _comparison,
    _logic,
    _where,
    _where,
    _cast,
    _there_and_back,
    *[_reduction] * 3,
    _mean,
    _truth,
    _softmax,
    _reshape,
    _reshape,
    _permute,
    _broadcast,
    _broadcast,
    _slice,
    _place,
    _flip,
    _concat,
    _matmul,
    _matmul,
]
