"""Probability distributions: draws, densities, moments, transforms of them, and divergences between them.

PyTorch's names, arguments and meanings over Wengert's tensors, so that all of it is differentiated, mapped and
compiled. Draws come from the default generator (`wg.manual_seed`).
"""

from wengert.api.spelling_hints import module_attribute as _module_attribute
from wengert.distributions import constraints, kl_pairs
from wengert.distributions.categorical import (
    Categorical,
    ExpRelaxedCategorical,
    LogitRelaxedBernoulli,
    Multinomial,
    OneHotCategorical,
    OneHotCategoricalStraightThrough,
    RelaxedBernoulli,
    RelaxedOneHotCategorical,
)
from wengert.distributions.constraint_registry import ConstraintRegistry, biject_to, transform_to
from wengert.distributions.counts import (
    Bernoulli,
    Binomial,
    ContinuousBernoulli,
    Geometric,
    NegativeBinomial,
    Poisson,
)
from wengert.distributions.distribution import Distribution
from wengert.distributions.gamma_family import (
    Beta,
    Chi2,
    Dirichlet,
    Exponential,
    FisherSnedecor,
    Gamma,
    InverseGamma,
    StudentT,
)
from wengert.distributions.kl import kl_divergence, register_kl
from wengert.distributions.location_scale import (
    Cauchy,
    Gumbel,
    HalfCauchy,
    HalfNormal,
    Laplace,
    Normal,
    Uniform,
    VonMises,
)
from wengert.distributions.multivariate import LKJCholesky, LowRankMultivariateNormal, MultivariateNormal, Wishart
from wengert.distributions.through_transforms import (
    GeneralizedPareto,
    Kumaraswamy,
    LogisticNormal,
    LogNormal,
    Pareto,
    Weibull,
)
from wengert.distributions.transformed import Independent, MixtureSameFamily, TransformedDistribution
from wengert.distributions.transforms import (
    AbsTransform,
    AffineTransform,
    ComposeTransform,
    CumulativeDistributionTransform,
    ExpTransform,
    IndependentTransform,
    PowerTransform,
    ReshapeTransform,
    SigmoidTransform,
    SoftplusTransform,
    TanhTransform,
    Transform,
    identity_transform,
)
from wengert.distributions.vector_transforms import (
    CatTransform,
    CorrCholeskyTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    SoftmaxTransform,
    StackTransform,
    StickBreakingTransform,
)

__all__ = [
    "Distribution",
    "Bernoulli",
    "Beta",
    "Binomial",
    "Categorical",
    "Cauchy",
    "Chi2",
    "ContinuousBernoulli",
    "Dirichlet",
    "Exponential",
    "FisherSnedecor",
    "Gamma",
    "GeneralizedPareto",
    "Geometric",
    "Gumbel",
    "HalfCauchy",
    "HalfNormal",
    "Independent",
    "InverseGamma",
    "Kumaraswamy",
    "LKJCholesky",
    "Laplace",
    "LogNormal",
    "LogisticNormal",
    "LowRankMultivariateNormal",
    "MixtureSameFamily",
    "Multinomial",
    "MultivariateNormal",
    "NegativeBinomial",
    "Normal",
    "OneHotCategorical",
    "OneHotCategoricalStraightThrough",
    "Pareto",
    "Poisson",
    "RelaxedBernoulli",
    "LogitRelaxedBernoulli",
    "RelaxedOneHotCategorical",
    "ExpRelaxedCategorical",
    "StudentT",
    "TransformedDistribution",
    "Uniform",
    "VonMises",
    "Weibull",
    "Wishart",
    "constraints",
    "ConstraintRegistry",
    "biject_to",
    "transform_to",
    "kl_divergence",
    "register_kl",
    "Transform",
    "AbsTransform",
    "AffineTransform",
    "CatTransform",
    "ComposeTransform",
    "CorrCholeskyTransform",
    "CumulativeDistributionTransform",
    "ExpTransform",
    "IndependentTransform",
    "LowerCholeskyTransform",
    "PositiveDefiniteTransform",
    "PowerTransform",
    "ReshapeTransform",
    "SigmoidTransform",
    "SoftmaxTransform",
    "SoftplusTransform",
    "StackTransform",
    "StickBreakingTransform",
    "TanhTransform",
    "identity_transform",
]


def __getattr__(name: str) -> object:
    return _module_attribute(name, __all__, __name__)
