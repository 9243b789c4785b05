"""Tests that need a GPU: skipped where there is none."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

import wengert as wg
from tests.gpu.joined import joined
from wengert.backends.cuda import compile
from wengert.backends.cuda.driver import CudaDriver
from wengert.kernels.launch import Launch


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what is in this folder, with the reason."""
    here = str(__file__).rsplit("/", 1)[0]
    own = [item for item in items if str(item.path).startswith(here)]
    if own and not wg.cuda.is_available():
        for item in own:
            item.add_marker(pytest.mark.skip(reason="there is no NVIDIA GPU here"))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """A failure is shown at once: a run on a machine that is lent may be cut before its end."""
    if report.failed:
        print(f"\nFAILED {report.nodeid} after {report.duration:.1f} s\n{report.longreprtext}", flush=True)


@pytest.fixture(autouse=True, scope="session")
def _compile_here() -> None:
    """Where the tests are shared out to processes, each compiles its own kernels, those of a program in few modules:
    there is no core to spare.
    """
    if "PYTEST_XDIST_WORKER" in os.environ:
        compile.THREADS = 1
        CudaDriver.kernels = _kernels_joined  # type: ignore[method-assign]


MANY = 8  # kernels that are better compiled together than found in the cache, where another test left them
_kernels = CudaDriver.kernels


def _kernels_joined(driver: CudaDriver, launches: Iterable[Launch]) -> dict[tuple[str, str], Any]:
    """As the driver's."""
    wanted = list(launches)
    new = [launch for launch in wanted if (launch.source, launch.entry) not in driver.functions]
    places = joined(new) if len(new) >= MANY else new
    found = _kernels(driver, [*places, *(launch for launch in wanted if launch not in new)])
    for launch, place in zip(new, places):
        found[launch.source, launch.entry] = found[place.source, place.entry]
    return found


@pytest.fixture(autouse=True)
def _auto() -> Iterator[None]:
    """The tiers that users have."""
    before = wg.config.tier
    wg.config.tier = "auto"
    yield
    wg.config.tier = before
