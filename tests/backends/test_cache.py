"""The cache on disk: whose folder is used, what is verified, where entries go when there is no place for them."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.backends import damage
from wengert.backends.cpu import toolchain
from wengert.core import cache
from wengert.core.errors import ArgumentError, CacheError
from wengert.data import files

posix = pytest.mark.skipif(not hasattr(os, "getuid"), reason="the system has no owners and modes")
as_root = pytest.mark.skipif(not hasattr(os, "getuid") or os.getuid() != 0, reason="needs files of another owner")
needs_compiler = pytest.mark.skipif(toolchain.compiler() is None, reason="there is no C compiler")
NOBODY = 65534
TEXT = "int answer(void) { return %d; }"


@pytest.fixture(autouse=True)
def base(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A cache of the test's own, and nothing known of other folders."""
    base = tmp_path / "base"
    monkeypatch.setenv("WENGERT_CACHE", str(base))
    monkeypatch.setattr(cache, "_unusable", {})
    monkeypatch.setattr(cache, "_private", {})
    cache.say.cache_clear()
    yield base


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def whole(name: str = "a.plan", content: bytes = b"content" * 1000) -> Path:
    """A new entry's file."""
    cache.keep(name, content)
    return cache.folder() / name


# --- the folder -----------------------------------------------------------------------------------------------------


@posix
@pytest.mark.parametrize("umask", [0o000, 0o002, 0o022, 0o077, 0o777])
def test_the_folder_is_the_users_alone_whatever_the_umask(umask: int, base: Path) -> None:
    before = os.umask(umask)
    try:
        cache.keep("a.plan", b"content")
    finally:
        os.umask(before)
    assert mode(cache.folder()) == mode(base) == 0o700
    assert cache.read("a.plan") == b"content" and mode(cache.folder() / "a.plan") == 0o600


@posix
@pytest.mark.parametrize("bits", [0o777, 0o770, 0o720, 0o702, 0o1777])
def test_a_folder_that_others_can_write_to_is_refused(bits: int) -> None:
    file = whole()
    file.parent.chmod(bits)
    why = cache.refusal(cache.folder())
    assert why and f"chmod 700 {file.parent}" in why
    assert cache.read("a.plan") is None and cache.find("a.plan") is None
    with pytest.warns(RuntimeWarning, match=r"can be written to by others.*Set WENGERT_CACHE"):
        cache.keep("a.plan", b"other")
    assert cache.read("a.plan") == b"other"  # in a private folder
    assert [path.name for path in file.parent.iterdir()] == ["a.plan"]


@posix
@pytest.mark.parametrize("bits", [0o777, 0o773])
def test_a_folder_that_others_can_replace_is_refused(bits: int, base: Path) -> None:
    whole()
    base.chmod(bits)
    why = cache.refusal(cache.folder())
    assert why and f"{base} lets others replace" in why and cache.read("a.plan") is None
    base.chmod(bits | stat.S_ISVTX)
    assert cache.refusal(cache.folder()) is None and cache.read("a.plan") is not None


