"""Activations and dropout: `inplace=True` gives the input the result too."""

from __future__ import annotations

from typing import Any

import wengert as wg
from wengert.torch.nn.accepted import require_floats
from wengert.torch.tensor import Tensor, axis_of, of, write


def _given(input: Any, result: Any, inplace: bool) -> Any:
    return write(input, result) if inplace else result


def relu(input: Any, inplace: bool = False) -> Any:
    """The input where it is positive, otherwise 0."""
    return _given(input, wg.relu(input), inplace)


def relu6(input: Any, inplace: bool = False) -> Any:
    """The input clipped to between 0 and 6."""
    return _given(input, wg.relu6(input), inplace)


def leaky_relu(input: Any, negative_slope: float = 0.01, inplace: bool = False) -> Any:
    """The input, multiplied by `negative_slope` where it is negative."""
    return _given(input, wg.leaky_relu(input, negative_slope), inplace)


def elu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Any:
    """The input, and `alpha * (exp(x) - 1)` where it is negative."""
    return _given(input, wg.elu(input, alpha), inplace)


def celu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Any:
    """`elu` with a continuous derivative for any alpha."""
    return _given(input, wg.celu(input, alpha), inplace)


def selu(input: Any, inplace: bool = False) -> Any:
    """The scaled `elu` of self-normalising networks."""
    return _given(input, wg.selu(input), inplace)


def silu(input: Any, inplace: bool = False) -> Any:
    """`x * sigmoid(x)`."""
    return _given(input, wg.silu(input), inplace)


def mish(input: Any, inplace: bool = False) -> Any:
    """`x * tanh(softplus(x))`."""
    return _given(input, wg.mish(input), inplace)


def hardtanh(input: Any, min_val: float = -1.0, max_val: float = 1.0, inplace: bool = False) -> Any:
    """The input clipped to between two numbers."""
    return _given(input, wg.hardtanh(input, min_val, max_val), inplace)


def hardswish(input: Any, inplace: bool = False) -> Any:
    """`x * relu6(x + 3) / 6`."""
    return _given(input, wg.hardswish(input), inplace)


def hardsigmoid(input: Any, inplace: bool = False) -> Any:
    """`relu6(x + 3) / 6`."""
    return _given(input, wg.hardsigmoid(input), inplace)


def softplus(input: Any, beta: float = 1.0, threshold: float = 20.0) -> Any:
    """`log(1 + exp(beta x)) / beta`, and the input itself where `beta x` is above the threshold."""
    return wg.softplus(input, beta, threshold)


def gelu(input: Any, approximate: str = "none") -> Any:
    """`x` times the normal cumulative distribution function; `approximate="tanh"` uses an approximation."""
    return wg.gelu(input, approximate)


def glu(input: Any, dim: int = -1) -> Any:
    """The first half of an axis times the sigmoid of the second."""
    return wg.glu(input, dim)


def tanhshrink(input: Any) -> Any:
    """`x - tanh(x)`."""
    return input - wg.tanh(input)


