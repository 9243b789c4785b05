"""`x[key]` and `x[key] = value` for many keys: values, derivatives in both modes and to second order, lanes, errors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.core.errors import AbstractValueError, AssignmentError, DTypeError, OutOfRangeError, ShapeError
from wengert.core.graph import ancestors

SHAPE = (4, 3, 5)
MASK = np.random.default_rng(0).uniform(size=SHAPE) > 0.5
ROWS = np.array([True, False, True, True])
I = np.array([2, 0, 3])
J = np.array([[1], [-1]])

KEYS: dict[str, Any] = {
    "int": 1,
    "negative int": -1,
    "numpy int": np.int32(2),
    "0-d array": np.array(2),
    "slice": slice(1, 3),
    "whole": slice(None),
    "empty slice": slice(3, 1),
    "step": slice(None, None, 2),
    "backwards": slice(None, None, -1),
    "backwards by two": slice(3, 0, -2),
    "far beyond": slice(-100, 100),
    "ints": (1, 2, 3),
    "int and slice": (1, slice(0, 2)),
    "ellipsis": ...,
    "ellipsis, int": (..., 1),
    "int, ellipsis, slice": (0, ..., slice(None, None, -2)),
    "none": None,
    "nones": (None, 1, None, ..., None),
    "empty tuple": (),
    "list": [3, 1],
    "empty list": [],
    "array": I,
    "array twice the same": np.array([1, 1, 2]),
    "2-d array": J,
    "unsigned array": I.astype(np.uint8),
    "two arrays": (I, np.array([0, 0, 2])),
    "arrays broadcast": (J, I[:2] % 3),
    "arrays behind": (slice(None), np.array([0, 2]), np.array([1, 1])),
    "arrays apart": (I, slice(None), I),
    "array, none, array": (slice(None), np.array([0, 1]), None, np.array([0, 1])),
    "int and array apart": (0, slice(None), np.array([4, 0])),
    "int beside array": (slice(None), 0, np.array([4, 0])),
    "array, no ellipsis axes, array": (slice(None), np.array([0, 1]), ..., np.array([0, 1])),
    "array behind ellipsis": (..., [0, 0]),
    "array and backwards slice": (slice(None, None, -1), [2, 0], slice(1, None, 2)),
    "mask": MASK,
    "mask of rows": ROWS,
    "mask of two axes": MASK[:, :, 0],
    "mask behind": (slice(None), np.array([True, False, True])),
    "mask and array": (ROWS, np.array([0, 1, 2])),
    "mask apart from int": (ROWS, slice(None), 1),
    "list of booleans": [True, False, False, True],
    "empty mask": np.zeros(4, bool),
    "true": True,
    "false": False,
    "true and array": (True, I),
    "slice, true": (slice(None), True),
    "true, none, int": (True, None, 1),
}
keys = pytest.mark.parametrize("key", KEYS.values(), ids=KEYS.keys())


def array() -> np.ndarray:
    return np.random.default_rng(1).normal(size=SHAPE)


@keys
def test_reading_equals_numpys(key: Any) -> None:
    a = array()
    found = wg.tensor(a)[key].numpy()
    assert found.shape == a[key].shape
    np.testing.assert_array_equal(found, a[key])


@keys
@pytest.mark.parametrize("value", ["number", "part", "row"])
def test_writing_equals_numpys(key: Any, value: str) -> None:
    a = array()
    part = np.random.default_rng(2).normal(size=a[key].shape)
    written: Any = {"number": 7.0, "part": part, "row": part[:1] if part.ndim else part}[value]
    if value == "row" and part.ndim and part.shape[0] == 0:
        written = np.zeros((1, *part.shape[1:]))
    x = wg.tensor(a)
    x[key] = written
    a[key] = written
    np.testing.assert_array_equal(x.numpy(), a)


@keys
def test_derivative_of_reading(key: Any) -> None:
    wg.check_grads(lambda x: wg.sin(x[key]), [wg.tensor(array())], order=2)


@keys
def test_derivative_of_reading_is_numpys_scatter(key: Any) -> None:
    a = array()
    weights = np.random.default_rng(3).normal(size=a[key].shape)
    expected = np.zeros_like(a)
    np.add.at(expected, key, weights)
    found = wg.grad(lambda x: wg.sum(x[key] * weights))(wg.tensor(a)).numpy()
    np.testing.assert_allclose(found, expected, atol=1e-12)


def replaced(key: Any) -> Any:
    def function(x: wg.Tensor, value: wg.Tensor) -> wg.Tensor:
        y = x * 1.0
        y[key] = value
        return wg.sin(y)

    return function


@keys
def test_derivative_of_writing(key: Any) -> None:
    a = array()
    part = np.random.default_rng(4).normal(size=a[key].shape)
    wg.check_grads(replaced(key), [wg.tensor(a), wg.tensor(part)], order=2)


@keys
def test_lanes(key: Any) -> None:
    lanes = np.random.default_rng(5).normal(size=(3, *SHAPE))
    parts = np.random.default_rng(6).normal(size=(3, *lanes[0][key].shape))
    read = wg.vmap(lambda x: x[key])(wg.tensor(lanes)).numpy()
    np.testing.assert_array_equal(read, np.stack([lane[key] for lane in lanes]))
    written = wg.vmap(replaced(key))(wg.tensor(lanes), wg.tensor(parts)).numpy()
    for lane, part, found in zip(lanes, parts, written):
        expected = lane.copy()
        expected[key] = part
        np.testing.assert_allclose(found, np.sin(expected))


@pytest.mark.parametrize("lanes_of_x", [True, False])
@pytest.mark.parametrize("key", [lambda i: i, lambda i: (slice(None), i), lambda i: (i, slice(None), i)])
def test_lanes_of_indices(key: Any, lanes_of_x: bool) -> None:
    a = np.random.default_rng(7).normal(size=(3, 4, 4, 4))
    indices = np.array([[0, 3], [1, 1], [2, 0]])
    values = np.random.default_rng(8).normal(size=(3, *a[0][key(indices[0])].shape))
    over = 0 if lanes_of_x else None
    x = wg.tensor(a if lanes_of_x else a[0])

    def both(x: wg.Tensor, i: wg.Tensor, v: wg.Tensor) -> tuple[wg.Tensor, wg.Tensor]:
        y = x + 0.0
        y[key(i)] = v
        return x[key(i)], y

    read, written = wg.vmap(both, in_axes=(over, 0, 0))(x, wg.tensor(indices), wg.tensor(values))
    for lane in range(3):
        expected = (a[lane] if lanes_of_x else a[0]).copy()
        np.testing.assert_array_equal(read.numpy()[lane], expected[key(indices[lane])])
        expected[key(indices[lane])] = values[lane]
        np.testing.assert_array_equal(written.numpy()[lane], expected)


def test_derivative_over_lanes_of_indices() -> None:
    table = np.random.default_rng(9).normal(size=(5, 2))
    indices = wg.tensor(np.array([[0, 3, 3], [1, 1, 4]]))
    slope = wg.vmap(wg.grad(lambda t, i: wg.sum(t[i] ** 2)), in_axes=(None, 0))(wg.tensor(table), indices).numpy()
    for lane, row in enumerate(indices.numpy()):
        expected = np.zeros_like(table)
        np.add.at(expected, row, 2 * table[row])
        np.testing.assert_allclose(slope[lane], expected)


# --- tensors in the key ---------------------------------------------------------------------------------------------


def test_tensors_in_a_key() -> None:
    a = array()
    x = wg.tensor(a)
    i, two, mask = wg.tensor(I), wg.tensor(2), wg.tensor(ROWS)
    np.testing.assert_array_equal(x[i].numpy(), a[I])
    np.testing.assert_array_equal(x[i + 0, :, two * 1].numpy(), a[I, :, 2])
    np.testing.assert_array_equal(x[two].numpy(), a[2])
    np.testing.assert_array_equal(x[..., two].numpy(), a[..., 2])
    np.testing.assert_array_equal(x[[two, wg.tensor(0)]].numpy(), a[[2, 0]])
    np.testing.assert_array_equal(x[mask].numpy(), a[ROWS])
    np.testing.assert_array_equal(x[x > 0].numpy(), a[a > 0])
    np.testing.assert_array_equal(x[wg.tensor(1) :].numpy(), a[1:])


def test_a_tensor_as_index_stays_in_the_graph() -> None:
    x, i = wg.tensor(array()), wg.tensor(1)
    assert i.node in ancestors([x[i].node])


def test_masked_writing_does_not_look_at_the_mask() -> None:
    def clipped(x: wg.Tensor) -> wg.Tensor:
        y = x + 0.0
        y[y > 0] = 0.0
        return y

    a = array()
    np.testing.assert_array_equal(wg.vmap(clipped)(wg.tensor(a)).numpy(), np.minimum(a, 0))


def test_masked_writing_of_rows() -> None:
    a, row = array(), np.arange(15.0).reshape(3, 5)
    x = wg.tensor(a)
    x[wg.tensor(ROWS)] = wg.tensor(row)
    a[ROWS] = row
    np.testing.assert_array_equal(x.numpy(), a)


def test_reading_by_an_abstract_mask_names_what_keeps_the_size() -> None:
    with pytest.raises(AbstractValueError, match=r"wg\.where\(mask, x, 0\)"):
        wg.vmap(lambda x: x[x > 0])(wg.tensor(array()))


def test_only_the_value_that_stays_has_a_derivative() -> None:
    def function(values: wg.Tensor) -> wg.Tensor:
        y = wg.tensor(np.zeros(3))
        y[np.array([1, 1, 0])] = values
        return wg.sum(y * wg.tensor(np.array([1.0, 10.0, 100.0])))

    assert wg.grad(function)(wg.tensor(np.ones(3))).tolist() == [0.0, 10.0, 1.0]


# --- the slot -------------------------------------------------------------------------------------------------------


def test_values_are_cast_and_broadcast() -> None:
    x = wg.tensor(np.zeros((2, 3), np.int32))
    x[0] = 1.7
    x[1] = [1, 2, 3]
    x[:, 1] = wg.tensor([[8, 9]])
    assert x.tolist() == [[1, 8, 1], [1, 9, 3]] and x.dtype is wg.int32


def test_values_of_tensors_in_lists() -> None:
    x, one = wg.tensor([0.0, 0.0]), wg.tensor(1.0)
    x[:] = [one, one * 2]
    assert x.tolist() == [1.0, 2.0]


def test_the_old_value_stays_what_it_was() -> None:
    x = wg.tensor([1.0, 2.0])
    y = x * 1
    x[0] = 5.0
    assert y.tolist() == [1.0, 2.0] and x.tolist() == [5.0, 2.0]


def test_adding_in_place_to_a_part() -> None:
    x = wg.tensor([[1.0, 2.0], [3.0, 4.0]])
    x[0] += 1
    x[:, 1] *= 10
    x[[0, 1], [0, 0]] -= wg.tensor([1.0, 2.0])
    assert x.tolist() == [[1.0, 30.0], [1.0, 40.0]]


def test_assigning_to_the_result_of_an_indexing() -> None:
    x = wg.tensor([[1.0, 2.0], [3.0, 4.0]])
    with pytest.raises(AssignmentError, match=r"x\[0, 1\] = 5 instead of x\[0\]\[1\] = 5"):
        x[0][1] = 5


# --- errors ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "key, error, message",
    [
        (4, OutOfRangeError, "index 4 is out of range for axis 0 of size 4; valid are -4 to 3"),
        (-5, OutOfRangeError, "index -5 is out of range"),
        ((0, 3), OutOfRangeError, "index 3 is out of range for axis 1 of size 3"),
        ([0, 9], OutOfRangeError, "index 9 is out of range for an axis of size 4"),
        (np.array([-6]), OutOfRangeError, "index -6"),
        (wg.tensor(7), OutOfRangeError, "index 7"),
        ((0, 0, 0, 0), OutOfRangeError, "too many indices: the key has 4, shape .4, 3, 5. has 3 axes"),
        ((..., 0, ...), OutOfRangeError, "only one Ellipsis"),
        (slice(None, None, 0), OutOfRangeError, "the step of a slice cannot be 0"),
        (
            np.array([True, False]),
            OutOfRangeError,
            "a mask of shape .2,. does not match the indexed axes of shape .4,.",
        ),
        (([0, 1], [0, 1, 2]), ShapeError, "do not broadcast"),
        (1.0, DTypeError, "1.0 is no index"),
        ([0.5], DTypeError, "an array of float64 is not an index"),
        (wg.tensor([1.0]), DTypeError, "a tensor of float32 is not an index"),
        ("a", DTypeError, "'a' is no index"),
        (slice(0.5, 2), DTypeError, "a slice must be made of integers"),
    ],
    ids=str,
)
def test_keys_that_make_no_sense(key: Any, error: type[Exception], message: str) -> None:
    x = wg.tensor(array())
    with pytest.raises(error, match=message) as caught:
        x[key]
    assert "test_indexing.py" in str(caught.value), "the user's line is named"
    with pytest.raises(error, match=message):
        x[key] = 0.0


def test_a_number_has_no_items() -> None:
    for key in (0, slice(None), (0,)):
        with pytest.raises(OutOfRangeError, match="has no axes"):
            wg.tensor(1.0)[key]
    assert wg.tensor(1.0)[()].item() == wg.tensor(1.0)[...].item() == 1.0


def test_an_index_out_of_range_that_is_computed_names_its_line() -> None:
    x, i = wg.tensor(array()), wg.tensor([5])
    part = x[i + 1]
    with pytest.raises(wg.errors.ComputationError, match="out of bounds") as caught:
        part.numpy()
    assert "part = x[i + 1]" in str(caught.value)


def test_values_that_do_not_fit() -> None:
    x = wg.tensor(array())
    with pytest.raises(ShapeError, match=r"shape \(4,\) does not broadcast to \(3, 5\)"):
        x[0] = np.zeros(4)
    with pytest.raises(ShapeError, match=r"shape \(2, 5\) does not broadcast to \(3, 3, 5\)"):
        x[[0, 1, 2]] = np.zeros((2, 5))


def test_usual_keys_are_cheap() -> None:
    """An integer is a slice and a reshape, a slice is one node, and the whole an alias."""
    x = wg.tensor(array())
    count = lambda part: len(ancestors([part.node], since=x.node.serial + 1))
    assert [count(x[1]), count(x[1:]), count(x[:]), count(x[...]), count(x[0, 1:])] == [2, 1, 1, 1, 2]
