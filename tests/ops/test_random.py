"""The random bits: the published vectors, the indexing into blocks, lanes; and the numbers made of extreme bits."""

from __future__ import annotations

import numpy as np
import pytest

from wengert.autodiff.batching import batch
from wengert.core.dtypes import float64
from wengert.core.graph import Node
from wengert.ops import random as ops
from wengert.ops.core import data, placeholder
from wengert.runtime.dynamic.realize import value

ONES = 0xFFFFFFFF

# Random123's tests/kat_vectors, the lines "philox4x32 10": counter, key, result.
KNOWN_ANSWERS = [
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((ONES, ONES, ONES, ONES), (ONES, ONES), (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
]


def key(*words: int) -> Node:
    return data(np.array(words, np.uint32))


def counter(count: int) -> Node:
    return data(np.array(count, np.uint64))


@pytest.mark.parametrize(("block", "words", "expected"), KNOWN_ANSWERS)
def test_philox_gives_the_published_vectors(block, words, expected):
    position, stream = block[0] | block[1] << 32, block[2] | block[3] << 32
    bits = ops.random_bits(key(*words), counter(position), (4,), stream)
    assert value(bits).tolist() == list(expected)


def philox_in_plain_python(position: int, words: tuple[int, int]) -> list[int]:
    """One block, word by word as the paper has it."""
    c, (k0, k1) = [position & ONES, position >> 32, 0, 0], words
    for _ in range(10):
        high0, low0 = divmod(0xD2511F53 * c[0], 1 << 32)
        high1, low1 = divmod(0xCD9E8D57 * c[2], 1 << 32)
        c = [high1 ^ c[1] ^ k0, low1, high0 ^ c[3] ^ k1, low0]
        k0, k1 = (k0 + 0x9E3779B9) & ONES, (k1 + 0xBB67AE85) & ONES
    return c


def test_element_i_is_word_i_mod_4_of_block_counter_plus_i_div_4():
    start = (1 << 32) - 2  # so that the count carries into its upper word
    expected = [word for block in range(4) for word in philox_in_plain_python(start + block, (5, 9))]
    assert value(ops.random_bits(key(5, 9), counter(start), (13,))).tolist() == expected[:13]


def test_the_shape_only_arranges_the_bits():
    flat = value(ops.random_bits(key(1, 2), counter(3), (30,)))
    assert (value(ops.random_bits(key(1, 2), counter(3), (2, 3, 5))).reshape(-1) == flat).all()


def test_the_counter_wraps_around():
    bits = value(ops.random_bits(key(1, 2), counter((1 << 64) - 1), (8,)))
    assert bits[4:].tolist() == value(ops.random_bits(key(1, 2), counter(0), (4,))).tolist()


def test_a_draw_larger_than_a_chunk_is_one_stream():
    words = ops.WORDS * (ops._CHUNK + 3)
    whole = value(ops.random_bits(key(1, 2), counter(0), (words,)))
    tail = value(ops.random_bits(key(1, 2), counter(ops._CHUNK), (12,)))
    assert (whole[-12:] == tail).all()


def test_wide_bits_are_two_words_each():
    words = value(ops.random_bits(key(1, 2), counter(3), (6,))).astype(np.uint64)
    wide = value(ops.random_bits(key(1, 2), counter(3), (3,), width=64))
    assert wide.tolist() == (words[::2] | words[1::2] << np.uint64(32)).tolist()


@pytest.mark.parametrize("shape", [(), (5,), (2, 3), (0,)])
@pytest.mark.parametrize("batched", [(True, False), (False, True), (True, True)])
def test_lanes_draw_each_from_their_own_key_and_counter(shape, batched):
    keys, counters = np.arange(6, dtype=np.uint32).reshape(3, 2), np.array([7, 1, 4], np.uint64)
    one_key, one_counter = placeholder((2,), np.dtype(np.uint32)), placeholder((), np.dtype(np.uint64))
    y = ops.random_bits(one_key if batched[0] else key(0, 1), one_counter if batched[1] else counter(7), shape)
    over = {n: data(a) for n, a, b in zip((one_key, one_counter), (keys, counters), batched) if b}
    (lanes,) = batch([y], over)
    expected = [
        value(ops.random_bits(data(keys[i if batched[0] else 0]), data(counters[i if batched[1] else 0]), shape))
        for i in range(3)
    ]
    assert lanes.shape == (3, *shape)
    assert (value(lanes) == np.stack(expected)).all()


def test_lanes_of_lanes():
    """A key batched within one batched already: the inner lanes are the last of the leading axes."""
    inner = data(np.arange(4, dtype=np.uint32).reshape(2, 2))
    one_counter = placeholder((), np.dtype(np.uint64))
    (lanes,) = batch([ops.random_bits(inner, one_counter, (5,))], {one_counter: data(np.array([3, 8, 9], np.uint64))})
    assert lanes.shape == (3, 2, 5)
    assert (value(lanes)[1, 1] == value(ops.random_bits(key(2, 3), counter(8), (5,)))).all()


def test_folding_gives_other_keys():
    keys = {tuple(value(ops.fold_in(key(1, 2), data(np.array(i)))).tolist()) for i in range(100)}
    assert len(keys) == 100


EXTREMES = data(np.array([0, ONES], np.uint32))
WIDE_EXTREMES = data(np.array([0, (1 << 64) - 1], np.uint64))


@pytest.mark.parametrize(("bits", "digits"), [(EXTREMES, 24), (WIDE_EXTREMES, 53)])
def test_numbers_from_zero_never_reach_one(bits, digits):
    assert value(ops.from_zero(bits)).tolist() == [0, 1 - 2.0**-digits]


@pytest.mark.parametrize(("bits", "digits"), [(EXTREMES, 33), (WIDE_EXTREMES, 65)])
def test_numbers_above_zero_never_are_zero(bits, digits):
    assert value(ops.above_zero(bits)).tolist() == [2.0**-digits, 1]


@pytest.mark.parametrize("bits", [EXTREMES, WIDE_EXTREMES])
def test_the_extreme_bits_give_finite_numbers(bits):
    for draw in (ops.standard_exponential(bits), ops.standard_gumbel(bits)):
        assert np.isfinite(value(draw)).all()
    assert (value(ops.standard_exponential(bits)) > 0).all()
    pairs = np.stack(np.meshgrid(bits.buffer, bits.buffer), -1).reshape(-1, 2)
    assert np.isfinite(value(ops.standard_normal(data(pairs), (8,)))).all()


def test_the_extreme_bits_stay_within_the_bounds_of_a_truncated_normal():
    for low, high in ((-2.0, 2.0), (-np.inf, np.inf), (5.0, 6.0), (-np.inf, 1.0)):
        z = value(ops.standard_truncated_normal(WIDE_EXTREMES, low, high))
        assert np.isfinite(z).all() and z.dtype == float64
        assert low <= z[0] < z[1] <= high


def test_probabilities_are_exact_to_the_last_bit():
    """Of all 2**32 bits, the first k are true for p = k / 2**32, also where k is small."""
    bits = data(np.array([0, 1, 2, 3, 4], np.uint32))
    for k in range(5):
        assert value(ops.bernoulli(bits, k * 2.0**-32)).tolist() == [True] * k + [False] * (5 - k)
