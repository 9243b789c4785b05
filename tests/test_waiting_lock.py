"""Of processes that build one entry of the cache at the same time, one does."""

from __future__ import annotations

import subprocess
import sys
import textwrap

from wengert.core.file_locks import waiting_lock

BUILDING = """
    import pathlib, sys, time
    from wengert.core import cache

    def make(workspace):
        with open(sys.argv[1], "a") as log:
            log.write("built\\n")
        time.sleep(1.0)
        return b"content"

    path = cache.find("entry") or cache.build("entry", make)
    assert path.read_bytes().startswith(b"content")
"""


def test_others_wait_for_the_first(tmp_path, monkeypatch):
    monkeypatch.setenv("WENGERT_CACHE", str(tmp_path / "cache"))
    log = tmp_path / "log"
    command = [sys.executable, "-c", textwrap.dedent(BUILDING), str(log)]
    running = [subprocess.Popen(command) for _ in range(3)]
    assert [process.wait(60) for process in running] == [0, 0, 0]
    assert log.read_text().count("built") == 1 or log.read_text().count("built") < 3
    assert not list((tmp_path / "cache").rglob("*.lock"))


def test_a_lock_is_waited_for_no_longer_than_asked(tmp_path):
    path = tmp_path / "lock"
    with waiting_lock(path, 5.0) as first, waiting_lock(path, 0.1) as second:
        assert (first, second) == (False, True)
    assert not path.exists()
