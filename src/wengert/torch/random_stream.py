"""PyTorch's random numbers on the CPU, bit for bit, in NumPy. In: a seed. Out: arrays as `torch.rand` etc. return them.

A `Stream` corresponds to a `torch.Generator`: the same Mersenne Twister, and from its 32-bit numbers the same draws by
the same arithmetic in the same order. Integers, uniform numbers, permutations, masks and normal numbers have PyTorch's
bits, as computed on x86-64 with AVX2 (and with AVX-512: where that fuses a multiplication and an addition, so does this
module). The exceptions are the float32 results of `exponential`, `geometric`, `cauchy` and `log_normal`: their
logarithms are NumPy's in float64, whose last bit may differ, which changes the rounded result about once in 10^8 draws.
PyTorch built with MKL draws `bernoulli`, dropout and `exponential` from an MKL generator on Intel processors, with
other results.

The module needs only NumPy and the module beside it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from wengert.torch.stream_arithmetic import box_muller32, box_muller64, c_library, fma64, in_blocks, scaled

Array = np.ndarray[Any, Any]
Size = int | Sequence[int]

_WORDS = 624  # of the Mersenne Twister's state
_HEADER = np.dtype([("seed", "<u8"), ("left", "<i4"), ("seeded", "<i4"), ("next", "<u8")])
_TAIL = np.dtype([("x", "<f8"), ("normal", "<f8"), ("rho", "<f8"), ("has_normal", "<i4"), ("unused", "V12")])
STATE_BYTES = _HEADER.itemsize + 8 * _WORDS + _TAIL.itemsize  # 5056, as torch.get_rng_state()

_64_BITS_FROM = 1 << 28  # a range of integers from here on takes 64 random bits
_FLOAT32 = np.dtype(np.float32)
_FLOAT64 = np.dtype(np.float64)


class Stream:
    """A generator with PyTorch's numbers.

    >>> Stream(0).rand(2).tolist()
    [0.49625658988952637, 0.7682217955589294]
    >>> Stream(0).randperm(5).tolist()
    [4, 0, 1, 3, 2]
    """

    def __init__(self, seed: int = 67280421310721) -> None:
        self._twister = np.random.MT19937()
        self._words = np.random.Generator(self._twister)
        self.manual_seed(seed)

    # --- seed and state ---------------------------------------------------------------------------------------------

    def manual_seed(self, seed: int) -> Stream:
        """Start again, as `torch.manual_seed` does. The twister is seeded by the lower 32 bits."""
        seed = int(seed)
        if not -(1 << 63) <= seed < 1 << 64:
            raise ValueError(f"manual_seed: a seed must be a 64-bit number, not {seed}")
        self._seed = seed % (1 << 64)
        self._twister._legacy_seeding(self._seed & 0xFFFFFFFF)
        self._is_fresh = True
        self._next_normal: float | None = None
        return self

    def initial_seed(self) -> int:
        """The seed the stream began with."""
        return self._seed

    def get_state(self) -> Array:
        """The state as 5056 bytes, which `torch.set_rng_state` takes."""
        twister = self._twister.state["state"]
        place = int(twister["pos"])
        header = np.zeros((), _HEADER)
        header["seed"], header["seeded"] = self._seed, 1
        header["left"] = _WORDS + 1 - place
        header["next"] = 0 if self._is_fresh else place
        tail = np.zeros((), _TAIL)
        if self._next_normal is not None:
            tail["normal"], tail["has_normal"] = self._next_normal, 1
        parts = (header.tobytes(), twister["key"].astype("<u8").tobytes(), tail.tobytes())
        return np.frombuffer(bytearray(b"".join(parts)), np.uint8)

    def set_state(self, state: Any) -> Stream:
        """Go on from a state that `get_state` or `torch.get_rng_state` gave."""
        data = np.asarray(state).astype(np.uint8).tobytes()
        if len(data) != STATE_BYTES:
            raise ValueError(f"set_state: a state has {STATE_BYTES} bytes, not {len(data)}")
        header = np.frombuffer(data, _HEADER, 1)[0]
        words = np.frombuffer(data, "<u8", _WORDS, _HEADER.itemsize)
        tail = np.frombuffer(data, _TAIL, 1, _HEADER.itemsize + words.nbytes)[0]
        left, place = int(header["left"]), int(header["next"])
        if not header["seeded"] or not 0 < left <= _WORDS or place > _WORDS:
            raise ValueError("set_state: these bytes are not a generator's state")
        self._seed = int(header["seed"])
        self._is_fresh = left == 1 and place == 0
        key: Any = {"key": words.astype(np.uint32), "pos": _WORDS if left == 1 else place}
        self._twister.state = {"bit_generator": "MT19937", "state": key}
        self._next_normal = float(tail["normal"]) if tail["has_normal"] else None
        return self

    # --- random bits ------------------------------------------------------------------------------------------------

    def random32(self, count: int) -> Array:
        """The next numbers of 32 bits."""
        if count == 0:  # of which NumPy makes one word
            return np.empty(0, np.uint32)
        self._is_fresh = False
        return np.frombuffer(self._words.bytes(4 * count), "<u4").astype(np.uint32, copy=False)

    def random64(self, count: int) -> Array:
        """Numbers of 64 bits, each made of two: the upper half first."""
        halves = self.random32(2 * count).reshape(-1, 2).astype(np.uint64)
        return (halves[:, 0] << np.uint64(32)) | halves[:, 1]

    def _unit32(self, count: int) -> Array:
        """Uniform float32 in [0, 1): the lower 24 bits."""
        return (self.random32(count) & np.uint32(0xFFFFFF)).astype(np.float32) * np.float32(2.0**-24)

    def _unit64(self, count: int) -> Array:
        """Uniform float64 in [0, 1): the lower 53 bits."""
        return (self.random64(count) & np.uint64((1 << 53) - 1)).astype(np.float64) * 2.0**-53

    # --- uniform numbers --------------------------------------------------------------------------------------------

    def rand(self, size: Size, dtype: Any = np.float32) -> Array:
        """`torch.rand`: uniform in [0, 1)."""
        return self.uniform(size, 0.0, 1.0, dtype)

    def uniform(self, size: Size, low: float = 0.0, high: float = 1.0, dtype: Any = np.float32) -> Array:
        """`Tensor.uniform_(low, high)`."""
        dtype, shape = np.dtype(dtype), _shape(size)
        work = _working(dtype)
        unit = self._unit64(_count(shape)) if work == _FLOAT64 else self._unit32(_count(shape))
        first, last = work.type(low), work.type(high)
        values = _cast(scaled(unit, work.type(last - first), first), dtype)
        # A rounding may arrive at the end, which is not one of the numbers.
        ends = _cast(np.array([low, high], np.float64), dtype)
        return np.where(values == ends[1], ends[0], values).astype(dtype, copy=False).reshape(shape)

    # --- normal numbers ---------------------------------------------------------------------------------------------

    def randn(self, size: Size, dtype: Any = np.float32) -> Array:
        """`torch.randn`: normal with mean 0 and standard deviation 1."""
        return self.normal(size, 0.0, 1.0, dtype)

    def normal(self, size: Size, mean: float = 0.0, std: float = 1.0, dtype: Any = np.float32) -> Array:
        """`Tensor.normal_(mean, std)`: fewer than 16 numbers one at a time, more in blocks of 16."""
        if std < 0:
            raise ValueError(f"normal: the standard deviation cannot be negative, but is {std}")
        dtype, shape = np.dtype(dtype), _shape(size)
        count = _count(shape)
        if count < 16:
            return _cast(self._few_normals(count, mean, std), dtype).reshape(shape)
        work = _working(dtype)
        blocks = self._normal_blocks(count, work == dtype, work, mean, std)
        return _cast(blocks, dtype).reshape(shape)

    def _normal_blocks(self, count: int, draws_the_rest: bool, work: Any, mean: float, std: float) -> Array:
        """Box-Muller over blocks of 16 uniform numbers: eight for the radius, eight for the angle.

        The last 16 of a count that is no multiple of 16 are drawn again. float32 and float64 draw a number for each
        element before that, half precision for whole blocks.
        """
        whole = count // 16 * 16
        unit = self._unit64 if work == _FLOAT64 else self._unit32
        box_muller = box_muller64 if work == _FLOAT64 else box_muller32
        values = np.empty(count, work)
        values[:whole] = in_blocks(unit(count if draws_the_rest else whole)[:whole], box_muller, mean, std)
        if count != whole:
            values[-16:] = in_blocks(unit(16), box_muller, mean, std)
        return values

    def _few_normals(self, count: int, mean: float, std: float) -> Array:
        """Pairs by Box-Muller in float64. What is left of a pair is the first of the next draw."""
        values: list[float] = []
        while len(values) < count:
            if self._next_normal is not None:
                values.append(self._next_normal)
                self._next_normal = None
                continue
            turn, part = self._unit64(2).tolist()
            radius, angle = math.sqrt(-2.0 * math.log1p(-part)), 2.0 * math.pi * turn
            self._next_normal = radius * math.sin(angle)
            values.append(radius * math.cos(angle))
        return fma64(np.array(values, np.float64), np.float64(std), np.float64(mean))

    def log_normal(self, size: Size, mean: float = 1.0, std: float = 2.0, dtype: Any = np.float32) -> Array:
        """`Tensor.log_normal_(mean, std)`."""
        shape = _shape(size)
        count = _count(shape)
        held = [] if self._next_normal is None or not count else [self._next_normal]
        missing = count - len(held)
        pairs = self._unit64((missing + 1) // 2 * 2).reshape(-1, 2)
        radius, angle = np.sqrt(-2.0 * c_library(math.log1p, -pairs[:, 1])), 2.0 * math.pi * pairs[:, 0]
        both = np.stack([radius * c_library(math.cos, angle), radius * c_library(math.sin, angle)], 1).reshape(-1)
        if count:
            self._next_normal = float(both[-1]) if missing % 2 else None
        values = fma64(np.concatenate([held, both[:missing]]), np.float64(std), np.float64(mean))
        return _cast(c_library(math.exp, values), np.dtype(dtype)).reshape(shape)

    # --- integers ---------------------------------------------------------------------------------------------------

    def randint(self, low: int, high: int, size: Size, dtype: Any = np.int64) -> Array:
        """`torch.randint(low, high, size)`, and `Tensor.random_(low, high)`: integers from `low` to before `high`."""
        if low >= high:
            raise ValueError(f"randint: low must be below high, but they are {low} and {high}")
        shape, width = _shape(size), int(high) - int(low)
        bits = self.random64(_count(shape)) if width >= _64_BITS_FROM else self.random32(_count(shape))
        rest = (bits % bits.dtype.type(width)).astype(np.uint64) if width < 1 << 64 else bits
        values = (rest + np.uint64(low % (1 << 64))).view(np.int64)
        return _cast(values, np.dtype(dtype)).reshape(shape)

    def random(self, size: Size, dtype: Any = np.int64) -> Array:
        """`Tensor.random_()`: all integers from 0 on that the dtype holds (of a float: up to its precision)."""
        dtype, shape = np.dtype(dtype), _shape(size)
        bits = self.random64(_count(shape)) if dtype in (np.int64, np.float64) else self.random32(_count(shape))
        if dtype == np.bool_:
            return (bits & np.uint32(1)).astype(np.bool_).reshape(shape)
        if dtype.kind in "iu":
            return (bits % bits.dtype.type(int(np.iinfo(dtype).max) + 1)).astype(dtype).reshape(shape)
        digits = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}[dtype.name]
        return _cast(bits % bits.dtype.type((1 << digits) + 1), dtype).reshape(shape)

    def randperm(self, n: int, dtype: Any = np.int64) -> Array:
        """`torch.randperm(n)`: place i is exchanged with a place from i on, for each i in turn."""
        if n >= 0xFFFFFFFF // 20:
            raise ValueError(
                f"randperm: up to {0xFFFFFFFF // 20 - 1} elements, not {n}; numpy.random.permutation has no limit"
            )
        if n < 2:
            return np.arange(n, dtype=dtype)
        steps = np.arange(n - 1, dtype=np.int64)
        others = steps + (self.random32(n - 1) % (n - steps).astype(np.uint32)).astype(np.int64)
        return _exchanged(others, n).astype(dtype)

    # --- other distributions ----------------------------------------------------------------------------------------

    def bernoulli(self, p: Any, size: Size | None = None, dtype: Any = np.float32) -> Array:
        """`Tensor.bernoulli_(p)`. A number takes 64 random bits an element, an array as many as its dtype asks for.

        `torch.bernoulli(x)` is `bernoulli(x, dtype=x.dtype)`.
        """
        if isinstance(p, np.ndarray):
            shape = p.shape if size is None else _shape(size)
            probabilities: Any = np.broadcast_to(p, shape).reshape(-1)
            is_double = p.dtype == _FLOAT64
            probabilities = probabilities if is_double else probabilities.astype(np.float32)
        else:
            shape, probabilities, is_double = _shape(() if size is None else size), float(p), True
        if not np.all((probabilities >= 0) & (probabilities <= 1)):
            raise ValueError("bernoulli: a probability must be between 0 and 1")
        unit = self._unit64(_count(shape)) if is_double else self._unit32(_count(shape))
        return (unit < probabilities).reshape(shape).astype(dtype)

    def dropout_mask(self, size: Size, p: float = 0.5, dtype: Any = np.float32) -> Array:
        """The factors of `F.dropout`: 0 with probability `p`, else 1 / (1 - p)."""
        dtype = np.dtype(dtype)
        if p == 0 or p == 1:  # nothing is drawn
            return np.full(_shape(size), 1 - p, dtype)
        work = _working(dtype)
        kept = self.bernoulli(1 - p, size, work)
        return _cast(kept / work.type(1 - p), dtype)

    def exponential(self, size: Size, rate: float = 1.0, dtype: Any = np.float32) -> Array:
        """`Tensor.exponential_(rate)`."""
        dtype, unit = np.dtype(dtype), self._unit64(_count(_shape(size)))
        logarithm = _log1p_for(dtype)
        return _cast(-1.0 / np.float64(rate) * logarithm(-unit), dtype).reshape(_shape(size))

    def geometric(self, size: Size, p: float, dtype: Any = np.float32) -> Array:
        """`Tensor.geometric_(p)`: the number of the first success."""
        if not 0 < p < 1:
            raise ValueError(f"geometric: a probability between 0 and 1, not {p}")
        unit = self._unit64(_count(_shape(size)))
        with np.errstate(divide="ignore"):
            values = np.ceil(np.log(unit) / math.log1p(-p))
        return _cast(values, np.dtype(dtype)).reshape(_shape(size))

    def cauchy(self, size: Size, median: float = 0.0, sigma: float = 1.0, dtype: Any = np.float32) -> Array:
        """`Tensor.cauchy_(median, sigma)`."""
        tangents = c_library(math.tan, math.pi * (self._unit64(_count(_shape(size))) - 0.5))
        return _cast(fma64(tangents, np.float64(sigma), np.float64(median)), np.dtype(dtype)).reshape(_shape(size))

    def multinomial(self, weights: Array, num_samples: int, replacement: bool = False) -> Array:
        """`torch.multinomial(weights, num_samples, replacement)`: indices along the last axis."""
        weights = np.asarray(weights)
        if not replacement and num_samples > weights.shape[-1]:
            raise ValueError(f"multinomial: {num_samples} of {weights.shape[-1]} without replacement")
        if num_samples == 1 or not replacement:
            race = _cast(weights.astype(_working(weights.dtype)) / self._exponential_like(weights), weights.dtype)
            return np.argsort(-race, axis=-1, kind="stable")[..., :num_samples].astype(np.int64)
        rows = weights.reshape(-1, weights.shape[-1])
        found = np.empty((len(rows), num_samples), np.int64)
        for row, result in zip(rows, found):
            sums = np.add.accumulate(row)
            sums = sums / sums[-1]
            sums[-1] = 1
            result[:] = np.searchsorted(sums.astype(np.float64), self._unit64(num_samples))
        return found.reshape(*weights.shape[:-1], num_samples)

    def _exponential_like(self, weights: Array) -> Array:
        return self.exponential(weights.shape, 1.0, weights.dtype).astype(_working(weights.dtype))

    def trunc_normal(
        self, size: Size, mean: float = 0.0, std: float = 1.0, a: float = -2.0, b: float = 2.0, dtype: Any = np.float32
    ) -> Array:
        """`nn.init.trunc_normal_`: normal numbers, drawn again (all of them) until each lies between `a` and `b`."""
        dtype = np.dtype(dtype)
        if _normal_cdf((b - mean) / std) - _normal_cdf((a - mean) / std) <= 0.3:
            return self._truncated_by_rejection(size, mean, std, a, b, dtype)
        low, high = _cast(np.array([a, b]), dtype)
        values = self.normal(size, mean, std, dtype)
        outside = (values < low) | (values > high)
        while outside.any():
            values = np.where(outside, self.normal(size, mean, std, dtype), values)
            outside = (values < low) | (values > high)
        return values

    def _truncated_by_rejection(self, size: Size, mean: float, std: float, a: float, b: float, dtype: Any) -> Array:
        peak = -0.5 * ((max(a, min(mean, b)) - mean) / std) ** 2
        work = _working(dtype).type

        def accepted(candidates: Array) -> Array:
            part = (candidates - work(mean)) / work(std)
            with np.errstate(divide="ignore"):
                return np.log(self.uniform(size, 0.0, 1.0, dtype)) > part * part * work(-0.5) - work(peak)

        values = self.uniform(size, a, b, dtype)
        pending = accepted(values)
        while pending.any():
            candidates = self.uniform(size, a, b, dtype)
            values = np.where(pending, candidates, values)
            pending = np.where(pending, accepted(candidates), pending)
        return values


# --- shapes and dtypes ----------------------------------------------------------------------------------------------


def _shape(size: Size) -> tuple[int, ...]:
    return (size,) if isinstance(size, (int, np.integer)) else tuple(size)


def _count(shape: tuple[int, ...]) -> int:
    return math.prod(shape)


def _working(dtype: Any) -> Any:
    """What numbers of a dtype are computed in: half precision in float32."""
    return _FLOAT64 if dtype == _FLOAT64 else _FLOAT32


def _cast(values: Array, dtype: Any) -> Array:
    """Values in a dtype, through float32 for half precision, as PyTorch converts."""
    if dtype.kind in "iub" or dtype in (_FLOAT32, _FLOAT64):
        return values.astype(dtype, copy=False)
    return values.astype(np.float32, copy=False).astype(dtype)


def _normal_cdf(x: float) -> float:
    return (1.0 + math.erf(x / math.sqrt(2.0))) / 2.0


def _log1p_for(dtype: Any) -> Callable[[Array], Array]:
    """log1p for results of a dtype: the last bit counts in float64 alone."""
    return (lambda values: c_library(math.log1p, values)) if dtype == _FLOAT64 else np.log1p


def _exchanged(others: Array, n: int) -> Array:
    """0 to n - 1 after place t was exchanged with place `others[t]` >= t, for each t in turn, all at once.

    What lies at a place at some time came there by the last exchange with it: `came[t]` is the earlier time at which
    place t was last exchanged with, and what lies at t then is what lay at that place, and so on to the start.
    """
    times = np.arange(len(others))
    order = np.lexsort((times, others))  # by place, then by time
    places = others[order]
    same = np.flatnonzero(places[1:] == places[:-1])
    before = np.full(len(others), -1)  # the exchange with the same place before this one
    before[order[same + 1]] = order[same]
    last = np.full(n, -1)
    last[places] = order  # of the times of a place the last is written last
    came = last[: len(others)]
    came = np.where(came == times, before[times], came)
    source = np.where(came < 0, times, came)
    while True:  # paths of exchanges, of which each look doubles what is known
        further = source[source]
        if np.array_equal(further, source):
            break
        source = further
    result = np.empty(n, np.int64)
    result[:-1] = np.where(before < 0, others, source[before])
    result[-1] = source[last[-1]] if last[-1] >= 0 else n - 1
    return result
