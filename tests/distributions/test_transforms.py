"""Transforms beside torch's: values, inverses, volumes, shapes; constraints and the transforms into them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import wengert as wg
from tests.distributions.cases import LOWER, SPD

d = wg.distributions
torch = pytest.importorskip("torch", reason="torch, the implementation to compare with, is not installed")
t = torch.distributions.transforms

X = np.array([[-1.2, 0.3, 0.8], [0.5, -0.4, 2.0]])
POSITIVE = np.array([[0.2, 1.3, 2.8], [0.5, 0.4, 2.0]])
SQUARE = np.random.default_rng(0).normal(size=(2, 3, 3))

TRANSFORMS: dict[str, tuple[Any, Any]] = {  # from a library's transforms and its way to a tensor; where to look
    "Abs": (lambda m, c: m.AbsTransform(), X),
    "Affine": (lambda m, c: m.AffineTransform(c(np.array([1.0, 2.0, 3.0])), -2.5), X),
    "Affine, events": (lambda m, c: m.AffineTransform(0.5, c(np.array([1.0, -2.0, 3.0])), event_dim=1), X),
    "Compose": (lambda m, c: m.ComposeTransform([m.AffineTransform(1.0, 2.0), m.SigmoidTransform()]), X),
    "Compose, to shares": (lambda m, c: m.ComposeTransform([m.TanhTransform(), m.StickBreakingTransform()]), X),
    "CorrCholesky": (lambda m, c: m.CorrCholeskyTransform(), X),
    "Cat": (lambda m, c: m.CatTransform([m.ExpTransform(), m.TanhTransform()], dim=-1, lengths=[1, 2]), X),
    "Exp": (lambda m, c: m.ExpTransform(), X),
    "Independent": (lambda m, c: m.IndependentTransform(m.ExpTransform(), 1), X),
    "Inverse": (lambda m, c: m.ExpTransform().inv, POSITIVE),
    "LowerCholesky": (lambda m, c: m.LowerCholeskyTransform(), SQUARE),
    "PositiveDefinite": (lambda m, c: m.PositiveDefiniteTransform(), SQUARE),
    "Power": (lambda m, c: m.PowerTransform(c(np.array(1.7))), POSITIVE),
    "Power of a number": (lambda m, c: m.PowerTransform(-0.5), POSITIVE),
    "Reshape": (lambda m, c: m.ReshapeTransform((3,), (3, 1)), X),
    "Sigmoid": (lambda m, c: m.SigmoidTransform(), X),
    "Softmax": (lambda m, c: m.SoftmaxTransform(), X),
    "Softplus": (lambda m, c: m.SoftplusTransform(), X),
    "Stack": (lambda m, c: m.StackTransform([m.ExpTransform(), m.TanhTransform(), m.SigmoidTransform()], dim=-1), X),
    "StickBreaking": (lambda m, c: m.StickBreakingTransform(), X),
    "Tanh": (lambda m, c: m.TanhTransform(), X),
}


def assert_near(found: Any, expected: Any) -> None:
    assert found.shape == tuple(expected.shape)
    np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("name", TRANSFORMS)
def test_values_inverses_and_volumes(name: str) -> None:
    make, x = TRANSFORMS[name]
    mine, theirs = make(d, wg.tensor), make(t, torch.tensor)
    a, b = wg.tensor(x), torch.tensor(x)
    y, expected = mine(a), theirs(b)
    assert_near(y, expected)
    assert_near(mine.inv(y), theirs.inv(expected))
    assert mine.bijective == theirs.bijective
    assert (mine.domain.event_dim, mine.codomain.event_dim) == (theirs.domain.event_dim, theirs.codomain.event_dim)
    if theirs.bijective:
        assert_near(mine.inv(y), b)
        assert_near(mine.log_abs_det_jacobian(a, y), theirs.log_abs_det_jacobian(b, expected))
    if not hasattr(theirs, "tseq"):
        assert mine.forward_shape(x.shape) == tuple(theirs.forward_shape(torch.Size(x.shape)))
        assert mine.inverse_shape(y.shape) == tuple(theirs.inverse_shape(torch.Size(y.shape)))


def test_the_distribution_function_as_a_transform() -> None:
    mine = d.CumulativeDistributionTransform(d.Normal(wg.tensor(np.float64(0.5)), 2.0))
    theirs = t.CumulativeDistributionTransform(torch.distributions.Normal(torch.tensor(0.5, dtype=torch.float64), 2.0))
    y, expected = mine(wg.tensor(X)), theirs(torch.tensor(X))
    assert_near(y, expected)
    assert_near(mine.inv(y), theirs.inv(expected))
    assert_near(mine.log_abs_det_jacobian(wg.tensor(X), y), theirs.log_abs_det_jacobian(torch.tensor(X), expected))


def test_what_is_not_one_to_one_has_no_volume() -> None:
    with pytest.raises(TypeError, match="not one-to-one"):
        d.AbsTransform().log_abs_det_jacobian(wg.tensor(X), wg.tensor(X))
    with pytest.raises(ValueError, match="different numbers"):
        d.ReshapeTransform((2,), (3,))
    with pytest.raises(ValueError, match="do not fill a triangle"):
        d.CorrCholeskyTransform()(wg.zeros(4))


CONSTRAINTS: dict[str, Any] = {
    "real": lambda c: c.real,
    "positive": lambda c: c.positive,
    "unit_interval": lambda c: c.unit_interval,
    "interval": lambda c: c.interval(-1.0, 3.0),
    "greater_than": lambda c: c.greater_than(2.0),
    "greater_than_eq": lambda c: c.greater_than_eq(2.0),
    "less_than": lambda c: c.less_than(-1.0),
    "half_open_interval": lambda c: c.half_open_interval(0.5, 2.0),
    "simplex": lambda c: c.simplex,
    "corr_cholesky": lambda c: c.corr_cholesky,
    "independent": lambda c: c.independent(c.positive, 1),
    "cat": lambda c: c.cat([c.positive, c.unit_interval], dim=-1, lengths=[2, 1]),
    "stack": lambda c: c.stack([c.positive, c.unit_interval, c.real], dim=-1),
}


@pytest.mark.parametrize("name", CONSTRAINTS)
@pytest.mark.parametrize("registry", ["biject_to", "transform_to"])
def test_transforms_into_constraints(name: str, registry: str) -> None:
    constraint = CONSTRAINTS[name](d.constraints)
    found = getattr(d, registry)(constraint)(wg.tensor(X))
    theirs = getattr(torch.distributions, registry)(CONSTRAINTS[name](torch.distributions.constraints))
    assert_near(found, theirs(torch.tensor(X)))
    assert constraint.check(found).all().item()
    assert constraint.event_dim == CONSTRAINTS[name](torch.distributions.constraints).event_dim


@pytest.mark.parametrize("name", ["lower_cholesky", "positive_definite", "positive_semidefinite"])
def test_transforms_into_matrices(name: str) -> None:
    found = d.transform_to(getattr(d.constraints, name))(wg.tensor(SQUARE))
    assert_near(
        found, torch.distributions.transform_to(getattr(torch.distributions.constraints, name))(torch.tensor(SQUARE))
    )
    assert getattr(d.constraints, name).check(found).all().item()


CHECKED: dict[str, list[Any]] = {
    "boolean": [np.array([0.0, 1.0, 0.5, -1.0])],
    "nonnegative_integer": [np.array([0.0, 3.0, 0.5, -1.0])],
    "positive_integer": [np.array([0.0, 3.0, 0.5, -1.0])],
    "nonnegative": [np.array([0.0, 3.0, -0.5])],
    "positive": [np.array([0.0, 3.0, -0.5])],
    "unit_interval": [np.array([0.0, 1.0, 1.5])],
    "real": [np.array([0.0, np.nan, np.inf])],
    "real_vector": [np.array([0.0, 1.0]), np.array([0.0, np.nan])],
    "simplex": [np.array([0.2, 0.8]), np.array([0.2, 0.9]), np.array([-0.2, 1.2])],
    "one_hot": [np.array([0.0, 1.0]), np.array([1.0, 1.0]), np.array([0.5, 0.5])],
    "square": [SQUARE, SQUARE[:, :2]],
    "symmetric": [SPD, LOWER],
    "positive_definite": [SPD, -SPD, LOWER],
    "positive_semidefinite": [SPD, np.ones((2, 2)), -SPD],
    "lower_triangular": [LOWER, SPD],
    "lower_cholesky": [LOWER, -LOWER, SPD],
    "corr_cholesky": [np.array([[1.0, 0.0], [0.6, 0.8]]), np.array([[1.0, 0.0], [0.6, 0.9]]), LOWER],
}


@pytest.mark.parametrize("name", CHECKED)
def test_checks_of_constraints(name: str) -> None:
    for value in CHECKED[name]:
        found = getattr(d.constraints, name).check(wg.tensor(value))
        expected = getattr(torch.distributions.constraints, name).check(torch.tensor(value))
        np.testing.assert_array_equal(found.numpy(), expected.numpy())


def test_a_registry_takes_ones_own() -> None:
    registry = d.ConstraintRegistry("own")

    @registry.register(d.constraints.boolean)
    def step(constraint: Any) -> Any:
        return d.SigmoidTransform()

    assert isinstance(registry(d.constraints.boolean), d.SigmoidTransform)
    with pytest.raises(ValueError, match="register one"):
        registry(d.constraints.simplex)
