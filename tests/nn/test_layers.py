"""What layers promise beyond torch's numbers: randomness, masks, rotary positions, errors, recording once."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import wengert as wg

nn = wg.nn


# --- dropout --------------------------------------------------------------------------------------------------------


def test_dropout_drops_its_share_and_keeps_the_mean() -> None:
    wg.manual_seed(1)
    y = nn.Dropout(0.3)(wg.ones((200, 100))).numpy()
    assert set(np.unique(y)) == {np.float32(0), np.float32(1 / 0.7)}
    assert abs((y == 0).mean() - 0.3) < 0.02


@pytest.mark.parametrize("kind, spatial", [("Dropout1d", 1), ("Dropout2d", 2), ("Dropout3d", 3)])
def test_channel_dropout_drops_whole_channels(kind: str, spatial: int) -> None:
    wg.manual_seed(1)
    y = getattr(nn, kind)(0.5)(wg.ones((40, 50, *[2] * spatial))).numpy().reshape(40, 50, -1)
    assert (y == y[..., :1]).all()
    assert abs((y[..., 0] == 0).mean() - 0.5) < 0.05


def test_alpha_dropout_keeps_mean_and_variance() -> None:
    wg.manual_seed(1)
    y = nn.AlphaDropout(0.2)(wg.random.normal((300, 300))).numpy()
    assert abs(y.mean()) < 0.02 and abs(y.std() - 1) < 0.02


def test_each_call_drops_others_and_a_seed_repeats_them() -> None:
    drop, x = nn.Dropout(0.5), wg.ones(100)
    wg.manual_seed(4)
    first, second = drop(x).tolist(), drop(x).tolist()
    wg.manual_seed(4)
    assert first != second and drop(x).tolist() == first


def test_dropout_refuses_what_is_no_probability() -> None:
    with pytest.raises(wg.errors.ArgumentError, match=r"p must be a probability between 0 and 1, not 1.5"):
        nn.Dropout(1.5)


def test_attention_drops_weights_when_training() -> None:
    wg.manual_seed(2)
    attention = nn.MultiheadAttention(4, 2, dropout=0.5)
    x = wg.random.normal((6, 3, 4))
    kept = attention.eval()(x, x, x)[1].detach().numpy()
    dropped = attention.train()(x, x, x, average_attn_weights=False)[1].detach().numpy()
    np.testing.assert_allclose(kept.sum(-1), 1, rtol=1e-5)
    assert 0.3 < (dropped == 0).mean() < 0.7


# --- attention ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("need_weights", [True, False])
def test_causal_attention_needs_no_mask(need_weights: bool) -> None:
    attention = nn.MultiheadAttention(4, 2, batch_first=True)
    x = wg.random.normal((2, 5, 4))
    mask = wg.tensor(np.triu(np.ones((5, 5), bool), 1))
    with_mask = attention(x, x, x, attn_mask=mask, need_weights=need_weights)[0]
    without = attention(x, x, x, is_causal=True, need_weights=need_weights)[0]
    np.testing.assert_allclose(without.detach().numpy(), with_mask.detach().numpy(), atol=1e-6)


@pytest.mark.parametrize("need_weights", [True, False])
def test_a_query_that_may_look_nowhere_gets_zeros_and_finite_gradients(need_weights: bool) -> None:
    attention = nn.MultiheadAttention(4, 2, bias=False, batch_first=True)
    x = wg.random.normal((2, 3, 4)).requires_grad_()
    hidden = wg.tensor(np.array([[True, True, True], [False, False, True]]))
    y, _ = attention(x, x, x, key_padding_mask=hidden, need_weights=need_weights)
    y.sum().backward()
    assert not y.numpy()[0].any() and y.numpy()[1].any()
    assert np.isfinite(x.grad.numpy()).all() and np.isfinite(attention.in_proj_weight.grad.numpy()).all()


def test_masks_of_wrong_shapes_say_what_would_fit() -> None:
    attention = nn.MultiheadAttention(4, 2)
    x = wg.zeros((5, 3, 4))
    with pytest.raises(
        wg.errors.ShapeError, match=r"attn_mask must have shape \(5, 5\) or \(6, 5, 5\); its shape is \(5, 4\)"
    ):
        attention(x, x, x, attn_mask=wg.zeros((5, 4)))
    with pytest.raises(wg.errors.ShapeError, match=r"key_padding_mask must have shape \(3, 5\); its shape is \(5, 3\)"):
        attention(x, x, x, key_padding_mask=wg.zeros((5, 3)))
    with pytest.raises(wg.errors.ShapeError, match=r"query, key and value must have \(4, 4, 4\) features"):
        attention(x, wg.zeros((5, 3, 2)), x)


def _rotated(x: np.ndarray[Any, Any], positions: np.ndarray[Any, Any], interleaved: bool) -> np.ndarray[Any, Any]:
    """Rotary positions as complex numbers: pair j times exp(i * position * 10000 ** (-2j / dim))."""
    dim = x.shape[-1]
    turn = np.exp(1j * positions[:, None] * 10000.0 ** (-2 * np.arange(dim // 2) / dim))
    if interleaved:
        z = (x[..., ::2] + 1j * x[..., 1::2]) * turn
        return np.stack([z.real, z.imag], -1).reshape(x.shape)
    z = (x[..., : dim // 2] + 1j * x[..., dim // 2 :]) * turn
    return np.concatenate([z.real, z.imag], -1)


@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("start", [0, 7])
def test_rotary_positions_turn_pairs(interleaved: bool, start: int) -> None:
    x = np.random.default_rng(0).normal(size=(2, 3, 5, 8))
    positions = np.arange(5) + start
    rotary = nn.RotaryEmbedding(8, interleaved=interleaved)
    found = rotary(wg.tensor(x), wg.tensor(positions)) if start else rotary(wg.tensor(x))
    np.testing.assert_allclose(found.numpy(), _rotated(x, positions, interleaved), atol=1e-12)


def test_rotary_products_depend_on_distance_only() -> None:
    rotary = nn.RotaryEmbedding(6)
    q, k = (wg.random.normal((1, 6), dtype=wg.float64) for _ in range(2))
    near = wg.sum(rotary(q, [3]) * rotary(k, [1])).item()
    far = wg.sum(rotary(q, [13]) * rotary(k, [11])).item()
    assert math.isclose(near, far, rel_tol=1e-9)


def test_rotary_positions_of_half_precision_are_turned_in_float32() -> None:
    x = wg.ones((1, 3000, 4), dtype=wg.bfloat16)
    found = nn.RotaryEmbedding(4)(x)
    assert found.dtype == wg.bfloat16
    expected = _rotated(np.ones((1, 3000, 4)), np.arange(3000), False)
    np.testing.assert_allclose(found.to(wg.float32).numpy(), expected, atol=0.01)


def test_rotary_positions_refuse_odd_sizes() -> None:
    with pytest.raises(wg.errors.ArgumentError, match="dim must be even"):
        nn.RotaryEmbedding(5)
    with pytest.raises(wg.errors.ShapeError, match=r"\(\.\.\., length, 4\)"):
        nn.RotaryEmbedding(4)(wg.zeros((2, 6)))


# --- recurrent ------------------------------------------------------------------------------------------------------


def test_a_longer_sequence_records_no_more() -> None:
    model = nn.LSTM(3, 4, 2)

    def nodes(steps: int) -> int:
        outputs, _ = model(wg.zeros((steps, 2, 3)))
        return len(wg.graph.ancestors([outputs.node]))

    assert nodes(500) == nodes(5)


def test_recurrent_layers_say_what_input_and_state_they_take() -> None:
    with pytest.raises(wg.errors.ShapeError, match=r"\(steps, batch, 3\).*its shape is \(5, 2, 4\)"):
        nn.GRU(3, 4)(wg.zeros((5, 2, 4)))
    with pytest.raises(wg.errors.ShapeError, match=r"the state must be \[\(1, 2, 4\)\], but got \[\(1, 3, 4\)\]"):
        nn.GRU(3, 4)(wg.zeros((5, 2, 3)), wg.zeros((1, 3, 4)))
    with pytest.raises(wg.errors.ShapeError, match=r"the input must be \(batch, 3\) or \(3,\)"):
        nn.LSTMCell(3, 4)(wg.zeros((2, 4)))
    with pytest.raises(wg.errors.ArgumentError, match="nonlinearity"):
        nn.RNN(3, 4, nonlinearity="sigmoid")
    with pytest.raises(wg.errors.ArgumentError, match="proj_size must be less than hidden_size 4"):
        nn.LSTM(3, 4, proj_size=4)


# --- arguments and shapes -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: nn.Conv2d(3, 4, 3, groups=2), "in_channels 3 does not divide into 2 groups"),
        (lambda: nn.Conv2d(4, 4, 3, padding_mode="mirror"), "padding_mode is one of"),
        (lambda: nn.GroupNorm(3, 4), "4 channels do not divide into 3 groups"),
        (lambda: nn.MultiheadAttention(5, 2), "5 features do not divide into 2 heads"),
        (lambda: nn.TransformerEncoderLayer(4, 2, activation="swish"), '"relu", "gelu" or a function'),
        (lambda: nn.init.calculate_gain("swish"), "no gain for 'swish'"),
        (lambda: nn.init.kaiming_normal_(wg.zeros((2, 2)), mode="fan"), '"fan_in" or "fan_out"'),
    ],
)
def test_arguments_that_make_no_sense(make: Any, message: str) -> None:
    with pytest.raises(wg.errors.ArgumentError, match=message):
        make()


@pytest.mark.parametrize(
    "layer, shape, message",
    [
        (nn.Linear(4, 2), (3, 5), r"the last axis of the input must have 4 features; its shape is \(3, 5\)"),
        (nn.Bilinear(2, 3, 1), (3, 2), r"all axes except the last must agree"),
        (nn.BatchNorm1d(4), (3, 4, 5, 6), r"BatchNorm1d takes 2 or 3 axes; the input's shape is \(3, 4, 5, 6\)"),
        (nn.PReLU(3), (2, 4), r"3 slopes for 4 channels"),
        (nn.Unflatten(2, (2, 2)), (4, 4), r"axis 2 is out of range for shape \(4, 4\)"),
    ],
)
def test_inputs_that_do_not_fit(layer: Any, shape: tuple[int, ...], message: str) -> None:
    more = [wg.zeros((4, 3))] if isinstance(layer, nn.Bilinear) else []
    with pytest.raises(wg.errors.ShapeError, match=message):
        layer(wg.zeros(shape), *more)


def test_a_transposed_convolution_says_which_sizes_it_can_give() -> None:
    with pytest.raises(wg.errors.ShapeError, match=r"can produce sizes \(9,\) to \(10,\), not \(12,\)"):
        nn.ConvTranspose1d(1, 1, 3, stride=2)(wg.zeros((1, 1, 4)), output_size=12)


def test_an_embedding_from_a_table() -> None:
    table = np.arange(6.0).reshape(3, 2)
    made = nn.Embedding.from_pretrained(table)
    assert made(wg.tensor([2])).tolist() == [[4.0, 5.0]] and not made.weight.requires_grad
    assert nn.Embedding.from_pretrained(table, freeze=False).weight.requires_grad


def test_padding_row_begins_as_zeros() -> None:
    weight = nn.Embedding(4, 3, padding_idx=-2).weight.detach().numpy()
    assert not weight[2].any() and weight[1].all()


def test_softmax_without_an_axis_takes_torchs() -> None:
    x = wg.random.normal((2, 3, 4))
    np.testing.assert_allclose(nn.Softmax()(x).numpy().sum(0), 1, rtol=1e-5)
    np.testing.assert_allclose(nn.LogSoftmax()(x[0]).numpy(), wg.log_softmax(x[0], axis=1).numpy())


def test_the_mask_of_later_positions() -> None:
    assert nn.Transformer.generate_square_subsequent_mask(2).tolist() == [[0.0, -math.inf], [0.0, 0.0]]


# --- through the transforms -----------------------------------------------------------------------------------------


def test_layers_go_through_vmap_and_jvp() -> None:
    model = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.LayerNorm(5))
    x = wg.random.normal((4, 3))
    np.testing.assert_allclose(wg.vmap(model)(x).detach().numpy(), model(x).detach().numpy(), atol=1e-6)
    _, tangent = wg.jvp(model, (x,), (wg.ones((4, 3)),))
    step = 1e-3
    difference = (model(x + step) - model(x - step)).detach().numpy() / (2 * step)
    np.testing.assert_allclose(tangent.detach().numpy(), difference, atol=2e-3)


def test_batch_norm_counts_inside_scan() -> None:
    norm = nn.BatchNorm1d(2)
    wg.scan(lambda carry, x: (carry, norm(x)), (), wg.random.normal((5, 4, 2)))
    assert norm.num_batches_tracked.item() == 5


def test_running_statistics_are_not_differentiated() -> None:
    norm = nn.BatchNorm1d(2)
    norm(wg.random.normal((4, 2)).requires_grad_())
    assert not norm.running_mean.requires_grad and not norm.num_batches_tracked.requires_grad


def test_layers_in_half_precision_give_half_precision() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.GELU()).to(wg.bfloat16)
    assert model(wg.ones((2, 4), dtype=wg.bfloat16)).dtype == wg.bfloat16
