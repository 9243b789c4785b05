"""Generation: the cache changes nothing but the work, the choices are restricted as asked, a seed reproduces."""

from __future__ import annotations

import numpy as np
import pytest

import wengert as wg
from wengert.models import GPT, GPTConfig
from wengert.models.generation import keep_top_k, keep_top_p, next_token

SIZES = {"vocab_size": 37, "n_positions": 40, "n_embd": 24, "n_layer": 2, "n_head": 3}
CONFIGS = {"gpt2": GPTConfig(**SIZES), "modern": GPTConfig.modern(**SIZES)}


@pytest.fixture(params=CONFIGS)
def model(request):
    wg.manual_seed(4)
    made = GPT(CONFIGS[request.param])
    for parameter in made.parameters():  # larger weights than at the start, so that texts do not just repeat a token
        parameter.assign(parameter.detach() * (10 if parameter.ndim == 2 else 1))
    return made


@pytest.fixture
def prompt():
    return wg.tensor(np.random.default_rng(0).integers(0, 37, (3, 5)))


def test_with_a_cache_the_text_is_the_same_token_for_token(model, prompt):
    cached = model.generate(prompt, 30, greedy=True).detach().numpy()
    plain = model.generate(prompt, 30, greedy=True, use_cache=False).detach().numpy()
    np.testing.assert_array_equal(cached, plain)
    assert cached.shape == (3, 35) and cached.dtype == np.int64
    np.testing.assert_array_equal(cached[:, :5], prompt.detach().numpy())
    assert len(np.unique(cached[:, 5:])) > 5


def test_greedy_takes_the_likeliest_token_each_time(model, prompt):
    text = model.generate(prompt, 10, greedy=True)
    scores = model(text[:, :-1]).detach().numpy()
    np.testing.assert_array_equal(scores[:, 4:].argmax(-1), text.detach().numpy()[:, 5:])


def test_a_larger_cache_and_one_used_before_give_the_same_text(model, prompt):
    expected = model.generate(prompt, 12, greedy=True).detach().numpy()
    cache = model.new_cache(3)
    for _ in range(2):
        np.testing.assert_array_equal(model.generate(prompt, 12, greedy=True, cache=cache).detach().numpy(), expected)
    assert cache.position.item() == 5 + 11  # the last token is not read
    assert cache.keys[0].shape == (3, 3, 40, 8)


def test_a_prompt_in_pieces_scores_as_in_one(model, prompt):
    cache = model.new_cache(3, 9)
    whole = model(prompt).detach().numpy()
    pieces = [model(prompt[:, a:b], cache=cache).detach().numpy() for a, b in [(0, 2), (2, 3), (3, 5)]]
    np.testing.assert_allclose(np.concatenate(pieces, axis=1), whole, rtol=1e-4, atol=1e-4)


def test_a_step_looks_at_no_value_so_that_it_can_be_recorded_once(model, prompt):
    """`scan` records its body with abstract values, once for all steps; the cache's slots are carried along."""
    expected = model.generate(prompt, 8, greedy=True).detach().numpy()
    cache = model.new_cache(3, 13)
    with wg.no_grad():
        first = next_token(model.scores_after(prompt, cache), greedy=True)

        def step(token, _):
            chosen = next_token(model.scores_after(wg.expand_dims(token, 1), cache), greedy=True)
            return chosen, token

        _, tokens = wg.scan(step, first, wg.arange(8))
    np.testing.assert_array_equal(tokens.detach().numpy().T, expected[:, 5:])
    assert cache.position.item() == 13


def test_drawn_texts_reproduce_from_a_seed(model, prompt):
    def draw(seed, **options):
        return model.generate(prompt, 20, generator=wg.random.Generator(seed), **options).detach().numpy()

    np.testing.assert_array_equal(draw(1), draw(1))
    np.testing.assert_array_equal(draw(1), draw(1, use_cache=False))
    assert (draw(1) != draw(2)).any()
    wg.manual_seed(9)
    first = model.generate(prompt, 20).detach().numpy()
    wg.manual_seed(9)
    np.testing.assert_array_equal(model.generate(prompt, 20).detach().numpy(), first)


def test_top_k_of_one_is_greedy_and_so_is_a_tiny_top_p(model, prompt):
    greedy = model.generate(prompt, 15, greedy=True).detach().numpy()
    np.testing.assert_array_equal(model.generate(prompt, 15, top_k=1).detach().numpy(), greedy)
    np.testing.assert_array_equal(model.generate(prompt, 15, top_p=1e-6).detach().numpy(), greedy)


