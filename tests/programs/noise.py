"""What rounding makes of values, found by noise.

Every value is computed by its reference, in float64, and twice in float64 with noise: every operand and every result of
an op that rounds is moved by a few units of its dtype's last place. How far the results lie from the float64 ones is
what a value may be off. Where that is much, or where a step (a comparison, a sort, a cast) is decided by it, the value
is refused. So a difference that counts is one that rounding does not explain.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import wengert as wg
from tests.compiler.random_graphs import Untame
from tests.compiler.wide_graphs import WideBuilder
from wengert.core.dtypes import COMPLEX, HALF, INEXACT, INTEGER, bool_, cast_array, float64, real_of
from wengert.core.graph import Node
from wengert.ops.core import CAST

ROUNDOFF = {np.dtype(name): 2.0**-n for name, n in (("float64", 53), ("float32", 24), ("float16", 11))}
ROUNDOFF[wg.bfloat16] = 2.0**-8
UNITS = {2: 4, 4: 16, 8: 16}  # of the last place that an operation may be off, by the size of a number
SAFETY = 4  # of two draws of noise
LARGEST = 4_000  # elements
FEW = 8  # elements
WORK = 300_000  # multiplications of a product
LIMITS = {2: 0.05, 4: 1e-3, 8: 1e-8}  # what noise may do to a value, relative to its largest element or 1

_EXACT = frozenset(("negative", "abs", "maximum", "minimum", "where", "max", "min", "max_pool", "positive", "conj"))
_EXACT_KINDS = frozenset(("source", "identity", "movement", "tuple"))


class NoisyBuilder(WideBuilder):
    """Computes the values of a graph as it grows, with what they may be off."""

    def __init__(self, seed: list[int]) -> None:
        super().__init__(seed)
        self.noise = np.random.default_rng([*seed, 1])
        self.draws: dict[Node, tuple[Any, Any]] = {}  # in float64, with noise
        self.moved: dict[Node, tuple[Any, Any]] = {}  # the same as operands of ops that round

    def _hold(self, node: Node, array: np.ndarray) -> None:
        wide = array.astype(wide_dtype(array.dtype)) if array.dtype in INEXACT else array
        self.values[node], self.shadows[node] = array, wide
        self.draws[node] = (wide, wide)
        self.loose[node] = 0.0
        self.exact.add(node)

    def _compute(self, node: Node) -> None:
        if isinstance(node.buffer, np.ndarray):
            self._hold(node, node.buffer)
            return
        several = isinstance(node.dtype, tuple)
        sizes = [int(np.prod(shape, dtype=int)) for shape in node.shape] if several else [node.size]
        work = node.sources[0].shape[-1] * node.size if node.op.name == "matmul" else 0
        if max(sizes) > LARGEST or work > WORK:
            raise Untame
        value = node.op.run([self.values[s] for s in node.sources], node)
        self.values[node] = value
        exact = self._is_exact(node) and all(s in self.exact for s in node.sources)
        if exact:
            self.exact.add(node)
        shadow = self._applied(node, [self.shadows[s] for s in node.sources], value)
        self.shadows[node] = shadow
        self.draws[node] = (shadow, shadow) if exact else (self._draw(node, 0), self._draw(node, 1))
        if not several and not exact and node.dtype not in INEXACT:
            self._require_decided(node, value)
        parts = zip(value, shadow, *self.draws[node]) if several else [(value, shadow, *self.draws[node])]
        self.loose[node] = max(self._require_tame(*part) for part in parts)

    def _is_exact(self, node: Node) -> bool:
        op = node.op
        if op.kind == "function":
            return False
        if op is CAST:
            return node.dtype not in INEXACT or node.sources[0].dtype not in INEXACT
        return op.moves or op.kind in _EXACT_KINDS or op.name in _EXACT or node.dtype in INTEGER or node.dtype is bool_

    def _applied(self, node: Node, arrays: list[Any], value: Any) -> Any:
        """What a node is of wide operands; an op that runs functions is computed as it is."""
        if node.op.kind == "function":
            return value
        if node.op is CAST and node.dtype in INEXACT:
            return np.asarray(arrays[0]).astype(wide_dtype(node.dtype))
        if node.op is CAST:
            return cast_array(np.asarray(arrays[0]), node.dtype)
        arrays = [a.astype(wide_dtype(a.dtype)) if getattr(a, "dtype", None) in HALF else a for a in arrays]
        result = node.op.numpy(*arrays, **node.attrs)
        return result if isinstance(result, tuple) else np.asarray(result)

    def _draw(self, node: Node, k: int) -> Any:
        """A node's value where all that rounds is off by a few units."""
        if node.op.kind == "function":
            return (
                tuple(self._off(v, 64) for v in self.values[node])
                if isinstance(node.dtype, tuple)
                else self._off(self.values[node], 64)
            )
        if self._is_exact(node):
            return self._applied(node, [self.draws[s][k] for s in node.sources], self.values[node])
        operands = [self._moved(s)[k] for s in node.sources]
        result = self._applied(node, operands, self.values[node])
        if isinstance(result, tuple):
            return tuple(self._off(part, dtype=dtype) for part, dtype in zip(result, node.dtype))
        terms = node.op.terms
        return self._off(result, _sums(node), node.dtype, None if terms is None else terms(*operands))

    def _moved(self, node: Node) -> tuple[Any, Any]:
        if node not in self.moved:
            one, two = self.draws[node]
            if node in self.exact and not node.shape:  # a number that was written, such as an exponent
                return one, two
            self.moved[node] = (
                (one, two)
                if isinstance(node.dtype, tuple)
                else tuple(self._off(draw, dtype=node.dtype) for draw in (one, two))
            )  # type: ignore[assignment]
        return self.moved[node]

    def _off(self, array: Any, units: float = 1, dtype: Any = None, size: Any = None) -> Any:
        """An array moved by noise, relative to each element or to `size`. Of few elements none is moved by chance only
        a little.
        """
        dtype = dtype or array.dtype
        if dtype not in INEXACT:
            return array
        real = real_of(dtype)
        scale = units * UNITS[real.itemsize] * ROUNDOFF[real]
        noise = self.noise.uniform(-scale, scale, np.shape(array))
        if np.size(array) < FEW:
            noise = np.copysign((scale + np.abs(noise)) / 2, noise)  # not all the same: in a difference that cancels
        if dtype in COMPLEX:
            noise = noise + 1j * self.noise.uniform(-scale, scale, np.shape(array))
        return array + noise * (array if size is None else np.maximum(np.abs(size), np.abs(array)))

    def _require_decided(self, node: Node, value: Any) -> None:
        """Raise if a few times the noise, to either side, would change integers or truth values."""
        for k, times in ((0, -SAFETY), (0, SAFETY), (1, -SAFETY), (1, SAFETY)):
            operands = [self._stretched(source, k, times) for source in node.sources]
            if not np.array_equal(value, self._applied(node, operands, value)):
                raise Untame

    def _stretched(self, node: Node, k: int, times: int) -> Any:
        shadow, draw = self.shadows[node], self.draws[node][k]
        if node in self.exact or node.dtype not in INEXACT:
            return draw
        return shadow + times * (draw - shadow)

    def _require_tame(self, value: Any, shadow: Any, one: Any, two: Any) -> float:
        """What a value may be off, relative to its largest element or 1; raises where it is too much."""
        if value.dtype not in INEXACT:
            if not all(np.array_equal(value, other) for other in (shadow, one, two)):
                raise Untame
            return 0.0
        real = real_of(value.dtype)
        wide = value.astype(wide_dtype(value.dtype))
        large = float(np.abs(wide).max(initial=0))
        if not np.isfinite(wide).all() or large > (100 if real.itemsize == 2 else 1000):
            raise Untame
        apart = float(np.max([np.abs(other - shadow).max(initial=0) for other in (wide, one, two)]))  # NaN if one is
        if not apart <= LIMITS[real.itemsize] * max(large, 1):
            raise Untame
        return (SAFETY * apart + 8 * ROUNDOFF[real] * large) / max(large, 1)


def _sums(node: Node) -> float:
    """By how many times the units of one operation a sum of many terms may be off, added one after the other."""
    sizes = [source.size for source in node.sources if not isinstance(source.dtype, tuple)]
    return float(max(1.0, np.sqrt(max(sizes, default=1) / node.size) / 4)) if node.size else 1.0


def wide_dtype(dtype: Any) -> Any:
    """The dtype in which values of this one are computed with noise."""
    return np.dtype("complex128") if dtype in COMPLEX else float64
