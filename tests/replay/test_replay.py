"""The replay check itself: equal snapshots are equal, every kind of change is reported, the worktree is removed."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.replay import __main__ as driver
from tests.replay.compare import compare
from tests.replay.snapshot import ROOT, normalised

CASES = r"^(op|gradient)/(cpu|cuda)/(softmax|matmul)\(|^model/cuda/MLP$|^row/libraries/convnet$"
CHANGED = "gradient/cuda/softmax((4,);axis=0)"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A snapshot of a few cases."""
    return taken(tmp_path_factory.mktemp("replay") / "snapshot.json", "1", PYTHONHASHSEED="1")


def taken(path: Path, processes: str, **environment: str) -> dict[str, Any]:
    """A snapshot of a few cases by a process of its own, which writes it here."""
    found = run("tests.replay.snapshot", str(path), "--cases", CASES, "--processes", processes, **environment)
    assert found.returncode == 0, found.stderr
    return dict(json.loads(path.read_text()))


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """A module of this package in a process of its own."""
    variables = {**os.environ, "PYTHONPATH": str(ROOT / "src"), **environment}
    command = [sys.executable, "-m", *arguments]
    return subprocess.run(command, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)


def test_cases_are_compiled_for_both_devices_without_errors(made: dict[str, Any]) -> None:
    cases = made["cases"]
    assert {name.split("/")[1] for name in cases} == {"cpu", "cuda", "libraries"}
    assert not [case for case in cases.values() if "error" in case]
    assert cases[CHANGED]["kernels"] and cases[CHANGED]["launches"]
    assert "cuDNN" in cases["row/libraries/convnet"]["library_calls"]


@pytest.mark.slow
def test_other_processes_with_other_hashes_give_an_equal_snapshot(made: dict[str, Any], tmp_path: Path) -> None:
    files = [tmp_path / "one.json", tmp_path / "two.json"]
    files[0].write_text(json.dumps(made))
    taken(files[1], "2", PYTHONHASHSEED="7")
    found = run("tests.replay.compare", *map(str, files))
    assert found.returncode == 0, found.stdout
    assert f"{len(made['cases'])} of {len(made['cases'])} cases are equal" in found.stdout


def change_text(case: dict[str, Any]) -> None:
    """Another text in one kernel."""
    kernel = case["kernels"][0]
    kernel["text"], kernel["sha"] = kernel["text"].replace("wg_exp_f32", "wg_exp2_f32"), "another"


def change_launch(case: dict[str, Any]) -> None:
    """More threads in a block."""
    case["launches"][0][2] = [64, 1, 1]


def change_bytes(case: dict[str, Any]) -> None:
    """A larger arena."""
    case["arena_bytes"] += 4096


def change_argument(case: dict[str, Any]) -> None:
    """A launch that takes its buffers in another order."""
    case["arguments"][0] = case["arguments"][0].replace("slot 0, slot 1", "slot 1, slot 0")


def remove_kernel(case: dict[str, Any]) -> None:
    """One kernel fewer."""
    del case["kernels"][0]


@pytest.mark.parametrize(
    "change, reported",
    [
        (change_text, "+            const float v4 = wg_exp2_f32(v3);"),
        (change_launch, "[64, 1, 1], 0]"),
        (change_bytes, "arena_bytes: 0 → 4096"),
        (change_argument, "slot 1, slot 0"),
        (remove_kernel, "removed"),
    ],
)
def test_a_change_is_reported_and_decides_the_exit_status(
    made: dict[str, Any], tmp_path: Path, change: Callable[[dict[str, Any]], None], reported: str
) -> None:
    other = copy.deepcopy(made)
    change(other["cases"][CHANGED])
    files = [tmp_path / "base.json", tmp_path / "now.json"]
    for path, content in zip(files, (made, other)):
        path.write_text(json.dumps(content))
    found = run("tests.replay.compare", *map(str, files))
    assert found.returncode == 1
    assert CHANGED in found.stdout and reported in found.stdout and ", 1 changed" in found.stdout


def test_times_are_reported_and_decide_nothing(made: dict[str, Any]) -> None:
    other = copy.deepcopy(made)
    other["cases"][CHANGED]["seconds"] += 1.0
    report, same = compare(made, other)
    assert same and f"times as long: {CHANGED}" in report


def test_a_case_that_is_gone_is_a_change_and_a_new_one_is_not(made: dict[str, Any]) -> None:
    fewer = copy.deepcopy(made)
    del fewer["cases"][CHANGED]
    assert compare(made, fewer)[1] is False and "only in BASE" in compare(made, fewer)[0]
    assert compare(fewer, made)[1] is True and "only in NOW" in compare(fewer, made)[0]


def test_what_varies_between_processes_is_normalised() -> None:
    assert normalised("n71 + n9 * n71") == "n0 + n1 * n0"
    assert normalised(f"{ROOT}/tests/a.py at 0x7f00aa11bb22") == "tests/a.py at 0x..."


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository of one commit."""
    for command in (
        ["init", "-q"],
        ["-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-mx"],
    ):
        driver.git(*command, root=tmp_path)
    return tmp_path


@pytest.mark.parametrize("fails", [False, True])
def test_the_temporary_worktree_is_removed(repository: Path, fails: bool) -> None:
    trees = []
    try:
        with driver.worktree("HEAD", root=repository) as tree:
            trees.append(tree)
            assert tree.is_dir() and len(driver.git("worktree", "list", root=repository).splitlines()) == 2
            if fails:
                raise ValueError
    except ValueError:
        pass
    assert not trees[0].exists() and len(driver.git("worktree", "list", root=repository).splitlines()) == 1


def test_a_base_without_this_check_is_refused(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    commands = driver.git
    monkeypatch.setattr(driver, "git", lambda *arguments, root=repository: commands(*arguments, root=root))
    assert driver.main(["HEAD"]) == driver.CANNOT
    assert "has no tests/replay" in capsys.readouterr().err
    assert driver.main(["nowhere"]) == driver.CANNOT
