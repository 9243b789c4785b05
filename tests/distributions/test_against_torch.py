"""Densities, entropies, moments, quantiles of every distribution beside torch's, and the divergence of every pair."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.distributions.cases import CASES, made, mine, value_of

torch = pytest.importorskip("torch", reason="torch, the implementation to compare with, is not installed")
every_case = pytest.mark.parametrize("case", CASES)

# torch's polynomials for the Bessel functions are good to 2e-7, and its logarithm of a factorial is in float32.
TOLERANCE = {"VonMises": 2e-5, "Multinomial": 1e-6}


@pytest.fixture(autouse=True)
def torch_in_float64() -> Iterator[None]:
    """Its GeneralizedPareto makes numbers of the default dtype, which it then does not compare with float64."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


def theirs(case: str) -> Any:
    return made(torch.distributions, case, torch.tensor)


def assert_near(found: Any, expected: Any, case: str = "") -> None:
    tolerance = TOLERANCE.get(case, 1e-10)
    found, expected = found.detach().numpy(), expected.detach().numpy()
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance)


def asked(function: Any) -> Any:
    """A result, or that there is none."""
    try:
        return function()
    except NotImplementedError:
        return None


@every_case
def test_shapes_and_log_prob(case: str) -> None:
    d, t = mine(case), theirs(case)
    assert d.batch_shape == tuple(t.batch_shape) and d.event_shape == tuple(t.event_shape)
    assert d.has_rsample == (t.has_rsample or case == "LogitRelaxedBernoulli")  # of which torch does not say so
    assert d.has_enumerate_support == t.has_enumerate_support
    value = value_of(case)
    assert_near(d.log_prob(wg.tensor(value)), t.log_prob(torch.tensor(value)), case)


@every_case
@pytest.mark.parametrize("what", ["mean", "mode", "variance", "stddev"])
def test_moments(case: str, what: str) -> None:
    expected = asked(lambda: getattr(theirs(case), what))
    if expected is not None:
        found = getattr(mine(case), what)
        if what == "mode":  # torch has NaN where the density is infinite at an end, and for all of Kumaraswamy
            found = wg.where(wg.tensor(expected.isnan().numpy()), float("nan"), found).astype(found.dtype)
        assert_near(found, expected, case)


@every_case
def test_entropy(case: str) -> None:
    expected = asked(lambda: theirs(case).entropy())
    if expected is not None and CASES[case][0] != "Poisson":
        assert_near(mine(case).entropy(), expected, case)


@every_case
def test_cdf_and_icdf(case: str) -> None:
    d, t, value = mine(case), theirs(case), value_of(case)
    expected = asked(lambda: t.cdf(torch.tensor(value)))
    if expected is not None:
        assert_near(d.cdf(wg.tensor(value)), expected, case)
    q = np.array([0.05, 0.4, 0.97])
    expected = asked(lambda: t.icdf(torch.tensor(q)))
    if expected is not None:
        assert_near(d.icdf(wg.tensor(q)), expected, case)


@every_case
def test_enumerated_support(case: str) -> None:
    d, t = mine(case), theirs(case)
    if t.has_enumerate_support:
        for expand in (True, False):
            assert_near(d.enumerate_support(expand), t.enumerate_support(expand))


@every_case
def test_gradients_of_log_prob(case: str) -> None:
    """By every parameter and by the value."""
    name, parameters, _ = CASES[case]
    names = [key for key, value in parameters.items() if isinstance(value, np.ndarray) and key != "total_count"]
    value = value_of(case)
    with_value = value.dtype == np.float64 and not isinstance(asked(lambda: theirs(case).support), type(None))
    with_value = with_value and not theirs(case).support.is_discrete

    def total(library: Any, leaves: list[Any]) -> Any:
        own = {**parameters, **dict(zip(names, leaves))}
        own = {key: library.tensor(v) if isinstance(v, np.ndarray) else v for key, v in own.items()}
        given = leaves[-1] if with_value else library.tensor(value)
        kind = getattr(library.distributions, name, None) or getattr(library.distributions.relaxed_bernoulli, name)
        return kind(**own, validate_args=False).log_prob(given).sum()

    arrays = [parameters[key] for key in names] + ([value] if with_value else [])
    leaves = [torch.tensor(a, requires_grad=True) for a in arrays]
    expected = torch.autograd.grad(total(torch, leaves), leaves, allow_unused=True)
    found = wg.grad(lambda given: total(wg, given))([wg.tensor(a) for a in arrays])
    for key, a, b in zip([*names, "value"], found, expected):
        if key in ("covariance_matrix", "precision_matrix") or (name == "Wishart" and key == "value"):
            a, b = a + a.mT, b + b.mT  # of a symmetric matrix: either half may have it
        if key == "scale_tril":
            a, b = wg.tril(a), b.tril()  # nothing above counts
        if b is not None:
            assert_near(a, b, case)


