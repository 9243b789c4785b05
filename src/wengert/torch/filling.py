"""Methods that fill a tensor with random numbers: `uniform_`, `normal_`, `random_`, ..."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from wengert.core.dtypes import INTEGER, float32, float64
from wengert.core.graph import Node
from wengert.ops.core import cast, to_device
from wengert.ops.elementwise import ceil
from wengert.ops.exponential import exp, log
from wengert.ops.movement import broadcast_to
from wengert.ops.trigonometry import tan
from wengert.tensor import Tensor as Base
from wengert.torch import dtypes, random, registry
from wengert.torch.tensor import Tensor, write


def _filling(function: Callable[..., Node]) -> Callable[..., Tensor]:
    """Enter a method that fills its tensor with what the function draws for its node."""

    def method(self: Tensor, *args: Any, generator: Any = None, **kwargs: Any) -> Tensor:
        made = function(self.node, *args, generator=random.source(generator), **kwargs)
        return write(self, Tensor(to_device(cast(made, self.node.dtype), self.node.device)))

    method.__name__ = method.__qualname__ = function.__name__
    method.__doc__ = function.__doc__
    registry.methods[function.__name__] = method
    return method


def _as_floats(x: Node, name: str) -> Any:
    if x.dtype.kind not in "fVc":
        raise NotImplementedError(f'"{name}" not implemented for {dtypes.scalar_name(x.dtype)!r}')
    return x.dtype


@_filling
def uniform_(x: Node, *bounds: float, generator: Any, **named: float) -> Node:
    """Fill the tensor with uniformly distributed numbers in [`from` (0), `to` (1))."""
    low, high = (*bounds, *(0.0, 1.0)[len(bounds) :])
    low, high = float(random.item(named.pop("from", low))), float(random.item(named.pop("to", named.pop("b", high))))
    low = float(named.pop("a", low))
    if low > high:
        raise RuntimeError(f"uniform_ expects to return a [from, to) range, but found from={low} > to={high}")
    kind = _as_floats(x, "uniform_")
    if kind.kind == "c":
        return random.uniforms(x.shape, kind, generator) * (high - low) + low * (1 + 1j)
    return random.stream.uniform(x.shape, low, high, kind, generator)


@_filling
def normal_(x: Node, mean: float = 0.0, std: float = 1.0, *, generator: Any) -> Node:
    """Fill the tensor with normally distributed numbers."""
    mean, std = float(random.item(mean)), float(random.item(std))
    random.require_deviation(std)
    kind = _as_floats(x, "normal_")
    return (
        random.normals(x.shape, kind, generator) * std + mean
        if kind.kind == "c"
        else random.stream.normal(x.shape, mean, std, kind, generator)
    )


@_filling
def bernoulli_(x: Node, p: Any = 0.5, *, generator: Any) -> Node:
    """Fill the tensor with ones of probability `p` and zeros."""
    return random.stream.bernoulli(
        x.shape, broadcast_to(p.node, x.shape) if isinstance(p, Base) else random.chance(p), generator
    )


@_filling
def exponential_(x: Node, lambd: float = 1.0, *, generator: Any) -> Node:
    """Fill the tensor with exponentially distributed numbers of rate `lambd`."""
    if lambd <= 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={lambd}")
    return random.stream.exponential(x.shape, _as_floats(x, "exponential_"), generator) / float(lambd)


@_filling
def random_(x: Node, *bounds: Any, generator: Any, **named: Any) -> Node:
    """Fill the tensor with integers from `from` (0) to below `to`; without, up to the largest that the dtype holds
    exactly."""
    low, high = (0, bounds[0]) if len(bounds) == 1 else bounds if bounds else (0, None)
    low, high = named.get("from", low), named.get("to", high)
    if high is None:
        return random.stream.random(x.shape, x.dtype, generator)
    return random.integers(x.shape, low, int(high), x.dtype, generator)


def _open(x: Node, generator: Any) -> Node:
    """Numbers between 0 and 1, of which 0 is none."""
    kind = float64 if x.dtype is float64 or x.dtype in INTEGER else float32
    return 1.0 - random.stream.uniform(x.shape, 0.0, 1.0, kind, generator)


@_filling
def cauchy_(x: Node, median: float = 0.0, sigma: float = 1.0, *, generator: Any) -> Node:
    """Fill the tensor with Cauchy distributed numbers."""
    _as_floats(x, "cauchy_")
    if sigma <= 0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma}")
    return tan((_open(x, generator) - 0.5) * math.pi) * float(sigma) + float(median)


@_filling
def geometric_(x: Node, p: float, *, generator: Any) -> Node:
    """Fill the tensor with the numbers of attempts up to the first success of probability `p`."""
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p}")
    return ceil(log(_open(x, generator)) / math.log1p(-p))


@_filling
def log_normal_(x: Node, mean: float = 1.0, std: float = 2.0, *, generator: Any) -> Node:
    """Fill the tensor with the exponentials of normally distributed numbers."""
    if std <= 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std}")
    return exp(random.stream.normal(x.shape, float(mean), float(std), _as_floats(x, "log_normal_"), generator))
