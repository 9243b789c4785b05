"""The divergences with a closed form: between two distributions of the same kind, and of different kinds.

Those of different kinds are -entropy(p) - E_p[log q]: what the mean of log q over draws of p comes to is written once
for each q, in terms of means of p (of x, of log x, of exp(-t x)), which are written once for each p.
"""

from __future__ import annotations

import math
from typing import Any

import wengert as wg
from wengert import Tensor
from wengert.core.errors import ShapeError
from wengert.distributions.categorical import Categorical, OneHotCategorical
from wengert.distributions.counts import Bernoulli, Binomial, ContinuousBernoulli, Geometric, Poisson
from wengert.distributions.distribution import EULER, LOG_2PI, Distribution, can_look, sum_rightmost
from wengert.distributions.gamma_family import Beta, Dirichlet, Exponential, Gamma
from wengert.distributions.kl import kl_divergence, register_kl
from wengert.distributions.location_scale import Cauchy, Gumbel, HalfNormal, Laplace, Normal, Uniform
from wengert.distributions.multivariate import (
    LowRankMultivariateNormal,
    MultivariateNormal,
    half_log_det,
    mahalanobis,
    solve_lower,
)
from wengert.distributions.through_transforms import Pareto
from wengert.distributions.transformed import Independent, TransformedDistribution

INF = math.inf
_p: type[Distribution]
_q: type[Distribution]


def _weighted(p: Tensor, term: Tensor, is_impossible: Tensor) -> Tensor:
    """p * term, 0 where p is 0, and infinite where only the other one is."""
    return wg.where(p == 0, 0.0, wg.where(is_impossible, INF, p * wg.where(p == 0, 0.0, term)))


# --- two of a kind --------------------------------------------------------------------------------------------------


@register_kl(Bernoulli, Bernoulli)
def _bernoullis(p: Bernoulli, q: Bernoulli) -> Tensor:
    one = _weighted(p.probs, wg.softplus(-q.logits) - wg.softplus(-p.logits), q.probs == 0)
    return one + _weighted(1 - p.probs, wg.softplus(q.logits) - wg.softplus(p.logits), q.probs == 1)


def _log_beta(a: Tensor, b: Tensor) -> Tensor:
    return wg.lgamma(a) + wg.lgamma(b) - wg.lgamma(a + b)


@register_kl(Beta, Beta)
def _betas(p: Beta, q: Beta) -> Tensor:
    a, b, c, d = p.concentration1, p.concentration0, q.concentration1, q.concentration0
    slope = (a - c) * wg.digamma(a) + (b - d) * wg.digamma(b) + (c + d - a - b) * wg.digamma(a + b)
    return _log_beta(c, d) - _log_beta(a, b) + slope


@register_kl(Binomial, Binomial)
def _binomials(p: Binomial, q: Binomial) -> Tensor:
    if can_look(p.total_count) and (p.total_count < q.total_count).any().item():
        raise NotImplementedError("kl_divergence of Binomials has no formula where q has more trials than p")
    kl = p.total_count * (p.probs * (p.logits - q.logits) + wg.log1p(-p.probs) - wg.log1p(-q.probs))
    return wg.where(p.total_count > q.total_count, INF, kl)


@register_kl(Categorical, Categorical)
@register_kl(OneHotCategorical, OneHotCategorical)
def _categoricals(p: Any, q: Any) -> Tensor:
    return _weighted(p.probs, p.logits - q.logits, q.probs == 0).sum(-1)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoullis(p: ContinuousBernoulli, q: ContinuousBernoulli) -> Tensor:
    own = p.mean * (p.logits - q.logits) + p._log_norm() - q._log_norm()
    return own + wg.log1p(-p.probs) - wg.log1p(-q.probs)


@register_kl(Dirichlet, Dirichlet)
def _dirichlets(p: Dirichlet, q: Dirichlet) -> Tensor:
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    norm = wg.lgamma(total) - wg.lgamma(b.sum(-1)) - (wg.lgamma(a) - wg.lgamma(b)).sum(-1)
    return norm + ((a - b) * (wg.digamma(a) - wg.digamma(total)[..., None])).sum(-1)


