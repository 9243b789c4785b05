"""Random bits and numbers: one primitive from a key and a counter to bits, and compositions from bits to numbers.

`random_bits` is Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011). Element i of a draw
is word i % 4 of the block numbered counter + i // 4: a function of the logical index alone, so it can be computed
again, in any order, on any device, and is the same. A block's number has 128 bits: the counter is the lower half, the
`stream` the upper one, which keeps draws apart from the making of keys.

The compositions take bits as uint32 (computed in float32) or uint64 (in float64), and round to the requested dtype
once, at the end. Parameters may be tracked: the result is a differentiable function of them, the bits are not.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wengert.core.dtypes import float32, float64, int64, uint32, uint64
from wengert.core.errors import DTypeError, ShapeError
from wengert.core.graph import Node, Shape
from wengert.ops import elementwise as e
from wengert.ops.addressing import GATHER
from wengert.ops.core import cast, literal, operand
from wengert.ops.factors import Factors, aligned
from wengert.ops.facts import FUNCTION
from wengert.ops.movement import reshape, slice_axis, stack
from wengert.ops.op import Op
from wengert.ops.recorders import broadcast, with_rank
from wengert.ops.reduce import argmax
from wengert.ops.sorting import argsort
from wengert.ops.special import erfinv

WORDS = 4
"""How many 32-bit words a block has: what a counter counts is blocks."""

DRAW, FOLD, SPAWN = 0, 1, 2
"""The streams: numbers, keys that fold an index into another key, keys of spawned generators."""

# --- the primitive --------------------------------------------------------------------------------------------------

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_FACTORS = np.array([0xD2511F53, 0xCD9E8D57], np.uint64)
_STEPS = np.array([0x9E3779B9, 0xBB67AE85], np.uint64)  # by which the key moves on: the golden ratio, sqrt(3) - 1
_ROUNDS = 10
_CHUNK = 1 << 15  # blocks: their words stay in the cache through the rounds
_LARGE = 1 << 20  # words: weights of a model, drawn before its first step

drawer: Callable[[np.ndarray[Any, Any], Any, Any, int], bool] | None = None
"""Fills an array with the words of a large draw, as the reference would; false if it cannot. Set by the runtime."""


def philox(position: np.ndarray[Any, Any], stream: int, key: np.ndarray[Any, Any], space: np.ndarray[Any, Any]) -> Any:
    """The four words of the blocks at these positions. The first axis of the key has its two words.

    `space` has room for the words and two products. Allocating memory in every round would take longer than the rounds.
    """
    count = position.shape[-1]
    even, odd, product = space[:2, ..., :count], space[2:4, ..., :count], space[4:, ..., :count]
    even[0], odd[0] = position & _LOW, position >> _HALF
    even[1], odd[1] = stream & 0xFFFFFFFF, stream >> 32
    key = key.astype(uint64)
    column = (2, *[1] * (space.ndim - 1))
    for _ in range(_ROUNDS):
        np.multiply(even, _FACTORS.reshape(column), out=product)
        np.right_shift(product[::-1], _HALF, out=even)
        np.bitwise_xor(even, odd, out=even)
        np.bitwise_xor(even, key, out=even)
        np.bitwise_and(product[::-1], _LOW, out=odd)
        key = (key + _STEPS.reshape(column)) & _LOW
    return even[0], odd[0], even[1], odd[1]


def blocks_for(shape: Shape) -> int:
    """The number of blocks that a draw of this shape uses."""
    return -(-math.prod(shape) // WORDS)


def _bits_infer(key: Node, counter: Node, shape: Shape, stream: int) -> tuple[Any, Any]:
    if key.dtype is not uint32 or key.shape[-1:] != (2,):
        raise DTypeError(f"random_bits: a key must be two uint32 words, not {key.dtype}{list(key.shape)}")
    if counter.dtype is not uint64:
        raise DTypeError(f"random_bits: a counter must be uint64, not {counter.dtype}")
    if any(n < 0 for n in shape):
        raise ShapeError(f"random_bits: the shape {shape} has a negative size")
    return (*broadcast(key.shape[:-1], counter.shape, "random_bits"), *shape), uint32


def _bits_numpy(key: Any, counter: Any, shape: Shape, stream: int) -> Any:
    count = blocks_for(shape)
    lanes = np.broadcast_shapes(key.shape[:-1], np.shape(counter))
    words = np.empty((*lanes, count, WORDS), uint32)
    if lanes or words.size < _LARGE or drawer is None or not drawer(words, key, counter, stream):
        _fill(words, key, counter, stream)
    flat = words.reshape((*lanes, count * WORDS))
    return flat[..., : math.prod(shape)].reshape((*lanes, *shape))


def _fill(words: np.ndarray[Any, Any], key: Any, counter: Any, stream: int) -> None:
    """Put the words of a draw into an array (..., blocks, 4)."""
    lanes, count = words.shape[:-2], words.shape[-2]
    first = np.broadcast_to(counter, lanes)[..., None]
    keys = np.moveaxis(np.broadcast_to(key, (*lanes, 2)), -1, 0)[..., None]
    space = np.empty((6, *lanes, min(count, _CHUNK)), uint64)
    for start in range(0, count, _CHUNK):
        positions = first + np.arange(start, min(start + _CHUNK, count), dtype=uint64)
        for i, word in enumerate(philox(positions, stream, keys, space)):
            words[..., start : start + _CHUNK, i] = word


def _bits_batch(y: Node, sources: Sequence[Node], batched: Sequence[bool]) -> Node:
    rank = len(y.shape) - len(y.attrs["shape"])  # the lanes that are there already
    key, counter = sources
    key = with_rank(key, rank + 1) if batched[0] else key
    counter = with_rank(counter, rank) if batched[1] else counter
    return RANDOM_BITS(key, counter, **y.attrs)


def _bits_factors(node: Node) -> Factors:
    """The lanes. Of the other axes each element is drawn by its number in the whole: see `random_block`."""
    lanes = node.shape[: node.ndim - len(node.attrs["shape"])]
    labels = tuple(range(len(lanes)))
    key, counter = (aligned(shape, lanes, labels) for shape in (node.sources[0].shape[:-1], node.sources[1].shape))
    return Factors(((*key, None), counter), ((*labels, *(None,) * len(node.attrs["shape"])),))


RANDOM_BITS = Op(
    "random_bits",
    infer=_bits_infer,
    numpy=_bits_numpy,
    differentiable=False,
    batch=_bits_batch,
    factors=_bits_factors,
    cost=FUNCTION,
)


def random_bits(key: Node, counter: Node, shape: Shape, stream: int = DRAW, width: int = 32) -> Node:
    """Random bits of this shape: uint32, or uint64 made of two words each. Leading axes of the key are lanes."""
    if width == 32:
        return RANDOM_BITS(key, counter, shape=shape, stream=stream)
    words = RANDOM_BITS(key, counter, shape=(*shape, 2), stream=stream)
    low, high = (cast(_at(words, i), uint64) for i in (0, 1))
    return e.bitwise_or(low, e.bitwise_left_shift(high, 32))


def random_block(node: Node, axis: int, n: int, index: int | Node) -> Node:
    """One of the n equal blocks of a draw along an axis, bit for bit; `index` may be known only at run time.

    If the axis is the first one and a block consists of whole Philox blocks, nothing else is drawn: the counter
    advances to the start of the block. Otherwise everything is drawn and then sliced.
    """
    shape, before = node.attrs["shape"], node.ndim - len(node.attrs["shape"])
    words = math.prod(shape) // n
    if axis >= before and math.prod(shape[: axis - before]) == 1 and words % WORDS == 0:
        local = tuple(size // n if i == axis - before else size for i, size in enumerate(shape))
        key, counter = node.sources
        return RANDOM_BITS(key, counter + _offset(index, words // WORDS), shape=local, stream=node.attrs["stream"])
    size = node.shape[axis] // n
    if isinstance(index, int):
        return slice_axis(node, axis, index * size, (index + 1) * size)
    blocks = reshape(node, (*node.shape[:axis], n, size, *node.shape[axis + 1 :]))
    return GATHER(blocks, index, axis=axis)


def _offset(index: int | Node, blocks: int) -> Node:
    if isinstance(index, int):
        return literal(index * blocks, uint64)
    return cast(index, uint64) * literal(blocks, uint64)


def fold_in(key: Node, index: Node) -> Node:
    """Derive a key from a key and an index (such as a lane's), as independent as two seeds."""
    return RANDOM_BITS(key, cast(index, uint64), shape=(2,), stream=FOLD)


def _at(x: Node, i: int) -> Node:
    """`x[..., i]`."""
    return reshape(slice_axis(x, x.ndim - 1, i, i + 1), x.shape[:-1])


# --- from bits to numbers between 0 and 1 ---------------------------------------------------------------------------


def from_zero(bits: Node) -> Node:
    """Numbers in [0, 1), evenly spaced: as many leading bits as the float has."""
    dropped, digits, dtype = (8, 24, float32) if bits.dtype is uint32 else (11, 53, float64)
    return cast(e.bitwise_right_shift(bits, dropped), dtype) * 2.0**-digits


def above_zero(bits: Node) -> Node:
    """Numbers in (0, 1]: never 0, and with full precision where they are small, so that their logarithm has its
    tail."""
    width, dtype = (32, float32) if bits.dtype is uint32 else (64, float64)
    return (cast(bits, dtype) + 0.5) * 2.0**-width


# --- distributions --------------------------------------------------------------------------------------------------


def located(z: Node, location: Any, scale: Any, dtype: np.dtype[Any]) -> Node:
    """`location + scale * z`, computed in z's dtype and rounded once."""
    return cast(_parameter(location, z) + _parameter(scale, z) * z, dtype)


def _parameter(value: Any, beside: Node) -> Node:
    return cast(operand(value, beside.dtype) if type(value) is not Node else value, beside.dtype)


def uniform(bits: Node, low: Any, high: Any, dtype: np.dtype[Any]) -> Node:
    """Numbers in [low, high); the last line keeps rounding from reaching `high`. `low` if both are equal."""
    unit = from_zero(bits)
    low, high = _parameter(low, unit), _parameter(high, unit)
    value = cast(low + (high - low) * unit, dtype)
    low, high = cast(low, dtype), cast(high, dtype)
    return e.where(e.less(value, high), value, e.nextafter(high, low))


def standard_normal(bits: Node, shape: Shape) -> Node:
    """Normal numbers of this shape from bits of shape (pairs, 2), by Box and Muller's polar pairs.

    Chosen over inverting the cumulative distribution function: logarithm, root, sine and cosine are instructions or
    library calls everywhere, where an inverse error function is a polynomial of our own; and the tails reach 6.7 in
    float32 and 9.4 in float64, where the inverse of a 24-bit number stops at 5.4.
    """
    radius = e.sqrt(e.log(above_zero(_at(bits, 0))) * -2.0)
    angle = from_zero(_at(bits, 1)) * (2 * math.pi)
    pairs = stack([radius * e.cos(angle), radius * e.sin(angle)], axis=-1)
    flat = reshape(pairs, (pairs.size,))
    return reshape(slice_axis(flat, 0, 0, math.prod(shape)), shape)


def standard_truncated_normal(bits: Node, low: float, high: float) -> Node:
    """Normal numbers between `low` and `high`: the inverse distribution function, at numbers between the bounds'
    probabilities.

    In float64, because far out the distribution function is too close to 1 for float32.
    """
    inner = (cast(e.bitwise_right_shift(bits, 12), float64) + 0.5) * 2.0**-52  # in (0, 1), both ends open
    bottom, top = math.erf(low / math.sqrt(2)), math.erf(high / math.sqrt(2))
    z = erfinv(inner * (top - bottom) + bottom) * math.sqrt(2)
    return e.clip(z, low, high)


def standard_exponential(bits: Node) -> Node:
    """Exponential numbers, never 0: -log(1 - v), with full precision at both ends, because 1 - v is made from the bits
    too."""
    v, rest = above_zero(bits), above_zero(e.bitwise_invert(bits))
    return e.where(e.less(v, 0.5), -e.log1p(-v), -e.log(rest))


def standard_gumbel(bits: Node) -> Node:
    """Gumbel numbers: minus the logarithm of exponential numbers."""
    return -e.log(standard_exponential(bits))


def bernoulli(bits: Node, p: Any) -> Node:
    """True with probability `p`: never for 0, always for 1."""
    unit = above_zero(bits)
    return e.less_equal(unit, _parameter(p, unit))


def randint(bits: Node, low: int, high: int, dtype: np.dtype[Any]) -> Node:
    """Integers in [low, high), from 64 bits each: uniform up to one part in 2**64 / (high - low)."""
    span = high - low
    offset = bits if span == 1 << 64 else e.remainder(bits, literal(span, uint64))
    # both wrap around at 2**64, so that negative numbers come out right
    return cast(cast(offset + literal(low % (1 << 64), uint64), int64), dtype)


def permutation(bits: Node) -> Node:
    """The permutation that sorts these bits. With 64 bits, ties (which stay in order) are practically impossible."""
    return argsort(bits)


def categorical(bits: Node, logits: Node, axis: int) -> Node:
    """Indices along `axis` drawn with probabilities softmax(logits): the argmax of logits plus Gumbel numbers."""
    noise = standard_gumbel(bits)
    return argmax(cast(logits, noise.dtype) + noise, axis=axis)
