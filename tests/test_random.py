"""Generators and distributions: what a seed promises, the distributions themselves, gradients, lanes, errors."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from scipy import stats

import wengert as wg
from wengert.api.random import Generator
from wengert.core.errors import ArgumentError, DeviceError, DTypeError, ShapeError
from wengert.core.graph import recording
from wengert.ops import random as ops
from wengert.ops.core import data

N = 20_000
DRAWS = {
    "uniform": lambda **k: wg.random.uniform((6,), **k),
    "normal": lambda **k: wg.random.normal((6,), **k),
    "truncated_normal": lambda **k: wg.random.truncated_normal((6,), **k),
    "bernoulli": lambda **k: wg.random.bernoulli(0.5, (64,), **k),
    "randint": lambda **k: wg.random.randint(0, 1000, (6,), **k),
    "permutation": lambda **k: wg.random.permutation(20, **k),
    "categorical": lambda **k: wg.random.categorical(wg.tensor(np.zeros(1000)), (6,), **k),
    "gumbel": lambda **k: wg.random.gumbel((6,), **k),
    "exponential": lambda **k: wg.random.exponential((6,), **k),
}
FLOATING = ["uniform", "normal", "truncated_normal", "gumbel", "exponential"]
DTYPES = [wg.float64, wg.float32, wg.float16, wg.bfloat16]
every_draw = pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS.keys())


def differ(*draws):
    return len({str(draw.tolist()) for draw in draws}) == len(draws)


# --- what a seed promises -------------------------------------------------------------------------------------------


@every_draw
def test_the_same_seed_gives_the_same_numbers(draw):
    assert draw(generator=Generator(5)).tolist() == draw(generator=Generator(5)).tolist()
    assert differ(draw(generator=Generator(5)), draw(generator=Generator(6)))


@every_draw
def test_the_next_draw_differs(draw):
    generator = Generator(5)
    assert differ(draw(generator=generator), draw(generator=generator), draw(generator=generator))


def test_numbers_are_made_from_the_words_in_order():
    """Seeds are in people's papers: how numbers come from the words of block 0, key 0 must not change."""
    words = 0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8
    wide = words[0] | words[1] << 32, words[2] | words[3] << 32
    assert wg.random.randint(1000, shape=(2,), generator=Generator(0)).tolist() == [w % 1000 for w in wide]
    uniform = wg.random.uniform((4,), generator=Generator(0)).tolist()
    assert uniform == [(w >> 8) / 2**24 for w in words]
    radius, angle = np.sqrt(-2 * np.log((words[0] + 0.5) / 2**32)), 2 * np.pi * words[1] / 2**32
    normal = wg.random.normal((2,), generator=Generator(0)).numpy()
    np.testing.assert_allclose(normal, [radius * np.cos(angle), radius * np.sin(angle)], rtol=1e-5)


def test_manual_seed_seeds_the_default_generator():
    wg.manual_seed(11)
    first = wg.random.normal((3,))
    wg.manual_seed(11)
    assert wg.random.normal((3,)).tolist() == first.tolist()
    assert wg.random.normal((3,), generator=Generator(11)).tolist() == first.tolist()


def test_a_draw_nobody_looks_at_still_counts():
    looked, ignored = Generator(1), Generator(1)
    wg.random.uniform((10,), generator=looked).numpy()
    wg.random.uniform((10,), generator=ignored)
    assert wg.random.uniform((2,), generator=looked).tolist() == wg.random.uniform((2,), generator=ignored).tolist()


def test_draws_of_different_sizes_do_not_overlap():
    generator = Generator(3)
    drawn = [wg.random.randint(0, 1 << 62, (n,), generator=generator).tolist() for n in (1, 2, 3, 5, 8)]
    flat = [number for draw in drawn for number in draw]
    assert len(set(flat)) == len(flat)


def test_state_goes_back_and_is_a_snapshot():
    generator = Generator(3)
    wg.random.normal((5,), generator=generator)
    state = generator.state()
    first = wg.random.normal((5,), generator=generator).tolist()
    generator.set_state(state)
    assert wg.random.normal((5,), generator=generator).tolist() == first
    assert wg.random.normal((5,), generator=Generator(99).set_state(state)).tolist() == first
    generator.set_state({name: part.numpy() for name, part in state.items()})
    assert wg.random.normal((5,), generator=generator).tolist() == first


def test_without_a_seed_generators_differ():
    assert differ(*[wg.random.uniform((4,), generator=Generator()) for _ in range(3)])


