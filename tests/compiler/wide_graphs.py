"""Wide random graphs: what the compiler is fuzzed with.

    wide_graph(seed, size) -> Sample: a graph, arrays for its inputs, what its outputs must be and how exactly

They go where kernels differ from references: every real dtype and the casts between them, integers that wrap around,
extents around 1, the number of lanes and odd sizes, empty arrays, gathers and scatters, scans, values read by many.

Every value is computed twice while the graph grows: by the references, and in float64. How far the two are apart says
what rounding makes of it, and an op is taken back where that is more than a tolerance could be stated for, or where a
step (a comparison, a truncation) would be decided by it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import wengert as wg
from tests.compiler.random_graphs import STEPS, Builder, Untame, _broadcasts
from wengert.core.dtypes import (
    COMPLEX,
    FLOATING,
    INTEGER,
    REAL,
    SIGNED,
    bfloat16,
    bool_,
    complex128,
    float16,
    float32,
    float64,
    int64,
)
from wengert.core.errors import WengertError
from wengert.core.graph import Graph, Node, now, recorded_as
from wengert.ops import elementwise as e
from wengert.ops import gather as g
from wengert.ops import movement as m
from wengert.ops import reduce as r
from wengert.ops.core import cast, data, literal, placeholder
from wengert.ops.running import cumulative_sum
from wengert.tensor import Tensor

EXTENTS = [1, 2, 3, 4, 5, 7, 8, 13, 16, 17, 31, 33, 64, 127, 128, 129, 130, 257]
LARGEST = 20_000  # elements
ROUNDING = {float64: 1e-10, float32: 1e-4, float16: 2e-2, bfloat16: 8e-2}  # relative to the largest value, or to 1
BOUND = 100.0

_EXACT = frozenset(
    (
        *("reshape", "permute_dims", "broadcast_to", "slice", "place", "flip", "concat", "gather", "take_along"),
        *("negative", "abs", "sign", "floor", "ceil", "trunc", "max", "min", "maximum", "minimum", "where", "cast"),
        *("stop_gradient", "literal", "positive", "data"),
    )
)
_STEPPING = frozenset(("sign", "floor", "ceil", "trunc", "round"))
_DECIDING = frozenset(
    (
        *("less", "less_equal", "greater", "greater_equal", "equal", "not_equal", "argmax", "argmin"),
        *("logical_and", "logical_or", "logical_xor", "logical_not", "all", "any"),
    )
)


class Sample(NamedTuple):
    """A graph, its inputs' values, and the values of its outputs with the relative error that each may have."""

    graph: Graph
    arrays: list[np.ndarray]
    expected: list[np.ndarray]
    allowed: list[float]


def wide_graph(seed: int, size: int = 25) -> Sample:
    """A graph of about `size` values."""
    return WideBuilder(seed).sample(size)


def differs(found: np.ndarray, expected: np.ndarray, allowed: float) -> str | None:
    """How a result is not what it must be, in words; None if it is."""
    if found.shape != expected.shape or found.dtype != expected.dtype:
        return f"{found.dtype}{list(found.shape)} instead of {expected.dtype}{list(expected.shape)}"
    if expected.dtype in INTEGER or expected.dtype is bool_:
        wrong = int((found != expected).sum())
        return f"{wrong} of {expected.size} elements differ" if wrong else None
    wide = complex128 if expected.dtype in COMPLEX else float64
    a, b = (array.astype(wide) for array in (found, expected))
    error = np.abs(a - b).max(initial=0) / np.abs(b).max(initial=1)
    return None if error <= allowed else f"{error:.3g} apart, relative to the largest value; allowed is {allowed:.3g}"