@register_kl(Exponential, Exponential)
def _exponentials(p: Exponential, q: Exponential) -> Tensor:
    ratio = q.rate / p.rate
    return ratio - 1 - wg.log(ratio)


@register_kl(Gamma, Gamma)
def _gammas(p: Gamma, q: Gamma) -> Tensor:
    a, b = p.concentration, q.concentration
    norm = b * wg.log(p.rate / q.rate) + wg.lgamma(b) - wg.lgamma(a)
    return norm + (a - b) * wg.digamma(a) + (q.rate - p.rate) * (a / p.rate)


@register_kl(Geometric, Geometric)
def _geometrics(p: Geometric, q: Geometric) -> Tensor:
    return -p.entropy() - wg.log1p(-q.probs) / p.probs - q.logits


@register_kl(HalfNormal, HalfNormal)
def _half_normals(p: HalfNormal, q: HalfNormal) -> Tensor:
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _laplaces(p: Laplace, q: Laplace) -> Tensor:
    ratio, distance = p.scale / q.scale, wg.abs(p.loc - q.loc)
    return distance / q.scale + ratio * wg.exp(-distance / p.scale) - wg.log(ratio) - 1


@register_kl(Normal, Normal)
def _normals(p: Normal, q: Normal) -> Tensor:
    ratio = (p.scale / q.scale) ** 2
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale) ** 2 - 1 - wg.log(ratio))


@register_kl(Cauchy, Cauchy)
def _cauchys(p: Cauchy, q: Cauchy) -> Tensor:
    return wg.log((p.scale + q.scale) ** 2 + (p.loc - q.loc) ** 2) - wg.log(4 * p.scale * q.scale)


@register_kl(Pareto, Pareto)
def _paretos(p: Pareto, q: Pareto) -> Tensor:
    ratio = q.alpha / p.alpha
    kl = q.alpha * wg.log(p.scale / q.scale) - wg.log(ratio) + ratio - 1
    return wg.where(p.scale < q.scale, INF, kl)


@register_kl(Poisson, Poisson)
def _poissons(p: Poisson, q: Poisson) -> Tensor:
    return wg.xlogy(p.rate, p.rate) - wg.xlogy(p.rate, q.rate) - (p.rate - q.rate)


@register_kl(Independent, Independent)
def _independents(p: Independent, q: Independent) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError("kl_divergence of two Independent with different numbers of axes has no formula")
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: TransformedDistribution, q: TransformedDistribution) -> Tensor:
    """That of the bases: a transform that is one to one takes nothing away."""
    kinds = [[type(transform) for transform in d.transforms] for d in (p, q)]
    if p.event_shape != q.event_shape or not (p.transforms == q.transforms or _are_plain(p, q, kinds)):
        raise NotImplementedError("kl_divergence of distributions through different transforms has no formula")
    return kl_divergence(p.base_dist, q.base_dist)


def _are_plain(p: TransformedDistribution, q: TransformedDistribution, kinds: list[list[type]]) -> bool:
    """Whether both go through the same transforms, of kinds without parameters."""
    return kinds[0] == kinds[1] and not any(set(vars(t)) - {"_cache_size"} for d in (p, q) for t in d.transforms)


# --- normal distributions of vectors --------------------------------------------------------------------------------

_Vector: tuple[type[Distribution], ...] = (MultivariateNormal, LowRankMultivariateNormal)


def _log_det(d: Any) -> Tensor:
    return d.log_det() if isinstance(d, LowRankMultivariateNormal) else 2 * half_log_det(d.scale_tril)


def _columns(d: Any) -> Tensor:
    """A matrix whose product with its transpose is the covariance."""
    if isinstance(d, MultivariateNormal):
        return d.scale_tril
    return wg.concat([d.cov_factor, wg.diag_embed(wg.sqrt(d.cov_diag))], axis=-1)