def test_spawned_generators_differ_from_each_other_and_from_their_parent():
    parent = Generator(3)
    children = parent.spawn(3) + parent.spawn(2)
    assert differ(*[wg.random.uniform((4,), generator=g) for g in (*children, parent)])
    again = Generator(3).spawn(3)
    children = Generator(3).spawn(3)
    for one, other in zip(again, children):
        assert wg.random.uniform((4,), generator=one).tolist() == wg.random.uniform((4,), generator=other).tolist()


def test_seeds_may_be_any_integer():
    assert differ(*[wg.random.uniform((4,), generator=Generator(s)) for s in (0, -1, 1 << 40, np.int64(3))])


def test_a_value_computed_again_is_the_same():
    x = wg.tensor(np.ones(1000, np.float32), requires_grad=True)
    mask = wg.random.bernoulli(0.5, (1000,), generator=Generator(2))
    y = wg.where(mask, x, 0)
    seen = y.detach().numpy().copy()
    y.sum().backward()
    assert (x.grad.numpy() == seen).all()


def test_checkpoint_draws_the_same_numbers():
    def noisy(x, generator):
        return wg.sum(x * wg.random.normal((5,), generator=generator) ** 2)

    x = wg.tensor(np.arange(5.0))
    plain, recomputed = Generator(4), Generator(4)
    expected = wg.grad(noisy)(x, plain)
    found = wg.grad(lambda x: wg.checkpoint(lambda v: noisy(v, recomputed))(x))(x)
    np.testing.assert_allclose(found.numpy(), expected.numpy())
    assert recomputed.counter.item() == plain.counter.item()


def test_threads_that_share_a_generator_draw_different_numbers():
    generator, drawn = Generator(8), []

    def draw():
        for _ in range(50):
            drawn.extend(wg.random.randint(0, 1 << 62, (2,), generator=generator).tolist())

    threads = [threading.Thread(target=draw) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(drawn)) == len(drawn) == 400


# --- the distributions ----------------------------------------------------------------------------------------------


def fits(sample, distribution):
    """Whether a Kolmogorov-Smirnov test finds nothing; seeds are fixed, so this holds or not, once and for all."""
    return stats.kstest(np.asarray(sample, np.float64).reshape(-1), distribution).pvalue > 1e-3


@pytest.mark.parametrize("dtype", [wg.float64, wg.float32])
def test_distributions_fit(dtype):
    g = Generator(2024)
    kw = {"dtype": dtype, "generator": g}
    assert fits(wg.random.uniform((N,), -1.0, 3.0, **kw), stats.uniform(-1, 4).cdf)
    assert fits(wg.random.normal((N,), 2.0, 0.5, **kw), stats.norm(2, 0.5).cdf)
    assert fits(wg.random.normal((N + 1,), **kw), stats.norm.cdf)
    assert fits(wg.random.truncated_normal((N,), 1.0, 3.0, -1.0, 2.0, **kw), stats.truncnorm(-1, 2, 1, 3).cdf)
    assert fits(wg.random.truncated_normal((N,), low=5.0, high=6.0, **kw), stats.truncnorm(5, 6).cdf)
    assert fits(wg.random.gumbel((N,), 1.0, 2.0, **kw), stats.gumbel_r(1, 2).cdf)
    assert fits(wg.random.exponential((N,), 2.0, **kw), stats.expon(0, 2).cdf)


@pytest.mark.parametrize("name", FLOATING)
@pytest.mark.parametrize("dtype", DTYPES)
def test_dtypes(name, dtype):
    draw = getattr(wg.random, name)((N,), dtype=dtype, generator=Generator(1))
    exact = getattr(wg.random, name)((N,), dtype=wg.float64, generator=Generator(7)).numpy()
    found = draw.numpy().astype(np.float64)
    assert draw.dtype is dtype and np.isfinite(found).all()
    assert abs(found.mean() - exact.mean()) < 0.05
    assert abs(found.std() - exact.std()) < 0.05


def test_neighbouring_normals_are_uncorrelated():
    """The two of a pair share their radius; their product must not show it, nor must draws that follow each other."""
    z = wg.random.normal((N, 2), dtype=wg.float64, generator=Generator(3)).numpy()
    assert abs(np.corrcoef(z[:, 0], z[:, 1])[0, 1]) < 4 / np.sqrt(N)
    assert abs(np.corrcoef(z[:, 0] ** 2, z[:, 1] ** 2)[0, 1]) < 4 / np.sqrt(N)
    assert abs(np.corrcoef(z[:-1, 1], z[1:, 0])[0, 1]) < 4 / np.sqrt(N)


