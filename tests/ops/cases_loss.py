"""Cases for losses: every reduction, class targets with more axes, weights, ignored targets, label smoothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.ops.case import Case, arrays

try:
    import torch.nn.functional as F
except ImportError:
    F = None  # type: ignore[assignment]


def _torch(name: str) -> Callable[..., Any] | None:
    return getattr(F, name) if F is not None else None


def _case(name: str, *args: Any, numpy: Any = None, **kwargs: Any) -> Case:
    return Case(name, args, kwargs, numpy=numpy, torch=_torch(name))


def _log_softmax(x: Any) -> Any:
    return x - np.log(np.exp(x).sum(1, keepdims=True))


_a, _b, _c = arrays(1, (3, 4), (3, 4), (3, 4))
_near = _a + np.where(np.arange(12).reshape(3, 4) % 2, 0.3, -2.2)  # on both sides of every bend, and of none too near
_p, _q = arrays(2, (3, 4), (3, 4), low=0.1, high=0.9)
_yes = (_q > 0.5).astype(np.float64)
_signs = np.where(_b > 0, 1, -1)
_weight, _positive_weight = arrays(3, (4,), (4,), low=0.5, high=2.0)
_scores, _planes = arrays(4, (5, 4), (2, 4, 3))
_classes, _plane_classes = np.array([3, 0, 2, 2, 1]), np.array([[0, 3, 1], [2, 2, 0]])
_ignoring = np.array([3, -100, 2, -100, 1])
_shares = np.exp(_log_softmax(_planes[::-1]))
_logs = _log_softmax(_a)

_DISTANCES = [
    case
    for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss")
    for case in (
        _case(name, _a, _near),
        _case(name, _a, _near, reduction="sum"),
        _case(name, _a.T, _near.T, reduction="none"),
        _case(name, _a[0, 0, ...], _near[0, 0, ...]),
        _case(name, _a[:0], _near[:0], reduction="sum"),
        _case(name, _a[:, ::2], _near[:, ::2]),
    )
]
_LOGISTIC = [
    case
    for name, x in (("binary_cross_entropy", _p), ("binary_cross_entropy_with_logits", _a))
    for case in (
        _case(name, x, _q),
        _case(name, x, _yes, reduction="sum"),
        _case(name, x.T, _q.T, reduction="none"),
        _case(name, x, _q, _weight),
        _case(name, x[:0], _q[:0], reduction="sum"),
        _case(name, x[0, 0, ...], _q[0, 0, ...]),
    )
]

CASES = [
    *_DISTANCES,
    _case("smooth_l1_loss", _a, _near, beta=0.5),
    _case("smooth_l1_loss", _a, _near, beta=0.0),
    _case("huber_loss", _a, _near, delta=2.0),
    *_LOGISTIC,
    _case("binary_cross_entropy_with_logits", _a, _q, pos_weight=_positive_weight),
    _case("binary_cross_entropy_with_logits", _a, _yes, weight=_weight, pos_weight=_positive_weight, reduction="none"),
    _case("kl_div", _logs, _p),
    _case("kl_div", _logs, _p, reduction="batchmean"),
    _case("kl_div", _logs.T, _p.T, reduction="none"),
    _case("kl_div", _logs, _a, reduction="sum", log_target=True),
    _case("kl_div", _logs[:0], _p[:0], reduction="sum"),
    _case("cross_entropy", _scores, _classes, numpy=lambda x, t: -_log_softmax(x)[np.arange(5), t].mean()),
    _case("cross_entropy", _scores, _classes, _weight),
    _case("cross_entropy", _scores, _ignoring, _weight, reduction="sum"),
    _case("cross_entropy", _scores, _ignoring),
    _case("cross_entropy", _scores, _classes, reduction="none", ignore_index=2),
    _case("cross_entropy", _scores, _classes, label_smoothing=0.2),
    _case("cross_entropy", _scores, _ignoring, _weight, label_smoothing=0.2),
    _case("cross_entropy", _scores, _ignoring, _weight, label_smoothing=0.2, reduction="none"),
    _case("cross_entropy", _scores[0], np.array(2)),
    _case("cross_entropy", _planes, _plane_classes, _weight),
    _case("cross_entropy", _planes.transpose(0, 1, 2)[:, ::-1], _plane_classes, reduction="none"),
    _case("cross_entropy", _planes, _shares, numpy=lambda x, t: -(_log_softmax(x) * t).sum(1).mean()),
    _case("cross_entropy", _planes, _shares, _weight, reduction="sum", label_smoothing=0.1),
    _case("cross_entropy", _planes[:, :, 0], _shares[:, :, 0], _weight, reduction="none"),
    _case("cross_entropy", _scores[0], _shares[0, :, 0]),
    _case("cross_entropy", _scores[:0], _classes[:0], reduction="sum"),
    _case("nll_loss", _scores, _classes, numpy=lambda x, t: -x[np.arange(5), t].mean()),
    _case("nll_loss", _scores, _ignoring, _weight),
    _case("nll_loss", _scores, _classes, reduction="none", ignore_index=0),
    _case("nll_loss", _planes, _plane_classes, _weight, reduction="sum"),
    _case("nll_loss", _scores[0], np.array(3)),
    _case("nll_loss", _scores[:0], _classes[:0], reduction="sum"),
    _case("hinge_embedding_loss", _a, _signs),
    _case("hinge_embedding_loss", _a, _signs, margin=0.7, reduction="sum"),
    _case("hinge_embedding_loss", _a.T, _signs.T, reduction="none"),
    _case("hinge_embedding_loss", _a[0, 0, ...], _signs[0, 0, ...]),
    _case("hinge_embedding_loss", _a[:0], _signs[:0], reduction="sum"),
    _case("margin_ranking_loss", _a, _b, _signs),
    _case("margin_ranking_loss", _a, _b, _signs, margin=0.4, reduction="sum"),
    _case("margin_ranking_loss", _a.T, _b.T, _signs.T, reduction="none"),
    _case("margin_ranking_loss", _a[0], _b[0], _signs[0]),
    _case("margin_ranking_loss", _a[:0], _b[:0], _signs[:0], reduction="sum"),
    _case("cosine_embedding_loss", _a, _b, _signs[:, 0]),
    _case("cosine_embedding_loss", _a, _b, np.array([-1, -1, 1]), margin=-0.5, reduction="none"),
    _case("cosine_embedding_loss", _a.T, _b.T, _signs[0], reduction="sum"),
    _case("cosine_embedding_loss", _a[0], _b[0], np.array(-1), margin=-0.9),
    _case("cosine_embedding_loss", _a[:0], _b[:0], _signs[:0, 0], reduction="sum"),
    _case("triplet_margin_loss", _a, _b, _c),
    _case("triplet_margin_loss", _a, _b, _c, margin=3.0, p=1, reduction="none"),
    _case("triplet_margin_loss", _a, _b, _c, margin=4.0, swap=True, reduction="sum"),
    _case("triplet_margin_loss", _a.T, _b.T, _c.T, margin=2.0, p=3),
    _case("triplet_margin_loss", _a[0], _b[0], _c[0], margin=2.0),
    _case("triplet_margin_loss", _a[:0], _b[:0], _c[:0], reduction="sum"),
    _case("poisson_nll_loss", _a, _p * 5),
    _case("poisson_nll_loss", _a, _p * 5, full=True, reduction="none"),
    _case("poisson_nll_loss", _p, _q * 5, log_input=False, reduction="sum"),
    _case("poisson_nll_loss", _a.T, (_p * 5).T, reduction="none"),
    _case("poisson_nll_loss", _a[0, 0, ...], _p[0, 0, ...]),
    _case("poisson_nll_loss", _a[:0], _p[:0], reduction="sum"),
    _case("gaussian_nll_loss", _a, _b, _p),
    _case("gaussian_nll_loss", _a, _b, _p[:, :1], full=True),
    _case("gaussian_nll_loss", _a, _b, _p[:, 0], reduction="none"),
    _case("gaussian_nll_loss", _a.T, _b.T, 0.7, reduction="sum"),
    _case("gaussian_nll_loss", _a[:0], _b[:0], _p[:0], reduction="sum"),
    _case("gaussian_nll_loss", _a[0], _b[0], _p[0]),
]
