"""What the README claims in numbers: the size of the source, and the table of speeds beside the results it is from."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
RESULTS = ROOT / "benchmarks" / "results"
ROWS = {
    "ResNet-18, 224 x 224": "ResNet-18 224x224, batch 256, bf16 ",
    "GPT-2 124M, 16 x 1024": "GPT-2 124M, 16 x 1024",
    "GPT-2 124M, generating": "GPT-2 124M, one token",
    "MNIST MLP": "MNIST MLP",
}


def line_count(paths: list[Path]) -> int:
    return sum(len(path.read_text().splitlines()) for path in paths)


def test_the_core_is_as_small_as_it_says() -> None:
    (stated,) = re.findall(r"five files of about ([\d,]+) lines", README)
    names = ["core/graph", *(f"autodiff/{name}" for name in ("reverse", "forward", "batching", "transforms"))]
    found = line_count([ROOT / "src" / "wengert" / f"{name}.py" for name in names])
    assert found == pytest.approx(int(stated.replace(",", "")), rel=0.1)


def test_the_source_is_as_large_as_it_says() -> None:
    (stated,) = re.findall(r"about\s+([\d,]+)\s+lines\s+of\s+Python", README)
    found = line_count([*(ROOT / "src").rglob("*.py")])
    assert found == pytest.approx(int(stated.replace(",", "")), rel=0.1)


def speeds(start: str) -> list[float]:
    """The three numbers of a row of the README's table."""
    (row,) = [line for line in README.splitlines() if line.startswith(f"| {start}")]
    return [float(cell.strip(" *")) for cell in row.strip("|").split("|")[2:]]


@pytest.mark.parametrize("start", ROWS)
def test_speeds_on_a_gpu_are_those_of_the_results(start: str) -> None:
    text = (RESULTS / "gpu-all-2026-11-16.txt").read_text()
    line = next(line for line in text.splitlines() if line.startswith(ROWS[start]))
    found = [float(re.search(rf"\b{name} ([\d.]+)", line)[1]) for name in ("wengert", "compile", "eager")]  # type: ignore[index]
    assert speeds(start) == pytest.approx(found, rel=0.005)


def test_speeds_on_the_cpu_are_those_of_the_results() -> None:
    results = json.loads((RESULTS / "cpu-2026-11-15.json").read_text())["results"]["resnet18"]
    found = [results[name]["best"] * 1e3 for name in ("compiled", "torch.compile", "eager")]
    assert speeds("ResNet-18, 32 x 32") == pytest.approx(found, rel=0.005)
