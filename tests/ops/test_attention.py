"""Attention and embedding: queries that may look nowhere, gradients, errors; float32 against torch at a larger size."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.core.errors import ArgumentError, ComputationError, DTypeError, OutOfRangeError, ShapeError


def _random(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float32)


def test_a_query_that_may_look_nowhere_gets_zeros_and_no_gradient() -> None:
    q, k, v = (wg.tensor(_random(2, 4), requires_grad=True) for _ in range(3))
    for mask in (wg.tensor([[True, True], [False, False]]), wg.tensor([[0.0, 0.0], [-math.inf, -math.inf]])):
        y = wg.scaled_dot_product_attention(q, k, v, mask)
        assert y.tolist()[1] == [0.0] * 4
        gradient = wg.grad(lambda x, m=mask: (wg.scaled_dot_product_attention(x, k, v, m) ** 2).sum())(q)
        assert np.isfinite(gradient.detach().numpy()).all()
        assert gradient.tolist()[1] == [0.0] * 4


def test_scores_of_any_size_do_not_overflow() -> None:
    q = wg.tensor([[1e10, 0.0]])
    assert wg.scaled_dot_product_attention(q, q, wg.tensor([[3.0]])).tolist() == [[3.0]]


def test_a_mask_and_causality_go_together() -> None:
    q, k, v = (wg.tensor(_random(3, 4)) for _ in range(3))
    allowed = np.array([[1, 1, 1], [1, 0, 1], [0, 1, 1]], bool)
    together = wg.scaled_dot_product_attention(q, k, v, wg.tensor(allowed), is_causal=True)
    at_once = wg.scaled_dot_product_attention(q, k, v, wg.tensor(np.tril(allowed)))
    np.testing.assert_allclose(together.numpy(), at_once.numpy(), rtol=1e-6)


def test_attention_and_its_gradients_in_float32_against_torch() -> None:
    torch = pytest.importorskip("torch")
    arrays = [_random(2, 6, 40, 16), _random(2, 2, 40, 16), _random(2, 2, 40, 12)]
    ours = [wg.tensor(a, requires_grad=True) for a in arrays]
    theirs = [torch.tensor(a, requires_grad=True) for a in arrays]
    y = wg.scaled_dot_product_attention(*ours, is_causal=True, enable_gqa=True)
    z = torch.nn.functional.scaled_dot_product_attention(*theirs, is_causal=True, enable_gqa=True)
    seed = _random(*y.shape)
    y.backward(wg.tensor(seed))
    z.backward(torch.tensor(seed))
    np.testing.assert_allclose(y.numpy(), z.detach().numpy(), rtol=1e-4, atol=1e-5)
    for a, b in zip(ours, theirs):
        np.testing.assert_allclose(a.grad.numpy(), b.grad.numpy(), rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("shapes", "options", "error", "message"),
    [
        (((3, 4), (3, 5), (3, 4)), {}, ShapeError, "the same number of features"),
        (((3, 4), (3, 4), (2, 4)), {}, ShapeError, "one value for each key"),
        (((4,), (3, 4), (3, 4)), {}, ShapeError, "each operand must be"),
        (((3, 4), (3, 4), (3, 4)), {"attn_mask": wg.ones((2, 3))}, ShapeError, "does not broadcast to the scores"),
        (((3, 4), (3, 4), (3, 4)), {"attn_mask": wg.tensor([1, 0, 1])}, DTypeError, "true where a query may attend"),
        (((3, 2, 4), (2, 2, 4), (2, 2, 4)), {"enable_gqa": True}, ShapeError, "3 query heads cannot share 2"),
        (((3, 2, 4), (2, 2, 4), (2, 2, 4)), {}, ShapeError, "do not broadcast"),
        (((3, 4), (3, 4), (3, 4)), {"dropout_p": 0.1}, ArgumentError, "dropout_p"),
    ],
)
def test_attention_says_what_does_not_fit(
    shapes: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        wg.scaled_dot_product_attention(*[wg.tensor(_random(*shape)) for shape in shapes], **options)


def test_padding_rows_get_no_gradient() -> None:
    weight = wg.tensor(_random(4, 2))
    indices = wg.tensor([0, 3, 1, 3])
    for padding in (3, -1):
        gradient = wg.grad(lambda w, p=padding: wg.embedding(indices, w, padding_idx=p).sum())(weight)
        assert gradient.tolist() == [[1.0, 1.0], [1.0, 1.0], [0.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize("wrong", [4, -1])
def test_embedding_names_a_row_that_is_not_there(wrong: int) -> None:
    weight = wg.tensor(_random(4, 2))
    with pytest.raises(OutOfRangeError, match=f"no row {wrong}"):
        wg.embedding(wg.tensor([0, wrong]), weight)
    with pytest.raises(ComputationError, match="out of bounds"):
        wg.embedding(wg.tensor([0, wrong]) + 0, weight).numpy()


def test_embedding_errors() -> None:
    with pytest.raises(DTypeError, match="row indices"):
        wg.embedding(wg.ones(2), wg.ones((3, 2)))
    with pytest.raises(ShapeError, match="rows, features"):
        wg.embedding(wg.tensor([0]), wg.ones(3))
    with pytest.raises(OutOfRangeError, match="padding_idx 3"):
        wg.embedding(wg.tensor([0]), wg.ones((3, 2)), padding_idx=3)


@pytest.mark.parametrize("dtype", [np.uint8, np.int8, np.int16, np.uint64])
def test_embedding_by_small_integers_into_many_rows(dtype: type) -> None:
    weight = wg.arange(600.0).reshape(300, 2)
    assert wg.embedding(wg.tensor(np.array([1, 2], dtype)), weight).tolist() == [[2.0, 3.0], [4.0, 5.0]]
