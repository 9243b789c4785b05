"""How the outcome of array-api-tests is read and shown; the suite itself needs a checkout (`array_api.py`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.oracle import array_api

REPORT = """<testsuites><testsuite>
<testcase classname="array_api_tests.test_fft" name="test_fft"/>
<testcase classname="array_api_tests.test_fft" name="test_ifft"><skipped message="no"/></testcase>
<testcase classname="array_api_tests.test_special_cases" name="test_unary[expm1(x)]">
  <failure message="AssertionError: out=nan,&#10;   but should be 0"/></testcase>
{more}</testsuite></testsuites>"""
UNKNOWN = '<testcase classname="a.test_set" name="test_unique"><error message="KeyError"/></testcase>'


def outcome(folder: Path, more: str = "") -> array_api.Outcome:
    report = folder / "report.xml"
    report.write_text(REPORT.format(more=more))
    return array_api.read(report)


def test_outcomes_are_counted_and_causes_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = outcome(tmp_path)
    assert found.counts == {"passed": 1, "skipped": 1, "failure": 1}
    assert array_api.show(found, whole=False)
    shown = capsys.readouterr().out
    assert "known    test_special_cases::test_unary[expm1(x)]" in shown
    assert "1 failure, 1 passed, 1 skipped of 3; 0 failures of unknown cause" in shown


def test_an_unknown_failure_and_a_cause_without_one_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not array_api.show(outcome(tmp_path, UNKNOWN), whole=False)
    assert "UNKNOWN  test_set::test_unique\n         KeyError" in capsys.readouterr().out
    assert not array_api.show(outcome(tmp_path), whole=True)
    assert "PASSED   test_special_cases::test_binary[floor_divide(" in capsys.readouterr().out


def test_every_cause_says_why() -> None:
    causes = array_api.known_causes()
    assert causes and all(len(why) > 20 for why in causes.values())
