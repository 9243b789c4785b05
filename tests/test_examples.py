"""The examples do what their first lines say."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parent.parent / "examples"


def test_the_demo_learns_to_read_digits():
    result = subprocess.run(
        [sys.executable, EXAMPLES / "digits.py"], capture_output=True, text=True, timeout=120, check=False
    )
    assert result.returncode == 0, result.stderr
    *epochs, last = result.stdout.splitlines()[1:]
    losses = [float(re.search(r"loss (\S+)", line)[1]) for line in epochs]
    assert losses[-1] < losses[0] / 10
    assert float(re.search(r"test accuracy (\S+)%", last)[1]) >= 95
    assert "\r" not in result.stdout  # no terminal: plain lines
