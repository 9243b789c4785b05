"""Random shapes and random valid keys: reading, writing and the gradient of reading equal NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import wengert as wg

SHAPES = hnp.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=4)


@st.composite
def shapes_and_keys(draw: st.DrawFn) -> tuple[tuple[int, ...], Any]:
    """A shape, and a key that NumPy takes for it: integers, slices, ..., None, integer arrays, masks, mixed."""
    shape = draw(SHAPES)
    places = draw(hnp.broadcastable_shapes((2, 3), min_dims=0, max_dims=2, max_side=3))
    front = draw(st.integers(0, len(shape)))
    key = _items(draw, shape, 0, front, places)
    if draw(st.booleans()):
        back = draw(st.integers(front, len(shape)))
        key = (*key, ..., *_items(draw, shape, back, len(shape), places))
    assume(_fits(shape, key))  # the arrays and the masks' places may not broadcast
    return shape, key[0] if len(key) == 1 and draw(st.booleans()) else key


def _items(draw: st.DrawFn, shape: tuple[int, ...], axis: int, stop: int, places: tuple[int, ...]) -> tuple[Any, ...]:
    """Items for just the axes from `axis` to `stop`."""
    items = []
    while axis < stop:
        items.append(draw(_item(shape[axis:stop], places)))
        axis += _axes_of(items[-1])
    return tuple(items)


def _fits(shape: tuple[int, ...], key: Any) -> bool:
    try:
        np.empty(shape)[key]
    except IndexError:
        return False
    return True


def _axes_of(item: Any) -> int:
    if item is None or isinstance(item, bool):
        return 0
    return item.ndim if isinstance(item, np.ndarray) and item.dtype == bool else 1


def _item(shape: tuple[int, ...], places: tuple[int, ...]) -> st.SearchStrategy[Any]:
    n = shape[0]
    bounds = st.none() | st.integers(-n - 2, n + 2)
    steps = st.none() | st.integers(-3, 3).filter(bool)
    mask = hnp.arrays(bool, st.integers(1, len(shape)).map(lambda k: shape[:k]))
    choices: list[Any] = [st.builds(slice, bounds, bounds, steps), st.none(), st.booleans(), mask]
    if n:
        index = st.integers(-n, n - 1)
        choices += [index, hnp.arrays(np.int64, places, elements=index), hnp.arrays(np.int64, 3, elements=index)]
    return st.one_of(choices)


def filled(shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=shape)


@settings(max_examples=250, deadline=None)
@given(shapes_and_keys())
def test_reading_equals_numpys(shape_and_key: tuple[tuple[int, ...], Any]) -> None:
    shape, key = shape_and_key
    array = filled(shape)
    found = wg.tensor(array)[key].numpy()
    assert found.shape == array[key].shape
    np.testing.assert_array_equal(found, array[key])


@settings(max_examples=250, deadline=None)
@given(shapes_and_keys(), st.data())
def test_writing_equals_numpys(shape_and_key: tuple[tuple[int, ...], Any], data: st.DataObject) -> None:
    shape, key = shape_and_key
    array = filled(shape)
    part = array[key].shape
    keep = data.draw(st.lists(st.booleans(), min_size=len(part), max_size=len(part)))
    narrowed = tuple(n if kept else 1 for n, kept in zip(part, keep))
    value = filled(narrowed[data.draw(st.integers(0, _ones_in_front(narrowed))) :], seed=1)
    tensor = wg.tensor(array)
    tensor[key] = value
    array[key] = value
    np.testing.assert_array_equal(tensor.numpy(), array)


def _ones_in_front(shape: tuple[int, ...]) -> int:
    return next((i for i, n in enumerate(shape) if n != 1), len(shape))


@settings(max_examples=250, deadline=None)
@given(shapes_and_keys())
def test_gradient_of_reading_equals_numpys_scatter(shape_and_key: tuple[tuple[int, ...], Any]) -> None:
    shape, key = shape_and_key
    array = filled(shape)
    weights = filled(array[key].shape, seed=1)
    expected = np.zeros(shape)
    np.add.at(expected, key, weights)
    found = wg.grad(lambda x: wg.sum(x[key] * weights))(wg.tensor(array)).numpy()
    np.testing.assert_allclose(found, expected, atol=1e-12)


@settings(max_examples=150, deadline=None)
@given(shapes_and_keys())
def test_gradient_of_writing_goes_where_the_value_stays(shape_and_key: tuple[tuple[int, ...], Any]) -> None:
    """The sum of all that is written and all that is left alone is what is there; each has the weight of its place."""
    shape, key = shape_and_key
    array, weights = filled(shape), filled(shape, seed=1)
    value = filled(array[key].shape, seed=2)
    writer = np.full(shape, -1)
    writer[key] = np.arange(value.size).reshape(value.shape)
    by_value = np.zeros(value.size)
    by_value[writer[writer >= 0]] = weights[writer >= 0]

    def function(x: wg.Tensor, v: wg.Tensor) -> wg.Tensor:
        y = x + 0.0
        y[key] = v
        return wg.sum(y * weights)

    slopes = wg.grad(function, (0, 1))(wg.tensor(array), wg.tensor(value))
    np.testing.assert_allclose(slopes[0].numpy(), np.where(writer < 0, weights, 0))
    np.testing.assert_allclose(slopes[1].numpy().reshape(-1), by_value)