@posix
def test_a_group_of_the_users_own_may_write_above_the_folder(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where each user has a group, `~/.cache` is often writable by it."""
    whole()
    base.chmod(0o770)
    for private in (True, False):
        monkeypatch.setattr(cache, "_is_private", lambda group, private=private: private)
        assert (cache.refusal(cache.folder()) is None) is private


@posix
def test_a_link_to_a_folder_that_others_can_write_to_is_refused(base: Path, tmp_path: Path) -> None:
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    base.mkdir(0o700)
    (base / "wengert").symlink_to(tmp_path / "open")
    with pytest.warns(RuntimeWarning, match="open can be written to by others"):
        cache.keep("a.plan", b"content")
    assert not list((tmp_path / "open").iterdir())


@posix
def test_a_link_to_a_folder_of_ones_own_is_followed(base: Path, tmp_path: Path) -> None:
    base.mkdir(0o700)
    (base / "wengert").symlink_to(tmp_path / "elsewhere")
    assert whole().parent == tmp_path / "elsewhere" and cache.read("a.plan") is not None


@as_root
def test_a_folder_of_another_user_is_refused() -> None:
    file = whole()
    os.chown(file.parent, NOBODY, NOBODY)
    why = cache.refusal(cache.folder())
    assert why and "belongs to user" in why and f"chown -R 0 {file.parent}" in why
    assert cache.read("a.plan") is None
    with pytest.warns(RuntimeWarning, match="belongs to user"):
        cache.keep("b.plan", b"content")


@as_root
def test_a_folder_in_another_users_is_refused(base: Path) -> None:
    whole()
    os.chown(base, NOBODY, NOBODY)
    why = cache.refusal(cache.folder())
    assert why and f"{base} belongs to user" in why


@posix
@pytest.mark.parametrize("foreign", ["base", "base/wengert"])
def test_a_foreign_owner_is_seen_whoever_runs(foreign: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As if a folder belonged to somebody else."""
    whole()
    real = os.stat

    def owned(path: Any, **options: Any) -> os.stat_result:
        status = real(path, **options)
        return os.stat_result((*status[:4], 4321, *status[5:])) if path == tmp_path / foreign else status

    monkeypatch.setattr(cache.os, "stat", owned)
    why = cache.refusal(cache.folder())
    assert why and f"{tmp_path / foreign} belongs to user 4321" in why
    assert cache.read("a.plan") is None and cache.find("a.plan") is None


@as_root
@needs_compiler
def test_the_library_that_another_user_planted_is_not_run(base: Path, tmp_path: Path) -> None:
    """A user makes the folder first, in one that all may write to, and puts a library under the right name."""
    ran = tmp_path / "ran"
    planted = f'#include <stdio.h>\n__attribute__((constructor)) void run(void) {{ fclose(fopen("{ran}", "w")); }}\n'
    base.mkdir()
    base.chmod(0o1777)
    name = cache.build("x.so", lambda folder: toolchain.build([planted + TEXT % 666], folder)).name
    (cache.folder() / name).rename(cache.folder() / _name(TEXT % 5))
    for path in (cache.folder(), cache.folder() / _name(TEXT % 5)):
        os.chown(path, NOBODY, NOBODY)
    with pytest.warns(RuntimeWarning, match="belongs to user"):
        assert toolchain.load([TEXT % 5]).answer() == 5
    assert not ran.exists()


def _name(text: str) -> str:
    """The name of the entry of a text."""
    found: list[str] = []

    def noted(name: str) -> None:
        found.append(name)
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(cache, "find", noted)
        toolchain.load([text])
    return found[0]


@posix
def test_data_that_is_downloaded_first_leaves_the_folder_private(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("WENGERT_CACHE")
    monkeypatch.delenv("WENGERT_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "caches"))
    (tmp_path / "source").write_text("numbers")
    before = os.umask(0)
    try:
        files.download("numbers", [(tmp_path / "source").as_uri()], files.folder_of("some", None) / "numbers")
    finally:
        os.umask(before)
    assert (cache.folder() / "data/some/numbers").read_text() == "numbers"
    assert mode(cache.folder()) == 0o700 and cache.refusal(cache.folder()) is None


# --- entries --------------------------------------------------------------------------------------------------------


def test_what_was_kept_is_read_and_found() -> None:
    file = whole("a.plan", b"content")
    assert cache.read("a.plan") == b"content" and cache.find("a.plan") == file
    assert file.read_bytes().startswith(b"content")
    assert cache.read("b.plan") is None and cache.find("b.plan") is None and not cache.is_damaged("b.plan")
    assert cache.keep("empty.plan", b"") == cache.read("empty.plan") == b""


def test_an_entry_copied_over_another_is_not_taken_for_it() -> None:
    file = whole("a.plan", b"content")
    file.with_name("b.plan").write_bytes(file.read_bytes())
    assert cache.read("b.plan") is None and cache.is_damaged("b.plan")


@pytest.mark.parametrize("seed", range(60))
def test_flipped_bits_are_found(seed: int) -> None:
    damage.flipped(1 + seed % 32, seed)(whole())
    assert cache.read("a.plan") is None and cache.find("a.plan") is None and cache.is_damaged("a.plan")


def test_every_truncation_is_found() -> None:
    file = whole("a.plan", b"content" * 20)
    stored = file.read_bytes()
    for length in range(len(stored)):
        file.write_bytes(stored[:length])
        assert cache.read("a.plan") is None
    file.write_bytes(stored + b"\0")
    assert cache.read("a.plan") is None
    file.write_bytes(stored)
    assert cache.read("a.plan") == b"content" * 20


@pytest.mark.parametrize("replaced", [damage.text, damage.directory, damage.fifo, damage.link])
def test_what_is_no_entry_is_written_over(replaced: Callable[[Path], None]) -> None:
    file = whole()
    replaced(file)
    assert cache.read("a.plan") is None and cache.is_damaged("a.plan")
    cache.keep("a.plan", b"again")
    assert cache.read("a.plan") == b"again" and [path.name for path in file.parent.iterdir()] == ["a.plan"]


@as_root
def test_a_file_of_another_user_is_not_read() -> None:
    file = whole()
    os.chown(file, NOBODY, NOBODY)
    assert cache.read("a.plan") is None
    os.chown(file, 0, 0)
    file.chmod(0o666)
    assert cache.read("a.plan") is None
    file.chmod(0o644)
    assert cache.read("a.plan") is not None


def test_a_write_that_fails_leaves_nothing_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    file = whole("a.plan", b"content")
    monkeypatch.setattr(cache.os, "replace", lambda *names: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        cache.keep("a.plan", b"other")
    assert [path.name for path in file.parent.iterdir()] == ["a.plan"] and cache.read("a.plan") == b"content"


def test_file_and_folder_reach_the_disk_before_and_after_the_name(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    sync, replace = os.fsync, os.replace
    kinds = {True: "folder", False: "file"}
    monkeypatch.setattr(cache.os, "fsync", lambda h: (done.append(kinds[stat.S_ISDIR(os.fstat(h).st_mode)]), sync(h)))
    monkeypatch.setattr(cache.os, "replace", lambda *names: (done.append("name"), replace(*names)))
    cache.keep("a.plan", b"content")
    assert done == ["file", "name", "folder"]


def test_many_at_once_leave_whole_entries() -> None:
    contents = [bytes([i]) * 100_000 for i in range(8)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda content: cache.keep("a.plan", content), contents * 4))
        assert cache.read("a.plan") in contents
    assert [path.name for path in cache.folder().iterdir()] == ["a.plan"]


# --- no place -------------------------------------------------------------------------------------------------------


def read_only(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make writing to the cache fail, for root too, as on a disk that is mounted to be read."""
    for name in ("mkstemp", "mkdtemp"):
        real = getattr(tempfile, name)

        def refused(*given: Any, dir: Any = None, real: Any = real, **options: Any) -> Any:
            if dir is not None and Path(dir).is_relative_to(base):
                raise OSError(30, "Read-only file system", str(dir))
            return real(*given, dir=dir, **options)

        monkeypatch.setattr(tempfile, name, refused)


def file_in_place(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base.write_text("a file")


def full(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fsync(handle: int) -> None:
        if Path(os.readlink(f"/proc/self/fd/{handle}")).is_relative_to(base):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fsync)


@pytest.mark.parametrize("obstacle", [read_only, file_in_place, full])
def test_without_a_cache_a_private_folder_serves(
    obstacle: Callable[..., None], base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    obstacle(base, monkeypatch)
    with pytest.warns(RuntimeWarning, match="until this process ends. Set WENGERT_CACHE") as caught:
        for name in ("a.plan", "b.plan"):
            assert cache.keep(name, b"content") == cache.read(name) == b"content"
    assert len(caught) == 1
    (private,) = cache._private.values()
    assert mode(private) == 0o700 and sorted(path.name for path in private.iterdir()) == ["a.plan", "b.plan"]


def test_a_cache_that_can_only_be_read_is_read(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole("a.plan", b"content")
    read_only(base, monkeypatch)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert cache.read("a.plan") == b"content"
    with pytest.warns(RuntimeWarning, match="Read-only file system"):
        cache.keep("b.plan", b"more")
    assert (cache.read("a.plan"), cache.read("b.plan")) == (b"content", b"more")
    cache.keep("a.plan", b"newer")
    assert cache.read("a.plan") == b"newer" and cache.read_all(["a.plan", "c.plan"]) == {"a.plan": b"newer"}


def test_without_any_folder_what_can_do_without_goes_on(base: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base.write_text("a file")
    monkeypatch.setattr(cache, "_temporary_folder", lambda: (_ for _ in ()).throw(OSError(28, "No space left")))
    with pytest.warns(RuntimeWarning, match="cannot be stored anywhere") as caught:
        assert cache.keep("a.cubin", b"code") == cache.keep("b.cubin", b"code") == b"code"
    assert len(caught) == 1 and cache.read("a.cubin") is None
    with pytest.raises(CacheError, match="Set WENGERT_CACHE"):
        cache.build("a.so", lambda folder: b"library")


def test_the_private_folder_ends_with_its_process(base: Path) -> None:
    base.write_text("a file")
    text = (
        "import os, warnings; warnings.simplefilter('ignore'); from wengert.core import cache\n"
        "cache.keep('a.plan', b'content')\n"
        "child = os.fork()\n"
        "if not child: cache.keep('b.plan', b'content'); raise SystemExit\n"
        "assert os.waitpid(child, 0)[1] == 0 and cache.read('a.plan') == b'content'\n"
        "print(*cache._private.values())\n"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout.strip() and not Path(done.stdout.strip()).exists()


PROGRAMS = """
import sys, warnings, numpy as np, wengert as wg
{obstacle}
x = wg.tensor(np.arange(6.0).reshape(2, 3))
assert wg.compile(lambda x: (x @ x.mT).sum() + 1)(x).item() == 84
w = wg.tensor(np.ones((3, 2)), requires_grad=True)
for _ in range(6):
    w.grad = None
    (x @ w).sum().backward()
    assert w.grad.numpy().tolist() == [[3.0, 3.0], [5.0, 5.0], [7.0, 7.0]]
from wengert.cli import main
sys.exit(main(["train", "digits", "--model", "mlp", "--epochs", "1", "--limit", "100", "--out", "{out}"]))
"""
NO_TEMPORARY = "import tempfile; tempfile.tempdir = '/nowhere'"


@needs_compiler
@pytest.mark.parametrize(("obstacle", "said"), [("", "until this process ends"), (NO_TEMPORARY, "NumPy references")])
def test_programs_run_without_a_cache(obstacle: str, said: str, base: Path, tmp_path: Path) -> None:
    """`wg.compile`, a dynamic loop with backward and `wengert train`, in a process of its own."""
    base.write_text("a file")
    text = PROGRAMS.format(obstacle=obstacle, out=tmp_path / "run")
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("RuntimeWarning") == 1 and said in done.stderr and "Set WENGERT_CACHE" in done.stderr


def test_a_user_without_a_home_has_a_private_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WENGERT_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    with pytest.warns(RuntimeWarning, match="no home folder"):
        cache.keep("a.plan", b"content")
    assert cache.read("a.plan") == b"content"


# --- limits ---------------------------------------------------------------------------------------------------------


def aged(name: str, days: float, size: int = 400_000) -> Path:
    """An entry that was used so many days ago."""
    file = whole(name, bytes(size))
    os.utime(file, (time.time() - days * cache.DAY,) * 2)
    return file


def test_what_was_used_longest_ago_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WENGERT_CACHE_MB", "1")
    old, older, new, kept = (aged(*what) for what in (("b.so", 5), ("a.cubin", 9), ("c.plan", 1), ("d.json", 20)))
    cache.trim(keep=kept.name)
    assert [path.exists() for path in (old, older, new, kept)] == [False, False, True, True]


def test_nothing_goes_below_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WENGERT_CACHE_MB", "2")
    paths = [aged(f"{i}.so", i) for i in range(4)]
    cache.trim(keep=paths[0].name)
    assert all(path.exists() for path in paths)


def test_what_was_not_used_for_long_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = aged("a.so", 91), aged("b.so", 89)
    cache.trim(keep="c.so")
    assert (old.exists(), new.exists()) == (False, True)
    monkeypatch.setenv("WENGERT_CACHE_DAYS", "30")
    cache.trim(keep="c.so")
    assert not new.exists()


def test_what_is_used_stays() -> None:
    file = aged("a.so", 91)
    assert cache.find("a.so") == file
    cache.trim(keep="c.so")
    assert file.exists()


def test_what_crashed_builds_left_goes_after_a_day() -> None:
    whole()
    made = [cache.folder() / f"{cache.TEMPORARY}{name}" for name in ("old", "new", "file")]
    for path in made[:2]:
        path.mkdir()
        (path / "unit0.c").write_text("int x;")
    made[2].write_text("half an entry")
    for path in (made[0], made[2]):
        os.utime(path, (time.time() - 2 * cache.DAY,) * 2)
    cache.trim(keep="c.so")
    assert [path.exists() for path in made] == [False, True, False]


def test_other_files_in_the_folder_are_left_alone() -> None:
    whole()
    data = cache.folder() / "data"
    data.mkdir()
    os.utime(data, (0, 0))
    cache.trim(keep="c.so")
    cache.clear()
    assert data.exists() and cache.entries(cache.folder()) == []


@pytest.mark.parametrize("name", ["WENGERT_CACHE_MB", "WENGERT_CACHE_DAYS"])
def test_a_limit_that_is_no_number_is_an_error(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "plenty")
    with pytest.raises(ArgumentError, match=f"{name} is .*, such as [0-9]+, not 'plenty'"):
        cache.trim(keep="c.so")


# --- libraries ------------------------------------------------------------------------------------------------------


@needs_compiler
@pytest.mark.parametrize("seed", range(4))
def test_a_damaged_library_is_built_again(seed: int) -> None:
    name = _name(TEXT % seed)
    path = cache.build(name, lambda folder: toolchain.build([TEXT % seed], folder))
    good = path.read_bytes()
    for harm in (damage.flipped(8, seed), damage.cut(0.5), damage.directory, damage.fifo):
        if path.is_file():
            harm(path)
    assert toolchain.load([TEXT % seed]).answer() == seed
    assert path.read_bytes() == good


@needs_compiler
@pytest.mark.parametrize("harm", [damage.flipped(16, 3), damage.cut(0.3), damage.text, damage.directory, damage.fifo])
def test_another_process_finds_the_damage(harm: Callable[[Path], None], base: Path) -> None:
    status, want = damage.run(base)
    assert status == 0 and want
    assert damage.outcome(base, harm, want) == "right, rebuilt"
