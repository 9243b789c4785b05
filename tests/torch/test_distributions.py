"""`torch.distributions` by PyTorch's names: numbers from tensors and from Python's, draws, one's own classes."""

from __future__ import annotations

import copy
import importlib
import pickle
from collections.abc import Callable, Iterator
from typing import Any, ClassVar

import numpy as np
import pytest

import wengert.torch as ours
from tests.distributions.cases import CASES, made, value_of
from tests.torch.compare import same, same_error, same_gradient, theirs

# torch's polynomials for the Bessel functions are good to 2e-7, and its logarithm of a factorial is in float32.
TOLERANCE = {"VonMises": 2e-5, "Multinomial": 1e-6}
every_case = pytest.mark.parametrize("case", CASES)


@pytest.fixture(autouse=True)
def torch_in_float64() -> Iterator[None]:
    """PyTorch's GeneralizedPareto makes numbers of the default dtype, which it then does not compare with float64."""
    before = theirs.get_default_dtype()
    theirs.set_default_dtype(theirs.float64)
    yield
    theirs.set_default_dtype(before)


def of_tensors(torch: Any, case: str) -> Any:
    return made(torch.distributions, case, lambda value: torch.tensor(value.tolist(), dtype=torch.float64))


def has(case: str, what: str) -> bool:
    """Whether PyTorch knows a formula."""
    try:
        value = getattr(of_tensors(theirs, case), what)
        return value is not None and (not callable(value) or value() is not None)
    except NotImplementedError:
        return False


@every_case
def test_a_distribution_of_tensors_gives_tensors(case: str) -> None:
    known = [what for what in ("mean", "variance", "entropy") if has(case, what)]

    def looked_at(torch: Any) -> list[Any]:
        d = of_tensors(torch, case)
        values = [getattr(d, what) for what in known]
        value = torch.tensor(value_of(case).tolist(), dtype=torch.float64)
        return [d.log_prob(value), d.batch_shape, d.event_shape, *[v() if callable(v) else v for v in values]]

    same(looked_at, TOLERANCE.get(case, 1e-9))


@every_case
def test_draws_are_tensors(case: str) -> None:
    mine, its = of_tensors(ours, case), of_tensors(theirs, case)
    drawn, expected = mine.sample((2,)), its.sample((2,))
    assert isinstance(drawn, ours.Tensor) and not drawn.requires_grad
    assert tuple(drawn.shape) == tuple(expected.shape) and str(drawn.dtype) == str(expected.dtype)
    if its.has_enumerate_support:
        same(lambda torch: of_tensors(torch, case).enumerate_support())


