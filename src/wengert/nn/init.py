"""Initial values for parameters: each function gives the slot it takes a new value, and returns it.

The names, the distributions and the rules for fan in and fan out are PyTorch's: a weight is (outputs, inputs, *kernel),
and its fans are the numbers of elements that one output sums over and that one input goes into.
"""

from __future__ import annotations

import math

import wengert as wg
from wengert.api.random import Generator

_GAINS = {
    "linear": 1.0,
    "identity": 1.0,
    "conv1d": 1.0,
    "conv2d": 1.0,
    "conv3d": 1.0,
    "conv_transpose1d": 1.0,
    "conv_transpose2d": 1.0,
    "conv_transpose3d": 1.0,
    "sigmoid": 1.0,
    "tanh": 5.0 / 3,
    "relu": math.sqrt(2.0),
    "selu": 3.0 / 4,
}


def calculate_gain(nonlinearity: str, param: float | None = None) -> float:
    """The factor that keeps the variance through a nonlinearity; `param` is leaky_relu's slope.

    >>> round(calculate_gain("tanh"), 3), round(calculate_gain("leaky_relu", 1.0), 3)
    (1.667, 1.0)
    """
    if nonlinearity == "leaky_relu":
        slope = 0.01 if param is None else param
        return math.sqrt(2.0 / (1 + slope**2))
    if nonlinearity not in _GAINS:
        known = ", ".join([*_GAINS, "leaky_relu"])
        raise wg.errors.ArgumentError(f"calculate_gain: there is no gain for {nonlinearity!r}; there are {known}")
    return _GAINS[nonlinearity]


def fan_in_and_fan_out(tensor: wg.Tensor) -> tuple[int, int]:
    """How many elements of a weight one output sums over, and how many one input goes into.

    >>> import wengert as wg
    >>> fan_in_and_fan_out(wg.zeros((8, 3, 5, 5)))
    (75, 200)
    """
    if tensor.ndim < 2:
        raise wg.errors.ShapeError(f"a weight of shape {tensor.shape} has no fan in and fan out: it needs two axes")
    kernel = math.prod(tensor.shape[2:])
    return tensor.shape[1] * kernel, tensor.shape[0] * kernel


def uniform_(tensor: wg.Tensor, a: float = 0.0, b: float = 1.0, generator: Generator | None = None) -> wg.Tensor:
    """Numbers between `a` and `b`, all equally likely.

    >>> import wengert as wg
    >>> w = wg.nn.init.uniform_(wg.empty((2, 3)), 0.0, 1.0)
    >>> bool(wg.all((w >= 0) & (w < 1)))
    True
    """
    return tensor.assign(wg.random.uniform(tensor.shape, a, b, dtype=tensor.dtype, generator=generator))


def normal_(tensor: wg.Tensor, mean: float = 0.0, std: float = 1.0, generator: Generator | None = None) -> wg.Tensor:
    """Normally distributed numbers.

    >>> import wengert as wg
    >>> wg.nn.init.normal_(wg.empty((2, 3)), 0.0, 0.02).shape
    (2, 3)
    """
    return tensor.assign(wg.random.normal(tensor.shape, mean, std, dtype=tensor.dtype, generator=generator))


def trunc_normal_(
    tensor: wg.Tensor,
    mean: float = 0.0,
    std: float = 1.0,
    a: float = -2.0,
    b: float = 2.0,
    generator: Generator | None = None,
) -> wg.Tensor:
    """Normally distributed numbers, those outside of `a` and `b` drawn again.

    >>> import wengert as wg
    >>> w = wg.nn.init.trunc_normal_(wg.empty((2, 3)), std=1.0, a=-2.0, b=2.0)
    >>> bool(wg.all(wg.abs(w) <= 2))
    True
    """
    low, high = (a - mean) / std, (b - mean) / std
    drawn = wg.random.truncated_normal(
        tensor.shape, mean, std, low=low, high=high, dtype=tensor.dtype, generator=generator
    )
    return tensor.assign(drawn)


def constant_(tensor: wg.Tensor, val: float) -> wg.Tensor:
    """One number everywhere.

    >>> import wengert as wg
    >>> wg.nn.init.constant_(wg.empty(2), 7.0).tolist()
    [7.0, 7.0]
    """
    return tensor.assign(wg.full_like(tensor, val))


def ones_(tensor: wg.Tensor) -> wg.Tensor:
    """1 everywhere.

    >>> import wengert as wg
    >>> wg.nn.init.ones_(wg.empty(2)).tolist()
    [1.0, 1.0]
    """
    return constant_(tensor, 1)


def zeros_(tensor: wg.Tensor) -> wg.Tensor:
    """0 everywhere.

    >>> import wengert as wg
    >>> wg.nn.init.zeros_(wg.empty(2)).tolist()
    [0.0, 0.0]
    """
    return constant_(tensor, 0)


