"""Lines of everyday PyTorch programs that once gave something else here: functions of the module `t`."""

from __future__ import annotations

from typing import Any

import numpy as np


def text_of_numbers(t: Any) -> Any:
    return f"{t.tensor(3)}", f"{t.tensor([1.0, 2.0])[1]}", f"{t.ones(1)}", f"{t.tensor(2.345):.1f}"


def format_of_one_element(t: Any) -> Any:
    return f"{t.ones(1):.3f}"


def text_of_tensors(t: Any) -> Any:
    x = t.ones(2, requires_grad=True)
    return str(t.tensor([True])), str(t.arange(2000)), str(t.ones(1).bfloat16()), str(x * 2), str(x - 1)


def data_is_swapped(t: Any) -> Any:
    a, b = t.nn.Parameter(t.ones(2)), t.nn.Parameter(t.zeros(2))
    kept = a.data
    a.data = b.data
    b.data = kept
    return a, b


def data_is_restored(t: Any) -> Any:
    p = t.nn.Parameter(t.ones(2))
    backup = p.data
    p.data = p.data * 0.5
    averaged = p.detach().clone()
    p.data = backup
    return averaged, p


def layer_works_in_place(t: Any) -> Any:
    x = t.tensor([-1.0, 1.0])
    t.nn.ReLU(inplace=True)(x)
    return x


def layers_have_the_default_dtype(t: Any) -> Any:
    t.set_default_dtype(t.float64)
    try:
        made = t.nn.Linear(1, 1), t.nn.LSTM(1, 1), t.nn.Embedding(2, 2), t.nn.BatchNorm1d(1)
        return [str(next(layer.parameters()).dtype) for layer in made]
    finally:
        t.set_default_dtype(t.float32)


def losses_broadcast(t: Any) -> Any:
    return t.nn.functional.mse_loss(t.ones(2, 1), t.zeros(2)), t.nn.L1Loss(reduction="sum")(t.ones(3), t.zeros(1))


def bytes_wrap(t: Any) -> Any:
    x = t.tensor([3, 250], dtype=t.uint8)
    return x + 1000, x - 260, x < 1000, x == 259


def booleans_are_not_subtracted(t: Any) -> Any:
    return 1 - t.tensor([True])


def numbers_of_numpy_in_lists(t: Any) -> Any:
    return t.tensor([np.float64(1)]), t.tensor([np.float32(1), 2])


def sign_has_a_gradient_of_zero(t: Any) -> Any:
    x = t.ones(2, requires_grad=True)
    x.sign().sum().backward()
    return x.grad


def whole_numbers_are_filled_with_cut_ones(t: Any) -> Any:
    return t.tensor([1, 2]).masked_fill(t.tensor([True, False]), 1.5)


def types_by_their_classes(t: Any) -> Any:
    return t.ones(2).type(t.LongTensor)


def backward_returns_too_much(t: Any) -> Any:
    class Twice(t.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g, g

    return Twice.apply(t.ones(1, requires_grad=True)).backward()
