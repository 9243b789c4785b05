"""GPT beside Hugging Face's GPT-2 in torch: names, scores, losses, all gradients and training steps; its variants."""

from __future__ import annotations

import math

import numpy as np
import pytest

import wengert as wg
from wengert.models import GPT, GPTConfig

torch = pytest.importorskip("torch", reason="torch, the implementation to compare with, is not installed")

from tests.models import torch_references as references  # noqa: E402
from tests.models.compare import Comparison, optimizers, shake, train_beside  # noqa: E402

SIZES = {"vocab_size": 61, "n_positions": 24, "n_embd": 32, "n_layer": 3, "n_head": 4}
STEPS = {"SGD": {"lr": 0.1, "momentum": 0.9}, "AdamW": {"lr": 1e-3, "weight_decay": 0.1}}


def pair():
    torch.manual_seed(2)
    reference = references.GPT2LMHeadModel(**SIZES).double()
    shake(reference)
    return GPT(GPTConfig(**SIZES), dtype=wg.float64), reference


@pytest.mark.parametrize("optimizer", STEPS)
def test_gpt2_trains_as_torch_does(optimizer, record_property):
    model, reference = pair()
    ids = torch.randint(0, SIZES["vocab_size"], (5, 20))
    tokens = wg.tensor(ids.detach().numpy())
    compared = train_beside(
        model,
        reference,
        optimizers(optimizer, model, reference, **STEPS[optimizer]),
        (
            lambda: model(tokens[:, :-1], tokens[:, 1:])[1],
            lambda: reference(ids, labels=ids)[1],
        ),
    )
    assert compared.tensors == 3 * (1 + 40 + 41)  # the state has the tied weight under both its names
    record_property("compared", compared.counts)


@pytest.mark.parametrize("optimizer", STEPS)
def test_rotary_rms_and_swiglu_train_as_in_torch(optimizer, record_property):
    torch.manual_seed(6)
    model = GPT(GPTConfig.modern(**SIZES, tied=False), dtype=wg.float64)
    reference = references.ModernGPT(61, 32, 3, 4, model.config.inner).double()
    shake(reference)
    ids = torch.randint(0, 61, (5, 20))
    tokens = wg.tensor(ids.detach().numpy())
    compared = train_beside(
        model,
        reference,
        optimizers(optimizer, model, reference, **STEPS[optimizer]),
        (
            lambda: model(tokens[:, :-1], tokens[:, 1:])[1],
            lambda: reference(ids[:, :-1], ids[:, 1:])[1],
        ),
    )
    record_property("compared", compared.counts)


def test_gpt2_gives_torch_s_scores(record_property):
    model, reference = pair()
    model.load_state_dict(reference.state_dict())
    ids = torch.randint(0, SIZES["vocab_size"], (2, 24))
    compare = Comparison()
    compare.same(model(wg.tensor(ids.detach().numpy())), reference(ids), "scores")
    record_property("compared", compare.counts)


def test_weights_are_those_of_conv1d_and_the_head_is_the_embedding():
    model = GPT(GPTConfig(**SIZES))
    shapes = {name: value.shape for name, value in model.state_dict().items()}
    assert shapes["transformer.h.0.attn.c_attn.weight"] == (32, 96)
    assert shapes["transformer.h.2.mlp.c_fc.weight"] == (32, 128)
    assert shapes["transformer.h.2.mlp.c_proj.weight"] == (128, 32)
    assert shapes["lm_head.weight"] == shapes["transformer.wte.weight"] == (61, 32)
    assert model.lm_head.weight is model.transformer.wte.weight
    assert GPT(GPTConfig(**SIZES, tied=False)).lm_head.weight is not model.transformer.wte.weight


@pytest.mark.parametrize("size, parameters", [("124M", 124_439_808), ("1558M", 1_557_611_200)])
def test_gpt2_has_the_published_sizes(size, parameters):
    wg.synchronize()  # so that nothing is computed here: the parameters, up to 6 GB of them, are recorded and not drawn
    assert sum(p.size for p in GPT(GPTConfig.gpt2(size)).parameters()) == parameters


def test_initial_values_are_gpt2_s():
    wg.manual_seed(0)
    model = GPT(GPTConfig(vocab_size=500, n_positions=64, n_embd=64, n_layer=4, n_head=2))
    for name, parameter in model.named_parameters():
        values = parameter.detach().numpy()
        if parameter.ndim == 1:
            assert (values == (".ln_" in name and name.endswith("weight"))).all(), name
        else:
            expected = 0.02 / math.sqrt(8) if name.endswith("c_proj.weight") else 0.02
            assert values.std() == pytest.approx(expected, rel=0.05), name


