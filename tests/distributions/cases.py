"""The distributions that are compared with torch's: their parameters and values to look at, as arrays in float64."""

from __future__ import annotations

from typing import Any

import numpy as np

import wengert as wg

A = np.array
LOC, SCALE = A([-1.3, 0.0, 2.1]), A([0.4, 1.0, 3.0])
POSITIVE, OTHER = A([0.3, 1.0, 4.5]), A([2.5, 0.7, 1.2])
UNIT = A([0.03, 0.35, 0.9])
LOGITS = A([-2.0, 0.1, 1.5])
CLASSES = A([[0.1, 0.6, 0.3], [0.25, 0.25, 0.5]])
SPD = A([[2.0, 0.6, -0.3], [0.6, 1.5, 0.2], [-0.3, 0.2, 0.9]])
LOWER = np.linalg.cholesky(SPD)
FACTOR = A([[0.5, 1.0], [-0.7, 0.2], [0.3, 0.9]])
COUNTS = A([0.0, 2.0, 7.0])

# By name: the parameters, and values of the support (batches of three, or of two with three classes).
CASES: dict[str, tuple[str, dict[str, Any], Any]] = {
    "Bernoulli": ("Bernoulli", {"probs": UNIT}, A([0.0, 1.0, 1.0])),
    "Bernoulli, logits": ("Bernoulli", {"logits": LOGITS}, A([1.0, 0.0, 1.0])),
    "Beta": ("Beta", {"concentration1": POSITIVE, "concentration0": OTHER}, UNIT),
    "Binomial": ("Binomial", {"total_count": A([9.0, 9.0, 9.0]), "probs": UNIT}, COUNTS),
    "Binomial, logits": ("Binomial", {"total_count": A([7.0, 7.0, 7.0]), "logits": LOGITS}, COUNTS),
    "Categorical": ("Categorical", {"probs": CLASSES}, A([2, 0])),
    "Categorical, logits": ("Categorical", {"logits": CLASSES * 4}, A([1, 2])),
    "Cauchy": ("Cauchy", {"loc": LOC, "scale": SCALE}, A([0.5, -3.0, 2.0])),
    "Chi2": ("Chi2", {"df": POSITIVE}, OTHER),
    "ContinuousBernoulli": ("ContinuousBernoulli", {"probs": UNIT}, A([0.2, 0.5, 0.7])),
    "ContinuousBernoulli, near 1/2": ("ContinuousBernoulli", {"probs": A([0.4995, 0.5, 0.5008])}, A([0.2, 0.5, 0.7])),
    "Dirichlet": ("Dirichlet", {"concentration": CLASSES * 7}, A([[0.2, 0.5, 0.3], [0.1, 0.1, 0.8]])),
    "Exponential": ("Exponential", {"rate": POSITIVE}, OTHER),
    "FisherSnedecor": ("FisherSnedecor", {"df1": A([3.0, 1.0, 8.0]), "df2": A([5.0, 2.0, 9.0])}, OTHER),
    "Gamma": ("Gamma", {"concentration": POSITIVE, "rate": OTHER}, A([0.1, 2.0, 9.0])),
    "GeneralizedPareto": (
        "GeneralizedPareto",
        {"loc": LOC, "scale": SCALE, "concentration": A([-0.4, 0.0, 0.3])},
        A([-1.0, 0.5, 4.9]),
    ),
    "Geometric": ("Geometric", {"probs": UNIT}, COUNTS),
    "Gumbel": ("Gumbel", {"loc": LOC, "scale": SCALE}, A([0.5, -1.0, 2.0])),
    "HalfCauchy": ("HalfCauchy", {"scale": SCALE}, OTHER),
    "HalfNormal": ("HalfNormal", {"scale": SCALE}, OTHER),
    "InverseGamma": ("InverseGamma", {"concentration": A([0.5, 1.5, 4.0]), "rate": OTHER}, POSITIVE),
    "Kumaraswamy": ("Kumaraswamy", {"concentration1": POSITIVE, "concentration0": OTHER}, UNIT),
    "LKJCholesky": ("LKJCholesky", {"dim": 3, "concentration": A(1.7)}, None),
    "Laplace": ("Laplace", {"loc": LOC, "scale": SCALE}, A([0.5, -1.0, 2.1])),
    "LogNormal": ("LogNormal", {"loc": LOC, "scale": SCALE}, OTHER),
    "LogisticNormal": ("LogisticNormal", {"loc": LOC[:2], "scale": SCALE[:2]}, A([0.2, 0.5, 0.3])),
    "LowRankMultivariateNormal": (
        "LowRankMultivariateNormal",
        {"loc": LOC, "cov_factor": FACTOR, "cov_diag": SCALE},
        A([0.1, -0.4, 1.0]),
    ),
    "Multinomial": ("Multinomial", {"total_count": 6, "probs": CLASSES}, A([[1.0, 3.0, 2.0], [0.0, 0.0, 6.0]])),
    "MultivariateNormal": ("MultivariateNormal", {"loc": LOC, "covariance_matrix": SPD}, A([0.1, -0.4, 1.0])),
    "MultivariateNormal, precision": (
        "MultivariateNormal",
        {"loc": np.stack([LOC, SCALE]), "precision_matrix": SPD},
        A([0.1, -0.4, 1.0]),
    ),
    "MultivariateNormal, factor": (
        "MultivariateNormal",
        {"loc": LOC, "scale_tril": np.stack([LOWER, LOWER * 2])},
        A([0.1, -0.4, 1.0]),
    ),
    "NegativeBinomial": ("NegativeBinomial", {"total_count": A([1.0, 3.0, 5.0]), "probs": UNIT}, COUNTS),
    "Normal": ("Normal", {"loc": LOC, "scale": SCALE}, A([0.5, -1.0, 2.1])),
    "OneHotCategorical": ("OneHotCategorical", {"probs": CLASSES}, A([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])),
    "OneHotCategoricalStraightThrough": (
        "OneHotCategoricalStraightThrough",
        {"logits": CLASSES},
        A([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]),
    ),
    "Pareto": ("Pareto", {"scale": A([0.5, 1.0, 2.0]), "alpha": A([0.7, 1.5, 4.0])}, A([0.9, 3.0, 2.5])),
    "Poisson": ("Poisson", {"rate": POSITIVE}, COUNTS),
    "RelaxedBernoulli": ("RelaxedBernoulli", {"temperature": A(0.7), "logits": LOGITS}, UNIT),
    "LogitRelaxedBernoulli": ("LogitRelaxedBernoulli", {"temperature": A(0.7), "probs": UNIT}, LOC),
    "RelaxedOneHotCategorical": ("RelaxedOneHotCategorical", {"temperature": A(0.7), "probs": CLASSES}, CLASSES),
    "StudentT": ("StudentT", {"df": A([0.8, 1.7, 5.0]), "loc": LOC, "scale": SCALE}, A([0.5, -1.0, 2.0])),
    "Uniform": ("Uniform", {"low": LOC, "high": LOC + SCALE}, A([-1.0, 0.0, 4.9])),
    "VonMises": ("VonMises", {"loc": LOC, "concentration": A([0.05, 2.0, 40.0])}, A([0.5, -1.0, 2.0])),
    "Weibull": ("Weibull", {"scale": SCALE, "concentration": POSITIVE}, OTHER),
    "Wishart": ("Wishart", {"df": A(4.5), "covariance_matrix": SPD}, SPD * 2 + np.eye(3)),
    "Wishart, batch": ("Wishart", {"df": A([3.5, 6.0]), "scale_tril": LOWER}, SPD * 2 + np.eye(3)),
}


def converted(value: Any, convert: Any) -> Any:
    return convert(value) if isinstance(value, np.ndarray) else value


def made(library: Any, case: str, convert: Any) -> Any:
    """A case's distribution, of a library's `distributions`."""
    name, parameters, _ = CASES[case]
    kind = getattr(library, name, None) or getattr(library.relaxed_bernoulli, name)  # torch does not export one
    return kind(**{key: converted(value, convert) for key, value in parameters.items()})


def mine(case: str) -> Any:
    return made(wg.distributions, case, wg.tensor)


def value_of(case: str) -> Any:
    """A value of the support."""
    value = CASES[case][2]
    return np.array([[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.3, -0.5, np.sqrt(0.66)]]) if value is None else value
