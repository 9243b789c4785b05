"""Linear layers, the initial values that they share with convolutions, and the table of embeddings."""

from __future__ import annotations

import math
from typing import Any

import wengert as wg
from wengert.nn import init
from wengert.nn.module import Module
from wengert.nn.parameter import Parameter


def new_parameter(shape: tuple[int, ...], dtype: Any = None, device: Any = None) -> Parameter:
    """A parameter of a shape, to be initialised."""
    return Parameter(wg.zeros(shape, dtype=dtype, device=device))


def init_weight_and_bias(weight: wg.Tensor, bias: wg.Tensor | None) -> None:
    """PyTorch's default for linear layers and convolutions: both uniform within 1 / sqrt(fan in)."""
    init.kaiming_uniform_(weight, a=math.sqrt(5))
    fan_in = init.fan_in_and_fan_out(weight)[0]
    if bias is not None:
        bound = 1 / math.sqrt(fan_in) if fan_in else 0.0
        init.uniform_(bias, -bound, bound)


class Linear(Module):
    """`input @ weight.T + bias` along the last axis; the weight is (out_features, in_features).

    >>> import wengert as wg
    >>> wg.nn.Linear(4, 3)(wg.zeros((2, 4))).shape
    (2, 3)
    """

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = new_parameter((out_features, in_features), dtype, device)
        self.bias = new_parameter((out_features,), dtype, device) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters anew."""
        init_weight_and_bias(self.weight, self.bias)

    def forward(self, input: wg.Tensor) -> wg.Tensor:
        """The input's last axis mapped from in_features to out_features."""
        if not input.ndim or input.shape[-1] != self.in_features:
            raise wg.errors.ShapeError(
                f"linear: the last axis of the input has {self.in_features} features, and its shape is {input.shape}"
            )
        return wg.linear(input, self.weight, self.bias)

    def count_flops(self, inputs: tuple[wg.Tensor, ...], output: Any) -> int:
        """A multiplication and an addition for each weight and row."""
        return 2 * self.in_features * output.size

    def extra_repr(self) -> str:
        """The sizes."""
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class Bilinear(Module):
    """`input1 @ weight[k] @ input2 + bias[k]` for each output k."""

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        self.weight = new_parameter((out_features, in1_features, in2_features), dtype, device)
        self.bias = new_parameter((out_features,), dtype, device) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters anew, uniform within 1 / sqrt(in1_features)."""
        bound = 1 / math.sqrt(self.in1_features)
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: wg.Tensor, input2: wg.Tensor) -> wg.Tensor:
        """(..., in1_features) and (..., in2_features) to (..., out_features)."""
        if input1.shape[:-1] != input2.shape[:-1]:
            raise wg.errors.ShapeError(
                f"bilinear: all axes but the last agree in both inputs; shapes are {input1.shape} and {input2.shape}"
            )
        y = wg.einsum("...i,oij,...j->...o", input1, self.weight, input2)
        return y if self.bias is None else y + self.bias

    def count_flops(self, inputs: tuple[wg.Tensor, ...], output: Any) -> int:
        """The products with the first input and then with the second."""
        return 2 * output.size * self.in2_features * (self.in1_features + 1)

    def extra_repr(self) -> str:
        """The sizes."""
        sizes = f"in1_features={self.in1_features}, in2_features={self.in2_features}, out_features={self.out_features}"
        return f"{sizes}, bias={self.bias is not None}"


class Embedding(Module):
    """A table of vectors, looked up by integers. The row `padding_idx` begins as zeros and is not learned.

    >>> import wengert as wg
    >>> wg.nn.Embedding(10, 4)(wg.tensor([[1, 2, 9]])).shape
    (1, 3, 4)
    """

    def __init__(
        self,
        num_embeddings: int,
        embedding_dim: int,
        padding_idx: int | None = None,
        *,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if padding_idx is not None and not -num_embeddings <= padding_idx < num_embeddings:
            raise wg.errors.OutOfRangeError(f"Embedding: padding_idx {padding_idx} is not one of {num_embeddings} rows")
        self.num_embeddings = num_embeddings
        self.embedding_dim = embedding_dim
        self.padding_idx = None if padding_idx is None else padding_idx % num_embeddings
        self.weight = new_parameter((num_embeddings, embedding_dim), dtype, device)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the vectors anew, normally distributed."""
        init.normal_(self.weight)
        if self.padding_idx is not None:
            with wg.no_grad():
                self.weight[self.padding_idx] = 0.0

    @classmethod
    def from_pretrained(cls, embeddings: Any, freeze: bool = True, padding_idx: int | None = None) -> Embedding:
        """An embedding with this table, which is not learned if `freeze`."""
        table = embeddings if isinstance(embeddings, wg.Tensor) else wg.tensor(embeddings)
        rows, features = table.shape
        made = cls(rows, features, padding_idx, dtype=table.dtype)
        made.weight.assign(table.detach())
        return made.requires_grad_(not freeze)

    def forward(self, input: wg.Tensor) -> wg.Tensor:
        """The vectors that the integers name, along a new last axis."""
        return wg.embedding(input, self.weight, self.padding_idx)

    def extra_repr(self) -> str:
        """The sizes."""
        padding = "" if self.padding_idx is None else f", padding_idx={self.padding_idx}"
        return f"{self.num_embeddings}, {self.embedding_dim}{padding}"
