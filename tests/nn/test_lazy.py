"""Lazy layers become the layers that their first input asks for, with torch's arguments."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import wengert as wg
from wengert.core.errors import ArgumentError, ShapeError

nn = wg.nn
SHAPES = {"1d": (2, 3, 8), "2d": (2, 3, 8, 7), "3d": (2, 3, 5, 4, 6)}
CASES = [
    ("LazyLinear", (4,), (5, 3)),
    *[(f"LazyConv{rank}", (4, 3), shape) for rank, shape in SHAPES.items()],
    *[(f"LazyConvTranspose{rank}", (4, 3), shape) for rank, shape in SHAPES.items()],
    *[(f"LazyBatchNorm{rank}", (), shape) for rank, shape in SHAPES.items()],
    *[(f"LazyInstanceNorm{rank}", (1e-4, 0.2, True, True), shape) for rank, shape in SHAPES.items()],
]


@pytest.mark.parametrize(("name", "args", "shape"), CASES)
def test_a_lazy_layer_becomes_the_layer_of_its_first_input(name: str, args: Any, shape: tuple[int, ...]) -> None:
    plain = getattr(nn, name.removeprefix("Lazy"))
    wg.manual_seed(3)
    lazy = getattr(nn, name)(*args, dtype=wg.float64)
    assert lazy.has_uninitialized_params() and not list(lazy.parameters())
    x = wg.tensor(np.random.default_rng(0).normal(size=shape))
    found = lazy(x)
    wg.manual_seed(3)
    expected = plain(3, *args, dtype=wg.float64)
    assert type(lazy) is plain and repr(lazy) == repr(expected)
    np.testing.assert_array_equal(found.detach().numpy(), expected(x).detach().numpy())
    np.testing.assert_array_equal(lazy(x).detach().numpy(), expected(x).detach().numpy())
    assert list(lazy.state_dict()) == list(expected.state_dict())


@pytest.mark.parametrize("name", sorted({name for name, _, _ in CASES}))
def test_arguments_are_torchs(name: str) -> None:
    torch = pytest.importorskip("torch")
    ours, theirs = (inspect.signature(getattr(library.nn, name)).parameters for library in (wg, torch))
    assert [(p.name, p.default) for p in ours.values()] == [(p.name, p.default) for p in theirs.values()]


def test_a_model_of_lazy_layers_is_called_once_and_then_trained() -> None:
    model = nn.Sequential(nn.LazyConv1d(4, 3), nn.LazyBatchNorm1d(), nn.Flatten(), nn.LazyLinear(2)).eval()
    x = wg.random.normal((5, 3, 8))
    with pytest.raises(ArgumentError, match="call the model once before"):
        wg.compile(model)(x)
    model(x)
    assert [type(layer).__name__ for layer in model] == ["Conv1d", "BatchNorm1d", "Flatten", "Linear"]
    assert not model[1].training
    model.train()
    optimizer = wg.optim.SGD(model.parameters(), lr=0.1)

    @wg.compile
    def step(x: wg.Tensor) -> wg.Tensor:
        optimizer.zero_grad()
        loss = (model(x) ** 2).mean()
        loss.backward()
        optimizer.step()
        return loss

    losses = [step(x).item() for _ in range(5)]
    assert losses[-1] < losses[0]


def test_inputs_that_do_not_fit() -> None:
    with pytest.raises(ShapeError, match=r"LazyConv2d takes 3 or 4 axes; the input's shape is \(2, 3\)"):
        nn.LazyConv2d(4, 3)(wg.zeros((2, 3)))
    with pytest.raises(ShapeError, match="LazyBatchNorm2d takes 4 axes"):
        nn.LazyBatchNorm2d()(wg.zeros((2, 3)))
    assert "LazyLinear(4, bias=True" in repr(nn.LazyLinear(4))