def test_normal_has_tails():
    z = np.abs(wg.random.normal((2_000_000,), generator=Generator(0)).numpy())
    assert 4.7 < z.max() < 6.8
    assert abs((z > 4).mean() / (2 * stats.norm.sf(4)) - 1) < 0.4


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("low", "high"), [(0.0, 1.0), (1.0, 2.0), (-3.0, -2.0), (0.0, 1e-3), (1000.0, 1001.0)])
def test_uniform_never_reaches_high(dtype, low, high):
    x = wg.random.uniform((N,), low, high, dtype=dtype, generator=Generator(1)).numpy()
    assert (x >= np.asarray(low, dtype)).all()
    assert (x < np.asarray(high, dtype)).all() or np.asarray(low, dtype) == np.asarray(high, dtype)


def test_uniform_at_its_largest_bits_is_below_high():
    for dtype in DTYPES:
        unsigned = np.uint64 if dtype == wg.float64 else np.uint32
        bits = data(np.array([0, np.iinfo(unsigned).max], unsigned))
        for low, high in ((0.0, 1.0), (1.0, 2.0), (-1.0, 1.0), (100.0, 101.0)):
            first, last = wg.Tensor(ops.uniform(bits, low, high, dtype)).numpy()
            assert first == np.asarray(low, dtype) and np.asarray(low, dtype) <= last < np.asarray(high, dtype)


def test_uniform_of_an_empty_interval_is_its_only_point():
    assert set(wg.random.uniform((10,), 0.3, 0.3, dtype=wg.float64).tolist()) == {0.3}


def test_bernoulli():
    g = Generator(4)
    assert abs(wg.random.bernoulli(0.3, (N,), generator=g).numpy().mean() - 0.3) < 0.02
    assert not wg.random.bernoulli(0.0, (N,), generator=g).any()
    assert wg.random.bernoulli(1.0, (N,), generator=g).all()
    assert wg.random.bernoulli(1, (3,), dtype=wg.float32, generator=g).tolist() == [1.0, 1.0, 1.0]
    p = wg.tensor([0.0, 0.25, 1.0])
    means = wg.random.bernoulli(p, (N, 3), generator=g).numpy().mean(0)
    assert means[0] == 0 and means[2] == 1 and abs(means[1] - 0.25) < 0.02
    assert wg.random.bernoulli(p, generator=g).shape == (3,)


def test_randint():
    g = Generator(4)
    counts = np.bincount(wg.random.randint(0, 10, (N,), generator=g).numpy(), minlength=10)
    assert stats.chisquare(counts).pvalue > 1e-3
    x = wg.random.randint(-5, 5, (N,), dtype=wg.int8, generator=g).numpy()
    assert x.dtype == np.int8 and set(x.tolist()) == set(range(-5, 5))
    assert set(wg.random.randint(7, 8, (5,), generator=g).tolist()) == {7}
    assert wg.random.randint(3, generator=g).shape == ()


@pytest.mark.parametrize("dtype", [wg.int8, wg.int64, wg.uint8, wg.uint64])
def test_randint_over_all_of_a_dtype(dtype):
    limits = np.iinfo(dtype)
    x = wg.random.randint(int(limits.min), int(limits.max) + 1, (N,), dtype=dtype, generator=Generator(6)).numpy()
    span = float(limits.max) - float(limits.min)
    assert x.min() < limits.min + 0.02 * span and x.max() > limits.max - 0.02 * span
    assert fits((x.astype(np.float64) - float(limits.min) + 0.5) / (span + 1), "uniform") or dtype.itemsize == 1


def test_permutation():
    g = Generator(4)
    assert sorted(wg.random.permutation(100, generator=g).tolist()) == list(range(100))
    first = np.array([wg.random.permutation(5, generator=g)[0].item() for _ in range(1000)])
    assert stats.chisquare(np.bincount(first, minlength=5)).pvalue > 1e-3
    assert wg.random.permutation(0, generator=g).shape == (0,)
    assert wg.random.permutation(1, generator=g).tolist() == [0]


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_permutation_of_a_tensor_moves_whole_parts(axis):
    x = np.arange(12.0).reshape(3, 4)
    shuffled = wg.random.permutation(wg.tensor(x), axis, generator=Generator(1)).numpy()
    parts = {tuple(part) for part in np.moveaxis(x, axis, 0)}
    assert {tuple(part) for part in np.moveaxis(shuffled, axis, 0)} == parts
    assert shuffled.shape == x.shape and shuffled.dtype == x.dtype