def _vectors(p: Any, q: Any) -> Tensor:
    if p.event_shape != q.event_shape:
        raise ShapeError(f"kl_divergence: the event shapes {p.event_shape} and {q.event_shape} differ")
    difference, columns = q.loc - p.loc, _columns(p)
    if isinstance(q, MultivariateNormal):
        spread = (solve_lower(q.scale_tril, columns) ** 2).sum((-2, -1))
        distance = mahalanobis(q.scale_tril, difference)
    else:
        # One column at a time along an axis before the batch's, over which q's own parts broadcast.
        rows = wg.moveaxis(columns, -1, 0)
        spread, distance = q.distance(rows).sum(0), q.distance(difference)
    return 0.5 * (_log_det(q) - _log_det(p) + spread + distance - p.event_shape[0])


for _p in _Vector:
    for _q in _Vector:
        register_kl(_p, _q)(_vectors)

# --- different kinds: means under p ---------------------------------------------------------------------------------


def _mean_log(p: Distribution) -> Tensor:
    """E[log x]."""
    if isinstance(p, Beta):
        return wg.digamma(p.concentration1) - wg.digamma(p.concentration1 + p.concentration0)
    if isinstance(p, Gamma):
        return wg.digamma(p.concentration) - wg.log(p.rate)
    if isinstance(p, Exponential):
        return -EULER - wg.log(p.rate)
    if isinstance(p, Pareto):
        return wg.log(p.scale) + 1 / p.alpha
    assert isinstance(p, Uniform)
    return (wg.xlogy(p.high, p.high) - wg.xlogy(p.low, p.low)) / (p.high - p.low) - 1


def _mean_exp(p: Distribution, t: Tensor) -> Tensor:
    """E[exp(-t x)]."""
    if isinstance(p, Gamma):
        return wg.exp(-p.concentration * wg.log1p(t / p.rate))
    if isinstance(p, Exponential):
        return p.rate / (p.rate + t)
    if isinstance(p, Normal):
        return wg.exp(-t * p.loc + 0.5 * (t * p.scale) ** 2)
    assert isinstance(p, Uniform)
    return (wg.exp(-t * p.low) - wg.exp(-t * p.high)) / (t * (p.high - p.low))


# --- different kinds: the mean of log q -----------------------------------------------------------------------------


def _to_exponential(p: Any, q: Exponential) -> Tensor:
    return -p.entropy() - wg.log(q.rate) + q.rate * p.mean


def _to_gamma(p: Any, q: Gamma) -> Tensor:
    norm = wg.lgamma(q.concentration) - q.concentration * wg.log(q.rate)
    return -p.entropy() + norm - (q.concentration - 1) * _mean_log(p) + q.rate * p.mean


def _to_normal(p: Any, q: Normal) -> Tensor:
    square = p.variance + (p.mean - q.loc) ** 2
    return -p.entropy() + 0.5 * LOG_2PI + wg.log(q.scale) + square / (2 * q.scale**2)


def _to_gumbel(p: Any, q: Gumbel) -> Tensor:
    tail = wg.exp(q.loc / q.scale) * _mean_exp(p, 1 / q.scale)
    return -p.entropy() + wg.log(q.scale) + (p.mean - q.loc) / q.scale + tail


def _to_uniform(p: Any, q: Uniform) -> Tensor:
    return -p.entropy() + wg.log(q.high - q.low)


def _to_continuous_bernoulli(p: Any, q: ContinuousBernoulli) -> Tensor:
    return -p.entropy() - p.mean * q.logits - wg.log1p(-q.probs) - q._log_norm()


register_kl(Gumbel, Gumbel)(
    lambda p, q: (
        -p.entropy()
        + wg.log(q.scale)
        + (p.mean - q.loc) / q.scale
        + wg.exp((q.loc - p.loc) / q.scale + wg.lgamma(1 + p.scale / q.scale))
    )
)


