"""Random numbers: the distributions that draw from generators.

Everything is drawn from a `Generator` of one's own (`generator=...`) or from the default one, which starts with seed 0
and which `manual_seed` seeds.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np

from wengert.api.generator import Generator, default_generator, manual_seed
from wengert.api.spelling_hints import module_attribute
from wengert.core.dtypes import FLOATING, HALF, INTEGER, as_dtype, default_float, float64, int64, promote
from wengert.core.errors import ArgumentError, DTypeError, ShapeError
from wengert.core.graph import Node, Shape
from wengert.ops import random as ops
from wengert.ops.core import Argument, as_node, cast, to_device
from wengert.ops.creation import check_device
from wengert.ops.gather import take
from wengert.ops.movement import as_shape, normalize_axis
from wengert.ops.recorders import broadcast_shapes
from wengert.tensor import Tensor

__all__ = [
    "Generator",
    "bernoulli",
    "categorical",
    "default_generator",
    "exponential",
    "gumbel",
    "manual_seed",
    "normal",
    "permutation",
    "randint",
    "truncated_normal",
    "uniform",
]


class OtherNumbers(Protocol):
    """Another library's random numbers: the nodes that it gives in the place of these functions' own."""

    def uniform(self, shape: Shape, low: Any, high: Any, dtype: Any, generator: Any) -> Node: ...
    def normal(self, shape: Shape, mean: Any, std: Any, dtype: Any, generator: Any) -> Node: ...
    def truncated_normal(
        self, shape: Shape, mean: Any, std: Any, low: float, high: float, dtype: Any, generator: Any
    ) -> Node: ...
    def bernoulli(self, shape: Shape, p: Any, generator: Any) -> Node: ...
    def exponential(self, shape: Shape, dtype: Any, generator: Any) -> Node: ...


stream: OtherNumbers | None = None
"""Where layers' initial values and dropout come from instead, if from elsewhere (`wengert torch --torch-random`)."""


# --- arguments ------------------------------------------------------------------------------------------------------


def _source(generator: Generator | None) -> Generator:
    generator = default_generator if generator is None else generator
    if not isinstance(generator, Generator):
        raise DTypeError(f"generator is a wg.random.Generator, not {generator!r}")
    return generator


def _made(node: Node, device: str | None, *parameters: Any) -> Tensor:
    """The Tensor of random numbers on a device, else where their parameters are: the bits are the same on all."""
    if device is None:
        device = next((p.device for p in parameters if isinstance(p, Node) and p.owner is not None), None)
    return Tensor(to_device(node, check_device(device, "random numbers")))


def _parameters(*values: Any) -> list[Any]:
    """Parameters of a distribution as nodes or numbers; a float is an argument of the program, not part of it."""
    return [Argument(v) if type(v) is float else v if isinstance(v, int) else as_node(v) for v in values]


def _result_shape(name: str, shape: Any, *parameters: Any) -> Shape:
    """The shape asked for, into which the parameters must broadcast; without one, what they broadcast to."""
    own = broadcast_shapes(name, *[p.shape for p in parameters if isinstance(p, Node)])
    if shape is None:
        return own
    sizes = as_shape(shape, name)
    if any(n < 0 for n in sizes):
        raise ShapeError(f"{name}: the shape {sizes} has a negative size")
    if broadcast_shapes(name, sizes, own) != sizes:
        raise ShapeError(f"{name}: parameters of shape {own} do not broadcast into the shape {sizes}")
    return sizes


def _result_dtype(name: str, dtype: Any, *parameters: Any) -> np.dtype[Any]:
    """The floating-point dtype asked for; without one, that of the parameters, or the default."""
    if dtype is None:
        found = None
        for p in parameters:
            if isinstance(p, Node) and p.dtype in FLOATING:
                found = p.dtype if found is None else promote(found, p.dtype)
        return default_float if found is None else found
    wanted = as_dtype(dtype)
    if wanted not in FLOATING:
        raise DTypeError(f"{name} draws floating-point numbers, not {wanted}; wg.random.randint draws integers")
    return wanted


def _width(dtype: np.dtype[Any]) -> int:
    """How many random bits a number of this dtype takes; half precision is computed in float32."""
    return 64 if dtype is float64 else 32


def _require_not_negative(name: str, argument: str, value: Any) -> None:
    if isinstance(value, (int, float)) and not value >= 0:
        raise ArgumentError(f"{name}: {argument} is {float(value)}; it cannot be negative")


# --- distributions --------------------------------------------------------------------------------------------------


