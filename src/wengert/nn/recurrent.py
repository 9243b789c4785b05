"""Recurrent layers: RNN, LSTM, GRU.

The products with the inputs are one matrix product for all steps; what depends on the state is a `scan` over `cells`'
step, recorded once whatever the length. The parameters are PyTorch's: for each layer and direction `weight_ih`,
`weight_hh` and two biases.
"""

from __future__ import annotations

import math
from typing import Any

import wengert as wg
from wengert.nn import init
from wengert.nn.cells import Step, affine, check_nonlinearity, gru_step, lstm_step, rnn_step
from wengert.nn.linear import new_parameter
from wengert.nn.module import Module
from wengert.nn.sequences import PackedSequence


class _Recurrent(Module):
    """Layers of scans, in one direction or both. A subclass gives the number of gates and the step."""

    gates: int

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int,
        bias: bool,
        batch_first: bool,
        dropout: float,
        bidirectional: bool,
        proj_size: int,
        device: Any,
        dtype: Any,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        if num_layers < 1 or hidden_size < 1:
            raise wg.errors.ArgumentError(f"{name}: num_layers and hidden_size must be at least 1")
        if not 0 <= dropout <= 1:
            raise wg.errors.ArgumentError(f"{name}: dropout must be a probability between 0 and 1, not {dropout!r}")
        if not 0 <= proj_size < hidden_size:
            raise wg.errors.ArgumentError(
                f"{name}: proj_size must be less than hidden_size {hidden_size}, not {proj_size}"
            )
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = dropout
        self.bidirectional = bidirectional
        self.proj_size = proj_size
        for layer in range(num_layers):
            for direction in range(2 if bidirectional else 1):
                for part, shape in self._shapes(layer).items():
                    setattr(self, self._name(part, layer, direction), new_parameter(shape, dtype, device))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters anew, uniform within 1 / sqrt(hidden_size)."""
        bound = 1 / math.sqrt(self.hidden_size)
        for parameter in self.parameters():
            init.uniform_(parameter, -bound, bound)

    def _shapes(self, layer: int) -> dict[str, tuple[int, ...]]:
        rows, out = self.gates * self.hidden_size, self.proj_size or self.hidden_size
        directions = 2 if self.bidirectional else 1
        shapes: dict[str, tuple[int, ...]] = {
            "weight_ih": (rows, self.input_size if layer == 0 else directions * out),
            "weight_hh": (rows, out),
        }
        if self.bias:
            shapes |= {"bias_ih": (rows,), "bias_hh": (rows,)}
        if self.proj_size:
            shapes["weight_hr"] = (self.proj_size, self.hidden_size)
        return shapes

    def _name(self, part: str, layer: int, direction: int) -> str:
        return f"{part}_l{layer}{'_reverse' if direction else ''}"

    def _parameter(self, part: str, layer: int, direction: int) -> Any:
        return self.__dict__.get(self._name(part, layer, direction))

    def _step(self, layer: int, direction: int) -> Step:
        """The step function of one layer and direction."""
        raise wg.errors.ArgumentError(f"{type(self).__name__} has no step")

    def _pack(self, states: list[Any]) -> Any:
        """The states of all layers and directions as the caller gets them."""
        return wg.stack(states, axis=0)

    def _unpack(self, hx: Any, index: int) -> Any:
        """The initial state of one layer and direction."""
        return hx[index]

    def _zeros(self, batch: int, dtype: Any, device: str) -> Any:
        count = self.num_layers * (2 if self.bidirectional else 1)
        return wg.zeros((count, batch, self.proj_size or self.hidden_size), dtype=dtype, device=device)

    def forward(self, input: Any, hx: Any = None) -> tuple[Any, Any]:
        """The last layer's outputs at every step and the final state of every layer and direction.

        The input is (steps, batch, features), with `batch_first` (batch, steps, features), or (steps, features); or a
        PackedSequence, and so are the outputs then.
        """
        if isinstance(input, PackedSequence):
            self._check_input(input.padded)
            output, state = self._run(input.padded, hx, input.mask())
            return PackedSequence(output, input.lengths), state
        self._check_input(input)
        if input.ndim == 2:
            output, state = self._run(wg.expand_dims(input, 1), wg.tree.map(lambda h: wg.expand_dims(h, 1), hx))
            return wg.squeeze(output, 1), wg.tree.map(lambda h: wg.squeeze(h, 1), state)
        if not self.batch_first:
            return self._run(input, hx)
        output, state = self._run(wg.swapaxes(input, 0, 1), hx)
        return wg.swapaxes(output, 0, 1), state

    def _check_input(self, input: wg.Tensor) -> None:
        if input.ndim not in (2, 3) or input.shape[-1] != self.input_size:
            raise wg.errors.ShapeError(
                f"{type(self).__name__}: the input must be (steps, batch, {self.input_size}), with batch_first "
                f"(batch, steps, {self.input_size}), or (steps, {self.input_size}); its shape is {input.shape}"
            )

    def _run(self, x: wg.Tensor, hx: Any, mask: wg.Tensor | None = None) -> tuple[wg.Tensor, Any]:
        dtype = wg.result_type(x, self.weight_ih_l0)
        zeros = self._zeros(x.shape[1], dtype, x.device)
        hx = zeros if hx is None else hx
        self._check_state(hx, zeros)
        states: list[Any] = []
        for layer in range(self.num_layers):
            if layer and self.dropout:
                x = wg.dropout(x, self.dropout, self.training)
            outputs = []
            for direction in range(2 if self.bidirectional else 1):
                start = self._unpack(hx, len(states))
                state, y = self._scan(x, start, mask, layer, direction)
                states.append(state)
                outputs.append(y)
            x = outputs[0] if len(outputs) == 1 else wg.concat(outputs, axis=-1)
        return x, self._pack(states)

    def _scan(
        self, x: wg.Tensor, start: Any, mask: wg.Tensor | None, layer: int, direction: int
    ) -> tuple[Any, wg.Tensor]:
        by_input = affine(
            x, self._parameter("weight_ih", layer, direction).T, self._parameter("bias_ih", layer, direction)
        )
        step = self._step(layer, direction)
        start = wg.tree.map(lambda part: part.to(by_input.dtype), start)  # under autocast that is lower

        def body(state: Any, now: Any) -> tuple[Any, wg.Tensor]:
            x_now, inside = now
            after = step(state, x_now)
            y = after[0] if isinstance(after, tuple) else after
            if inside is None:
                return after, y
            return wg.tree.map(lambda a, b: wg.where(inside, a, b), after, state), wg.where(inside, y, 0.0)

        return wg.scan(body, start, (by_input, mask), reverse=direction == 1)

    def _recurrent(self, layer: int, direction: int) -> tuple[wg.Tensor, wg.Tensor | None]:
        return self._parameter("weight_hh", layer, direction).T, self._parameter("bias_hh", layer, direction)

    def _check_state(self, hx: Any, zeros: Any) -> None:
        wanted = [leaf.shape for leaf in wg.tree.flatten(zeros)[0]]
        found = [leaf.shape for leaf in wg.tree.flatten(hx)[0]]
        if found != wanted:
            raise wg.errors.ShapeError(f"{type(self).__name__}: the state must be {wanted}, but got {found}")

    def count_flops(self, inputs: tuple[wg.Tensor, ...], output: Any) -> int:
        """The matrix products, for each step and sample."""
        given: Any = inputs[0]
        rows = (given.padded if isinstance(given, PackedSequence) else given).size // self.input_size
        return sum(2 * rows * parameter.size for parameter in self.parameters() if parameter.ndim == 2)

    def extra_repr(self) -> str:
        """The sizes and what differs from the default."""
        text = f"{self.input_size}, {self.hidden_size}"
        for name, default in (
            ("proj_size", 0),
            ("num_layers", 1),
            ("bias", True),
            ("batch_first", False),
            ("dropout", 0.0),
            ("bidirectional", False),
        ):
            if getattr(self, name) != default:
                text += f", {name}={getattr(self, name)}"
        return text


class RNN(_Recurrent):
    """`h = tanh(W_ih x + b_ih + W_hh h + b_hh)` at each step, in `num_layers` layers.

    >>> import wengert as wg
    >>> outputs, last = wg.nn.RNN(4, 8)(wg.zeros((5, 2, 4)))
    >>> outputs.shape, last.shape
    ((5, 2, 8), (1, 2, 8))
    """

    gates = 1

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        nonlinearity: str = "tanh",
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        self.nonlinearity = check_nonlinearity(nonlinearity)
        super().__init__(
            input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, 0, device, dtype
        )

    def _step(self, layer: int, direction: int) -> Step:
        return rnn_step(self.nonlinearity, *self._recurrent(layer, direction))


class LSTM(_Recurrent):
    """Long short-term memory. The state is a pair (h, c); with `proj_size`, h is mapped to that size at each step.

    >>> import wengert as wg
    >>> outputs, (h, c) = wg.nn.LSTM(4, 8, bidirectional=True)(wg.zeros((5, 2, 4)))
    >>> outputs.shape, h.shape, c.shape
    ((5, 2, 16), (2, 2, 8), (2, 2, 8))
    """

    gates = 4

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        proj_size: int = 0,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, proj_size, device, dtype
        )

    def _step(self, layer: int, direction: int) -> Step:
        projection = self._parameter("weight_hr", layer, direction)
        return lstm_step(*self._recurrent(layer, direction), None if projection is None else projection.T)

    def _zeros(self, batch: int, dtype: Any, device: str) -> Any:
        h = super()._zeros(batch, dtype, device)
        return h, wg.zeros((*h.shape[:2], self.hidden_size), dtype=dtype, device=device)

    def _unpack(self, hx: Any, index: int) -> Any:
        return hx[0][index], hx[1][index]

    def _pack(self, states: list[Any]) -> Any:
        return wg.stack([h for h, _ in states], axis=0), wg.stack([c for _, c in states], axis=0)


class GRU(_Recurrent):
    """Gated recurrent units.

    >>> import wengert as wg
    >>> packed = wg.nn.pack_sequence([wg.ones((3, 4)), wg.ones((1, 4))])
    >>> outputs, last = wg.nn.GRU(4, 8)(packed)
    >>> outputs.lengths.tolist(), last.shape
    ([3, 1], (1, 2, 8))
    """

    gates = 3

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional, 0, device, dtype
        )

    def _step(self, layer: int, direction: int) -> Step:
        return gru_step(*self._recurrent(layer, direction))
