"""Random numbers: `torch.random`, generators, and the functions and methods that draw.

What is drawn comes from `stream`: Wengert's own counter-based numbers, from the default generator or one of one's own.
Another stream (`wengert torch --torch-random` has PyTorch's) takes its place by `set_stream`.
"""

from __future__ import annotations

import contextlib
import math
import os
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from wengert.api import random as drawn
from wengert.api.generator import Generator as _Generator
from wengert.core.dtypes import FLOATING, HALF, INTEGER, as_dtype, bool_, float32, float64, int64
from wengert.core.graph import Node, Shape
from wengert.ops import comparison as c
from wengert.ops import reduce as r
from wengert.ops.core import cast, operand, to_device
from wengert.ops.exponential import log
from wengert.ops.running import cumsum
from wengert.ops.sorting import searchsorted, topk
from wengert.tensor import Tensor as Base
from wengert.tensor import engine
from wengert.torch import dtypes, registry
from wengert.torch.arguments import int_of, sizes_of
from wengert.torch.creation import IGNORED, dtype_or, place_of
from wengert.torch.registry import resized, torch_function
from wengert.torch.tensor import Tensor

# --- generators -----------------------------------------------------------------------------------------------------


class Generator(_Generator):
    """A separate source of random numbers: `torch.Generator().manual_seed(0)`."""

    def __init__(self, device: Any = "cpu") -> None:
        self._initial = 67280421310721  # PyTorch's default seed
        self.device = device
        super().__init__(self._initial)

    def manual_seed(self, seed: int) -> Generator:
        """Restart from this seed."""
        self._initial = int(seed)
        _Generator.seed(self, self._initial)
        stream.seeded(self, self._initial)
        return self

    def seed(self, seed: int | None = None) -> Any:
        """Restart from an unpredictable seed, and return it."""
        if seed is not None:
            return _Generator.seed(self, seed)
        self.manual_seed(int.from_bytes(os.urandom(7), "little"))
        return self._initial

    def initial_seed(self) -> int:
        """The initial seed."""
        return self._initial

    def get_state(self) -> Tensor:
        """The current state as bytes, to restore with `set_state`."""
        parts = [np.array(engine.value(part.node)) for part in (self.key, self.counter)]
        held = np.concatenate([*[p.reshape(-1).view(np.uint8) for p in parts], _bytes_of(self._initial)])
        return Tensor(operand(np.concatenate([held, stream.state(self)]), None))

    def set_state(self, state: Any) -> Any:
        """Continue from a state that `get_state` returned."""
        if isinstance(state, dict):
            return _Generator.set_state(self, state)
        held = np.array(engine.value(state.node), np.uint8)
        if held.size < 24:
            raise RuntimeError("RNG state is wrong size")
        self.key.assign(held[:8].view(np.uint32))
        self.counter.assign(held[8:16].view(np.uint64).reshape(()))
        self._initial = int(held[16:24].view(np.uint64)[0])
        stream.set_state(self, held[24:])
        return self

    def clone_state(self) -> Generator:
        """Another generator that continues from the current state."""
        twin = Generator(self.device)
        twin.set_state(self.get_state())
        return twin


def _bytes_of(seed: int) -> np.ndarray[Any, Any]:
    return np.array([seed % (1 << 64)], np.uint64).view(np.uint8)


_MANTISSAS = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}
"""The bits of a number of each dtype, all of whose integers up to 2 to that power it holds."""


