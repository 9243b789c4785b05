"""Draws: their moments, their distribution, their gradients, and draws in compiled and mapped functions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.special
import scipy.stats

import wengert as wg
from tests.distributions.cases import CASES, mine, value_of
from wengert.distributions.sampling import binomial_draw, gamma_cdf, log_gamma_draw, log_gamma_slope, poisson_draw

d = wg.distributions
DRAWS = 20_000
every_case = pytest.mark.parametrize("case", CASES)
INFINITE = ("Cauchy", "HalfCauchy", "FisherSnedecor", "InverseGamma", "Pareto", "StudentT")  # a moment of some element


@pytest.fixture(autouse=True)
def seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    wg.manual_seed(0)
    monkeypatch.setattr(wg.config, "tier", "interpret")


def moment_or_none(function: Any) -> Any:
    try:
        return function().detach().numpy()
    except NotImplementedError:
        return None


@every_case
def test_draws_have_the_shape_and_the_moments(case: str) -> None:
    distribution = mine(case)
    drawn = distribution.sample((DRAWS,))
    assert drawn.shape == (DRAWS, *distribution.batch_shape, *distribution.event_shape)
    assert distribution.sample().shape == drawn.shape[1:]
    assert distribution.support.check(drawn).all().item() or case == "LogisticNormal"
    if CASES[case][0] in (*INFINITE, "Categorical", "VonMises", "LKJCholesky"):
        return
    values = drawn.numpy().astype(np.float64)
    mean, variance = moment_or_none(lambda: distribution.mean), moment_or_none(lambda: distribution.variance)
    if mean is None or variance is None or "LogNormal" in case:
        return
    error = np.sqrt(variance / DRAWS)
    np.testing.assert_array_less(np.abs(values.mean(0) - mean), 5 * error + 1e-9)
    np.testing.assert_allclose(values.var(0), variance, rtol=0.25, atol=1e-3)


SCIPY: dict[str, Any] = {
    "Beta(0.3, 0.4)": (lambda: d.Beta(wg.tensor(0.3, dtype=wg.float64), 0.4), scipy.stats.beta(0.3, 0.4)),
    "Beta(5, 2)": (lambda: d.Beta(5.0, 2.0), scipy.stats.beta(5, 2)),
    "Cauchy": (lambda: d.Cauchy(1.0, 2.0), scipy.stats.cauchy(1, 2)),
    "Chi2": (lambda: d.Chi2(3.0), scipy.stats.chi2(3)),
    "FisherSnedecor": (lambda: d.FisherSnedecor(3.0, 5.0), scipy.stats.f(3, 5)),
    "Gamma(0.1)": (lambda: d.Gamma(0.1, 1.0), scipy.stats.gamma(0.1)),
    "Gamma(1)": (lambda: d.Gamma(1.0, 2.0), scipy.stats.gamma(1, scale=0.5)),
    "Gamma(30)": (lambda: d.Gamma(30.0, 1.0), scipy.stats.gamma(30)),
    "Gumbel": (lambda: d.Gumbel(1.0, 2.0), scipy.stats.gumbel_r(1, 2)),
    "HalfCauchy": (lambda: d.HalfCauchy(2.0), scipy.stats.halfcauchy(scale=2)),
    "InverseGamma": (lambda: d.InverseGamma(1.5, 2.0), scipy.stats.invgamma(1.5, scale=2)),
    "Laplace": (lambda: d.Laplace(1.0, 2.0), scipy.stats.laplace(1, 2)),
    "LogNormal": (lambda: d.LogNormal(0.5, 0.7), scipy.stats.lognorm(0.7, scale=np.exp(0.5))),
    "Normal": (lambda: d.Normal(1.0, 2.0), scipy.stats.norm(1, 2)),
    "Pareto": (lambda: d.Pareto(1.5, 2.5), scipy.stats.pareto(2.5, scale=1.5)),
    "StudentT": (lambda: d.StudentT(1.5, 1.0, 2.0), scipy.stats.t(1.5, 1, 2)),
    "Uniform": (lambda: d.Uniform(-1.0, 2.0), scipy.stats.uniform(-1, 3)),
    "VonMises(0.00001)": (lambda: d.VonMises(0.3, 1e-5), scipy.stats.vonmises(1e-5, 0.3)),
    "VonMises(3)": (lambda: d.VonMises(0.3, 3.0), scipy.stats.vonmises(3, 0.3)),
    "Weibull": (lambda: d.Weibull(2.0, 1.5), scipy.stats.weibull_min(1.5, scale=2)),
}


@pytest.mark.parametrize("name", SCIPY)
def test_draws_follow_scipys_distribution_function(name: str) -> None:
    make, reference = SCIPY[name]
    values = make().sample((DRAWS,)).numpy().astype(np.float64)
    if "VonMises" in name:
        assert np.all(np.abs(values) <= np.pi + 1e-6)
        values = np.mod(values - 0.3 + np.pi, 2 * np.pi) - np.pi + 0.3  # scipy's circle goes around the mean
    assert scipy.stats.kstest(values, reference.cdf).pvalue > 1e-3


COUNTS: dict[str, Any] = {
    "Poisson(0.4)": (lambda n: poisson_draw(wg.full(n, 0.4, dtype=wg.float64)), scipy.stats.poisson(0.4)),
    "Poisson(9)": (lambda n: poisson_draw(wg.full(n, 9.0, dtype=wg.float64)), scipy.stats.poisson(9)),
    "Poisson(80)": (lambda n: poisson_draw(wg.full(n, 80.0)), scipy.stats.poisson(80)),
    "Binomial(5, 0.3)": (lambda n: binomial_draw(wg.full(n, 5.0), wg.full(n, 0.3)), scipy.stats.binom(5, 0.3)),
    "Binomial(60, 0.4)": (lambda n: binomial_draw(wg.full(n, 60.0), wg.full(n, 0.4)), scipy.stats.binom(60, 0.4)),
    "Binomial(300, 0.9)": (lambda n: binomial_draw(wg.full(n, 300.0), wg.full(n, 0.9)), scipy.stats.binom(300, 0.9)),
    "Geometric": (lambda n: d.Geometric(0.3).sample(n), scipy.stats.geom(0.3, loc=-1)),
    "NegativeBinomial": (lambda n: d.NegativeBinomial(4.0, 0.6).sample(n), scipy.stats.nbinom(4, 0.4)),
}


@pytest.mark.parametrize("name", COUNTS)
def test_counts_come_up_as_often_as_they_should(name: str) -> None:
    draw, reference = COUNTS[name]
    values = draw((DRAWS,)).numpy().astype(int)
    low, high = int(reference.ppf(0.01)), int(reference.ppf(0.99))
    cells = np.clip(values, low, high) - low
    expected = reference.pmf(np.arange(low, high + 1))
    expected[0], expected[-1] = reference.cdf(low), reference.sf(high - 1)
    found = np.bincount(cells, minlength=high - low + 1)
    assert scipy.stats.chisquare(found, expected * DRAWS / expected.sum()).pvalue > 1e-3


def test_large_counts_in_float32() -> None:
    """Of which the logarithms of probabilities have no digits left in float32."""
    poisson = poisson_draw(wg.full((DRAWS,), 1e6)).numpy().astype(np.float64)
    binomial = binomial_draw(wg.full((DRAWS,), 4e6), wg.full((DRAWS,), 0.25)).numpy().astype(np.float64)
    for values, variance in ((poisson, 1e6), (binomial, 0.75e6)):
        assert scipy.stats.kstest(values, scipy.stats.norm(1e6, np.sqrt(variance)).cdf).pvalue > 1e-3


def test_binomials_of_nothing_and_of_everything() -> None:
    drawn = binomial_draw(wg.tensor([0.0, 9.0, 9.0, 50.0]), wg.tensor([0.5, 0.0, 1.0, 1.0]))
    assert drawn.tolist() == [0.0, 0.0, 9.0, 50.0]


# --- gradients ------------------------------------------------------------------------------------------------------


def test_the_slope_of_gamma_draws_is_that_of_the_quantiles() -> None:
    """-(dF/da) / (dF/dlog x), with dF/da by differences of scipy's incomplete gamma function."""
    a = np.repeat([0.02, 0.3, 0.95, 1.0, 2.5, 12.0, 150.0, 4000.0], 5)
    x = scipy.special.gammaincinv(a, np.tile([0.01, 0.3, 0.5, 0.8, 0.995], 8))
    step = 1e-5 * a
    x, a, step = (part[x > 1e-290] for part in (x, a, step))
    by_a = (scipy.special.gammainc(a + step, x) - scipy.special.gammainc(a - step, x)) / (2 * step)
    expected = -by_a / (scipy.stats.gamma(a).pdf(x) * x)
    found = log_gamma_slope(wg.tensor(a), wg.tensor(np.log(x))).numpy()
    np.testing.assert_allclose(found, expected, rtol=2e-5)
    single = log_gamma_slope(wg.tensor(a.astype(np.float32)), wg.tensor(np.log(x).astype(np.float32))).numpy()
    np.testing.assert_allclose(single, expected, rtol=2e-3)


