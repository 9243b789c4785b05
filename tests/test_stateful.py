"""Dropout in its forms: what is dropped, what is kept, its gradient, its edge cases."""

from __future__ import annotations

import numpy as np
import pytest

import wengert as wg
from wengert.api.random import Generator
from wengert.core.errors import ArgumentError, DTypeError, ShapeError

FORMS = {
    "dropout": (8,),
    "dropout1d": (2, 3, 4),
    "dropout2d": (2, 3, 4, 5),
    "dropout3d": (2, 3, 4, 5, 2),
    "alpha_dropout": (8,),
}
every_form = pytest.mark.parametrize(("name", "shape"), FORMS.items())


def ones(shape, dtype=np.float32):
    return wg.tensor(np.ones(shape, dtype))


def test_dropout_drops_with_probability_p_and_keeps_the_mean():
    y = wg.dropout(ones(20_000), 0.3, generator=Generator(1)).numpy()
    assert abs((y == 0).mean() - 0.3) < 0.02
    np.testing.assert_allclose(y[y != 0], 1 / 0.7, rtol=1e-6)


def test_the_gradient_passes_where_the_value_did():
    x = wg.tensor(np.full(100, 3.0), requires_grad=True)
    y = wg.dropout(x, 0.5, generator=Generator(1))
    kept = y.detach().numpy() != 0
    y.sum().backward()
    assert (x.grad.numpy() == np.where(kept, 2.0, 0.0)).all()


@every_form
def test_each_call_drops_others_and_a_seed_the_same(name, shape):
    drop, shape = getattr(wg, name), (64, *shape)[: len(shape)]
    wg.manual_seed(1)
    first, second = drop(ones(shape)).tolist(), drop(ones(shape)).tolist()
    wg.manual_seed(1)
    assert first != second and drop(ones(shape)).tolist() == first


@every_form
@pytest.mark.parametrize("dtype", [wg.float64, wg.float32, wg.float16, wg.bfloat16])
def test_dtypes_are_kept(name, shape, dtype):
    y = getattr(wg, name)(ones(shape).to(dtype), 0.5)
    assert y.dtype is dtype and y.numpy().shape == shape


@every_form
def test_nothing_is_dropped_when_not_training_or_with_p_0(name, shape):
    x, generator = ones(shape), Generator(1)
    drop = getattr(wg, name)
    assert drop(x, 0.5, training=False, generator=generator) is x
    assert drop(x, 0.0, generator=generator) is x
    assert generator.counter.item() == 0


@every_form
def test_everything_is_dropped_with_p_1(name, shape):
    x = wg.tensor(np.full(shape, np.nan), requires_grad=True)
    y = getattr(wg, name)(x, 1)
    assert (y.detach().numpy() == 0).all()
    y.sum().backward()
    assert (x.grad.numpy() == 0).all()


@pytest.mark.parametrize(("name", "axes"), [("dropout1d", 1), ("dropout2d", 2), ("dropout3d", 3)])
@pytest.mark.parametrize("batch", [(), (40,)])
def test_whole_channels_are_dropped(name, axes, batch):
    y = getattr(wg, name)(ones((*batch, 50, *(4,) * axes)), 0.5, generator=Generator(1)).numpy()
    channels = y.reshape(-1, 4**axes)
    assert set(channels[:, 0].tolist()) == {0.0, 2.0}
    assert (channels == channels[:, :1]).all()


def test_alpha_dropout_keeps_mean_and_variance():
    x = wg.random.normal((50_000,), dtype=wg.float64, generator=Generator(1))
    y = wg.alpha_dropout(x, 0.2, generator=Generator(2)).numpy()
    assert abs(y.mean()) < 0.02 and abs(y.std() - 1) < 0.02
    counts = np.unique(y, return_counts=True)[1]
    assert abs(counts.max() / y.size - 0.2) < 0.01  # the dropped ones share one value
    torch = pytest.importorskip("torch")
    dropped = torch.nn.functional.alpha_dropout(torch.zeros(100, dtype=torch.float64), 0.2, training=True).min().item()
    zeros = wg.alpha_dropout(wg.tensor(np.zeros(100)), 0.2).numpy()
    np.testing.assert_allclose(zeros.min(), dropped, rtol=1e-6)


def test_lanes_drop_others():
    rows = wg.vmap(lambda row: wg.dropout(row, 0.5))(ones((4, 64))).numpy()
    assert len({tuple(row) for row in rows.tolist()}) == 4


def test_arrays_and_empty_tensors_are_taken():
    assert wg.dropout(np.ones(4)).dtype is wg.float64
    assert wg.dropout(ones((0, 3))).numpy().shape == (0, 3)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: wg.dropout(ones(3), 1.5), ArgumentError, "dropout: p is 1.5; the drop probability"),
        (lambda: wg.dropout(ones(3), -0.1), ArgumentError, "between 0 and 1"),
        (lambda: wg.dropout(ones(3), float("nan")), ArgumentError, "between 0 and 1"),
        (lambda: wg.dropout(ones(3), "half"), ArgumentError, "between 0 and 1"),
        (lambda: wg.dropout(wg.tensor([1, 2])), DTypeError, "dropout takes floating-point values, not int64"),
        (lambda: wg.dropout2d(ones((3, 4))), ShapeError, r"dropout2d takes 3 or 4 axes; the shape is \(3, 4\)"),
    ],
)
def test_mistakes_say_what_is_wrong(call, error, message):
    with pytest.raises(error, match=message):
        call()
