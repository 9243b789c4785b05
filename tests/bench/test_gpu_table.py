"""benchmarks/gpu.py without a GPU: its processes, their questions and answers, on a row that the CPU carries out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The benchmark as a module."""
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")
    return __import__("gpu")


def test_rows_get_ready_together_as_far_as_there_is_room(gpu: Any) -> None:
    peers = ["eager", "compile", "jax"]  # of which JAX contends in the MLPs alone
    together = list(gpu.batches(["micrograd", "mlp", "convnet", "gpt2"], peers, 11))
    assert together == [["micrograd", "mlp", "convnet"], ["gpt2"]]
    assert list(gpu.batches(["gpt2"], peers, 1)) == [["gpt2"]]


def test_a_row_is_measured_and_kept(gpu: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    [(row, found)] = gpu.run(["micrograd"], [], 0.01, "cpu")
    own = found["wengert"]
    assert row == "micrograd" and "error" not in own
    assert own["slots"] == 8 and own["kernels"]
    best, median, after_a_wait = own["host"]
    assert 0 < best <= median < 1 and 0 < after_a_wait < 1 and 0 < own["median"] < 1
    monkeypatch.setattr("gpu_report.RESULTS", tmp_path)
    gpu.write("results", {row: found})
    gpu.write("first", {row: {"wengert": {"cold": own, "warm": {"error": "it died"}}}})
    [path] = tmp_path.glob("*.json")
    assert json.loads(path.read_text())["results"][row] == found
    text = path.with_suffix(".txt").read_text()
    host = [f"{seconds * 1e6:.1f}" for seconds in (best, median, after_a_wait)]
    assert "host {} us, median {}, after a wait {}, 8 slots".format(*host) in text
    assert "warm failed (it died)" in text


def test_a_contender_that_fails_says_why(gpu: Any) -> None:
    contender = gpu.Contender("micrograd", "nobody", "cpu", {})
    try:
        assert "invalid choice: 'nobody'" in contender.ready(60)["error"]
        assert contender.ask("host") is None
    finally:
        contender.end()


def test_a_contender_that_takes_too_long_is_stopped(gpu: Any) -> None:
    contender = gpu.Contender("micrograd", "wengert", "cpu", {})
    assert contender.ready(0.0) == {"error": "it took too long"}
    assert contender.process.poll() is not None


@pytest.mark.slow
def test_a_step_is_measured_as_it_is_chosen_and_as_timing_chooses(
    gpu: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = gpu.tuned_step("micrograd", 1.0, 0.01, "cpu")
    assert list(found) == ["wengert", gpu.TUNED]
    assert all("error" not in each and 0 < each["median"] < 1 for each in found.values())
    monkeypatch.setattr("gpu_report.RESULTS", tmp_path)
    found[gpu.TUNED]["tuning"] = "tuning took 1.0 s"
    gpu.write("tuned", {"micrograd": found})
    [path] = tmp_path.glob("*.txt")
    assert "8 slots, tuning took 1.0 s)" in path.read_text()
