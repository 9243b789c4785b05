"""A few of the kills of `python -m tests.kill_training`, and of the files of `python -m tests.fuzz_files`."""

from __future__ import annotations

import os

import pytest

from tests import kill_training
from tests.fuzz_files import Fuzzer


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked to be killed quickly")
def test_a_run_killed_at_any_moment_ends_with_the_same_bits(tmp_path):
    totals = kill_training.kill(3, 1, tmp_path)
    assert totals.failures == [] and totals.kills == 3 and totals.ended >= 1


def test_damaged_files_are_read_as_saved_or_refused(tmp_path):
    fuzzer = Fuzzer(tmp_path)
    for seed in range(3000):
        fuzzer.try_one(seed)
    assert fuzzer.failures == []
    assert fuzzer.counts["refused"] > 2000 and fuzzer.counts["read as saved"] > 10
