"""What all tests share: the lines at the end that say how much of the library the suites covered."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

import wengert as wg
from wengert.core.ownership import ownership

collect_ignore = ["torch/ranks_script.py"]  # a script, which imports torch at once

COMPILED = (
    "/compiler/",
    "/inspect/",
    "/runtime/",
    "/kernels/",
    "/train/",
)  # folders whose tests run in the tiers users have


def pytest_configure() -> None:
    """Let Ctrl-C reach what the tests start: a shell has it ignored in what it runs in the background."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(autouse=True)
def _tier(request: pytest.FixtureRequest) -> Iterator[None]:
    """Dynamic code runs by the references, whose bits do not depend on how often a structure came, but where compiled
    code is what a test is about.
    """
    before = wg.config.tier
    path = f"/{request.path.relative_to(request.config.rootpath)}"
    if not any(folder in path for folder in COMPILED):
        wg.config.tier = "interpret"
    yield
    if wg.config.tier != before:
        wg.config.tier = before


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what is about memory that is written over where nothing is."""
    if ownership.copies:
        for item in items:
            if item.get_closest_marker("counted"):
                item.add_marker(pytest.mark.skip(reason=f"nothing is overwritten: {ownership.reason}"))


SUITE = "test_every_op.py::test_"
LAYERS = "nn/test_against_torch.py::test_"


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Count the suites' cases and checks from the reports, which come back from all of xdist's processes."""
    passed = [r for r in terminalreporter.stats.get("passed", []) if r.when == "call"]
    _summarize_ops(terminalreporter, passed)
    _summarize_optim(terminalreporter, passed)
    _summarize_layers(terminalreporter, passed)


def _summarize_layers(terminalreporter: Any, passed: list[Any]) -> None:
    """How many layers and losses were compared with torch, in how many forms, and how many initialisers."""
    checks = [r.nodeid.split("::", 1)[1] for r in passed if LAYERS in r.nodeid]
    if not checks:
        return
    compared = [check.split("[", 1)[1] for check in checks if check.startswith("test_forward_and_gradients[")]
    layers, forms = {case.split("(", 1)[0] for case in compared}, {case.rsplit("-", 2)[0] for case in compared}
    drawn = {check.split("[", 1)[1].split("-", 1)[0] for check in checks if check.startswith("test_initialiser[")}
    counts = f"{len(layers)} layers and losses in {len(forms)} forms, {len(drawn)} initialisers"
    terminalreporter.write_line(f"nn against torch: {counts}, {len(checks)} checks passed")


def _summarize_optim(terminalreporter: Any, passed: list[Any]) -> None:
    """How many checks of optimizers, schedules, clipping, loss scaling and averages there were, and beside torch."""
    checks = [r.nodeid.split("/optim/", 1)[1] for r in passed if "/optim/" in r.nodeid]
    if checks:
        files = Counter(check.split(".py", 1)[0].removeprefix("test_").replace("_", " ") for check in checks)
        parts = ", ".join(f"{count} {name}" for name, count in files.items())
        terminalreporter.write_line(f"optim: {len(checks)} checks passed ({parts})")


def _summarize_ops(terminalreporter: Any, passed: list[Any]) -> None:
    reports = [r for r in passed if SUITE in r.nodeid]
    checked = [r.nodeid.split("[", 1)[1] for r in reports if "[" in r.nodeid]
    if not checked:
        return
    functions = {case.split("(", 1)[0] for case in checked}
    reached = [value for r in reports for key, value in r.user_properties if key == "primitives"]
    primitives = f"{reached[0]} primitives, " if reached else ""
    counts = f"{len(functions)} public functions, {primitives}{len(set(checked))} cases, {len(checked)} checks passed"
    terminalreporter.write_line(f"every op: {counts}")
