"""Attention as a function of its weights: against torch's, with masks, extra keys and separate projections."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.core.errors import ArgumentError, ShapeError

RNG = np.random.default_rng(0)
FORMS: list[dict[str, Any]] = [
    {},
    {"need_weights": False},
    {"average_attn_weights": False, "attn_mask": RNG.normal(size=(3, 5))},
    {"key_padding_mask": np.array([[False] * 4 + [True]] * 2)},
    {"add_zero_attn": True, "bias_k": RNG.normal(size=(1, 1, 8)), "bias_v": RNG.normal(size=(1, 1, 8))},
    {"use_separate_proj_weight": True},
    {"use_separate_proj_weight": True, "training": False, "dropout_p": 0.5},
]


def arguments(form: dict[str, Any]) -> dict[str, Any]:
    rng = np.random.default_rng(1)
    separate = form.get("use_separate_proj_weight", False)
    wide = (6, 4) if separate else (8, 8)
    given = {
        "query": rng.normal(size=(3, 2, 8)),
        "key": rng.normal(size=(5, 2, wide[0])),
        "value": rng.normal(size=(5, 2, wide[1])),
        "embed_dim_to_check": 8,
        "num_heads": 2,
        "in_proj_weight": None if separate else rng.normal(size=(24, 8)),
        "in_proj_bias": rng.normal(size=24),
        "bias_k": None,
        "bias_v": None,
        "add_zero_attn": False,
        "dropout_p": 0.0,
        "out_proj_weight": rng.normal(size=(8, 8)),
        "out_proj_bias": rng.normal(size=8),
    }
    if separate:
        sizes = {"q_proj_weight": 8, "k_proj_weight": wide[0], "v_proj_weight": wide[1]}
        given |= {name: rng.normal(size=(8, size)) for name, size in sizes.items()}
    return given | form


@pytest.mark.parametrize("form", FORMS, ids=lambda form: ",".join(form))
def test_values_and_gradients_are_torchs(form: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")

    def run(library: Any) -> tuple[Any, Any, dict[str, Any]]:
        given, leaves = arguments(form), {}
        for name, value in given.items():
            if isinstance(value, np.ndarray):
                given[name] = library.tensor(value)
                if value.dtype.kind == "f":
                    leaves[name] = given[name].requires_grad_(True)
        f = wg.multi_head_attention_forward if library is wg else torch.nn.functional.multi_head_attention_forward
        y, weights = f(**given)
        (y**2).sum().backward()
        return y, weights, {name: leaf.grad for name, leaf in leaves.items()}

    ours, theirs = run(wg), run(torch)
    np.testing.assert_allclose(ours[0].detach().numpy(), theirs[0].detach().numpy(), atol=1e-11)
    assert (ours[1] is None) == (theirs[1] is None)
    if ours[1] is not None:
        np.testing.assert_allclose(ours[1].detach().numpy(), theirs[1].detach().numpy(), atol=1e-12)
    for name, gradient in theirs[2].items():
        np.testing.assert_allclose(ours[2][name].numpy(), gradient.numpy(), atol=1e-9, err_msg=name)


def test_compiled_it_gives_the_same() -> None:
    given = {k: wg.tensor(v) if isinstance(v, np.ndarray) else v for k, v in arguments({}).items()}
    f = wg.compile(lambda query: wg.multi_head_attention_forward(**{**given, "query": query}))
    expected = wg.multi_head_attention_forward(**given)
    for _ in range(2):
        for a, b in zip(f(given["query"]), expected):
            np.testing.assert_allclose(a.numpy(), b.numpy(), atol=1e-12)


def test_what_does_not_fit_is_named() -> None:
    given = {k: wg.tensor(v) if isinstance(v, np.ndarray) else v for k, v in arguments({}).items()}
    with pytest.raises(ShapeError, match="have 6 features"):
        wg.multi_head_attention_forward(**{**given, "embed_dim_to_check": 6})
    with pytest.raises(ArgumentError, match="scaled_dot_product_attention"):
        wg.multi_head_attention_forward(**given, static_k=wg.ones((4, 5, 4)))
    with pytest.raises(ArgumentError, match="give in_proj_weight, or"):
        wg.multi_head_attention_forward(**{**given, "in_proj_weight": None})
