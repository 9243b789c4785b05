"""The programs that the GPU tests run over NCCL, in processes with emulated GPUs (`nccl_of_processes`)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.distributed.launching import launched
from tests.kernels.emulator import compiler

PROGRAMS = ("--mpiexec", "none", "-m", "tests.distributed.nccl_of_processes")
pytestmark = pytest.mark.skipif(compiler() is None, reason="there is no C++ compiler to emulate kernels with")


@pytest.mark.slow  # 40 s of compiling; `test_gpu_parts` has two ranks with the bits of one in threads
def test_two_ranks_have_the_bits_of_one_rank_with_two_parts(tmp_path: Path) -> None:
    """A GPT in bfloat16, whole and in blocks: one graph on each rank, without warnings."""
    found = set()
    for ranks in (1, 2):
        size = ("--layers", 1, "--batch", 4, "--length", 8, "--steps", 2)
        with launched(tmp_path, "-n", ranks, *PROGRAMS, "gpt", *size) as launch:
            status = launch.status()
        text = launch.text()
        assert status == 0, text
        found |= set(re.findall(r"digest (\w+)", text))
        assert text.count("pieces ['EmulatedGraph'], on the host []") == text.count("warnings []") > 0, text
    assert len(found) == 1, text


@pytest.mark.slow
def test_a_rank_that_is_killed_is_named(tmp_path: Path) -> None:
    with launched(tmp_path, "-n", 2, *PROGRAMS, "killed", tmp_path) as launch:
        status = launch.status()
        assert launch.left() == []
    text = launch.text()
    assert status != 0
    assert "errors.RankLost: rank 1" in text and "died of signal 9" in text, text
