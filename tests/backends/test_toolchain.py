"""The C compiler: libraries are built, found and let go; one that misbehaves is an error with its own words."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import wengert as wg
from wengert.backends.cpu import toolchain
from wengert.core import cache
from wengert.core.errors import ArgumentError, CompilerError

TEXT = "int answer(void) { return %d; }"
pytestmark = pytest.mark.skipif(toolchain.compiler() is None, reason="there is no C compiler")


@pytest.fixture(autouse=True)
def _own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WENGERT_CACHE", str(tmp_path))
    monkeypatch.setattr(cache, "_unusable", {})


@pytest.fixture
def choose(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Path]]:
    """Take a shell script for the compiler; in it, "$@" are the arguments and REAL is the compiler of the system."""
    real = toolchain.compiler()
    known = toolchain.compiler, toolchain.version, toolchain._fingerprint

    def chosen(script: str) -> Path:
        path = tmp_path / "my-cc"
        path.write_text("#!/bin/sh\n" + script.replace("REAL", str(real)) + "\n")
        path.chmod(0o755)
        monkeypatch.setenv("WENGERT_CC", str(path))
        for function in known:
            function.cache_clear()
        return path

    yield chosen
    for function in known:
        function.cache_clear()


def test_a_library_that_is_gone_is_built_again_and_an_open_one_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WENGERT_CACHE_MB", "0")
    first = toolchain.load([TEXT % 1])
    second = toolchain.load([TEXT % 2])  # nothing but the newest is kept
    assert len(list(cache.folder().iterdir())) == 1
    assert (first.answer(), second.answer(), toolchain.load([TEXT % 1]).answer()) == (1, 2, 1)


def test_the_library_that_stays_is_one_with_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were OpenMP's own unloaded with a program, its threads would run where there is no code."""
    monkeypatch.setattr(toolchain, "_pinned", [])
    toolchain.load([TEXT % 1])
    assert not toolchain._pinned
    parallel = 'int many(int *x) { _Pragma("omp parallel for") for (int i = 0; i < 9; i++) x[i] = i; return x[1]; }'
    toolchain.load([parallel])
    assert len(toolchain._pinned) == 1


def test_a_build_leaves_nothing_but_the_library() -> None:
    toolchain.load([TEXT % 3, "int more(void) { return 1; }"])
    assert [path.suffix for path in cache.folder().iterdir()] == [".so"]


def test_an_error_in_the_text_is_told_in_the_compilers_words() -> None:
    with pytest.raises(CompilerError, match=r"exit status 1\n(.|\n)*unit1.c(.|\n)*error(.|\n)*The command: .*-O3"):
        toolchain.load([TEXT % 4, "int wrong(void) { return }"])
    assert not list(cache.folder().iterdir())


def test_a_linkers_error_is_told_in_its_words() -> None:
    with pytest.raises(CompilerError, match=r"exit status(.|\n)*multiple definition(.|\n)*The command: .*-shared"):
        toolchain.load([TEXT % 5, TEXT % 5])


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("exit 0", "it exited without an error, but did not write unit0.o"),
        ("echo no licence >&2; exit 3", r"exit status 3\nno licence\n"),
        ('case $* in *-shared*) echo bad linker; exit 4;; *) exec REAL "$@";; esac', r"exit status 4\nbad linker\n"),
        ('case $* in *-shared*) exit 0;; *) exec REAL "$@";; esac', "did not write program.so"),
        ("kill -9 $$", "it was ended by signal 9"),
    ],
)
def test_a_compiler_that_misbehaves_is_an_error(script: str, told: str, choose: Callable[[str], Path]) -> None:
    path = choose(f"case $* in --version) echo mine; exit;; esac\n{script}")
    with pytest.raises(CompilerError, match=told) as caught:
        toolchain.load([TEXT % 6])
    assert str(path) in str(caught.value) and not list(cache.folder().iterdir())