PAIRS = sorted(
    {(p.__name__, q.__name__) for p, q in torch.distributions.kl._KL_REGISTRY} & {(a, b) for a in CASES for b in CASES}
)

# Where torch says infinite although the supports are the same: Uniform(0, 1) and ContinuousBernoulli.
CORRECTED = {("Uniform", "ContinuousBernoulli"), ("ContinuousBernoulli", "Uniform")}


def alike(case: str, library: Any, convert: Any, second: bool) -> Any:
    """A distribution of a case; as the second of a pair with other parameters."""
    name, parameters, _ = CASES[case]
    changed = {"Binomial": "probs", "Multinomial": "probs", "Bernoulli": "probs", "Geometric": "probs"}.get(name)
    own = {}
    for key, value in parameters.items():
        if isinstance(value, np.ndarray) and second and key in (changed, "loc", "scale", "rate", "cov_diag"):
            value = value * (0.8 if changed else 1.3)
        elif isinstance(value, np.ndarray) and second and key.startswith("concentration"):
            value = value + 0.5
        elif (
            isinstance(value, np.ndarray) and second and key == "probs" and name in ("Categorical", "OneHotCategorical")
        ):
            value = value[::-1].copy()
        own[key] = convert(value) if isinstance(value, np.ndarray) else value
    return getattr(library, name)(**own)


@pytest.mark.parametrize("p, q", PAIRS, ids=" ".join)
def test_divergences(p: str, q: str) -> None:
    pair = lambda library, convert: (alike(p, library, convert, False), alike(q, library, convert, True))
    expected = torch.distributions.kl_divergence(*pair(torch.distributions, torch.tensor))
    found = wg.distributions.kl_divergence(*pair(wg.distributions, wg.tensor))
    if (p, q) not in CORRECTED:
        assert_near(found, expected)


@pytest.mark.parametrize("low, high, inner", [(0.0, 1.0, True), (-0.5, 2.0, True), (0.1, 0.7, False)])
def test_divergences_of_uniform_and_continuous_bernoulli(low: float, high: float, inner: bool) -> None:
    """By integration; torch says infinite for supports that are inside."""
    d = wg.distributions
    uniform, other = d.Uniform(wg.tensor(np.float64(low)), high), d.ContinuousBernoulli(wg.tensor(np.float64(0.3)))
    x = (np.arange(20000) + 0.5) / 20000
    if inner:
        density = np.exp(other.log_prob(wg.tensor(x)).numpy())
        expected = (density * (np.log(density) + np.log(high - low))).mean()
        assert d.kl_divergence(other, uniform).item() == pytest.approx(expected, rel=1e-6)
        expected = np.inf if low < 0 else -np.log(density).mean()
        assert d.kl_divergence(uniform, other).item() == pytest.approx(expected, rel=1e-6)
    else:
        assert d.kl_divergence(other, uniform).item() == np.inf
        points = low + (high - low) * x
        expected = (-np.log(high - low) - other.log_prob(wg.tensor(points)).numpy()).mean()
        assert d.kl_divergence(uniform, other).item() == pytest.approx(expected, rel=1e-6)


def test_divergences_through_others() -> None:
    results = []  # torch compares the transforms themselves, here plain ones of a kind are the same
    exp = torch.distributions.ExpTransform()
    for d, convert in ((wg.distributions, wg.tensor), (torch.distributions, torch.tensor)):
        a, b = (d.Normal(convert(np.array([0.1, 0.2])), convert(np.array([s, 2.0]))) for s in (1.0, 0.5))
        results.append(d.kl_divergence(d.Independent(a, 1), d.Independent(b, 1)))
        if d is torch.distributions:
            results.append(d.kl_divergence(*(d.TransformedDistribution(base, [exp]) for base in (a, b))))
        else:
            results.append(d.kl_divergence(d.LogNormal(a.loc, a.scale), d.LogNormal(b.loc, b.scale)))
    assert_near(results[0], results[2])
    assert_near(results[1], results[3])
