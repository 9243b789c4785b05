"""Errors on the GPU: what plain code on the host refuses by its values is refused there too."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import wengert as wg
from tests.ops.errors import GPU_WAYS, cases, on_the_gpu, outcomes, replayed, there

NAMES = [case.name for case in cases()]


@pytest.fixture(autouse=True)
def host_again() -> Iterator[None]:
    yield
    wg.set_default_device("cpu")


@pytest.mark.parametrize("name", NAMES)
def test_good_values_raise_in_no_way(name: str) -> None:
    case = on_the_gpu(name)
    assert outcomes(case, case.good, GPU_WAYS) == dict.fromkeys(GPU_WAYS, "")


@pytest.mark.parametrize("name", NAMES)
def test_bad_values_raise_in_every_way(name: str) -> None:
    case = on_the_gpu(name)
    for args in case.bad:
        found = outcomes(case, args, GPU_WAYS)
        assert all(found.values()), f"{case.name} of {args} raised {found}"
        assert replayed(case, args, there), f"{case.name} of {args} by the fast path"
