"""The stream against torch's generator: the same bits, whatever was drawn before, and the same state after."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from wengert.torch.random_stream import Stream
from wengert.torch.stream_arithmetic import fma32, fma64

torch = pytest.importorskip("torch", reason="torch, the implementation to compare with, is not installed")
pytestmark = pytest.mark.skipif(
    torch.backends.cpu.get_cpu_capability() not in ("AVX2", "AVX512"), reason="torch rounds otherwise without AVX2"
)

SIZES = [0, 1, 2, 7, 15, 16, 17, 31, 32, 33, 1000]
DTYPES = {"float32": np.float32, "float64": np.float64, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}
CPUINFO = Path("/proc/cpuinfo")
HAS_MKL_STREAM = CPUINFO.exists() and "GenuineIntel" in CPUINFO.read_text() and torch.backends.mkl.is_available()
not_on_intel = pytest.mark.skipif(HAS_MKL_STREAM, reason="torch draws these by MKL on this processor")


def bits(array: Any) -> bytes:
    """The bytes of an array or a tensor."""
    if isinstance(array, torch.Tensor):
        array = array.detach()
        array = (array.view(torch.int16) if array.dtype == torch.bfloat16 else array).numpy()
    return np.ascontiguousarray(array).tobytes()


def assert_same(mine: Any, theirs: Any) -> None:
    assert tuple(mine.shape) == tuple(theirs.shape)
    assert mine.dtype.name == str(theirs.dtype).removeprefix("torch.")
    assert bits(mine) == bits(theirs)


def assert_same_state(stream: Stream) -> None:
    assert stream.get_state().tobytes() == torch.get_rng_state().numpy().tobytes()


def both(seed: int) -> Stream:
    torch.manual_seed(seed)
    return Stream(seed)


@pytest.mark.parametrize("seed", [0, 1, 42, 2**31, 2**32 + 5, 2**63 + 11, -3])
def test_seeds_and_their_states(seed: int) -> None:
    stream = both(seed)
    assert_same_state(stream)
    assert stream.initial_seed() == torch.initial_seed()
    for count in (3, 621, 624, 1, 2000):  # over the edges of a block of 624
        assert_same(stream.rand(count), torch.rand(count))
        assert_same_state(stream)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rand_and_randn(dtype: str) -> None:
    stream, kind = both(7), getattr(torch, dtype)
    for size in SIZES + [(3, 5), (4, 4, 2), ()]:
        assert_same(stream.rand(size, DTYPES[dtype]), torch.rand(size, dtype=kind))
        assert_same(stream.randn(size, DTYPES[dtype]), torch.randn(size, dtype=kind))
        assert_same_state(stream)


@pytest.mark.parametrize("dtype", DTYPES)
def test_uniform_and_normal_with_arguments(dtype: str) -> None:
    stream, kind = both(11), getattr(torch, dtype)
    for size in SIZES:
        for low, high in ((-0.37, 1.93), (0.0, 1e-3), (2.0, 2.0), (-1e4, 1e4)):
            assert_same(
                stream.uniform(size, low, high, DTYPES[dtype]), torch.empty(size, dtype=kind).uniform_(low, high)
            )
        for mean, std in ((0.3, 0.02), (-5.0, 1.0), (0.0, 1.7), (1.0, 0.0)):
            assert_same(stream.normal(size, mean, std, DTYPES[dtype]), torch.empty(size, dtype=kind).normal_(mean, std))
    assert_same_state(stream)


def test_many_normals() -> None:
    """Every polynomial, in all octants, often enough to meet its rare roundings."""
    stream = both(123)
    assert_same(stream.randn(500_000), torch.randn(500_000))
    assert_same(stream.normal(200_000, 0.1, 0.37), torch.empty(200_000).normal_(0.1, 0.37))
    assert_same(
        stream.normal(50_000, 0.1, 0.37, np.float64), torch.empty(50_000, dtype=torch.float64).normal_(0.1, 0.37)
    )
    assert_same(
        stream.uniform(50_000, -0.1, 0.37, np.float64), torch.empty(50_000, dtype=torch.float64).uniform_(-0.1, 0.37)
    )


@pytest.mark.parametrize(
    "low, high", [(0, 2), (-7, 30), (0, 2**28 - 1), (0, 2**28), (0, 2**32), (-(2**62), 2**62), (-(2**63), 2**63 - 1)]
)
def test_randint(low: int, high: int) -> None:
    stream = both(3)
    for size in SIZES:
        assert_same(stream.randint(low, high, size), torch.randint(low, high, (size,)))
    if high < 2**31:
        assert_same(stream.randint(low, high, 50, np.int32), torch.randint(low, high, (50,), dtype=torch.int32))
    assert_same_state(stream)


@pytest.mark.parametrize("dtype", ["int64", "int32", "int16", "uint8", "bool", "float32", "float64"])
def test_random_without_a_range(dtype: str) -> None:
    stream = both(4)
    assert_same(stream.random(100, np.dtype(dtype)), torch.empty(100, dtype=getattr(torch, dtype)).random_())
    assert_same_state(stream)


def test_randperm() -> None:
    stream = both(5)
    for n in [*range(40), 100, 1000, 60_000]:
        assert_same(stream.randperm(n), torch.randperm(n))
    assert_same(stream.randperm(10, np.int32), torch.randperm(10, dtype=torch.int32))
    assert_same_state(stream)


@not_on_intel
@pytest.mark.parametrize("dtype", DTYPES)
def test_bernoulli(dtype: str) -> None:
    stream, kind = both(6), getattr(torch, dtype)
    for size in SIZES:
        for p in (0.0, 0.3, 1.0):
            assert_same(stream.bernoulli(p, size, DTYPES[dtype]), torch.empty(size, dtype=kind).bernoulli_(p))
        p = stream.rand(size, DTYPES[dtype])
        q = torch.rand(size, dtype=kind)
        assert_same(stream.bernoulli(p, dtype=p.dtype), torch.bernoulli(q))
    mask = torch.empty(10, dtype=torch.bool)
    assert_same(stream.bernoulli(0.4, 10, np.bool_), mask.bernoulli_(0.4))
    assert_same_state(stream)


@not_on_intel
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("p", [0.0, 0.1, 0.5, 1.0])
def test_dropout(dtype: str, p: float) -> None:
    stream, kind = both(8), getattr(torch, dtype)
    for size in [1, 15, 16, 100, (3, 7)]:
        expected = torch.nn.functional.dropout(torch.ones(size, dtype=kind, requires_grad=True), p)
        assert_same(stream.dropout_mask(size, p, DTYPES[dtype]), expected)
    assert_same_state(stream)


DRAWS: dict[str, tuple[Callable[..., Any], Callable[[Any], Any]]] = {
    "exponential": (lambda s, n, d: s.exponential(n, 1.7, d), lambda t: t.exponential_(1.7)),
    "geometric": (lambda s, n, d: s.geometric(n, 0.3, d), lambda t: t.geometric_(0.3)),
    "cauchy": (lambda s, n, d: s.cauchy(n, 0.5, 2.0, d), lambda t: t.cauchy_(0.5, 2.0)),
    "log_normal": (lambda s, n, d: s.log_normal(n, 0.5, 0.25, d), lambda t: t.log_normal_(0.5, 0.25)),
}


@not_on_intel
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", DRAWS)
def test_other_distributions(name: str, dtype: str) -> None:
    stream, kind = both(9), getattr(torch, dtype)
    mine, theirs = DRAWS[name]
    for size in SIZES:
        assert_same(mine(stream, size, DTYPES[dtype]), theirs(torch.empty(size, dtype=kind)))
        assert_same_state(stream)


@not_on_intel
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_multinomial(dtype: str) -> None:
    stream, kind = both(10), getattr(torch, dtype)
    for shape in [(5,), (3, 20), (1, 1), (2, 1000)]:
        weights = stream.rand(shape, DTYPES[dtype])
        others = torch.rand(shape, dtype=kind)
        for count in (1, min(5, shape[-1])):
            assert_same(stream.multinomial(weights, count), torch.multinomial(others, count))
        for count in (1, 5, 300):
            assert_same(stream.multinomial(weights, count, True), torch.multinomial(others, count, replacement=True))
        assert_same_state(stream)


@pytest.mark.parametrize("bounds", [(-2.0, 2.0), (-0.5, 1.0), (1.5, 3.0), (2.5, 4.0)])
def test_trunc_normal(bounds: tuple[float, float]) -> None:
    stream = both(12)
    for size in [(4,), (30, 20), (16,)]:
        for mean, std in ((0.0, 1.0), (0.1, 0.8)):
            expected = torch.nn.init.trunc_normal_(torch.empty(size), mean, std, *bounds)
            assert_same(stream.trunc_normal(size, mean, std, *bounds), expected)
    assert_same_state(stream)


def test_what_inits_draw() -> None:
    """Of a convolution and a linear layer, as their constructors do."""
    stream = both(13)
    layer = torch.nn.Linear(7, 5)
    bound = 1 / np.sqrt(7)
    np.testing.assert_allclose(stream.uniform((5, 7), -bound, bound), layer.weight.detach().numpy(), rtol=1e-6)
    np.testing.assert_allclose(stream.uniform(5, -bound, bound), layer.bias.detach().numpy(), rtol=1e-6)
    embedding = torch.nn.Embedding(10, 3)
    assert_same(stream.normal((10, 3)), embedding.weight.detach())
    assert_same_state(stream)


def test_states_go_both_ways() -> None:
    stream = both(14)
    torch.randn(3), torch.rand(700)
    stream.set_state(torch.get_rng_state().numpy())
    assert_same(stream.randn(5), torch.randn(5))  # begins with what was left of a pair
    torch.set_rng_state(torch.from_numpy(stream.get_state()))
    assert_same(stream.randn(40), torch.randn(40))
    other = Stream().set_state(stream.get_state())
    assert other.initial_seed() == 14
    assert_same(other.rand(5), torch.rand(5))
    with pytest.raises(ValueError, match="5056 bytes"):
        stream.set_state(np.zeros(3, np.uint8))
    with pytest.raises(ValueError, match="not a generator's state"):
        stream.set_state(np.zeros(5056, np.uint8))


def test_a_random_mixture_of_draws() -> None:
    """One kind of draw leaves the stream where the next one of another kind begins."""
    choices = np.random.default_rng(0)
    stream = both(15)
    for _ in range(300):
        size = int(choices.integers(0, 40))
        kind = choices.integers(0, 6)
        if kind == 0:
            assert_same(stream.rand(size), torch.rand(size))
        elif kind == 1:
            assert_same(stream.randn(size), torch.randn(size))
        elif kind == 2:
            assert_same(stream.randn(size, np.float64), torch.randn(size, dtype=torch.float64))
        elif kind == 3:
            assert_same(stream.randperm(size), torch.randperm(size))
        elif kind == 4:
            assert_same(stream.randint(0, 2**40, size), torch.randint(0, 2**40, (size,)))
        else:
            assert_same(stream.randn(size, np.float16), torch.randn(size, dtype=torch.float16))
        assert_same_state(stream)


def test_fused_multiply_adds_round_once() -> None:
    """Against exact fractions, with sums made to lie beside the middle between two numbers."""
    generator = np.random.default_rng(2)
    for dtype, digits, fused in ((np.float32, 24, fma32), (np.float64, 53, fma64)):
        a, b = (generator.uniform(-2, 2, 2000).astype(dtype) for _ in range(2))
        a[:1000] = 1 + dtype(2.0 ** (1 - digits)) * generator.integers(0, 64, 1000).astype(dtype)
        b[:1000] = 1 + dtype(2.0 ** (1 - digits)) * generator.integers(0, 64, 1000).astype(dtype)
        c = (generator.uniform(-2, 2, 2000) * 2.0 ** generator.integers(-40, 3, 2000)).astype(dtype)
        c[:1000] = dtype(2.0**-digits) * generator.choice([-1, 1], 1000).astype(dtype)
        for i in range(0, 2000, 3):
            exact = Fraction(float(a[i])) * Fraction(float(b[i])) + Fraction(float(c[i]))
            got = float(np.atleast_1d(fused(a[i : i + 1], b[i : i + 1] if dtype is np.float32 else b[i], c[i]))[0])
            near = [got, *(float(np.nextafter(dtype(got), dtype(end))) for end in (-np.inf, np.inf))]
            assert min(near, key=lambda x: abs(Fraction(x) - exact)) == got