def test_top_k_keeps_the_k_highest_of_each_row():
    logits = np.random.default_rng(1).normal(size=(6, 11))
    kept = keep_top_k(wg.tensor(logits), 4).detach().numpy()
    np.testing.assert_array_equal(np.isfinite(kept).sum(-1), 4)
    for row, scores in zip(kept, logits):
        allowed = np.argsort(scores)[-4:]
        np.testing.assert_array_equal(row[allowed], scores[allowed])
    np.testing.assert_array_equal(keep_top_k(wg.tensor(logits), 50).detach().numpy(), logits)


@pytest.mark.parametrize("p", [0.05, 0.5, 0.9, 1.0])
def test_top_p_keeps_the_fewest_that_reach_p(p):
    logits = np.random.default_rng(2).normal(size=(6, 11)) * 2
    kept = np.isfinite(keep_top_p(wg.tensor(logits), p).detach().numpy())
    for row, scores in zip(kept, logits):
        order = np.argsort(-scores)
        probabilities = np.exp(scores[order]) / np.exp(scores).sum()
        count = int(np.searchsorted(np.cumsum(probabilities), p - 1e-12)) + 1
        assert set(np.flatnonzero(row)) == set(order[: min(count, 11)])


def test_drawn_tokens_are_as_often_as_their_probability_among_the_allowed():
    logits = wg.broadcast_to(wg.log(wg.tensor([0.4, 0.3, 0.2, 0.1])), (20000, 4))
    generator = wg.random.Generator(0)

    def shares(**options):
        return np.bincount(next_token(logits, generator=generator, **options).detach().numpy(), minlength=4) / 20000

    np.testing.assert_allclose(shares(), [0.4, 0.3, 0.2, 0.1], atol=0.02)
    np.testing.assert_allclose(shares(top_k=2), [4 / 7, 3 / 7, 0, 0], atol=0.02)
    np.testing.assert_allclose(shares(top_p=0.8), [4 / 9, 3 / 9, 2 / 9, 0], atol=0.02)
    np.testing.assert_allclose(shares(temperature=0.5), np.array([16, 9, 4, 1]) / 30, atol=0.02)
    np.testing.assert_array_equal(shares(top_k=2)[2:], 0)


def test_generation_drops_nothing_and_leaves_each_module_in_its_mode(prompt):
    model = GPT(GPTConfig(**SIZES, dropout=0.5))
    model.transformer.h[1].eval()
    before = [module.training for module in model.modules()]
    first, again = (model.generate(prompt, 10, greedy=True).detach().numpy() for _ in range(2))
    np.testing.assert_array_equal(first, again)
    assert [module.training for module in model.modules()] == before


@pytest.mark.parametrize(
    "options, message",
    [
        ({"max_new_tokens": 36}, "prompt of 5 and 36 new tokens are more than the 40 positions"),
        ({"max_new_tokens": -1}, "cannot be negative"),
        ({"temperature": 0}, "greedy=True"),
        ({"top_k": 0}, "top_k must be at least 1, not 0"),
        ({"top_p": 1.5}, "top_p must be a probability above 0 and at most 1, not 1.5"),
    ],
)
@pytest.mark.parametrize("use_cache", [True, False])
def test_options_that_make_no_sense_raise(prompt, options, message, use_cache):
    model = GPT(CONFIGS["gpt2"])
    with pytest.raises(wg.errors.ArgumentError, match=message):
        model.generate(prompt, **{"max_new_tokens": 2, **options}, use_cache=use_cache)


def test_a_prompt_that_is_no_batch_of_tokens_raises(prompt):
    model = GPT(CONFIGS["gpt2"])
    with pytest.raises(wg.errors.ShapeError, match="the prompt must be"):
        model.generate(prompt[0], 3)
    with pytest.raises(wg.errors.DTypeError, match="integers"):
        model.generate(prompt.to(wg.float32), 3)
    with pytest.raises(wg.errors.ArgumentError, match="cache must hold 8 tokens"):
        model.generate(prompt, 3, cache=model.new_cache(3, 7))
    with pytest.raises(wg.errors.ShapeError, match="batch of 2"):
        model.generate(prompt, 3, cache=model.new_cache(2))
