"""The notebook about ops of one's own, whose last cells run CUDA where there is a GPU."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

NOTEBOOK = Path(__file__).parents[2] / "examples/notebooks/4-an-op-of-your-own.ipynb"


def test_its_cells_run_on_the_gpu() -> None:
    cells = [cell for cell in json.loads(NOTEBOOK.read_text())["cells"] if cell["cell_type"] == "code"]
    names: dict[str, Any] = {}
    for i, cell in enumerate(cells):
        exec(compile("".join(cell["source"]), f"cell {i + 1}", "exec"), names)
    assert names["slope"].device == "cuda:0"


def test_the_matrix_product_of_the_lesson_runs_on_the_gpu() -> None:
    lesson = NOTEBOOK.parent / "lessons" / "08-cuda-matmul.ipynb"
    cells = [cell for cell in json.loads(lesson.read_text())["cells"] if cell["cell_type"] == "code"]
    names: dict[str, Any] = {}
    for i, cell in enumerate(cells):
        exec(compile("".join(cell["source"]), f"cell {i + 1}", "exec"), names)
    a, b = (names["wg"].tensor(names[name]).to("cuda") for name in "AB")
    assert abs(names["gpu_matmul"](a, b, names["N"]).numpy() - names["A"] @ names["B"]).max() < 1e-4
