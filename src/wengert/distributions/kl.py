"""The Kullback-Leibler divergence between two distributions, by pairs of kinds.

`kl_divergence(p, q)` is the mean of p.log_prob(x) - q.log_prob(x) over draws x of p. `register_kl(P, Q)` adds a pair;
of several that fit, the one nearest in the order of the classes is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wengert import Tensor
from wengert.core.errors import ArgumentError, DTypeError
from wengert.distributions.distribution import Distribution

Formula = Callable[[Any, Any], Tensor]

_formulas: dict[tuple[type, type], Formula] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Formula], Formula]:
    """A decorator for the divergence of a pair of classes.

    >>> import wengert as wg
    >>> class Mine(wg.distributions.Normal):
    ...     pass
    >>> formula = wg.distributions.register_kl(Mine, Mine)(lambda p, q: p.loc - q.loc)
    >>> wg.distributions.kl_divergence(Mine(3.0, 1.0), Mine(1.0, 1.0)).item()
    2.0
    """
    for kind in (type_p, type_q):
        if not (isinstance(kind, type) and issubclass(kind, Distribution)):
            raise DTypeError(f"register_kl takes two classes of distributions, not {kind!r}")

    def keep(formula: Formula) -> Formula:
        _formulas[type_p, type_q] = formula
        return formula

    return keep


def _formula(p: type, q: type) -> Formula:
    """The formula of the pair whose classes come first among the bases of both."""
    places = lambda pair: (p.__mro__.index(pair[0]), q.__mro__.index(pair[1]))  # noqa: E731
    fitting = [pair for pair in _formulas if issubclass(p, pair[0]) and issubclass(q, pair[1])]
    if not fitting:
        raise NotImplementedError(
            f"kl_divergence of {p.__name__} and {q.__name__} has no formula; register_kl adds one, or take the mean of "
            "p.log_prob(x) - q.log_prob(x) over draws"
        )
    return _formulas[min(fitting, key=places)]


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """How far q is from p: 0 if they are equal, never below.

    >>> import wengert as wg
    >>> d = wg.distributions
    >>> d.kl_divergence(d.Normal(0.0, 1.0), d.Normal(1.0, 1.0)).item()
    0.5
    """
    if not isinstance(p, Distribution) or not isinstance(q, Distribution):
        raise ArgumentError(f"kl_divergence takes two distributions, not {p!r} and {q!r}")
    return _formula(type(p), type(q))(p, q)
