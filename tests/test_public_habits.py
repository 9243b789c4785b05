"""What the repository promises to the outside: workflows with few rights, a citation, a release that is checked."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_pin_their_actions_and_may_only_read(path: Path) -> None:
    text = path.read_text()
    used = re.findall(r"uses: (.*)", text)
    assert used and all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action) for action in used), used
    assert re.search(r"^permissions:\n  contents: read\n", text, re.M)
    written = re.findall(r"^ +([\w-]+): write\b", text, re.M)
    assert written == (["id-token"] if path.name == "release.yml" else [])
    assert text.count("timeout-minutes:") == text.count("runs-on:")
    assert text.count("persist-credentials: false") == text.count("actions/checkout@")


def test_what_workflows_and_hooks_run_is_there() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
    texts = [path.read_text() for path in (*WORKFLOWS, ROOT / ".pre-commit-config.yaml")]
    run = {name for text in texts for name in re.findall(r"(?:run:|^ +-) make ([a-z-]+)", text)}
    assert {"lint", "test", "docs", "coverage", "release-check"} <= run <= targets
    named = {name for text in texts for name in re.findall(r"\b((?:tests|src|docs)/[\w/]+(?:\.\w+)?)", text)}
    assert not [name for name in named if not list(ROOT.glob(f"{name}*"))]


def test_ci_tests_every_python_that_is_claimed() -> None:
    (matrix,) = re.findall(r"python: \[(.*)\]", (ROOT / ".github" / "workflows" / "ci.yml").read_text())
    tested = set(re.findall(r"3\.\d+", matrix))
    claimed = {name.rpartition(" ")[2] for name in PROJECT["project"]["classifiers"] if "Python :: 3." in name}
    assert claimed and claimed <= tested and "3.14" in tested
    assert PROJECT["project"]["requires-python"] == ">=" + min(claimed, key=lambda v: int(v.partition(".")[2]))


def test_yaml_files_can_be_read() -> None:
    yaml = pytest.importorskip("yaml", reason="PyYAML comes with the documentation's extra")
    files = [*ROOT.glob(".github/**/*.yml"), ROOT / ".pre-commit-config.yaml", ROOT / "CITATION.cff"]
    assert len(files) >= 7
    for path in files:
        assert isinstance(yaml.safe_load(path.read_text()), dict), path


def test_the_citation_has_what_a_citation_needs() -> None:
    text = (ROOT / "CITATION.cff").read_text()
    for key in ("cff-version: 1.2.0", "message:", "title: Wengert", "authors:", f"version: {_version()}"):
        assert re.search(f"^{re.escape(key)}", text, re.M), key


def test_python_m_wengert_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "wengert", "--version"], capture_output=True, text=True, check=True, cwd=ROOT
    )
    assert done.stdout.strip() == f"wengert {_version()}"


def test_a_release_with_the_wrong_tag_or_without_a_date_is_refused() -> None:
    def asked(tag: str) -> str:
        command = [sys.executable, str(ROOT / ".ci" / "release-check"), "--tag", tag]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 1
        return done.stderr

    assert f"the tag is v9.9.9, the version {_version()}" in asked("v9.9.9")
    if "unreleased" in (ROOT / "CHANGELOG.md").read_text():
        assert "has no date but 'unreleased'" in asked(f"v{_version()}")


def _version() -> str:
    return str(PROJECT["project"]["version"])
