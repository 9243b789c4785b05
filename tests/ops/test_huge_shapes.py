"""Shapes whose elements or bytes no 64-bit number counts are refused while recording, on the user's line."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import wengert as wg
from wengert.core.errors import WengertError

ROW, COLUMN = wg.zeros((1, 2**40)), wg.zeros((2**40, 1))
SMALL = wg.ones((2, 2))

HUGE: dict[str, Callable[[], Any]] = {
    "zeros": lambda: wg.zeros((10**30,)),
    "zeros past 64 bits": lambda: wg.zeros((2**64 + 3,)),
    "zeros of bytes": lambda: wg.zeros((2**61,)),
    "zeros of two axes": lambda: wg.zeros((2**40, 2**40)),
    "zeros beside an empty axis": lambda: wg.zeros((2**62, 0)),
    "ones": lambda: wg.ones(2**63),
    "full": lambda: wg.full((10**20,), 1.5),
    "empty": lambda: wg.empty((10**20,)),
    "like": lambda: wg.broadcast_to(wg.zeros(()), (10**20,)),
    "arange": lambda: wg.arange(2**63 - 1),
    "arange of floats": lambda: wg.arange(0.0, 1e30),
    "arange in small steps": lambda: wg.arange(0.0, 1.0, 1e-30),
    "linspace": lambda: wg.linspace(0, 1, 10**30),
    "eye": lambda: wg.eye(2**40),
    "tri": lambda: wg.tri(2**40, 2**40),
    "broadcast_to": lambda: wg.broadcast_to(SMALL, (2**62, 2, 2)),
    "tile": lambda: wg.tile(SMALL, (2**60, 2)),
    "repeat": lambda: wg.repeat(SMALL, 2**62, axis=0),
    "pad": lambda: wg.pad(SMALL, (2**62, 2**62)),
    "outer sum": lambda: ROW + COLUMN,
    "outer comparison": lambda: ROW < COLUMN,
    "where": lambda: wg.where(ROW > 0, COLUMN, 1.0),
    "outer": lambda: wg.outer(ROW[0], COLUMN[:, 0]),
    "matmul": lambda: COLUMN @ ROW,
    "einsum": lambda: wg.einsum("ij,kl->ijkl", ROW, ROW),
    "kron": lambda: wg.kron(ROW, ROW),
    "meshgrid": lambda: wg.meshgrid(ROW[0], ROW[0])[0] + 1,
    "expand": lambda: wg.broadcast_arrays(ROW, COLUMN)[0],
    "concat": lambda: wg.concat([wg.zeros((2**60,)), wg.zeros((2**60,))]),
    "stack": lambda: wg.stack([wg.zeros((2**60,))] * 4),
    "astype": lambda: wg.zeros((2**61,), dtype=wg.uint8).astype(wg.float64),
    "one_hot": lambda: wg.one_hot(wg.tensor([1]), 10**30),
    "random": lambda: wg.random.normal((10**20,)),
    "reshape": lambda: wg.reshape(SMALL, (10**30, -1)),
}


@pytest.mark.parametrize("name", HUGE)
def test_a_shape_past_64_bits_is_refused_on_its_line(name: str) -> None:
    for run in (HUGE[name], wg.compile(lambda: wg.sum(HUGE[name]()))):
        with pytest.raises(WengertError, match=r"test_huge_shapes.py:\d+") as caught:
            run()
        assert isinstance(caught.value, (ValueError, TypeError)), repr(caught.value)


def test_the_error_says_how_many() -> None:
    with pytest.raises(WengertError, match=r"zeros|broadcast.*1152921504606846976.*64"):
        wg.zeros((2**60, 2, 2))


def test_large_shapes_that_fit_are_recorded() -> None:
    assert wg.zeros((2**40,)).sum().shape == ()
    assert (wg.zeros((2**30, 1)) + wg.zeros((1, 2**20))).shape == (2**30, 2**20)
    assert wg.zeros((2**40, 0)).numpy().shape == (2**40, 0)
    assert wg.compile(lambda: wg.zeros((2**30, 0)))().shape == (2**30, 0)


@pytest.mark.parametrize(
    ("arguments", "length"), [((2**53 + 1, 2**53 + 4), 3), ((0, 10**18, 10**18 - 1), 2), ((5, 0, -2), 3)]
)
def test_integer_ramps_have_their_exact_length(arguments: Any, length: int) -> None:
    assert wg.arange(*arguments).tolist() == list(range(*arguments))
    assert wg.arange(*arguments).shape == (length,)
