"""Errors on the GPU: what plain code on the host refuses by its values is refused there too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.ops.errors import Failing, cases, outcomes, replayed


def _there(array: Any) -> Any:
    return wg.tensor(array, device="cuda")


WAYS = {
    "op by op": lambda f, args: f(*map(_there, args)),
    "pending": lambda f, args: f(*[wg.flip(wg.flip(_there(array))) for array in args]),
    "compiled": lambda f, args: wg.compile(f)(*map(_there, args)),
    "in a larger program": lambda f, args: wg.compile(lambda *x: (f(*x) * 2 + 1).sum())(*map(_there, args)),
    "compiled batch": lambda f, args: wg.compile(wg.vmap(f))(*[_there(np.stack([a, a])) for a in args]),
}


@pytest.fixture(autouse=True)
def _on_the_gpu() -> Any:
    wg.set_default_device("cuda")
    yield
    wg.set_default_device("cpu")


def _cases() -> list[Failing]:
    """Made anew, so that what their functions refer to is on the GPU."""
    wg.set_default_device("cuda")
    try:
        return cases()
    finally:
        wg.set_default_device("cpu")


NAMES = [case.name for case in cases()]


@pytest.mark.parametrize("name", NAMES)
def test_good_values_raise_in_no_way(name: str) -> None:
    case = next(case for case in _cases() if case.name == name)
    assert outcomes(case, case.good, WAYS) == dict.fromkeys(WAYS, "")


@pytest.mark.parametrize("name", NAMES)
def test_bad_values_raise_in_every_way(name: str) -> None:
    case = next(case for case in _cases() if case.name == name)
    for args in case.bad:
        found = outcomes(case, args, WAYS)
        assert all(found.values()), f"{case.name} of {args} raised {found}"
        assert replayed(case, args, _there), f"{case.name} of {args} by the fast path"
