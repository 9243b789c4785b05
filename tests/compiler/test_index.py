"""Index expressions give the positions that the movement ops mean."""

from __future__ import annotations

import numpy as np
import pytest

from wengert.compiler.index import Loop, add, number, quotient, remainder, scale, unflat, variable


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
