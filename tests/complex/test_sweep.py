"""A part of the sweep: every way with some functions, every function with some ways; and random programs. By torch."""

from __future__ import annotations

import pytest

pytest.importorskip("torch", reason="torch, the other implementation to compare with, is not installed")

from tests.complex import sweep

SOME_WAYS = ("exp(1j x)", "x @ C")
SOME_FUNCTIONS = ("z conj(z)", "z @ C", "fft")


def test_there_are_24_ways_and_36_functions() -> None:
    assert (len(sweep.WAYS), len(sweep.FUNCTIONS), len(sweep.PARTS)) == (24, 36, 3)


@pytest.mark.parametrize(
    "chosen",
    [sweep.compositions(ways=SOME_WAYS), sweep.compositions(functions=SOME_FUNCTIONS)],
    ids=["every function", "every way"],
)
def test_derivatives_are_those_of_torch(chosen: list[sweep.Composition]) -> None:
    found = list(sweep.outcomes(chosen))
    assert len(found) >= 3 * 3 * 2 * 36
    assert [outcome for outcome in found if outcome.verdict != "right"] == []
