"""Every case of the honesty suite gets the verdict that is expected of it."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest

from tests.honesty.case import Case, cases
from tests.honesty.judge import judge, trials
from tests.honesty.known import KNOWN_STALE
from wengert.core.errors import RecordingError

CASES = cases()
CHANGES = {"follows", "refuses"}  # what is expected of cases in which something changes
TRIALS = trials()


def _parameters() -> list[Any]:
    wrong = pytest.mark.xfail(reason="not right yet", strict=True)
    return [pytest.param(*trial, id=trial.id, marks=[wrong] if trial.id in KNOWN_STALE else []) for trial in TRIALS]


@pytest.mark.parametrize(("case", "calls"), _parameters())
def test_the_verdict_is_the_expected_one(case: Case, calls: int | None) -> None:
    outcome = judge(case, calls)
    assert outcome.verdict in case.expected, f"{outcome.verdict}: {outcome.detail}"


def test_the_suite_is_as_large_as_promised() -> None:
    ids = [case.id for case in CASES]
    assert len(set(ids)) == len(ids)
    assert sum(not case.is_correct for case in CASES) >= 180
    assert sum(case.is_correct for case in CASES) >= 50
    assert {trial.id for trial in TRIALS} >= KNOWN_STALE


# --- the judge itself -----------------------------------------------------------------------------------------------


def _replaying(function: Callable[..., Any]) -> Callable[..., Any]:
    """A compiler that is never honest: the first result for ever."""
    kept: list[Any] = []

    def replay(*args: Any) -> Any:
        if not kept:
            kept.append(function(*args))
        return kept[0]

    return replay


def _failing(function: Callable[..., Any]) -> Callable[..., Any]:
    raise RuntimeError("not today")


@pytest.mark.parametrize("case", [case for case in CASES if CHANGES & {*case.expected}], ids=lambda c: c.id)
def test_a_replay_for_ever_is_found_out(case: Case) -> None:
    """So no case is vacuous: each tells a function that was never looked at again from one that was."""
    assert judge(case, compile=_replaying).verdict == "stale"


@pytest.mark.parametrize("case", [case for case in CASES if case.is_correct][::10], ids=lambda c: c.id)
def test_an_error_of_another_kind_is_raw(case: Case) -> None:
    assert judge(case, compile=_failing).verdict == "raw"


@pytest.mark.parametrize("case", [case for case in CASES if case.family == "globals"][::10], ids=lambda c: c.id)
def test_plain_python_follows(case: Case) -> None:
    assert judge(case, compile=lambda f: lambda *args: f(*args)).verdict == "follows"


def _named(id: str) -> Case:
    return next(case for case in CASES if case.id == id)


@pytest.mark.parametrize(
    ("message", "is_on_the_line", "verdict"),
    [
        ("the global k is another: pass it as an argument", True, "refuses"),
        ("something is another", True, "vague"),
        ("the global k is another: pass it as an argument", False, "vague"),
    ],
)
def test_a_refusal_names_the_thing_on_its_line(message: str, is_on_the_line: bool, verdict: str) -> None:
    def refusing(function: Callable[..., Any]) -> Callable[..., Any]:
        def refuse(*args: Any) -> Any:
            last = list(function.__code__.co_lines())[-1]
            raise RecordingError(message, (function.__code__, last[0]) if is_on_the_line else None)

        return refuse

    assert judge(_named("globals: an int"), compile=refusing).verdict == verdict


@pytest.mark.parametrize(("message", "verdict"), [("print happens while recording only", "said"), ("hm", "stale")])
def test_a_warning_must_name_the_effect(message: str, verdict: str) -> None:
    def warning(function: Callable[..., Any]) -> Callable[..., Any]:
        warnings.warn(message, stacklevel=1)
        return _replaying(function)

    assert judge(_named("effects_world: print"), compile=warning).verdict == verdict


def test_recording_at_every_call_is_found_out() -> None:
    class Again:
        def __init__(self, function: Callable[..., Any]) -> None:
            self.function, self.calls = function, 0

        def __call__(self, *args: Any) -> Any:
            self.calls += 1
            return self.function(*args)

        def why(self) -> list[str]:
            return ["no reason"] * self.calls

    assert judge(_named("globals: an int"), compile=Again).verdict == "rerecords"
    assert judge(_named("correct: math of constants"), compile=Again).verdict == "rerecords"
