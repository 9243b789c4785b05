"""A token of a text that is being generated: products of one row are loops, and the cache stays in its place."""

from __future__ import annotations

from typing import Any

import numpy as np

import wengert as wg
from tests.backends.emulated import EmulatedDriver

CONFIG = wg.models.GPTConfig(vocab_size=96, n_positions=12, n_embd=64, n_layer=2, n_head=2)


def decoded(device: str) -> tuple[list[np.ndarray], str]:
    """The scores after each of some tokens, and what is told of the program."""
    wg.manual_seed(0)
    model = wg.models.GPT(CONFIG).to(wg.bfloat16).eval().to(device)
    cache = model.new_cache(1, 8)

    @wg.compile
    def decode(token: Any) -> Any:
        with wg.no_grad():
            return model.scores_after(token, cache)

    tokens = [wg.tensor(np.array([[n]]), device=device) for n in (5, 90, 17, 3, 5, 5)]
    return [decode(token).to(wg.float32).numpy() for token in tokens], decode.explain()


def test_tokens_one_by_one(gpu: EmulatedDriver) -> None:
    found, told = decoded("cuda")
    expected, _ = decoded("cpu")
    np.testing.assert_allclose(found, expected, atol=0.02)
    assert "matmul" not in told.split("emulated (cuda:0)")[1]
    assert "wg_copy" not in told and told.count("wg_put_rows") == 2 * CONFIG.n_layer