class WideBuilder(Builder):
    """Grows a wide graph."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.dtype = self.choice([float32, float32, float32, float64, float16, bfloat16])
        self.steps = WIDE_STEPS
        self.shapes = self._shapes()
        self.shadows: dict[Node, Any] = {}  # in float64
        self.loose: dict[Node, float] = {}  # the relative error a value may have
        self.exact: set[Node] = set()  # what no rounding changes

    def _shapes(self) -> list[tuple[int, ...]]:
        """Shapes over a few extents, so that many of them fit each other."""
        a, b, c = (self.choice(EXTENTS) for _ in range(3))
        if self.chance(0.08):
            c = 0
        if self.chance(0.15):
            a, b = self.choice([(4097, 1), (300, 60), (1, 9000), (5000, 2), (2, 5000), (61, 300)])
        combined = [(), (1,), (a,), (b,), (c,), (a, b), (b, a), (a, 1), (1, b), (a, c), (c, b), (c, a, b), (a, b, c)]
        combined += [(a, 1, b), (1, a, b), (a, b, 1), (2, a, b), (2, 2, a, b), (a, 2, b)]
        return [shape for shape in combined if np.prod(shape, dtype=int) <= LARGEST]

    def sample(self, size: int) -> Sample:
        since = now()
        with recorded_as(None, True):
            inputs = [self.input() for _ in range(int(self.rng.integers(1, 4)))]
            for _ in range(20 * size):
                if len(self.values) >= size:
                    break
                try:
                    self.pool.append(self.grown(self.choice(self.steps)))
                except (Untame, WengertError, ValueError, ZeroDivisionError):
                    continue
            if len(self.pool) == len(inputs):
                self.pool.append(self.grown(lambda b: e.negative(inputs[0])))
            outputs = self.outputs(inputs)
        graph = Graph(inputs, outputs, since)
        values = [self.values[node] for node in outputs]
        return Sample(graph, [self.values[node] for node in inputs], values, [self.loose[node] for node in outputs])

    def input(self) -> Node:
        dtype = self.dtype if self.chance(0.7) else self.choice([*REAL, bool_])
        node = placeholder(self.choice(self.shapes), dtype, tracked=dtype in FLOATING)
        self._hold(node, self.numbers(node.shape, dtype))
        self.pool.append(node)
        return node

    def numbers(self, shape: tuple[int, ...], dtype: Any) -> np.ndarray:
        """Values for an input or a constant."""
        if dtype is bool_:
            return self.rng.random(shape) < 0.5
        if dtype in INTEGER:
            info = np.iinfo(dtype)
            low, high = (info.min, info.max) if self.chance(0.2) else (max(info.min, -9), 9)
            return self.rng.integers(low, high, shape, dtype=dtype, endpoint=True)
        return np.asarray(self.rng.uniform(-2, 2, shape)).astype(dtype)

    def constant(self) -> Node:
        dtype = self.dtype if self.chance(0.7) else self.choice(REAL)
        if self.chance(0.5):
            number = self.choice([0, 1, 2, 3]) if dtype in INTEGER else self.choice([0.0, 1.0, -1.0, 2.0, 0.5, -0.25])
            return m.broadcast_to(literal(number, dtype), self.choice(self.shapes))
        return data(self.numbers(self.choice(self.shapes), dtype))

    def integers(self) -> Node:
        """An integer value."""
        found = [node for node in self.pool if node.dtype in INTEGER]
        if found and self.chance(0.8):
            return self.choice(found[-5:])
        return data(self.numbers(self.choice(self.shapes), self.choice(INTEGER)))

    def indices(self, shape: tuple[int, ...], size: int) -> Node:
        """Integers that address an axis of this size."""
        if not size:
            raise Untame
        low = -size if self.chance(0.3) else 0
        return data(self.rng.integers(low, size, shape, dtype=self.choice([int64, int64, np.dtype("int32")])))

    # --- values and what rounding makes of them -------------------------------------------------------------------

    def _hold(self, node: Node, array: np.ndarray) -> None:
        self.values[node] = array
        self.shadows[node] = array.astype(float64) if node.dtype in FLOATING else array
        self.loose[node] = ROUNDING.get(node.dtype, 0.0)
        self.exact.add(node)

    def compute(self, nodes: list[Node]) -> None:
        """Give these nodes and what they were made from values, or none of them."""
        order: set[Node] = set()
        agenda = list(nodes)
        while agenda:
            node = agenda.pop()
            if node not in self.values and node not in order:
                order.add(node)
                agenda.extend(node.sources)
        ordered = sorted(order, key=lambda node: node.serial)
        try:
            with np.errstate(all="ignore"):
                for node in ordered:
                    self._compute(node)
        except Exception:
            for node in ordered:
                self.values.pop(node, None)
            raise

    def _compute(self, node: Node) -> None:
        if isinstance(node.buffer, np.ndarray):
            self._hold(node, node.buffer)
            return
        sources = node.sources
        work = node.sources[0].shape[-1] if node.op.name == "matmul" else 1
        _require(isinstance(node.dtype, tuple) or (node.size <= LARGEST and node.size * work <= 1_000_000))
        value = node.op.run([self.values[s] for s in sources], node)
        shadow = self._shadow(node, value)
        self.values[node], self.shadows[node] = value, shadow
        several = isinstance(node.dtype, tuple)
        own = max(ROUNDING.get(d, 0.0) for d in (node.dtype if several else (node.dtype,)))
        self.loose[node] = max([own, *[self.loose[s] for s in sources]])
        if all(s in self.exact for s in sources) and (node.op.name in _EXACT or node.dtype not in FLOATING):
            self.exact.add(node)
        if node.dtype not in FLOATING and not several:
            self.exact.add(node)  # what it was decided by is checked
            self.loose[node] = 0.0
        for one, two in zip(value, shadow) if several else [(value, shadow)]:
            self._require_tame(node, one, two)

    def _shadow(self, node: Node, value: Any) -> Any:
        several = isinstance(node.dtype, tuple)
        if node.op.name in ("scan", "random_bits") or (node.dtype not in FLOATING and not several):
            return value
        if node.op.name == "cast":
            return np.asarray(self.shadows[node.sources[0]], float64)
        arrays = [self.shadows[s] for s in node.sources]
        result = node.op.numpy(*arrays, **node.attrs)
        return result if isinstance(result, tuple) else np.asarray(result)

    def _require_tame(self, node: Node, value: Any, shadow: Any) -> None:
        name, sources = node.op.name, node.sources
        if value.dtype in FLOATING:
            wide = value.astype(float64)
            large = np.abs(wide).max(initial=0)
            if not (np.isfinite(wide).all() and large <= BOUND):
                raise Untame
            if np.abs(wide - shadow).max(initial=0) > self.loose[node] / 6 * max(large, 1):
                raise Untame
        floats = [s for s in sources if s.dtype in FLOATING and s not in self.exact]
        if name == "cast" and node.dtype not in FLOATING and sources[0].dtype in FLOATING:
            self._require_castable(node, value)
        if name in ("divide", "reciprocal", "remainder", "floor_divide"):
            _require((np.abs(self.values[sources[-1]].astype(float64)) > 0.1).all())
        if name in ("log", "sqrt"):
            _require((self.values[sources[0]] > 0.1).all())
        if not floats:
            return
        margin = 2 * max(self.loose[s] for s in floats)
        first = self.shadows[sources[0]]
        if name in _STEPPING or (name == "cast" and node.dtype in INTEGER):
            _require((np.abs(first * 2 - np.round(first * 2)) > margin * np.maximum(1, np.abs(first))).all())
        elif name in ("abs", "copysign", "signbit") or (name == "cast" and node.dtype is bool_):
            _require((np.abs(first) > margin).all())
        elif name in _DECIDING and len(sources) == 2:
            apart = np.abs(first - self.shadows[sources[1]])
            _require(sources[0] is sources[1] or (apart > margin * np.maximum(1, np.abs(first))).all())
        elif name in _DECIDING or name in ("remainder", "floor_divide"):
            raise Untame

    def _require_castable(self, node: Node, value: Any) -> None:
        """What does not fit an integer dtype is whatever the machine makes of it."""
        if node.dtype in INTEGER:
            info, given = np.iinfo(node.dtype), self.values[node.sources[0]].astype(float64)
            _require(((given > info.min - 0.5) & (given < info.max)).all())

    def gradients(self, targets: list[Node], inputs: list[Node]) -> list[Node]:
        return super().gradients(targets, [node for node in inputs if node.dtype in FLOATING])


def _require(tame: Any) -> None:
    if not tame:
        raise Untame


# --- the further steps a wide graph grows by --------------------------------------------------------------------------


def _any_cast(b: WideBuilder) -> Node:
    return cast(b.any(), b.choice([*REAL, bool_]))


def _integer_binary(b: WideBuilder) -> Node:
    x = b.integers()
    fitting = [y for y in b.pool if y.dtype in INTEGER and _broadcasts(y.shape, x.shape)]
    y = b.choice(fitting) if fitting else x
    arithmetic = (e.add, e.subtract, e.multiply, e.maximum, e.minimum, e.bitwise_and, e.bitwise_or, e.bitwise_xor)
    return b.choice((*arithmetic, e.less, e.equal, e.greater_equal, e.floor_divide, e.remainder))(x, y)


def _integer_unary(b: WideBuilder) -> Node:
    x = b.integers()
    ops = (e.bitwise_invert, e.square, e.sign, e.absolute, e.floor)
    return b.choice((*ops, e.negative) if x.dtype in SIGNED else ops)(x)


def _shift(b: WideBuilder) -> Node:
    x = b.integers()
    by = literal(int(b.rng.integers(0, 8 * x.dtype.itemsize)), x.dtype)
    return b.choice((e.bitwise_left_shift, e.bitwise_right_shift))(x, by)


def _integer_reduction(b: WideBuilder) -> Node:
    x = b.integers()
    op = b.choice((r.SUM, r.MAX, r.MIN, r.PROD))
    return op(x, axes=b.axes(x.ndim, empty=True), keepdims=b.chance(0.5))


def _extreme(b: WideBuilder) -> Node:
    x = b.any()
    return b.choice((r.MAX, r.MIN))(x, axes=b.axes(x.ndim, empty=True), keepdims=b.chance(0.5))


def _every_axis(b: WideBuilder) -> Node:
    """A sum over all axes, the leading ones, the last ones, or one in the middle."""
    x = b.floating()
    n = x.ndim
    axes = b.choice([tuple(range(n)), tuple(range(n - 1)), (n - 1,) if n else (), tuple(range(1, n - 1)), (0,)[:n]])
    return r.SUM(x * (1 / max(x.size, 1)), axes=axes, keepdims=b.chance(0.5))


def _product(b: WideBuilder) -> Node:
    x = b.floating()
    return r.PROD(e.tanh(x), axes=b.axes(x.ndim, empty=True), keepdims=b.chance(0.5))


def _position(b: WideBuilder) -> Node:
    x = b.any()
    if not x.ndim:
        raise Untame
    op = b.choice((r.argmax, r.argmin))
    return op(x, axis=int(b.rng.integers(x.ndim)), keepdims=b.chance(0.5))


def _take(b: WideBuilder) -> Node:
    x = b.any()
    if not x.ndim:
        raise Untame
    axis = int(b.rng.integers(x.ndim))
    shape = b.choice([(), (1,), (3,), (2, 3), (17,)])
    return g.take(x, b.indices(shape, x.shape[axis]), axis=axis)


def _take_along(b: WideBuilder) -> Node:
    x = b.any()
    if not x.ndim:
        raise Untame
    axis = int(b.rng.integers(x.ndim))
    count = b.choice([1, 1, 2, 5])
    shape = (*x.shape[:axis], count, *x.shape[axis + 1 :])
    return g.take_along_axis(x, b.indices(shape, x.shape[axis]), axis=axis)


def _put_along(b: WideBuilder) -> Node:
    x = b.floating()
    if not x.ndim:
        raise Untame
    axis = int(b.rng.integers(x.ndim))
    shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    values = r.SUM(x * 0.25, axes=(axis,), keepdims=True)
    index = b.indices(shape, x.shape[axis])
    return g.put_along_axis(x, index, values, axis=axis) if b.chance(0.5) else g.scatter_add(x, axis, index, values)


def _index_add(b: WideBuilder) -> Node:
    x = b.floating()
    if not x.ndim or not x.shape[0]:
        raise Untame
    index = b.indices((3,), x.shape[0])
    return g.index_add(x, 0, index, g.take(x, b.indices((3,), x.shape[0]), axis=0))


def _layernorm(b: WideBuilder) -> Node:
    x = b.floating()
    axes = b.axes(x.ndim)
    if not x.ndim:
        raise Untame
    mean = r.mean(x, axis=axes, keepdims=True)
    return (x - mean) / e.sqrt(r.mean(e.square(x - mean), axis=axes, keepdims=True) + 0.5)


def _running_sum(b: WideBuilder) -> Node:
    x = b.floating()
    if not x.ndim:
        raise Untame
    return cumulative_sum(x * 0.1, axis=int(b.rng.integers(x.ndim)))


def _scan(b: WideBuilder) -> Node:
    x = b.floating()
    if x.ndim < 1 or not 0 < x.shape[0] <= 20:
        raise Untame
    start = b.choice([lambda row: row * 0, lambda row: wg.sin(row)])(Tensor(x)[0])
    last, rows = wg.scan(lambda c, row: (wg.tanh(c * 0.5 + row), c - row), start, Tensor(x))
    return b.choice((last, rows)).node


def _shared(b: WideBuilder) -> Node:
    """A dear value that several others read, together and apart."""
    x = b.floating()
    y = e.sin(e.tanh(x) * 1.5)
    b.compute([y])
    b.pool.append(y)
    return y * y + y


def _iota(b: WideBuilder) -> Node:
    return wg.arange(int(b.choice([1, 2, 5, 128, 129]))).node


WIDE_STEPS: list[Callable[..., Node]] = [
    *STEPS,
    *[_any_cast] * 3,
    *[_integer_binary] * 3,
    _integer_unary,
    _shift,
    _integer_reduction,
    _extreme,
    *[_every_axis] * 3,
    _product,
    _position,
    _take,
    _take_along,
    _take_along,
    _put_along,
    _index_add,
    _layernorm,
    _layernorm,
    _running_sum,
    _scan,
    *[_shared] * 2,
    _iota,
]
