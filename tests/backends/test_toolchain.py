"""The cache of built libraries: bounded, by use, whatever other processes do."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from wengert.backends.cpu import toolchain
from wengert.core.errors import CompilerError

TEXT = "int answer(void) { return %d; }"
needs_compiler = pytest.mark.skipif(toolchain.compiler() is None, reason="there is no C compiler")


def library(folder: Path, name: str, age: int, size: int = 400_000) -> Path:
    path = folder / f"{name}.so"
    path.write_bytes(bytes(size))
    os.utime(path, (1_000_000 - age, 1_000_000 - age))
    return path


def test_what_was_used_longest_ago_goes(tmp_path, monkeypatch):
    monkeypatch.setenv("WENGERT_CACHE_MB", "1")
    old, older, new, kept = (library(tmp_path, *what) for what in (("b", 5), ("a", 9), ("c", 1), ("d", 20)))
    toolchain.trim(tmp_path, keep=kept)
    assert [path.exists() for path in (old, older, new, kept)] == [False, False, True, True]


def test_nothing_goes_below_the_limit(tmp_path, monkeypatch):
    monkeypatch.setenv("WENGERT_CACHE_MB", "2")
    paths = [library(tmp_path, str(i), i) for i in range(4)]
    toolchain.trim(tmp_path, keep=paths[0])
    assert all(path.exists() for path in paths)


def test_a_limit_that_is_no_number_is_an_error(monkeypatch):
    monkeypatch.setenv("WENGERT_CACHE_MB", "plenty")
    with pytest.raises(CompilerError, match="such as 2000, not 'plenty'"):
        toolchain.cache_limit()


@needs_compiler
def test_a_library_that_is_gone_is_built_again_and_an_open_one_goes_on(tmp_path, monkeypatch):
    monkeypatch.setenv("WENGERT_CACHE", str(tmp_path))
    monkeypatch.setenv("WENGERT_CACHE_MB", "0")
    first = toolchain.load([TEXT % 1])
    second = toolchain.load([TEXT % 2])  # nothing but the newest is kept
    assert len(list(toolchain.cache_folder().glob("*.so"))) == 1
    assert (first.answer(), second.answer(), toolchain.load([TEXT % 1]).answer()) == (1, 2, 1)


@needs_compiler
def test_the_library_that_stays_is_one_with_threads(tmp_path, monkeypatch):
    """Were OpenMP's own unloaded with a program, its threads would run where there is no code."""
    monkeypatch.setattr(toolchain, "_pinned", [])
    monkeypatch.setattr(toolchain, "cache_folder", lambda: tmp_path)
    toolchain.load([TEXT % 1])
    assert not toolchain._pinned
    parallel = 'int many(int *x) { _Pragma("omp parallel for") for (int i = 0; i < 9; i++) x[i] = i; return x[1]; }'
    toolchain.load([parallel])
    assert len(toolchain._pinned) == 1
