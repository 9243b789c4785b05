"""Cases for what networks use beside layers: reductions by an index, embeddings in bags, margins, distances, slopes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.ops.case import Case, arrays

try:
    import torch
    import torch.nn.functional as F
except ImportError:
    torch = F = None  # type: ignore[assignment]


def _torch(name: str) -> Callable[..., Any] | None:
    if F is None:
        return None
    return getattr(F, name, None) or getattr(torch, name)


def _case(name: str, *args: Any, torch: Any = None, **kwargs: Any) -> Case:
    return Case(name, args, kwargs, torch=torch or _torch(name))


# --- by an index ----------------------------------------------------------------------------------------------------

_x, _src, _more = arrays(1, (4, 3), (5, 3), (4, 5))
_index = np.array([[0, 1, 1], [3, 1, 0], [0, 0, 3], [3, 2, 3], [0, 1, 2]])
_holes = np.where(np.arange(15).reshape(5, 3) % 4, _src, 0.0)  # zeros among the factors
_vector = np.array([0, 2, 0, 1])


def _index_reduce(x: Any, axis: int, index: Any, source: Any, reduce: str, **options: Any) -> Any:
    return torch.index_reduce(x, axis, index, source, reduce, **options)


_INDEXED = [
    *[
        _case("scatter_reduce", _x, 0, _index, _src, reduce, include_self=include_self)
        for reduce in ("sum", "prod", "mean", "amax", "amin")
        for include_self in (True, False)
    ],
    _case("scatter_reduce", _x, 0, _index, _holes, "prod"),
    _case("scatter_reduce", _x[:, :2], 1, _index[:4, :2] % 2, _src[:4], "amax"),
    _case("scatter_reduce", _x[0], 0, _index[0], _src[0], "mean"),
    _case("scatter_reduce", _x, 0, _index[:0], _src[:0], "amin"),
    *[
        _case("index_reduce", _x.T, 1, _vector, _more[:, :3].T, reduce, include_self=include_self)
        for reduce in ("prod", "mean", "amax", "amin")
        for include_self in (True, False)
    ],
    _case("masked_scatter", _x, _src[:4] > 0, _more),
    _case("masked_scatter", _x, _src[0] > 0, _more),
    _case("masked_scatter", _x[0], _src[:4] > 0, _more),
    _case("masked_scatter", _x, _src[:4] > 9, _more),
    _case("masked_scatter", _x[:0], _src[:0] > 0, _more),
]

# --- tables ---------------------------------------------------------------------------------------------------------

_table, _shares = arrays(2, (6, 3), (5,))
_rows, _grid = np.array([1, 4, 1, 0, 5]), np.array([[1, 4], [2, 1], [0, 0]])
_offsets = np.array([0, 2, 2])


def _bag(rows: Any, *args: Any, **options: Any) -> Case:
    return Case("embedding_bag", (rows, _table, *args), options, torch=_torch("embedding_bag"))


_TABLES = [
    *[_bag(_grid, mode=mode) for mode in ("sum", "mean", "max")],
    *[_bag(_rows, _offsets, mode=mode) for mode in ("sum", "mean", "max")],
    *[_bag(_rows, _offsets, mode=mode, padding_idx=1) for mode in ("sum", "mean", "max")],
    _bag(_rows, np.array([0, 2, 5]), mode="sum", include_last_offset=True),
    _bag(_rows, _offsets, mode="sum", per_sample_weights=_shares),
]

# --- margins --------------------------------------------------------------------------------------------------------

_scores, _logits, _weight, _far = arrays(3, (4, 5), (4, 5), (5,), (4, 5))
_signs = np.where(_logits > 0, 1.0, -1.0)
_yes = (_logits > 0).astype(np.float64)
_right = np.array([0, 4, 2, 2])
_several = np.array([[3, 0, -1, 1, 2], [-1, 0, 0, 0, 0], [4, 3, 2, 1, 0], [2, -1, 3, -1, 4]])
_REDUCTIONS = ("mean", "sum", "none")
_MARGINS = [
    *[_case("soft_margin_loss", _scores, _signs, reduction=r) for r in _REDUCTIONS],
    _case("soft_margin_loss", _scores[0], _signs[0]),
    _case("soft_margin_loss", 20 * _scores, _signs),
    *[_case("multilabel_soft_margin_loss", _scores, _yes, reduction=r) for r in _REDUCTIONS],
    _case("multilabel_soft_margin_loss", _scores, _yes, weight=np.abs(_weight)),
    _case("multilabel_soft_margin_loss", _scores[0], _yes[0]),
    *[_case("multi_margin_loss", _scores, _right, reduction=r) for r in _REDUCTIONS],
    _case("multi_margin_loss", _scores, _right, p=2, margin=0.7, weight=np.abs(_weight)),
    _case("multi_margin_loss", _scores[0], np.array(3), p=2),
    *[_case("triplet_margin_with_distance_loss", _scores, _logits, _far, margin=2.0, reduction=r) for r in _REDUCTIONS],
    _case("triplet_margin_with_distance_loss", _scores, _logits, _far, swap=True, margin=3.0),
    _case("triplet_margin_with_distance_loss", _scores[0], _logits[0], _far[0], margin=1.5),
    *[_case("multilabel_margin_loss", _scores, _several, reduction=r) for r in _REDUCTIONS],
    _case("multilabel_margin_loss", _scores[0], _several[0]),
    _case("multilabel_margin_loss", _scores[1], _several[1]),
]

# --- distances and slopes -------------------------------------------------------------------------------------------

_points, _others, _w3 = arrays(4, (4, 3), (4, 3), (2, 3, 3))
_channels, _slopes = arrays(5, (2, 3, 4), (3,), low=-1.0)
_DISTANCES = [
    *[_case("pdist", _points, p=p) for p in (2.0, 1.0, 3.0, np.inf)],
    _case("pdist", _points[:1]),
    *[_case("pairwise_distance", _points, _others, p) for p in (2.0, 1.0, 3.0)],
    _case("pairwise_distance", _points, _others, keepdim=True),
    _case("pairwise_distance", _points[0], _others, eps=0.1),
    *[_case("renorm", _points, p, axis, 1.0) for p in (1, 2, 3) for axis in (0, 1)],
    _case("renorm", _w3, 2, -1, 0.5),
    _case("bilinear", _points, _others, _w3),
    _case("bilinear", _points, _others, _w3, _points[0, :2]),
    _case("bilinear", _points[0], _others[0], _w3),
    _case("bilinear", _w3, _w3[:, ::-1], _w3),
    _case("bilinear", _points[:0], _others[:0], _w3),
    _case("prelu", _channels, _slopes),
    _case("prelu", _channels, _slopes[:1]),
    _case("prelu", _points[0], _slopes[:1]),
    _case("prelu", _points, _slopes),
    _case("prelu", _channels[:0], _slopes),
    *[_case("rrelu", _points, lower, upper) for lower, upper in ((0.1, 0.3), (0.0, 0.0), (0.5, 1.0))],
    _case("rrelu", _points),
    _case("rrelu", _points[:0]),
    *[_case("threshold", x, 0.3, 2.5) for x in (_points, _points[0], _points[:0])],
    _case("threshold", _points, -0.3, 0),
    _case("threshold", _w3, 0.1, -1.5),
    *[_case(name, _points, *args) for name in ("hardshrink", "softshrink") for args in ((), (0.2,), (1.3,))],
    *[_case(name, x) for name in ("hardshrink", "softshrink") for x in (_points[:0], _w3)],
    *[_case("softmin", x, axis, torch=F and F.softmin) for x, axis in ((_points, 0), (_w3, 1), (_w3, -1))],
    _case("softmin", _points[0], -1),
    _case("softmin", _points[:0], -1),
]

CASES = [*_INDEXED, *_TABLES, *_MARGINS, *_DISTANCES]
