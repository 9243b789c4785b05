"""Sequences of different lengths: padded, packed, and through recurrent layers as each would go alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert import nn

LENGTHS = [2, 5, 1, 4]
FEATURES = 3
LAYERS = [
    (nn.RNN, {}),
    (nn.LSTM, {"bidirectional": True, "num_layers": 2}),
    (nn.LSTM, {"proj_size": 2}),
    (nn.GRU, {"bidirectional": True}),
]


def sequences() -> list[wg.Tensor]:
    rng = np.random.default_rng(0)
    return [wg.tensor(rng.normal(size=(n, FEATURES))) for n in LENGTHS]


def made(kind: Any, options: dict[str, Any]) -> Any:
    wg.manual_seed(0)
    return kind(FEATURES, 4, dtype=wg.float64, **options)


def loss_of(outputs: list[Any], states: Any) -> Any:
    return sum((y**2).sum() for y in outputs) + sum((s**3).sum() for s in wg.tree.flatten(states)[0])


def gradients(model: Any, loss: Any) -> list[np.ndarray[Any, Any]]:
    model.zero_grad()
    loss.backward()
    return [parameter.grad.detach().numpy() for parameter in model.parameters()]


@pytest.mark.parametrize(("kind", "options"), LAYERS)
def test_a_packed_batch_goes_as_each_sequence_alone(kind: Any, options: dict[str, Any]) -> None:
    model, xs = made(kind, options), sequences()
    alone = [model(x) for x in xs]
    expected = gradients(model, loss_of([y for y, _ in alone], [state for _, state in alone]))
    outputs, states = model(nn.pack_sequence(xs, enforce_sorted=False))
    for found, (y, _) in zip(nn.unpack_sequence(outputs), alone):
        np.testing.assert_allclose(found.detach().numpy(), y.detach().numpy(), rtol=1e-12)
    for k, (_, state) in enumerate(alone):
        for a, b in zip(wg.tree.flatten(states)[0], wg.tree.flatten(state)[0]):
            np.testing.assert_allclose(a.detach().numpy()[:, k], b.detach().numpy(), rtol=1e-12)
    padded, lengths = nn.pad_packed_sequence(outputs)
    assert lengths.tolist() == LENGTHS and not padded.detach().numpy()[2:, 0].any()
    for a, b in zip(gradients(model, loss_of([padded], states)), expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)


def test_a_compiled_function_takes_lengths_and_packed_sequences() -> None:
    model, xs = made(nn.LSTM, {"bidirectional": True}), nn.pad_sequence(sequences())

    @wg.compile
    def run(x: Any, lengths: Any) -> Any:
        return nn.pad_packed_sequence(model(nn.pack_padded_sequence(x, lengths, enforce_sorted=False))[0])[0]

    recordings = []
    for lengths in (LENGTHS, [5, 1, 2, 3], [1, 5, 1, 1]):
        packed = nn.pack_padded_sequence(xs, lengths, enforce_sorted=False)
        expected = nn.pad_packed_sequence(model(packed)[0])[0].detach().numpy()
        np.testing.assert_allclose(run(xs, wg.tensor(lengths)).detach().numpy(), expected, rtol=1e-12, atol=1e-14)
        (outputs, _) = wg.compile(model)(packed)
        assert isinstance(outputs, nn.PackedSequence)
        np.testing.assert_allclose(
            nn.pad_packed_sequence(outputs)[0].detach().numpy(), expected, rtol=1e-12, atol=1e-14
        )
        recordings.append(run.recordings)
    assert recordings[1] == recordings[2]


def test_padding_and_back() -> None:
    xs = sequences()
    for batch_first in (False, True):
        padded = nn.pad_sequence(xs, batch_first=batch_first, padding_value=7.0)
        assert padded.shape == ((4, 5, 3) if batch_first else (5, 4, 3))
        for a, b in zip(nn.unpad_sequence(padded, LENGTHS, batch_first=batch_first), xs, strict=True):
            np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())
        packed = nn.pack_padded_sequence(padded, wg.tensor(LENGTHS), batch_first=batch_first, enforce_sorted=False)
        again, lengths = nn.pad_packed_sequence(packed, batch_first, padding_value=7.0)
        np.testing.assert_array_equal(again.detach().numpy(), padded.detach().numpy())
        longer, _ = nn.pad_packed_sequence(packed, batch_first, total_length=9)
        assert longer.shape[1 if batch_first else 0] == 9 and lengths.tolist() == LENGTHS


def test_what_is_packed_is_as_long_as_the_longest() -> None:
    packed = nn.pack_padded_sequence(wg.ones((9, 2, 3)), [4, 2])
    assert packed.padded.shape == (4, 2, 3) and packed.batch_sizes.tolist() == [2, 2, 1, 1]


@pytest.mark.parametrize(("kind", "options"), LAYERS)
@pytest.mark.parametrize("enforce_sorted", [False, True])
def test_packed_sequences_are_torch_s(kind: Any, options: dict[str, Any], enforce_sorted: bool) -> None:
    torch = pytest.importorskip("torch", reason="torch is what packed sequences are compared with")
    rnn = torch.nn.utils.rnn
    ours, xs = made(kind, options), sequences()
    xs = sorted(xs, key=lambda x: -x.shape[0]) if enforce_sorted else xs
    theirs = getattr(torch.nn, kind.__name__)(FEATURES, 4, dtype=torch.float64, **options)
    theirs.load_state_dict({name: torch.tensor(value.detach().numpy()) for name, value in ours.state_dict().items()})
    packed = nn.pack_sequence(xs, enforce_sorted=enforce_sorted)
    expected = rnn.pack_sequence([torch.tensor(x.detach().numpy()) for x in xs], enforce_sorted=enforce_sorted)
    np.testing.assert_array_equal(packed.data.detach().numpy(), expected.data.detach().numpy())
    assert packed.batch_sizes.tolist() == expected.batch_sizes.tolist()
    if not enforce_sorted:
        assert packed.sorted_indices.tolist() == expected.sorted_indices.tolist()
        assert packed.unsorted_indices.tolist() == expected.unsorted_indices.tolist()
    outputs, states = ours(packed)
    their_outputs, their_states = theirs(expected)
    np.testing.assert_allclose(outputs.data.detach().numpy(), their_outputs.data.detach().numpy(), rtol=1e-10)
    flat = their_states if isinstance(their_states, tuple) else (their_states,)
    for a, b in zip(wg.tree.flatten(states)[0], flat, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-10)
    found = gradients(ours, loss_of([nn.pad_packed_sequence(outputs)[0]], states))
    ((rnn.pad_packed_sequence(their_outputs)[0] ** 2).sum() + sum((s**3).sum() for s in flat)).backward()
    for a, (_, b) in zip(found, theirs.named_parameters(), strict=True):
        np.testing.assert_allclose(a, b.grad.detach().numpy(), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: nn.pad_sequence([]), wg.errors.ArgumentError, "no sequences"),
        (lambda: nn.pad_sequence([wg.ones((2, 3)), wg.ones((2, 4))]), wg.errors.ShapeError, "first axis"),
        (lambda: nn.pack_padded_sequence(wg.ones((4, 2)), [1, 3]), wg.errors.ArgumentError, "enforce_sorted=False"),
        (lambda: nn.pack_padded_sequence(wg.ones((4, 2)), [5, 3]), wg.errors.ArgumentError, "from 1 to 4"),
        (lambda: nn.pack_padded_sequence(wg.ones((4, 2)), [2, 0]), wg.errors.ArgumentError, "from 1 to 4"),
        (lambda: nn.pack_padded_sequence(wg.ones((4, 2)), [2]), wg.errors.ShapeError, "for 2 sequences"),
        (
            lambda: nn.pad_packed_sequence(nn.pack_sequence([wg.ones(3)]), total_length=2),
            wg.errors.ArgumentError,
            "total_length 2",
        ),
        (lambda: nn.GRU(3, 4)(nn.pack_sequence([wg.ones((3, 2))])), wg.errors.ShapeError, r"its shape is \(3, 1, 2\)"),
    ],
)
def test_errors(call: Any, error: Any, message: str) -> None:
    with pytest.raises(error, match=message):
        call()