def uniform(
    shape: Any = None,
    low: Any = 0.0,
    high: Any = 1.0,
    *,
    dtype: Any = None,
    device: str | None = None,
    generator: Generator | None = None,
) -> Tensor:
    """Numbers spread evenly from `low` to below `high`, which is never reached (unless the two are equal).

    `low` and `high` may be tensors; the result is differentiable by them.

    >>> import wengert as wg
    >>> x = wg.random.uniform((1000,), -1.0, 1.0)
    >>> bool((x >= -1).all() and (x < 1).all())
    True
    """
    low, high = _parameters(low, high)
    if isinstance(low, (int, float)) and isinstance(high, (int, float)) and not 0 <= high - low < math.inf:
        raise ArgumentError(f"uniform: low is {float(low)} and high is {float(high)}; high cannot be below low")
    kind = _result_dtype("uniform", dtype, low, high)
    if stream is not None:
        sizes = _result_shape("uniform", shape, low, high)
        return _made(stream.uniform(sizes, low, high, kind, generator), device, low, high)
    source = _source(generator)
    bits = source.bits(_result_shape("uniform", shape, low, high), _width(kind))
    return _made(ops.uniform(bits, low, high, kind), device, low, high)


def normal(
    shape: Any = None,
    mean: Any = 0.0,
    std: Any = 1.0,
    *,
    dtype: Any = None,
    device: str | None = None,
    generator: Generator | None = None,
) -> Tensor:
    """Normally distributed numbers: `mean + std * z`, differentiable by both.

    >>> import wengert as wg
    >>> wg.random.normal((3, 4)).shape, wg.random.normal(mean=wg.zeros(5), std=2.0).shape
    ((3, 4), (5,))
    """
    mean, std = _parameters(mean, std)
    _require_not_negative("normal", "std", std)
    kind, sizes = _result_dtype("normal", dtype, mean, std), _result_shape("normal", shape, mean, std)
    if stream is not None:
        return _made(stream.normal(sizes, mean, std, kind, generator), device, mean, std)
    source = _source(generator)
    bits = source.bits(((math.prod(sizes) + 1) // 2, 2), _width(kind))
    return _made(ops.located(ops.standard_normal(bits, sizes), mean, std, kind), device, mean, std)


def truncated_normal(
    shape: Any = None,
    mean: Any = 0.0,
    std: Any = 1.0,
    low: float = -2.0,
    high: float = 2.0,
    *,
    dtype: Any = None,
    device: str | None = None,
    generator: Generator | None = None,
) -> Tensor:
    """Normally distributed numbers of which those outside are left out: `mean + std * z` with `z` from `low` to `high`.

    The bounds are numbers, counted in standard deviations from the mean (PyTorch's `a` and `b` are not).

    >>> import wengert as wg
    >>> bool((abs(wg.random.truncated_normal((1000,), std=0.5)) <= 1.0).all())
    True
    """
    mean, std = _parameters(mean, std)
    _require_not_negative("truncated_normal", "std", std)
    _require_mass_between(low, high)
    kind, sizes = _result_dtype("truncated_normal", dtype, mean, std), _result_shape("normal", shape, mean, std)
    if stream is not None:
        return _made(stream.truncated_normal(sizes, mean, std, low, high, kind, generator), device, mean, std)
    bits = _source(generator).bits(sizes, 64)
    z = ops.standard_truncated_normal(bits, float(low), float(high))
    wide = cast(z, default_float if kind in HALF else kind)
    return _made(ops.located(wide, mean, std, kind), device, mean, std)


def _require_mass_between(low: Any, high: Any) -> None:
    if not (isinstance(low, (int, float)) and isinstance(high, (int, float))):
        raise DTypeError("truncated_normal: low and high are numbers, counted in standard deviations")
    if not low < high:
        raise ArgumentError(f"truncated_normal: low is {low} and high is {high}; low must be below high")
    if math.erf(high / math.sqrt(2)) - math.erf(low / math.sqrt(2)) < 1e-12:
        raise ArgumentError(f"truncated_normal: between {low} and {high} there is next to nothing of the distribution")


def bernoulli(
    p: Any = 0.5,
    shape: Any = None,
    *,
    dtype: Any = bool,
    device: str | None = None,
    generator: Generator | None = None,
) -> Tensor:
    """True with probability `p`, a number or a tensor; in another dtype ones and zeros.

    >>> import wengert as wg
    >>> wg.random.bernoulli(1.0, (3,)).tolist()
    [True, True, True]
    """
    (p,) = _parameters(p)
    if isinstance(p, (int, float)) and not 0 <= p <= 1:
        raise ArgumentError(f"bernoulli: p is {float(p)}; a probability is between 0 and 1")
    sizes, width = _result_shape("bernoulli", shape, p), _width(_result_dtype("bernoulli", None, p))
    if stream is not None:
        drawn = stream.bernoulli(sizes, p, generator)
    else:
        drawn = ops.bernoulli(_source(generator).bits(sizes, width), p)
    return _made(cast(drawn, as_dtype(dtype)), device, p)


def randint(
    low: int,
    high: int | None = None,
    shape: Any = (),
    *,
    dtype: Any = None,
    device: str | None = None,
    generator: Generator | None = None,
) -> Tensor:
    """Integers spread evenly from `low` to below `high`; from 0 to below `low` if `high` is left out.

    >>> import wengert as wg
    >>> set(wg.random.randint(3, shape=(100,)).tolist()) == {0, 1, 2}
    True
    """
    low, high = (0, low) if high is None else (low, high)
    try:
        low, high = low.__index__(), high.__index__()
    except AttributeError:
        raise DTypeError(f"randint: low and high are integers, not {low!r} and {high!r}") from None
    kind = int64 if dtype is None else as_dtype(dtype)
    if kind not in INTEGER:
        raise DTypeError(f"randint draws integers, not {kind}; wg.random.uniform draws floating-point numbers")
    limits = np.iinfo(kind)
    if low >= high:
        raise ArgumentError(f"randint: low is {low} and high is {high}; there is no integer from low to below high")
    if low < limits.min or high - 1 > limits.max:
        raise ArgumentError(f"randint: {low} to below {high} does not fit into {kind}")
    return _made(ops.randint(_source(generator).bits(_result_shape("randint", shape), 64), low, high, kind), device)


def permutation(x: Any, axis: int = 0, *, device: str | None = None, generator: Generator | None = None) -> Tensor:
    """The numbers from 0 to below `x` in random order; of a tensor, its parts along `axis` in random order.

    >>> import wengert as wg
    >>> sorted(wg.random.permutation(5).tolist())
    [0, 1, 2, 3, 4]
    """
    source = _source(generator)
    if isinstance(x, (int, np.integer)):
        if x < 0:
            raise ArgumentError(f"permutation: of {x} numbers; it takes a count that is not negative, or a tensor")
        return _made(ops.permutation(source.bits((int(x),), 64)), device)
    node = as_node(x)
    if node.ndim == 0:
        raise ShapeError("permutation: the tensor is 0-d and has no axis; for a count pass a Python integer")
    axis = normalize_axis(axis, node.ndim, "permutation")
    shuffled = take(node, ops.permutation(source.bits((node.shape[axis],), 64)), axis=axis)
    return _made(shuffled, device or node.device)


def categorical(
    logits: Any, shape: Any = None, *, axis: int = -1, device: str | None = None, generator: Generator | None = None
) -> Tensor:
    """Class indices drawn with probabilities softmax(logits) along `axis`; for probabilities `p` pass `wg.log(p)`.

    The other axes of `logits` broadcast into `shape`, the result's.

    >>> import wengert as wg
    >>> wg.random.categorical(wg.tensor([-9.0, 9.0, -999.0]), (4,)).tolist()
    [1, 1, 1, 1]
    """
    node = as_node(logits)
    if node.dtype not in FLOATING:
        raise DTypeError(f"categorical takes floating-point logits, not {node.dtype}")
    if node.ndim == 0:
        raise ShapeError("categorical: the logits are 0-d; they need an axis of classes")
    axis = normalize_axis(axis, node.ndim, "categorical")
    classes, behind = node.shape[axis], node.ndim - 1 - axis
    if classes == 0:
        raise ShapeError(f"categorical: axis {axis} of the logits' shape {node.shape} has no classes to draw from")
    others = node.shape[:axis] + node.shape[axis + 1 :]
    sizes = others if shape is None else as_shape(shape, "categorical")
    if broadcast_shapes("categorical", sizes, others) != sizes:
        raise ShapeError(f"categorical: logits of shape {node.shape} do not give a result of shape {sizes}")
    place = len(sizes) - behind
    bits = _source(generator).bits((*sizes[:place], classes, *sizes[place:]), _width(node.dtype))
    return _made(ops.categorical(bits, node, place), device or node.device)


def gumbel(
    shape: Any = None,
    loc: Any = 0.0,
    scale: Any = 1.0,
    *,
    dtype: Any = None,
    device: str | None = None,
    generator: Generator | None = None,
) -> Tensor:
    """Gumbel distributed numbers: `loc + scale * z`, differentiable by both.

    >>> import wengert as wg
    >>> wg.random.gumbel((2, 3)).shape
    (2, 3)
    """
    loc, scale = _parameters(loc, scale)
    _require_not_negative("gumbel", "scale", scale)
    source, kind = _source(generator), _result_dtype("gumbel", dtype, loc, scale)
    bits = source.bits(_result_shape("gumbel", shape, loc, scale), _width(kind))
    return _made(ops.located(ops.standard_gumbel(bits), loc, scale, kind), device, loc, scale)


def exponential(
    shape: Any = None,
    scale: Any = 1.0,
    *,
    dtype: Any = None,
    device: str | None = None,
    generator: Generator | None = None,
) -> Tensor:
    """Exponentially distributed numbers with mean `scale` (one over the rate), by which they are differentiable.

    >>> import wengert as wg
    >>> bool(wg.all(wg.random.exponential((5,)) >= 0))
    True
    """
    (scale,) = _parameters(scale)
    _require_not_negative("exponential", "scale", scale)
    kind, sizes = _result_dtype("exponential", dtype, scale), _result_shape("exponential", shape, scale)
    if stream is not None:
        return _made(ops.located(stream.exponential(sizes, kind, generator), 0.0, scale, kind), device, scale)
    bits = _source(generator).bits(sizes, _width(kind))
    return _made(ops.located(ops.standard_exponential(bits), 0.0, scale, kind), device, scale)


# --- names that are not here ----------------------------------------------------------------------------------------


def __getattr__(name: str) -> Any:
    return module_attribute(name, __all__, __name__)


def __dir__() -> list[str]:
    return sorted(__all__)
