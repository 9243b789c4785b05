"""The notebooks run from top to bottom."""

from __future__ import annotations

from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parent.parent / "examples" / "notebooks").glob("*.ipynb"))


def test_notebooks_were_found():
    assert [path.name[0] for path in NOTEBOOKS] == [str(i) for i in range(1, 10)]


LONG = {"7-an-orbit", "8-burgers-by-a-network"}
EACH = [pytest.param(path, id=path.stem, marks=[pytest.mark.slow] if path.stem in LONG else []) for path in NOTEBOOKS]


@pytest.mark.parametrize("path", EACH)
def test_a_notebook_runs(path, tmp_path):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    notebook = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert all(cell.execution_count for cell in notebook.cells if cell.cell_type == "code")
