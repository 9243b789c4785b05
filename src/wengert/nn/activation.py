"""Activations as modules. Values have no views: `inplace`, which PyTorch's take, is accepted and says nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import wengert as wg
from wengert.nn import init
from wengert.nn.linear import new_parameter
from wengert.nn.module import Module


class _Plain(Module):
    """An activation without settings."""

    _function: Callable[[wg.Tensor], wg.Tensor]

    def forward(self, input: wg.Tensor) -> wg.Tensor:
        """The activation of each element."""
        return type(self)._function(input)


class _PlainInplace(_Plain):
    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace

    def extra_repr(self) -> str:
        """`inplace`, if it was asked for."""
        return "inplace=True" if self.inplace else ""


class ReLU(_PlainInplace):
    """`x` where it is positive, 0 elsewhere.

    >>> import wengert as wg
    >>> wg.nn.ReLU()(wg.tensor([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """

    _function = staticmethod(wg.relu)


class ReLU6(_PlainInplace):
    """`x` held between 0 and 6.

    >>> import wengert as wg
    >>> wg.nn.ReLU6()(wg.tensor([-1.0, 3.0, 9.0])).tolist()
    [0.0, 3.0, 6.0]
    """

    _function = staticmethod(wg.relu6)


class SiLU(_PlainInplace):
    """`x * sigmoid(x)`.

    >>> import wengert as wg
    >>> [round(v, 4) for v in wg.nn.SiLU()(wg.tensor([-1.0, 2.0])).tolist()]
    [-0.2689, 1.7616]
    """

    _function = staticmethod(wg.silu)


class SELU(_PlainInplace):
    """The self-normalising `elu`.

    >>> import wengert as wg
    >>> [round(v, 4) for v in wg.nn.SELU()(wg.tensor([-1.0, 2.0])).tolist()]
    [-1.1113, 2.1014]
    """

    _function = staticmethod(wg.selu)


class Mish(_PlainInplace):
    """`x * tanh(softplus(x))`.

    >>> import wengert as wg
    >>> [round(v, 4) for v in wg.nn.Mish()(wg.tensor([-1.0, 2.0])).tolist()]
    [-0.3034, 1.944]
    """

    _function = staticmethod(wg.mish)


class Hardswish(_PlainInplace):
    """`x * hardsigmoid(x)`.

    >>> import wengert as wg
    >>> wg.nn.Hardswish()(wg.tensor([-4.0, 0.0, 4.0])).tolist()
    [-0.0, 0.0, 4.0]
    """

    _function = staticmethod(wg.hardswish)


class Hardsigmoid(_PlainInplace):
    """The logistic function in three straight pieces.

    >>> import wengert as wg
    >>> wg.nn.Hardsigmoid()(wg.tensor([-4.0, 0.0, 4.0])).tolist()
    [0.0, 0.5, 1.0]
    """

    _function = staticmethod(wg.hardsigmoid)


class Sigmoid(_Plain):
    """`1 / (1 + exp(-x))`.

    >>> import wengert as wg
    >>> wg.nn.Sigmoid()(wg.tensor([0.0])).tolist()
    [0.5]
    """

    _function = staticmethod(wg.sigmoid)


class LogSigmoid(_Plain):
    """`log(sigmoid(x))`.

    >>> import wengert as wg
    >>> [round(v, 4) for v in wg.nn.LogSigmoid()(wg.tensor([0.0])).tolist()]
    [-0.6931]
    """

    _function = staticmethod(wg.logsigmoid)


class Tanh(_Plain):
    """The hyperbolic tangent.

    >>> import wengert as wg
    >>> wg.nn.Tanh()(wg.tensor([0.0])).tolist()
    [0.0]
    """

    _function = staticmethod(wg.tanh)


class Tanhshrink(_Plain):
    """`x - tanh(x)`.

    >>> import wengert as wg
    >>> [round(v, 4) for v in wg.nn.Tanhshrink()(wg.tensor([1.0])).tolist()]
    [0.2384]
    """

    _function = staticmethod(wg.tanhshrink)


class Softsign(_Plain):
    """`x / (1 + |x|)`.

    >>> import wengert as wg
    >>> wg.nn.Softsign()(wg.tensor([-1.0, 3.0])).tolist()
    [-0.5, 0.75]
    """

    _function = staticmethod(wg.softsign)


class GELU(Module):
    """`x` times the normal distribution function; `approximate="tanh"` for the formula with tanh.

    >>> import wengert as wg
    >>> [round(v, 4) for v in wg.nn.GELU()(wg.tensor([-1.0, 2.0])).tolist()]
    [-0.1587, 1.9545]
    """

    def __init__(self, approximate: str = "none") -> None:
        super().__init__()
        self.approximate = approximate

    def forward(self, input: wg.Tensor) -> wg.Tensor:
        """The activation of each element."""
        return wg.gelu(input, approximate=self.approximate)

    def extra_repr(self) -> str:
        """The formula."""
        return f"approximate={self.approximate!r}"


class _Exponential(Module):
    """An activation with an `alpha`."""

    _function: Callable[..., wg.Tensor]

    def __init__(self, alpha: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.alpha = alpha
        self.inplace = inplace

    def forward(self, input: wg.Tensor) -> wg.Tensor:
        """The activation of each element."""
        return type(self)._function(input, self.alpha)

    def extra_repr(self) -> str:
        """The setting."""
        return f"alpha={self.alpha}"


class ELU(_Exponential):
    """`x` where it is positive, `alpha * (exp(x) - 1)` elsewhere.

    >>> import wengert as wg
    >>> [round(v, 4) for v in wg.nn.ELU()(wg.tensor([-1.0, 2.0])).tolist()]
    [-0.6321, 2.0]
    """

    _function = staticmethod(wg.elu)


class CELU(_Exponential):
    """`x` where it is positive, `alpha * (exp(x / alpha) - 1)` elsewhere.

    >>> import wengert as wg
    >>> [round(v, 4) for v in wg.nn.CELU()(wg.tensor([-1.0, 2.0])).tolist()]
    [-0.6321, 2.0]
    """

    _function = staticmethod(wg.celu)


class LeakyReLU(Module):
    """`x` where it is positive, `negative_slope * x` elsewhere.

    >>> import wengert as wg
    >>> wg.nn.LeakyReLU(0.5)(wg.tensor([-1.0, 2.0])).tolist()
    [-0.5, 2.0]
    """

    def __init__(self, negative_slope: float = 1e-2, inplace: bool = False) -> None:
        super().__init__()
        self.negative_slope = negative_slope
        self.inplace = inplace

    def forward(self, input: wg.Tensor) -> wg.Tensor:
        """The activation of each element."""
        return wg.leaky_relu(input, self.negative_slope)

    def extra_repr(self) -> str:
        """The slope."""
        return f"negative_slope={self.negative_slope}"


class PReLU(Module):
    """`x` where it is positive, `weight * x` elsewhere, with a learned weight for all or for each channel (axis 1).

    >>> import wengert as wg
    >>> wg.nn.PReLU()(wg.tensor([-1.0, 2.0])).tolist()
    [-0.25, 2.0]
    """

    def __init__(self, num_parameters: int = 1, init: float = 0.25, device: Any = None, dtype: Any = None) -> None:
        super().__init__()
        self.num_parameters = num_parameters
        self.init = init
        self.weight = new_parameter((num_parameters,), dtype, device)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """The initial slope."""
        init.constant_(self.weight, self.init)

    def forward(self, input: wg.Tensor) -> wg.Tensor:
        """The activation of each element."""
        return wg.prelu(input, self.weight)

    def extra_repr(self) -> str:
        """The number of slopes."""
        return f"num_parameters={self.num_parameters}"


class Threshold(Module):
    """`x` where it is above the threshold, `value` elsewhere.

    >>> import wengert as wg
    >>> wg.nn.Threshold(1.0, -1.0)(wg.tensor([0.5, 2.0])).tolist()
    [-1.0, 2.0]
    """

    def __init__(self, threshold: float, value: float, inplace: bool = False) -> None:
        super().__init__()
        self.threshold = threshold
        self.value = value
        self.inplace = inplace

    def forward(self, input: wg.Tensor) -> wg.Tensor:
        """The activation of each element."""
        return wg.threshold(input, self.threshold, self.value)

    def extra_repr(self) -> str:
        """The settings."""
        return f"threshold={self.threshold}, value={self.value}"


class _Shrink(Module):
    _function: Callable[..., wg.Tensor]

    def __init__(self, lambd: float = 0.5) -> None:
        super().__init__()
        self.lambd = lambd

    def forward(self, input: wg.Tensor) -> wg.Tensor:
        """The activation of each element."""
        return type(self)._function(input, self.lambd)

    def extra_repr(self) -> str:
        """The bound."""
        return f"{self.lambd}"


class Hardshrink(_Shrink):
    """`x` where it is further from 0 than `lambd`, 0 elsewhere.

    >>> import wengert as wg
    >>> wg.nn.Hardshrink()(wg.tensor([-2.0, 0.25, 2.0])).tolist()
    [-2.0, 0.0, 2.0]
    """

    _function = staticmethod(wg.hardshrink)


class Softshrink(_Shrink):
    """`x` moved towards 0 by `lambd`, and 0 where it is no further away than that.

    >>> import wengert as wg
    >>> wg.nn.Softshrink()(wg.tensor([-2.0, 0.25, 2.0])).tolist()
    [-1.5, 0.0, 1.5]
    """

    _function = staticmethod(wg.softshrink)


class RReLU(Module):
    """`x` where it is positive, elsewhere times a slope that is random when training, else the mean of the bounds.

    >>> import wengert as wg
    >>> wg.nn.RReLU(0.25, 0.25).eval()(wg.tensor([-1.0, 2.0])).tolist()
    [-0.25, 2.0]
    """

    def __init__(self, lower: float = 1 / 8, upper: float = 1 / 3, inplace: bool = False) -> None:
        super().__init__()
        self.lower = lower
        self.upper = upper
        self.inplace = inplace

    def forward(self, input: wg.Tensor) -> wg.Tensor:
        """The activation of each element."""
        return wg.rrelu(input, self.lower, self.upper, self.training)

    def extra_repr(self) -> str:
        """The bounds of the slope."""
        return f"lower={self.lower}, upper={self.upper}"


class Hardtanh(Module):
    """`x` held between two bounds.

    >>> import wengert as wg
    >>> wg.nn.Hardtanh()(wg.tensor([-4.0, 0.5, 4.0])).tolist()
    [-1.0, 0.5, 1.0]
    """

    def __init__(self, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> None:
        super().__init__()
        self.min_val = min_val
        self.max_val = max_val
        self.inplace = inplace

    def forward(self, input: wg.Tensor) -> wg.Tensor:
        """The activation of each element."""
        return wg.hardtanh(input, self.min_val, self.max_val)

    def extra_repr(self) -> str:
        """The bounds."""
        return f"min_val={self.min_val}, max_val={self.max_val}"


class Softplus(Module):
    """`log(1 + exp(beta * x)) / beta`, and `x` itself where `beta * x` is above the threshold.

    >>> import wengert as wg
    >>> [round(v, 4) for v in wg.nn.Softplus()(wg.tensor([0.0])).tolist()]
    [0.6931]
    """

    def __init__(self, beta: float = 1.0, threshold: float = 20.0) -> None:
        super().__init__()
        self.beta = beta
        self.threshold = threshold

    def forward(self, input: wg.Tensor) -> wg.Tensor:
        """The activation of each element."""
        return wg.softplus(input, self.beta, self.threshold)

    def extra_repr(self) -> str:
        """The settings."""
        return f"beta={self.beta}, threshold={self.threshold}"


class _AlongAxis(Module):
    _function: Callable[..., wg.Tensor]

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: wg.Tensor) -> wg.Tensor:
        """The activation along `dim`; without one along axis 0 of 1 or 3 axes, else along axis 1, as in PyTorch."""
        axis = self.dim if self.dim is not None else 0 if input.ndim in (0, 1, 3) else 1
        return type(self)._function(input, axis)

    def extra_repr(self) -> str:
        """The axis."""
        return f"dim={self.dim}"


class Softmin(_AlongAxis):
    """Positive numbers with sum 1 along an axis, in proportion to `exp(-x)`.

    >>> import wengert as wg
    >>> wg.nn.Softmin(0)(wg.tensor([0.0, 0.0])).tolist()
    [0.5, 0.5]
    """

    _function = staticmethod(wg.softmin)


class Softmax2d(Module):
    """The softmax over the channels of (N, C, H, W) or (C, H, W), at each pixel by itself.

    >>> import wengert as wg
    >>> wg.nn.Softmax2d()(wg.zeros((1, 2, 1, 1))).flatten().tolist()
    [0.5, 0.5]
    """

    def forward(self, input: wg.Tensor) -> wg.Tensor:
        """Positive numbers with sum 1 over the channels."""
        if input.ndim not in (3, 4):
            raise wg.errors.ShapeError(f"Softmax2d: the input is (N, C, H, W) or (C, H, W); its shape is {input.shape}")
        return wg.softmax(input, axis=-3)


class Softmax(_AlongAxis):
    """Positive numbers with sum 1 along an axis, in proportion to `exp(x)`.

    >>> import wengert as wg
    >>> wg.nn.Softmax(0)(wg.tensor([0.0, 0.0])).tolist()
    [0.5, 0.5]
    """

    _function = staticmethod(wg.softmax)


class LogSoftmax(_AlongAxis):
    """`log(softmax(x))`.

    >>> import wengert as wg
    >>> [round(v, 4) for v in wg.nn.LogSoftmax(0)(wg.tensor([0.0, 0.0])).tolist()]
    [-0.6931, -0.6931]
    """

    _function = staticmethod(wg.log_softmax)


class GLU(Module):
    """The first half of an axis times the sigmoid of the second.

    >>> import wengert as wg
    >>> wg.nn.GLU()(wg.tensor([1.0, 2.0, 0.0, 0.0])).tolist()
    [0.5, 1.0]
    """

    def __init__(self, dim: int = -1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, input: wg.Tensor) -> wg.Tensor:
        """Half as many elements."""
        return wg.glu(input, self.dim)

    def extra_repr(self) -> str:
        """The axis."""
        return f"dim={self.dim}"