def softmin(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """`softmax` of the negative."""
    return softmax(-input, dim, dtype=dtype)


def softmax(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """`exp(x)` over its sum along an axis."""
    return _softmax(wg.softmax, input, dim, dtype)


def log_softmax(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """The logarithm of `softmax`."""
    return _softmax(wg.log_softmax, input, dim, dtype)


def _softmax(function: Any, input: Any, dim: int | None, dtype: Any) -> Any:
    x = _cast(input, dtype)
    require_floats(function.__name__, x)
    if x.ndim:
        return function(x, _softmax_axis(x.ndim) if dim is None else dim)
    return function(x.reshape((1,)), axis_of(0 if dim is None else dim, 0)).reshape(())


def _cast(input: Any, dtype: Any) -> Any:
    return input if dtype is None else of(input, dtype)


def _softmax_axis(rank: int) -> int:
    """The axis of old, where none is given."""
    return 0 if rank in (0, 1, 3) else 1


def prelu(input: Any, weight: Any) -> Any:
    """The input, times a learned slope a channel where it is negative."""
    slope = weight.reshape((1, -1) + (1,) * (input.ndim - 2)) if weight.size != 1 and input.ndim > 1 else weight
    slope = slope if input.ndim else slope.reshape(())
    return wg.where(input > 0, input, input * slope)


def hardshrink(input: Any, lambd: float = 0.5) -> Any:
    """The input, and 0 within `lambd` of 0."""
    return wg.where(wg.abs(input) <= lambd, wg.zeros_like(input), input)


def softshrink(input: Any, lambd: float = 0.5) -> Any:
    """The input shrunk towards 0 by `lambd`, and 0 within `lambd` of it."""
    if lambd < 0:
        raise RuntimeError(f"lambda must be greater or equal to 0, but found to be {lambd}.")
    moved = wg.where(input > lambd, input - lambd, wg.where(input < -lambd, input + lambd, input * 0))
    return moved


def threshold(input: Any, threshold: float, value: float, inplace: bool = False) -> Any:
    """The input, and `value` where it is not above the threshold."""
    return _given(input, wg.where(input > threshold, input, wg.full_like(input, value)), inplace)


def rrelu(
    input: Any, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, inplace: bool = False
) -> Any:
    """`leaky_relu` with slopes drawn between two numbers in training, otherwise with their mean."""
    return _given(input, wg.rrelu(input, lower, upper, training), inplace)


def gumbel_softmax(logits: Any, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Any:
    """Draw from the Gumbel-softmax distribution; with `hard` one-hot, with the gradient of the soft draw."""
    uniform = wg.random.uniform(logits.shape, dtype=logits.dtype, device=logits.device)
    exponential = -wg.log1p(-uniform)
    gumbels = -wg.log(wg.maximum(exponential, wg.full_like(exponential, 1e-38)))
    soft = wg.softmax((logits + gumbels) / tau, dim)
    if not hard:
        return soft
    chosen = wg.moveaxis(wg.one_hot(wg.argmax(soft, dim), soft.shape[dim]), -1, dim).astype(logits.dtype)
    return of(chosen - wg.stop_gradient(soft) + soft)


# --- dropout --------------------------------------------------------------------------------------------------------


def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Set elements to 0 with probability `p`, and scale the others to keep the mean."""
    return _given(input, wg.dropout(input, p, training), inplace)


def alpha_dropout(input: Any, p: float = 0.5, training: bool = False, inplace: bool = False) -> Any:
    """Dropout that keeps mean 0 and variance 1."""
    return _given(input, wg.alpha_dropout(input, p, training), inplace)


def dropout1d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Drop whole channels of (N, C, L)."""
    return _given(input, wg.dropout1d(input, p, training), inplace)


def feature_alpha_dropout(input: Any, p: float = 0.5, training: bool = False, inplace: bool = False) -> Any:
    """`alpha_dropout` of whole channels."""
    return _given(input, wg.feature_alpha_dropout(input, p, training), inplace)


def dropout2d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Drop whole channels of (N, C, H, W) or (N, C, L), or elements of (N, C)."""
    if input.ndim == 2:
        return dropout(input, p, training, inplace)
    if input.ndim == 3:
        return _given(input, wg.dropout1d(input, p, training), inplace)
    return _given(input, wg.dropout2d(input, p, training), inplace)


def dropout3d(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Drop whole channels of (N, C, D, H, W)."""
    return _given(input, wg.dropout3d(input, p, training), inplace)


def _in_place(name: str) -> Any:
    function = globals()[name]

    def in_place(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return function(input, *args, **kwargs, inplace=True)

    in_place.__name__ = in_place.__qualname__ = f"{name}_"
    in_place.__doc__ = f"`{name}` in place."
    return in_place


relu_, leaky_relu_, elu_, celu_ = map(_in_place, ("relu", "leaky_relu", "elu", "celu"))
selu_, hardtanh_, threshold_, rrelu_ = map(_in_place, ("selu", "hardtanh", "threshold", "rrelu"))
