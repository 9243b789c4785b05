"""The lessons: every notebook runs from top to bottom, and every page has pictures, questions and an exercise.

That pages show what their code gives, and that notebooks are those of the pages, is checked by docs/regenerate.py.
"""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

import wengert as wg
from wengert.learn.drawing import Picture
from wengert.learn.exercises import find

ROOT = Path(__file__).parents[2]
PAGES = [page for page in sorted((ROOT / "docs" / "lessons").glob("*.md")) if page.stem != "index"]
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks" / "lessons").glob("*.ipynb"))


def test_each_lesson_is_in_the_list_and_has_a_notebook():
    listed = re.findall(r"^\d+\. \[.+?\]\((.+?)\.md\)", (ROOT / "docs" / "lessons" / "index.md").read_text(), re.M)
    assert sorted(listed) == [page.stem for page in PAGES]
    assert [path.stem for path in NOTEBOOKS] == [f"{i:02}-{name}" for i, name in enumerate(listed, 1)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_lesson_has_questions_and_an_exercise_of_its_length(page):
    text = page.read_text()
    assert len(re.findall(r"^\d\. ", text.split("## Questions")[1], re.M)) >= 3
    name, minutes = re.search(r"^\*\*Exercise `(\w+)`\*\* \((\d+) minutes,", text, re.M).groups()
    assert find(name).minutes == int(minutes)
    assert f"`{name}`" in (page.parent / "index.md").read_text()
    included = re.findall(r'^--8<-- "(.+?)"', text, re.M)
    assert len(included) >= 1
    assert all((ROOT / path).read_text().startswith("<figure ") for path in included)


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, tmp_path, monkeypatch, capsys):
    if "cuda" in path.stem and shutil.which("g++") is None:
        pytest.skip("the emulated GPU needs g++")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(wg.config, "tier", "auto")  # some show compiled programs
    cells = ["".join(c["source"]) for c in json.loads(path.read_text())["cells"] if c["cell_type"] == "code"]
    scope: dict[str, object] = {}
    drawn = 0
    for i, cell in enumerate(cells):
        is_shown = re.fullmatch(r"\w+(\(.*\))?", cell) is not None and not cell.startswith("print(")
        code = compile(cell, f"{path.name} cell {i + 1}", "eval" if is_shown else "exec")
        if is_shown:
            drawn += isinstance(eval(code, scope), Picture)
        else:
            exec(code, scope)
    assert drawn >= 1
    assert capsys.readouterr().out


def test_the_rungs_compile_for_gpus():
    pytest.importorskip("cuda.bindings.nvrtc", reason="compiling CUDA needs the cuda extra")
    from wengert.backends.cuda.compile import cubin

    scope: dict[str, str] = {}
    text = (ROOT / "docs" / "lessons" / "cuda-matmul.md").read_text()
    for block in re.findall(r'^((?:naive|tiled|registers) = r""".*?^""")', text, re.S | re.M):
        exec(block, scope)
    exec(re.search(r"^vectors = .*?^\)$", text, re.S | re.M)[0], scope)
    for rung in ("naive", "tiled", "registers", "vectors"):
        assert cubin(scope[rung], "80") and cubin(scope[rung], "90"), rung
