"""`wengert cache`: what it tells and what it removes."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from wengert.cli import main
from wengert.core import cache


@pytest.fixture(autouse=True)
def _own_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WENGERT_CACHE", str(tmp_path))
    monkeypatch.setattr(cache, "_unusable", {})


def told(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> str:
    assert main(["cache", *arguments]) == status
    out, errors = capsys.readouterr()
    return errors if status else out


def fill() -> None:
    for name, days in (("a.so", 40), ("b.so", 2), ("c.cubin", 2), ("tuned-a.json", 0)):
        cache.keep(name, bytes(500_000))
        os.utime(cache.folder() / name, (time.time() - days * cache.DAY,) * 2)


def test_an_empty_cache(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = told(capsys)
    assert f"folder       {tmp_path}/wengert" in text and "none yet" in text
    assert "2,000 MB (WENGERT_CACHE_MB)" in text and "90 days without use (WENGERT_CACHE_DAYS)" in text
    assert not cache.folder().exists()  # looking makes nothing
    assert "removed 0 entries, 0.0 MB" in told(capsys, "clear")


def test_entries_are_told_by_kind(capsys: pytest.CaptureFixture[str]) -> None:
    fill()
    lines = [" ".join(line.split()) for line in told(capsys).splitlines()]
    assert "entries 4 entries, 2.0 MB" in lines
    assert "C libraries 2 1.0 MB last used 40 days to 2 days ago" in lines
    assert "GPU machine code 1 0.5 MB last used 2 days ago" in lines
    assert "tuning results 1 0.5 MB last used 0 min ago" in lines


def test_clear_removes_what_is_old_or_all(capsys: pytest.CaptureFixture[str]) -> None:
    fill()
    assert "removed 1 entry, 0.5 MB" in told(capsys, "clear", "--older-than", "30")
    assert sorted(path.name for path in cache.folder().iterdir()) == ["b.so", "c.cubin", "tuned-a.json"]
    (cache.folder() / f"{cache.TEMPORARY}building").mkdir()
    assert "removed 3 entries, 1.5 MB" in told(capsys, "clear")
    assert [path.name for path in cache.folder().iterdir()] == [f"{cache.TEMPORARY}building"]


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="the system has no owners and modes")
def test_a_folder_that_is_refused_is_told_and_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    fill()
    cache.folder().chmod(0o777)
    assert f"chmod 700 {cache.folder()}" in told(capsys)
    assert f"chmod 700 {cache.folder()}" in told(capsys, "clear", status=1)
    assert len(list(cache.folder().iterdir())) == 4


def test_a_file_in_the_place_of_the_folder_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "wengert").write_text("a file")
    assert "is not a folder" in told(capsys)
    assert "is not a folder" in told(capsys, "clear", status=1)


@pytest.mark.parametrize("arguments", [["--older-than", "3"], ["clear", "--older-than", "-1"]])
def test_odd_options_are_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert "older-than" in told(capsys, *arguments, status=1)
