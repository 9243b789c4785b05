"""The display in a real terminal, by tmux; and that nothing of it comes through a pipe."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import time

import pytest

from wengert.backends.cpu import toolchain

COMMAND = [sys.executable, "-m", "wengert.cli", "train", "digits"]
FIELDS = ("epoch", "loss", "accuracy", "images/s", "ETA", "MB")


def tmux(name, *arguments):
    return subprocess.run(["tmux", "-L", name, *arguments], capture_output=True, text=True, check=False).stdout


@pytest.mark.skipif(shutil.which("tmux") is None, reason="needs tmux, a terminal that can be looked at")
@pytest.mark.parametrize("columns", [80, 200])
def test_the_display_fits_the_terminal(tmp_path, columns):
    pytest.importorskip("rich")
    server = f"wengert-{os.getpid()}-{columns}"
    run = shlex.join([*COMMAND, "--epochs", "400", "--out", str(tmp_path / "run")])
    tmux(server, "new-session", "-d", "-x", str(columns), "-y", "50", f"{run}; echo ended; sleep 60")
    try:
        live = shown = ""
        until = time.monotonic() + 60
        while not ("(test" in shown and all(field in live for field in FIELDS)) and time.monotonic() < until:
            time.sleep(0.2)
            shown = tmux(server, "capture-pane", "-p")
            live = next((line for line in reversed(shown.splitlines()) if "ETA" in line), "")
        assert all(field in live for field in FIELDS), shown
        assert len(live) <= columns
        tmux(server, "send-keys", "C-c")
        while "ended" not in shown and time.monotonic() < until:
            time.sleep(0.2)
            shown = tmux(server, "capture-pane", "-p")
        assert "resume with: wengert train --resume" in "".join(shown.split("\n")), shown
        lines = [line for line in shown.splitlines() if line.startswith("epoch") and "(test" in line]
        assert lines and all(line.rstrip().endswith("s") for line in lines)  # each within its line
    finally:
        tmux(server, "kill-server")


@pytest.mark.skipif(toolchain.compiler() is None, reason="there is no compiler to interrupt")
def test_ctrl_c_while_compiling_stops_after_the_first_update(tmp_path):
    (tmp_path / "cache").mkdir()
    environment = {**os.environ, "WENGERT_CACHE": str(tmp_path / "cache")}
    command = [*COMMAND, "--out", str(tmp_path / "run")]
    process = subprocess.Popen(command, env=environment, start_new_session=True, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and not list((tmp_path / "cache").glob("wengert/tmp*/unit*.c")):
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does: to the program and to what it started
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 130 and "stopped at step 1 " in errors, errors


def test_there_are_no_escape_codes_in_a_pipe(tmp_path):
    command = [*COMMAND, "--epochs", "2", "--out", str(tmp_path / "run")]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "\x1b" not in result.stdout + result.stderr and "\r" not in result.stdout
    assert len([line for line in result.stdout.splitlines() if line.startswith("epoch")]) == 2
