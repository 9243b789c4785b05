"""What the README and the documentation show runs, in order, page by page."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import wengert as wg
from wengert.backends.cpu import toolchain

ROOT = Path(__file__).parent.parent
FOLDERS = (".", "how-to", "reference")
PAGES = [ROOT / "README.md", *(page for folder in FOLDERS for page in sorted((ROOT / "docs" / folder).glob("*.md")))]
BLOCKS = {page: re.findall(r"^```python\n(.*?)^```", page.read_text(), re.S | re.M) for page in PAGES}


@pytest.mark.parametrize("page", [page for page in PAGES if BLOCKS[page]], ids=lambda page: str(page.relative_to(ROOT)))
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


def test_files_and_commands_that_pages_name_are_there():
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M)
    missing = []
    for page in (*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "benchmarks" / "README.md"):
        text, roots = page.read_text(), (page.parent, ROOT, ROOT / "src" / "wengert")
        files = re.findall(r"`((?:\w[\w.-]*/)+(?:[\w-]+\.\w+)?)`", text)
        missing += [(page.name, name) for name in files if not any((root / name).exists() for root in roots)]
        commands = re.findall(r"(?:^\$ |`)make ([a-z-]+)", text, re.M)
        missing += [(page.name, f"make {name}") for name in commands if name not in targets]
    assert not missing
