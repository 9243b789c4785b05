"""NumPy arrays as others leave them: of another byte order, unaligned, read-only, backwards, of no axes, of a subclass.

Wherever one enters (an argument of a compiled function, a closure, an operand, an index, a tensor, a file), its numbers
count and not its bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.core.dtypes import ALL
from wengert.core.errors import ArgumentError, DTypeError

KINDS = [dtype for dtype in ALL if dtype != wg.bfloat16]


class _Subclass(np.ndarray[Any, Any]):
    """An array of a class of its own."""


def _unaligned(array: Any) -> Any:
    record = np.zeros(array.shape, [("byte", "u1"), ("value", array.dtype)])
    record["value"] = array
    return record["value"]


def _shifted(array: Any) -> Any:
    """In one piece, beginning at an odd address."""
    return np.frombuffer(b"." + array.tobytes(), array.dtype, offset=1)


def _read_only(array: Any) -> Any:
    array = array.copy()
    array.flags.writeable = False
    return array


LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "as it is": lambda a: a,
    "backwards": lambda a: a[::-1],
    "every second": lambda a: np.repeat(a, 2)[::2],
    "unaligned": _unaligned,
    "shifted": _shifted,
    "read-only": _read_only,
    "one number": lambda a: a[1:2].reshape(()),
    "empty": lambda a: a[:0],
    "broadcast": lambda a: np.broadcast_to(a[1:2], (5,)),
    "columns": lambda a: np.asfortranarray(np.stack([a, a + a])),
    "subclass": lambda a: a.view(_Subclass),
}


def _arrays(dtype: Any) -> Iterator[tuple[str, Any, Any]]:
    base = np.array([0, 1, 2, 100], dtype)
    for order in "<>":
        for name, layout in LAYOUTS.items():
            array = layout(base.astype(dtype.newbyteorder(order)))
            yield f"{name} {order}", array, np.array(array).astype(dtype)


def _again(array: Any) -> Any:
    """The argument of a call that comes after others of the same kind."""
    compiled = wg.compile(lambda x: x + x)
    for _ in range(5):
        compiled(np.zeros(array.shape, array.dtype.newbyteorder("=")))
    return compiled(array)


def _assigned(array: Any) -> Any:
    slot = wg.zeros(array.shape, dtype=array.dtype.newbyteorder("="))
    slot.assign(array)
    return slot + slot


def _zero(array: Any) -> Any:
    return wg.zeros((), dtype=array.dtype.newbyteorder("="))


WAYS: dict[str, Callable[[Any], Any]] = {
    "argument": lambda a: wg.compile(lambda x: x + x)(a),
    "later argument": _again,
    "in a dict": lambda a: wg.compile(lambda d: d["x"] + d["x"])({"x": a}),
    "closure": lambda a: wg.compile(lambda z: (z + a) + (z + a))(_zero(a)),
    "operand": lambda a: (_zero(a) + a) + (a + _zero(a)),
    "tensor": lambda a: wg.tensor(a) + wg.tensor(a, copy=False),
    "asarray": lambda a: wg.asarray(a) + wg.compile(lambda x: x)(wg.tensor(a, copy=False)),
    "assigned": _assigned,
    "function": lambda a: wg.add(a, a),
}


EVERYDAY = ("bool", "int32", "uint8", "float16", "float64", "complex64")


@pytest.mark.parametrize(
    "dtype",
    [dtype if dtype.name in EVERYDAY else pytest.param(dtype, marks=pytest.mark.slow) for dtype in KINDS],
    ids=lambda dtype: dtype.name,
)
def test_the_numbers_of_an_array_count_wherever_it_enters(dtype: Any) -> None:
    for layout, array, value in _arrays(dtype):
        for way, run in WAYS.items():
            result = run(array)
            np.testing.assert_array_equal(result.numpy(), value + value, err_msg=f"{layout}, {way}")
            assert result.dtype is dtype, (layout, way)


def test_arrays_of_another_byte_order_in_derivatives_and_batches() -> None:
    x = np.array([1.0, 2.0], ">f8")
    assert wg.grad(lambda x: (x * x).sum())(x).tolist() == [2.0, 4.0]
    assert wg.compile(wg.grad(lambda x: (x * x).sum()))(x).tolist() == [2.0, 4.0]
    assert wg.jvp(lambda x: x * x, (x,), (x,))[1].tolist() == [2.0, 8.0]
    assert wg.vmap(lambda x: x * 2)(x).tolist() == [2.0, 4.0]


def test_indices_of_another_byte_order() -> None:
    x, index = wg.arange(5), np.array([3, 1], ">i8")
    assert x[index].tolist() == [3, 1]
    assert wg.compile(lambda i: x[i])(index).tolist() == [3, 1]
    assert wg.take(x, index, axis=0).tolist() == [3, 1]
    assert wg.one_hot(index, 4).argmax(axis=1).tolist() == [3, 1]


def test_arrays_of_another_byte_order_are_saved_as_their_numbers(tmp_path: Any) -> None:
    wg.save(tmp_path / "x.safetensors", {"x": np.arange(3, dtype=">i4")})
    assert wg.load(tmp_path / "x.safetensors")["x"].tolist() == [0, 1, 2]


def test_without_a_copy_another_byte_order_is_refused() -> None:
    with pytest.raises(ArgumentError, match="without a copy"):
        wg.asarray(np.arange(3.0).astype(">f8"), copy=False)
    with pytest.raises(ArgumentError, match="without a copy"):
        wg.asarray(_shifted(np.arange(3.0)), copy=False)


def test_a_record_is_no_tensor() -> None:
    record = np.zeros(2, [("a", "f4"), ("b", "i4")])
    with pytest.raises(DTypeError):
        wg.compile(lambda x: x)(record)
    with pytest.raises(DTypeError):
        wg.tensor(record)


def test_a_tensor_is_aligned_and_of_the_machines_byte_order() -> None:
    for array in (_shifted(np.arange(3.0)), np.arange(3.0).astype(">f8")):
        made = wg.tensor(array, copy=False).numpy()
        assert made.flags.aligned and made.dtype.isnative
