"""What every distribution does besides its numbers: batches, checked arguments and values, mixtures, registering."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.distributions.cases import CASES, mine, value_of

d = wg.distributions
every_case = pytest.mark.parametrize("case", CASES)


@every_case
def test_expanding_repeats_the_batch(case: str) -> None:
    distribution = mine(case)
    wide = distribution.expand((4, *distribution.batch_shape))
    assert type(wide) is type(distribution)
    assert wide.batch_shape == (4, *distribution.batch_shape) and wide.event_shape == distribution.event_shape
    assert wide.sample((2,)).shape == (2, *wide.batch_shape, *wide.event_shape)
    value = wg.tensor(value_of(case))
    expected = distribution.log_prob(value).numpy()
    found = wide.log_prob(value).numpy()
    np.testing.assert_allclose(found, np.broadcast_to(expected, found.shape), rtol=1e-12)
    assert distribution.batch_shape == mine(case).batch_shape  # the first is as it was


@every_case
def test_the_repr_names_the_distribution(case: str) -> None:
    assert repr(mine(case)).startswith(CASES[case][0])


@pytest.mark.parametrize(
    "make",
    [
        lambda: d.Normal(0.0, -1.0),
        lambda: d.Gamma(0.0, 1.0),
        lambda: d.Bernoulli(probs=1.5),
        lambda: d.Uniform(1.0, 0.0),
        lambda: d.MultivariateNormal(wg.zeros(2), -wg.eye(2)),
        lambda: d.Wishart(0.5, wg.eye(3)),
        lambda: d.Bernoulli(),
        lambda: d.Categorical(probs=wg.ones(2), logits=wg.ones(2)),
        lambda: d.Categorical(probs=wg.ones(())),
        lambda: d.Multinomial(2.5, probs=wg.ones(2)),
        lambda: d.MultivariateNormal(wg.zeros(2)),
        lambda: d.Independent(d.Normal(0.0, 1.0), 1),
        lambda: d.Normal(0.0, 1.0).log_prob(wg.tensor(float("nan"))),
        lambda: d.Exponential(1.0).log_prob(-1.0),
        lambda: d.Categorical(probs=wg.ones(3)).log_prob(3),
        lambda: d.Normal(wg.zeros(3), 1.0).log_prob(wg.zeros(2)),
        lambda: d.Dirichlet(wg.ones(3)).log_prob(wg.tensor([0.5, 0.5])),
        lambda: d.MixtureSameFamily(d.Categorical(probs=wg.ones(3)), d.Normal(wg.zeros(2), 1.0)),
        lambda: d.LKJCholesky(1),
    ],
)
def test_wrong_arguments_and_values_are_told(make: Any) -> None:
    with pytest.raises(ValueError):
        make()


def test_checks_are_left_out_where_asked() -> None:
    assert np.isnan(d.Normal(0.0, -1.0, validate_args=False).log_prob(1.0).item())
    d.Distribution.set_default_validate_args(False)
    try:
        d.Normal(0.0, -1.0)
    finally:
        d.Distribution.set_default_validate_args(True)
    assert wg.compile(lambda scale: d.Normal(0.0, scale).entropy())(wg.tensor(1.0)).item() == pytest.approx(1.4189385)


def test_no_formula_says_so() -> None:
    with pytest.raises(NotImplementedError, match="add one with register_kl"):
        d.kl_divergence(d.Gamma(1.0, 1.0), d.Laplace(0.0, 1.0))
    with pytest.raises(NotImplementedError, match="no entropy"):
        d.Poisson(1.0).entropy()
    with pytest.raises(NotImplementedError, match="no rsample"):
        d.Poisson(1.0).rsample()


def test_the_nearest_formula_is_taken() -> None:
    class Mine(d.Normal):
        pass

    base = d.kl_divergence(Mine(0.0, 1.0), d.Normal(0.0, 2.0)).item()
    assert base == pytest.approx(d.kl_divergence(d.Normal(0.0, 1.0), d.Normal(0.0, 2.0)).item())
    d.register_kl(Mine, d.Normal)(lambda p, q: wg.tensor(7.0))
    assert d.kl_divergence(Mine(0.0, 1.0), d.Normal(0.0, 2.0)).item() == 7.0
    assert d.kl_divergence(d.Normal(0.0, 1.0), d.Normal(0.0, 2.0)).item() != 7.0
    with pytest.raises(TypeError, match="two classes"):
        d.register_kl(int, d.Normal)


MIXTURES: dict[str, Any] = {
    "of numbers": lambda m, c: m.MixtureSameFamily(
        m.Categorical(c(np.array([[0.2, 0.8], [0.5, 0.5]]))),
        m.Normal(c(np.array([[0.0, 3.0], [1.0, -1.0]])), c(np.array([[1.0, 0.5], [2.0, 0.3]]))),
    ),
    "of vectors": lambda m, c: m.MixtureSameFamily(
        m.Categorical(c(np.array([0.2, 0.8]))),
        m.Independent(m.Normal(c(np.array([[0.0, 3.0, 1.0], [1.0, -1.0, 2.0]])), c(np.array([[1.0], [0.3]]))), 1),
    ),
}


@pytest.mark.parametrize("name", MIXTURES)
def test_mixtures_beside_torchs(name: str) -> None:
    torch = pytest.importorskip("torch", reason="torch, the implementation to compare with, is not installed")
    mixture, reference = MIXTURES[name](d, wg.tensor), MIXTURES[name](torch.distributions, torch.tensor)
    assert (mixture.batch_shape, mixture.event_shape) == (tuple(reference.batch_shape), tuple(reference.event_shape))
    value = np.linspace(-1, 2, 6).reshape(3, 2) if name == "of numbers" else np.linspace(-1, 2, 12).reshape(4, 3)
    np.testing.assert_allclose(
        mixture.log_prob(wg.tensor(value)).numpy(), reference.log_prob(torch.tensor(value)).numpy(), rtol=1e-12
    )
    for what in ("mean", "variance"):
        np.testing.assert_allclose(getattr(mixture, what).numpy(), getattr(reference, what).numpy(), rtol=1e-12)
    if name == "of numbers":
        np.testing.assert_allclose(
            mixture.cdf(wg.tensor(value)).numpy(), reference.cdf(torch.tensor(value)).numpy(), rtol=1e-10
        )
    drawn = mixture.sample((20_000,)).numpy()
    assert drawn.shape[1:] == mixture.batch_shape + mixture.event_shape
    np.testing.assert_allclose(drawn.mean(0), mixture.mean.numpy(), atol=0.06)
    np.testing.assert_allclose(drawn.var(0), mixture.variance.numpy(), rtol=0.1)
    assert mixture.expand((5, *mixture.batch_shape)).log_prob(wg.tensor(value[:1])).shape == (5, *mixture.batch_shape)


def test_straight_through_draws_have_the_gradient_of_the_probabilities() -> None:
    weights = wg.tensor([1.0, 2.0, 4.0])
    logits = wg.tensor([0.1, -0.3, 0.5])
    draw = lambda x: (d.OneHotCategoricalStraightThrough(logits=x).rsample() * weights).sum()
    expected = wg.grad(lambda x: (wg.softmax(x, -1) * weights).sum())(logits)
    np.testing.assert_allclose(wg.grad(draw)(logits).numpy(), expected.numpy(), rtol=1e-5)
    one = d.OneHotCategoricalStraightThrough(logits=logits).rsample().numpy()
    np.testing.assert_allclose(np.sort(one), [0.0, 0.0, 1.0], atol=1e-6)


def test_vectors_from_each_kind_of_matrix_are_the_same_distribution() -> None:
    matrix = np.array([[2.0, 0.5], [0.5, 1.0]])
    kinds = {
        "covariance_matrix": matrix,
        "precision_matrix": np.linalg.inv(matrix),
        "scale_tril": np.linalg.cholesky(matrix),
    }
    for name, value in kinds.items():
        normal = d.MultivariateNormal(wg.zeros(2, dtype=wg.float64), **{name: wg.tensor(value)})
        for other, expected in kinds.items():
            np.testing.assert_allclose(getattr(normal, other).numpy(), expected, rtol=1e-12)
        wishart = d.Wishart(3.0, **{name: wg.tensor(value)})
        np.testing.assert_allclose(wishart.mean.numpy(), 3 * matrix, rtol=1e-12)


def test_low_rank_normals_are_the_full_ones() -> None:
    generator = np.random.default_rng(1)
    factor, diagonal, at = generator.normal(size=(4, 2)), generator.uniform(0.5, 2, 4), generator.normal(size=4)
    low = d.LowRankMultivariateNormal(wg.tensor(np.ones(4)), wg.tensor(factor), wg.tensor(diagonal))
    full = d.MultivariateNormal(wg.tensor(np.ones(4)), wg.tensor(factor @ factor.T + np.diag(diagonal)))
    for what in ("covariance_matrix", "precision_matrix", "scale_tril", "variance"):
        np.testing.assert_allclose(getattr(low, what).numpy(), getattr(full, what).numpy(), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(low.log_prob(at).item(), full.log_prob(at).item(), rtol=1e-12)
    np.testing.assert_allclose(d.kl_divergence(low, full).item(), 0.0, atol=1e-12)
    np.testing.assert_allclose(d.kl_divergence(full, low).item(), 0.0, atol=1e-12)