def eye_(tensor: wg.Tensor) -> wg.Tensor:
    """The identity matrix.

    >>> import wengert as wg
    >>> wg.nn.init.eye_(wg.empty((2, 2))).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    if tensor.ndim != 2:
        raise wg.errors.ShapeError(f"eye_ takes a matrix, not shape {tensor.shape}")
    return tensor.assign(wg.eye(*tensor.shape, dtype=tensor.dtype, device=tensor.device))


def dirac_(tensor: wg.Tensor, groups: int = 1) -> wg.Tensor:
    """A convolution's weight that gives back as many of the input's channels as it can, in each group.

    >>> import wengert as wg
    >>> wg.nn.init.dirac_(wg.empty((1, 1, 3))).tolist()
    [[[0.0, 1.0, 0.0]]]
    """
    if tensor.ndim not in (3, 4, 5):
        raise wg.errors.ShapeError(f"dirac_ takes a convolution's weight, of 3, 4 or 5 axes, not shape {tensor.shape}")
    outputs, inputs, *kernel = tensor.shape
    if outputs % groups:
        raise wg.errors.ShapeError(f"dirac_: {outputs} output channels do not divide into {groups} groups")
    channels = wg.eye(outputs // groups, inputs, dtype=tensor.dtype, device=tensor.device)
    centre = wg.zeros(kernel, dtype=tensor.dtype, device=tensor.device)
    centre[tuple(size // 2 for size in kernel)] = 1
    spread = wg.tile(channels, (groups, 1)).reshape((outputs, inputs, *[1] * len(kernel)))
    return tensor.assign(spread * centre)


def xavier_uniform_(tensor: wg.Tensor, gain: float = 1.0, generator: Generator | None = None) -> wg.Tensor:
    """Uniform, with a variance between those that keep the forward and the backward's (Glorot and Bengio, 2010).

    >>> import wengert as wg
    >>> wg.nn.init.xavier_uniform_(wg.empty((2, 3))).shape
    (2, 3)
    """
    bound = gain * math.sqrt(6.0 / sum(fan_in_and_fan_out(tensor)))
    return uniform_(tensor, -bound, bound, generator)


def xavier_normal_(tensor: wg.Tensor, gain: float = 1.0, generator: Generator | None = None) -> wg.Tensor:
    """Normal, with a variance between those that keep the forward and the backward's (Glorot and Bengio, 2010).

    >>> import wengert as wg
    >>> wg.nn.init.xavier_normal_(wg.empty((2, 3))).shape
    (2, 3)
    """
    return normal_(tensor, 0.0, gain * math.sqrt(2.0 / sum(fan_in_and_fan_out(tensor))), generator)


def kaiming_uniform_(
    tensor: wg.Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> wg.Tensor:
    """Uniform, with the variance that a rectifier of slope `a` keeps (He et al., 2015).

    >>> import wengert as wg
    >>> wg.nn.init.kaiming_uniform_(wg.empty((2, 3)), nonlinearity="relu").shape
    (2, 3)
    """
    bound = math.sqrt(3.0) * _kaiming_std(tensor, a, mode, nonlinearity)
    return uniform_(tensor, -bound, bound, generator)


def kaiming_normal_(
    tensor: wg.Tensor,
    a: float = 0,
    mode: str = "fan_in",
    nonlinearity: str = "leaky_relu",
    generator: Generator | None = None,
) -> wg.Tensor:
    """Normal, with the variance that a rectifier of slope `a` keeps (He et al., 2015).

    >>> import wengert as wg
    >>> wg.nn.init.kaiming_normal_(wg.empty((2, 3)), mode="fan_out").shape
    (2, 3)
    """
    return normal_(tensor, 0.0, _kaiming_std(tensor, a, mode, nonlinearity), generator)


def _kaiming_std(tensor: wg.Tensor, a: float, mode: str, nonlinearity: str) -> float:
    if mode not in ("fan_in", "fan_out"):
        raise wg.errors.ArgumentError(f'mode is "fan_in" or "fan_out", not {mode!r}')
    fan = fan_in_and_fan_out(tensor)[mode == "fan_out"]
    return calculate_gain(nonlinearity, a) / math.sqrt(fan) if fan else 0.0


def orthogonal_(tensor: wg.Tensor, gain: float = 1, generator: Generator | None = None) -> wg.Tensor:
    """A matrix with orthonormal rows or columns, whichever are fewer; further axes count as columns (Saxe et al.).

    >>> import wengert as wg
    >>> w = wg.nn.init.orthogonal_(wg.empty((2, 2)))
    >>> bool(wg.allclose(w @ w.T, wg.eye(2), atol=1e-5))
    True
    """
    if tensor.ndim < 2:
        raise wg.errors.ShapeError(f"orthogonal_ takes two axes or more, not shape {tensor.shape}")
    if tensor.size == 0:
        return tensor
    rows, columns = tensor.shape[0], tensor.size // tensor.shape[0]
    dtype = tensor.dtype if tensor.dtype.itemsize >= 4 else wg.float32  # decompositions are not in half precision
    drawn = wg.random.normal((rows, columns), dtype=dtype, generator=generator)
    q, r = wg.linalg.qr(drawn if rows >= columns else drawn.T)
    q = q * wg.sign(wg.diagonal(r))  # makes the distribution uniform over such matrices (Mezzadri, 2006)
    q = q if rows >= columns else q.T
    return tensor.assign(gain * q.reshape(tensor.shape))


def sparse_(tensor: wg.Tensor, sparsity: float, std: float = 0.01, generator: Generator | None = None) -> wg.Tensor:
    """A normal matrix in each column of which a fraction `sparsity` of the elements is 0 (Martens, 2010).

    >>> import wengert as wg
    >>> w = wg.nn.init.sparse_(wg.empty((4, 2)), sparsity=0.5)
    >>> wg.count_nonzero(w).item()
    4
    """
    if tensor.ndim != 2:
        raise wg.errors.ShapeError(f"sparse_ takes a matrix, not shape {tensor.shape}")
    zeros = math.ceil(sparsity * tensor.shape[0])
    drawn = wg.random.normal(tensor.shape, 0.0, std, dtype=tensor.dtype, generator=generator)
    order = wg.argsort(wg.random.uniform(tensor.shape, generator=generator), axis=0)
    ranks = wg.argsort(order, axis=0)
    return tensor.assign(wg.where(ranks < zeros, 0, drawn))
