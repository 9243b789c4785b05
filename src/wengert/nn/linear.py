"""Linear layers, and the initial values that they share with convolutions."""

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
        self.register_parameter("bias", new_parameter((out_features,), dtype, device) if bias else None)
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
    """`input1 @ weight[k] @ input2 + bias[k]` for each output k.

    >>> import wengert as wg
    >>> wg.nn.Bilinear(2, 3, 4)(wg.ones((5, 2)), wg.ones((5, 3))).shape
    (5, 4)
    """

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
        self.register_parameter("bias", new_parameter((out_features,), dtype, device) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the parameters anew, uniform within 1 / sqrt(in1_features)."""
        bound = 1 / math.sqrt(self.in1_features)
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: wg.Tensor, input2: wg.Tensor) -> wg.Tensor:
        """(..., in1_features) and (..., in2_features) to (..., out_features)."""
        return wg.bilinear(input1, input2, self.weight, self.bias)

    def count_flops(self, inputs: tuple[wg.Tensor, ...], output: Any) -> int:
        """The products with the first input and then with the second."""
        return 2 * output.size * self.in2_features * (self.in1_features + 1)

    def extra_repr(self) -> str:
        """The sizes."""
        sizes = f"in1_features={self.in1_features}, in2_features={self.in2_features}, out_features={self.out_features}"
        return f"{sizes}, bias={self.bias is not None}"
