"""The benchmarks of gradients by hand and of TensorFlow, without their timing."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

NETWORK = "64-128-64-10, batch 128"


@pytest.fixture
def benchmarks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parents[2] / "benchmarks")


@pytest.fixture
def manual(benchmarks: None) -> Any:
    return __import__("manual_automatic")


@pytest.fixture
def tensorflow_rows(benchmarks: None) -> Any:
    return __import__("tensorflow_rows")


def test_all_contenders_have_the_gradients_of_float64_and_take_the_same_step(manual: Any) -> None:
    losses = {}
    for contender in manual.CONTENDERS:
        if contender.startswith("PyTorch") and importlib.util.find_spec("torch") is None:
            continue
        step, gradients = manual.made(NETWORK, contender, "cpu")
        for gradient, expected in zip(gradients, manual.expected(NETWORK)):
            np.testing.assert_allclose(gradient, expected, atol=1e-5, rtol=1e-3)
        losses[contender] = [step() for _ in range(3)]
    assert len(losses) >= 5
    first = losses.pop("NumPy by hand")
    assert first[2] < first[0]
    for name, found in losses.items():
        np.testing.assert_allclose(found, first, rtol=1e-5, err_msg=name)


def test_wrong_gradients_are_not_timed(manual: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    right = manual.expected(NETWORK)
    monkeypatch.setattr(manual, "expected", lambda network: [*right[:-1], -right[-1]])
    with pytest.raises(SystemExit, match="the gradients are wrong by"):
        manual.measure(NETWORK, "NumPy by hand", "cpu")


def test_the_best_of_the_rounds_is_kept_and_errors_are_shown(
    tensorflow_rows: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import cpu

    times = iter((3e-3, 1e-3, 2e-3))
    monkeypatch.setattr(tensorflow_rows, "environment", lambda: Path("python"))
    monkeypatch.setattr(tensorflow_rows, "OWN", ("compiled",))
    monkeypatch.setattr(tensorflow_rows, "TENSORFLOW", ("tf.function",))
    monkeypatch.setattr(tensorflow_rows, "ask_tensorflow", lambda *_: {"error": "no kernel"})
    monkeypatch.setattr(cpu, "ask", lambda *_: {"best": next(times)})
    found = tensorflow_rows.run(["mlp"], 3)
    assert found == {"mlp": {"compiled": {"best": 1e-3}, "tf.function": {"error": "no kernel"}}}
    tensorflow_rows.show(found)
    shown = capsys.readouterr().out
    assert "1.00" in shown and "failed" in shown and "mlp, tf.function: no kernel" in shown
