"""Machine code in the cache: what is there is used, what is not whole or was made otherwise is not."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import pytest

from wengert.backends.cuda import compile
from wengert.backends.cuda.compile import compiled
from wengert.core import cache
from wengert.core.errors import CompilerError


class Compiler:
    """NVRTC's place: notes what it is given."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.version = (0, 13, 0)

    def __call__(self, text: str, arch: str) -> bytes:
        self.texts.append(text)
        if text == "wrong":
            raise CompilerError("NVRTC could not build a kernel")
        return f"{text} for {arch}".encode() * 100

    def nvrtcVersion(self) -> tuple[int, ...]:
        return self.version


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Compiler]:
    """A compiler with a cache of its own."""
    made = Compiler()
    monkeypatch.setattr(compile, "cubin", made)
    monkeypatch.setattr(compile, "bindings", lambda: made)
    monkeypatch.setenv("WENGERT_CACHE", str(tmp_path))
    compile._fingerprint.cache_clear()
    yield made
    compile._fingerprint.cache_clear()


def file(text: str) -> Path:
    return cache.folder() / compile._entry(text, "90a")


def test_a_text_is_compiled_once(compiler: Compiler) -> None:
    first = compiled(["a", "b", "a"], "90a")
    assert sorted(compiler.texts) == ["a", "b"] and first["a"] == b"a for 90a" * 100
    assert compiled(["b", "a"], "90a") == first and len(compiler.texts) == 2


def test_what_takes_longest_comes_first(compiler: Compiler, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile, "THREADS", 1)
    texts = ["short", "a longer text", '#include "block.cuh"']
    compiled(texts, "90a")
    assert compiler.texts == texts[::-1]


def test_another_gpu_compiler_or_header_is_another_entry(compiler: Compiler, monkeypatch: pytest.MonkeyPatch) -> None:
    compiled(["a"], "90a")
    compiled(["a"], "80")
    compiler.version = (0, 13, 1)
    compile._fingerprint.cache_clear()
    compiled(["a"], "90a")
    monkeypatch.setattr(compile, "headers", lambda: {"block.cuh": "changed"})
    compile._fingerprint.cache_clear()
    compiled(["a"], "90a")
    assert compiler.texts == ["a"] * 4


@pytest.mark.parametrize("left", [0, 10, 40, 500])
def test_a_file_that_was_cut_short_is_compiled_again(compiler: Compiler, left: int) -> None:
    whole = compiled(["a"], "90a")
    (file,) = cache.folder().iterdir()
    content = file.read_bytes()
    file.write_bytes(content[:left])
    assert compiled(["a"], "90a") == whole and len(compiler.texts) == 2
    assert file.read_bytes() == content


def test_two_at_once_leave_one_whole_file(compiler: Compiler, monkeypatch: pytest.MonkeyPatch) -> None:
    both = Barrier(2)

    def slow(text: str, arch: str) -> bytes:
        both.wait(10)
        return compiler(text, arch)

    monkeypatch.setattr(compile, "cubin", slow)
    with ThreadPoolExecutor(2) as threads:
        first, second = threads.map(lambda _: compiled(["a"], "90a"), range(2))
    assert first == second == compiled(["a"], "90a")
    assert len(list(cache.folder().iterdir())) == 1 and len(compiler.texts) == 2


def test_an_error_is_raised_and_the_others_are_kept(compiler: Compiler) -> None:
    with pytest.raises(CompilerError, match="could not build"):
        compiled(["a", "wrong", "b"], "90a")
    assert sorted(compiled(["a", "b"], "90a")) == ["a", "b"]
    assert sorted(compiler.texts) == ["a", "b", "wrong"]


def test_what_was_used_longest_ago_goes(compiler: Compiler, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache holds a megabyte, each of these texts has 0.4."""
    monkeypatch.setenv("WENGERT_CACHE_MB", "1")
    monkeypatch.setattr(compile, "cubin", lambda text, arch: compiler(text, arch) and text.encode() * 400_000)
    now = time.time()
    for age, text in ((9, "a"), (5, "b")):
        compiled([text], "90a")
        os.utime(file(text), (now - age, now - age))
    compiled(["a"], "90a")
    compiled(["c"], "90a")
    assert {text: file(text).exists() for text in "abc"} == {"a": True, "b": False, "c": True}