class Stream:
    """The source of random numbers: a node for each basic distribution.

    A subclass that draws other numbers is installed with `set_stream`. A generator of None is the default one.
    """

    def uniform(self, shape: Shape, low: Any, high: Any, dtype: Any, generator: Any) -> Node:
        """Uniformly distributed numbers in [low, high)."""
        return drawn.uniform(shape, low, high, dtype=dtype, device="cpu", generator=generator).node

    def normal(self, shape: Shape, mean: Any, std: Any, dtype: Any, generator: Any) -> Node:
        """Normally distributed numbers; the mean and the deviation are numbers or nodes."""
        return drawn.normal(shape, mean, std, dtype=dtype, device="cpu", generator=generator).node

    def randint(self, shape: Shape, low: int, high: int, dtype: Any, generator: Any) -> Node:
        """Uniformly distributed integers in [low, high)."""
        return drawn.randint(low, high, shape, dtype=dtype, device="cpu", generator=generator).node

    def random(self, shape: Shape, dtype: Any, generator: Any) -> Node:
        """Integers from 0 to the largest that the dtype holds; of a floating-point one, holds exactly."""
        name = dtypes.of(dtype).name
        if dtype in INTEGER or dtype is bool_:
            high = 2 if dtype is bool_ else int(np.iinfo(dtype).max) + 1
            return cast(self.randint(shape, 0, high, dtype if dtype in INTEGER else int64, generator), dtype)
        return cast(self.randint(shape, 0, (1 << _MANTISSAS[name]) + 1, int64, generator), dtype)

    def permutation(self, n: int, generator: Any) -> Node:
        """The numbers from 0 to below `n` in random order."""
        return drawn.permutation(n, device="cpu", generator=generator).node

    def bernoulli(self, shape: Shape, p: Any, generator: Any) -> Node:
        """Booleans that are true with probability `p`, a number or a node."""
        return drawn.bernoulli(p, shape, device="cpu", generator=generator).node

    def exponential(self, shape: Shape, dtype: Any, generator: Any) -> Node:
        """Exponentially distributed numbers with mean 1."""
        return drawn.exponential(shape, dtype=dtype, device="cpu", generator=generator).node

    def multinomial(self, p: Node, count: int, replacement: bool, generator: Any) -> Node:
        """Draw indices for each row of probabilities."""
        rows = p.shape[:-1]
        wide = cast(p, float32 if p.dtype in HALF else p.dtype)
        if (
            not replacement
        ):  # the largest of log p + a Gumbel number each: the first is a draw, the next one of the rest
            noise = drawn.gumbel(wide.shape, dtype=wide.dtype, device="cpu", generator=generator).node
            return topk(log(wide) + to_device(noise, p.device), count).indices
        ends = cumsum(cast(wide, float64), axis=-1)
        total = r.max(ends, axis=-1, keepdims=True)
        u = self.uniform((*rows, count), 0.0, 1.0, float64, generator)
        found = searchsorted(ends, to_device(u, p.device) * total, side="right")
        return c.minimum(found, p.shape[-1] - 1)

    def seeded(self, generator: Any, seed: int) -> None:
        """Called when a generator is seeded."""

    def state(self, generator: Any) -> np.ndarray[Any, Any]:
        """The state of a generator besides the key and the counter, as bytes."""
        return np.zeros(0, np.uint8)

    def set_state(self, generator: Any, state: np.ndarray[Any, Any]) -> None:
        """Restore what `state` returned."""


stream = Stream()


def set_stream(other: Stream) -> None:
    """Draw from another stream from now on."""
    global stream
    stream = other


default_generator = Generator()
_shared = drawn.default_generator
default_generator.key, default_generator.counter, default_generator._lock = _shared.key, _shared.counter, _shared._lock


def source(generator: Any) -> Any:
    """The requested generator, or the default one."""
    return default_generator if generator is None else generator


@torch_function(method=False)
def manual_seed(seed: int) -> Generator:
    """Restart the default generator from this seed."""
    return default_generator.manual_seed(int_of(seed) if not isinstance(seed, float) else int(seed))


@torch_function(method=False)
def seed() -> int:
    """Restart the default generator from an unpredictable seed, and return it."""
    found: int = default_generator.seed()
    return found


@torch_function(method=False)
def initial_seed() -> int:
    """The seed the default generator started from."""
    return default_generator.initial_seed()