def test_the_distribution_function_of_gamma_is_scipys() -> None:
    a = np.repeat([0.02, 0.3, 1.0, 2.5, 12.0, 150.0, 4000.0], 7)
    x = np.concatenate([[0.0, 1e-5 * c, 0.5 * c, 0.99 * c, c, 1.1 * c, 3 * c + 5] for c in a[::7]])
    found = gamma_cdf(wg.tensor(a), wg.tensor(x))
    np.testing.assert_allclose(found.numpy(), scipy.special.gammainc(a, x), rtol=1e-9, atol=1e-300)
    slope = wg.grad(lambda y: gamma_cdf(wg.tensor(a), y).sum())(wg.tensor(x + 1e-3))
    np.testing.assert_allclose(slope.numpy(), scipy.stats.gamma(a).pdf(x + 1e-3), rtol=1e-7, atol=1e-300)


def test_gradients_of_gamma_draws_in_both_modes_and_to_second_order() -> None:
    a = wg.tensor([0.4, 3.0, 40.0], dtype=wg.float64)

    def draw(concentration: wg.Tensor) -> wg.Tensor:
        wg.manual_seed(5)
        return log_gamma_draw(concentration)

    drawn = draw(a)
    expected = log_gamma_slope(a, drawn).numpy()
    np.testing.assert_allclose(wg.grad(lambda x: draw(x).sum())(a).numpy(), expected, rtol=1e-12)
    np.testing.assert_allclose(wg.jvp(draw, (a,), (wg.ones_like(a),))[1].numpy(), expected, rtol=1e-12)
    second = wg.grad(lambda x: wg.grad(lambda y: draw(y).sum())(x).sum())(a).numpy()
    h = 1e-5
    ends = []
    for side in (-1, 1):
        moved = a + side * h
        ends.append(log_gamma_slope(moved, drawn + side * h * log_gamma_slope(a, drawn)).numpy())
    np.testing.assert_allclose(second, (ends[1] - ends[0]) / (2 * h), rtol=1e-6)