def test_categorical():
    g = Generator(4)
    p = np.array([0.1, 0.2, 0.0, 0.7])
    with np.errstate(divide="ignore"):
        logits = wg.tensor(np.log(p))
    counts = np.bincount(wg.random.categorical(logits, (N,), generator=g).numpy(), minlength=4)
    assert counts[2] == 0
    assert stats.chisquare(counts[p > 0], N * p[p > 0]).pvalue > 1e-3


def test_categorical_shapes():
    logits = wg.tensor(np.zeros((2, 3, 5)))
    assert wg.random.categorical(logits).shape == (2, 3)
    assert wg.random.categorical(logits, axis=0).shape == (3, 5)
    assert wg.random.categorical(logits, (7, 2, 3)).shape == (7, 2, 3)
    assert wg.random.categorical(logits, (7, 2, 5), axis=1).shape == (7, 2, 5)
    certain = wg.tensor(np.where(np.arange(5)[:, None] == [3, 1], 50.0, -50.0))
    assert wg.random.categorical(certain, (4, 2), axis=0).tolist() == [[3, 1]] * 4


@pytest.mark.parametrize("name", FLOATING)
def test_empty_and_scalar_shapes(name):
    draw = getattr(wg.random, name)
    assert draw((0, 3)).numpy().shape == (0, 3)
    assert draw().numpy().shape == draw(()).numpy().shape == ()
    assert draw(4).numpy().shape == (4,)


def test_parameters_broadcast_into_the_shape():
    mean = wg.tensor(np.array([[0.0], [100.0]]))
    x = wg.random.normal((2, 3), mean, 1.0)
    assert x.dtype is wg.float64 and (x.numpy()[1] > 50).all()
    assert wg.random.normal(mean=mean, std=wg.tensor([1.0, 2.0, 3.0])).shape == (2, 3)
    assert wg.random.normal(mean=mean, dtype=wg.float16).dtype is wg.float16
    with pytest.raises(ShapeError, match=r"parameters of shape \(2, 1\) do not broadcast to the shape \(3,\)"):
        wg.random.normal((3,), mean)


# --- derivatives ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("draw", "derivatives"),
    [
        (lambda a, b, g: wg.random.normal((4,), a, b, generator=g), lambda z: (1, z)),
        (lambda a, b, g: wg.random.gumbel((4,), a, b, generator=g), lambda z: (1, z)),
        (lambda a, b, g: wg.random.truncated_normal((4,), a, b, generator=g), lambda z: (1, z)),
        (lambda a, b, g: wg.random.uniform((4,), a, a + b, generator=g), lambda z: (1, z)),
        (lambda a, b, g: a + wg.random.exponential((4,), b, generator=g), lambda z: (1, z)),
    ],
)
def test_draws_are_differentiable_by_their_parameters(draw, derivatives):
    a, b = wg.tensor(np.float64(0.5)), wg.tensor(np.float64(2.0))
    x = draw(a, b, Generator(1)).numpy()
    by_a, by_b = wg.jacobian(lambda a, b: draw(a, b, Generator(1)), argnums=(0, 1))(a, b)
    expected = derivatives((x - 0.5) / 2.0)
    np.testing.assert_allclose(by_a.numpy(), np.broadcast_to(expected[0], 4))
    np.testing.assert_allclose(by_b.numpy(), expected[1])


def test_draws_themselves_are_not_tracked():
    assert not wg.random.normal((3,)).requires_grad
    assert not wg.random.bernoulli(wg.tensor(0.5, requires_grad=True), (3,)).requires_grad


# --- lanes ----------------------------------------------------------------------------------------------------------


def test_lanes_differ_and_depend_only_on_their_index():
    def noise(x, generator):
        return x + wg.random.normal((3,), dtype=wg.float64, generator=generator)

    four = wg.vmap(lambda x: noise(x, generator))
    generator = Generator(1)
    first = four(wg.tensor(np.zeros(4))).numpy()
    assert len({tuple(row) for row in first.tolist()}) == 4
    generator.seed(1)
    assert (four(wg.tensor(np.zeros(6))).numpy()[:4] == first).all()
    same = wg.vmap(lambda x: noise(x, Generator(1)), randomness="same")(wg.tensor(np.zeros(4))).numpy()
    assert (same == same[0]).all()


def test_lanes_of_nested_maps_all_differ():
    generator = Generator(1)
    draw = wg.vmap(wg.vmap(lambda x: x + wg.random.uniform(dtype=wg.float64, generator=generator)))
    assert len(set(draw(wg.tensor(np.zeros((3, 4)))).numpy().reshape(-1).tolist())) == 12