@torch_function(method=False)
def get_rng_state() -> Tensor:
    """The state of the default generator, as bytes."""
    return default_generator.get_state()


@torch_function(method=False)
def set_rng_state(new_state: Any) -> None:
    """Restore the default generator to a state that `get_rng_state` returned."""
    default_generator.set_state(new_state)


@contextlib.contextmanager
def fork_rng(devices: Any = None, enabled: bool = True, device_type: str = "cuda") -> Iterator[None]:
    """A context after which the default generator continues as if nothing had been drawn inside."""
    state = default_generator.get_state() if enabled else None
    try:
        yield
    finally:
        if state is not None:
            default_generator.set_state(state)


# --- functions that draw --------------------------------------------------------------------------------------------


def _drawing(function: Callable[..., Node]) -> Callable[..., Tensor]:
    """Enter a function that makes a node of random numbers, with PyTorch's further arguments."""

    def call(
        *args: Any,
        generator: Any = None,
        device: Any = None,
        requires_grad: bool = False,
        out: Any = None,
        **kwargs: Any,
    ) -> Tensor:
        for name in IGNORED:
            kwargs.pop(name, None)
        node = function(*args, generator=source(generator), **kwargs)
        like = args[0] if args and function.__name__.endswith("_like") else None
        place = like.node.device if isinstance(like, Base) and device is None else place_of(device)
        made = Tensor(to_device(node, place))
        if out is not None:
            return resized(out, made)
        if requires_grad:
            made.requires_grad = True
        return made

    call.__name__ = call.__qualname__ = function.__name__
    call.__doc__ = function.__doc__
    torch_function(method=False)(call)
    return call


def _floating(name: str, dtype: Any, otherwise: Any = None) -> Any:
    kind = dtype_or(dtype, otherwise)
    if kind.kind not in "fVc":
        raise NotImplementedError(f'"{name}" not implemented for {dtypes.scalar_name(kind)!r}')
    return kind


def _size(size: tuple[Any, ...], named: dict[str, Any]) -> Shape:
    if named.keys() - {"size"}:
        raise TypeError(f"got an unexpected keyword argument {next(iter(named.keys() - {'size'}))!r}")
    return sizes_of((named["size"],) if named else size)


def _complex_pair(draw: Callable[[Any], Node], kind: Any) -> Node:
    part = dtypes.d.real_of(kind)
    return cast(draw(part), kind) + cast(draw(part), kind) * 1j


def uniforms(shape: Shape, kind: Any, generator: Any) -> Node:
    """Uniformly distributed numbers in [0, 1); for complex dtypes both parts are."""
    if kind.kind == "c":
        return _complex_pair(lambda part: stream.uniform(shape, 0.0, 1.0, part, generator), kind)
    return stream.uniform(shape, 0.0, 1.0, kind, generator)


def normals(shape: Shape, kind: Any, generator: Any) -> Node:
    """Normally distributed numbers of mean 0 and variance 1, complex ones too."""
    if kind.kind == "c":
        return _complex_pair(lambda part: stream.normal(shape, 0.0, math.sqrt(0.5), part, generator), kind)
    return stream.normal(shape, 0.0, 1.0, kind, generator)


@_drawing
def rand(*size: Any, generator: Any, dtype: Any = None, **named: Any) -> Node:
    """Uniformly distributed numbers in [0, 1)."""
    return uniforms(_size(size, named), _floating("rand", dtype), generator)


@_drawing
def randn(*size: Any, generator: Any, dtype: Any = None, **named: Any) -> Node:
    """Normally distributed numbers with mean 0 and variance 1."""
    return normals(_size(size, named), _floating("randn", dtype), generator)


@_drawing
def rand_like(input: Any, *, generator: Any, dtype: Any = None) -> Node:
    """Uniformly distributed numbers in [0, 1), in the shape of a tensor."""
    return uniforms(input.node.shape, _floating("rand_like", dtype, input.node.dtype), generator)