REPARAMETERISED: dict[str, Any] = {  # E[f(x)] by a parameter, and its derivative
    "Gamma": (lambda a: d.Gamma(a, 2.0), 3.0, lambda x: x * x, lambda a: a * (a + 1) / 4, 0.05),
    "Gamma, small": (lambda a: d.Gamma(a, 1.0), 0.2, lambda x: x, lambda a: a, 0.05),
    "Beta": (lambda a: d.Beta(a, 1.5), 2.0, lambda x: x, lambda a: a / (a + 1.5), 0.05),
    "Dirichlet": (lambda a: d.Dirichlet(a * wg.tensor([1.0, 2.0])), 1.5, lambda x: (x**2)[..., 0], None, 0.05),
    "StudentT": (lambda a: d.StudentT(a), 9.0, lambda x: x * x, lambda a: a / (a - 2), 0.3),
    "Chi2": (lambda a: d.Chi2(a), 3.0, lambda x: x, lambda a: a, 0.05),
    "InverseGamma": (lambda a: d.InverseGamma(a, 2.0), 6.0, lambda x: x, lambda a: 2 / (a - 1), 0.05),
    "FisherSnedecor": (lambda a: d.FisherSnedecor(4.0, a), 12.0, lambda x: x, lambda a: a / (a - 2), 0.2),
}