def test_what_is_no_library_is_an_error_and_is_not_kept(choose: Callable[[str], Path]) -> None:
    choose('case $* in *-shared*) echo trash > "$TMPDIR/program.so";; *) exec REAL "$@";; esac')
    with pytest.raises(CompilerError, match="built a library that cannot be loaded"):
        toolchain.load([TEXT % 6])
    assert not list(cache.folder().iterdir())


def test_true_is_no_compiler(monkeypatch: pytest.MonkeyPatch, choose: Callable[[str], Path]) -> None:
    choose("")
    monkeypatch.setenv("WENGERT_CC", "/bin/true")
    monkeypatch.setattr(wg.config, "tier", "compile")
    with pytest.raises(CompilerError, match=r"/bin/true could not build a kernel: .* did not write unit0.o"):
        wg.compile(lambda x: wg.exp(x) * 7)(wg.ones(3)).numpy()


def test_a_compiler_that_cannot_be_started_is_an_error(choose: Callable[[str], Path]) -> None:
    choose("").write_bytes(b"\x7fELF no program")
    with pytest.raises(CompilerError, match="my-cc cannot be started"):
        toolchain.load([TEXT % 7])


@pytest.mark.parametrize("when", ["--version", "*-c*", "*-shared*"])
def test_a_compiler_that_hangs_is_ended_with_what_it_started(
    when: str, choose: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("WENGERT_CC_TIMEOUT", "1")
    choose(f'case $* in {when}) echo thinking; sleep 61 & echo $! > {tmp_path}/pid; wait;; *) exec REAL "$@";; esac')
    start = time.monotonic()
    with pytest.raises(CompilerError, match=r"did not finish within 1 seconds \(WENGERT_CC_TIMEOUT\).*\nthinking\n"):
        toolchain.load([TEXT % 8])
    assert time.monotonic() - start < 10
    until = time.monotonic() + 5
    while _is_running(int((tmp_path / "pid").read_text())) and time.monotonic() < until:
        time.sleep(0.01)
    assert not _is_running(int((tmp_path / "pid").read_text()))
    assert not cache.folder().exists() or not list(cache.folder().iterdir())


def _is_running(number: int) -> bool:
    """Whether a process runs; one that ended and that nobody has waited for does not."""
    done = subprocess.run(["ps", "-o", "stat=", "-p", str(number)], capture_output=True, text=True, check=False)
    return bool(done.stdout.strip()) and not done.stdout.startswith("Z")


def test_an_interrupted_build_ends_its_processes(
    choose: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    choose("case $* in --version) exit;; esac; sleep 62")
    started: list[subprocess.Popen[str]] = []
    start = toolchain._started
    monkeypatch.setattr(toolchain, "_started", lambda *given: started.append(start(*given)) or started[-1])
    monkeypatch.setattr(toolchain, "_words", lambda *given: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        toolchain.build([TEXT % 9] * 2, _made(cache.folder()))
    assert len(started) == 2 and [process.returncode for process in started] == [-9, -9]


def _made(path: Path) -> Path:
    path.mkdir()
    return path


def test_a_timeout_that_is_no_number_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WENGERT_CC_TIMEOUT", "soon")
    with pytest.raises(ArgumentError, match=r"WENGERT_CC_TIMEOUT is .*, such as 300, not 'soon'"):
        toolchain.timeout()


@pytest.mark.skipif(not hasattr(os, "ST_NOEXEC"), reason="the system does not tell how a disk is mounted")
def test_a_disk_that_no_library_is_loaded_from_is_no_cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    real = os.statvfs

    class Mounted:
        def __init__(self, path: Path) -> None:
            self.f_flag = os.ST_NOEXEC if Path(path).is_relative_to(tmp_path) else real(path).f_flag

    monkeypatch.setattr(os, "statvfs", Mounted)
    with pytest.warns(RuntimeWarning, match="mounted noexec.*Compiled programs are stored in"):
        assert toolchain.load([TEXT % 10]).answer() == 10