def test_a_map_moves_the_counter_on_once():
    generator, plain = Generator(1), Generator(1)
    wg.vmap(lambda x: x + wg.random.uniform(generator=generator))(wg.tensor(np.zeros(5)))
    wg.random.uniform(generator=plain)
    assert generator.counter.item() == plain.counter.item() > 0


@every_draw
def test_every_distribution_draws_by_lane(draw):
    generator = Generator(1)
    rows = wg.vmap(lambda x: x + draw(generator=generator).to(wg.float64))(wg.tensor(np.zeros(3)))
    assert differ(*rows)


def test_the_lane_is_folded_into_the_key():
    outside = wg.random.uniform((3,), generator=Generator(1)).tolist()
    recording.lane = wg.tensor(0).node
    try:
        inside = wg.random.uniform((3,), generator=Generator(1)).tolist()
    finally:
        recording.lane = None
    assert inside != outside


def test_spawning_under_vmap_gives_each_lane_its_own():
    generator = Generator(1)

    def draw(x):
        one, other = generator.spawn(2)
        return x + wg.random.uniform((), generator=one) - wg.random.uniform((), generator=other)

    assert len(set(wg.vmap(draw)(wg.tensor(np.zeros(5))).tolist())) == 5


# --- mistakes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: wg.random.uniform((2,), 1.0, 0.0), ArgumentError, "high cannot be below low"),
        (lambda: wg.random.uniform((2,), 0.0, float("nan")), ArgumentError, "high cannot be below low"),
        (lambda: wg.random.uniform((2,), dtype=wg.int32), DTypeError, "wg.random.randint draws integers"),
        (lambda: wg.random.uniform((-2,)), ShapeError, "negative size"),
        (lambda: wg.random.uniform("ab"), DTypeError, "a shape is made of integers"),
        (lambda: wg.random.uniform((2,), device="cuda"), DeviceError, "on 'cpu', the result was asked for on 'cuda'"),
        (lambda: wg.random.uniform((2,), generator=3), DTypeError, "generator must be a wg.random.Generator"),
        (lambda: wg.random.normal((2,), 0.0, -1.0), ArgumentError, "std is -1.0; it cannot be negative"),
        (lambda: wg.random.exponential((2,), -1), ArgumentError, "scale is -1.0; it cannot be negative"),
        (lambda: wg.random.truncated_normal((2,), low=2.0, high=1.0), ArgumentError, "low must be below high"),
        (lambda: wg.random.truncated_normal((2,), low=9, high=10), ArgumentError, "almost no probability"),
        (
            lambda: wg.random.truncated_normal((2,), low=wg.tensor(1.0)),
            DTypeError,
            "low and high must be Python numbers",
        ),
        (lambda: wg.random.bernoulli(1.5, (2,)), ArgumentError, "p is 1.5; a probability is between 0 and 1"),
        (lambda: wg.random.randint(5, 5), ArgumentError, "no integer from low to below high"),
        (lambda: wg.random.randint(0, 300, dtype=wg.int8), ArgumentError, "does not fit into int8"),
        (lambda: wg.random.randint(0.5, 3), DTypeError, "low and high must be integers"),
        (lambda: wg.random.randint(0, 3, dtype=wg.float32), DTypeError, "randint draws integers"),
        (lambda: wg.random.permutation(-1), ArgumentError, "not negative"),
        (lambda: wg.random.permutation(wg.tensor(3.0)), ShapeError, "0-d"),
        (lambda: wg.random.categorical(wg.tensor(0.0)), ShapeError, "need an axis of classes"),
        (lambda: wg.random.categorical(wg.tensor([1, 2])), DTypeError, "floating-point logits"),
        (lambda: wg.random.categorical(wg.tensor(np.zeros((2, 0)))), ShapeError, "no classes"),
        (lambda: wg.random.categorical(wg.tensor(np.zeros((2, 3))), (4,)), ShapeError, "categorical"),
        (lambda: Generator("a"), DTypeError, "a seed must be an integer, not 'a'"),
        (lambda: Generator(1).set_state({"key": 1}), ArgumentError, "what state"),
        (
            lambda: Generator(1).set_state({"key": np.zeros(2), "counter": np.uint64(0)}),
            ArgumentError,
            "the key is uint32",
        ),
    ],
)
def test_mistakes_say_what_is_wrong(call, error, message):
    with pytest.raises(error, match=message):
        call()