@_drawing
def randn_like(input: Any, *, generator: Any, dtype: Any = None) -> Node:
    """Normally distributed numbers in the shape of a tensor."""
    return normals(input.node.shape, _floating("randn_like", dtype, input.node.dtype), generator)


def integers(shape: Shape, low: Any, high: Any, kind: Any, generator: Any) -> Node:
    """Uniformly distributed integers in [low, high), in any dtype."""
    low, high = int_of(item(low)), int_of(item(high))
    if low >= high:
        raise RuntimeError(f"random_ expects 'from' to be less than 'to', but got from={low} >= to={high}")
    if kind in INTEGER:
        return stream.randint(shape, low, high, kind, generator)
    return cast(stream.randint(shape, low, high, int64, generator), kind)


def item(value: Any) -> Any:
    """Return a number unchanged, or the single element of a tensor."""
    return value.item() if isinstance(value, Base) else value


@_drawing
def randint(*bounds: Any, generator: Any, dtype: Any = None, **named: Any) -> Node:
    """Uniformly distributed integers in [`low` (0), `high`): `randint(10, (2,))`, `randint(5, 10, (2,))`."""
    given = dict(zip(("high", "size") if "low" in named or _sized(bounds, named) else ("low", "high", "size"), bounds))
    given |= named
    if "high" not in given or "size" not in given:
        raise TypeError(f"randint() received an invalid combination of arguments: {bounds}, {named}")
    kind = dtype_or(dtype, int64)
    return integers(sizes_of((given["size"],)), given.get("low", 0), given["high"], kind, generator)


def _sized(bounds: tuple[Any, ...], named: dict[str, Any]) -> bool:
    """Whether bounds given by place begin with the upper one."""
    return len(bounds) + len(named.keys() & {"high", "size"}) < 3 and "high" not in named


@_drawing
def randint_like(input: Any, *bounds: Any, generator: Any, dtype: Any = None, **named: Any) -> Node:
    """Integers spread evenly from `low` (0) to below `high`, in the shape of a tensor."""
    low, high = (0, bounds[0]) if len(bounds) == 1 else bounds if bounds else (0, None)
    low, high = named.get("low", low), named.get("high", high)
    return integers(input.node.shape, low, high, dtype_or(dtype, input.node.dtype), generator)


@_drawing
def randperm(n: Any, *, generator: Any, dtype: Any = int64) -> Node:
    """The numbers from 0 to below `n` in random order."""
    if int_of(n) < 0:
        raise RuntimeError("n must be non-negative")
    return cast(stream.permutation(int_of(n), generator), as_dtype(dtype))


@torch_function(method=False)
def normal(
    mean: Any, std: Any = 1.0, size: Any = None, *, generator: Any = None, out: Any = None, **options: Any
) -> Any:
    """Normally distributed numbers whose mean and deviation are tensors, or numbers beside a size."""
    if not isinstance(mean, Base) and not isinstance(std, Base):
        if size is None:
            raise TypeError("normal() received an invalid combination of arguments: numbers need a size")
        made = randn(size, generator=generator, **options)
        return _stored(Tensor((made * std + mean).node), out)
    require_deviation(std)
    centre, spread = (v.node if isinstance(v, Base) else v for v in (mean, std))
    like = centre if isinstance(centre, Node) else spread
    shape = np.broadcast_shapes(*[v.shape for v in (centre, spread) if isinstance(v, Node)])
    z = to_device(normals(shape, _floating("normal", None, like.dtype), source(generator)), like.device)
    return _stored(Tensor(z * spread + centre), out)


def _stored(value: Tensor, out: Any) -> Any:
    return value if out is None else resized(out, value)


def require_deviation(std: Any) -> None:
    """Raise an error for a negative standard deviation."""
    if isinstance(std, (int, float)) and std < 0:
        raise RuntimeError(f"normal expects std >= 0.0, but found std {float(std)}")