@pytest.mark.parametrize("name", REPARAMETERISED)
def test_gradients_of_means_over_draws(name: str) -> None:
    make, at, f, mean, tolerance = REPARAMETERISED[name]
    if mean is None:
        mean = lambda a: (1 / 3 * (2 / 3) / (3 * a + 1)) + 1 / 9
    found = wg.grad(lambda a: f(make(a).rsample((DRAWS,))).mean())(wg.tensor(at)).item()
    expected = (mean(at + 1e-4) - mean(at - 1e-4)) / 2e-4
    assert found == pytest.approx(expected, rel=tolerance)


@every_case
def test_rsample_carries_gradients_to_every_parameter(case: str) -> None:
    if not mine(case).has_rsample:
        with pytest.raises(NotImplementedError):
            mine(case).rsample((2,))
        return
    name, parameters, _ = CASES[case]
    arrays = {key: value for key, value in parameters.items() if isinstance(value, np.ndarray)}

    def drawn(given: dict[str, Any]) -> Any:
        own = {**parameters, **given}
        wg.manual_seed(3)
        value = getattr(d, name)(**own, validate_args=False).rsample((4,))
        weights = np.random.default_rng(0).normal(size=value.shape)
        return (value * wg.tensor(weights)).sum()

    gradients = wg.grad(drawn)({key: wg.tensor(value) for key, value in arrays.items()})
    for gradient in gradients.values():
        values = gradient.numpy()
        assert np.isfinite(values).all() and (np.abs(values).max() > 0 or case.endswith("near 1/2"))


# --- compiled and mapped --------------------------------------------------------------------------------------------


@every_case
def test_log_prob_mapped_and_in_no_order(case: str) -> None:
    """A mapped function gives what a batch does; arguments are not checked in it."""
    value = wg.tensor(value_of(case))
    values = wg.stack([value, value])
    mapped = wg.vmap(lambda v: mine(case).log_prob(v))(values)
    expected = mine(case).log_prob(value)
    np.testing.assert_allclose(mapped[1].numpy(), expected.numpy(), rtol=1e-12)


@pytest.mark.parametrize("name", ["Gamma", "Poisson", "VonMises", "Binomial"])
def test_draws_in_mapped_functions_differ_from_lane_to_lane(name: str) -> None:
    make = {
        "Gamma": lambda a: d.Gamma(a, 1.0),
        "Poisson": lambda a: d.Poisson(a * 40),
        "VonMises": lambda a: d.VonMises(0.0, a),
        "Binomial": lambda a: d.Binomial(90, a / 4),
    }[name]
    drawn = wg.vmap(lambda a: make(a).sample((50,)))(wg.full((3,), 1.5)).numpy()
    assert drawn.shape == (3, 50) and not np.array_equal(drawn[0], drawn[1])


def same_compiled(function: Any, *arguments: wg.Tensor) -> None:
    wg.config.tier = "auto"
    wg.manual_seed(1)
    expected = function(*arguments)
    wg.manual_seed(1)
    for a, b in zip(wg.compile(function)(*arguments), expected):
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=2e-5)


def test_a_variational_step_compiles() -> None:
    def loss(loc: wg.Tensor, log_scale: wg.Tensor) -> wg.Tensor:
        q, p = d.Normal(loc, wg.exp(log_scale)), d.Normal(0.0, 1.0)
        return (q.rsample((8,)) ** 2 - p.log_prob(q.rsample((8,)))).sum() + d.kl_divergence(q, p).sum()

    same_compiled(wg.grad(loss, argnums=(0, 1)), wg.tensor([0.3, -1.0]), wg.tensor([0.1, 0.2]))


@pytest.mark.slow
def test_draws_by_rejection_compile_with_their_gradients() -> None:
    def loss(a: wg.Tensor, b: wg.Tensor) -> wg.Tensor:
        counts = d.Poisson(a.detach() * 9).sample((5,)) + d.Binomial(30, wg.sigmoid(b.detach())).sample((5,))
        angles = d.VonMises(0.0, a.detach()).sample((5,))
        return (d.Gamma(a, b).rsample((5,)) * counts + d.Beta(a, b).rsample((5,)) * angles).sum()

    same_compiled(wg.grad(loss, argnums=(0, 1)), wg.tensor([0.3, 4.0]), wg.tensor([1.1, 2.0]))
