"""Convolution: what it says about arguments that do not fit, and float32 against torch at a larger size."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.core.errors import ArgumentError, DTypeError, ShapeError
from wengert.ops.convolve import CONVOLVE, CONVOLVE_INPUT, CONVOLVE_WEIGHT
from wengert.ops.core import data


def _random(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


X, W = wg.tensor(_random(2, 4, 8, 8)), wg.tensor(_random(6, 4, 3, 3))


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        ((X, wg.tensor(_random(6, 3, 3, 3))), {}, ShapeError, "has 4 channels; the weight .* takes 3"),
        ((X, wg.tensor(_random(6, 4, 9, 3))), {}, ShapeError, "has 8 elements and the kernel spans 9"),
        ((X, W), {"dilation": 4}, ShapeError, "the kernel spans 9"),
        ((X, W), {"padding": "full"}, ArgumentError, '"same" or "valid", not \'full\''),
        ((X, W), {"padding": "same", "stride": 2}, ArgumentError, "requires stride 1"),
        ((X, W), {"padding": -1}, ArgumentError, "padding must be at least 0"),
        ((X, W), {"stride": 0}, ArgumentError, "stride must be at least 1"),
        ((X, W), {"stride": (1, 2, 3)}, ArgumentError, "an integer or 2 of them"),
        ((X, W), {"stride": 1.5}, DTypeError, "stride must be an integer"),
        ((X, W), {"groups": 3}, ShapeError, "4 input channels do not divide into 3 groups"),
        ((X, wg.tensor(_random(6, 1, 3, 3))), {"groups": 4}, ShapeError, "6 output channels do not divide"),
        ((X, W), {"groups": 0}, ArgumentError, "at least 1"),
        ((X, W, wg.tensor(_random(4))), {}, ShapeError, r"6 output channels has shape \(6,\), not \(4,\)"),
        ((wg.tensor(_random(8, 8)), W), {}, ShapeError, r"\(N, C, H, W\) or, unbatched, \(C, H, W\)"),
        ((X, wg.tensor(_random(6, 4, 3))), {}, ShapeError, "the weight must be"),
        ((wg.tensor(np.ones((1, 4, 8, 8), np.int64)), W), {}, DTypeError, "floating-point"),
    ],
)
def test_conv2d_says_what_does_not_fit(
    arguments: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        wg.conv2d(*arguments, **options)


@pytest.mark.parametrize(
    ("shape", "options", "error", "message"),
    [
        ((3, 6, 3, 3), {}, ShapeError, "takes 3"),
        ((4, 6, 3, 3), {"output_padding": 1}, ArgumentError, "smaller than the stride 1 or the dilation 1"),
        ((4, 6, 3, 3), {"padding": 6}, ShapeError, "leaves nothing"),
        ((4, 6, 3, 3), {"groups": 3}, ShapeError, "do not divide into 3 groups"),
    ],
)
def test_conv_transpose2d_says_what_does_not_fit(
    shape: tuple[int, ...], options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        wg.conv_transpose2d(X, wg.tensor(_random(*shape)), **options)


@pytest.mark.parametrize(
    ("x_shape", "w_shape", "options"),
    [
        ((4, 8, 20, 17), (12, 8, 3, 3), {"padding": 1}),
        ((4, 3, 33, 33), (8, 3, 7, 7), {"stride": 2, "padding": 3}),
        ((4, 8, 20, 17), (8, 1, 3, 3), {"groups": 8, "padding": 1, "stride": 2}),
        ((4, 8, 20, 17), (16, 4, 3, 3), {"groups": 2, "dilation": 2}),
        ((600, 4, 12, 12), (4, 4, 3, 3), {}),  # more than one block of the batch
    ],
)
def test_conv2d_and_its_gradients_in_float32_against_torch(
    x_shape: tuple[int, ...], w_shape: tuple[int, ...], options: dict[str, Any]
) -> None:
    torch = pytest.importorskip("torch")
    x, w = _random(*x_shape), _random(*w_shape)
    tx, tw = torch.tensor(x, requires_grad=True), torch.tensor(w, requires_grad=True)
    expected = torch.nn.functional.conv2d(tx, tw, **options)
    seed = _random(*expected.shape)
    expected.backward(torch.tensor(seed))
    wx, ww = wg.tensor(x, requires_grad=True), wg.tensor(w, requires_grad=True)
    y = wg.conv2d(wx, ww, **options)
    y.backward(wg.tensor(seed))
    assert y.dtype == wx.grad.dtype == ww.grad.dtype == wg.float32
    for got, want in ((y, expected), (wx.grad, tx.grad), (ww.grad, tw.grad)):
        want = want.detach().numpy()
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-4, atol=1e-5 * np.abs(want).max())


def test_a_transposed_convolution_is_the_gradient_of_a_convolution() -> None:
    x, w = wg.tensor(_random(2, 3, 9, 9)), wg.tensor(_random(5, 3, 3, 3))
    y, pullback = wg.vjp(lambda v: wg.conv2d(v, w, stride=2, padding=1), x)
    g = wg.tensor(_random(*y.shape))
    np.testing.assert_allclose(
        wg.conv_transpose2d(g, w, stride=2, padding=1).numpy(), pullback(g)[0].numpy(), rtol=1e-5, atol=1e-5
    )


def test_the_three_primitives_are_one_form() -> None:
    """<y, convolve(x, w)> = <x, convolve_input(y, w)> = <w, convolve_weight(x, y)>, also where the padding crops."""
    x, w = data(_random(2, 4, 7, 9)), data(_random(6, 2, 3, 2))
    form = {"stride": (2, 3), "padding": ((2, -1), (-1, 3)), "dilation": (1, 2), "groups": 2}
    image = CONVOLVE(x, w, **form)
    y = data(_random(*image.shape))
    by_input = CONVOLVE_INPUT(y, w, sizes=(7, 9), **form)
    by_weight = CONVOLVE_WEIGHT(x, y, kernel=(3, 2), **form)
    products = [wg.sum(wg.Tensor(a) * wg.Tensor(b)).item() for a, b in ((y, image), (x, by_input), (w, by_weight))]
    np.testing.assert_allclose(products, products[:1] * 3, rtol=1e-4)


def test_torch_argument_names_work() -> None:
    assert wg.conv2d(input=X, weight=W).shape == (2, 6, 6, 6)


def test_the_reference_by_the_weight_works_on_few_images_at_a_time() -> None:
    """Not with a gradient for every image of the batch in memory."""
    x, y = np.ones((64, 128, 3, 3), np.float32), np.ones((64, 128, 3, 3), np.float32)
    form = {"stride": (1, 1), "padding": ((1, 1), (1, 1)), "dilation": (1, 1), "groups": 1}
    tracemalloc.start()
    CONVOLVE_WEIGHT.numpy(x, y, kernel=(3, 3), **form)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 32e6  # of one image 0.6 MB, of all 38 MB