def _probabilities(x: Node) -> Node:
    """Probabilities as they are; that they are none raises when they are looked at."""
    known = x.buffer
    if isinstance(known, np.ndarray) and known.size and not (known.min() >= 0 and known.max() <= 1):
        raise RuntimeError("Expected p_in >= 0 && p_in <= 1 to be true, but got false.")
    return x


@torch_function(out=True)
def bernoulli(input: Any, p: Any = None, *, generator: Any = None) -> Tensor:
    """Ones with the probabilities that a tensor holds, or all with probability `p`, and zeros."""
    node = input.node
    if node.dtype not in FLOATING and p is None:
        raise NotImplementedError(f'"bernoulli_tensor_cpu_self_" not implemented for {dtypes.of(node.dtype).name!r}')
    hit = stream.bernoulli(node.shape, _probabilities(node) if p is None else chance(p), source(generator))
    return Tensor(cast(to_device(hit, node.device), node.dtype))


def chance(p: Any) -> Any:
    """A probability, as a number or a node."""
    if isinstance(p, Base):
        return _probabilities(p.node)
    if not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_ expects p to be in [0, 1], but got p={float(p)}")
    return float(p)


@torch_function(out=True)
def multinomial(input: Any, num_samples: int, replacement: bool = False, *, generator: Any = None) -> Tensor:
    """So many indices for each row of weights, drawn with probabilities that they are proportional to."""
    node, count = input.node, int_of(num_samples)
    if len(node.shape) not in (1, 2):
        raise RuntimeError("prob_dist must be 1 or 2 dim")
    if node.dtype not in FLOATING:
        raise RuntimeError(f"Expected a floating point tensor of weights, got {dtypes.of(node.dtype)}")
    if count <= 0:
        raise RuntimeError("cannot sample n_sample <= 0 samples")
    if not replacement and count > node.shape[-1]:
        raise RuntimeError("cannot sample n_sample > prob_dist.size(-1) samples without replacement")
    found = stream.multinomial(node, count, bool(replacement), source(generator))
    fine = c.logical_and(c.isfinite(node), c.greater_equal(node, 0))
    message = "probability tensor contains either `inf`, `nan` or element < 0"
    some = c.greater(r.sum(node, axis=-1, keepdims=True), 0)
    checks = c.zero_where(r.all(fine), message) + c.zero_where(r.all(some), "invalid multinomial distribution")
    return Tensor(found + checks)


def _on_host(draw: Callable[..., Any], generator: Any, *parameters: Node) -> Node:
    """Numbers that NumPy draws on the host, from a seed out of the generator: of rejection, which no graph holds."""
    seeds = np.array(engine.value(source(generator).bits((4,), 32)))
    values = [np.asarray(engine.value(p), np.float64) for p in parameters]
    made = draw(np.random.Generator(np.random.Philox(np.random.SeedSequence(seeds.tolist()))), *values)
    return operand(np.asarray(made), None)


@torch_function()
def poisson(input: Any, generator: Any = None) -> Tensor:
    """Poisson distributed numbers with the rates that a tensor holds. It looks at the rates."""
    node = input.node
    made = _on_host(lambda rng, rate: rng.poisson(rate), generator, node)
    return Tensor(to_device(cast(made, node.dtype), node.device))


@torch_function()
def binomial(count: Any, prob: Any, generator: Any = None) -> Tensor:
    """How many of `count` attempts succeed with probability `prob`. It looks at both."""
    node = count.node
    made = _on_host(lambda rng, n, p: rng.binomial(n.astype(np.int64), p), generator, node, prob.node)
    return Tensor(to_device(cast(made, node.dtype), node.device))


registry.functions["Generator"] = Generator
registry.functions["default_generator"] = default_generator  # type: ignore[assignment]
