"""Choosing by measurement on the GPU: whoever wins computes the same, and later programs take the winner."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.backends.cuda import libraries


@pytest.fixture(autouse=True)
def _cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """Choices of the test's own."""
    monkeypatch.setenv("WENGERT_CACHE", str(tmp_path))
    monkeypatch.setattr(libraries, "_loaded", {})
    return


def numbers(*shape: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(0).standard_normal(shape, np.float32)


CASES: dict[str, tuple[Callable[..., Any], list[np.ndarray[Any, Any]]]] = {
    "product": (wg.matmul, [numbers(512, 768), numbers(768, 256)]),
    "with its epilogue": (lambda x, y, b: wg.relu(x @ y + b), [numbers(100, 300), numbers(300, 300), numbers(300)]),
    "convolution": (lambda x, w: wg.conv2d(x, w, padding=1), [numbers(8, 32, 16, 16), numbers(64, 32, 3, 3)]),
    "attention": (wg.scaled_dot_product_attention, [numbers(2, 4, 128, 64)] * 3),
}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("name", CASES)
def test_the_winner_computes_the_same(name: str, dtype: str) -> None:
    function, arrays = CASES[name]
    want = function(*map(wg.tensor, arrays)).detach().numpy()
    tensors = [wg.tensor(a, device="cuda").to(getattr(wg, dtype)) for a in arrays]
    tuned = wg.compile(function, tune=5)
    first = tuned(*tensors)
    got = first.to(wg.float32).detach().numpy()
    np.testing.assert_allclose(got, want, rtol=0, atol=np.abs(want).max() * (1e-4 if dtype == "float32" else 3e-2))
    assert "timed" in tuned.explain("tuning")
    later = wg.compile(lambda *given: function(*given))
    assert (later(*tensors).to(wg.float32).numpy() == got).all()
    if wg.cuda.choices():
        assert "fastest of" in later.explain()
