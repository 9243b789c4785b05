"""The inverse short-time Fourier transform: against torch, back to the signal, derivatives; what cannot be undone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.core.errors import ArgumentError, ComputationError, DTypeError, ShapeError

RNG = np.random.default_rng(0)
SIGNAL = RNG.normal(size=(2, 24))
WINDOW = RNG.uniform(0.3, 1.0, 8)
FORMS: list[dict[str, Any]] = [
    {},
    {"hop_length": 3},
    {"hop_length": 4, "center": False},
    {"normalized": True},
    {"onesided": False},
    {"win_length": 6, "hop_length": 2},
]


def spectra(form: dict[str, Any]) -> wg.Tensor:
    window = WINDOW[: form.get("win_length", 8)]
    return wg.stft(wg.tensor(SIGNAL), 8, window=wg.tensor(window), **form)


@pytest.mark.parametrize("form", FORMS, ids=str)
def test_istft_is_torchs_and_gives_the_signal_back(form: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    window = WINDOW[: form.get("win_length", 8)]
    x = spectra(form)
    found = wg.istft(x, 8, window=wg.tensor(window), **form)
    expected = torch.istft(torch.tensor(x.numpy()), 8, window=torch.tensor(window), **form)
    np.testing.assert_allclose(found.numpy(), expected.numpy(), atol=1e-12)
    np.testing.assert_allclose(found.numpy(), SIGNAL[:, : found.shape[-1]], atol=1e-12)


@pytest.mark.parametrize("length", [10, 24, 30])
def test_istft_of_a_length(length: int) -> None:
    found = wg.istft(spectra({}), 8, window=wg.tensor(WINDOW), length=length).numpy()
    assert found.shape == (2, length)
    np.testing.assert_allclose(found[:, :24], SIGNAL[:, :length], atol=1e-12)
    assert not found[:, 28:].any()  # beyond the last piece


def test_derivatives_there_and_back() -> None:
    def filtered(x: wg.Tensor, window: wg.Tensor) -> wg.Tensor:
        found = wg.stft(x, 8, window=window)
        return wg.istft(found * wg.abs(found), 8, window=window)

    x, window = wg.tensor(SIGNAL[0, :12]), wg.tensor(WINDOW)
    wg.check_grads(filtered, (x, window), order=2)
    compiled = wg.compile(wg.grad(lambda x, w: filtered(x, w).sum()))
    expected = wg.grad(lambda x, w: filtered(x, w).sum())(x, window)
    np.testing.assert_allclose(compiled(x, window).numpy(), expected.numpy(), atol=1e-10)
    lanes = wg.vmap(lambda x: filtered(x, window))(wg.tensor(SIGNAL))
    np.testing.assert_allclose(lanes.numpy()[1], filtered(wg.tensor(SIGNAL[1]), window).numpy(), atol=1e-12)


def test_a_complex_signal_has_whole_spectra() -> None:
    torch = pytest.importorskip("torch")
    z = RNG.normal(size=16) + 1j * RNG.normal(size=16)
    found = wg.stft(wg.tensor(z), 8, hop_length=4)
    expected = torch.stft(torch.tensor(z), 8, hop_length=4, return_complex=True, window=torch.ones(8).double())
    np.testing.assert_allclose(found.numpy(), expected.numpy(), atol=1e-12)
    back = wg.istft(found, 8, hop_length=4, onesided=False, return_complex=True)
    np.testing.assert_allclose(back.numpy(), z, atol=1e-12)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: wg.stft(wg.ones(4), 16, center=False), ShapeError, "n_fft=16 samples does not fit into 4"),
        (lambda: wg.stft(wg.ones((1, 2, 30)), 8), ShapeError, r"\(batch, time\)"),
        (lambda: wg.stft(wg.ones(16), 8, window=wg.ones(7)), ShapeError, "the window has 8 elements"),
        (lambda: wg.stft(wg.ones(16), 8, win_length=9), ArgumentError, "from 1 to n_fft=8"),
        (lambda: wg.istft(wg.ones((5, 3)), 8), DTypeError, "spectra must be complex"),
        (lambda: wg.istft(wg.stft(wg.ones(16), 8), 10), ShapeError, r"spectra must be \(6, pieces\)"),
        (
            lambda: wg.istft(wg.stft(wg.ones(32), 8, 8, window=wg.windows.hann(8)), 8, 8, window=wg.windows.hann(8)),
            ComputationError,
            "no piece covers it",
        ),
        (lambda: wg.windows.gaussian(8, std=0.0), ArgumentError, "std must be positive"),
        (lambda: wg.hann_window(-1), ArgumentError, "not negative"),
        (lambda: wg.windows.exponential(8, center=2.0), ArgumentError, "pass sym=False"),
        (lambda: wg.windows.hann(8, dtype=wg.int64), DTypeError, "floating-point dtype"),
    ],
)
def test_what_does_not_fit_is_named(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()
