"""Index expressions give the positions that the movement ops mean."""

from __future__ import annotations

import numpy as np
import pytest

from wengert.kernels.ir.index import Loop, add, number, quotient, remainder, scale, unflat, variable


def test_a_quotient_and_a_remainder_of_the_same_are_two_atoms():
    i = variable(Loop("i", 6))
    index = add(scale(quotient(i, 3), 4), remainder(i, 3))
    assert [eval(str(index).replace("/", "//"), {"i": i}) for i in range(6)] == [0, 1, 2, 4, 5, 6]


@pytest.mark.parametrize("shape, part", [((2, 4), (slice(None), slice(1, None))), ((3, 5, 4), np.s_[::2, 1:4, 1:3])])
def test_a_slice_taken_apart_from_its_flat_position_is_where_it_was(shape, part):
    array = np.arange(np.prod(shape)).reshape(shape)
    taken = array[part]
    steps = [array.strides[axis] // array.itemsize * (s.step or 1) for axis, s in enumerate(part)]
    position = number(int(taken.flat[0]))
    for index, step in zip(unflat(variable(Loop("i", taken.size)), taken.shape), steps):
        position = add(position, scale(index, step))
    found = [eval(str(position).replace("/", "//"), {"i": i}) for i in range(taken.size)]
    assert found == taken.reshape(-1).tolist()


@pytest.mark.parametrize("factor, extent, by", [(8, 16, 32), (6, 12, 12), (4, 9, 6), (10, 7, 25)])
def test_parts_smaller_than_the_grain_are_left_out_of_divisions(factor, extent, by):
    q, j = Loop("q", extent), Loop("j", factor)
    whole = add(scale(variable(q), factor), variable(j))
    for made, exact in ((quotient(whole, by), lambda n: n // by), (remainder(whole, by), lambda n: n % by)):
        text = str(made).replace("/", "//")
        for n in range(factor * extent):
            assert eval(text, {"q": n // factor, "j": n % factor}) == exact(n), text
    if by % factor == 0:
        assert quotient(whole, by).factor(j) == 0 and remainder(whole, by).factor(j) == 1


def test_the_first_step_of_an_index():
    i, k = Loop("i", 100), Loop("k", 4)
    index = add(scale(quotient(variable(i), 10), 40), add(remainder(variable(i), 10), scale(variable(k), 3)))
    assert index.factor(i) is None and index.step(i) == 1 and index.step(k) == 3