NUMBERS = {
    "Normal": (0.3, 2),
    "Bernoulli": (0.3,),
    "Beta": (0.5, 2.5),
    "Cauchy": (0.0, 1.5),
    "Chi2": (3,),
    "Exponential": (2.5,),
    "FisherSnedecor": (3.0, 5),
    "Gamma": (2, 0.7),
    "Geometric": (0.2,),
    "Gumbel": (1.0, 2.0),
    "HalfCauchy": (1.5,),
    "HalfNormal": (1.5,),
    "InverseGamma": (4.0, 2.0),
    "Kumaraswamy": (2.0, 3.0),
    "Laplace": (0, 1),
    "LogNormal": (0.0, 0.5),
    "Pareto": (1.0, 3.0),
    "Poisson": (3.5,),
    "StudentT": (5.0,),
    "Uniform": (0, 4),
    "Weibull": (1.0, 2.0),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_become_tensors_of_the_default_dtype(name: str) -> None:
    theirs.set_default_dtype(theirs.float32)

    def looked_at(torch: Any) -> list[Any]:
        d = getattr(torch.distributions, name)(*NUMBERS[name])
        at = torch.tensor([1.0, 1.0]) if name in ("Bernoulli", "Geometric", "Poisson") else torch.tensor([0.3, 0.9])
        if name == "Pareto":
            at = at + 1
        return [d.log_prob(at), d.mean, d.variance, d.sample((3,)).shape, d.sample().dtype]

    same(looked_at, 2e-5)
    assert isinstance(getattr(ours.distributions, name)(*NUMBERS[name]).sample(), ours.Tensor)


def test_the_default_dtype_is_torchs() -> None:
    ours.set_default_dtype(ours.float64)
    try:
        same(lambda torch: torch.distributions.Normal(0, 1).log_prob(torch.tensor(0.1)))
    finally:
        ours.set_default_dtype(ours.float32)
    same(lambda torch: torch.distributions.Normal(torch.zeros(2, dtype=torch.float64), 0.1).stddev)


@pytest.mark.parametrize("case", ["Normal", "Gamma", "Beta", "StudentT", "LogNormal", "MultivariateNormal", "Uniform"])
def test_gradients_pass_through_rsample(case: str) -> None:
    """Of a loc the mean's derivative is 1; of all the gradient is there and finite."""
    name, parameters, _ = CASES[case]
    given = {key: ours.tensor(value.tolist(), requires_grad=True) for key, value in parameters.items()}
    drawn = getattr(ours.distributions, name)(**given).rsample((5,))
    drawn.sum().backward()
    assert all(x.grad is not None and ours.isfinite(x.grad).all() for x in given.values())
    if case in ("Normal", "MultivariateNormal", "StudentT"):
        assert given["loc"].grad.tolist() == pytest.approx([5.0, 5.0, 5.0])


def test_policy_gradients_are_pytorchs() -> None:
    def loss(torch: Any) -> Any:
        def of(logits: Any) -> Any:
            policy = torch.distributions.Categorical(logits=logits)
            actions = torch.tensor([1, 0, 2])
            returns = torch.tensor([1.0, -0.5, 2.0], dtype=torch.float64)
            return (-policy.log_prob(actions) * returns).sum() - 0.01 * policy.entropy().mean()

        return of

    same_gradient(loss, np.array([[0.1, 0.7, -0.3], [1.0, 0.0, 0.2], [0.0, 0.0, 0.5]]))
    drawn = ours.distributions.Categorical(logits=ours.zeros(5, 3)).sample()
    assert drawn.dtype is ours.int64 and drawn.shape == (5,)
    assert isinstance(drawn[0].item(), int)


def test_divergences_constraints_and_transforms() -> None:
    def expression(torch: Any) -> list[Any]:
        d, c, t = torch.distributions, torch.distributions.constraints, torch.distributions.transforms
        p, q = d.Normal(0.0, 1.0), d.Normal(torch.tensor([1.0, 2.0]), 2.0)
        x = torch.tensor([0.2, 0.7])
        flow = d.TransformedDistribution(
            d.Normal(torch.zeros(2), 1.0), [t.AffineTransform(1.0, 2.0), t.SigmoidTransform()]
        )
        return [
            d.kl_divergence(p, q),
            d.kl.kl_divergence(d.Bernoulli(0.3), d.Bernoulli(0.5)),
            c.positive.check(x - 0.5),
            c.interval(0.0, 0.5).check(x),
            t.ExpTransform()(x),
            t.AffineTransform(1.0, 3.0).log_abs_det_jacobian(x, x),
            d.biject_to(c.simplex)(x),
            d.transform_to(c.greater_than(2.0))(x),
            flow.log_prob(x),
            d.Independent(q, 1).log_prob(x),
            d.MixtureSameFamily(d.Categorical(torch.ones(2)), q).log_prob(torch.tensor(0.3)),
        ]

    theirs.set_default_dtype(theirs.float32)
    same(expression)


def test_modules_and_classes_are_found_as_in_pytorch() -> None:
    for name in CASES.values():
        cls = getattr(theirs.distributions, name[0], None)
        if cls is not None:
            module = importlib.import_module("wengert" + f".{cls.__module__}")
            assert getattr(module, name[0]) is getattr(ours.distributions, name[0])
    d = ours.distributions
    assert issubclass(d.Chi2, d.Gamma) and issubclass(d.LogNormal, d.TransformedDistribution)
    assert all(hasattr(d.constraints, name) for name in theirs.distributions.constraints.__all__ if name[0].islower())
    assert all(hasattr(d.transforms, name) for name in theirs.distributions.transforms.__all__)


def test_ones_own_distribution() -> None:
    def expression(torch: Any) -> list[Any]:
        d = torch.distributions
        broadcast_all = d.utils.broadcast_all

        class Triangle(d.Distribution):
            arg_constraints: ClassVar = {"width": d.constraints.positive}
            has_rsample = True

            def __init__(self, width: Any, validate_args: Any = None) -> None:
                (self.width,) = broadcast_all(width)
                super().__init__(self.width.size(), validate_args=validate_args)

            @d.constraints.dependent_property(is_discrete=False, event_dim=0)
            def support(self) -> Any:
                return d.constraints.interval(-self.width, self.width)

            def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
                new = self._get_checked_instance(Triangle, _instance)
                new.width = self.width.expand(batch_shape)
                super(Triangle, new).__init__(torch.Size(batch_shape), validate_args=False)
                return new

            def rsample(self, sample_shape: Any = ()) -> Any:
                return torch.zeros(self._extended_shape(sample_shape)) * self.width

            def log_prob(self, value: Any) -> Any:
                self._validate_sample(value)
                return torch.log((self.width - value.abs()) / self.width**2)

        one = Triangle(2.0)
        wide = one.expand((3,))
        x = torch.tensor([0.5, 1.0, -1.5])
        return [one.log_prob(x), wide.batch_shape, wide.sample((2,)), wide.log_prob(x), wide.support.check(x)]

    theirs.set_default_dtype(theirs.float32)
    same(expression)


@pytest.mark.parametrize(
    "expression",
    [
        lambda torch: torch.distributions.Normal(0.0, -1.0),
        lambda torch: torch.distributions.Categorical(probs=torch.tensor([-1.0, 2.0])),
        lambda torch: torch.distributions.Categorical(),
        lambda torch: torch.distributions.Exponential(1.0).log_prob(torch.tensor(-1.0)),
        lambda torch: torch.distributions.Bernoulli(torch.tensor(0.5)).rsample(),
        lambda torch: torch.distributions.kl_divergence(
            torch.distributions.Normal(0.0, 1.0), torch.distributions.Poisson(1.0)
        ),
    ],
)
def test_what_pytorch_refuses_is_refused(expression: Any) -> None:
    same_error(expression)


def test_copies_and_pickles() -> None:
    normal = ours.distributions.Normal(ours.tensor([0.0, 1.0]), 2.0)
    for other in (copy.deepcopy(normal), pickle.loads(pickle.dumps(normal))):
        assert type(other) is ours.distributions.Normal
        assert other.loc.tolist() == [0.0, 1.0] and other.scale is not normal.scale


DRAWS: dict[str, Callable[[Any], Any]] = {
    "Normal": lambda d: d.Normal(0.5, 2.0).sample((5, 4)),
    "Normal, few": lambda d: d.Normal(0.5, 2.0).rsample((3,)),
    "Uniform": lambda d: d.Uniform(-1.0, 3.0).sample((7,)),
    "Exponential": lambda d: d.Exponential(2.0).sample((7,)),
    "LogNormal": lambda d: d.LogNormal(0.0, 0.5).sample((5, 5)),
    "Bernoulli": lambda d: d.Bernoulli(0.3).sample((20,)),
}


@pytest.fixture
def torch_random() -> Iterator[None]:
    """PyTorch's numbers, as `wengert torch --torch-random` draws them."""
    from wengert.api import random as drawn
    from wengert.torch import random, torch_random

    before = random.stream
    torch_random.install()
    yield
    random.set_stream(before)
    drawn.stream = None


def test_draws_of_pytorchs_numbers(torch_random: None) -> None:
    theirs.set_default_dtype(theirs.float32)

    def expression(torch: Any) -> list[Any]:
        torch.manual_seed(7)
        d = torch.distributions
        weights = torch.tensor([[0.1, 0.6, 0.3], [0.3, 0.3, 0.4]])
        locations = torch.tensor([[0.0, 1.0], [2.0, 3.0]])
        return [
            *[draw(d) for draw in DRAWS.values()],
            d.Bernoulli(logits=locations).sample((3,)),
            d.Categorical(weights).sample(),
            d.Categorical(logits=weights * 5).sample((6,)),
            d.OneHotCategorical(weights).sample((2,)),
            d.Multinomial(5, weights).sample(),
            d.Normal(locations, 0.1).sample(),
            d.MultivariateNormal(locations, torch.eye(2)).sample((3,)),
            d.Uniform(locations, locations + 2).rsample((2,)),
            torch.rand(2),
        ]

    same(expression)