@register_kl(Normal, Laplace)
def _normal_laplace(p: Normal, q: Laplace) -> Tensor:
    z = (p.loc - q.loc) / p.scale
    distance = p.scale * (math.sqrt(2 / math.pi) * wg.exp(-0.5 * z * z) + z * wg.erf(z * math.sqrt(0.5)))
    return -p.entropy() + wg.log(2 * q.scale) + distance / q.scale


@register_kl(Bernoulli, Poisson)
def _bernoulli_poisson(p: Bernoulli, q: Poisson) -> Tensor:
    return -p.entropy() - (p.probs * wg.log(q.rate) - q.rate)


for _p in (Beta, ContinuousBernoulli, Gamma, Pareto):
    register_kl(_p, Exponential)(_to_exponential)
for _p in (Beta, Exponential, Pareto):
    register_kl(_p, Gamma)(_to_gamma)
for _p in (Beta, ContinuousBernoulli, Exponential, Gamma, Gumbel, Laplace, Pareto, Uniform):
    register_kl(_p, Normal)(_to_normal)
for _p in (Exponential, Gamma, Normal, Uniform):
    register_kl(_p, Gumbel)(_to_gumbel)
register_kl(Beta, ContinuousBernoulli)(_to_continuous_bernoulli)

# --- different kinds: where p may be outside the support of q ----------------------------------------------------


@register_kl(Uniform, Uniform)
def _uniforms(p: Uniform, q: Uniform) -> Tensor:
    return wg.where((q.low > p.low) | (q.high < p.high), INF, _to_uniform(p, q))


@register_kl(Beta, Uniform)
@register_kl(ContinuousBernoulli, Uniform)
def _unit_uniform(p: Any, q: Uniform) -> Tensor:
    return wg.where((q.low > 0) | (q.high < 1), INF, _to_uniform(p, q))


@register_kl(Uniform, Beta)
def _uniform_beta(p: Uniform, q: Beta) -> Tensor:
    other = Uniform(1 - p.high, 1 - p.low, validate_args=False)
    logs = (q.concentration1 - 1) * _mean_log(p) + (q.concentration0 - 1) * _mean_log(other)
    kl = -p.entropy() + _log_beta(q.concentration1, q.concentration0) - logs
    return wg.where((p.high > 1) | (p.low < 0), INF, kl)


@register_kl(Uniform, ContinuousBernoulli)
def _uniform_continuous_bernoulli(p: Uniform, q: ContinuousBernoulli) -> Tensor:
    return wg.where((p.high > 1) | (p.low < 0), INF, _to_continuous_bernoulli(p, q))


@register_kl(Uniform, Exponential)
def _uniform_exponential(p: Uniform, q: Exponential) -> Tensor:
    return wg.where(p.low < 0, INF, _to_exponential(p, q))


@register_kl(Uniform, Gamma)
def _uniform_gamma(p: Uniform, q: Gamma) -> Tensor:
    return wg.where(p.low < 0, INF, _to_gamma(p, q))


@register_kl(Uniform, Pareto)
def _uniform_pareto(p: Uniform, q: Pareto) -> Tensor:
    kl = -p.entropy() - wg.log(q.alpha) - q.alpha * wg.log(q.scale) + (q.alpha + 1) * _mean_log(p)
    return wg.where(p.low < q.scale, INF, kl)


def _infinite(p: Any, q: Any) -> Tensor:
    """p has draws where q has none."""
    return wg.full(wg.broadcast_shapes(p.batch_shape, q.batch_shape), INF, dtype=p.mean.dtype, device=p.mean.device)


for _p in (Exponential, Gamma, Pareto):
    for _q in (Beta, ContinuousBernoulli, Uniform):
        register_kl(_p, _q)(_infinite)
for _p in (Beta, ContinuousBernoulli, Exponential, Gamma):
    register_kl(_p, Pareto)(_infinite)
for _p in (Gumbel, Laplace, Normal):
    for _q in (Beta, ContinuousBernoulli, Exponential, Gamma, Pareto, Uniform):
        register_kl(_p, _q)(_infinite)
register_kl(Poisson, Bernoulli)(_infinite)
register_kl(Poisson, Binomial)(_infinite)
