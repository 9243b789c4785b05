"""Recurrent cells: one step of an RNN, an LSTM or a GRU, as functions that the layers scan, and as modules.

A step takes the state and the product of the weights with the input, and gives the new state. The gates' rows stand one
after the other, as in PyTorch (LSTM: input, forget, cell, output; GRU: reset, update, new).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import wengert as wg
from wengert.nn import init
from wengert.nn.linear import new_parameter
from wengert.nn.module import Module

Step = Callable[[Any, wg.Tensor], Any]


def rnn_step(nonlinearity: str, recurrent: wg.Tensor, bias: wg.Tensor | None) -> Step:
    """One step of an RNN: (state, product with the input) to the new state."""
    activation = wg.tanh if nonlinearity == "tanh" else wg.relu
    return lambda h, x: activation(x + affine(h, recurrent, bias))


def lstm_step(recurrent: wg.Tensor, bias: wg.Tensor | None, projection: wg.Tensor | None = None) -> Step:
    """One step of an LSTM: ((h, c), product with the input) to the new pair."""

    def step(state: Any, x: wg.Tensor) -> Any:
        h, c = state
        i, f, g, o = wg.chunk(x + affine(h, recurrent, bias), 4, axis=-1)
        c = wg.sigmoid(f) * c + wg.sigmoid(i) * wg.tanh(g)
        h = wg.sigmoid(o) * wg.tanh(c)
        return (h if projection is None else h @ projection), c

    return step


def gru_step(recurrent: wg.Tensor, bias: wg.Tensor | None) -> Step:
    """One step of a GRU; the reset gate acts after the product with the state, as in PyTorch."""

    def step(h: Any, x: wg.Tensor) -> Any:
        reset_x, update_x, new_x = wg.chunk(x, 3, axis=-1)
        reset_h, update_h, new_h = wg.chunk(affine(h, recurrent, bias), 3, axis=-1)
        update = wg.sigmoid(update_x + update_h)
        new = wg.tanh(new_x + wg.sigmoid(reset_x + reset_h) * new_h)
        return new + update * (h - new)

    return step


def affine(x: wg.Tensor, weight: wg.Tensor, bias: wg.Tensor | None) -> wg.Tensor:
    """`x @ weight + bias`."""
    y = x @ weight
    return y if bias is None else y + bias.to(y.dtype)  # which autocast may have lowered


def check_nonlinearity(nonlinearity: str) -> str:
    """The name of an RNN's activation; raises if it is none."""
    if nonlinearity not in ("tanh", "relu"):
        raise wg.errors.ArgumentError(f'RNN: nonlinearity is "tanh" or "relu", not {nonlinearity!r}')
    return nonlinearity


class _Cell(Module):
    """One step; the input is (batch, features) or (features,)."""

    gates: int

    def __init__(
        self, input_size: int, hidden_size: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        rows = self.gates * hidden_size
        self.weight_ih = new_parameter((rows, input_size), dtype, device)
        self.weight_hh = new_parameter((rows, hidden_size), dtype, device)
        self.register_parameter("bias_ih", new_parameter((rows,), dtype, device) if bias else None)
        self.register_parameter("bias_hh", new_parameter((rows,), dtype, device) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters anew, uniform within 1 / sqrt(hidden_size)."""
        bound = 1 / math.sqrt(self.hidden_size) if self.hidden_size else 0.0
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def _by_input(self, input: wg.Tensor) -> wg.Tensor:
        if input.ndim not in (1, 2) or input.shape[-1] != self.input_size:
            raise wg.errors.ShapeError(
                f"{type(self).__name__}: the input is (batch, {self.input_size}) or ({self.input_size},); "
                f"its shape is {input.shape}"
            )
        return affine(input, self.weight_ih.T, self.bias_ih)

    def _start(self, input: wg.Tensor, state: Any) -> tuple[Any, wg.Tensor]:
        """What a step takes: the state, and the product with the input, whose dtype (under autocast) it has."""
        by_input = self._by_input(input)
        return wg.tree.map(lambda part: part.to(by_input.dtype), state), by_input

    def _zeros(self, input: wg.Tensor) -> wg.Tensor:
        dtype = wg.result_type(input, self.weight_ih)
        return wg.zeros((*input.shape[:-1], self.hidden_size), dtype=dtype, device=input.device)

    def count_flops(self, inputs: tuple[wg.Tensor, ...], output: Any) -> int:
        """Both matrix products."""
        return 2 * (inputs[0].size // self.input_size) * (self.weight_ih.size + self.weight_hh.size)

    def extra_repr(self) -> str:
        """The sizes."""
        return f"{self.input_size}, {self.hidden_size}" + (", bias=False" if self.bias_ih is None else "")


class RNNCell(_Cell):
    """One step of an RNN: the new state from an input and a state (zeros if not given).

    >>> import wengert as wg
    >>> wg.nn.RNNCell(3, 5)(wg.ones((2, 3))).shape
    (2, 5)
    """

    gates = 1

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        bias: bool = True,
        nonlinearity: str = "tanh",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(input_size, hidden_size, bias, device, dtype)
        self.nonlinearity = check_nonlinearity(nonlinearity)

    def forward(self, input: wg.Tensor, hx: wg.Tensor | None = None) -> wg.Tensor:
        """The new state."""
        step = rnn_step(self.nonlinearity, self.weight_hh.T, self.bias_hh)
        return step(*self._start(input, self._zeros(input) if hx is None else hx))


class LSTMCell(_Cell):
    """One step of an LSTM: the new (h, c) from an input and a pair (zeros if not given).

    >>> import wengert as wg
    >>> h, c = wg.nn.LSTMCell(3, 5)(wg.ones((2, 3)))
    >>> h.shape, c.shape
    ((2, 5), (2, 5))
    """

    gates = 4

    def forward(self, input: wg.Tensor, hx: Any = None) -> tuple[wg.Tensor, wg.Tensor]:
        """The new state and cell."""
        state = (self._zeros(input), self._zeros(input)) if hx is None else hx
        return lstm_step(self.weight_hh.T, self.bias_hh)(*self._start(input, state))


class GRUCell(_Cell):
    """One step of a GRU: the new state from an input and a state (zeros if not given).

    >>> import wengert as wg
    >>> wg.nn.GRUCell(3, 5)(wg.ones((2, 3))).shape
    (2, 5)
    """

    gates = 3

    def forward(self, input: wg.Tensor, hx: wg.Tensor | None = None) -> wg.Tensor:
        """The new state."""
        state = self._zeros(input) if hx is None else hx
        return gru_step(self.weight_hh.T, self.bias_hh)(*self._start(input, state))