VARIANTS = {
    "gpt2": GPTConfig(**SIZES),
    "rotary": GPTConfig(**SIZES, positions="rotary"),
    "rms": GPTConfig(**SIZES, norm="rms"),
    "swiglu": GPTConfig(**SIZES, mlp="swiglu"),
    "modern": GPTConfig.modern(**SIZES),
    "dropout": GPTConfig(**SIZES, dropout=0.2),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_a_later_token_does_not_change_earlier_scores(variant):
    wg.manual_seed(1)
    model = GPT(VARIANTS[variant], dtype=wg.float64).eval()
    tokens = wg.random.randint(0, 61, (2, 12)).detach().numpy()
    changed = tokens.copy()
    changed[:, 7] = (changed[:, 7] + 1) % 61
    before, after = model(wg.tensor(tokens)).detach().numpy(), model(wg.tensor(changed)).detach().numpy()
    np.testing.assert_array_equal(before[:, :7], after[:, :7])
    assert (np.abs(before[:, 7:] - after[:, 7:]).max(axis=(0, 2)) > 1e-6).all()


def test_with_dropout_of_attention_a_later_token_is_not_seen_either():
    model = GPT(VARIANTS["dropout"], dtype=wg.float64)
    tokens = wg.random.randint(0, 61, (2, 12)).detach().numpy()
    changed = tokens.copy()
    changed[:, 7] = (changed[:, 7] + 1) % 61
    scores = []
    for text in (tokens, changed):
        wg.manual_seed(1)  # so that the same is dropped
        scores.append(model(wg.tensor(text)).detach().numpy())
    np.testing.assert_array_equal(scores[0][:, :7], scores[1][:, :7])
    assert (scores[0][:, 7:] != scores[1][:, 7:]).any()


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_parameter_of_a_variant_learns(variant):
    wg.manual_seed(3)
    model = GPT(VARIANTS[variant])
    tokens = wg.random.randint(0, 61, (4, 17))
    optimizer = wg.optim.AdamW(model.parameters(), lr=3e-3)
    losses = []
    for _ in range(8):
        optimizer.zero_grad()
        _, loss = model(tokens[:, :-1], tokens[:, 1:])
        loss.backward()
        losses.append(loss.item())
        assert all(float(wg.max(wg.abs(p.grad))) > 0 for p in model.parameters())
        optimizer.step()
    assert losses[-1] < losses[0] - 0.1


def test_rotary_scores_depend_on_the_distance_only():
    """Without learned positions the same tokens later in a text, with nothing before that is seen, score the same."""
    wg.manual_seed(5)
    model = GPT(GPTConfig(**{**SIZES, "n_layer": 1}, positions="rotary"), dtype=wg.float64).eval()
    tokens = wg.random.randint(0, 61, (1, 6))
    cache = model.new_cache(1)
    plain = model(tokens).detach().numpy()
    x, attention = wg.random.normal((1, 6, 32), dtype=wg.float64), model.transformer.h[0].attn
    here = attention(x, wg.arange(6), None, 0).detach().numpy()
    later = attention(x, wg.arange(6) + 17, None, 0).detach().numpy()
    np.testing.assert_allclose(here, later, atol=1e-12)
    np.testing.assert_allclose(model(tokens, cache=cache).detach().numpy(), plain, atol=1e-12)


def test_dropout_drops_attention_in_training_only():
    wg.manual_seed(0)
    model = GPT(GPTConfig(**SIZES, dropout=0.5))
    tokens = wg.random.randint(0, 61, (1, 8))
    first, second = model(tokens).detach().numpy(), model(tokens).detach().numpy()
    assert (first != second).any()
    model.eval()
    np.testing.assert_array_equal(model(tokens).detach().numpy(), model(tokens).detach().numpy())


def test_ignored_targets_count_for_nothing():
    wg.manual_seed(0)
    model = GPT(GPTConfig(**SIZES), dtype=wg.float64)
    tokens, targets = wg.random.randint(0, 61, (2, 6)), wg.random.randint(0, 61, (2, 6)).detach().numpy().copy()
    targets[1] = -100
    _, both = model(tokens, wg.tensor(targets))
    _, first = model(tokens[:1], wg.tensor(targets[:1]))
    assert both.item() == pytest.approx(first.item(), abs=1e-12)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: GPTConfig(n_embd=30, n_head=4), "30 features do not divide into 4 heads"),
        (lambda: GPTConfig(positions="sinus"), "positions must be one of"),
        (lambda: GPTConfig.gpt2("125M"), "124M, 355M, 774M, 1558M"),
        (lambda: GPT(GPTConfig(**SIZES))(wg.zeros((1, 25), dtype=wg.int64)), "at most 24"),
        (lambda: GPT(GPTConfig(**SIZES))(wg.zeros((1, 4), dtype=wg.int64), wg.zeros((4,), dtype=wg.int64)), "targets"),
    ],
)
def test_what_does_not_fit_says_so(make, message):
    with pytest.raises(ValueError, match=message):
        make()
