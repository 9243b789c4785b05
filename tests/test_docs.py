"""What the README and the documentation show runs, in order, page by page."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import wengert as wg
from wengert.backends import toolchain

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
BLOCKS = {page: re.findall(r"^```python\n(.*?)^```", page.read_text(), re.S | re.M) for page in PAGES}


@pytest.mark.parametrize("page", [page for page in PAGES if BLOCKS[page]], ids=lambda page: page.name)
def test_the_python_of_a_page_runs(page, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(wg.config, "tier", "auto")  # pages show programs
    scope: dict[str, object] = {}
    for number, block in enumerate(BLOCKS[page], 1):
        exec(compile(block, f"{page.name} block {number}", "exec"), scope)


def test_pages_were_found():
    assert sum(map(len, BLOCKS.values())) >= 8


@pytest.mark.skipif(toolchain.compiler() is None, reason="the pages show C programs")
def test_what_pages_show_is_what_their_examples_give():
    command = [sys.executable, str(ROOT / "docs" / "regenerate.py"), "--check"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr[-2000:]
