"""Every public name has an entry on a page of the reference, and what pages and examples promise is there."""

from __future__ import annotations

import importlib.util
import inspect
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
PAGES = sorted((DOCS / "reference").glob("*.md"))


@pytest.fixture(scope="module")
def entries(module_monkeypatch):
    return _loaded("reference_entries")


@pytest.fixture(scope="module")
def module_monkeypatch():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(DOCS))
        yield patch


def _loaded(name: str) -> ModuleType:
    """A module of the documentation's folder, which is on the path meanwhile."""
    specification = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def test_every_public_name_has_an_entry(entries):
    names = sys.modules["public_names"]
    known = entries.documented(PAGES)
    entered = {id(entries._value(path)) for path in known}  # a function may be public by several paths
    missing = [
        path
        for path, value in names.public().items()
        if path not in known and not (callable(value) and id(value) in entered)
    ]
    assert not missing, "add them to a page in docs/reference"


def test_entries_are_of_public_names_once_each(entries):
    names = sys.modules["public_names"].public()
    listed = [
        path
        for page in PAGES
        for match in entries.MARKER.finditer(page.read_text())
        for path in entries.paths_in(match)
    ]
    twice = {path for path in listed if listed.count(path) > 1}
    assert not twice
    assert all(path in names or not path.startswith("wg.") for path in listed)


def test_an_entry_has_the_signature_and_the_example(entries):
    text = entries.with_entries("# Layers\n\n<!-- names of wg.nn: Conv2d -->\n")
    assert "## wg.nn.Conv2d { #wg.nn.Conv2d" in text
    assert "padding=0" in text and "```pycon\n>>> import wengert as wg" in text
    assert entries.with_links("<!-- links to wg.models on models -->", PAGES).startswith(
        "[`ConvNet`](models.md#wg.models"
    )


def test_a_name_that_is_missing_is_an_error(entries):
    with pytest.raises(AttributeError, match="Conv9d"):
        entries.with_entries("# x\n<!-- names of wg.nn: Conv9d -->")


@pytest.mark.parametrize("script", ["benchmarks_page.py", "pictures.py", "how_to_index.py"])
def test_what_scripts_write_is_up_to_date(script):
    command = [sys.executable, str(DOCS / script), "--check"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr


def test_the_dictionaries_have_every_hint_once():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(DOCS))
        dictionaries = _loaded("dictionaries")
    tables = dictionaries.methods_table(), dictionaries.functions_table() + dictionaries.jax_table()
    assert all(f"| `x.{name}` |" in tables[0] for name in dictionaries.TENSOR_SPELLINGS)
    hidden = [name for name in dictionaries.MODULE_SPELLINGS if f".{name}`" not in tables[1]]
    assert not hidden, "no table has them"


def test_the_page_on_commands_has_each_with_its_options(module_monkeypatch):
    text = _loaded("command_entries").commands()
    listed = subprocess.run(
        [sys.executable, "-m", "wengert.cli", "--help"], capture_output=True, text=True, check=True, cwd=ROOT
    ).stdout
    names = re.search(r"\{([\w,]+)\}", listed)[1].split(",")
    assert [line[11:] for line in text.splitlines() if line.startswith("## wengert ")] == names
    assert "| `--patience` | stop after" in text


def test_examples_of_public_functions_are_there(entries):
    """Each public function and class has an example in its docstring, but for those listed with a reason."""
    names = sys.modules["public_names"].public()
    without = {
        path
        for path, value in names.items()
        if (inspect.isfunction(value) or inspect.isclass(value))
        and path.split(".")[1] not in _APART
        and path not in _APART
        and ">>>" not in (inspect.getdoc(value) or "")
    }
    assert not without


_APART = {
    "graph": "what tools are built on",
    "devices": "what backends are built on",
    "learn": "engines for teaching, whose pages show them",
    "wg.tree.Attributed": "a mark within a Structure, which nobody makes",
}
